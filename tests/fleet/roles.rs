//! A host that was taken over: it has its own key and the server, and can neither give orders nor
//! read what others were given. The test plays the taken host, and a coordinator whose orders are
//! wrong, against real workers.

use std::time::Duration;

use heartbeat::fleet::claim_queue;
use heartbeat::fleet::engine::{Cover, Ended, Engine, Sealed, Start, Taken, What};
use heartbeat::fleet::keys::{Asked, Keys};
use heartbeat::fleet::order::{Beat, Claim, Done, Letter, Offer, Order, Task, WIRE};
use heartbeat::fleet::{queue, queue_of};
use heartbeat::model::{Outcome, SessionEnd, SessionId};
use heartbeat::session::StopHandle;
use heartbeat::settings::Environment;
use jiff::{SignedDuration, Timestamp};
use support::conformance::{self, Play};

use crate::both::coordinator;
use crate::rivals::engine;
use crate::world::{World, tail};

const LIMIT: Duration = Duration::from_secs(20);

/// A process with the key of a host.
pub fn taken_over(world: &World, host: &str) -> Engine {
    let mut config = conformance::config(&world.agent);
    config.fleet.address = world.address();
    config.fleet.key_file = world.key_of(host);
    Engine::new(&config.fleet, &Environment::new(std::env::vars_os()), host).unwrap()
}

/// Takes what was offered, as this host: its order.
pub async fn claimed(engine: &Engine, taken: &Taken, host: &str) -> Letter {
    let (_, task) = Engine::read_signed::<Task>(What::Task, &taken.id, &taken.input).unwrap();
    let Task::Offer(Offer { session, .. }) = task else { panic!("{task:?}") };
    let (asked, reply_to) = Asked::new().unwrap();
    let id = format!("{}/claim", taken.id);
    let claim = Task::Claim(Claim { session, host: host.to_owned(), reply_to });
    start(engine, &id, &claim_queue("default", session), &claim).await;
    match engine.wait_for(&id).await.unwrap() {
        Some(Ended::Completed(reply)) => Engine::open_reply(asked, &id, &reply).unwrap().1,
        other => panic!("{other:?}"),
    }
}

fn fresh() -> SessionId {
    SessionId(uuid::Uuid::now_v7())
}

fn offer(session: SessionId) -> Task {
    Task::Offer(Offer { wire: WIRE, session, heartbeat_timeout_ms: 8_000 })
}

async fn start(engine: &Engine, id: &str, queue: &str, task: &Task) {
    let heartbeat_timeout = Some(LIMIT);
    let (wait, limit, again) = (LIMIT, LIMIT, false);
    engine.start(Start { id, queue, task, wait, limit, heartbeat_timeout, again }).await.unwrap();
}

/// Why a task was returned, in the words of the process that signed it.
async fn returned(engine: &Engine, id: &str) -> String {
    match engine.wait_for(id).await.unwrap() {
        Some(Ended::Returned(why)) => {
            Engine::read_signed::<String>(What::Result, id, &why).unwrap().1
        }
        other => panic!("{id}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_host_cannot_order_and_cannot_ask_what_others_did() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let thief = taken_over(&world, "w1");
    let session = fresh();
    let (_, reply_to) = Asked::new().unwrap();
    let report = Task::Report { session, reply_to };
    for (id, queue, task) in [
        ("hb/thief/report", queue_of("default", "w0"), report),
        ("hb/thief/order", queue("default"), offer(session)),
    ] {
        start(&thief, id, &queue, &task).await;
        let why = returned(&thief, id).await;
        assert!(why.contains("which is not in [fleet] coordinator"), "{id}: {why}");
    }
    let said = world.said("w0");
    assert!(said.contains("somebody else gives orders on this server"), "{}", tail(&said));
    assert_eq!(world.agent.starts(), 0);
}

/// It takes the offer that the coordinator made, and asks in the name of others.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_host_gets_no_order_by_another_name() {
    let Some(world) = World::new(24) else { return };
    let thief = taken_over(&world, "w1");
    let subject = coordinator(&world, |_| {}).await;
    let session = subject.start(Play::Answer(0), &StopHandle::new());
    let taken = thief.poll(&queue("default")).await.unwrap().unwrap();
    let (_, task) = Engine::read_signed::<Task>(What::Task, &taken.id, &taken.input).unwrap();
    let Task::Offer(offered) = task else { panic!("{task:?}") };
    for (host, expected) in [("w0", "by another key"), ("stranger", "does not know host stranger")]
    {
        let (_, reply_to) = Asked::new().unwrap();
        let claim = Claim { session: offered.session, host: host.to_owned(), reply_to };
        let id = format!("hb/thief/{host}");
        let queue = claim_queue("default", offered.session);
        start(&thief, &id, &queue, &Task::Claim(claim)).await;
        let why = returned(&thief, &id).await;
        assert!(why.contains(expected) && why.contains("[fleet.workers]"), "{why}");
    }
    // Without the order's key it cannot invent a result either.
    let mut end = SessionEnd::empty(Outcome::Completed);
    end.output = Some(serde_json::json!({ "verdicts": [] }));
    let done = Done { session: offered.session, host: "w1".into(), end };
    let own = Cover::Key(thief.keys().own());
    assert!(thief.complete(&taken.id, &taken.token, &own, &done).await.unwrap());
    let (_, ended) = session.await.unwrap();
    assert_eq!(ended.unwrap().outcome, Outcome::Orphaned, "its output is not used");
}

/// What the server has of another host's session opens with no key of a taken host.
#[tokio::test(flavor = "multi_thread")]
async fn a_taken_host_cannot_read_the_work_of_another() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    let (thief, honest) = (taken_over(&world, "w1"), engine(&world));
    let subject = coordinator(&world, |_| {}).await;
    let session = subject.start(Play::Answer(0), &StopHandle::new());
    let (id, ended) = session.await.unwrap();
    assert_eq!(ended.unwrap().outcome, Outcome::Completed);
    let state = subject.journal.state_id().await.unwrap();
    let execution = format!("hb/{state}/{id}");
    let details = thief.describe(&execution).await.unwrap().unwrap().details.unwrap();
    let Some(Ended::Completed(result)) = thief.wait_for(&execution).await.unwrap() else {
        panic!("its result")
    };
    let reads = |keys: &Keys, what, sealed: &Sealed| {
        let of_session = ["w0", "w1"].map(|host| keys.of_session(id, host).1);
        let seals = of_session.iter().chain([keys.own()]);
        seals
            .filter(|seal| match what {
                What::Beat => Engine::open::<Beat>(seal, what, &execution, sealed).is_ok(),
                _ => Engine::open::<Done>(seal, what, &execution, sealed).is_ok(),
            })
            .count()
    };
    for (what, sealed) in [(What::Beat, &details), (What::Result, &result)] {
        assert_eq!(reads(honest.keys(), what, sealed), 1, "the coordinator itself");
        assert_eq!(reads(thief.keys(), what, sealed), 0, "{what:?}");
    }
}

