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
}

/// Items of projects that no source reads, and trackers that refuse.
#[tokio::test(flavor = "multi_thread")]
async fn why_tells_another_project_from_a_missing_permission() {
    let team = Team::new().await;
    let why = async |item: &str| said(&team.heartbeat(&["why", item]).await);
    for (item, answer) in [
        ("OTHER-4", "No source reads OTHER; the configuration has PARCEL."),
        ("contoso/elsewhere#12", "No source reads contoso/elsewhere; the configuration has"),
    ] {
        let told = why(item).await;
        assert!(told.contains(answer), "{item}: {told}");
    }
    let (source, jira) = &team.jira[0];
    let items = [
        format!("ado/{}", team.ado.item_ids()[0]),
        format!("{}#{}", github::REPOSITORY, team.github.numbers(github::REPOSITORY)[0]),
        format!("{source}/{}", jira.ids()[0]),
    ];
    let another = || Some("another".to_owned());
    team.ado.set_token(another());
    team.github.set_token(another());
    jira.set_token(another());
    for item in items {
        let refused = why(&item).await;
        assert!(refused.contains("no permission"), "{item}: {refused}");
    }
}

/// What changed before the sources' look back is not read, and that is the answer.
#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_look_back_on_every_tracker() {
    let team = Team::new().await;
    let old = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 400);
    let fields: [(&str, serde_json::Value); 3] = [
        ("System.WorkItemType", "Bug".into()),
        ("System.State", "Active".into()),
        ("System.Title", "Old".into()),
    ];
    team.ado.add_past_item(9_001, old, &fields);
    let number = team.github.add_issue(github::REPOSITORY, "Old", "words", &[]);
    team.github.touch_all(github::REPOSITORY, &[number], old);
    let (source, jira) = &team.jira[0];
    let (id, _) = jira.report_at("Old", "words", old);
    let items = [
        "ado/9001".to_owned(),
        format!("{}#{number}", github::REPOSITORY),
        format!("{source}/{id}"),
    ];
    for item in items {
        let mut why = team.command(&["why", &item, "--set", "source.look_back='30d'"]);
        let told = said(&why.env("TZ", "UTC").output().await.unwrap());
        let day = old.strftime("%F").to_string();
        assert!(
            told.contains(&format!("It matches the query, but it was last changed on {day}")),
            "{told}"
        );
        assert!(told.contains("(source.look_back). It is read when it changes."), "{told}");
    }
}

/// Where an item stands, and the whole answer.
const STANDINGS: [(&str, &str); 14] = [
    (
        "phase = 'done', reason = 'baseline'",
        "It existed before the first run, which marked all items as seen (baseline). It is triaged \
         when it changes, or after `heartbeat retry`.",
    ),
    (
        "phase = 'done', reason = 'same_fingerprint'",
        "It is finished: no change since. It is read again when it changes.",
    ),
    (
        "phase = 'done', reason = 'not_needed', verdict = json_object('id', 1, 'complexity', \
         'trivial', 'needs_deep_analysis', json('false'), 'reason', 'A typo.')",
        "Triage settled it without deep analysis (trivial): A typo.",
    ),
    (
        "verdict = json_set(verdict, '$.ask', 'Which browser?')",
        "Triage settled it without deep analysis (trivial): A typo. Information is missing; the \
         question to ask: Which browser?",
    ),
    (
        "verdict = NULL, phase = 'pending', reason = 'max_deep_per_run', deferrals = 2",
        "It is queued: max deep per run (limits.max_deep_per_run). 2 runs did not get to it. The \
         next run with room takes it.",
    ),
    (
        "reason = 'budget', deferrals = 1",
        "It is queued: budget (budget.per_run, budget.per_day, budget.per_month). 1 run did not get \
         to it. The next run with room takes it.",
    ),
    (
        "reason = 'first_seen', deferrals = 0",
        "It is queued: first seen. The next run with room takes it.",
    ),
    (
        "phase = 'parked', reason = 'stopped_by_operator', attempts = 0",
        "It is parked: stopped by operator. It waits for a change of the item, or for `heartbeat \
         retry`.",
    ),
    (
        "reason = 'attempts_exhausted', attempts = 3",
        "It is parked: attempts exhausted, after 3 attempts. It waits for a change of the item, or \
         for `heartbeat retry`.",
    ),
    (
        "phase = 'waiting', reason = 'backoff', attempts = 1, next_attempt = 4102444800000",
        "1 attempt failed (backoff); it is tried again, not before 2100-01-01 00:00 UTC.",
    ),
    (
        "phase = 'claimed', reason = 'in_flight', next_attempt = NULL",
        "A session is working on it now.",
    ),
    (
        "phase = 'vanished', reason = 'out_of_query'",
        "It left the query: it is closed, or a condition of the query no longer admits it.",
    ),
    ("reason = 'deleted'", "The tracker no longer has it, or its account may not read it."),
    (
        "phase = 'done', reason = 'for_a_person'",
        "It is finished: for a person. It is read again when it changes.",
    ),
];

/// `brief`, `feedback` and `retry` take the name that people use, and print it.
async fn is_named_so_by_other_commands(team: &Team, name: &str) {
    let brief = said(&team.heartbeat(&["brief", name]).await);
    assert!(brief.starts_with(&format!("# Task: resolve work item {name}\n")), "{brief}");
    let typed = name.trim_start_matches('#');
    assert!(brief.contains(&format!("heartbeat feedback {typed} useful|")), "{brief}");
    for (command, told) in [
        (["feedback", typed, "useful"], format!("newest finding of {name} as useful")),
        (["retry", typed, "--quiet"], format!("{name} is queued again")),
    ] {
        let told_so = said(&team.heartbeat(&command).await);
        assert!(told_so.contains(&told), "{told_so}");
    }
}

