//! Sessions behind heartbeat's gateway: the provider's key is in no process of a session, and money
//! is bounded while it is spent.

use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::mpsc;

use heartbeat::gateway::prices::AS_OF;
use heartbeat::model::{FailureKind, Outcome, Usd};
use heartbeat::settings::{AgentKind, Config, CopilotProvider, CopilotWire};
use support::answers::finding;
use support::messages_api::{Fault, MessagesApi, Reply};

use super::bench::{Bench, KEY, KINDS, answer, read};

/// Whether the key is in the environment, the arguments or the memory of a process.
fn knows_the_key(pid: u32) -> bool {
    let has = |bytes: &[u8]| memchr::memmem::find(bytes, KEY.as_bytes()).is_some();
    let file = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    if has(&file("environ")) || has(&file("cmdline")) {
        return true;
    }
    let Ok(memory) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return false };
    String::from_utf8_lossy(&file("maps")).lines().any(|line| {
        let mut words = line.split(' ');
        let range = words.next().unwrap_or_default();
        let is_written = words.next().unwrap_or_default().starts_with("rw");
        let Some((from, to)) = range.split_once('-') else { return false };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or_default();
        let (mut at, to) = (number(from), number(to));
        let mut part = vec![0; 1 << 20];
        while is_written && at < to {
            let Ok(read) = memory.read_at(&mut part, at) else { return false };
            if has(&part[..read]) {
                return true;
            }
            // A match across two parts is found from its first part's end.
            at += u64::try_from(read.saturating_sub(KEY.len()).max(4096)).unwrap();
        }
        false
    })
}

/// Files below the session's private folder that contain the key.
fn files_with_the_key(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files_with_the_key(&path));
        } else if memchr::memmem::find(&std::fs::read(&path).unwrap_or_default(), KEY.as_bytes())
            .is_some()
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_a_session_knows_the_providers_key() {
    type Change = fn(&mut Config);
    let wires: [(AgentKind, Change); 6] = [
        (AgentKind::Claude, |_| {}),
        (AgentKind::Codex, |_| {}),
        (AgentKind::Copilot, |_| {}),
        (AgentKind::Copilot, |config| config.copilot.wire = CopilotWire::Responses),
        (AgentKind::Copilot, |config| {
            config.copilot.provider = CopilotProvider::Anthropic;
            config.copilot.base_url = config.copilot.base_url.trim_end_matches("/v1").into();
        }),
        (AgentKind::Copilot, |config| {
            config.copilot.provider = CopilotProvider::Azure;
            config.copilot.base_url = config.copilot.base_url.trim_end_matches("/v1").into();
        }),
    ];
    for (place, (kind, change)) in wires.into_iter().enumerate() {
        let (go, wait) = mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let api = MessagesApi::start(move |request| match request.number {
            0 => Reply::Tools(vec![read(kind, "src/total.rs")]),
            _ => {
                wait.lock().unwrap().recv().ok();
                let found = finding(&["src/total.rs"]);
                let is_claude = kind == AgentKind::Claude;
                if is_claude { Reply::structured(found) } else { answer(&found) }
            }
        });
        let Some(bench) = Bench::new(kind, &api.url(), change) else { continue };
        let look = async {
            let asked = || async { (api.requests().len() > 1).then_some(()) };
            support::until("the second request", asked).await;
            let pids = bench.processes();
            assert!(!pids.is_empty(), "{kind:?} {place}");
            // Elsewhere: the session must be served meanwhile.
            let knows = move || pids.into_iter().find(|pid| knows_the_key(*pid));
            let who = tokio::task::spawn_blocking(knows).await.unwrap();
            assert_eq!(who, None, "{kind:?} {place}");
            let scratch = bench.folder.path().join("state/scratch");
            assert_eq!(files_with_the_key(&scratch), Vec::<std::path::PathBuf>::new());
            go.send(()).unwrap();
        };
        let (end, ()) = tokio::join!(bench.analyse(), look);
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {place} {end:?}");
        assert!(!end.usage.estimated && end.usage.cost > Some(Usd::ZERO), "{:?}", end.usage);
        println!("{kind:?} {place}: the key was found nowhere");
        for request in api.requests() {
            let sent: String = request.headers.iter().map(|(_, value)| value.as_str()).collect();
            assert!(sent.contains(KEY), "{kind:?} {place}: the provider gets the key: {sent}");
            assert!(!sent.contains("session-"), "{kind:?} {place}: {sent}");
        }
    }
    assert!(AS_OF.starts_with("20"));
}

