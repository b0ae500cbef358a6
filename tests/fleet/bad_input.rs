//! Every kind of misconfiguration, and hosts that lie: a clear message, nothing applied twice,
//! nothing lost.

use std::process::Command;

use heartbeat::event::Reason;
use heartbeat::fleet::engine::{Cover, Ended, Engine, Start, What};
use heartbeat::fleet::order::{Done, Offer, Task, WIRE};
use heartbeat::model::{Outcome, SessionEnd, SessionId};
use heartbeat::ports::LedgerError;
use heartbeat::session::StopHandle;
use support::conformance::Play;

use crate::both::coordinator;
use crate::rivals::engine;
use crate::roles::{claimed, taken_over};
use crate::world::{HEARTBEAT, OPEN_ITEMS, Process, Watch, World, public, tail};

pub fn doctor(world: &World, config: &std::path::Path) -> String {
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

pub fn with(world: &World, change: &[(&str, &str)]) -> std::path::PathBuf {
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

/// With `when_down = "local"` the coordinator runs them itself, within the same limit, and uses its
/// hosts again once the server is back.
#[test]
fn while_the_server_is_down_sessions_can_run_here() {
    let Some(mut world) = World::new(40) else { return };
    world.agent.set_pace(100);
    let watch = Watch::over(&world);
    world.kill_server();
    let local = ("[fleet]\n", "[fleet]\nwhen_down = \"local\"\n");
    let few = ("max_deep_per_run = 200", "max_deep_per_run = 4");
    let config = with(&world, &[local, few]);
    let args = ["--once", "--quiet", "--json"];
    Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(
        world.figure("SELECT count(*) FROM findings"),
        4,
        "{}",
        tail(&world.said("coordinator"))
    );
    assert_eq!(world.figure("SELECT count(*) FROM sessions WHERE host IS NOT NULL"), 0);
    world.start_server();
    let _worker = world.ready_worker("w0", 4);
    let config = with(&world, &[local]);
    let again = Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(again, Some(0), "{}", tail(&world.said("coordinator")));
    assert!(world.figure("SELECT count(*) FROM sessions WHERE host = 'w0'") > 4);
    world.assert_whole(&watch, 2);
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
    assert!(said.contains("Temporal 1.") && said.contains("no host is waiting"), "{said}");
}

/// A host that the coordinator does not know: both say what to write where.
#[test]
fn a_wrong_key_is_named() {
    let Some(world) = World::new(24) else { return };
    let key = world.path().join("other-key");
    let config = world.config("w0", 4, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let own = world.key_of("w0").display().to_string();
    std::fs::write(&config, text.replace(&own, &key.display().to_string())).unwrap();
    let _worker = Process::start(&mut world.command(&config, "w0", &["worker"]));
    let config = with(&world, &[("admission_wait = \"15s\"", "admission_wait = \"4s\"")]);
    let args = ["--once", "--quiet", "--json"];
    let code = Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(code, Some(75), "{}", tail(&world.said("coordinator")));
    // As in the text, whatever the log's format escapes.
    let line = format!("w0 = \"{}\" in [fleet.workers]", public(&key));
    for who in ["w0", "coordinator"] {
        let said = world.said(who).replace('\\', "");
        assert!(said.contains(&line), "{who}: {}", tail(&said));
    }
    assert_eq!(world.agent.starts(), 0);
    // It tries the agent itself.
    let said = doctor(&world, &config);
    assert!(said.contains("did not prove its key"), "not counted as ready: {said}");
    assert!(said.contains(&line), "{said}");
    assert_eq!(world.figure("SELECT count(*) FROM attempts"), 0);
    assert!(world.figure(OPEN_ITEMS) > 10);
}

/// A worker that does not know its coordinator, or has its key, does not start.
#[test]
fn a_worker_without_its_role_says_what_to_write() {
    let Some(world) = World::new(24) else { return };
    let config = world.config("w0", 4, "");
    let text = std::fs::read_to_string(&config).unwrap();
    let (own, coordinator) = (public(&world.key_of("w0")), public(&world.key()));
    for (from, to, expected) in [
        (format!("[\"{coordinator}\"]"), "[]".to_owned(), "into [fleet] coordinator"),
        (coordinator.clone(), own.clone(), "this host has the coordinator's key"),
    ] {
        std::fs::write(&config, text.replace(&from, &to)).unwrap();
        let code = Process::start(&mut world.command(&config, "w0", &["worker"])).wait();
        assert_eq!(code, Some(2), "{}", tail(&world.said("w0")));
        assert!(world.said("w0").contains(expected), "{}", tail(&world.said("w0")));
    }
    assert!(world.said("w0").contains(&own), "its public key, for the coordinator");
    let key = Process::start(&mut world.command(&config, "w9", &["worker", "--public-key"])).wait();
    assert_eq!(key, Some(0));
    assert_eq!(world.said("w9").trim(), own);
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

/// Clones the code base.
fn clone_of_shop(world: &World, name: &str) -> std::path::PathBuf {
    let copy = world.path().join(name);
    let from = world.path().join("shop").display().to_string();
    support::git(world.path(), &["clone", "-q", &from, name]);
    copy
}

fn commit_to_shop(world: &World) {
    let shop = world.path().join("shop");
    std::fs::write(shop.join("src/cart.rs"), "pub fn total() -> u32 { 1 }\n").unwrap();
    support::git(&shop, &["commit", "-qam", "second"]);
}

fn with_mirror(world: &World, host: &str, mirror: &std::path::Path) -> Process {
    let config = world.config(host, 4, "");
    let own = format!("path = {:?} }}", world.path().join("shop").display().to_string());
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains(&own));
    let other = format!("path = {:?} }}", mirror.display().to_string());
    std::fs::write(&config, text.replace(&own, &other)).unwrap();
    Process::start(&mut world.command(&config, host, &["worker"]))
}

/// The coordinator's commit is newer than a host's copy: a host that can fetch it does, a host that
/// cannot reports it and returns the session.
#[test]
fn a_commit_that_a_host_lacks_is_fetched_or_given_back() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    let (cut_off, behind) = (clone_of_shop(&world, "cut-off"), clone_of_shop(&world, "behind"));
    support::git(&cut_off, &["remote", "set-url", "origin", "/no/such/repository"]);
    commit_to_shop(&world);
    let _without = with_mirror(&world, "w0", &cut_off);
    let mut run = world.once(2);
    support::eventually("the host's word", || {
        let said = world.said("w0");
        said.contains("could not be fetched") && said.contains("asks for no work for a while")
    });
    assert_eq!(world.figure("SELECT count(*) FROM findings"), 0);
    let _with = with_mirror(&world, "w1", &behind);
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(2, 3);
    }
    let elsewhere = "SELECT count(*) FROM sessions WHERE stage = 'deep' AND host <> 'w1'";
    assert_eq!(world.figure(elsewhere), 0);
    let findings = world.figure("SELECT count(*) FROM findings");
    assert!(findings > 0);
    assert_eq!(world.figure("SELECT count(*) FROM attempts"), findings, "no attempt was counted");
}

/// An order of another version is not run, and neither is something that is not an order.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_another_version_starts_nothing() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let engine = engine(&world);
    let (wire, session) = (WIRE + 1, SessionId(uuid::Uuid::now_v7()));
    let newer = Task::Offer(Offer { wire, session, heartbeat_timeout_ms: 20_000 });
    let times = std::time::Duration::from_secs(20);
    for (id, task) in [("hb/other/1", newer), ("hb/other/2", Task::Run)] {
        let start = Start {
            id,
            queue: "heartbeat-default-w1",
            task: &task,
            wait: times,
            limit: times,
            heartbeat_timeout: Some(times),
            again: false,
        };
        engine.start(start).await.unwrap();
        let Some(Ended::Returned(why)) = engine.wait_for(id).await.unwrap() else {
            panic!("{id} was not given back")
        };
        let (_, why) = Engine::read_signed::<String>(What::Result, id, &why).unwrap();
        assert!(why.contains("host w0 has another version of heartbeat"), "{why}");
    }
    assert_eq!(world.agent.starts(), 0);
}

