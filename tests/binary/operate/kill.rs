//! `heartbeat kill`: ends the process tree of one session, from another process.

use super::world::{World, finish, lines};

/// Writes its first line, leaves a child in a separate session, and then is silent.
const STUCK: &str = r#"
setsid tail -f "$0" &
"$AGENT" simulate agent "$@" | { IFS= read -r a; printf '%s\n' "$a"; IFS= read -r b; printf '%s\n' "$b"
echo ready > "$(dirname "$0")/ready"; exec sleep 1000; }
"#;

/// Live processes of this test's agent script, whatever their pids are inside a namespace.
fn escaped(world: &World) -> usize {
    let script = format!("tail\0-f\0{}\0", world.path("agent").display());
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok())
        .filter(|line| *line == script.as_bytes())
        .count()
}

#[tokio::test]
async fn a_killed_session_leaves_nothing_and_is_reported_as_cancelled() {
    let world = World::new().await;
    world.agent(STUCK);
    let log = format!("log.file={}", world.path("log").display());
    let run = world.start(&["--once", "--quiet", "--log-format", "json", "--set", &log]);
    let ready = || async { world.path("ready").exists().then_some(()) };
    support::until("stuck session", ready).await;
    assert_eq!(escaped(&world), 1, "the child in a session of its own");
    let status = world.run(&["status", "--json"]).await.json();
    let sessions = status["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "{status:#}");
    let id = sessions[0]["session"].as_str().unwrap().to_owned();

    let nobody = world.run(&["kill", "ffffffff"]).await;
    assert_eq!(nobody.code(), 1);
    assert!(nobody.stderr.contains("heartbeat status"), "{}", nobody.stderr);

    let killed = world.run(&["kill", &id, "--json"]).await;
    assert_eq!(killed.code(), 0, "{}", killed.stderr);
    let told = killed.json();
    assert_eq!((&told["gone"], &told["closed"]), (&true.into(), &true.into()), "{told:#}");
    assert_eq!(escaped(&world), 0, "survivors");

    finish(run).await;
    let sessions = world.run(&["sessions", "--json"]).await.json();
    let session =
        sessions.as_array().unwrap().iter().find(|s| s["session"] == id.as_str()).unwrap();
    let outcome = serde_json::json!({ "kind": "cancelled", "why": "operator" });
    assert_eq!(session["outcome"], outcome, "{session:#}");
    assert_eq!(session["survivors"], 0);
    let told = lines(&world.path("log"));
    let told = told.iter().find(|line| line["message"] == "kill").expect("a line about the kill");
    assert_eq!((&told["session_id"], &told["signal"]), (&id.as_str().into(), &"SIGINT".into()));
    assert_eq!(told["run_id"], session["run"]);
    assert_eq!((&told["reason"], &told["asked_by"]), (&"cancelled".into(), &"operator".into()));
    let stopping = world.events().into_iter().find(|event| event["event"] == "session_stopping");
    assert_eq!(stopping.unwrap()["why"], "operator");
}

/// Triage succeeds; the first analysis writes its first line and then nothing.
const STUCK_ANALYSIS: &str = r#"
case "$*" in *"--tools Read"*) ;; *) exec "$AGENT" simulate agent "$@" ;; esac
"$AGENT" simulate agent "$@" | { IFS= read -r a; printf '%s\n' "$a"; IFS= read -r b; printf '%s\n' "$b"
echo ready > "$(dirname "$0")/ready"; exec sleep 1000; }
"#;

#[tokio::test]
async fn what_a_person_stopped_is_left_to_people_and_costs_no_attempt() {
    let world = World::new().await;
    world.agent(STUCK_ANALYSIS);
    let one = ["--set", "limits.max_deep_per_run=1"];
    let run = world.start(&[&["--once", "--quiet"], &one[..]].concat());
    support::until("stuck analysis", || async { world.path("ready").exists().then_some(()) }).await;
    let live = world.run(&["status", "--json"]).await.json()["sessions"][0].clone();
    let item = live["item"].as_str().expect("the analysis of an item").to_owned();
    let killed = world.run(&["kill", live["session"].as_str().unwrap()]).await;
    assert_eq!(killed.code(), 0, "{}", killed.stderr);
    assert_eq!(finish(run).await.code(), 0, "nothing failed: a person's word is no failure");

    let told = world.events();
    let of =
        |name: &str| told.iter().find(|event| event["event"] == name && event["item"] == *item);
    let event = of("item_parked").unwrap_or_else(|| panic!("{told:#?}"));
    assert_eq!(event["reason"], "stopped_by_operator", "{event:#}");
    assert!(of("item_deferred").is_none(), "it is not queued");
    let id = item.strip_prefix("ado/").unwrap();
    let story = world.run(&["show", id, "--json"]).await.json();
    assert_eq!(story["item"]["phase"], "parked", "{story:#}");
    assert_eq!(story["item"]["reason"], "stopped_by_operator", "{story:#}");
    assert_eq!(story["item"]["attempts"], 0, "{story:#}");

    // The next run skips it; a user requeues it, and then it is analysed.
    world.agent("exec \"$AGENT\" simulate agent \"$@\"");
    let all = ["--once", "--quiet", "--set", "limits.max_deep_per_run=50"];
    assert_eq!(world.run(&all).await.code(), 0);
    let left = world.run(&["show", id, "--json"]).await.json();
    assert_eq!(left["item"]["reason"], "stopped_by_operator", "{left:#}");
    assert_eq!(world.run(&["retry", id]).await.code(), 0);
    assert_eq!(world.run(&all).await.code(), 0);
    let done = world.run(&["show", id, "--json"]).await.json();
    assert_eq!(done["item"]["phase"], "done", "{done:#}");
}

