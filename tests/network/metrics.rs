//! `/metrics`, checked with Prometheus' own tool where it is installed.

use support::web::serve;

#[tokio::test]
async fn promtool_finds_nothing_to_complain_about() {
    let served = serve(None).await;
    let text = served.get("/metrics").await.body;
    assert!(text.contains("# TYPE heartbeat_sessions_running gauge"), "{text}");
    let checked = tokio::task::spawn_blocking(|| {
        assert_cmd::Command::new("promtool").args(["check", "metrics"]).write_stdin(text).output()
    });
    match checked.await.unwrap() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && said.is_empty(), "{said}");
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("SKIPPED: promtool is not installed");
        }
        Err(error) => panic!("{error}"),
    }
}

/// Twenty sessions that took 1 to 20 s: 17 completed, one exited with 3, one timed out, one was
/// killed. One more is live, and its history row is already closed.
fn history(state: &std::path::Path) {
    let database = rusqlite::Connection::open(state.join(heartbeat::store::DATABASE)).unwrap();
    let session = |number: i64| uuid::Uuid::from_u64_pair(0, number.cast_unsigned()).to_string();
    for number in 1..=20 {
        let outcome = match number {
            18 => r#"{"kind":"exit_code","code":3}"#,
            19 => r#"{"kind":"timed_out"}"#,
            20 => r#"{"kind":"signal","signal":9}"#,
            _ => r#"{"kind":"completed"}"#,
        };
        database
            .execute(
                "INSERT INTO sessions (session, run, stage, attempt, tier, keeper_pid, started_at,
                     ended_at, outcome) VALUES (?1, ?1, 'deep', 1, 'pidns', 7, 0, ?2, ?3)",
                rusqlite::params![session(number), number * 1000, outcome],
            )
            .unwrap();
    }
    database
        .execute(
            "INSERT INTO heartbeat_active_sessions (session, run, stage, attempt, keeper_pid,
                 keeper_start_time, boot_id, tier, scratch, started_at, deadline_at)
             VALUES (?1, ?1, 'deep', 1, 7, 0, '', 'pidns', '', 0, 0)",
            [session(20)],
        )
        .unwrap();
}

#[tokio::test]
async fn the_overview_sums_up_the_sessions_of_the_history() {
    let served = serve(None).await;
    history(&served.folder.path().join("state"));
    let overview = served.get("/heartbeat/metrics").await.json();
    let totals = serde_json::json!({
        "spawned": 20, "completed": 17, "failed": 2, "timed_out": 1,
        "average_duration_ms": 10_000, "p95_duration_ms": 19_000,
        "exit_codes": { "0": 17, "3": 1 },
    });
    assert_eq!(overview["totals"], totals);
    let ids = |list: &str| -> std::collections::BTreeSet<String> {
        let rows = overview[list].as_array().unwrap();
        rows.iter().map(|row| row["session"].as_str().unwrap().to_owned()).collect()
    };
    let (active, recent) = (ids("active_sessions"), ids("recent_sessions"));
    assert_eq!((active.len(), recent.len()), (1, 19));
    assert!(active.is_disjoint(&recent), "a session is both active and finished");
}

#[tokio::test]
async fn health_names_the_load_average_and_the_processors() {
    let served = serve(None).await;
    let load = served.get("/health").await.json()["checks"]["load"].clone();
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(load["cpu_count"], cores);
    assert!(load["average"].as_f64().unwrap() >= 0.0, "{load}");
    assert_eq!(load["unhealthy_above"], 1e6, "never below the limit for starts");
}
