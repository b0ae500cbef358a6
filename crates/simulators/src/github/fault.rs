//! Faults of the simulated GitHub.

use heartbeat::simulate::fault::InjectedFault as _;
use serde::{Deserialize, Serialize};

use super::reply::{self, Reply};

pub type ActiveFault = heartbeat::simulate::fault::ActiveFault<Fault>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// 401 `Bad credentials`.
    Bad401,
    /// 403: the token lacks a permission.
    Denied403,
    /// 403: single sign-on.
    Sso403,
    /// 403: the rate limit is used up for half an hour.
    Limit403,
    /// 429 with the same text, renewed in a second.
    Limit429,
    /// 403: secondary limit with `Retry-After: 1`.
    Secondary403,
    /// 403: secondary limit without a stated time.
    Secondary403Bare,
    /// 429 with the older text.
    Abuse429,
    NotFound404,
    /// 410: issues are disabled.
    Disabled410,
    /// 451: blocked.
    Blocked451,
    Invalid422,
    /// 400: an unknown API version.
    Version400,
    Error500,
    /// 502 with an HTML page.
    Unicorn502,
    /// 503 with `Retry-After: 1`.
    Unavailable503,
    /// An HTML page with a JSON content type.
    HtmlAsJson,
    /// 200 with an HTML page.
    Html200,
    /// JSON of another shape.
    WrongShape,
    /// 301 to another server.
    Elsewhere301,
    /// 301 to itself.
    Circle301,
    /// A write succeeds, but its response is lost.
    LostAnswer,
    /// Labels are accepted and dropped, as without push permission.
    NoLabels,
    /// The correct response, cut in the middle.
    Truncated,
    /// The connection is reset before the response.
    Reset,
    /// No response.
    Hang,
}

const USED_UP: &str = "API rate limit exceeded for user ID 583231.";

impl Fault {
    /// The response that replaces the correct one; `None` if the correct one is modified.
    pub fn answer(self, address: &str, now: i64) -> Option<Reply> {
        let spent = |reply: Reply, reset: i64| {
            reply
                .with("x-ratelimit-remaining", "0")
                .with("x-ratelimit-limit", "5000")
                .with("x-ratelimit-resource", "core")
                .with("x-ratelimit-reset", reset.to_string())
        };
        match self {
            Self::Limit403 => Some(spent(reply::error(403, USED_UP), now + 1800)),
            Self::Limit429 => Some(spent(reply::error(429, USED_UP), now + 1)),
            Self::Elsewhere301 => {
                Some(reply::moved(301, "https://attacker.example/repos/x/y/issues".into()))
            }
            Self::Circle301 => Some(reply::moved(301, address.to_owned())),
            _ => Reply::of_fault(include_str!("faults.json"), &self.name(), |status, parts| {
                reply::error(status, &parts[0])
            }),
        }
    }
}
