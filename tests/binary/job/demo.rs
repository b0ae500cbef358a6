//! A newcomer's first steps: the demo and its dry run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::world::{World, code, text};

#[test]
fn one_command_fetches_triages_analyses_and_stores_findings() {
    let world = World::new(50);
    let (code, report) = world.run_once(&[]);
    assert_eq!((code, &report["outcome"]), (0, &"completed".into()), "{report:#}");
    let summary = &report["summary"];
    assert!(summary["fetched"].as_u64().unwrap() >= 20, "{summary}");
    assert_eq!(world.figure("SELECT count(*) FROM sessions WHERE stage = 'triage'"), 1);
    assert_eq!(summary["analysed"], 10, "{summary}");
    assert_eq!(report["findings"].as_array().unwrap().len(), 10);
    assert!(summary["cost"].as_f64().unwrap() > 0.0);
    assert_eq!(world.session_processes(), Vec::<u32>::new());
}

#[test]
fn findings_name_files_that_exist_in_the_code_base() {
    let world = World::new(20);
    let (_, report) = world.run_once(&[]);
    for finding in report["findings"].as_array().unwrap() {
        let first = &finding["finding"]["files"][0];
        assert_eq!(first["exists"], true, "{finding:#}");
    }
}

#[test]
fn a_run_without_work_builds_no_index() {
    let world = World::new(20);
    let index = world.state().join("index");
    let (_, none) = world.run_once(&["--set", "source.where=[System.Id] < 0"]);
    assert_eq!(none["outcome"], "nothing_new", "{none:#}");
    assert!(!index.exists(), "{}", index.display());
    world.run_once(&["--set", "limits.max_deep_per_run=1"]);
    assert!(index.exists());
}

#[test]
fn a_second_run_finishes_what_was_deferred_and_a_third_finds_nothing_new() {
    let world = World::new(20);
    let (_, first) = world.run_once(&["--set", "limits.max_deep_per_run=9"]);
    let deferred = &first["summary"]["deferred"];
    assert!(deferred.as_u64() > Some(0), "{first:#}");
    let (_, second) = world.run_once(&[]);
    assert_eq!(&second["summary"]["analysed"], deferred, "{second:#}");
    assert_eq!(second["summary"]["triaged"], 0, "its verdict is remembered");
    let (code, third) = world.run_once(&[]);
    assert_eq!((code, &third["outcome"]), (0, &"nothing_new".into()));
    assert_eq!(third["summary"]["sessions"], 0);
}

#[test]
fn json_puts_one_object_on_standard_output_and_nothing_else() {
    let world = World::new(20);
    let output = world.demo(&["--once", "--json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["exit_code"], 0);
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(progress.contains("triage   20 items in 1 session"), "{progress}");
}

#[test]
fn what_was_found_can_be_read_afterwards() {
    let world = World::new(20);
    let (_, report) = world.run_once(&[]);
    let key = report["findings"][0]["key"].as_str().unwrap();
    for (args, expected) in [
        (vec!["show", key], "Finding of"),
        (vec!["status"], "last run"),
        (vec!["runs"], "completed"),
        (vec!["sessions"], "deep"),
    ] {
        let output = world.heartbeat(&args).output().unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output));
        assert!(text(&output).contains(expected), "{args:?} {}", text(&output));
        let mut json = args.clone();
        json.push("--json");
        let output = world.heartbeat(&json).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    }
}

#[test]
fn a_dry_run_shows_decisions_and_prompts_and_changes_no_byte() {
    let world = World::new(20);
    world.run_once(&["--set", "limits.max_deep_per_run=2"]);
    let before = hashes(&world.state());
    assert!(before.len() > 1);
    let output = world.demo(&["--dry-run"]).output().unwrap();
    let shown = text(&output);
    assert_eq!(code(&output), 0, "{shown}");
    for part in ["Decisions", "(carried over)", "━━ deep", "[system]", "at most $"] {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
    assert_eq!(hashes(&world.state()), before);
}

/// The start of an analysis prompt: the file with the defect, and its outline.
#[test]
fn the_deep_prompt_begins_with_the_right_file_and_its_outline() {
    let world = World::new(20);
    let output = world.demo(&["--dry-run", "--json"]).output().unwrap();
    let dry_run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let prompts = dry_run["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|prompt| prompt["item"] == "ado/4106").unwrap();
    let prompt = prompt["user"].as_str().unwrap();
    let context = prompt.split("part=\"context\">\n").nth(1).unwrap();
    let named = context.lines().find_map(|line| line.strip_prefix("- ")).unwrap();
    let file = named.split_whitespace().next().unwrap();
    // Its definitions: as an outline, or in the lines that are shown completely.
    let outline = context.split("\n## ").nth(1).unwrap().trim_end();
    insta::assert_snapshot!("the_first_file", format!("first: {file}\n\n{outline}"));
    let shown = text(&world.demo(&["--dry-run"]).output().unwrap());
    assert!(shown.contains(outline), "{shown}");
}

#[test]
fn a_dry_run_on_no_state_leaves_no_state() {
    let world = World::new(20);
    let output = world.demo(&["--dry-run", "--json"]).output().unwrap();
    let dry_run: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let prompts = dry_run["prompts"].as_array().unwrap();
    assert_eq!(prompts.iter().filter(|prompt| prompt["stage"] == "triage").count(), 1);
    assert_eq!(prompts.iter().filter(|prompt| prompt["stage"] == "deep").count(), 10);
    assert!(dry_run["worst_case"].as_f64() <= dry_run["budget_per_run"].as_f64());
    assert!(!world.state().exists());
}

/// strace records every `exec` of the dry run and its children.
#[test]
fn a_dry_run_starts_no_process() {
    let world = World::new(20);
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("SKIPPED: strace is not installed, so nobody can watch for processes");
        return;
    }
    let trace = world.path().join("trace");
    let dry_run = world.demo(&["--dry-run"]);
    let mut watched = Command::new("strace");
    watched.args(["-f", "-qq", "-e", "trace=execve,execveat,fork,vfork", "-o"]).arg(&trace);
    watched.arg(dry_run.get_program()).args(dry_run.get_args());
    watched.current_dir(world.path()).env("TMPDIR", world.path());
    let output = watched.output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output));
    let calls = std::fs::read_to_string(trace).unwrap();
    let calls: Vec<&str> =
        calls.lines().filter(|line| line.contains("exec") || line.contains("fork")).collect();
    assert_eq!(calls.len(), 1, "only the dry run itself: {calls:#?}");
}

