//! A source of kind `file`: the export of any tracker, written anew between runs.

use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

struct Export(tempfile::TempDir);

impl Export {
    fn new(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("code")).unwrap();
        std::fs::write(folder.path().join("code/ledger.rs"), "pub fn post() {}\n").unwrap();
        let config = format!(
            "[source]\nname = \"export\"\nkind = \"file\"\npath = {path:?}\n\
             [repository]\npath = \"code\"\n\
             [schedule]\nfirst_run = \"process\"\n\
             [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
             pass_env = [\"ANTHROPIC_BASE_URL\"]\n\
             [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n"
        );
        std::fs::write(folder.path().join("heartbeat.toml"), config).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn heartbeat(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.current_dir(self.0.path()).args(arguments);
        command.arg("--state-dir").arg(self.0.path().join("state"));
        command.env_remove("AZURE_DEVOPS_PAT").env("ANTHROPIC_API_KEY", "of-the-agent");
        command.env("ANTHROPIC_BASE_URL", support::messages_api::reachable());
        command.output().unwrap()
    }

    /// The ids of all known items.
    fn items(&self) -> Vec<i64> {
        let state = self.0.path().join("state/heartbeat.db");
        let store = rusqlite::Connection::open(Path::new(&state)).unwrap();
        let mut rows = store.prepare("SELECT item_id FROM heartbeat_state ORDER BY 1").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn an_export_is_read_by_every_run_and_wakes_only_what_changed() {
    let export = Export::new("items.jsonl");
    let first = r#"{"id": 7, "title": "Ledger posts twice", "body": "It posts twice.", "key": "PAY-7"}
{"number": 8, "title": "Totals are wrong", "body": "Rounding.", "labels": [{"name": "bug"}], "state": "OPEN"}
"#;
    export.write("items.jsonl", first);
    let run = export.heartbeat(&["--once"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));
    assert_eq!(export.items(), [7, 8]);

    // The same export again, with another item: only that one is new.
    let more =
        format!("{first}{{\"id\": 9, \"title\": \"Crash at start\", \"text\": \"It crashes.\"}}\n");
    export.write("items.jsonl", &more);
    let dry = export.heartbeat(&["--dry-run", "--json"]);
    let dry: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    let said = dry.to_string();
    assert!(said.contains("Crash at start") && !said.contains("It posts twice."), "{said}");
    let run = export.heartbeat(&["--once"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));
    assert_eq!(export.items(), [7, 8, 9]);
}

#[test]
fn a_folder_of_files_is_read_and_a_mistake_names_its_place() {
    let export = Export::new("items");
    export.write("items/a.json", r#"[{"id": 1, "title": "One"}, {"id": 2, "title": "Two"}]"#);
    export.write("items/b.jsonl", "{\"id\": 3, \"title\": \"Three\"}\n");
    export.write("items/readme.txt", "not an item");
    let doctor = export.heartbeat(&["doctor"]);
    assert!(text(&doctor).contains("3 items"), "{}", text(&doctor));
    export.write("items/b.jsonl", "{\"id\": 3, \"title\": \"Three\"}\n{\"id\": 4}\n");
    let run = export.heartbeat(&["--once"]);
    let said = text(&run);
    assert!(
        said.contains("b.jsonl") && said.contains("line 2") && said.contains("title"),
        "{said}"
    );
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert_eq!(export.items(), [1, 2, 3]);
}

#[test]
fn a_file_without_a_single_item_is_a_mistake() {
    let export = Export::new("items.jsonl");
    export.write("items.jsonl", "id,title\n1,One\n");
    let run = export.heartbeat(&["--once"]);
    let said = text(&run);
    assert!(said.contains("line 1") && said.contains("at least \"id\""), "{said}");
    assert_eq!(run.status.code(), Some(78), "{said}");
}

#[test]
fn neither_a_time_to_come_nor_a_bad_line_hides_another_item() {
    let export = Export::new("items.jsonl");
    let future = "{\"id\": 1, \"title\": \"One\", \"changed\": \"2099-01-01T00:00:00Z\"}\n";
    export.write("items.jsonl", future);
    let run = export.heartbeat(&["--once"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));
    let today = jiff::Timestamp::now();
    let lines = format!(
        "{future}{{\"id\": 2, \"title\": \"Two\", \"changed\": \"{today}\"}}\n\
         {{\"id\": 3, \"title\": \"Three\", \"priority\": \"high\"}}\n\
         {{\"id\": 4, \"title\": \"Four\", \"changed\": \"99999-01-01\"}}\n\
         {{\"id\": 5, \"title\":\n\
         {{\"id\": 6, \"title\": \"Six\"}}\n"
    );
    export.write("items.jsonl", &lines);
    let run = export.heartbeat(&["--once"]);
    let said = text(&run);
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert_eq!(export.items(), [1, 2, 6], "{said}");
    assert!(["line 3", "line 4", "line 5"].iter().all(|line| said.contains(line)), "{said}");
    // The one that is to come was known, and is not taken for changed by every run.
    let run = export.heartbeat(&["--once"]);
    assert!(text(&run).contains("0 to do, 0 deferred, 3 unchanged"), "{}", text(&run));
}
