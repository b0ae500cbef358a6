//! `heartbeat backtest` with the tracker as source: finished items, their links to commits, and
//! their texts before the fixes.

use std::path::Path;

use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::job::world::{World, text};

const STEPS: &str = "Microsoft.VSTS.TCM.ReproSteps";

fn day(day: u8) -> Timestamp {
    format!("2026-03-{day:02}T10:30:00Z").parse().unwrap()
}

struct Team {
    world: World,
    simulator: Simulator,
    runtime: tokio::runtime::Runtime,
}

impl Team {
    fn new() -> Self {
        let world = World::new(0);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options = SimulatorOptions { items: 0, ..SimulatorOptions::default() };
        let simulator = runtime.block_on(Simulator::start(options)).unwrap();
        let team = Self { world, simulator, runtime };
        let config = format!(
            "[source]\nbase_url = {:?}\nproject = \"Parcel\"\ntoken_env = \"TOKEN\"\ncomments = 3\n[repository]\npath = \"code\"\nroutes = [{{ area = \"Parcel\\\\Web\", path = \"web\" }}]\n[agent]\ncommand = [{:?}, \"simulate\", \"agent\", \"--pace\", \"0\"]\ncredential_env = \"TOKEN_OF_AGENT\"\n[limits]\nmax_load_per_core = 1000.0\n",
            team.simulator.base_url(),
            crate::job::world::HEARTBEAT
        );
        std::fs::write(team.world.path().join("heartbeat.toml"), config).unwrap();
        for code in ["code", "web"] {
            let root = team.root(code);
            std::fs::create_dir_all(root.join("src")).unwrap();
            support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
            for name in ["invoice", "shipment", "customer", "warehouse", "label", "tariff"] {
                team.write(code, name, "0");
            }
            team.commit(code, 1, "The beginning");
        }
        team
    }

    fn root(&self, code: &str) -> std::path::PathBuf {
        self.world.path().join(code)
    }

    fn write(&self, code: &str, name: &str, value: &str) {
        let text = format!("pub fn {name}_total() -> u32 {{\n    {value}\n}}\n");
        std::fs::write(self.root(code).join(format!("src/{name}.rs")), text).unwrap();
    }

    fn commit(&self, code: &str, at: u8, message: &str) -> String {
        let root = self.root(code);
        support::git(&root, &["add", "--all"]);
        let arguments = ["commit", "--quiet", "--allow-empty", "--message", message];
        support::git_at(&root, &arguments, Some(day(at).as_second()));
        let head = std::process::Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(["rev-parse", "HEAD"])
            .output()
            .unwrap();
        String::from_utf8(head.stdout).unwrap().trim().to_owned()
    }

    /// A bug of the second of March.
    fn item(&self, id: i64, area: &str, title: &str, steps: &str) {
        let fields = [
            ("System.Title", json!(title)),
            ("System.WorkItemType", json!("Bug")),
            ("System.State", json!("Active")),
            ("System.AreaPath", json!(area)),
            // The scripted agent requests an analysis of urgent bugs.
            ("Microsoft.VSTS.Common.Priority", json!(1)),
            (STEPS, json!(steps)),
        ];
        self.simulator.add_past_item(id, day(2), &fields);
    }

    fn close(&self, id: i64, at: u8, steps: &str) {
        let fields = [(STEPS, json!(steps)), ("System.State", json!("Closed"))];
        self.simulator.bulk_edit(&[id], day(at), &fields);
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        let mut all = vec!["backtest", "--since", "2026-01-01"];
        all.extend(arguments);
        self.world.heartbeat(&all).env("TOKEN", "x").env("TOKEN_OF_AGENT", "x").output().unwrap()
    }

