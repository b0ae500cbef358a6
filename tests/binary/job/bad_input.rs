//! Bad input: a one-paragraph error with cause and fix, the right exit code, the state unchanged.

use std::os::unix::fs::PermissionsExt;

use super::world::{World, code, text};

/// Runs `--once` with this configuration file.
fn with_config(world: &World, content: &str) -> (i32, String) {
    std::fs::write(world.path().join("heartbeat.toml"), content).unwrap();
    let mut command = world.heartbeat(&["--once"]);
    let output = command.env("AZURE_DEVOPS_PAT", "x").output().unwrap();
    (code(&output), text(&output))
}

fn is_untouched(world: &World) -> bool {
    !world.state().exists()
}

#[test]
fn a_missing_config_file_is_named() {
    let world = World::new(0);
    let output = world.heartbeat(&["--once", "--config", "nowhere.toml"]).output().unwrap();
    assert_eq!(code(&output), 78);
    assert!(text(&output).contains("nowhere.toml"), "{}", text(&output));
    assert!(is_untouched(&world));
}

#[test]
fn no_config_at_all_says_what_is_needed() {
    let world = World::new(0);
    let output = world.heartbeat(&["--once"]).output().unwrap();
    assert_eq!(code(&output), 78);
    assert!(text(&output).contains("run `heartbeat init`"), "{}", text(&output));
    assert!(is_untouched(&world));
}

#[test]
fn malformed_and_contradictory_configs_are_reported_by_line_and_key() {
    for (content, parts) in [
        ("[source\n", vec!["heartbeat.toml", "1"]),
        ("[limits]\nmax_live_sessions = 0\n", vec!["max_live_sessions", "0"]),
        ("[timeouts]\ngrace = \"soon\"\n", vec!["timeouts.grace", "soon", "90s"]),
        ("[budget]\nper_run = 0.1\n", vec!["budget.per_run", "analyze.max_cost"]),
        ("[limits]\nmax_live_session = 2\n", vec!["did you mean", "max_live_sessions"]),
        ("[schedule]\ncron = \"0 0 30 2 *\"\n", vec!["schedule.cron", "0 0 30 2 *"]),
        ("[schedule]\ntimezone = \"Europe/Berln\"\n", vec!["Europe/Berlin"]),
    ] {
        let world = World::new(0);
        let (code, told) = with_config(&world, content);
        assert_eq!(code, 78, "{told}");
        for part in parts {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
        assert!(is_untouched(&world));
    }
}

/// A mistake in the file neither hides the state it names nor selects another one.
#[test]
fn a_broken_config_never_turns_a_command_to_another_state() {
    let world = World::new(0);
    world.run_once(&[]);
    let state = format!("[state]\ndir = \"{}\"\n", world.state().display());
    let ask = |args: &[&str], config: &str| {
        std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
        let output = world.plain(args).output().unwrap();
        (code(&output), text(&output))
    };
    let (typo, syntax) =
        (format!("{state}[limits]\nmax_live_sesions = 2\n"), format!("{state}[limits\n"));
    for (config, wanted) in [(&typo, 0), (&syntax, 78)] {
        let (code, told) = ask(&["status"], config);
        assert_eq!(code, wanted, "{told}");
        assert!(told.contains("heartbeat.toml"), "{told}");
        assert_eq!(told.contains("last run"), wanted == 0, "{told}");
        assert_eq!(told.contains("--state-dir"), wanted == 78, "{told}");
    }
    assert_eq!(ask(&["retry", "4106"], &typo).0, 0);
    for command in [["retry", "4106"], ["kill", "abc"], ["show", "4106"]] {
        assert_eq!(ask(&command, &syntax).0, 78, "{command:?}");
        let (code, told) = ask(&command, "");
        assert_eq!(code, 1, "{command:?}: {told}");
        assert!(told.contains("No run has used the state in"), "{told}");
    }
}

#[test]
fn ways_of_running_do_not_go_with_commands() {
    let world = World::new(0);
    for args in [&["--demo", "status"][..], &["--once", "runs"], &["runs", "-n", "0"]] {
        let output = world.plain(args).output().unwrap();
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output));
    }
}

