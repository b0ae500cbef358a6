//! Reports on request and after each run, and the webhook.

use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use serde_json::Value;

use super::world::World;

#[tokio::test]
async fn a_run_can_be_read_in_every_form() {
    let world = World::new().await;
    assert_eq!(world.run(&["report"]).await.code(), 0, "nothing has run, and that is told");
    let twin = || {
        world.simulator.add_item(&[
            ("System.WorkItemType", "Bug".into()),
            ("System.State", "Active".into()),
            ("System.Title", "Two reports of one defect".into()),
        ])
    };
    let twins = format!(
        "- #{} Two reports of one defect, the one to keep (Both have the same title.)\n  - #{} Two \
         reports",
        twin(),
        twin()
    );
    let once = world.run(&["--once", "--quiet", "--json"]).await;
    assert_eq!(once.code(), 0, "{}", once.stderr);
    let run = once.json()["run"].as_str().unwrap().to_owned();
    let findings = once.json()["findings"].as_array().unwrap().len();
    assert_eq!(findings, 2);

    let markdown = world.run(&["report"]).await.stdout;
    assert_eq!(markdown.matches("#### Suggested change").count(), findings, "{markdown}");
    let json = world.run(&["report", "--json", "--run", &run[..13]]).await.json();
    assert_eq!(json["runs"][0]["run"], run.as_str());
    assert_eq!(json["findings"].as_array().unwrap().len(), findings);
    assert!(
        markdown.contains("## Likely duplicates, according to triage") && markdown.contains(&twins),
        "{markdown}"
    );
    assert!(
        markdown.contains("| triage | 1 | $") && markdown.contains("| deep | 2 | $"),
        "{markdown}"
    );
    let spent: f64 = json["spending"].as_array().unwrap().iter().map(dollars).sum();
    assert!((spent - json["totals"]["cost"].as_f64().unwrap()).abs() < 1e-9, "{json:#}");
    let status = world.run(&["status", "--json"]).await.json();
    assert_eq!(status["spending"], json["spending"], "the same money, by day and purpose");
    let shown = world.run(&["status"]).await.stdout;
    assert!(shown.contains(" triage $") && shown.contains(" in 2 sessions"), "{shown}");
    let week = world.run(&["report", "--since", "7d", "--format", "json"]).await.json();
    assert_eq!(week["spending"], json["spending"]);
    assert_eq!(week["totals"], json["totals"]);
    let before = world.run(&["report", "--since", "2199-01-01", "--format", "json"]).await.json();
    assert_eq!(before["runs"], serde_json::json!([]));
    let page = world.path("report.html");
    let said = world.run(&["report", "--format", "html", "--out", page.to_str().unwrap()]).await;
    assert_eq!((said.code(), said.stdout.as_str()), (0, ""), "{}", said.stderr);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("Two reports of one defect: Both have the same title."), "{html}");
    assert!(html.contains("<h2>Spending</h2>") && html.contains(">triage</td>"), "{html}");
    assert_eq!(html.matches("<article ").count(), findings);

    assert_eq!(world.run(&["report", "--run", "nope"]).await.code(), 1);
    assert_eq!(world.run(&["report", "--since", "yesterday"]).await.code(), 2);
    assert_eq!(world.run(&["report", "--since", "7d", "--run", &run]).await.code(), 2);
}

fn dollars(row: &Value) -> f64 {
    row["spent"].as_f64().unwrap()
}

/// A chat that fails twice before it accepts a message.
async fn chat() -> (String, Arc<Mutex<Vec<Value>>>) {
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = Arc::clone(&heard);
    let receive = move |axum::Json(message): axum::Json<Value>| {
        let log = Arc::clone(&log);
        async move {
            let mut log = log.lock().unwrap();
            log.push(message);
            if log.len() < 3 { StatusCode::BAD_GATEWAY } else { StatusCode::OK }
        }
    };
    let router = axum::Router::new().route("/hook/secret", axum::routing::post(receive));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook/secret", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, heard)
}

/// A message after each run, which people have to ask for.
const AFTER_EACH_RUN: [&str; 6] =
    ["--once", "--quiet", "--set", "report.webhook_env=CHAT", "--set", "report.webhook_when=news"];

