//! Faults of the simulated tracker.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reply::{Reply, error_body};

pub type ActiveFault = crate::simulate::fault::ActiveFault<Fault>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// 203 with the sign-in page: the response to an expired token.
    Html203,
    /// 200 with the sign-in page.
    Html200,
    /// 302 to the sign-in page.
    Redirect302,
    /// 401 with an empty body.
    Empty401,
    /// 401 with `TF400813`.
    Denied401,
    Denied403,
    /// 404 for the project, `TF200016`.
    Project404,
    /// 404 as plain text: no such controller.
    Controller404,
    /// 404 `TF401232`: one item does not exist.
    Gone404,
    /// 429 with `Retry-After: 1`.
    Throttled429,
    /// 429 with `Retry-After: 120`.
    Throttled429Long,
    /// 429 without `Retry-After`.
    Throttled429Bare,
    /// The correct response with `Retry-After: 1` and used-up limits.
    Delayed200,
    /// 503 whose JSON begins with a byte order mark.
    Bom503,
    /// 503 `TF24668`: the collection is stopped.
    Stopped503,
    /// 500 without a known code.
    Error500,
    /// 502 with a proxy's page.
    Gateway502,
    /// 400 `VS402337`: more rows than allowed.
    TooMany400,
    /// 400 `VS402335`: the query took too long.
    TooSlow400,
    Timeout408,
    /// 500 `VS402612`: a macro without a team.
    Team500,
    /// 400 with an unknown code.
    Query400,
    /// 400 for the API version.
    Version400,
    /// 412: the item has changed.
    Conflict412,
    /// Every second entry of a batch is null.
    Nulls,
    /// JSON of another shape.
    WrongShape,
    /// Text that is not JSON, with a JSON type.
    NotJson,
    /// Plain text.
    Text200,
    /// The correct response, a second late.
    Slow,
    /// The correct response, cut in the middle.
    Truncated,
    /// The connection is reset before the response.
    Reset,
    /// No response.
    Hang,
}

impl Fault {
    /// The response that replaces the correct one; `None` if the correct one is modified or
    /// delayed.
    pub fn answer(self, path: &str) -> Option<Reply> {
        let html = |status| Some(Reply::sign_in(status));
        let error = |status, key: &str, text: &str| Some(Reply::error(status, key, text));
        match self {
            Self::Html203 => html(203),
            Self::Html200 => html(200),
            Self::Redirect302 => {
                let to = "https://spsprodweu1.vssps.visualstudio.com/_signin?realm=dev.azure.com";
                Some(Reply::page(302, "Object moved").with("location", to))
            }
            Self::Empty401 => {
                let realm = "Basic realm=\"https://tfsprodweu1.app.visualstudio.com/\"";
                Some(Reply::bytes(401, "", vec![]).with("www-authenticate", realm))
            }
            Self::Denied401 => error(
                401,
                "UnauthorizedRequestException",
                "TF400813: The user 'aaaaaaaa' is not authorized to access this resource.",
            ),
            Self::Denied403 => error(
                403,
                "AccessCheckException",
                "TF50309: You do not have the following permissions: View work items in this node.",
            ),
            Self::Project404 => {
                let text = "TF200016: The following project does not exist: Parcel.";
                error(404, "ProjectDoesNotExistWithNameException", text)
            }
            Self::Controller404 => Some(Reply::no_controller(path)),
            Self::Gone404 => {
                let text = "TF401232: Work item 41 does not exist, or you do not have permissions \
                            to read it.";
                error(404, "WorkItemUnauthorizedAccessException", text)
            }
            Self::Throttled429 => Some(blocked().with("retry-after", "1")),
            Self::Throttled429Long => Some(blocked().with("retry-after", "120")),
            Self::Throttled429Bare => Some(blocked()),
            Self::Gateway502 => Some(Reply::page(502, "502 Bad Gateway")),
            Self::Conflict412 => error(
                412,
                "TestPatchOperationFailedException",
                "VS403351: Test Operation for path /rev failed, value 5 was not equal to test \
                 value 4.",
            ),
            _ => self.server_error().or_else(|| self.query_error()),
        }
    }

