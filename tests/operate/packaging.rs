//! What a package holds, laid out by the recipe with the binary under test.

use crate::support::World;

#[tokio::test]
async fn a_package_holds_everything_and_its_unit_is_sound() {
    let world = World::new().await;
    let root = world.path("package");
    let recipe = concat!(env!("CARGO_MANIFEST_DIR"), "/.packaging/package");
    let staged = assert_cmd::Command::new(recipe)
        .args(["stage", root.to_str().unwrap()])
        .env("HEARTBEAT_BINARY", env!("CARGO_BIN_EXE_heartbeat"))
        .output()
        .unwrap();
    assert!(staged.status.success(), "{}", String::from_utf8_lossy(&staged.stderr));
    for file in [
        "usr/bin/heartbeat",
        "usr/share/man/man1/heartbeat.1.gz",
        "usr/share/man/man1/heartbeat-doctor.1.gz",
        "usr/share/bash-completion/completions/heartbeat",
        "usr/share/zsh/vendor-completions/_heartbeat",
        "usr/share/fish/vendor_completions.d/heartbeat.fish",
        "usr/share/doc/heartbeat/UPGRADING.md",
        "usr/share/doc/heartbeat/copyright",
        "etc/heartbeat/heartbeat.toml",
        "usr/lib/systemd/system/heartbeat.service",
    ] {
        assert!(root.join(file).metadata().is_ok_and(|data| data.len() > 0), "{file}");
    }
    let config = root.join("etc/heartbeat/heartbeat.toml");
    let config: heartbeat::config::Config =
        toml::from_str(&std::fs::read_to_string(config).unwrap()).unwrap();
    assert_eq!(config.state.dir, std::path::Path::new("/var/lib/heartbeat"));
    assert_eq!(config.report.dir, std::path::Path::new(""));
    let unit =
        std::fs::read_to_string(root.join("usr/lib/systemd/system/heartbeat.service")).unwrap();
    for line in [
        "ExecStart=/usr/bin/heartbeat --config /etc/heartbeat/heartbeat.toml",
        "User=heartbeat",
        "StateDirectory=heartbeat",
        "EnvironmentFile=-/etc/heartbeat/environment",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line} is not in\n{unit}");
    }
    let own = world.folder.path().to_str().unwrap();
    assert!(!unit.contains(own) && !unit.contains("/target/"), "names this machine:\n{unit}");
}
