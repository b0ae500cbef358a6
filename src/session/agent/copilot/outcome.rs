//! Classifies the end of a session.
//!
//! Exit code 0 means nothing: it also follows SIGTERM, SIGINT, SIGHUP, a filtered answer and a
//! truncated one. An interruption shows only in the stream. `session.error` has a class and often a
//! status.

use super::super::outcome::{Dialect, REFUSED_COMMAND_LINE};
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
}
