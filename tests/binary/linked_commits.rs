//! Commits that an item is linked with: what they say and touch comes from the code base if it has
//! them, and from the tracker if not.

use std::path::Path;

use heartbeat::simulate::ado::{Simulator, SimulatorOptions, StoredCommit};
use serde_json::{Value, json};

use crate::job::world::{HEARTBEAT, World, code, text};

/// Commits these files, and returns the commit's hash.
fn commit(root: &Path, message: &str, files: &[&str]) -> String {
    for file in files {
        let path = root.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("// {message}\n")).unwrap();
    }
    support::git(root, &["add", "--all"]);
    support::git(root, &["commit", "--quiet", "--message", message]);
    let mut ask = std::process::Command::new("git");
    let output = ask.arg("-C").arg(root).args(["rev-parse", "HEAD"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn config(world: &World, address: &str, root: &Path) {
    let config = format!(
        "[source]\nbase_url = \"{address}\"\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
         [repository]\npath = \"{}\"\n\
         [agent]\ncommand = [\"{HEARTBEAT}\", \"simulate\", \"agent\"]\n\
         [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n",
        root.display()
    );
    std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
}

async fn heartbeat(world: &World, args: &[&str]) -> Value {
    let mut command = world.heartbeat(args);
    command.env("AZURE_DEVOPS_PAT", "right");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

fn bug(simulator: &Simulator) -> i64 {
    simulator.add_item(&[
        ("System.Title", json!("Total is wrong by a cent")),
        ("System.WorkItemType", json!("Bug")),
        ("System.State", json!("New")),
        ("Microsoft.VSTS.Common.Priority", json!(1)),
        ("System.Description", json!("<p>The total panics and is wrong.</p>")),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_linked_commit_is_read_from_the_code_base_and_else_from_the_tracker() {
    let world = World::new(0);
    let root = world.path().join("code");
    std::fs::create_dir_all(&root).unwrap();
    support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
    let first = commit(&root, "Begin", &["src/main.rs"]);
    let odd = ["docs/ein Wort mehr.md", "src/größe.rs"];
    let known =
        commit(&root, "Round the total once\n\nReviewed.", &[&odd[..], &["src/total.rs"]].concat());

    let options = SimulatorOptions { items: 0, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let item = bug(&simulator);
    let by_tracker = |message: &str| StoredCommit {
        message: message.to_owned(),
        files: vec!["as/the/tracker/says.rs".to_owned()],
    };
    let elsewhere = "0123456789abcdef0123456789abcdef01234567";
    for hash in [&first, &known] {
        simulator.link_commit(item, hash, by_tracker("The tracker's word"));
    }
    simulator.link_commit(item, elsewhere, by_tracker("In another repository"));
    // No hash: git is not asked, since it could take it for an option.
    let option = "--output=pwned";
    simulator.link_commit(item, option, by_tracker("An option"));
    config(&world, &simulator.base_url(), &root);

    let dry = heartbeat(&world, &["--dry-run", "--json"]).await;
    let prompts = dry["prompts"].as_array().unwrap();
    let deep = prompts.iter().find(|prompt| prompt["stage"] == "deep").expect("a deep prompt");
    let deep = deep["user"].as_str().unwrap();
    for line in [
        format!("commit {}: Begin; touched src/main.rs\n", &first[..10]),
        format!(
            "commit {}: Round the total once; touched {}, {}, src/total.rs\n",
            &known[..10],
            odd[0],
            odd[1]
        ),
        format!(
            "commit {}: In another repository; touched as/the/tracker/says.rs",
            &elsewhere[..10]
        ),
    ] {
        assert!(deep.contains(&line), "{line}\n{deep}");
    }
    assert!(!deep.contains("The tracker's word"), "{deep}");

    heartbeat(&world, &["--once", "--json"]).await;
    let story = heartbeat(&world, &["show", &item.to_string(), "--json"]).await;
    let changes = story["surroundings"]["changes"].as_array().unwrap();
    let told: Vec<_> = changes.iter().map(|change| (&change["title"], &change["files"])).collect();
    let tracker = json!(["as/the/tracker/says.rs"]);
    let expected = [
        (&json!("Begin"), &json!(["src/main.rs"])),
        (&json!("Round the total once"), &json!([odd[0], odd[1], "src/total.rs"])),
        (&json!("In another repository"), &tracker),
    ];
    assert_eq!(told[..3], expected, "{story:#}");
    assert!(!root.join("pwned").exists() && !world.path().join("pwned").exists());
}
