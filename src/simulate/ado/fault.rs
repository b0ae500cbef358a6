//! Faults of the simulated tracker.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reply::Reply;
use crate::simulate::fault::InjectedFault as _;

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
        match self {
            Self::Controller404 => Some(Reply::no_controller(path)),
            Self::TooMany400 => Some(too_many_rows(20_000)),
            _ => Reply::of_fault(include_str!("faults.json"), &self.name(), |status, parts| {
                Reply::error(status, &parts[0], &parts[1])
            }),
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
