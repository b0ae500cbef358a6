//! Output on a terminal: colour, one progress block, times and next commands.

use std::collections::BTreeMap;
use std::process::Command;

use super::world::World;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

const COLUMNS: usize = 100;

/// A minimal terminal: what is on it and in its scrollback at the end.
fn screen(bytes: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (BTreeMap::<usize, Vec<char>>::new(), 0_usize, 0_usize);
    let mut chars = bytes.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\x1b' => {
                if chars.next() != Some('[') {
                    continue;
                }
                let mut figure = String::new();
                let code = loop {
                    match chars.next() {
                        Some(c) if c.is_ascii_digit() || c == ';' || c == '?' => figure.push(c),
                        other => break other,
                    }
                };
                let count = figure.parse().unwrap_or(1);
                match code {
                    Some('A') => row = row.saturating_sub(count),
                    Some('B') => row += count,
                    Some('K') => {
                        let line = rows.entry(row).or_default();
                        line.truncate(if figure == "2" { 0 } else { column });
                    }
                    Some('J') => rows.retain(|line, _| *line < row),
                    _ => {}
                }
            }
            c => {
                // A full line continues on the next one, as our progress block expects.
                if column == COLUMNS {
                    (row, column) = (row + 1, 0);
                }
                let line = rows.entry(row).or_default();
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    let text = |line: Vec<char>| line.into_iter().collect::<String>().trim_end().to_owned();
    rows.into_values().map(text).collect()
}

/// Runs a shell line on a separate terminal, if this machine has `script`.
fn on_a_terminal(line: &str) -> Option<String> {
    let output = Command::new("script")
        .args(["-qec", &format!("stty cols {COLUMNS} rows 40; {line}"), "/dev/null"])
        .env("TERM", "xterm")
        // Set by Cargo for tests; it would mean `cargo run`.
        .env_remove("CARGO_PKG_NAME")
        .env("TZ", "Europe/Berlin")
        .output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("SKIPPED: no `script` on this machine ({error})");
            None
        }
    }
}

#[test]
fn a_run_leaves_one_clean_list_of_lines_in_the_scrollback() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let line = format!("{BINARY} --once --demo --set http.listen= --state-dir {}", state.display());
    let Some(bytes) = on_a_terminal(&line) else { return };
    assert!(bytes.contains("analysis: 3 of 15 findings"), "{bytes}");
    let lines = screen(&bytes);
    let ghosts: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("analysis:") || line.contains(" of 10 min"))
        .collect();
    assert!(ghosts.is_empty(), "left on the screen: {ghosts:#?}\n{lines:#?}");
    let text = lines.join("\n");
    assert!(!text.contains("first seen"), "an item of the backlog is counted, not listed: {text}");
    assert!(text.contains(" CET  run      started") || text.contains(" CEST  run"), "{text}");
    let next = lines.iter().rev().find(|line| !line.is_empty()).unwrap().trim();
    assert!(next.starts_with(BINARY) && next.contains(" show 41"), "{next}");
    let shown = Command::new("sh").args(["-c", next]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("Finding of "), "the suggested command works: {shown}");
    assert!(!shown.contains("####") && !shown.contains('\x1b'), "{shown}");
}

#[tokio::test]
async fn colour_is_for_people_only() {
    let mut world = World::new().await;
    world.run(&["--once", "--quiet"]).await;
    assert!(!world.run(&["status"]).await.stdout.contains('\x1b'), "none in a pipe");
    world.env.push(("CLICOLOR_FORCE".into(), "1".into()));
    assert!(world.run(&["status"]).await.stdout.contains("\x1b[2mrunning"));
    assert!(world.run(&["doctor"]).await.stdout.contains("\x1b[32mok"));
    world.env.push(("NO_COLOR".into(), "1".into()));
    assert!(!world.run(&["status"]).await.stdout.contains('\x1b'));
}

