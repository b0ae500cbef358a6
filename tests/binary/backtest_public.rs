//! Public repositories with real issues: the backtest, with the texts served by the tracker's
//! simulator, ranks as `heartbeat context` does for the same text and commit. `PUBLIC_ISSUES` is a
//! folder with `instances.jsonl` (id, repo, base_commit, gold, query_file, fix) and the texts, and
//! `PUBLIC_REPOSITORIES` one with their git directories as `owner+name/repo`.

use std::path::{Path, PathBuf};

use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use serde_json::{Value, json};

use crate::job::world::{World, text};

const TEXT: &str = "Custom.ReleaseNote";

struct Instance {
    id: i64,
    name: String,
    repository: PathBuf,
    base: String,
    fix: String,
    gold: Vec<String>,
    text: String,
}

fn git(repository: &Path, arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    let output = command.arg("-C").arg(repository).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn instances(folder: &Path, repositories: &Path) -> Vec<Instance> {
    let lines = std::fs::read_to_string(folder.join("instances.jsonl")).unwrap();
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let word = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    all.zip(1..)
        .map(|(one, id)| Instance {
            id,
            name: word(&one, "id"),
            repository: repositories.join(word(&one, "repo").replace('/', "+")).join("repo"),
            base: word(&one, "base_commit"),
            fix: word(&one, "fix"),
            gold: one["gold"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| p.as_str().unwrap().into())
                .collect(),
            text: std::fs::read_to_string(folder.join(word(&one, "query_file"))).unwrap(),
        })
        .collect()
}

/// The output of `heartbeat context` for the text in the code of that commit.
fn ranked_directly(world: &World, instance: &Instance) -> Vec<String> {
    let tree = world.path().join(format!("tree-{}", instance.id));
    std::fs::create_dir_all(&tree).unwrap();
    support::git(&tree, &["init", "--quiet"]);
    let objects = instance.repository.join("objects").display().to_string();
    std::fs::create_dir_all(tree.join(".git/objects/info")).unwrap();
    std::fs::write(tree.join(".git/objects/info/alternates"), objects + "\n").unwrap();
    support::git(&tree, &["checkout", "--quiet", "--force", "--detach", &instance.base]);
    let query = world.path().join("query.txt");
    std::fs::write(&query, &instance.text).unwrap();
    let (tree_path, query) = (tree.to_str().unwrap(), query.to_str().unwrap());
    let arguments =
        ["context", "--format", "paths", "--repo", tree_path, "--query-file", query, "--top", "20"];
    let output = world.heartbeat(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    std::fs::remove_dir_all(&tree).unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn first_twenty(scored: &Value) -> Vec<String> {
    let first = scored["first"].as_array().unwrap().iter().take(20);
    first.map(|path| path.as_str().unwrap().to_owned()).collect()
}

/// A finished item that was edited after its fix.
fn serve(simulator: &Simulator, one: &Instance) {
    let written: i64 =
        git(&one.repository, &["log", "-1", "--format=%at", &one.fix]).parse().unwrap();
    let created = jiff::Timestamp::from_second(written - 7200).unwrap();
    let (title, body) = one.text.split_once('\n').unwrap_or((&one.text, ""));
    let fields = [
        ("System.Title", json!(title)),
        ("System.State", json!("Active")),
        ("System.WorkItemType", json!("Bug")),
        (TEXT, json!(body)),
    ];
    simulator.add_past_item(one.id, created, &fields);
    let now = jiff::Timestamp::now();
    simulator.link_artifact(one.id, now, &format!("vstfs:///Git/Commit/p%2Fr%2F{}", one.fix));
    simulator.bulk_edit(
        &[one.id],
        now,
        &[("System.State", json!("Closed")), (TEXT, json!("Later."))],
    );
}

fn report_of(world: &World, simulator: &Simulator, repository: &Path) -> Value {
    let config = format!(
        "[source]\nbase_url = {:?}\nproject = \"Parcel\"\ntoken_env = \"TOKEN\"\ntext_fields = [\"{TEXT}\"]\n[analyze]\nmax_item_tokens = 1000000\n[repository]\npath = {repository:?}\n",
        simulator.base_url()
    );
    std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
    let output =
        world.heartbeat(&["backtest", "--json", "--jobs", "1"]).env("TOKEN", "x").output().unwrap();

    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

#[test]
fn public_issues_are_ranked_as_the_harness_ranks_them() {
    let folders = (std::env::var_os("PUBLIC_ISSUES"), std::env::var_os("PUBLIC_REPOSITORIES"));
    let (Some(folder), Some(repositories)) = folders else {
        eprintln!("SKIPPED: PUBLIC_ISSUES and PUBLIC_REPOSITORIES name no folders");
        return;
    };
    let all = instances(Path::new(&folder), Path::new(&repositories));
    let (mut same, mut hits, mut ours) = (0, [0; 3], [0; 3]);
    let names: std::collections::BTreeSet<PathBuf> =
        all.iter().map(|one| one.repository.clone()).collect();
    for repository in names {
        let here: Vec<&Instance> = all.iter().filter(|one| one.repository == repository).collect();
        let world = World::new(0);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options = SimulatorOptions { items: 0, ..SimulatorOptions::default() };
        let simulator = runtime.block_on(Simulator::start(options)).unwrap();
        here.iter().for_each(|one| serve(&simulator, one));
        let report = report_of(&world, &simulator, &repository);
        for one in here {
            let outcome = report["outcomes"]
                .as_array()
                .unwrap()
                .iter()
                .find(|o| o["item"] == one.id)
                .unwrap();
            let scored = &outcome["result"]["Ok"];
            if scored.is_null() {
                eprintln!("{}: not used: {}", one.name, outcome["result"]);
                continue;
            }
            assert_eq!(scored["base"], one.base.as_str(), "{}", one.name);
            let backtest = first_twenty(scored);
            let harness = ranked_directly(&world, one);
            for (at, within) in [1, 5, 10].into_iter().enumerate() {
                let hit = |ranked: &[String]| {
                    ranked.iter().take(within).any(|path| one.gold.contains(path))
                };
                hits[at] += usize::from(hit(&harness));
                ours[at] += usize::from(hit(&backtest));
            }
            same += usize::from(backtest == harness);
            if backtest != harness {
                eprintln!("{}: differs\n  {backtest:?}\n  {harness:?}", one.name);
            }
        }
    }
    eprintln!(
        "{} instances, {same} ranked the same in the first twenty; hits at 1, 5, 10: harness {hits:?}, backtest {ours:?}",
        all.len()
    );
    assert_eq!(hits, ours);
}