/// The names that people use, on every tracker, for items that a run has read.
#[tokio::test(flavor = "multi_thread")]
async fn why_says_where_an_item_stands_by_the_name_that_people_use() {
    let team = Team::new().await;
    let run = team.heartbeat(&["--once", "--json", "--quiet"]).await;
    assert_eq!(run.status.code(), Some(0), "{}", said(&run));
    let database = team.folder.path().join("state").join(heartbeat::store::DATABASE);
    let change = |sql: &str| {
        rusqlite::Connection::open(&database).unwrap().execute_batch(sql).unwrap();
    };
    // Both Jiras have the same names; one of them is enough here.
    change(
        "DELETE FROM findings WHERE key LIKE 'server/%'; DELETE FROM heartbeat_state WHERE key LIKE 'server/%'",
    );
    let why = async |name: &str| {
        let output = team.command(&["why", name]).env("TZ", "UTC").output().await.unwrap();
        let told = said(&output);
        let answer = told.trim().strip_prefix(&format!("{name}: ")).map(str::to_owned);
        answer.unwrap_or_else(|| panic!("{name} is not its name in {told}"))
    };
    for source in ["ado", "gh", "cloud"] {
        let (key, name) = {
            let connection = rusqlite::Connection::open(&database).unwrap();
            let sql = format!(
                "SELECT key, url FROM findings JOIN heartbeat_state USING (key) WHERE key LIKE '{source}/%'"
            );
            let found =
                |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
            let (key, url) = connection.query_row(&sql, [], found).unwrap();
            let last = url.rsplit('/').next().unwrap().to_owned();
            let name = match source {
                "ado" => format!("#{last}"),
                "gh" => format!("{}#{last}", github::REPOSITORY),
                _ => last,
            };
            (key, name)
        };
        assert_eq!(why(&name).await, "It was analysed; its finding is stored.", "{name}");
        is_named_so_by_other_commands(&team, &name).await;
        change(&format!(
            "DELETE FROM findings WHERE key = '{key}'; DELETE FROM duplicates; \
             UPDATE heartbeat_state SET verdict = NULL WHERE key = '{key}'"
        ));
        for (standing, answer) in STANDINGS {
            change(&format!("UPDATE heartbeat_state SET {standing} WHERE key = '{key}'"));
            assert_eq!(why(&name).await, answer, "{name}: {standing}");
        }
        // Of a group that says equally much, the oldest is the one to keep.
        change(&format!(
            "UPDATE heartbeat_state SET {} WHERE key = '{key}';
             INSERT INTO heartbeat_state (key, item_id, title, item_type, url, revision, last_changed,
                 fingerprint, phase, reason, first_seen, last_seen)
             SELECT '{source}/987654', 987654, 'The older one', item_type, '', 1, 0, '', 'done', 'baseline', 0, 0
                 FROM heartbeat_state WHERE key = '{key}';
             UPDATE item_fields SET words = '' WHERE key = '{key}';
             INSERT INTO duplicates VALUES ('{key}', '{source}/987654', 'The same.')",
            STANDINGS[2].0
        ));
        let same = why(&name).await;
        assert!(same.contains("A typo. It reports the same as "), "{name}: {same}");
    }
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

/// Comments as the trackers' own SDKs write them, each answered once, although the first run after
/// them is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_an_sdk_wrote_is_answered_once() {
    let Some(python) = std::env::var_os("HEARTBEAT_TEST_PYTHON") else {
        eprintln!("SKIPPED: HEARTBEAT_TEST_PYTHON is not set, so no SDK wrote a comment");
        return;
    };
    let team = Team::new().await;
    let args = ["--once", "--json", "--quiet", "--set", "source.commands=true"];
    let first = team.heartbeat(&args).await;
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    let (ado, number) = (team.first_found("ado"), team.github.numbers(github::REPOSITORY)[0]);
    let mut written = vec![
        ("ado", team.ado.base_url(), ado, "<div>/heartbeat why</div>"),
        ("ado", team.ado.base_url(), ado, "<blockquote>/heartbeat analyse</blockquote>"),
        ("github", team.github.base_url(), number, "/heartbeat why"),
        ("github", team.github.base_url(), number, "```\n/heartbeat analyse\n```"),
    ];
    for (kind, jira) in &team.jira {
        let item = team.first_found(kind);
        written.push((*kind, jira.base_url(), item, "/heartbeat why"));
        written.push((*kind, jira.base_url(), item, "{quote}/heartbeat analyse{quote}"));
    }
    for (kind, address, item, text) in &written {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/binary/commenting.py");
        let mut command = Command::new(&python);
        command.args([script, *kind, address.as_str(), "right"]).arg(item.to_string()).arg(text);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{kind}: {}", said(&output));
    }
    let crashed =
        team.command(&args).env("HEARTBEAT_TEST_FAULT_POINT", "12").output().await.unwrap();
    assert!(!crashed.status.success(), "it was killed: {}", said(&crashed));
    for _ in 0..2 {
        let output = team.heartbeat(&args).await;
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let answers = |comments: Vec<String>| {
        let answer = |comment: &&String| {
            ["finding is stored", "Triage settled it", "It is queued"]
                .iter()
                .any(|part| comment.contains(part))
        };
        let again = comments.iter().any(|comment| comment.contains("analyses this item again"));
        (comments.iter().filter(answer).count(), again)
    };
    assert_eq!(answers(team.ado.comments(ado)), (1, false));
    assert_eq!(answers(team.github.comments(github::REPOSITORY, number)), (1, false));
    for (kind, jira) in &team.jira {
        assert_eq!(answers(jira.comments(team.first_found(kind))), (1, false), "{kind}");
    }
}
