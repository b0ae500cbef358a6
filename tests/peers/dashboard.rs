//! The dashboard in a real browser: `tests/peers/browser/dashboard.mjs` does the work.

use std::path::Path;

use heartbeat::store::DATABASE;
use heartbeat::web::surface;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

/// 5,000 items and 500 findings more than the demo's, with its texts.
const LARGE: &str = "
    CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
        SELECT i FROM n;
    CREATE TEMP TABLE item AS SELECT row_number() OVER () - 1 AS r, * FROM heartbeat_state;
    CREATE TEMP TABLE found AS SELECT row_number() OVER () - 1 AS r, * FROM findings;
    INSERT INTO heartbeat_state (key, item_id, title, item_type, url, priority, area_path, assigned_to,
            revision, last_changed, fingerprint, phase, reason, verdict, first_seen, last_seen)
        SELECT 'ado/' || (10000 + i), 10000 + i, title || ', case ' || i, item_type, url, priority,
            area_path, assigned_to, revision, last_changed - i * 600000, fingerprint,
            CASE WHEN i < 500 OR i % 4 > 0 THEN 'done' WHEN i % 40 = 0 THEN 'parked' ELSE 'pending' END,
            CASE WHEN i < 500 OR i % 4 > 0 THEN 'not_needed' WHEN i % 40 = 0 THEN 'attempts_exhausted'
                ELSE 'max_deep_per_run' END,
            verdict, first_seen, last_seen
        FROM n JOIN item ON r = i % (SELECT count(*) FROM item);
    INSERT INTO findings (key, revision, fingerprint, session, run, created_at, verdict, finding)
        SELECT 'ado/' || (10000 + i), revision, fingerprint,
            printf('%08x-0000-4000-8000-%012x', i, i), run, created_at - i * 3600000, verdict, finding
        FROM n JOIN found ON r = i % (SELECT count(*) FROM found) WHERE i < 500;
    INSERT INTO runs SELECT printf('%08x-0000-4000-8000-%012x', i, i), trigger, started_at - i * 3600000,
            ended_at - i * 3600000, outcome, summary
        FROM n JOIN (SELECT * FROM runs LIMIT 1) WHERE i BETWEEN 1 AND 300;";

fn fill(state: &Path) {
    let mut run = assert_cmd::Command::new(BINARY);
    run.args(["--once", "--demo", "--quiet", "--set", "http.listen=\"\"", "--state-dir"]);
    run.arg(state).assert().success();
    rusqlite::Connection::open(state.join(DATABASE)).unwrap().execute_batch(LARGE).unwrap();
}

#[test]
fn the_dashboard_works_in_a_browser() {
    let variable = |name: &str| {
        #[expect(clippy::disallowed_methods, reason = "the test runner says where its tools are")]
        std::env::var(name).ok().filter(|value| std::path::Path::new(value).exists())
    };
    let (Some(chromium), Some(modules)) =
        (variable("HEARTBEAT_TEST_CHROMIUM"), variable("HEARTBEAT_TEST_NODE_MODULES"))
    else {
        println!(
            "SKIPPED: needs HEARTBEAT_TEST_CHROMIUM (the browser) and HEARTBEAT_TEST_NODE_MODULES \
             (a folder with playwright-core and axe-core)"
        );
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/browser/dashboard.mjs");
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    fill(&large);
    let changing = surface().into_iter().filter(|(method, _)| method.as_str() != "GET");
    let routes: Vec<&str> = changing.map(|(_, path)| path).collect();
    let output = assert_cmd::Command::new("node")
        .arg(script)
        .env("HEARTBEAT_TEST_BINARY", BINARY)
        .env("HEARTBEAT_TEST_LARGE_STATE", large)
        .env("HEARTBEAT_TEST_ROUTES", serde_json::to_string(&routes).unwrap())
        .env("HEARTBEAT_TEST_CHROMIUM", chromium)
        .env("HEARTBEAT_TEST_NODE_MODULES", modules)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{problem}");
}