/// `doctor` names hosts that wait on the queue of another version.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_another_version_are_pointed_out() {
    let Some(world) = World::new(24) else { return };
    let other = engine(&world);
    let waiting = tokio::spawn(async move { other.poll("heartbeat-default-w2").await });
    let config = world.coordinator_config("coordinator", 2);
    support::eventually("the doctor's word", || {
        let said = doctor(&world, &config);
        said.contains("heartbeat-default-w2: test") && said.contains("another version")
    });
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_is_too_large_is_refused_before_anything_is_sent() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let subject = coordinator(&world, |_| {}).await;
    let id = subject.claim().await;
    let mut job = subject.job(id, Play::Answer(0));
    // Incompressible: no two bytes repeat.
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

/// A host that has its order, and answers with the end of another session or by another name.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_another_session_is_not_used() {
    let Some(world) = World::new(24) else { return };
    let liar = taken_over(&world, "w0");
    let subject = coordinator(&world, |_| {}).await;
    for lies_about_host in [false, true] {
        let session = subject.start(Play::Answer(0), &StopHandle::new());
        let taken = liar.poll("heartbeat-default-w1").await.unwrap().unwrap();
        let letter = claimed(&liar, &taken, "w0").await;
        let own = letter.order.session.id;
        let mut end = SessionEnd::empty(Outcome::Completed);
        end.output = Some(serde_json::json!({ "verdicts": [] }));
        let done = match lies_about_host {
            true => Done { session: own, host: "w1".into(), end },
            false => Done { session: SessionId(uuid::Uuid::now_v7()), host: "w0".into(), end },
        };
        let seal = letter.key.seal();
        let cover = Cover::Key(&seal);
        let complete = || liar.complete(&taken.id, &taken.token, &cover, &done);
        assert!(complete().await.unwrap());
        let (_, ended) = session.await.unwrap();
        assert_eq!(ended.unwrap().outcome, Outcome::Orphaned, "its output is not used");
        assert_eq!(subject.open_rows().await, 0);
        assert!(!complete().await.unwrap(), "and not a second time");
    }
}
