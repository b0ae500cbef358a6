//! Faults of the simulated Jira.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
        let error = |status, text: &str| Some(reply::error(status, text));
        match self {
            Self::Denied401 => Some(unauthorized()),
            Self::Scope401 => {
                let body = json!({ "code": 401, "message": "Unauthorized; scope does not match" });
                let reply = reply::with_status(401, &body);
                Some(reply.with("x-failure-category", "FAILURE_CLIENT_SCOPE_CHECK"))
            }
            Self::Anonymous200 => {
                Some(anonymous(&json!({ "issues": [], "isLast": true, "total": 0 })))
            }
            Self::Html200 => Some(reply::page(200, "Log in - Jira")),
            Self::Redirect302 => {
                Some(Reply::bytes(302, "", vec![]).with("location", "/login.jsp?os_destination=x"))
            }
            Self::Captcha403 => {
                Some(reply::page(403, "Forbidden (403)").with(
                    "x-authentication-denied-reason",
                    "CAPTCHA_CHALLENGE; login-url=/login.jsp",
                ))
            }
            Self::Denied403 => error(403, "You do not have permission to view this project."),
            Self::Query400 => error(
                400,
                "Field 'sevrity' does not exist or you do not have permission to view it.",
            ),
            Self::Project400 => {
                error(400, "The value 'PARCEL' does not exist for the field 'project'.")
            }
            Self::Token400 => error(400, "The provided nextPageToken is invalid or has expired."),
            Self::NotFound404 => Some(reply::page(404, "Oops, you've found a dead link")),
            Self::Removed410 => error(
                410,
                "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API. A full migration guideline is available at https://developer.atlassian.com/changelog/#CHANGE-2046",
            ),
            Self::Throttled429 => Some(throttled().with("retry-after", "1")),
            Self::Throttled429Long => Some(throttled().with("retry-after", "1847")),
            Self::Throttled429Reset => {
                let at = now.checked_add(jiff::SignedDuration::from_secs(120)).unwrap_or(now);
                let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                Some(throttled().with("x-ratelimit-reset", at))
            }
            Self::Throttled429Html => Some(reply::page(429, "HTTP Status 429 – Too Many Requests")),
            Self::Error500 => error(500, "Internal server error"),
            Self::Gateway502 => Some(reply::page(502, "502 Bad Gateway")),
            Self::Unavailable503 => Some(reply::page(503, "Jira is starting up")),
            Self::WrongShape => Some(reply::json(&json!({ "values": [1, 2] }))),
            Self::NotJson => {
                Some(Reply::bytes(200, "application/json", b"{\"issues\": [ oops".to_vec()))
            }
            Self::Text200 => Some(Reply::bytes(200, "text/plain", b"It works!".to_vec())),
            _ => None,
        }
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

fn throttled() -> Reply {
    reply::error(429, "Rate limit exceeded").with("ratelimit-reason", "jira-burst-based")
}