    fn server_error(self) -> Option<Reply> {
        let with_mark = |text: &str| {
            let json = error_body("VssServiceException", text).to_string();
            let body = format!("\u{FEFF}{json}").into_bytes();
            Some(Reply::bytes(503, "application/json", body))
        };
        match self {
            Self::Bom503 => with_mark("The service is unavailable."),
            Self::Stopped503 => {
                let text = "TF24668: The following team project collection is stopped: Parcel.";
                let header = "TF24668%3A%20The%20collection%20is%20stopped.";
                with_mark(text).map(|reply| reply.with("x-tfs-serviceerror", header))
            }
            Self::Error500 => {
                Some(Reply::error(500, "TeamFoundationServiceException", "An error occurred."))
            }
            Self::Team500 => {
                let text = "VS402612: The macro '@CurrentIteration' is not supported without a \
                            team context.";
                Some(Reply::error(500, "WorkItemTrackingQueryException", text))
            }
            _ => None,
        }
    }

    fn query_error(self) -> Option<Reply> {
        let error = |key: &str, text: &str| Some(Reply::error(400, key, text));
        match self {
            Self::TooMany400 => Some(too_many_rows(20_000)),
            Self::TooSlow400 => {
                let text = "VS402335: The request timed out. Try again with a smaller result set.";
                error("WorkItemTrackingQueryTimeoutException", text)
            }
            Self::Timeout408 => Some(Reply::bytes(408, "text/plain", b"Request Timeout".to_vec())),
            Self::Query400 => error(
                "SyntaxErrorException",
                "TF51006: The query statement is missing a FROM clause. The error is caused by «x».",
            ),
            Self::Version400 => error(
                "VssVersionOutOfRangeException",
                "The requested REST API version of 7.1 is out of range for this server. The latest \
                 REST API version this server supports is 6.0.",
            ),
            Self::WrongShape => Some(Reply::json(&serde_json::json!({ "items": { "of": 3 } }))),
            Self::NotJson => {
                let body = b"{\"count\": 2, \"value\": [ oops".to_vec();
                Some(Reply::bytes(200, "application/json; charset=utf-8", body))
            }
            Self::Text200 => Some(Reply::bytes(200, "text/plain", b"It works!".to_vec())),
            _ => None,
        }
    }

    /// Modifies the correct response.
    pub fn modify(self, reply: Reply, reset_at: i64) -> Reply {
        match self {
            Self::Delayed200 => reply
                .with("retry-after", "1")
                .with("x-ratelimit-resource", "Concurrency/VSID")
                .with("x-ratelimit-delay", "1.500")
                .with("x-ratelimit-limit", "200")
                .with("x-ratelimit-remaining", "0")
                .with("x-ratelimit-reset", reset_at.to_string()),
            Self::Nulls => with_nulls(reply),
            _ => reply,
        }
    }

    /// Delay of the correct response.
    pub fn delay(self) -> Duration {
        if self == Self::Slow { Duration::from_secs(1) } else { Duration::ZERO }
    }
}

fn blocked() -> Reply {
    let text = "Request was blocked due to exceeding usage of resource 'Concurrency' in namespace \
                'VSID'. For more information on why your request was blocked, see the topic \
                \"Rate limits\".";
    Reply::error(429, "RequestBlockedException", text)
}

/// The response to a query with too many rows.
pub fn too_many_rows(limit: usize) -> Reply {
    let text = format!(
        "VS402337: The number of work items returned exceeds the size limit of {limit}. Change the \
         query to return fewer items."
    );
    Reply::error(400, "WorkItemTrackingQueryResultSizeLimitExceededException", &text)
}

fn with_nulls(reply: Reply) -> Reply {
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(&reply.body) else {
        return reply;
    };
    if let Some(entries) = value.get_mut("value").and_then(|entries| entries.as_array_mut()) {
        entries.iter_mut().skip(1).step_by(2).for_each(|entry| *entry = serde_json::Value::Null);
    }
    Reply { body: value.to_string().into_bytes(), ..reply }
}
