//! Classification of ends: refusals, truncated answers, signals and answers in the wrong format are
//! not a success, whatever the exit code is.

use heartbeat::model::{FailureKind, Outcome, Usd};
use heartbeat::settings::AgentKind;
use support::answers::finding;
use support::messages_api::{Fault, MessagesApi, Reply};

use super::bench::{Bench, KINDS, answer, read};

#[tokio::test(flavor = "multi_thread")]
async fn an_analysis_reads_a_file_answers_and_is_metered() {
    for kind in KINDS {
        let api = MessagesApi::start(move |request| match request.number {
            0 => Reply::Tools(vec![read(kind, "src/total.rs")]),
            _ => Reply::Billed(Box::new(answer(&finding(&["src/total.rs"]))), 2_000, 100),
        });
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        // Copilot requires absolute paths.
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        assert_eq!(end.output.unwrap()["risk"], "low", "{kind:?}");
        assert_eq!(api.requests().len(), 2, "{kind:?}");
        assert!(
            !end.usage.estimated && end.usage.cost > Some(Usd::ZERO),
            "{kind:?} {:?}",
            end.usage
        );
        assert!(end.usage.output_tokens >= 100, "{kind:?} {:?}", end.usage);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_a_filtered_and_a_cut_answer_are_no_success() {
    let stopped = |text: &str, reason| Reply::Stopped { text: text.to_owned(), reason };
    let cases = [
        ("refusal", stopped("I cannot help with that.", "refusal")),
        ("filtered", stopped("", "content_filter")),
        ("cut", stopped("{\"summary\": \"The to", "max_tokens")),
    ];
    for kind in KINDS {
        for (name, reply) in &cases {
            let reply = reply.clone();
            let api = MessagesApi::start(move |_| reply.clone());
            let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
            let end = bench.analyse().await;
            assert!(!end.outcome.is_success(), "{kind:?} {name}: {end:?}");
            let judged = matches!(
                end.outcome,
                Outcome::BadOutput { .. }
                    | Outcome::AgentError {
                        why: FailureKind::Refused | FailureKind::MaxOutputTokens
                    }
            );
            assert!(judged, "{kind:?} {name}: {:?}", end.outcome);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_wrong_form_is_asked_for_once_more_and_both_are_paid() {
    for kind in KINDS {
        let api = MessagesApi::start(|request| match request.number {
            0 => Reply::Billed(Box::new(Reply::Text("It is a rounding error.".into())), 1_000, 50),
            _ => Reply::Billed(Box::new(answer(&finding(&["src/total.rs"]))), 1_000, 50),
        });
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        assert_eq!((api.requests().len(), bench.spawned()), (2, 2), "{kind:?}");
        let asked = api.requests()[1].body.to_string();
        assert!(asked.contains("It is a rounding error."), "{kind:?}: {asked}");
        assert_eq!(end.usage.output_tokens, 100, "{kind:?}: both");

        let api = MessagesApi::start(|_| Reply::Text("Still only words.".into()));
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        assert!(matches!(end.outcome, Outcome::BadOutput { .. }), "{kind:?} {end:?}");
        assert_eq!(bench.spawned(), 2, "{kind:?}: one more question, not more");
    }
}

/// Codex dies by the signal, Copilot exits with 0.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_from_outside_is_an_interruption_whatever_the_exit_code() {
    for kind in KINDS {
        let api = MessagesApi::start(|_| Reply::Fault(Fault::Hang));
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let interrupt = async {
            let asked = || async { (!api.requests().is_empty()).then_some(()) };
            support::until("a request", asked).await;
            // A helper that it starts is for a moment a copy of it.
            let leader = || async {
                let agents: Vec<u32> = bench.processes().into_iter().filter(is_agent).collect();
                let [leader] = agents[..] else { return None };
                Some(leader)
            };
            let leader = support::until("the agent's process, alone", leader).await;
            let pid = nix::unistd::Pid::from_raw(i32::try_from(leader).unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
        };
        let (end, ()) = tokio::join!(bench.analyse(), interrupt);
        let expected = match kind {
            AgentKind::Codex => Outcome::Signal { signal: 15 },
            _ => Outcome::AgentError { why: FailureKind::Interrupted },
        };
        assert_eq!(end.outcome, expected, "{kind:?} {end:?}");
    }
}

/// Its keeper has the same command line and environment.
fn is_agent(pid: &u32) -> bool {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    program.ends_with("codex") || program.ends_with("copilot")
}