#[tokio::test]
async fn a_digest_comes_at_its_time_and_not_after_each_run() {
    let (address, mood, heard) = moody_chat().await;
    *mood.lock().unwrap() = Mood::Listens;
    let world = World::new().await.with("CHAT", &address);
    let dir = format!("report.dir={}", world.path("reports").display());
    let args = [
        "--once",
        "--quiet",
        "--set",
        "report.webhook_env=CHAT",
        "--set",
        "http.public_url=https://heartbeat.contoso.test/",
        "--set",
        &dir,
    ];
    for _ in 0..2 {
        let said = world.run(&args).await;
        assert_eq!(said.code(), 0, "{}", said.stderr);
    }
    assert!(heard.lock().unwrap().is_empty(), "its time has not come: {heard:?}");
    let key = world.run(&["report", "--json"]).await.json()["findings"][0]["key"].clone();
    let rated = ["feedback", key.as_str().unwrap(), "useful", "--note", "found it"];
    assert_eq!(world.run(&rated).await.code(), 0);
    // A digest ends with the last full second: what was found in this one would be in the next.
    let second = jiff::Timestamp::now().as_second();
    while jiff::Timestamp::now().as_second() == second {
        tokio::task::yield_now().await;
    }

    // As if the last digest was long ago; its next time is every second.
    let database = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    let told = "SELECT value FROM facts WHERE name = 'told:digest'";
    let first: String = database.query_row(told, [], |row| row.get(0)).unwrap();
    let long_ago = "UPDATE facts SET value = '2026-01-01T00:00:00Z' WHERE name = 'told:digest'";
    database.execute(long_ago, []).unwrap();
    let every_second = [&args[..], &["--set", "report.digest=* * * * * *"]].concat();
    assert_eq!(world.run(&every_second).await.code(), 0);
    let digests = heard.lock().unwrap().clone();
    let text: String = digests.iter().map(|(_, text)| text.to_string()).collect();
    let all = world.run(&["report", "--json", "--since", "7d"]).await.json();
    let rows = all["findings"].as_array().unwrap();
    let session = rows.iter().find(|row| row["key"] == key).unwrap()["session"].as_str().unwrap();
    let link = format!("<https://heartbeat.contoso.test/findings/{session}|Read it>");
    for part in ["low risk", "What became of earlier findings", "found it", "$", &link] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let written = std::fs::read_dir(world.path("reports")).unwrap();
    let digests = written
        .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("digest-"));
    assert!(digests.count() >= 2, "Markdown and HTML");
    let now: String = database.query_row(told, [], |row| row.get(0)).unwrap();
    assert!(now > first, "{now} is remembered after {first}");
}

#[tokio::test]
async fn each_run_leaves_a_report_and_tells_the_chat() {
    let (address, heard) = chat().await;
    let world = World::new().await.with("CHAT", &address);
    let dir = format!("report.dir={}", world.path("reports").display());
    let set = [
        "--set",
        &dir,
        "--set",
        "report.formats=[\"md\",\"html\",\"json\"]",
        "--set",
        "report.webhook_env=CHAT",
        "--set",
        "report.webhook_style=teams",
        "--set",
        "report.webhook_when=news",
    ];
    let args = [&["--once", "--quiet"], &set[..]].concat();
    let said = world.run(&args).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let messages = heard.lock().unwrap().clone();
    assert_eq!(messages.len(), 3, "tried again until it listened: {}", said.stderr);
    assert_eq!(messages[0], messages[2]);
    let card = &messages[2]["attachments"][0]["content"];
    assert_eq!(card["type"], "AdaptiveCard");
    let written: Vec<String> = std::fs::read_dir(world.path("reports"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(written.len(), 3, "{written:?}");

    // Nothing new: no second report, and no message.
    let said = world.run(&args).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    assert_eq!(heard.lock().unwrap().len(), 4, "the rest of the analyses was news");
    loop {
        let before = heard.lock().unwrap().len();
        let said = world.run(&[&args[..], &["--json"]].concat()).await;
        if said.json()["outcome"] == "nothing_new" {
            assert_eq!(heard.lock().unwrap().len(), before);
            break;
        }
    }
    assert!(!said.stderr.contains("secret"), "{}", said.stderr);
}

#[tokio::test]
async fn a_chat_that_is_gone_fails_no_run() {
    let world = World::new().await.with("CHAT", "http://127.0.0.1:9/hook/secret");
    let said = world.run(&AFTER_EACH_RUN).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    assert!(said.stderr.contains("webhook delivery failed"), "{}", said.stderr);
    assert!(!said.stderr.contains("hook/secret"), "{}", said.stderr);
}

/// What a chat does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Refuses,
    NeverAnswers,
    Listens,
}

/// A chat whose behaviour the test sets, and what arrived with which behaviour.
async fn moody_chat() -> (String, Arc<Mutex<Mood>>, Arc<Mutex<Vec<(Mood, Value)>>>) {
    let mood = Arc::new(Mutex::new(Mood::Refuses));
    let heard: Arc<Mutex<Vec<(Mood, Value)>>> = Arc::default();
    let (now, log) = (Arc::clone(&mood), Arc::clone(&heard));
    let receive = move |axum::Json(message): axum::Json<Value>| {
        let mood = *now.lock().unwrap();
        log.lock().unwrap().push((mood, message));
        async move {
            match mood {
                Mood::Refuses => StatusCode::FORBIDDEN,
                Mood::NeverAnswers => std::future::pending().await,
                Mood::Listens => StatusCode::OK,
            }
        }
    };
    let router = axum::Router::new().route("/hook", axum::routing::post(receive));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, mood, heard)
}

