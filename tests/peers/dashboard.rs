//! The dashboard in a real browser: `tests/peers/browser/dashboard.mjs` does the work.

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
    let output = assert_cmd::Command::new("node")
        .arg(script)
        .env("HEARTBEAT_TEST_BINARY", env!("CARGO_BIN_EXE_heartbeat"))
        .env("HEARTBEAT_TEST_CHROMIUM", chromium)
        .env("HEARTBEAT_TEST_NODE_MODULES", modules)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{problem}");
}
