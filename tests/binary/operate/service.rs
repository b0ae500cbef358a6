//! The service file, completions and manual pages.

use super::world::World;

fn systemd_analyze(args: &[&str], runtime: &std::path::Path) -> Option<String> {
    let mut command = assert_cmd::Command::new("systemd-analyze");
    match command.args(args).env("XDG_RUNTIME_DIR", runtime).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8_lossy(&output.stderr).into_owned())
        }
        Err(error) => {
            eprintln!("SKIPPED: systemd-analyze is not here ({error})");
            None
        }
    }
}

#[tokio::test]
async fn systemd_finds_nothing_wrong_with_either_unit() {
    let world = World::new().await;
    for reach in ["--system", "--user"] {
        let unit = world.run(&["service", "print", "--systemd", reach]).await;
        assert_eq!(unit.code(), 0, "{}", unit.stderr);
        for line in ["Type=notify", "WatchdogSec=", "KillMode=mixed", "TasksMax=", "Delegate=yes"] {
            assert!(unit.stdout.contains(line), "{line} is not in\n{}", unit.stdout);
        }
        // These would disable the agents' containment.
        for line in ["RestrictNamespaces", "PrivateUsers", "ProtectControlGroups"] {
            assert!(!unit.stdout.contains(line), "{line}");
        }
        let folder = world.path(reach);
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("heartbeat.service");
        std::fs::write(&file, &unit.stdout).unwrap();
        let mut args = vec!["verify", file.to_str().unwrap()];
        if reach == "--user" {
            args.insert(0, "--user");
        }
        if let Some(complaints) = systemd_analyze(&args, &folder) {
            let ours: Vec<&str> =
                complaints.lines().filter(|line| line.contains("heartbeat.service")).collect();
            // systemd before 254 does not know this key and goes on without it.
            let ours: Vec<&str> =
                ours.into_iter().filter(|line| !line.contains("'DelegateSubgroup'")).collect();
            assert!(ours.is_empty(), "{ours:#?}");
        }
    }
}

/// Options of the command apply to the service, and the service may write where it has to.
#[tokio::test]
async fn flags_and_folders_of_the_command_are_those_of_the_service() {
    let world = World::new().await;
    let state = world.path("other state");
    let state = state.to_str().unwrap();
    let (reports, logs) = ("report.dir=/srv/reports", "log.file=/var/log/heartbeat/log");
    let print = ["service", "print", "--state-dir", state, "--set", reports, "--set", logs];
    let unit = world.run(&[&print[..], &["--systemd", "--system"]].concat()).await.stdout;
    let flags = format!(" --state-dir \"{state}\" --set \"{reports}\" --set \"{logs}\"\n");
    assert!(unit.contains(&flags), "{unit}");
    let slots = world.path("slots");
    let folders =
        format!("ReadWritePaths=\"{state}\" /srv/reports {} /var/log/heartbeat\n", slots.display());
    assert!(unit.contains(&folders), "{unit}");
    let plist = world.run(&[&print[..], &["--launchd", "--user"]].concat()).await.stdout;
    assert!(plist.contains(&format!("<string>{state}</string>")), "{plist}");
}

#[tokio::test]
async fn a_service_is_installed_once_and_removed() {
    let world = World::new().await;
    let install = ["service", "install", "--systemd", "--user"];
    let said = world.run(&install).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let file = world.path("home/.config/systemd/user/heartbeat.service");
    let unit = std::fs::read_to_string(&file).unwrap();
    assert!(unit.contains(world.path("heartbeat.toml").to_str().unwrap()), "{unit}");
    assert!(said.stdout.contains("systemctl --user enable --now"), "{}", said.stdout);
    let again = world.run(&install).await;
    assert_eq!(again.code(), 2);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    let removed = world.run(&["service", "uninstall", "--systemd", "--user"]).await;
    assert_eq!((removed.code(), file.exists()), (0, false));
    assert_eq!(world.run(&["service", "uninstall", "--systemd", "--user"]).await.code(), 1);
}

#[tokio::test]
async fn the_description_for_launchd_is_well_formed() {
    let world = World::new().await.with("PATH", "/opt/a&b/bin:/usr/bin:/bin");
    let said = world.run(&["service", "print", "--launchd", "--user"]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    assert!(said.stdout.contains("/opt/a&amp;b/bin"), "{}", said.stdout);
    // A real property list parser: its output is what launchd would see.
    let read =
        "import json, plistlib, sys\nprint(json.dumps(plistlib.loads(sys.stdin.buffer.read())))";
    let python = std::env::var_os("HEARTBEAT_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let parsed =
        assert_cmd::Command::new(python).args(["-c", read]).write_stdin(said.stdout).output();
    let Ok(parsed) = parsed else {
        eprintln!("SKIPPED: the property list was not read: there is no Python");
        return;
    };
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let list: serde_json::Value = serde_json::from_slice(&parsed.stdout).unwrap();
    let program = env!("CARGO_BIN_EXE_heartbeat");
    let config = world.path("heartbeat.toml");
    let expected = serde_json::json!({
        "Label": "local.heartbeat",
        "ProgramArguments": [program, "--config", config],
        "EnvironmentVariables": { "PATH": "/opt/a&b/bin:/usr/bin:/bin" },
        "RunAtLoad": true,
        "KeepAlive": { "SuccessfulExit": false },
        "ThrottleInterval": 30,
        "ExitTimeOut": list["ExitTimeOut"],
        "ProcessType": "Background",
        "Umask": 0o077,
        "StandardErrorPath": world.path("state/heartbeat.log"),
    });
    assert_eq!(list, expected, "{list:#}");
    // The sessions' grace period and the sweep fit into it.
    assert!(list["ExitTimeOut"].as_u64() >= Some(30), "{list:#}");
}

#[tokio::test]
async fn every_shell_gets_completions_that_know_the_commands() {
    let world = World::new().await;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = world.run(&["completions", shell]).await;
        assert_eq!(said.code(), 0, "{}", said.stderr);
        for word in ["doctor", "report", "retry", "max-live"] {
            let there = said.stdout.contains(word);
            assert_eq!(there, word != "max-live", "{shell}: {word}");
        }
    }
    let script = world.run(&["completions", "bash"]).await.stdout;
    let checked = assert_cmd::Command::new("bash").arg("-n").write_stdin(script).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[tokio::test]
async fn the_manual_has_a_page_for_each_command() {
    let world = World::new().await;
    let page = world.run(&["man"]).await;
    assert!(page.stdout.contains(".TH heartbeat 1"), "{}", page.stdout);
    let folder = world.path("man");
    let said = world.run(&["man", "--dir", folder.to_str().unwrap()]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    for name in ["heartbeat.1", "heartbeat-doctor.1", "heartbeat-service-print.1"] {
        assert!(folder.join(name).exists(), "{name}");
    }
}
