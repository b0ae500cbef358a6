//! Helper commands as real processes: bounded in time and output, with no process left.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use heartbeat::exec::{ExecError, HelperCommand, Output, helpers, run};

fn shell(script: &str) -> HelperCommand {
    command("/bin/sh", &["-c", script])
}

fn command(program: &str, args: &[&str]) -> HelperCommand {
    HelperCommand {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        timeout: Duration::from_secs(60),
        max_output: 64 * 1024,
    }
}

async fn stdout(command: HelperCommand) -> String {
    let Output { stdout, .. } = run(&command).await.unwrap();
    String::from_utf8(stdout).unwrap()
}

/// Whether a process exists and is not a zombie.
fn is_alive(pid: &str) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
}

/// Waits for a process to be gone; a killed one takes a moment to leave the process table.
async fn gone(pid: &str) {
    let waiting = async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it is still alive");
}

#[tokio::test]
async fn a_command_gives_its_output_and_its_status() {
    assert_eq!(stdout(shell("echo out; echo err >&2")).await, "out\n");
    let failing = shell("echo first >&2; echo 'no such  realm' >&2; exit 3");
    let output = run(&failing).await.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = output.success(&failing).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("first no such realm"), "{error}");
    assert!(run(&command("true", &[])).await.unwrap().status.success(), "found by PATH");
}

#[tokio::test]
async fn nothing_is_inherited() {
    let mut environment = command("env", &[]);
    environment.env.push(("ONLY".into(), "this".into()));
    assert_eq!(stdout(environment).await, "ONLY=this\nPATH=/usr/bin:/bin\n");
    assert_eq!(stdout(shell("cat; echo end")).await, "end\n", "standard input is empty");
    let group = stdout(shell("cut -d' ' -f1,5 /proc/self/stat; echo $$")).await;
    let numbers: Vec<&str> = group.split_whitespace().collect();
    assert_eq!(numbers[1], numbers[2], "the shell leads its own group");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut slow = shell("sleep 600 & echo $! > child; echo $$ > leader; trap '' TERM; wait; wait");
    slow.cwd = folder.path().into();
    // Enough for the shell to write its two files, even on a busy machine.
    slow.timeout = Duration::from_secs(3);
    let error = run(&slow).await.unwrap_err();
    assert!(matches!(error, ExecError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("within 3s"), "{error}");
    for name in ["child", "leader"] {
        let pid = std::fs::read_to_string(folder.path().join(name)).unwrap();
        gone(pid.trim()).await;
        assert!(!helpers().contains(&pid.trim().parse().unwrap()));
    }
}

#[tokio::test]
async fn a_flood_of_output_is_cut_off() {
    let error = run(&shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done")).await;
    assert!(matches!(error, Err(ExecError::TooMuchOutput { limit: 65_536, .. })), "{error:?}");
    let noisy =
        shell("i=0; while [ $i -lt 5000 ]; do echo 0123456789012345678 >&2; i=$((i+1)); done");
    let output = run(&noisy).await.unwrap();
    assert!(output.status.success(), "a flood of complaints alone is no failure");
    assert_eq!(output.stderr.raw().len(), 65_536);
}

#[tokio::test]
async fn a_child_left_in_the_background_does_not_hold_the_answer_up() {
    let left = stdout(shell("sleep 600 & echo $!")).await;
    gone(left.trim()).await;
}

#[tokio::test]
async fn a_command_is_registered_while_it_lives() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("go");
    let mut waiting = shell("echo $$ > pid.new; mv pid.new pid; mkfifo go; cat go; echo done");
    waiting.cwd = folder.path().into();
    let running = tokio::spawn(async move { run(&waiting).await });
    let pid_file = folder.path().join("pid");
    while !(pid_file.exists() && pipe.exists()) {
        tokio::task::yield_now().await;
    }
    let pid: u32 = std::fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    assert!(helpers().contains(&pid));
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "go\n")).await.unwrap().unwrap();
    assert_eq!(running.await.unwrap().unwrap().stdout, b"go\ndone\n");
    assert!(!helpers().contains(&pid));
}

#[tokio::test]
async fn a_command_nobody_waits_for_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut waiting = shell("sleep 600 & echo $! > pid.new; mv pid.new pid; wait");
    waiting.cwd = folder.path().into();
    let running = tokio::spawn(async move { run(&waiting).await });
    let pid_file = folder.path().join("pid");
    while !pid_file.exists() {
        tokio::task::yield_now().await;
    }
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    gone(std::fs::read_to_string(&pid_file).unwrap().trim()).await;
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let error = run(&command("/no/such/program", &[])).await.unwrap_err();
    assert!(matches!(error, ExecError::Spawn { .. }), "{error}");
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[test]
fn secrets_are_not_shown() {
    let mut secret = command("git", &["hunter2"]);
    secret.env.push(("TOKEN".into(), "hunter2".into()));
    assert!(!format!("{secret:?}").contains("hunter2"));
}
