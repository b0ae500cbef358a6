//! Classifies the end of a session.
//!
//! The CLI reports `success` for many failures: an API failure has subtype `success`, SIGINT exits
//! with 0, a model that ignores the schema exits with 0 and no error, a prompt that begins with a
//! slash never reaches the model and exits with 0. So success requires exit code, `is_error`,
//! `terminal_reason` and structured output together; every other combination has its own outcome.

use super::super::Exit;
use super::super::outcome::{Dialect, REFUSED_COMMAND_LINE};
use crate::model::Outcome;

/// How this CLI reports its ends.
pub struct ClaudeDialect;

impl Dialect for ClaudeDialect {
    /// The CLI turns SIGTERM, SIGHUP and SIGINT into exit codes of 128 plus the signal number.
    fn exit(&self, exit: Exit) -> Outcome {
        match exit {
            Exit::Signal(signal) => Outcome::Signal { signal },
            Exit::Code(code @ 129..=159) => Outcome::Signal { signal: code - 128 },
            Exit::Code(code) => Outcome::ExitCode { code },
        }
    }

    /// The CLI prints only `error: unknown option '--x'` or `error: option '--x <y>' argument 'z'
    /// is invalid`.
    fn complaint(&self, stderr: &str) -> Option<Outcome> {
        let mut complaints = stderr.lines().filter_map(|line| line.strip_prefix("error: "));
        complaints.any(|line| line.contains("option '-")).then_some(REFUSED_COMMAND_LINE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::outcome::classify;
    use super::super::super::{AgentResult, Ending, Expected, Transcript};
    use super::*;
    use crate::model::{FailureKind, Untrusted};

    fn ended_with(exit: Exit, result: Option<AgentResult>, last_error: &str) -> Outcome {
        let transcript = Transcript {
            exit,
            result,
            json_lines: 3,
            last_error: (!last_error.is_empty()).then(|| last_error.to_owned()),
            stderr_tail: Untrusted::default(),
        };
        classify(&ClaudeDialect, &transcript, Expected::Structured)
    }

    fn good() -> AgentResult {
        AgentResult {
            ending: Ending::Done,
            structured_output: Some(Untrusted::new(json!({}))),
            ..AgentResult::default()
        }
    }

    fn failed(status: u16, text: &str) -> Option<AgentResult> {
        Some(AgentResult {
            ending: Ending::ApiError { status: (status > 0).then_some(status), kind: None },
            text: Some(text.into()),
            structured_output: None,
            ..good()
        })
    }

    #[test]
    fn success_needs_all_four_parts() {
        assert_eq!(ended_with(Exit::Code(0), Some(good()), ""), Outcome::Completed);
        let spoilt: [fn(&mut AgentResult); 3] = [
            |result| result.ending = Ending::Unknown,
            |result| result.ending = Ending::NotSent,
            |result| result.structured_output = None,
        ];
        for spoil in spoilt {
            let mut result = good();
            spoil(&mut result);
            assert!(!ended_with(Exit::Code(0), Some(result), "").is_success());
        }
        assert_eq!(ended_with(Exit::Code(1), Some(good()), ""), Outcome::ExitCode { code: 1 });
        assert_eq!(ended_with(Exit::Signal(9), Some(good()), ""), Outcome::Signal { signal: 9 });
    }

    #[test]
    fn provider_limits_are_distinguished_from_the_items_own_failures() {
        use FailureKind::{
            ApiError, Authentication, BadSetting, Billing, InvalidRequest, MaxOutputTokens,
            ModelNotFound, RateLimit, Refused, UsageLimit,
        };
        let limit = |why| Outcome::ProviderLimit { why };
        let error = |why| Outcome::AgentError { why };
        for (status, last_error, text, expected) in [
            (429, "rate_limit", "API Error: Request rejected (429)", limit(RateLimit)),
            (429, "rate_limit", "You've hit your limit · resets 3pm", limit(UsageLimit)),
            (429, "usage_limit", "", limit(UsageLimit)),
            (0, "", "Claude AI usage limit reached|1731726000", limit(UsageLimit)),
            (401, "authentication_failed", "Invalid API key", limit(Authentication)),
            (0, "authentication_failed", "Not logged in", limit(Authentication)),
            (403, "unknown", "", limit(Authentication)),
            (400, "billing_error", "Credit balance is too low", limit(Billing)),
            (529, "server_error", "Overloaded", error(ApiError)),
            (0, "server_error", "Connection dropped", error(ApiError)),
            (404, "model_not_found", "", error(ModelNotFound)),
            (413, "invalid_request", "", error(InvalidRequest)),
            (400, "unknown", "messages: bad", error(InvalidRequest)),
            (400, "invalid_request", "API Error: 400 prompt is too long", error(InvalidRequest)),
            (400, "unknown", "API Error: 400 thinking.type: not here", error(BadSetting)),
            (400, "unknown", "API Error: 400 max_tokens: 128000 > 64000", error(BadSetting)),
            (0, "max_output_tokens", "", error(MaxOutputTokens)),
            (0, "refusal", "", error(Refused)),
        ] {
            let outcome = ended_with(Exit::Code(1), failed(status, text), last_error);
            assert_eq!(outcome, expected, "{status} {last_error:?} {text:?}");
        }
    }

    #[test]
    fn an_end_without_a_result_is_named_by_how_the_process_went() {
        let bad = |why| Outcome::BadOutput { why };
        assert_eq!(ended_with(Exit::Code(0), None, ""), bad(FailureKind::NoResult));
        assert_eq!(ended_with(Exit::Code(143), None, ""), Outcome::Signal { signal: 15 });
        assert_eq!(ended_with(Exit::Signal(9), None, ""), Outcome::Signal { signal: 9 });
        assert_eq!(ended_with(Exit::Code(1), None, ""), Outcome::ExitCode { code: 1 });
    }

    #[test]
    fn a_refused_command_line_is_no_fault_of_the_item() {
        let end = |code, json_lines, stderr: &str| {
            let transcript = Transcript {
                exit: Exit::Code(code),
                result: None,
                json_lines,
                last_error: None,
                stderr_tail: stderr.into(),
            };
            classify(&ClaudeDialect, &transcript, Expected::Structured)
        };
        let refused = Outcome::SpawnFailed { why: FailureKind::CommandLine };
        assert_eq!(end(1, 0, "error: unknown option '--nonsense'"), refused);
        assert_eq!(end(127, 0, "sh: claude: not found"), refused);
        assert!(refused.is_configuration());
        for other in [
            end(1, 0, "Error: Session ID is already in use."),
            end(1, 2, "error: unknown option '--nonsense'"),
        ] {
            assert_eq!(other, Outcome::ExitCode { code: 1 });
        }
    }
}