#[tokio::test]
async fn a_hung_session_is_reported_as_stale_and_then_killed() {
    let world = World::new().await;
    world.agent(STUCK);
    let log = format!("log.file={}", world.path("log").display());
    let fast = ["--set", "timeouts.stall=2s", "--set", "timeouts.liveness=200ms"];
    let args = ["--once", "--quiet", "--log-format", "json", "--set", &log];
    let said = world.run(&[&args, &fast[..]].concat()).await;
    // The probe hangs as well: it is the agent, not the items.
    assert_eq!(said.code(), 75, "{}", said.stderr);
    assert_eq!(escaped(&world), 0, "survivors");
    let lines = lines(&world.path("log"));
    let of = |message: &str| lines.iter().position(|line| line["message"] == message).unwrap();
    let (spawn, stale, kill, complete) = (of("spawn"), of("stale"), of("kill"), of("complete"));
    assert!(spawn < stale && stale < kill && kill < complete, "{lines:#?}");
    let session = &lines[spawn]["session_id"];
    for place in [stale, kill, complete] {
        assert_eq!(&lines[place]["session_id"], session, "{:#}", lines[place]);
    }
    let stale = &lines[stale];
    assert_eq!(stale["threshold_ms"], 2000, "{stale:#}");
    assert!(stale["running_for_ms"].as_u64() >= stale["since_progress_ms"].as_u64(), "{stale:#}");
    assert_eq!(lines[complete]["outcome"], "stalled");
}

#[tokio::test]
async fn the_id_that_status_shows_ends_that_session_and_no_other() {
    let world = World::new().await;
    world.agent(STUCK_ANALYSIS);
    let run = world.start(&["--once", "--quiet", "--set", "limits.max_deep_per_run=3"]);
    let three = || async {
        // There is no state to read yet when the run has just started.
        let status = world.run(&["status", "--json"]).await.stdout;
        let status: serde_json::Value = serde_json::from_str(&status).ok()?;
        let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
        let deep = sessions.into_iter().filter(|session| session["stage"] == "deep");
        let deep: Vec<_> = deep.filter(|session| session["alive"] == true).collect();
        (deep.len() == 3).then_some(deep)
    };
    let live = support::until("three analyses", three).await;
    let shown = world.run(&["status"]).await.stdout;
    let shown: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("session"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    let killed = world.run(&["kill", shown[1], "--json"]).await;
    assert_eq!(killed.code(), 0, "{}", killed.stderr);
    assert!(killed.json()["session"].as_str().unwrap().ends_with(shown[1]));
    let left = world.run(&["status", "--json"]).await.json();
    let left: Vec<&str> = left["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["session"].as_str().unwrap())
        .collect();
    assert!(!left.iter().any(|id| id.ends_with(shown[1])), "{left:?}");
    for other in [shown[0], shown[2]] {
        assert!(left.iter().any(|id| id.ends_with(other)), "{other} of {left:?}");
    }
    // By the number of its item, and then all others.
    let item = live.iter().find(|s| s["session"].as_str().unwrap().ends_with(shown[0])).unwrap();
    let number = item["item"].as_str().unwrap().strip_prefix("ado/").unwrap();
    assert_eq!(world.run(&["kill", number]).await.code(), 0);
    let rest = world.run(&["kill", "--all", "--json"]).await;
    assert_eq!((rest.code(), rest.json().as_array().unwrap().len()), (0, 1), "{}", rest.stdout);
    assert_eq!(finish(run).await.code(), 0);

    let elsewhere = world.run(&["retry", "--parked", "--area", "Nowhere"]).await;
    assert!(
        elsewhere.stdout.starts_with("no item is parked in the area Nowhere\n"),
        "{elsewhere:?}"
    );
    assert!(elsewhere.stdout.contains("stopped_by_operator (3)"), "{elsewhere:?}");
    let story = world.run(&["show", number, "--json"]).await.json();
    let area = story["item"]["area_path"].as_str().expect("its area").to_owned();
    let there = world.run(&["retry", "--parked", "--area", &area.to_uppercase(), "--json"]).await;
    let there = there.json()["queued"].as_u64().unwrap();
    assert!((1..=3).contains(&there), "{there} in {area}");
    let parked =
        world.run(&["retry", "--parked", "--reason", "stopped_by_operator", "--json"]).await;
    assert_eq!(parked.json()["queued"], 3 - there, "{}", parked.stdout);
    let again = world.run(&["retry", "--parked", "--reason", "stopped_by_operator"]).await;
    assert_eq!(again.stdout, "no parked items\n");
}
