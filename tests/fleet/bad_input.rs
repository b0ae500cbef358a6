//! Everything that can be set up wrongly, and hosts that lie: a clear message, nothing applied twice,
//! nothing lost.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use heartbeat::event::Reason;
use heartbeat::fleet::engine::What;
use heartbeat::fleet::order::{Done, Task};
use heartbeat::model::{Outcome, SessionEnd, SessionId};
use heartbeat::ports::LedgerError;
use heartbeat::session::StopHandle;
use support::conformance::Play;

use crate::both::coordinator;
use crate::rivals::engine;
use crate::world::{HEARTBEAT, OPEN_ITEMS, Process, World, tail};

fn doctor(world: &World, config: &std::path::Path) -> String {
    let output = Command::new(HEARTBEAT)
        .args(["doctor", "--config"])
        .arg(config)
        .arg("--state-dir")
        .arg(world.path().join("coordinator"))
        .env("TRACKER_TOKEN", "t")
        .env("ANTHROPIC_API_KEY", "k")
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn with(world: &World, change: &[(&str, &str)]) -> std::path::PathBuf {
    let config = world.coordinator_config("coordinator", 2);
    let mut text = std::fs::read_to_string(&config).unwrap();
    for (from, to) in change {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(&config, text).unwrap();
    config
}

#[test]
fn a_server_that_is_not_there_leaves_the_queue_as_it_is() {
    let Some(mut world) = World::new(24) else { return };
    world.kill_server();
    let config = with(&world, &[("admission_wait = \"15s\"", "admission_wait = \"2s\"")]);
    let args = ["--once", "--quiet", "--json"];
    let code = Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(code, Some(75), "{}", tail(&world.said("coordinator")));
    assert!(world.figure(OPEN_ITEMS) > 10, "read and queued all the same");
    assert_eq!(world.figure("SELECT count(*) FROM attempts"), 0);
    let said = doctor(&world, &config);
    assert!(said.contains("cannot be reached") && said.contains("[fleet] address"), "{said}");
}

#[test]
fn without_a_host_the_run_says_how_to_start_one() {
    let Some(world) = World::new(24) else { return };
    let config = with(&world, &[("admission_wait = \"15s\"", "admission_wait = \"2s\"")]);
    let args = ["--once", "--quiet", "--json"];
    let code = Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(code, Some(75));
    let said = world.said("coordinator");
    assert!(said.contains("start `heartbeat worker` on one"), "{}", tail(&said));
    assert!(world.figure(OPEN_ITEMS) > 10);
    let said = doctor(&world, &config);
    assert!(said.contains("Temporal 1.") && said.contains("no host waits"), "{said}");
}

#[test]
fn a_wrong_namespace_and_a_wrong_key_are_named() {
    let Some(world) = World::new(24) else { return };
    let config = with(&world, &[("[fleet]\n", "[fleet]\nnamespace = \"nobody\"\n")]);
    let said = doctor(&world, &config);
    assert!(said.contains("create the namespace \"nobody\""), "{said}");
    // `doctor` asks the agent for its version.
    let before = world.agent.starts();
    let key = world.path().join("other-key");
    std::fs::write(&key, "//////////////////////////////////////////8=\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let config = world.config("w0", 4, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let own = world.key().display().to_string();
    std::fs::write(&config, text.replace(&own, &key.display().to_string())).unwrap();
    let _worker = Process::start(&mut world.command(&config, "w0", &["worker"]));
    let config = with(&world, &[("admission_wait = \"15s\"", "admission_wait = \"4s\"")]);
    let args = ["--once", "--quiet", "--json"];
    let code = Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(code, Some(75), "{}", tail(&world.said("coordinator")));
    assert!(world.said("w0").contains("sealed with another key"), "{}", tail(&world.said("w0")));
    assert_eq!(world.agent.starts(), before);
    assert_eq!(world.figure("SELECT count(*) FROM attempts"), 0);
    assert!(world.figure(OPEN_ITEMS) > 10);
}

#[test]
fn a_host_without_the_repository_gives_back_and_another_one_works() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    let config = world.config("w0", 4, "");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("name = \"shop\"", "name = \"other\"")).unwrap();
    let _without = Process::start(&mut world.command(&config, "w0", &["worker"]));
    let _with = world.ready_worker("w1", 4);
    world.run_until_done(2, 3);
    let elsewhere = "SELECT count(*) FROM sessions WHERE stage = 'deep' AND host <> 'w1'";
    assert_eq!(world.figure(elsewhere), 0);
    assert_eq!(
        world.figure("SELECT count(*) FROM attempts"),
        world.figure("SELECT count(*) FROM findings"),
        "no attempt was counted for the host's fault"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_too_large_is_refused_before_anything_is_sent() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let subject = coordinator(&world, |_| {}).await;
    let id = subject.claim().await;
    let mut job = subject.job(id, Play::Answer(0));
    // Does not pack: every byte is another one.
    let noise: Vec<String> =
        (0..120_000).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    job.prompt.user = noise.concat();
    let refused = subject.sessions.perform(job, StopHandle::new().signal()).await;
    let Err(LedgerError::NotStarted(Reason::CannotStart, why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("max_item_tokens"), "{why}");
    assert_eq!(subject.open_rows().await, 0);
}

/// A host that answers with the end of another session, or with something it made up.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_another_session_is_not_used() {
    let Some(world) = World::new(24) else { return };
    let liar = engine(&world);
    let subject = coordinator(&world, |_| {}).await;
    let session = subject.start(Play::Answer(0), &StopHandle::new());
    let taken = liar.poll("heartbeat-default-w1").await.unwrap().unwrap();
    let Ok(Task::Session(order)) = liar.open(What::Task, &taken.id, &taken.input) else {
        panic!("an order")
    };
    let mut end = SessionEnd::empty(Outcome::Completed);
    end.output = Some(serde_json::json!({ "verdicts": [] }));
    let other = SessionId(uuid::Uuid::now_v7());
    assert_ne!(order.session.id, other);
    let done = Done { session: other, host: "liar".into(), end };
    assert!(liar.complete(&taken.id, &taken.token, &done).await.unwrap());
    let (_, ended) = session.await.unwrap();
    assert_eq!(ended.unwrap().outcome, Outcome::Orphaned, "its output is not used");
    assert_eq!(subject.open_rows().await, 0);
    assert!(!liar.complete(&taken.id, &taken.token, &done).await.unwrap(), "and not a second time");
}
