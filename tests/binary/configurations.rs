//! Two configurations of one user: each has its own state, and neither touches the other's queue.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

struct User(tempfile::TempDir);

impl User {
    /// With a configuration in the folders `one` and `two`, each with a tracker of its own.
    fn new() -> Self {
        let user = Self(tempfile::tempdir().unwrap());
        for (name, first) in [("one", 1), ("two", 101)] {
            let folder = user.path(name);
            std::fs::create_dir_all(folder.join("code")).unwrap();
            std::fs::write(folder.join("code/ledger.rs"), "pub fn post() {}\n").unwrap();
            let items: String = (first..first + 3)
                .map(|id| {
                    format!("{{\"id\": {id}, \"title\": \"Item {id}\", \"body\": \"It.\"}}\n")
                })
                .collect();
            std::fs::write(folder.join("items.jsonl"), items).unwrap();
            let config = format!(
                "[source]\nname = {name:?}\nkind = \"file\"\npath = \"items.jsonl\"\n\
                 [repository]\npath = \"code\"\n[schedule]\nfirst_run = \"process\"\n\
                 [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
                 [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n\
                 min_free_memory = \"1 MiB\"\n"
            );
            std::fs::write(folder.join("heartbeat.toml"), config).unwrap();
        }
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// In the folder of a configuration, as the user would start it.
    fn heartbeat(&self, name: &str, arguments: &[&str]) -> Output {
        Command::new(BINARY)
            .args(arguments)
            .current_dir(self.path(name))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.0.path())
            .env("XDG_STATE_HOME", self.path("states"))
            .output()
            .unwrap()
    }

    fn run(&self, name: &str) {
        let ended = self.heartbeat(name, &["--once", "--quiet"]);
        assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    }

    /// The state folders that exist.
    fn states(&self) -> Vec<String> {
        let found = std::fs::read_dir(self.path("states")).unwrap();
        let mut names: Vec<String> =
            found.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Item, phase and attempts of every known item.
fn items(state: &Path) -> Vec<(i64, String, i64)> {
    let database = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    let sql = "SELECT item_id, phase, attempts FROM heartbeat_state ORDER BY 1";
    let mut rows = database.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    rows.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

#[test]
fn two_configurations_of_one_user_never_touch_each_others_queue() {
    let user = User::new();
    user.run("one");
    user.run("two");
    assert_eq!(user.states(), ["heartbeat-one", "heartbeat-two"]);
    let (one, two) = (user.path("states/heartbeat-one"), user.path("states/heartbeat-two"));
    let before = (items(&one), items(&two));
    assert_eq!(before.0.len() + before.1.len(), 6, "{before:?}");
    assert!(before.0.iter().chain(&before.1).all(|(_, phase, _)| phase == "done"), "{before:?}");
    for _ in 0..2 {
        user.run("one");
        user.run("two");
    }
    assert_eq!((items(&one), items(&two)), before, "back and forth changes nothing");

    // Made to share a folder: refused, untouched, with both names and the three ways out.
    let same = ["--once", "--state-dir", one.to_str().unwrap()];
    let refused = user.heartbeat("two", &same);
    assert_ne!(refused.status.code(), Some(0));
    let said = text(&refused);
    for part in [
        "one/heartbeat.toml",
        "two/heartbeat.toml",
        "--state-dir",
        "[state] dir",
        "heartbeat state adopt",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    assert_eq!(items(&one), before.0);
    let adopt = ["state", "adopt", "--state-dir", one.to_str().unwrap()];
    let adopted = user.heartbeat("two", &adopt);
    assert_eq!(adopted.status.code(), Some(0), "{}", text(&adopted));
    assert_eq!(user.heartbeat("two", &same).status.code(), Some(0), "on purpose it may");
}

#[test]
fn a_state_from_before_states_had_owners_is_adopted_by_its_configuration() {
    let user = User::new();
    // The folder that all configurations of a user shared, with nobody's name in it.
    let shared = user.path("states/heartbeat");
    let begun = ["--once", "--quiet", "--state-dir", shared.to_str().unwrap()];
    let begun = user.heartbeat("one", &begun);
    assert_eq!(begun.status.code(), Some(0), "{}", text(&begun));
    let owner = shared.join("state.json");
    assert!(owner.exists(), "the file with the owner's name");
    std::fs::remove_file(&owner).unwrap();
    let before = items(&shared);
    user.run("one");
    assert_eq!(user.states(), ["heartbeat"], "no second state, no second payment");
    assert_eq!(items(&shared), before);
    // It has an owner now: the other configuration begins its own.
    user.run("two");
    assert_eq!(user.states(), ["heartbeat", "heartbeat-two"]);
    assert_eq!(items(&shared), before);
}
