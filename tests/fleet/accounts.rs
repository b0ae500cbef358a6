//! Agent accounts: one for all hosts, or one per host.

use std::path::PathBuf;
use std::process::Stdio;

use support::eventually;

use crate::world::{HEARTBEAT, OPEN_ITEMS, Process, Watch, World, tail};

const PER_HOST: &str = "account = \"per-host\"\n";
const SHARED: &str = "account = \"shared\"\n";

/// A host's configuration with its kind of account and its agent script.
fn config_of(world: &World, host: &str, account: &str, script: &str) -> PathBuf {
    let path = world.config(host, 2, "");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("agent.sh"));
    let text = text.replacen("[fleet]\n", &format!("[fleet]\n{account}"), 1);
    std::fs::write(&path, text.replace("agent.sh", script)).unwrap();
    path
}

fn start(world: &World, host: &str, config: &std::path::Path) -> Process {
    let before = world.said(host).matches("worker waits for sessions").count();
    let worker = Process::start(&mut world.command(config, host, &["worker"]));
    eventually("the worker's start", || {
        world.said(host).matches("worker waits for sessions").count() > before
    });
    worker
}

/// An agent whose provider has refused its account for an hour; it records how often it was
/// started.
fn write_limited_agent(world: &World) {
    write_limited_agent_that_costs(world, "0");
}

/// The same for an account that is refused in the middle of a session, after so many dollars.
fn write_limited_agent_that_costs(world: &World, dollars: &str) {
    let folder = world.agent.folder.display();
    let script = format!(
        "echo asked >> \"{folder}/limited\"\n\
         \"{HEARTBEAT}\" simulate agent --provider-limit 3600 \"$@\" |\n\
         sed 's/\"total_cost_usd\":[0-9.]*/\"total_cost_usd\":{dollars}/'\n\
         exit 1\n"
    );
    std::fs::write(world.agent.folder.join("limited.sh"), script).unwrap();
}

fn limited(world: &World) -> usize {
    let asked = std::fs::read_to_string(world.agent.folder.join("limited")).unwrap_or_default();
    asked.lines().count()
}

/// Number of accounts recorded as refused in this state.
fn refused(world: &World, state: &str) -> i64 {
    let sql =
        "SELECT count(*) FROM provider_record WHERE json_extract(record, '$.limit') IS NOT NULL";
    world.database(state).query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_limit_of_one_hosts_own_account_stops_that_host_only() {
    let Some(world) = World::new(40) else { return };
    write_limited_agent(&world);
    let (_, cost) = one_host_stops(&world);
    assert_eq!(cost, 0);
}

/// What such a session cost is booked, and its items are asked about again on another host.
#[test]
fn a_limit_in_the_middle_of_a_session_is_paid_for_and_stops_that_host_only() {
    let Some(world) = World::new(40) else { return };
    write_limited_agent_that_costs(&world, "0.02");
    let (asked, cost) = one_host_stops(&world);
    assert_eq!(cost, asked * 20_000);
}

/// Everything is done by the other host. How often the limited one was asked, and what that cost in
/// millionths of a dollar.
fn one_host_stops(world: &World) -> (i64, i64) {
    world.agent.set_pace(50);
    let watch = Watch::over(world);
    let _limited = start(world, "w0", &config_of(world, "w0", PER_HOST, "limited.sh"));
    let mut run = world.once(3);
    eventually("a refusal", || world.said("w0").contains("this host asks for no work until then"));
    let _other = start(world, "w1", &config_of(world, "w1", PER_HOST, "agent.sh"));
    run.wait();
    if world.figure(OPEN_ITEMS) > 0 {
        world.run_until_done(3, 4);
    }
    world.assert_whole(&watch, 3);
    let asked = limited(world);
    println!("the limited agent was asked {asked} times");
    assert!((1..=2).contains(&asked), "once for each of its slots at most: {asked}");
    assert_eq!((refused(world, "w0"), refused(world, "coordinator")), (1, 0));
    let (findings, counted) = (
        world.figure("SELECT count(*) FROM findings"),
        world.figure("SELECT count(*) FROM attempts WHERE counted = 1"),
    );
    assert!(findings > 10 && counted == findings, "no attempt was lost: {counted} {findings}");
    let cost = "SELECT coalesce(sum(spent), 0) FROM budget JOIN sessions USING (session) \
                WHERE sessions.host = 'w0'";
    (i64::try_from(asked).unwrap(), world.figure(cost))
}

/// A refusal is stored across restarts; another account is tried at once.
#[test]
fn a_limited_host_stays_so_after_a_restart_until_its_account_changes() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    write_limited_agent(&world);
    let config = config_of(&world, "w0", PER_HOST, "limited.sh");
    let mut worker = start(&world, "w0", &config);
    let short = ("admission_wait = \"15s\"", "admission_wait = \"2s\"");
    let short = crate::bad_input::with(&world, &[short]);
    let args = ["--once", "--quiet", "--json"];
    let once = || Process::start(&mut world.command(&short, "coordinator", &args)).wait();
    once();
    assert_eq!(refused(&world, "w0"), 1, "{}", tail(&world.said("w0")));
    let asked = limited(&world);
    worker.kill();
    worker = start(&world, "w0", &config);
    eventually("its reason", || {
        world.said("w0").contains("Claude Code on this host is refused until")
    });
    let shown = world.command(&config, "w0", &["status"]).stdout(Stdio::piped()).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("usage limit"), "{shown}");
    assert_eq!(once(), Some(75), "{}", tail(&world.said("coordinator")));
    assert_eq!(limited(&world), asked, "nobody asked it again");
    worker.kill();
    let _worker = start(&world, "w0", &config_of(&world, "w0", PER_HOST, "agent.sh"));
    world.run_until_done(2, 3);
    world.assert_done();
    assert_eq!((limited(&world), refused(&world, "w0")), (asked, 0));
}

#[test]
fn a_limit_of_a_shared_account_stops_every_host() {
    let Some(world) = World::new(24) else { return };
    world.agent.set_pace(50);
    write_limited_agent(&world);
    let _limited = start(&world, "w0", &config_of(&world, "w0", SHARED, "limited.sh"));
    world.once(2).wait();
    assert_eq!((refused(&world, "w0"), refused(&world, "coordinator")), (0, 1));
    let _other = start(&world, "w1", &config_of(&world, "w1", SHARED, "agent.sh"));
    world.once(2).wait();
    assert_eq!((world.agent.starts(), limited(&world)), (0, 1));
    assert!(world.figure(OPEN_ITEMS) > 10, "everything waits");
}
