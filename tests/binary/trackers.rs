//! One run over trackers of different kinds: one triage request, findings on each, and our own
//! comments create no work in the next run.

use std::path::Path;
use std::process::Output;

use heartbeat::simulate::{ado, github, jira};
use tokio::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");

/// An Azure DevOps project, a GitHub repository and a project of each Jira, with a few items, and a
/// configuration.
struct Team {
    folder: tempfile::TempDir,
    ado: ado::Simulator,
    github: github::Simulator,
    /// By the names of their sources.
    jira: [(&'static str, jira::Simulator); 2],
}

impl Team {
    async fn new() -> Self {
        let token = Some("right".to_owned());
        let options = ado::SimulatorOptions { token: token.clone(), ..Default::default() };
        let ado = ado::Simulator::start(options).await.unwrap();
        for other in ado.item_ids().into_iter().filter(|id| *id > ado::FIRST_ID + 2) {
            ado.delete_item(other);
        }
        let options =
            github::SimulatorOptions { token: token.clone(), items: 5, ..Default::default() };
        let github = github::Simulator::start(options).await.unwrap();
        let options = jira::SimulatorOptions { token, items: 3, ..Default::default() };
        let server = jira::SimulatorOptions { is_cloud: false, ..options.clone() };
        let jira = [
            ("cloud", jira::Simulator::start(options).await.unwrap()),
            ("server", jira::Simulator::start(server).await.unwrap()),
        ];
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("code")).unwrap();
        let config = format!(
            "[source]\nlook_back = \"3650d\"\ncomments = 5\nwrite_back = true\n\
             [[sources]]\nname = \"ado\"\nbase_url = {:?}\nproject = {:?}\n\
             [[sources]]\nname = \"gh\"\nkind = \"github\"\nbase_url = {:?}\nproject = {:?}\n\
             [[sources]]\nname = \"cloud\"\nkind = \"jira\"\nbase_url = {:?}\nproject = \"PARCEL\"\n\
             user = \"bot@contoso.example\"\n\
             [[sources]]\nname = \"server\"\nkind = \"jira\"\nbase_url = {:?}\nproject = \"PARCEL\"\n\
             [repository]\npath = {:?}\n\
             [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
             [verify]\nwrite_back_unproven = true\n\
             [limits]\nmax_deep_per_run = 10\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n\
             [dedupe]\nretry_delay = \"0s\"\n",
            ado.base_url(),
            ado::PROJECT,
            github.base_url(),
            github::REPOSITORY,
            jira[0].1.base_url(),
            jira[1].1.base_url(),
            folder.path().join("code").display().to_string(),
        );
        std::fs::write(folder.path().join("heartbeat.toml"), config).unwrap();
        Self { folder, ado, github, jira }
    }

    fn each_issue_has_at_most_one_comment_and_its_label(&self) {
        for (number, count) in self.own_comments() {
            assert!(count <= 1, "#{number} has {count} of our comments");
            let labels = self.github.labels(github::REPOSITORY, number);
            let labelled = labels.contains(&"heartbeat".to_owned());
            assert_eq!(labelled, count == 1, "#{number}: {labels:?}");
        }
    }

    async fn heartbeat(&self, arguments: &[&str]) -> Output {
        let state = self.folder.path().join("state");
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .arg("--config")
            .arg(self.folder.path().join("heartbeat.toml"))
            .arg("--state-dir")
            .arg(state)
            .env("AZURE_DEVOPS_PAT", "right")
            .env("GITHUB_TOKEN", "right")
            .env("JIRA_TOKEN", "right")
            .env("ANTHROPIC_API_KEY", "of-the-agent");
        command.output().await.unwrap()
    }

    fn figure(&self, sql: &str) -> i64 {
        figure(&self.folder.path().join("state"), sql)
    }

    /// Number of our comments per issue.
    fn own_comments(&self) -> Vec<(i64, usize)> {
        let ours = |number: i64| {
            let all = self.github.comments(github::REPOSITORY, number);
            (number, all.iter().filter(|comment| comment.contains("heartbeat ref")).count())
        };
        self.github.numbers(github::REPOSITORY).into_iter().map(ours).collect()
    }
}

fn figure(state: &Path, sql: &str) -> i64 {
    let database = rusqlite::Connection::open(state.join("heartbeat.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr];
    both.map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn trackers_of_every_kind_share_one_triage_and_each_gets_its_findings() {
    let team = Team::new().await;
    let checked = team.heartbeat(&["doctor"]).await;
    let told = said(&checked);
    for part in [
        "gh: signed in to",
        "as heartbeat-bot",
        "parcel/tracking exists",
        "ado: ",
        "(Jira Cloud)",
        "(Jira Data Center)",
        "server: Parcel Tracking exists",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let output = team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let triaged = "SELECT count(*) FROM sessions WHERE stage = 'triage'";
    assert_eq!(team.figure(triaged), 1, "one request for all: {}", said(&output));
    let findings = |source: &str| {
        team.figure(&format!("SELECT count(*) FROM findings WHERE key LIKE '{source}/%'"))
    };
    let (on_ado, on_github) = (findings("ado"), findings("gh"));
    assert!(on_ado > 0 && on_github > 0, "{on_ado} and {on_github}: {}", said(&output));
    let on_jira: i64 = team.jira.iter().map(|(name, _)| findings(name)).sum();
    let delivered = "SELECT count(*) FROM outbox WHERE state = 'delivered'";
    assert_eq!(team.figure(delivered), on_ado + on_github + on_jira, "{}", said(&output));
    for (name, jira) in &team.jira {
        let ours = |id: &i64| jira.comments(*id).iter().any(|text| text.contains("heartbeat ref"));
        let written: Vec<i64> = jira.ids().into_iter().filter(ours).collect();
        assert!(findings(name) > 0, "{name}: {}", said(&output));
        assert_eq!(i64::try_from(written.len()).unwrap(), findings(name), "{name}");
        for id in jira.ids() {
            let labelled = jira.labels(id).contains(&"heartbeat".to_owned());
            assert_eq!(labelled, written.contains(&id), "{name}: {id}");
            assert!(jira.comments(id).len() <= 1, "{name}: {id} has more than one comment");
        }
    }
    let written: usize = team.own_comments().iter().map(|(_, count)| count).sum();
    assert_eq!(i64::try_from(written).unwrap(), on_github);
    team.each_issue_has_at_most_one_comment_and_its_label();
    let sessions = team.figure("SELECT count(*) FROM sessions");
    for _ in 0..2 {
        let output = team.heartbeat(&["--once", "--json", "--quiet"]).await;
        assert_eq!(output.status.code(), Some(0), "nothing new: {}", said(&output));
    }
    assert_eq!(team.figure("SELECT count(*) FROM sessions"), sessions, "nothing woke by ourselves");
    // A user's comment does.
    team.github.comment(github::REPOSITORY, 1, "It also happens on Windows.");
    team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert!(team.figure("SELECT count(*) FROM sessions") > sessions);
    let before = team.figure("SELECT count(*) FROM sessions");
    let (_, cloud) = &team.jira[0];
    cloud.comment(cloud.ids()[0], "Ann Lee", "It also happens on Windows.");
    team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert!(team.figure("SELECT count(*) FROM sessions") > before, "and so it does in Jira");
    let comments = team.ado.item_ids().into_iter().map(|id| team.ado.comments(id));
    let ours = comments.flatten().filter(|comment| comment.contains("heartbeat ref")).count();
    assert_eq!(i64::try_from(ours).unwrap(), on_ado);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_github_that_refuses_the_token_does_not_stop_azure_devops() {
    let team = Team::new().await;
    team.github.set_token(Some("another".into()));
    let output = team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert_eq!(output.status.code(), Some(12), "{}", said(&output));
    assert!(team.figure("SELECT count(*) FROM findings WHERE key LIKE 'ado/%'") > 0);
    assert_eq!(team.figure("SELECT count(*) FROM heartbeat_state WHERE key LIKE 'gh/%'"), 0);
    let refused = team.github.requests();
    team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert_eq!(team.github.requests(), refused, "the breaker is open: a lockout is not risked");
}
