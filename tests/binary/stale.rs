//! A finding whose files change afterwards: marked with the commits, and analysed again if
//! configured.

use serde_json::Value;

use crate::job::world::{World, text};

fn show(world: &World, item: &str) -> Value {
    let output = world.heartbeat(&["show", item, "--json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

#[test]
fn a_finding_whose_files_changed_is_marked_and_its_item_analysed_again_if_wanted() {
    let world = World::new(0);
    let root = world.path().join("code");
    heartbeat::simulate::sample::write_to(&root).unwrap();
    support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
    support::git(&root, &["add", "--all"]);
    support::git(&root, &["commit", "--quiet", "--message", "Begin"]);
    let code = format!("repository.path={}", root.display());
    let (exit, report) = world.run_once(&["--set", &code]);
    assert_eq!(exit, 0, "{report}");
    let finding = &report["findings"][0];
    let number = finding["key"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    assert_eq!(show(&world, &number)["findings"][0]["stale"], Value::Null);

    let file = finding["finding"]["files"][0]["path"].as_str().unwrap();
    let path = root.join(file);
    let changed = std::fs::read_to_string(&path).unwrap().replacen('\n', "\n\n", 1);
    std::fs::write(&path, changed).unwrap();
    // Later than the finding by more than git's precision of one second.
    let in_2035 = Some(2_051_222_400);
    support::git_at(&root, &["commit", "--quiet", "--all", "--message", "Tidy it up"], in_2035);
    world.run_once(&["--set", &code]);
    let story = show(&world, &number);
    let stale = &story["findings"][0]["stale"];
    assert_eq!((&stale["total"], &stale["files"][0]), (&1.into(), &file.into()), "{stale}");
    assert_eq!(story["item"]["phase"], "done", "marked, and left alone");
    let shown = text(&world.heartbeat(&["show", &number]).output().unwrap());
    assert!(shown.contains("its files were changed later by "), "{shown}");
    assert!(shown.contains(" Tidy it up (2035-01-01)"), "{shown}");

    // Configured, but the finding is new; then it is a week old.
    let wanted = ["--set", &code, "--set", "analyze.reanalyse=stale"];
    world.run_once(&wanted);
    assert_eq!(show(&world, &number)["item"]["phase"], "done");
    let older = "UPDATE findings SET created_at = created_at - 8 * 86400000";
    world.database().execute(older, []).unwrap();
    world.run_once(&wanted);
    assert_eq!(show(&world, &number)["item"]["phase"], "pending");
    let (_, report) = world.run_once(&wanted);
    let again = report["findings"].as_array().unwrap();
    assert!(again.iter().any(|one| one["key"] == finding["key"]), "{report}");
    assert_eq!(show(&world, &number)["findings"].as_array().unwrap().len(), 2);
}
