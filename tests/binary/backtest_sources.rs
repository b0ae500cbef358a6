//! `heartbeat backtest` and the scores of findings with Jira and GitHub: their items have other names
//! than their numbers.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use simulators::{github, jira};

use crate::job::world::{HEARTBEAT, World, text};

fn day(day: u8) -> Timestamp {
    format!("2026-03-{day:02}T10:30:00Z").parse().unwrap()
}

/// A folder with code bases and a configuration for one source.
struct Place(World);

impl Place {
    fn new(source: &str, code_bases: &[&str]) -> Self {
        let place = Self(World::new(0));
        let config = format!(
            "[source]\n{source}\ntoken_env = \"TOKEN\"\n[agent]\ncommand = [{HEARTBEAT:?}, \"simulate\", \"agent\", \"--pace\", \"0\"]\ncredential_env = \"TOKEN_OF_AGENT\"\n[limits]\nmax_load_per_core = 1000.0\n",
        );
        std::fs::write(place.0.path().join("heartbeat.toml"), config).unwrap();
        for code in code_bases {
            let root = place.root(code);
            std::fs::create_dir_all(root.join("src")).unwrap();
            support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
            for name in ["invoice", "shipment", "customer", "warehouse", "label", "tariff"] {
                place.write(code, name, "0");
            }
            place.commit(code, "The beginning", day(1));
        }
        place
    }

    fn root(&self, code: &str) -> PathBuf {
        self.0.path().join(code)
    }

    fn write(&self, code: &str, name: &str, value: &str) {
        let text = format!("pub fn {name}_total() -> u32 {{\n    {value}\n}}\n");
        std::fs::write(self.root(code).join(format!("src/{name}.rs")), text).unwrap();
    }

    fn commit(&self, code: &str, message: &str, at: Timestamp) {
        support::git(&self.root(code), &["add", "--all"]);
        let arguments = ["commit", "--quiet", "--message", message];
        support::git_at(&self.root(code), &arguments, Some(at.as_second()));
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        self.0.heartbeat(arguments).env("TOKEN", "x").env("TOKEN_OF_AGENT", "x").output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
    }
}

fn named<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut outcomes = report["outcomes"].as_array().unwrap().iter();
    outcomes.find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"))
}

fn jira_source(simulator: &jira::Simulator) -> String {
    format!(
        "kind = \"jira\"\nbase_url = {:?}\nproject = {:?}\nrepository = \"code\"\ncomments = 3\nuser = \"ann@example.invalid\"",
        simulator.base_url(),
        jira::PROJECT
    )
}

#[test]
fn finished_issues_of_jira_are_scored_by_their_keys_and_by_what_they_said_before() {
    for is_cloud in [true, false] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options =
            jira::SimulatorOptions { items: 0, is_cloud, most_rows: 2, ..Default::default() };
        let simulator = runtime.block_on(jira::Simulator::start(options)).unwrap();
        let place = Place::new(&jira_source(&simulator), &["code"]);
        let report = |title: &str, words: &str| simulator.report_at(title, words, day(2));
        let (invoice, key) = report("The invoice is wrong", "invoice_total gives 0.");
        let (label, label_key) = report("Labels", "label_total");
        let (tariff, tariff_key) = report("Tariffs", "tariff_total");
        let (open, open_key) = report("Customers", "customer_total");
        place.write("code", "invoice", "9");
        place.commit("code", &format!("{key}: right sum"), day(5));
        place.write("code", "label", "3");
        place.commit(
            "code",
            &format!("Print labels\n\nFixes {}", label_key.to_lowercase()),
            day(6),
        );
        // Numbers are something else here, the issue's own number too.
        place.write("code", "tariff", "4");
        place.commit("code", &format!("Fixes #{tariff}, {tariff}, AB#{tariff}"), day(7));
        place.write("code", "customer", "4");
        place.commit("code", &format!("{open_key} begun"), day(7));
        // What the developer wrote afterwards names another file.
        simulator.rewrite_at(invoice, "Cause: shipment_total, shipment.rs.", "Done", day(8));
        simulator.comment(invoice, "Ann", "See tariff.rs, tariff_total.");
        simulator.rewrite_at(label, "label_total", "Done", day(8));
        simulator.rewrite_at(tariff, "tariff_total", "Done", day(8));
        simulator.rewrite_at(open, "customer_total", "In Progress", day(8));

        let report = place.json(&["backtest", "--since", "2026-01-01", "--json"]);
        let first = &named(&report, &key)["result"]["Ok"];
        assert_eq!(first["places"], json!([{ "path": "src/invoice.rs", "rank": 1 }]), "{report:#}");
        assert_eq!(first["fixes"][0][1], "key");
        let second = &named(&report, &label_key)["result"]["Ok"];
        assert_eq!(second["places"], json!([{ "path": "src/label.rs", "rank": 1 }]));
        assert_eq!(second["fixes"][0][1], "keyword");
        assert_eq!(named(&report, &tariff_key)["result"]["Err"], "no_commit");
        assert_eq!(report["outcomes"].as_array().unwrap().len(), 3, "{report:#}");
        assert_eq!(report["notes"], json!([]), "the texts are those of that time");
    }
}