    fn report(&self) -> Value {
        let output = self.run(&["--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
    }
}

fn result(report: &Value, item: i64) -> &Value {
    let outcomes = report["outcomes"].as_array().unwrap();
    &outcomes.iter().find(|one| one["item"] == item).unwrap()["result"]
}

#[test]
fn items_of_the_tracker_are_scored_by_what_they_said_before_their_fix() {
    let team = Team::new();
    team.item(51, "Parcel\\Billing", "The invoice is wrong", "<p>invoice_total gives 0.</p>");
    team.write("code", "invoice", "9");
    let fix = team.commit("code", 5, "Right sum");
    let address = format!("vstfs:///Git/Commit/p%2Fr%2F{fix}");
    team.simulator.link_artifact(51, day(5), &address);
    // The developer's later text names another file.
    team.close(51, 6, "<p>Cause: shipment_total, shipment.rs, shipment, shipment.</p>");
    team.simulator.add_past_comment(51, day(6), "See tariff.rs, tariff_total.");

    team.item(52, "Parcel\\Billing", "Labels", "<p>label_total</p>");
    team.write("code", "label", "3");
    team.commit("code", 7, "Merged PR 21: Print labels");
    team.simulator.link_artifact(52, day(7), "vstfs:///Git/PullRequestId/p%2Fr%2F21");
    team.close(52, 8, "");

    let report = team.report();
    let (invoice, label) = (&result(&report, 51)["Ok"], &result(&report, 52)["Ok"]);
    assert_eq!(invoice["places"], json!([{ "path": "src/invoice.rs", "rank": 1 }]), "{report}");
    assert_eq!(invoice["fixes"], json!([[fix, "artifact"]]));
    assert_eq!(label["places"], json!([{ "path": "src/label.rs", "rank": 1 }]));
    assert_eq!(label["fixes"][0][1], "pull_request");
    assert_eq!(report["total"]["items"], 2);
    let text = text(&team.run(&[]));
    assert!(text.contains("2 of 2 finished items could be used"), "{text}");
}

#[test]
fn reasons_why_an_item_cannot_be_used_are_distinguished() {
    let team = Team::new();
    let all = [
        (61, "Parcel\\Web", "In the other code base"),
        (62, "Parcel\\Billing", "Linked to a commit that is nowhere"),
        (63, "Parcel\\Billing", "Never named"),
        (64, "Parcel\\Billing", "Reformatted only"),
        (65, "Parcel\\Billing", "Only new files"),
    ];
    for (id, area, title) in all {
        team.item(id, area, title, "<p>Something.</p>");
    }
    team.write("code", "customer", "1");
    team.commit("code", 5, "Fixes #61");
    let gone = "vstfs:///Git/Commit/p%2Fr%2F0123456789abcdef0123456789abcdef01234567";
    team.simulator.link_artifact(62, day(5), gone);
    let path = team.root("code").join("src/tariff.rs");
    let spaced = std::fs::read_to_string(&path).unwrap().replace("    0", "\t\t0");
    std::fs::write(&path, spaced).unwrap();
    team.commit("code", 6, "Tabs for #64");
    team.write("code", "brand_new", "1");
    team.commit("code", 7, "Fixes #65");
    for (id, ..) in all {
        team.close(id, 9, "<p>Done.</p>");
    }
    let report = team.report();
    assert_eq!(result(&report, 61)["Err"], "other_code_base", "{report}");
    assert_eq!(result(&report, 62)["Err"], "elsewhere");
    assert_eq!(result(&report, 63)["Err"], "no_commit");
    assert_eq!(result(&report, 64)["Err"], json!({ "fix": "no_known_file" }));
    assert_eq!(result(&report, 65)["Err"], json!({ "fix": "no_known_file" }));
    assert_eq!(report["total"]["items"], 0);
}

#[test]
fn a_tracker_that_is_down_is_said_with_its_exit_code_and_a_shallow_clone_with_a_way_out() {
    let team = Team::new();
    team.item(71, "Parcel\\Billing", "invoice_total", "<p>invoice_total</p>");
    team.write("code", "invoice", "9");
    team.commit("code", 5, "Fixes #71");
    team.close(71, 6, "<p>Done.</p>");
    let shallow = team.world.path().join("shallow");
    let address = format!("file://{}", team.root("code").display());
    let words = ["clone", "--quiet", "--depth", "1", &address, shallow.to_str().unwrap()];
    support::git(Path::new("/"), &words);
    let output = team.run(&["--json", "--repo", shallow.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result(&report, 71)["Err"], "no_parent", "{report}");
    assert!(report["notes"][0].as_str().unwrap().contains("git fetch --unshallow"), "{report}");

    let Team { simulator, runtime, world } = team;
    runtime.block_on(simulator.stop());
    let arguments = ["backtest", "--since", "2026-01-01"];
    let output = world.heartbeat(&arguments).env("TOKEN", "x").output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{}", text(&output));
}

#[test]
fn bare_numbers_of_a_repository_on_another_host_are_not_items_unless_requested() {
    let team = Team::new();
    team.item(81, "Parcel\\Billing", "invoice_total", "<p>invoice_total</p>");
    team.write("code", "invoice", "9");
    team.commit("code", 5, "Fixes #81");
    team.close(81, 6, "<p>Done.</p>");
    let remote = ["remote", "add", "origin", "https://github.com/owner/name"];
    support::git(&team.root("code"), &remote);
    let report = team.report();
    assert_eq!(result(&report, 81)["Err"], "no_commit");
    assert!(report["notes"].to_string().contains("--numbers items"), "{report}");
    let output = team.run(&["--json", "--numbers", "items"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["total"]["items"], 1, "{report}");
    let pattern = ["--json", "--set", "fixes.patterns=[\"Fixes #{id}\"]"];
    let report: Value = serde_json::from_slice(&team.run(&pattern).stdout).unwrap();
    assert_eq!(result(&report, 81)["Ok"]["fixes"][0][1], "pattern", "{report}");
}

#[test]
fn analyses_of_the_past_are_scored_and_reach_nothing_but_the_budget_of_the_day() {
    let team = Team::new();
    for (id, name) in [(91, "invoice"), (92, "label"), (93, "tariff")] {
        let title = format!("{name}_total gives 0");
        team.item(id, "Parcel\\Billing", &title, "<p>Expected the sum of all.</p>");
        team.write("code", name, "9");
        team.commit("code", 5, &format!("quokkafrost: fixes #{id}"));
        team.close(id, 6, "<p>Done.</p>");
    }
    let wanted = ["--json", "--analyze", "2", "--max-cost", "3", "--seed", "7"];
    let dry_run = team.run(&[&wanted[..], &["--dry-run"]].concat());
    let dry_run: Value = serde_json::from_slice(&dry_run.stdout).unwrap();
    assert_eq!(dry_run["analysis"]["dry_run"], true);
    assert_eq!(team.world.figure("SELECT count(*) FROM budget"), 0);

    let comments: Vec<usize> = [91, 92, 93].map(|id| team.simulator.comments(id).len()).to_vec();
    let output = team.run(&wanted);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert!(text(&output).contains("analysing 2 items, at most $"), "{}", text(&output));
    let analysis = &report["analysis"];
    assert_eq!(analysis["items"], dry_run["analysis"]["items"], "the same seed, the same items");
    let findings = analysis["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2, "{analysis}");
    for finding in findings {
        assert_eq!(finding["changed"], 1, "{finding}");
        assert!(finding["hits"].as_u64() <= finding["named"].as_u64(), "{finding}");
    }
    assert!(analysis["spent"].as_f64().unwrap() <= 3.0, "{analysis}");
    // Nothing of it is in the state, except the cost of the day.
    for table in ["heartbeat_state", "findings", "runs", "sessions"] {
        assert_eq!(team.world.figure(&format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(team.world.figure("SELECT count(*) FROM budget WHERE spent IS NOT NULL"), 1);
    assert_eq!([91, 92, 93].map(|id| team.simulator.comments(id).len()).to_vec(), comments);
    assert!(!team.world.state().join("backtest/analysis").exists());
    assert!(team.world.session_processes().is_empty());

    // What was paid for once is used again.
    let again: Value = serde_json::from_slice(&team.run(&wanted).stdout).unwrap();
    assert_eq!(again["analysis"]["findings"], analysis["findings"]);
    assert_eq!(
        (&again["analysis"]["spent"], &again["analysis"]["reused"]),
        (&json!(0.0), &json!(2))
    );

    let too_much = team.run(&[
        "--seed",
        "8",
        "--analyze",
        "3",
        "--max-cost",
        "3",
        "--set",
        "budget.per_day=0.51",
        "--set",
        "budget.per_run=0.51",
    ]);
    assert!(text(&too_much).contains("nothing was analysed"), "{}", text(&too_much));
    assert_eq!(too_much.status.code(), Some(10), "{}", text(&too_much));
}

#[test]
fn a_stop_during_analyses_has_the_exit_code_of_its_signal_and_claims_no_result() {
    let team = Team::new();
    team.item(91, "Parcel\\Billing", "invoice_total gives 0", "<p>Wrong.</p>");
    team.write("code", "invoice", "9");
    team.commit("code", 5, "fixes #91");
    team.close(91, 6, "<p>Done.</p>");
    let agent = format!(
        "agent.command=[{:?}, \"simulate\", \"agent\", \"--pace\", \"60000\"]",
        crate::job::world::HEARTBEAT
    );
    let analyze = ["--analyze", "1", "--max-cost", "3", "--set", &agent];
    let arguments = [&["backtest", "--since", "2026-01-01"][..], &analyze].concat();
    let mut command = team.world.heartbeat(&arguments);
    let command = command.env("TOKEN", "x").env("TOKEN_OF_AGENT", "x");
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let scratch = team.world.state().join("backtest/analysis/state/scratch");
    let has_session = || std::fs::read_dir(&scratch).is_ok_and(|mut all| all.next().is_some());
    support::eventually("its session", has_session);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(!text(&output).contains("have a finding"), "{}", text(&output));
    assert!(!team.world.state().join("backtest/analysis").exists());
}

#[test]
fn a_stop_in_the_middle_keeps_what_was_scored() {
    let team = Team::new();
    for id in 1000..1040 {
        team.item(id, "Parcel\\Billing", "invoice_total gives 0", "<p>Wrong.</p>");
        team.write("code", "invoice", &id.to_string());
        team.commit("code", 5, &format!("Fixes #{id}"));
        team.close(id, 6, "<p>Done.</p>");
    }
    let arguments = ["backtest", "--since", "2026-01-01", "--jobs", "1", "--json"];
    let child = team.world.heartbeat(&arguments).env("TOKEN", "x").spawn().unwrap();
    let scores = team.world.state().join("backtest/scores.jsonl");
    let some = || std::fs::read_to_string(&scores).is_ok_and(|text| text.lines().count() > 4);
    support::eventually("some items are scored", some);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        // It ended before the signal.
        return;
    }
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("run the command again"), "{}", text(&output));
    let report = team.report();
    assert_eq!(report["total"]["items"], 40, "{report}");
}

/// An agent that records its prompt before it answers.
fn recording_agent(team: &Team) -> std::path::PathBuf {
    let asked = team.world.path().join("asked");
    std::fs::create_dir_all(&asked).unwrap();
    let script = team.world.path().join("agent.sh");
    let text = format!(
        "#!/bin/sh\nfile=$(mktemp {}/XXXXXX)\ncat > $file.in\necho \"$@\" > $file.args\nexec {} simulate agent --pace 0 \"$@\" < $file.in\n",
        asked.display(),
        crate::job::world::HEARTBEAT
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script
}

#[test]
fn an_analysis_of_the_past_gets_nothing_newer_and_pays_for_no_triage() {
    let team = Team::new();
    // Each item mentions the previous one, and each fix adds a unique word.
    for (id, name) in [(91, "invoice"), (92, "label"), (93, "tariff")] {
        let title = format!("{name}_total gives 0");
        let steps = format!("<p>Like wombat{} it is wrong.</p>", id - 1);
        team.item(id, "Parcel\\Billing", &title, &steps);
        team.write("code", name, &format!("9 // quokkafrost{id}"));
        team.write("code", &format!("quokkafrost{id}"), "1");
        let fix = team.commit("code", 5, &format!("quokkafrost{id}: fixes #{id}"));
        team.close(id, 6, &format!("<p>Mended by {fix}, quokkafrost{id}.</p>"));
    }
    let agent = recording_agent(&team);
    let command = format!("agent.command=[{agent:?}]");
    let (own, binary) = (team.world.path(), Path::new(crate::job::world::HEARTBEAT));
    let write = format!("agent.write_paths=[{own:?}]");
    let read = format!("agent.read_paths=[{own:?}, {:?}]", binary.parent().unwrap());
    let wanted = ["--json", "--analyze", "3", "--max-cost", "3"];
    let set = ["--set", &command, "--set", &write, "--set", &read];
    let output = team.run(&[&wanted[..], &set].concat());
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)));
    assert_eq!(report["analysis"]["findings"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(report["analysis"]["at_most"], 1.5, "three analyses and no triage");
    let asked: Vec<String> = std::fs::read_dir(team.world.path().join("asked"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    let prompts: Vec<&String> =
        asked.iter().filter(|text| text.contains("_total gives 0")).collect();
    assert_eq!(prompts.len(), 3, "one session for each item: {asked:?}");
    for prompt in &prompts {
        let own = [91, 92, 93].into_iter().find(|id| prompt.contains(&format!("wombat{}", id - 1)));
        let own = own.unwrap();
        // Earlier fixes are part of the code by then.
        for newer in own..=93 {
            assert!(!prompt.contains(&format!("quokkafrost{newer}")), "{own}: {prompt}");
        }
        let others = (91..=93).filter(|id| *id != own);
        for other in others {
            assert!(!prompt.contains(&format!("wombat{}", other - 1)), "{own}: {prompt}");
        }
    }
    for finding in report["analysis"]["findings"].as_array().unwrap() {
        assert_eq!(finding["functions_changed"], 1, "{finding}");
    }
}
