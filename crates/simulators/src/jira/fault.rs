//! Faults of the simulated Jira.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use heartbeat::simulate::fault::InjectedFault as _;

use super::reply::{self, Reply};

/// The token of every page, for [`Fault::SameToken`].
pub const SAME_TOKEN: &str = "AAAA";

pub type ActiveFault = heartbeat::simulate::fault::ActiveFault<Fault>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// 401: the token is wrong or expired.
    Denied401,
    /// 401 of the gateway: the token has the wrong scope.
    Scope401,
    /// 200 without issues: the token expired, and anonymous access is allowed.
    Anonymous200,
    /// 200 with the sign-in page.
    Html200,
    /// 302 to the sign-in page.
    Redirect302,
    /// 403: a CAPTCHA must be answered first.
    Captcha403,
    Denied403,
    /// 400: the query is wrong.
    Query400,
    /// 400: the project does not exist or is not visible.
    Project400,
    /// 400: the page token expired.
    Token400,
    NotFound404,
    /// 410: the API was removed.
    Removed410,
    /// 429 with `Retry-After: 1`.
    Throttled429,
    /// 429 with `Retry-After: 1847`.
    Throttled429Long,
    /// 429 with the end of the window as a date, two minutes away.
    Throttled429Reset,
    /// 429 as a page of the application server, without a time.
    Throttled429Html,
    /// The correct response with `retry-after: 0` and the remaining limit.
    RetryAfterZero,
    Error500,
    /// 502 with a proxy's page.
    Gateway502,
    Unavailable503,
    /// JSON of another shape.
    WrongShape,
    /// Text that is not JSON, with a JSON type.
    NotJson,
    /// Plain text.
    Text200,
    /// The correct response with a warning about the query.
    Warning200,
    /// Includes issues of another project.
    OtherProject,
    /// Every page has the same token for the next one.
    SameToken,
    /// Numeric dates are rejected.
    NoNumbers,
    /// The correct response, cut in the middle.
    Truncated,
    /// The connection is reset before the request is processed.
    Reset,
    /// The request is processed, and the connection is reset before the response.
    LostAnswer,
    /// No response.
    Hang,
}

impl Fault {
    /// The response that replaces the correct one; `None` if the correct one is modified or
    /// delayed.
    pub fn answer(self, now: Timestamp) -> Option<Reply> {
        let reply = Reply::of_fault(include_str!("faults.json"), &self.name(), |status, parts| {
            reply::error(status, &parts[0])
        })?;
        if self != Self::Throttled429Reset {
            return Some(reply);
        }
        let at = now.checked_add(jiff::SignedDuration::from_secs(120)).unwrap_or(now);
        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Some(reply.with("x-ratelimit-reset", at))
    }

    /// Modifies the correct response.
    pub fn modify(self, reply: Reply) -> Reply {
        let change = |reply: Reply, change: &dyn Fn(&mut Value)| {
            let Ok(mut value) = serde_json::from_slice::<Value>(&reply.body) else { return reply };
            change(&mut value);
            Reply { body: value.to_string().into_bytes(), ..reply }
        };
        match self {
            Self::RetryAfterZero => reply
                .with("retry-after", "0")
                .with("x-ratelimit-limit", "100")
                .with("x-ratelimit-remaining", "90")
                .with("x-ratelimit-interval-seconds", "1"),
            Self::Warning200 => change(reply, &|value| {
                value["warningMessages"] =
                    json!(["The value 'Bugg' does not exist for the field 'issuetype'."]);
            }),
            Self::SameToken => change(reply, &|value| {
                value["nextPageToken"] = json!(SAME_TOKEN);
                value["isLast"] = json!(false);
            }),
            Self::OtherProject => change(reply, &|value| {
                if let Some(issue) = value["issues"].get_mut(0) {
                    issue["key"] = json!("OPS-9");
                    issue["fields"]["project"] = json!({ "key": "OPS", "name": "Operations" });
                }
            }),
            _ => reply,
        }
    }
}

/// 401 with the usual body.
pub fn unauthorized() -> Reply {
    reply::error(401, "Client must be authenticated to access this resource.")
        .with("www-authenticate", "OAuth realm=\"https%3A%2F%2Fcontoso.atlassian.net\"")
}

/// A successful response to an anonymous client.
pub fn anonymous(body: &Value) -> Reply {
    reply::json(body).with("x-seraph-loginreason", "AUTHENTICATED_FAILED")
}