/// Each call costs $0.10; $0.50 are allowed.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_loops_ends_at_its_budget_and_at_its_turns() {
    for kind in KINDS {
        let dear = move |_: &_| {
            Reply::Billed(Box::new(Reply::Tools(vec![read(kind, "src/total.rs")])), 90_000, 1_000)
        };
        let api = MessagesApi::start(dear);
        let Some(bench) = Bench::new(kind, &api.url(), |config| config.analyze.max_turns = 40)
        else {
            continue;
        };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::BudgetReached, "{kind:?} {end:?}");
        let served = Usd::from_dollars(0.1 * api.requests().len() as f64);
        assert_eq!(end.usage.cost, Some(served), "{kind:?}: booked is served");
        assert!(served <= Usd::from_dollars(0.6), "{kind:?}: {served}");
        println!("{kind:?}: a loop of $0.10 calls: served {served}, booked {served}, cap $0.50");

        let cheap = move |_: &_| {
            Reply::Billed(Box::new(Reply::Tools(vec![read(kind, "src/total.rs")])), 10, 1)
        };
        let api = MessagesApi::start(cheap);
        let Some(bench) = Bench::new(kind, &api.url(), |config| config.analyze.max_turns = 5)
        else {
            continue;
        };
        let end = bench.analyse().await;
        assert_eq!(api.requests().len(), 5, "{kind:?} {end:?}");
        assert_eq!(end.outcome, Outcome::AgentError { why: FailureKind::MaxTurns }, "{kind:?}");
    }
}

/// An answer of 4 MB would cost $10.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_end_is_cut_at_the_budget() {
    for kind in KINDS {
        let api = MessagesApi::start(|_| Reply::Text("word ".repeat(800_000)));
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::BudgetReached, "{kind:?} {:?}", end.outcome);
        assert!(end.usage.estimated, "{kind:?}: {:?}", end.usage);
        println!("{kind:?}: an answer of $10: booked {:?}, cap $0.50", end.usage.cost);
        assert_eq!(api.requests().len(), 1, "{kind:?}: the retry is not paid");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_answer_counts_whatever_it_costs() {
    for kind in KINDS {
        let api = MessagesApi::start(|_| {
            Reply::Billed(Box::new(answer(&finding(&["src/total.rs"]))), 1_000_000, 200_000)
        });
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        assert_eq!(end.usage.cost, Some(Usd::from_dollars(3.0)), "{kind:?}: booked is served");
        assert_eq!(api.requests().len(), 1, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_is_booked_and_a_provider_that_never_answers_costs_nothing() {
    for kind in KINDS {
        let api = MessagesApi::start(|request| match request.number {
            0 => Reply::Fault(Fault::DropMidStream),
            _ => Reply::Billed(Box::new(answer(&finding(&["src/total.rs"]))), 1_000, 100),
        });
        let Some(bench) = Bench::new(kind, &api.url(), |config| config.agent.max_retries = 2)
        else {
            continue;
        };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {end:?}");
        let second = Usd::from_dollars(0.002);
        assert!(end.usage.estimated && end.usage.cost > Some(second), "{kind:?} {:?}", end.usage);

        let api = MessagesApi::start(|_| Reply::status(500, "down for maintenance"));
        let Some(bench) = Bench::new(kind, &api.url(), |_| {}) else { continue };
        let end = bench.analyse().await;
        assert_eq!(end.outcome, Outcome::AgentError { why: FailureKind::ApiError }, "{kind:?}");
        assert_eq!(end.usage.cost, Some(Usd::ZERO), "{kind:?}");
        let said = end.stderr_tail.raw();
        assert!(said.contains("down for maintenance"), "{kind:?}: the provider's words: {said}");
    }
}

/// Codex would wait it out in silence, holding its slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_that_the_provider_asks_for_ends_the_session_at_once() {
    for kind in KINDS {
        let api = MessagesApi::start(|_| Reply::Status {
            status: 429,
            message: "slow down",
            headers: vec![("retry-after", "3600".to_owned())],
        });
        let Some(bench) = Bench::new(kind, &api.url(), |config| config.agent.max_retries = 3)
        else {
            continue;
        };
        let end = bench.analyse().await;
        let limit = Outcome::ProviderLimit { why: FailureKind::RateLimit };
        assert_eq!(end.outcome, limit, "{kind:?} {end:?}");
        assert!(end.suspended_until.is_some(), "{kind:?}: the stated time is kept");
        assert!(api.requests().len() <= 2, "{kind:?}: {}", api.requests().len());
        assert_eq!(end.usage.cost, Some(Usd::ZERO), "{kind:?}");
    }
}