#[test]
fn without_a_configuration_the_next_step_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(args).current_dir(folder.path()).env_clear().env("HOME", folder.path());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for args in [&["--once"][..], &["--dry-run"], &[]] {
        let (code, text) = run(args);
        assert_eq!(code, Some(78), "{text}");
        assert!(text.contains("hint: run `heartbeat init`"), "{text}");
    }
    let (_, doctor) = run(&["doctor"]);
    assert!(doctor.contains("no heartbeat.toml found"), "{doctor}");
}

#[tokio::test]
async fn a_wait_says_what_for_until_when_and_which_key() {
    let world = World::new().await;
    let busy = ["--set", "limits.max_load_per_core=0.0000001", "--set", "limits.admission_wait=1s"];
    let said = world.run(&[&["--once"][..], &busy].concat()).await;
    assert_eq!(said.code(), 75, "{}", said.stderr);
    for part in ["wait     load: load per core", "(limits.max_load_per_core)", "retrying until "] {
        assert!(said.stderr.contains(part), "{part} is missing: {}", said.stderr);
    }
    assert!(said.stdout.contains("limits.max_load_per_core"), "why nothing ran: {}", said.stdout);
    assert!(!said.stdout.contains("Read the first finding"), "{}", said.stdout);
}

#[tokio::test]
async fn a_missing_agent_is_said_without_waiting_for_the_machine() {
    let world = World::new().await;
    let said = world
        .run(&[
            "--once",
            "--set",
            "limits.max_load_per_core=0.0000001",
            "--set",
            "limits.admission_wait=10m",
            "--set",
            "agent.command=[\"no-such-agent\"]",
        ])
        .await;
    assert_eq!(said.code(), 78, "{}", said.stderr);
    assert!(said.stdout.contains("no-such-agent"), "{}", said.stdout);
    assert!(!said.stderr.contains("wait  "), "{}", said.stderr);
}

#[tokio::test]
async fn status_promises_a_next_run_only_while_a_scheduler_lives() {
    let world = World::new().await;
    world.run(&["--once", "--quiet"]).await;
    let status = world.run(&["status"]).await.stdout;
    assert!(status.contains("next run    none: no scheduler is running"), "{status}");
    assert_eq!(world.run(&["status", "--json"]).await.json()["next_run"], serde_json::Value::Null);
}

#[tokio::test]
async fn items_that_triage_settled_are_listed_with_its_reason() {
    let world = World::new().await;
    world.run(&["--once", "--quiet", "--set", "limits.max_deep_per_run=20"]).await;
    let settled = world.run(&["items", "--state", "settled", "--json"]).await.json();
    let settled = settled.as_array().unwrap();
    assert!(!settled.is_empty());
    for item in settled {
        assert_eq!(item["verdict"]["needs_deep_analysis"], false, "{item:#}");
    }
    let shown = world.run(&["items", "--state", "settled"]).await.stdout;
    let reason = settled[0]["verdict"]["reason"].as_str().unwrap();
    assert!(shown.contains(&format!("triage: settled: {reason}")), "{shown}");
    let none = world.run(&["items", "--state", "parked", "--reason", "attempts-exhausted"]).await;
    assert_eq!((none.code(), none.stdout.as_str()), (0, "no matching items\n"));
}

#[tokio::test]
async fn init_prints_one_json_document() {
    let world = World::new().await;
    let file = world.path("new.toml");
    let said = world.run(&["init", "--json", "--config", file.to_str().unwrap()]).await;
    assert_eq!(said.json()["file"], file.to_str().unwrap(), "{said:?}");
    assert_eq!(said.json()["still_to_set"][0], "source.base_url");
    assert!(world.run(&["init", "--json", "--print"]).await.json()["text"].is_string());
}

#[tokio::test]
async fn status_says_why_the_last_run_refused_in_the_words_of_the_run() {
    let world = World::new().await;
    let said = world.run(&["--once", "--set", "agent.command=[\"no-such-agent\"]"]).await;
    assert_eq!(said.code(), 78, "{}", said.stderr);
    let status = world.run(&["status"]).await.stdout;
    let row = status.lines().find(|line| line.starts_with("because     ")).unwrap_or_default();
    assert!(row.contains("no-such-agent"), "{status}");
    world.run(&["--once", "--quiet"]).await;
    let status = world.run(&["status"]).await.stdout;
    assert!(!status.contains("\nbecause"), "the newest run worked: {status}");
}