/// Plays the coordinator: offers a session, and answers the claim of whoever takes it.
async fn offered(engine: &Engine, execution: &str, session: SessionId) -> (Taken, Claim) {
    start(engine, execution, &queue("default"), &offer(session)).await;
    // A busy machine may cut the connection; the claim waits at the server.
    let taken = loop {
        if let Ok(Some(taken)) = engine.poll(&claim_queue("default", session)).await {
            break taken;
        }
    };
    let (_, task) = Engine::read_signed::<Task>(What::Task, &taken.id, &taken.input).unwrap();
    let Task::Claim(claim) = task else { panic!("{task:?}") };
    (taken, claim)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_carried_out_once() {
    let Some(world) = World::new(24) else { return };
    let engine = engine(&world);
    let subject = coordinator(&world, |_| {}).await;
    let job = subject.job(subject.claim().await, Play::Answer(0));
    let order = Order::new(&job, None, &conformance::config(&world.agent));
    let letter = |session: SessionId, host: &str, at: Timestamp| {
        let mut order = order.clone();
        order.session.id = session;
        let key = engine.keys().of_session(session, host).0;
        let expires_at = at.saturating_add(SignedDuration::from_mins(1)).unwrap();
        Letter { order, host: host.to_owned(), expires_at, key }
    };
    let first = world.ready_worker("w0", 4);
    // The right one is carried out, and a second time it is not.
    let session = fresh();
    let (taken, claim) = offered(&engine, "hb/play/right", session).await;
    let right = letter(session, &claim.host, taken.at.unwrap());
    let cover = Cover::Reply(&claim.reply_to);
    assert!(engine.complete(&taken.id, &taken.token, &cover, &right).await.unwrap());
    let ended = engine.wait_for("hb/play/right").await.unwrap();
    assert!(matches!(ended, Some(Ended::Completed(_))), "{ended:?}");
    start(&engine, "hb/play/replayed", &queue("default"), &offer(session)).await;
    let why = returned(&engine, "hb/play/replayed").await;
    assert!(why.contains("already had this session"), "{why}");
    assert_eq!(world.agent.starts(), 1);
    drop(first);
}

/// An order that is not the host's: refused, told, and nothing of it is started. One for each world,
/// because a host pauses after what it refused.
async fn is_refused(execution: &str, expected: &str) {
    let Some(world) = World::new(24) else { return };
    let engine = engine(&world);
    let subject = coordinator(&world, |_| {}).await;
    let job = subject.job(subject.claim().await, Play::Answer(0));
    let order = Order::new(&job, None, &conformance::config(&world.agent));
    let letter = |session: SessionId, host: &str, at: Timestamp| {
        let mut order = order.clone();
        order.session.id = session;
        let key = engine.keys().of_session(session, host).0;
        let expires_at = at.saturating_add(SignedDuration::from_mins(1)).unwrap();
        Letter { order, host: host.to_owned(), expires_at, key }
    };
    let _host = world.ready_worker("w0", 4);
    let session = fresh();
    let (taken, claim) = offered(&engine, execution, session).await;
    let at = taken.at.unwrap();
    let (answering, letter) = match execution {
        "hb/play/addressed" => (&engine, letter(session, "elsewhere", at)),
        "hb/play/expired" => {
            (&engine, letter(session, &claim.host, at - SignedDuration::from_mins(2)))
        }
        "hb/play/another" => (&engine, letter(fresh(), &claim.host, at)),
        _ => (&taken_over(&world, "w1"), letter(session, &claim.host, at)),
    };
    let cover = Cover::Reply(&claim.reply_to);
    assert!(answering.complete(&taken.id, &taken.token, &cover, &letter).await.unwrap());
    let why = returned(&engine, execution).await;
    assert!(why.contains(expected), "{execution}: {why}");
    support::eventually("its host's word", || world.said(&claim.host).contains(expected));
    assert_eq!(world.agent.starts(), 0, "nothing of it was started");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_for_another_host_is_refused_and_told() {
    is_refused("hb/play/addressed", "is for host elsewhere").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_order_is_refused_and_told() {
    is_refused("hb/play/expired", "expired at").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_for_another_session_is_refused_and_told() {
    is_refused("hb/play/another", "for another session").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_of_somebody_else_is_refused_and_told() {
    is_refused("hb/play/signed", "not in [fleet] coordinator").await;
}