/// An option that would be ignored is refused: `--parked --terms x` must not requeue everything.
#[test]
fn options_that_do_not_go_together_are_refused() {
    let world = World::new(0);
    for args in [
        &["retry", "5", "--reason", "for_a_person"][..],
        &["retry", "--parked", "--terms", "total"],
        &["retry", "--failed", "--terms", "total"],
        &["retry", "--failed", "--reason", "for_a_person"],
        &["retry", "5", "--area", "Shop"],
        &["backtest", "--links", "--max-cost", "3"],
        &["backtest", "--links", "--dry-run"],
        &["backtest", "--max-cost", "3"],
    ] {
        let output = world.plain(args).output().unwrap();
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output));
    }
}

#[test]
fn a_working_directory_that_is_no_repository_is_reported() {
    let world = World::new(0);
    let source = "[source]\nbase_url = \"http://127.0.0.1:1/x\"\nproject = \"P\"\n";
    for (extra, part) in
        [("", "repository.path"), ("[repository]\npath = \"/nowhere/at/all\"\n", "/nowhere/at/all")]
    {
        let (code, told) = with_config(&world, &format!("{source}{extra}"));
        assert_eq!(code, 78, "{told}");
        assert!(told.contains(part), "{told}");
        assert!(is_untouched(&world));
    }
}

#[test]
fn a_newer_database_is_refused_untouched() {
    let world = World::new(0);
    world.run_once(&[]);
    world.database().pragma_update(None, "user_version", 999).unwrap();
    let output = world.demo(&["--once"]).output().unwrap();
    assert_eq!(code(&output), 74);
    assert!(text(&output).contains("schema version 999"), "{}", text(&output));
    assert_eq!(world.figure("PRAGMA user_version"), 999);
}

#[test]
fn a_state_folder_that_cannot_be_written_is_reported() {
    if nix::unistd::Uid::effective().is_root() {
        // Root can write everywhere except where a folder cannot exist.
        let world = World::new(0);
        std::fs::write(world.state(), "a file in the way").unwrap();
        let output = world.demo(&["--once"]).output().unwrap();
        assert_eq!(code(&output), 74, "{}", text(&output));
        assert!(text(&output).contains("--state-dir"), "{}", text(&output));
        return;
    }
    let world = World::new(0);
    std::fs::set_permissions(world.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let output = world.demo(&["--once"]).output().unwrap();
    std::fs::set_permissions(world.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(code(&output), 74, "{}", text(&output));
}

/// A disk that becomes full during a run: a file system of one megabyte, where mounting is allowed.
#[test]
fn a_full_disk_is_reported_and_loses_nothing() {
    let world = World::new(0);
    std::fs::create_dir_all(world.state()).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs"])
        .arg(world.state())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no file system can be mounted here, so no disk can be full");
        return;
    }
    let output = world.demo(&["--once"]).output().unwrap();
    let unmounted = std::process::Command::new("umount").arg(world.state()).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    assert_eq!(code(&output), 74, "{}", text(&output));
    assert!(text(&output).contains("full") || text(&output).contains("space"), "{}", text(&output));
}

/// Somebody moved the private folders of sessions to a larger disk, by a link to a folder that also
/// holds other things.
#[test]
fn what_sessions_did_not_create_stays_even_where_their_folders_are_moved_by_a_link() {
    let world = World::new(0);
    let disk = world.path().join("disk");
    std::fs::create_dir_all(disk.join("photos/2026")).unwrap();
    std::fs::write(disk.join("notes.txt"), "kept").unwrap();
    std::fs::set_permissions(disk.join("notes.txt"), PermissionsExt::from_mode(0o644)).unwrap();
    let left = disk.join("0199a1b2-0000-7000-8000-000000000001");
    std::fs::create_dir(&left).unwrap();
    std::fs::create_dir(world.state()).unwrap();
    std::fs::set_permissions(world.state(), PermissionsExt::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&disk, world.state().join("scratch")).unwrap();

    let (code, report) = world.run_once(&[]);

    assert_eq!(code, 0, "{report}");
    assert!(disk.join("photos/2026").is_dir());
    let notes = std::fs::metadata(disk.join("notes.txt")).unwrap();
    assert_eq!(notes.permissions().mode() & 0o777, 0o644);
    assert!(!left.exists(), "the folder of a crashed session stayed");
}
