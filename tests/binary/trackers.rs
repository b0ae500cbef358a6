//! One run over trackers of different kinds: one triage request, findings on each, and our own
//! comments create no work in the next run.

use std::path::Path;
use std::process::Output;

use heartbeat::simulate::ado;
use simulators::{github, jira};
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
        std::fs::write(folder.path().join("code/total.rs"), "fn total() -> u32 { 1 }\n").unwrap();
        let config = format!(
            "[source]\nlook_back = \"3650d\"\ncomments = 5\nwrite_back = true\n\
             [[sources]]\nname = \"ado\"\nbase_url = {:?}\nproject = {:?}\n\
             [[sources]]\nname = \"gh\"\nkind = \"github\"\nbase_url = {:?}\nproject = {:?}\n\
             [[sources]]\nname = \"cloud\"\nkind = \"jira\"\nbase_url = {:?}\nproject = \"PARCEL\"\n\
             user = \"bot@contoso.example\"\n\
             [[sources]]\nname = \"server\"\nkind = \"jira\"\nbase_url = {:?}\nproject = \"PARCEL\"\n\
             [repository]\npath = {:?}\n\
             [agent]\ncommand = [{BINARY:?}, \"simulate\", \"agent\"]\n\
             pass_env = [\"ANTHROPIC_BASE_URL\"]\n\
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
        self.command(arguments).output().await.unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
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
            .env("ANTHROPIC_API_KEY", "of-the-agent")
            .env("ANTHROPIC_BASE_URL", support::messages_api::reachable());
        command
    }

    /// The number of an item of this source that has a finding.
    fn first_found(&self, source: &str) -> i64 {
        let number = format!("CAST(substr(key, {}) AS INTEGER)", source.len() + 2);
        self.figure(&format!("SELECT {number} FROM findings WHERE key LIKE '{source}/%'"))
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

/// Every kind of answer, on every tracker: what the query leaves out is named by its condition.
#[tokio::test(flavor = "multi_thread")]
async fn why_has_one_answer_for_any_number_on_every_tracker() {
    let team = Team::new().await;
    let (jira_name, jira) = &team.jira[0];
    let ado = |fields: &[(&str, serde_json::Value)]| {
        let usual = [("System.WorkItemType", "Bug".into()), ("System.State", "Active".into())];
        team.ado.add_item(&[&usual[..], fields].concat())
    };
    let feature = ado(&[("System.WorkItemType", "Feature".into())]);
    let closed = ado(&[("System.State", "Closed".into())]);
    let elsewhere = ado(&[("System.AreaPath", r"ParcelTracking\Elsewhere".into())]);
    let tagged = ado(&[("System.Tags", "later".into())]);
    let done = jira.add_issue("It is done", "words");
    assert!(jira.set_status(done, "Done"));
    let key = |id: i64| format!("{jira_name}/{id}");
    let labelled = team.github.add_issue(github::REPOSITORY, "Later", "words", &["later"]);
    let shut = team.github.add_issue(github::REPOSITORY, "Shut", "words", &[]);
    team.github.close(github::REPOSITORY, shut);
    let gh = |number: i64| format!("{}#{number}", github::REPOSITORY);
    let set = [
        "--set",
        r"source.not_areas=['ParcelTracking\Elsewhere']",
        "--set",
        "source.not_tags=['later']",
        "--set",
        "source.not_states=['Closed', 'Done', 'closed']",
        "--set",
        "source.types=['Bug', 'Task', 'Story']",
    ];
    let why = async |item: &str| {
        let output = team.heartbeat(&[&["why", item], &set[..]].concat()).await;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        said(&output)
    };
    let (ado_key, some) = (|id: i64| format!("ado/{id}"), ado(&[]));
    let before_any_run = [
        (ado_key(feature), "[System.WorkItemType] IN ('Bug', 'Task', 'Story')"),
        (ado_key(feature), "its type is Feature"),
        (ado_key(closed), "[System.State] NOT IN ('Closed', 'Done', 'closed')"),
        (ado_key(elsewhere), r"[System.AreaPath] NOT UNDER 'ParcelTracking\Elsewhere'"),
        (ado_key(tagged), "[System.Tags] NOT CONTAINS 'later'"),
        (ado_key(99_999), "does not exist"),
        (key(done), "status not in"),
        (key(99_999), "does not exist"),
        ("PARCEL-99999".to_owned(), "does not exist"),
        (gh(labelled), "-label:\"later\""),
        (gh(shut), "-state:\"Closed,Done,closed\""),
        (gh(99_999), "does not exist"),
    ];
    for (item, part) in before_any_run {
        let answer = why(&item).await;
        assert!(answer.contains(part), "{item}: {part} is not in {answer}");
    }
    let unread = why(&ado_key(some)).await;
    assert!(unread.contains("matches the query, and no run has read it yet"), "{unread}");
    team.ado.set_token(Some("another".into()));
    let refused = why(&ado_key(feature)).await;
    assert!(refused.contains("no permission"), "{refused}");
}

/// A command is carried out and answered once, on every tracker, across runs and crashes.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_in_a_comment_is_answered_once() {
    let team = Team::new().await;
    let once = async |more: &[&str]| {
        let set = ["--once", "--json", "--quiet", "--set", "source.commands=true"];
        team.heartbeat(&[&set[..], more].concat()).await
    };
    let first = once(&[]).await;
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    let sessions = || team.figure("SELECT count(*) FROM sessions");
    let before = sessions();
    let (ado_id, jira_id) = (team.first_found("ado"), team.first_found("cloud"));
    let (_, cloud) = &team.jira[0];
    let [number, other] = [0, 1].map(|place| team.github.numbers(github::REPOSITORY)[place]);
    let now = jiff::Timestamp::now;
    team.ado.add_past_comment(ado_id, now(), "<div>/heartbeat wrong it is the other file</div>");
    cloud.comment(jira_id, "Ann Lee", "/heartbeat why");
    team.github.comment(github::REPOSITORY, number, "/heartbeat why");
    // None of these is a command of somebody who may command.
    team.github.comment_by(github::REPOSITORY, other, github::STRANGER, "/heartbeat analyse");
    team.github.comment(github::REPOSITORY, other, "> /heartbeat analyse");
    let answers = || {
        let of = |comments: Vec<String>, part: &str| {
            comments.iter().filter(|comment| comment.contains(part)).count()
        };
        [
            of(team.ado.comments(ado_id), "marked as wrong"),
            of(cloud.comments(jira_id), "its finding is stored"),
            of(team.github.comments(github::REPOSITORY, number), "heartbeat ref"),
        ]
    };
    let commented = team.own_comments()[0].1;
    // Killed in the middle of the first, then twice to the end.
    let crashed = team
        .command(&["--once", "--json", "--quiet", "--set", "source.commands=true"])
        .env("HEARTBEAT_TEST_FAULT_POINT", "12")
        .output()
        .await
        .unwrap();
    assert!(!crashed.status.success(), "it was killed: {}", said(&crashed));
    for _ in 0..2 {
        let output = once(&[]).await;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    assert_eq!(answers(), [1, 1, commented + 1], "each is answered once");
    let wrong = "SELECT count(*) FROM feedback WHERE opinion = 'wrong' AND note LIKE '%other file'";
    assert_eq!(team.figure(wrong), 1);
    let told = team.github.comments(github::REPOSITORY, other);
    assert!(!told.iter().any(|comment| comment.contains("analyses this item again")), "{told:?}");
    // The quote is a comment like any other, so its issue is judged again; the commands are not.
    assert!(sessions() <= before + 2, "{before} {}", sessions());
    let before = sessions();
    team.ado.add_past_comment(ado_id, now(), "<div>/heartbeat analyse</div>");
    for _ in 0..2 {
        assert_eq!(once(&[]).await.status.code(), Some(0));
    }
    assert!(sessions() > before, "the item was analysed again");
    let analysed = team.ado.comments(ado_id);
    let told = analysed.iter().filter(|comment| comment.contains("analyses this item again"));
    assert_eq!(told.count(), 1, "{analysed:#?}");
}
