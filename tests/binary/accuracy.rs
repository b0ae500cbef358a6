//! `heartbeat accuracy`: a finding of a run, the commit that fixes its item, and the resulting
//! figures.

use std::path::Path;

use serde_json::Value;

use crate::job::world::{World, text};

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn json(world: &World, arguments: &[&str]) -> Value {
    let output = world.heartbeat(arguments).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

#[test]
fn a_finding_is_right_when_the_later_fix_changes_a_file_that_it_names() {
    let world = World::new(0);
    let root = world.path().join("code");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulate/sample"), &root);
    support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
    support::git(&root, &["add", "--all"]);
    support::git(&root, &["commit", "--quiet", "--message", "Begin"]);
    let code = format!("repository.path={}", root.display());
    let (exit, report) = world.run_once(&["--set", &code]);
    assert_eq!(exit, 0, "{report}");
    let before = json(&world, &["accuracy", "--json"]);
    assert!(before["all"]["findings"].as_u64().unwrap() > 0, "{before}");
    assert_eq!(before["all"]["fixed"], 0, "{before}");

    let finding = &report["findings"][0];
    let (key, file) = (finding["key"].as_str().unwrap(), &finding["finding"]["files"][0]["path"]);
    let path = root.join(file.as_str().unwrap());
    let changed = std::fs::read_to_string(&path).unwrap().replacen('\n', "\n\n", 1);
    std::fs::write(&path, changed).unwrap();
    let number = key.rsplit('/').next().unwrap();
    let message = format!("Mend it, fixes AB#{number}");
    support::git(&root, &["commit", "--quiet", "--all", "--message", &message]);
    world.run_once(&["--set", &code]);

    let after = json(&world, &["accuracy", "--json", "--by", "model"]);
    assert_eq!((&after["all"]["fixed"], &after["all"]["confirmed"]), (&1.into(), &1.into()));
    assert_eq!(after["groups"].as_object().unwrap().len(), 1, "{after}");
    let shown = text(&world.heartbeat(&["show", number]).output().unwrap());
    assert!(shown.contains("after the finding: it names 1 of 1 changed file"), "{shown}");
    let week = text(&world.heartbeat(&["report", "--since", "7d"]).output().unwrap());
    assert!(week.contains("1 of 1 findings whose items were fixed named a file"), "{week}");
}
