//! `heartbeat service install` under a separate systemd: `tests/peers/systemd.sh` does the work.

#[test]
fn the_service_lives_under_a_real_systemd() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/systemd.sh");
    let mut command = assert_cmd::Command::new(script);
    let output = command.arg(env!("CARGO_BIN_EXE_heartbeat")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    if output.status.code() == Some(77) {
        println!("SKIPPED: no systemd of our own can be booted here: {}", said.trim());
        return;
    }
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{problem}");
}
