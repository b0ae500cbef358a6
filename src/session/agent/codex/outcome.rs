//! Classifies the end of a session.
//!
//! `turn.completed` with exit code 0 is not sufficient for success: a refusal has no message, and
//! an answer of any shape passes. A failed turn has one sentence and no status, so the cause is
//! parsed from the sentence.

use super::super::outcome::{ApiFailure, Dialect, REFUSED_COMMAND_LINE};
use crate::model::{FailureKind, Outcome};

/// How this CLI reports its ends.
pub struct CodexDialect;

/// The HTTP status in a message such as `unexpected status 401 Unauthorized: …`.
pub fn status_in(message: &str) -> Option<u16> {
    let (_, rest) = message.split_once("status ").or_else(|| message.split_once("status: "))?;
    let number: String = rest.trim_start_matches(": ").chars().take(3).collect();
    number.parse().ok().filter(|status| (100..600).contains(status))
}

impl Dialect for CodexDialect {
    /// Invalid settings and flags are reported on standard error, before the first line.
    fn complaint(&self, stderr: &str) -> Option<Outcome> {
        const COMPLAINTS: [&str; 7] = [
            "error: unexpected argument",
            "error: invalid value",
            "error: the following required arguments",
            "Error loading config",
            "Unknown feature",
            "unknown configuration field",
            "Output schema file",
        ];
        let refused = COMPLAINTS.iter().any(|complaint| stderr.contains(complaint));
        refused.then_some(REFUSED_COMMAND_LINE)
    }

    fn api_failure(&self, failure: &ApiFailure<'_>) -> Outcome {
        let limit = |why| Outcome::ProviderLimit { why };
        let error = |why| Outcome::AgentError { why };
        let text = failure.text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let status = match failure.status {
            0 => status_in(failure.text).unwrap_or_default(),
            status => status,
        };
        match status {
            401 | 403 => return limit(FailureKind::Authentication),
            402 => return limit(FailureKind::Billing),
            429 => return limit(FailureKind::RateLimit),
            _ => {}
        }
        if has(&["quota exceeded", "insufficient_quota", "billing details"]) {
            limit(FailureKind::Billing)
        } else if has(&["missing environment variable", "invalid api key", "incorrect api key"]) {
            limit(FailureKind::Authentication)
        } else if has(&["usage limit", "hit your"]) {
            limit(FailureKind::UsageLimit)
        } else if has(&["rate limit", "too many requests"]) {
            limit(FailureKind::RateLimit)
        } else if status == 404 || (has(&["model"]) && has(&["does not exist", "not found"])) {
            error(FailureKind::ModelNotFound)
        } else if has(&[
            "response_format",
            "json_schema",
            "unsupported parameter",
            "unknown parameter",
        ]) {
            // Same in every request: the schema, or a parameter that this provider does not know.
            error(FailureKind::BadSetting)
        } else if has(&[
            "invalid_request",
            "context_length",
            "context window",
            "too large",
            "maximum length",
        ]) || matches!(status, 400 | 413 | 422)
        {
            error(FailureKind::InvalidRequest)
        } else {
            error(FailureKind::ApiError)
        }
    }
}
