//! An unusable server: too old, disabled, another namespace, certificates. Each is named with a
//! remedy, the queue is unchanged, and a fixed server is used at once.

use std::path::Path;

use heartbeat::clock::Clock;
use heartbeat::fleet::doctor::check_fleet;
use heartbeat::fleet::gate::FleetGate;
use heartbeat::fleet::right::RunRight;
use heartbeat::fleet::sessions::Coordinator;
use heartbeat::model::BoxFuture;
use heartbeat::session::{Gate, LiveSessions, StopHandle};
use heartbeat::settings::Environment;
use heartbeat::store::{Journal, Store};
use jiff::{SignedDuration, Timestamp};
use support::{conformance, eventually, until};

use crate::bad_input::{doctor, with};
use crate::relay::{Relay, Tls, behind, with_tls};
use crate::rivals::engine;
use crate::world::{OPEN_ITEMS, Process, World, tail};
use support::certificates::{Authority, Certificate};

const SHORT_WAIT: (&str, &str) = ("admission_wait = \"15s\"", "admission_wait = \"2s\"");

/// Items were read and queued, and nothing else happened; the message is where a user looks for it.
fn assert_run_waits(world: &World, config: &Path, word: &str) {
    let args = ["--once", "--quiet", "--json"];
    let code = Process::start(&mut world.command(config, "coordinator", &args)).wait();
    let said = world.said("coordinator");
    assert_eq!(code, Some(75), "{}", tail(&said));
    assert!(said.contains(word), "{word:?} is not in:\n{}", tail(&said));
    assert!(world.figure(OPEN_ITEMS) > 10, "read and queued all the same");
    assert_eq!(world.figure("SELECT count(*) FROM attempts"), 0);
    assert_eq!(world.figure("SELECT count(*) FROM heartbeat_active_sessions"), 0);
}

fn assert_doctor_says(world: &World, config: &Path, words: &[&str]) {
    let said = doctor(world, config);
    for word in words {
        assert!(said.contains(word), "{word:?} is not in:\n{said}");
    }
}

/// A worker that cannot use the server reports why and keeps trying.
fn assert_worker_says(world: &World, config: &Path, word: &str) {
    let worker = Process::start(&mut world.command(config, "w0", &["worker"]));
    eventually("the worker's word", || world.said("w0").contains(word));
    drop(worker);
}

/// The version in the real server's response is replaced in transit.
#[test]
fn a_server_that_is_too_old_is_named() {
    let Some(world) = World::new(24) else { return };
    let relay = Relay::changing(&world.address(), Some((b"1.32.", b"1.31.")));
    let config = with(&world, &[SHORT_WAIT]);
    behind(&world, &relay.address, &config);
    assert_doctor_says(&world, &config, &["Temporal 1.31.", "is too old", "1.32 or newer"]);
    assert_run_waits(&world, &config, "is too old");
    let host = world.config("w0", 4, "");
    behind(&world, &relay.address, &host);
    assert_worker_says(&world, &host, "upgrade the server to 1.32 or newer");
}

#[test]
fn a_server_without_activities_of_their_own_says_which_switch() {
    let off = ["--dynamic-config-value", "activity.enableStandalone=false"];
    let Some(world) = World::with_server(24, &off) else { return };
    let config = with(&world, &[SHORT_WAIT]);
    assert_doctor_says(&world, &config, &["disabled", "activity.enableStandalone: true"]);
    assert_run_waits(&world, &config, "activity.enableStandalone: true");
}

#[test]
fn a_namespace_that_is_not_there_is_named_to_everybody() {
    let Some(world) = World::new(24) else { return };
    let other = ("[fleet]\n", "[fleet]\nnamespace = \"nobody\"\n");
    let config = with(&world, &[SHORT_WAIT, other]);
    let fix = "correct [fleet] namespace";
    assert_doctor_says(&world, &config, &["Namespace nobody is not found", fix]);
    assert_run_waits(&world, &config, fix);
    let host = world.config("w0", 4, "");
    let text = std::fs::read_to_string(&host).unwrap().replace(other.0, other.1);
    std::fs::write(&host, text).unwrap();
    assert_worker_says(&world, &host, fix);
}

/// Configuration lines for a server with TLS.
fn tls_lines(authority: &Path, domain: &str, own: Option<&Certificate>) -> String {
    let mut lines = format!("[fleet]\ntls_ca_file = {authority:?}\ntls_domain = {domain:?}\n");
    if let Some(Certificate { file, key }) = own {
        lines.push_str(&format!("tls_cert_file = {file:?}\ntls_key_file = {key:?}\n"));
    }
    lines
}

fn over_tls(world: &World, config: &Path, address: &str, lines: &str) {
    behind(world, address, config);
    let text = std::fs::read_to_string(config).unwrap();
    std::fs::write(config, text.replacen("[fleet]\n", lines, 1)).unwrap();
}

const LONG: &str = "20991231";
const PAST: &str = "20210101";
const NAME: &str = "temporal.test";