#[tokio::test]
async fn show_names_the_hidden_text_of_an_item() {
    let world = World::new().await;
    let said = world.run(&["--once", "--quiet"]).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let alarmed = |event: &&serde_json::Value| event["event"] == "text_alarm";
    let key = world.events().iter().find(alarmed).unwrap()["item"].as_str().unwrap().to_owned();
    let story = world.run(&["show", &key]).await.stdout;
    let line = story.lines().find(|line| line.starts_with("ALARM: ")).unwrap_or_default();
    assert!(line.contains("hidden") && line.contains("removed from every prompt"), "{story}");
    let calm = world.run(&["items", "--json"]).await.json();
    let calm = calm.as_array().unwrap().iter().find(|item| item["alarms"].is_null()).unwrap();
    let story = world.run(&["show", calm["key"].as_str().unwrap()]).await.stdout;
    assert!(!story.contains("\nALARM"), "{story}");
}

#[tokio::test]
async fn the_log_on_a_terminal_is_in_local_time_and_the_json_log_in_utc() {
    let world = World::new().await.with("TZ", "Asia/Tokyo");
    let level = ["--once", "--quiet", "--log-level", "info"];
    let said = world.run(&level).await;
    let line = said.stderr.lines().next().unwrap_or_default();
    assert!(line.contains(" JST "), "{line}");
    let said = world.run(&[&level[..], &["--log-format", "json"]].concat()).await;
    let line = said.stderr.lines().next().unwrap_or_default();
    let stamp = serde_json::from_str::<serde_json::Value>(line).unwrap()["timestamp"].clone();
    assert!(stamp.as_str().unwrap().ends_with('Z'), "{line}");
}

/// The answers are typed ahead; `script` passes them on to its terminal.
#[tokio::test]
async fn init_shows_what_the_tracker_has_where_it_asks_for_it() {
    use tokio::io::AsyncWriteExt as _;
    let world = World::new().await;
    let area = format!("{}\\Web", world.simulator.project());
    for _ in 0..6 {
        world.simulator.add_item(&[
            ("System.WorkItemType", "Epic".into()),
            ("System.State", "New".into()),
            ("System.Title", "One more".into()),
            ("System.AreaPath", area.clone().into()),
            ("System.Tags", "urgent".into()),
        ]);
    }
    let line = format!("{BINARY} init --config new.toml");
    #[expect(clippy::disallowed_methods, reason = "the test starts the program it tests")]
    let started = tokio::process::Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(world.folder.path())
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", world.path("home"))
        .env("AZURE_DEVOPS_PAT", super::world::TOKEN)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut started = match started {
        Ok(started) => started,
        Err(error) => {
            eprintln!("SKIPPED: no `script` on this machine ({error})");
            return;
        }
    };
    let (base, project) = (world.simulator.base_url(), world.simulator.project());
    let page = format!("{base}/{project}/_boards/board/t/Web/Stories");
    let answers =
        [&page, "code", "", "UTC", "", "off", "", "", "", "Epic", "", &area, "urgent", "n"];
    let typed = answers.map(|answer| format!("{answer}\n")).concat();
    started.stdin.as_mut().unwrap().write_all(typed.as_bytes()).await.unwrap();
    let output = started.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for shown in ["Epic 6", "New ", &format!("{area} 6"), "urgent 6"] {
        assert!(said.contains(shown), "{shown:?} is not in {said}");
    }
    let written = std::fs::read_to_string(world.path("new.toml")).unwrap();
    let written: toml::Table = written.parse().unwrap();
    let source = &written["source"];
    assert_eq!(source["project"].as_str(), Some(project), "of the board's address");
    for (key, value) in [("types", "Epic"), ("areas", &area), ("tags", "urgent")] {
        assert_eq!(source[key], toml::Value::Array(vec![value.into()]), "{key}");
    }
    assert_eq!(source["states"], toml::Value::Array(Vec::new()));
}