/// Lets time pass, so that waiting messages are due.
fn make_due(world: &World) -> i64 {
    let database = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    database.execute("UPDATE outbox SET next_attempt = 0 WHERE state = 'pending'", []).unwrap();
    let pending = "SELECT count(*) FROM outbox WHERE state = 'pending' AND kind = 'digest'";
    database.query_row(pending, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_digest_that_failed_or_was_cut_off_by_a_crash_is_delivered_by_a_later_run() {
    let (address, mood, heard) = moody_chat().await;
    let world = World::new().await.with("CHAT", &address);
    let args = AFTER_EACH_RUN;
    assert_eq!(world.run(&args).await.code(), 0, "a chat fails no run");
    let status = world.run(&["status", "--json"]).await.json();
    assert_eq!(status["outbox"]["pending"], 1, "{status:#}");
    let why = status["undelivered"][0]["last_error"].as_str().unwrap();
    assert!(why.contains("403"), "{status:#}");

    // A crash interrupts the next attempt.
    *mood.lock().unwrap() = Mood::NeverAnswers;
    assert_eq!(make_due(&world), 1);
    let mut crashing = world.start(&args);
    let called = || async {
        heard.lock().unwrap().iter().any(|(mood, _)| *mood == Mood::NeverAnswers).then_some(())
    };
    support::until("a call of the chat", called).await;
    crashing.kill().await.unwrap();

    *mood.lock().unwrap() = Mood::Listens;
    assert!(make_due(&world) >= 1, "it is still to be delivered");
    assert_eq!(world.run(&args).await.code(), 0);
    let delivered = |which: &Value| {
        let heard = heard.lock().unwrap();
        heard.iter().filter(|(mood, text)| *mood == Mood::Listens && text == which).count()
    };
    let first = heard.lock().unwrap()[0].1.clone();
    assert_eq!(delivered(&first), 1, "{:#?}", heard.lock().unwrap());
    assert_eq!(make_due(&world), 0);
    let before = heard.lock().unwrap().len();
    let status = world.run(&["status", "--json"]).await.json();
    assert_eq!((&status["outbox"]["pending"], &status["outbox"]["failed"]), (&0.into(), &0.into()));
    world.run(&args).await;
    assert_eq!(delivered(&first), 1, "and only once");
    assert!(heard.lock().unwrap().len() <= before + 1);
}

/// Every credential of heartbeat, in every text of a finding.
const TELLTALE: &str = r#"
echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"I know a-good-token and ghp_0123456789abcdefghij."}]}}'
"$AGENT" simulate agent "$@" | sed 's/This answer comes from/the-agent-s-key_* a-good-token/g; s/Follow it through/a-good-token/g'
"#;

#[tokio::test]
async fn a_finding_that_holds_a_credential_shows_it_nowhere() {
    let (address, heard) = chat().await;
    let world =
        World::new().await.with("CHAT", &address).with("ANTHROPIC_API_KEY", "the-agent-s-key_*");
    world.agent(TELLTALE);
    let dir = format!("report.dir={}", world.path("reports").display());
    let all = "report.formats=[\"md\",\"html\",\"json\"]";
    let args = [&AFTER_EACH_RUN[..], &["--set", &dir, "--set", all]].concat();
    let said = world.run(&args).await;
    assert_eq!(said.code(), 0, "{}", said.stderr);
    let mut texts = vec![said.stdout, said.stderr, heard.lock().unwrap()[2].to_string()];
    for file in std::fs::read_dir(world.path("reports")).unwrap() {
        texts.push(std::fs::read_to_string(file.unwrap().path()).unwrap());
    }
    for format in ["md", "html", "json"] {
        texts.push(world.run(&["report", "--format", format]).await.stdout);
    }
    texts.push(world.run(&["status", "--json"]).await.stdout);
    let report = world.run(&["report", "--json"]).await.json();
    let finding = &report["findings"][0];
    let story = world.run(&["show", finding["key"].as_str().unwrap(), "--json"]).await;
    let said = &story.json()["transcript"]["lines"][0]["text"];
    assert!(said.as_str().unwrap().contains("removed: it contains"), "{said}");
    texts.push(story.stdout);
    let summary = finding["finding"]["summary"].as_str().unwrap();
    assert!(summary.contains("‹credential removed›"), "{summary}");
    for text in texts {
        // The second without characters that a format may escape.
        for secret in ["a-good-token", "the-agent-s-key"] {
            assert!(!text.contains(secret), "{secret} is shown in {text}");
        }
    }
}

#[tokio::test]
async fn a_title_that_holds_a_credential_is_not_reported() {
    // A title from before a part of it became a key.
    let world = World::new().await;
    let said = world.run(&["--once", "--quiet", "--json"]).await;
    let finding = said.json()["findings"][0].clone();
    let title = finding["title"].as_str().unwrap().to_owned();
    let world = world.with("ANTHROPIC_API_KEY", &title);
    for format in ["md", "html", "json"] {
        let text = world.run(&["report", "--format", format]).await.stdout;
        assert!(text.contains("‹credential removed›"), "{text}");
        assert!(!text.contains(&title), "{text}");
    }
}