#[test]
fn findings_on_jira_issues_are_scored_by_commits_that_name_their_keys() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = jira::SimulatorOptions { items: 8, ..Default::default() };
    let simulator = runtime.block_on(jira::Simulator::start(options)).unwrap();
    let place = Place::new(&jira_source(&simulator), &["code"]);
    let output = place.run(&["--once"]);
    assert!(output.status.success(), "{}", text(&output));
    let later = Timestamp::now().checked_add(SignedDuration::from_mins(5)).unwrap();
    for (name, number) in ["invoice", "label", "tariff"].iter().cycle().zip(1..=8) {
        place.write("code", name, &number.to_string());
        place.commit("code", &format!("{}-{number}: right {name}", jira::PROJECT), later);
    }
    let output = place.run(&["--once"]);
    assert!(output.status.success(), "{}", text(&output));
    let accuracy = place.json(&["accuracy", "--json"]);
    let (findings, fixed) = (&accuracy["all"]["findings"], &accuracy["all"]["fixed"]);
    assert!(findings.as_u64() > Some(0) && findings == fixed, "{accuracy:#}");
}

#[test]
fn issues_of_several_github_repositories_are_known_by_their_own_numbers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let options = github::SimulatorOptions { items: 0, ..Default::default() };
    let simulator = runtime.block_on(github::Simulator::start(options)).unwrap();
    let (shop, library) = (github::REPOSITORY, github::LIBRARY);
    let source = format!(
        "kind = \"github\"\nbase_url = {:?}\nproject = \"{shop},{library}\"\nrepository = \"code\"\nroutes = [{{ area = {library:?}, path = \"library\" }}]",
        simulator.base_url()
    );
    let place = Place::new(&source, &["code", "library"]);
    let later = Timestamp::now().checked_add(SignedDuration::from_hours(2)).unwrap();
    let mut numbers = Vec::new();
    for step in ["one", "two", "three"] {
        place.write("code", "tariff", step);
        let subject = format!("Tariff {step} (#9{})", step.len());
        let by_host = ["-c", "user.email=noreply@github.com", "commit", "--all", "--quiet"];
        support::git(&place.root("code"), &[&by_host[..], &["--message", &subject]].concat());
    }
    // The host appends numbers of pull requests there; an issue has another number than they have.
    for (repository, code, name) in [(shop, "code", "invoice"), (library, "library", "label")] {
        let words = format!("{name}_total gives 0");
        let number = simulator.add_issue(repository, &words, &words, &[]);
        simulator.close(repository, number);
        place.write(code, name, "7");
        place.commit(code, &format!("Right sum (#{number})"), later);
        numbers.push(number);
    }
    let report = place.json(&["backtest", "--since", "2026-01-01", "--json"]);
    let outcomes = report["outcomes"].as_array().unwrap();
    let ranked = |file: &str| {
        let places = json!([{ "path": file, "rank": 1 }]);
        outcomes.iter().any(|one| one["result"]["Ok"]["places"] == places)
    };
    assert!(ranked("src/invoice.rs") && ranked("src/label.rs"), "{report:#}");
    let names: Vec<&Value> = outcomes.iter().map(|one| &one["name"]).collect();
    for number in numbers {
        assert!(names.contains(&&json!(format!("#{number}"))), "{names:?}");
    }
}
