//! Faults of the simulated GitHub.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::reply::{self, Reply, error_body};

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

const SECONDARY: &str = "You have exceeded a secondary rate limit. Please wait a few minutes before \
                         you try again. If you reach out to GitHub Support for help, please include \
                         the request ID.";
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
        Some(match self {
            Self::Bad401 => reply::error(401, "Bad credentials"),
            Self::Denied403 => {
                let text = "Resource not accessible by personal access token";
                reply::error(403, text).with("x-accepted-github-permissions", "issues=read")
            }
            Self::Sso403 => {
                let text = "Resource protected by organization SAML enforcement. You must grant your \
                            Personal Access token access to this organization.";
                let url =
                    "required; url=https://github.com/orgs/contoso/sso?authorization_request=A";
                reply::error(403, text).with("x-github-sso", url)
            }
            Self::Limit403 => spent(reply::error(403, USED_UP), now + 1800),
            Self::Limit429 => spent(reply::error(429, USED_UP), now + 1),
            Self::Secondary403 => reply::error(403, SECONDARY).with("retry-after", "1"),
            Self::Secondary403Bare => reply::error(403, SECONDARY),
            Self::Abuse429 => reply::error(429, "You have triggered an abuse detection mechanism.")
                .with("retry-after", "1"),
            Self::NotFound404 => reply::not_found(),
            Self::Disabled410 => reply::error(410, "Issues are disabled for this repo"),
            Self::Blocked451 => reply::error(451, "Repository access blocked"),
            Self::Invalid422 => {
                let mut body = error_body(422, "Validation Failed");
                body["errors"] =
                    json!([{ "resource": "Issue", "field": "since", "code": "invalid" }]);
                Reply::with_status(422, &body)
            }
            Self::Version400 => reply::error(400, "\"2022-11-28\" is not a supported API version."),
            Self::Error500 => reply::error(500, "Server Error"),
            Self::Unicorn502 => Reply::page(502, "Unicorn! &middot; GitHub"),
            Self::Unavailable503 => {
                reply::error(503, "Service unavailable").with("retry-after", "1")
            }
            Self::HtmlAsJson => Reply {
                content_type: "application/json; charset=utf-8".into(),
                ..Reply::page(200, "Unicorn!")
            },
            Self::Html200 => Reply::page(200, "GitHub: Let's build from here"),
            Self::WrongShape => Reply::json(&json!({ "items": { "of": 3 } })),
            Self::Elsewhere301 => {
                reply::moved(301, "https://attacker.example/repos/x/y/issues".into())
            }
            Self::Circle301 => reply::moved(301, address.to_owned()),
            Self::LostAnswer | Self::NoLabels | Self::Truncated | Self::Reset | Self::Hang => {
                return None;
            }
        })
    }
}
