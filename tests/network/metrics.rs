//! `/metrics` as Prometheus' own tool judges it, where it is installed.

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
