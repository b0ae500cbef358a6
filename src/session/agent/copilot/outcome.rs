//! Classifies the end of a session.
//!
//! Exit code 0 means nothing: it also follows SIGTERM, SIGINT, SIGHUP, a filtered answer and a
//! truncated one. An interruption shows only in the stream. `session.error` has a class and often a
//! status.

use super::super::outcome::{ApiFailure, Dialect, REFUSED_COMMAND_LINE};
use crate::model::{FailureKind, Outcome};

/// How this CLI reports its ends.
pub struct CopilotDialect;

impl Dialect for CopilotDialect {
    fn complaint(&self, stderr: &str) -> Option<Outcome> {
        const REFUSED: [&str; 4] = [
            "error: unexpected argument",
            "error: Invalid value for",
            "BYOK providers require",
            "Offline mode requires",
        ];
        let says = |words: &&str| stderr.contains(*words);
        if REFUSED.iter().any(says) {
            Some(REFUSED_COMMAND_LINE)
        } else if says(&"No authentication information found") {
            Some(Outcome::ProviderLimit { why: FailureKind::Authentication })
        } else {
            // GitHub could not be reached to validate the token.
            let unreached = says(&"Authentication token found but could not be validated");
            unreached.then_some(Outcome::AgentError { why: FailureKind::ApiError })
        }
    }

    /// Uses the status first, then the class, then the text.
    fn api_failure(&self, failure: &ApiFailure<'_>) -> Outcome {
        let limit = |why| Outcome::ProviderLimit { why };
        let error = |why| Outcome::AgentError { why };
        let text = failure.text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let reported =
            failure.last_error.strip_prefix("status ").and_then(|status| status.parse().ok());
        let status =
            if failure.status == 0 { reported.unwrap_or_default() } else { failure.status };
        match (status, failure.kind) {
            (402, _) | (_, "quota") => limit(FailureKind::Billing),
            (401 | 403, _) | (_, "authentication" | "authorization") => {
                limit(FailureKind::Authentication)
            }
            (429, _) | (_, "rate_limit") => limit(FailureKind::RateLimit),
            (404, _) => error(FailureKind::ModelNotFound),
            (400 | 413 | 422, _) => error(FailureKind::InvalidRequest),
            _ if has(&["no response was returned"]) => error(FailureKind::Refused),
            _ if has(&["prompt budget", "context window"]) => error(FailureKind::InvalidRequest),
            _ => error(FailureKind::ApiError),
        }
    }
}
