//! An item over two code bases: one ranking, one session that reads both, one finding whose paths
//! name their code base, with the commit of each.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

struct Shop(tempfile::TempDir);

impl Shop {
    /// A web client and a server, each with a history, and a third code base that is nobody's
    /// business.
    fn new(routes: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shop = Self(folder);
        shop.code("web", "src/basketTotal.ts", "export const basketTotal = (n: number) => n;\n");
        shop.code("web", "src/menu.ts", "export const openMenu = () => undefined;\n");
        shop.code("server", "src/basket_total.rs", "pub fn basket_total(n: u64) -> u64 { n }\n");
        shop.code("server", "src/mail.rs", "pub fn send_mail() {}\n");
        shop.code("ledger", "src/basket_total.py", "def basket_total_of_the_ledger(): pass\n");
        let items = r#"[{"id": 7, "title": "Basket total crashes", "type": "Bug", "priority": 1,
            "text": "The basket total crashes in the web client and in the server."},
            {"id": 8, "title": "Basket total crashes on the server", "type": "Bug", "priority": 1,
            "text": "Only there: the basket total is wrong."}]"#;
        std::fs::write(shop.path().join("items.json"), items).unwrap();
        let config = format!(
            "[source]\nname = \"export\"\nkind = \"file\"\npath = \"items.json\"\n\
             [repository]\npath = \"web\"\nroutes = [{routes}]\n\
             [schedule]\nfirst_run = \"process\"\n\
             [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
             [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n{more}"
        );
        std::fs::write(shop.path().join("heartbeat.toml"), config).unwrap();
        shop
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Commits a file, in a code base that is made if it is not there.
    fn code(&self, name: &str, path: &str, content: &str) {
        let root = self.path().join(name);
        if !root.exists() {
            std::fs::create_dir_all(&root).unwrap();
            support::git(&root, &["init", "--quiet", "--initial-branch=main"]);
        }
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        support::git(&root, &["add", "--all"]);
        support::git(&root, &["commit", "--quiet", "--message", "Change"]);
    }

    fn head(&self, name: &str) -> String {
        let mut ask = Command::new("git");
        let asked = ask.arg("-C").arg(self.path().join(name)).args(["rev-parse", "HEAD"]).output();
        String::from_utf8(asked.unwrap().stdout).unwrap().trim().to_owned()
    }

    fn heartbeat(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.current_dir(self.path()).args(arguments);
        command.arg("--state-dir").arg(self.path().join("state"));
        command.env_remove("AZURE_DEVOPS_PAT").env("ANTHROPIC_API_KEY", "of-the-agent");
        command.output().unwrap()
    }

    fn finding(&self, item: &str) -> Value {
        let shown = self.heartbeat(&["show", item, "--json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        shown["findings"][0]["finding"].clone()
    }
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    format!("{out}{err}")
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

#[test]
fn files_of_both_are_in_one_ranking_and_one_finding_with_the_commit_of_each() {
    let shop = Shop::new(r#"{ path = "web", also = ["server"] }"#, "");
    let run = shop.heartbeat(&["--once"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));

    let finding = shop.finding("7");
    let files = paths(&finding["files"]);
    for path in ["web:src/basketTotal.ts", "server:src/basket_total.rs"] {
        assert!(files.contains(&path), "{path} in {finding:#}");
    }
    for file in finding["files"].as_array().unwrap() {
        assert_eq!((&file["exists"], &file["read"]), (&true.into(), &true.into()), "{file}");
    }
    let standing = |entry: &Value| entry["standing"].to_string();
    let evidence = finding["evidence"].as_array().unwrap();
    assert!(evidence.len() >= 2, "{finding:#}");
    assert!(evidence.iter().all(|entry| standing(entry).contains("confirmed")), "{finding:#}");
    assert!(!finding.to_string().contains("ledger"), "{finding:#}");
    let code_bases = finding["proof"]["code_bases"].as_array().unwrap();
    let recorded: Vec<(&str, &str)> = code_bases
        .iter()
        .map(|code| (code["name"].as_str().unwrap(), code["commit"].as_str().unwrap()))
        .collect();
    let (web, server) = (shop.head("web"), shop.head("server"));
    assert_eq!(recorded, [("web", web.as_str()), ("server", server.as_str())]);
    let shown = text(&shop.heartbeat(&["show", "7"]));
    for (name, commit) in recorded {
        assert!(shown.contains(&format!("{name} at commit {}", &commit[..9])), "{shown}");
    }
    let brief = text(&shop.heartbeat(&["brief", "7"]));
    assert!(brief.contains("in the repositories web, server"), "{brief}");

    // Triage names only one of them for this item.
    let finding = shop.finding("8");
    let files = paths(&finding["files"]);
    assert!(files.iter().all(|path| path.starts_with("server:")), "{finding:#}");
    assert_eq!(finding["proof"]["code_bases"].as_array().unwrap().len(), 1, "{finding:#}");
}

#[test]
fn a_later_commit_in_the_second_code_base_is_noticed() {
    let shop = Shop::new(r#"{ path = "web", also = ["server"] }"#, "");
    let run = shop.heartbeat(&["--once"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run));
    // Commit times have whole seconds only.
    support::eventually("a later second", || {
        shop.code(
            "server",
            "src/basket_total.rs",
            &format!("// {:?}\n", std::time::Instant::now()),
        );
        let run = shop.heartbeat(&["--once"]);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run));
        let shown = text(&shop.heartbeat(&["show", "7"]));
        shown.contains("its files were changed later")
            && shown.contains("server:src/basket_total.rs")
    });
}

#[test]
fn names_that_are_taken_twice_and_a_fleet_are_refused_in_words() {
    let shop = Shop::new(r#"{ path = "web", also = ["old/web"] }"#, "");
    for arguments in [["doctor"], ["--once"]] {
        let said = text(&shop.heartbeat(&arguments));
        assert!(said.contains("two code bases of one route are called \"web\""), "{said}");
    }
    let fleet = "[fleet]\naddress = \"http://127.0.0.1:1\"\nkey_file = \"key\"\n";
    let shop = Shop::new(r#"{ path = "web", also = ["server"] }"#, fleet);
    for (argument, code) in [("doctor", 1), ("--once", 78)] {
        let run = shop.heartbeat(&[argument]);
        let said = text(&run);
        assert!(said.contains("a host of a fleet gets one code base for a session"), "{said}");
        assert_eq!(run.status.code(), Some(code), "{said}");
    }
    let copilot = "[analyze]\nagent = \"copilot\"\n";
    let shop = Shop::new(r#"{ path = "web", also = ["server"] }"#, copilot);
    let said = text(&shop.heartbeat(&["--once"]));
    assert!(said.contains("Copilot trusts the agents and skills"), "{said}");
}