/// Every file below a folder with the hash of its content.
fn hashes(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(hashes(&path));
        } else {
            let hash = Sha256::digest(std::fs::read(&path).unwrap());
            found.insert(path.display().to_string(), format!("{hash:x}"));
        }
    }
    found
}

fn open_to_others(folder: &std::path::Path, found: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode();
        if mode & 0o077 != 0 {
            found.push(format!("{:o} {}", mode & 0o7777, entry.path().display()));
        }
        if entry.file_type().unwrap().is_dir() {
            open_to_others(&entry.path(), found);
        }
    }
}

#[test]
fn everything_in_the_state_is_for_its_owner_only_and_nothing_is_left_beside_it() {
    let world = World::new(30);
    assert_eq!(world.run_once(&[]).0, 0);
    let mut found = Vec::new();
    open_to_others(&world.state(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    let beside: Vec<_> =
        std::fs::read_dir(world.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(beside, ["state"], "all of a demo is in its folder");
}

#[test]
fn a_demo_does_not_write_into_a_folder_that_is_not_its_own() {
    let world = World::new(30);
    std::fs::create_dir(world.state()).unwrap();
    std::fs::write(world.state().join("thesis.txt"), "years of work").unwrap();
    let refused = world.demo(&["--once"]).output().unwrap();
    assert_eq!(code(&refused), 74, "{}", text(&refused));
    let left: Vec<_> =
        std::fs::read_dir(world.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.txt"]);
}

#[test]
fn an_index_made_on_its_own_is_private_too() {
    let world = World::new(30);
    let code_base = world.path().join("code");
    std::fs::create_dir(&code_base).unwrap();
    std::fs::write(code_base.join("main.py"), "def retry_queue():\n    return 1\n").unwrap();
    let query = world.path().join("query");
    std::fs::write(&query, "retry queue").unwrap();
    let mut command = world.heartbeat(&["context", "--top", "3"]);
    command.arg("--repo").arg(&code_base).arg("--query-file").arg(&query);
    let output = command.output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output));
    let mut found = Vec::new();
    open_to_others(&world.state(), &mut found);
    assert_eq!(found, Vec::<String>::new());
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(world.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

/// As the README promises: the findings were written for the sample code base, and tell a reader
/// more than the title does.
#[test]
fn the_demo_of_a_newcomer_ends_well_with_findings_true_to_the_code() {
    let world = World::new(0);
    let output = world.heartbeat(&["--once", "--demo", "--json"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 15, "{report:#}");
    let words = |name: &str| -> std::collections::BTreeSet<&str> {
        findings.iter().filter_map(|one| one["finding"][name].as_str()).collect()
    };
    for name in ["risk", "confidence"] {
        assert_eq!(words(name).len(), 3, "{name} differs from finding to finding");
    }
    for finding in findings {
        for file in finding["finding"]["files"].as_array().unwrap() {
            assert_eq!(file["exists"], true, "{finding:#}");
        }
        assert!(!finding.to_string().contains("scripted agent"), "by rule: {finding:#}");
    }
}

/// On the folder that it uses by itself, where the first one left its state.
#[test]
fn a_second_demo_finds_as_much_as_the_first() {
    let world = World::new(0);
    for _ in 0..2 {
        let output = world.plain(&["--once", "--demo", "--json"]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["findings"].as_array().unwrap().len(), 15, "{}", text(&output));
        assert!(!text(&output).contains("WARN"), "{}", text(&output));
    }
}