#[tokio::test(flavor = "multi_thread")]
async fn each_fault_of_a_certificate_has_its_own_word() {
    let Some(world) = World::new(24) else { return };
    let Some(authority) = Authority::new(&world.path().join("tls")) else { return };
    let Some(strangers) = Authority::new(&world.path().join("strangers")) else { return };
    let (good, expired) = (authority.issue(NAME, LONG), authority.issue(NAME, PAST));
    let (own, late) = (authority.issue("host", LONG), authority.issue("host", PAST));
    let foreign = strangers.issue("host", LONG);
    let (ca, other_ca) = (authority.file(), strangers.file());
    let server = world.address();
    let plain = |one: &Certificate| (one.file.clone(), one.key.clone());
    let (good_file, good_key) = plain(&good);
    let (expired_file, expired_key) = plain(&expired);
    let open = with_tls(&server, Tls { certificate: &good_file, key: &good_key, clients: None });
    let old = Tls { certificate: &expired_file, key: &expired_key, clients: None };
    let strict = Tls { certificate: &good_file, key: &good_key, clients: Some(&ca) };
    let (open, old) = (open.await, with_tls(&server, old).await);
    let strict = with_tls(&server, strict).await;
    let to_plain = server.replace("http://", "https://");
    let cases: [(&str, String, &[&str]); 9] = [
        (&open, tls_lines(&ca, NAME, None), &["Temporal 1."]),
        (&strict, tls_lines(&ca, NAME, Some(&own)), &["Temporal 1."]),
        (&open, tls_lines(&other_ca, NAME, None), &["tls_ca_file"]),
        (&open, tls_lines(&ca, "other.test", None), &["tls_domain"]),
        (&old, tls_lines(&ca, NAME, None), &["expired", "renew"]),
        (&strict, tls_lines(&ca, NAME, None), &["tls_cert_file"]),
        (&strict, tls_lines(&ca, NAME, Some(&late)), &["renew [fleet] tls_cert_file"]),
        (&strict, tls_lines(&ca, NAME, Some(&foreign)), &["tls_cert_file"]),
        (&to_plain, tls_lines(&ca, NAME, None), &["does not use TLS"]),
    ];
    for (address, lines, words) in cases {
        let config = world.coordinator_config("coordinator", 2);
        over_tls(&world, &config, address, &lines);
        assert_doctor_says(&world, &config, words);
    }
}

/// A fleet with mTLS only. A host with an expired certificate reports it; once the file is renewed
/// it works without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let Some(world) = World::new(24) else { return };
    let Some(authority) = Authority::new(&world.path().join("tls")) else { return };
    world.agent.set_pace(50);
    let (server, coordinator) = (authority.issue(NAME, LONG), authority.issue("coordinator", LONG));
    let (late, renewed) = (authority.issue("w0", PAST), authority.issue("w0", LONG));
    let ca = authority.file();
    let tls = Tls { certificate: &server.file, key: &server.key, clients: Some(&ca) };
    let address = with_tls(&world.address(), tls).await;
    let host = world.config("w0", 4, "");
    let used = Certificate { file: world.path().join("w0.pem"), key: world.path().join("w0.key") };
    let put = |from: &Certificate| {
        std::fs::copy(&from.key, &used.key).unwrap();
        std::fs::copy(&from.file, &used.file).unwrap();
    };
    put(&late);
    over_tls(&world, &host, &address, &tls_lines(&ca, NAME, Some(&used)));
    let _worker = Process::start(&mut world.command(&host, "w0", &["worker"]));
    eventually("the worker's word", || world.said("w0").contains("renew [fleet] tls_cert_file"));
    put(&renewed);
    let config = world.coordinator_config("coordinator", 2);
    over_tls(&world, &config, &address, &tls_lines(&ca, NAME, Some(&coordinator)));
    eventually("the host", || doctor(&world, &config).contains("1 waiting for work"));
    let args = ["--once", "--quiet", "--json"];
    Process::start(&mut world.command(&config, "coordinator", &args)).wait();
    assert_eq!(world.figure(OPEN_ITEMS), 0, "{}", tail(&world.said("coordinator")));
    assert!(world.figure("SELECT count(*) FROM findings WHERE 1") > 5);
    let elsewhere = "SELECT count(*) FROM sessions WHERE host <> 'w0'";
    assert_eq!(world.figure(elsewhere), 0, "every session ran on the host");
}

struct Machine;

impl Gate for Machine {
    fn admit(&self) -> BoxFuture<'_, Result<(), (heartbeat::event::Reason, String)>> {
        Box::pin(async { Ok(()) })
    }
}

/// A coordinator whose clock is minutes off still finds its hosts, and `doctor` reports it.
#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_are_minutes_apart_are_reported_and_stop_nothing() {
    let Some(world) = World::new(24) else { return };
    let _worker = world.ready_worker("w0", 4);
    until("its poll", || async {
        let pollers = engine(&world).pollers("heartbeat-default-w1").await.ok()?;
        (!pollers.is_empty()).then_some(())
    })
    .await;
    let environment = Environment::new(std::env::vars_os());
    for (off, word) in [(600, "600 s behind"), (-600, "600 s ahead"), (0, "clock agrees")] {
        let clock = Clock::manual(Timestamp::now() + SignedDuration::from_secs(off));
        let mut config = conformance::config(&world.agent);
        config.fleet.address = world.address();
        config.fleet.key_file = world.key();
        config.fleet.workers = world.workers();
        let checks = check_fleet(&config, &environment, &clock).await;
        let said: Vec<String> = checks.iter().map(|(_, found, _)| format!("{found:?}")).collect();
        let said = said.join("\n");
        let near = |n: i64| said.contains(&word.replace("600", &(600 + n).to_string()));
        assert!((-60..=60).any(near), "{word}: {said}");
        assert!(said.contains("1 waiting for work"), "{said}");
        let config = std::sync::Arc::new(config);
        let state = world.path().join(format!("clock{off}"));
        let journal = Journal::open(Store::open(&state).unwrap(), clock, None).unwrap();
        let engine = engine(&world);
        let run = StopHandle::new();
        let right = RunRight::new(engine.clone(), journal.clone(), &config.fleet, run);
        let shared = Coordinator::new(engine, config, journal, LiveSessions::default());
        let gate = FleetGate::new(
            std::sync::Arc::new(shared),
            std::sync::Arc::new(right),
            std::sync::Arc::new(Machine),
        );
        assert_eq!(gate.admit().await, Ok(()), "{off} s off");
    }
}
