//! The real CLI, and sessions that end in every way that a provider and people can bring about: the
//! money is the same in every place that shows it, and it is what the provider served.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::Child;
use tokio::task::JoinSet;

use super::whole_run::keep;
use super::world::{World, asked_about, body, is_triage};
use heartbeat::model::Usd;
use support::answers::{finding, verdicts};
use support::messages_api::{Fault, Reply, Request};

/// Endings that are played at once.
const AT_ONCE: usize = 3;
/// Each answer: tokens in and out, and prices per million of the two models that are asked.
const TOKENS: (u64, u64) = (20_000, 2_000);
const PRICES: [(&str, u64, u64); 2] = [("haiku", 1, 5), ("sonnet", 3, 15)];
/// Of one analysis, in millionths of a dollar.
const WORST_CASE: i64 = 500_000;

/// Who ends the run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Itself,
    /// Once the analysis waits for its second answer.
    By(Signal),
    /// The same by `heartbeat kill`.
    Operator,
}

/// What the provider answers to an analysis: the first time, and after a file was read.
type Ending = (&'static str, Ends, fn() -> Reply, fn() -> Reply);

fn billed(reply: Reply) -> Reply {
    Reply::Billed(Box::new(reply), TOKENS.0, TOKENS.1)
}

fn reads() -> Reply {
    billed(Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))]))
}

fn finds() -> Reply {
    billed(Reply::structured(finding(&["src/total.rs"])))
}

fn prose() -> Reply {
    billed(Reply::Text("I looked at the code.".to_owned()))
}

fn stopped(reason: &'static str) -> Reply {
    billed(Reply::Stopped { text: "No.".to_owned(), reason })
}

fn used_up() -> Reply {
    let headers = vec![("retry-after", "7200".to_owned())];
    Reply::Status { status: 429, message: "limit", headers }
}

const fn hangs() -> Reply {
    Reply::Fault(Fault::Hang)
}

const ENDINGS: [Ending; 26] = [
    ("good", Ends::Itself, reads, finds),
    ("another shape", Ends::Itself, reads, || billed(Reply::structured(json!({ "odd": 1 })))),
    ("prose", Ends::Itself, reads, prose),
    ("a refusal", Ends::Itself, reads, || stopped("refusal")),
    ("too many tokens", Ends::Itself, reads, || stopped("max_tokens")),
    ("a loop", Ends::Itself, reads, reads),
    ("400", Ends::Itself, reads, || Reply::status(400, "the request cannot be processed")),
    ("no credit", Ends::Itself, reads, || Reply::status(400, "Your credit balance is too low")),
    ("401", Ends::Itself, reads, || Reply::status(401, "invalid x-api-key")),
    ("403", Ends::Itself, reads, || Reply::status(403, "not allowed")),
    ("404", Ends::Itself, reads, || Reply::status(404, "model: sonnet")),
    ("413", Ends::Itself, reads, || Reply::status(413, "too large")),
    ("429", Ends::Itself, reads, used_up),
    ("500", Ends::Itself, reads, || Reply::status(500, "internal")),
    ("529 at once", Ends::Itself, || Reply::status(529, "Overloaded"), finds),
    ("529", Ends::Itself, reads, || Reply::status(529, "Overloaded")),
    ("a lost connection", Ends::Itself, reads, || Reply::Fault(Fault::DropEarly)),
    ("a web page", Ends::Itself, reads, || Reply::Fault(Fault::Html)),
    ("no answer", Ends::Itself, reads, hangs),
    ("no answer at once", Ends::Itself, hangs, finds),
    ("headers alone", Ends::Itself, reads, || Reply::Fault(Fault::HangAfterHeaders)),
    ("an error in the stream", Ends::Itself, reads, || Reply::Fault(Fault::ErrorEvent)),
    ("a stream that is cut", Ends::Itself, reads, || Reply::Fault(Fault::DropMidStream)),
    ("SIGTERM", Ends::By(Signal::SIGTERM), reads, hangs),
    ("SIGKILL", Ends::By(Signal::SIGKILL), reads, hangs),
    ("a person", Ends::Operator, reads, hangs),
];

/// Some of an answer was served: how much, the provider alone knows.
const PARTLY_SERVED: [&str; 2] = ["an error in the stream", "a stream that is cut"];

fn price(request: &Request) -> i64 {
    let known = PRICES.iter().find(|(name, ..)| request.model().contains(name));
    let (_, input, output) = known.unwrap();
    i64::try_from(input * TOKENS.0 + output * TOKENS.1).unwrap()
}

fn answer(request: &Request, first: fn() -> Reply, then: fn() -> Reply) -> Reply {
    let has_read = request.body["messages"].to_string().contains("tool_result");
    match (is_triage(request), has_read) {
        (true, _) if asked_about(request).is_empty() => {
            billed(Reply::structured(json!({ "ok": true })))
        }
        (true, _) => billed(Reply::structured(verdicts(asked_about(request), 1))),
        (false, false) => first(),
        (false, true) => then(),
    }
}

/// Sessions, billed, assumed and reserved.
type Money = [i64; 4];

fn money(value: &Value) -> Money {
    let micros = |key: &str| Usd::from_dollars(value[key].as_f64().unwrap()).micros();
    let sessions = value["sessions"].as_i64().unwrap();
    [sessions, micros("billed"), micros("assumed"), micros("reserved")]
}

fn of_summary(summary: &Value) -> Money {
    let micros = |key: &str| Usd::from_dollars(summary[key].as_f64().unwrap()).micros();
    [summary["sessions"].as_i64().unwrap(), micros("cost"), micros("cost_at_worst"), 0]
}

fn sum(all: impl Iterator<Item = Money>) -> Money {
    all.fold([0; 4], |sum, one| std::array::from_fn(|n| sum[n] + one[n]))
}

/// A sample of `/metrics`, summed over its labels.
fn metric(text: &str, name: &str) -> i64 {
    let of = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let micros =
        |line: &str| Usd::from_dollars(line.rsplit(' ').next().unwrap().parse().unwrap()).micros();
    text.lines().filter(of).map(micros).sum()
}

/// What the ledger has, if every other place says the same.
async fn agree(world: &World, name: &str) -> Money {
    let of = |what: &str| world.figure(&format!("SELECT coalesce(sum({what}), 0) FROM budget"));
    let booked = [
        of("1"),
        of("iif(assumed, 0, coalesce(spent, 0))"),
        of("iif(assumed, spent, 0)"),
        of("iif(spent IS NULL, reserved, 0)"),
    ];
    let status = world.status().await;
    assert_eq!(money(&status["today"]), booked, "{name}: today in status");
    for window in ["today", "week", "month"] {
        assert_eq!(money(&status["spending_totals"][window]), booked, "{name}: {window}");
    }
    let list = |json: Value| json.as_array().unwrap().clone();
    let runs = list(world.run(&["runs", "--json"]).await.json);
    assert_eq!(sum(runs.iter().map(|run| of_summary(&run["summary"]))), booked, "{name}: runs");
    let sessions = list(world.run(&["sessions", "--json"]).await.json);
    assert_eq!(sum(sessions.iter().map(|one| money(&one["money"]))), booked, "{name}: sessions");
    let report = world.run(&["report", "--since", "7d", "--json"]).await.json;
    assert_eq!(of_summary(&report["totals"]), booked, "{name}: report");
    let metrics = metrics_of(world).await;
    let spent = metric(&metrics, "heartbeat_cost_usd_total");
    assert_eq!(spent, booked[1] + booked[2], "{name}: metrics");
    assert_eq!(metric(&metrics, "heartbeat_cost_assumed_usd_total"), booked[2], "{name}");
    booked
}

/// `/metrics` of a service that has nothing to do.
async fn metrics_of(world: &World) -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("http.listen=127.0.0.1:{port}");
    let args = ["--set", "schedule.cron=0 0 29 2 *", "--set", listen.as_str()];
    let mut command = world.command(&args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut service = command.spawn().unwrap();
    let page = format!("http://127.0.0.1:{port}/metrics");
    let text = support::until("the metrics", || async {
        body(page.clone()).await.filter(|text| text.contains("heartbeat_cost_usd_total"))
    });
    let text = text.await;
    world.stop(&mut service).await;
    text
}

fn signal(run: &Child, signal: Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(run.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// One run to its end, however it comes.
async fn run(world: &World, ends: Ends) {
    if ends == Ends::Itself {
        let said = world.once().await;
        let report = of_summary(&said.json["summary"]);
        let newest = world.run(&["runs", "--json"]).await.json[0]["summary"].clone();
        assert_eq!(report, of_summary(&newest), "{:#}\n{}", said.json, said.stderr);
        return;
    }
    let mut command = world.command(&["--once"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut run = command.spawn().unwrap();
    // Triage, the first answer of the analysis, and the one that never comes.
    let calls = || async { (world.api.requests().len() >= 3).then_some(()) };
    support::until("the second request of the analysis", calls).await;
    match ends {
        Ends::By(which) => signal(&run, which),
        _ => {
            let status = world.status().await;
            let session = status["sessions"][0]["session"].as_str().unwrap().to_owned();
            world.run(&["kill", &session]).await;
        }
    }
    run.wait().await.unwrap();
    if ends == Ends::By(Signal::SIGKILL) {
        // The next run settles what the crash cut off, and meets the same silence.
        world.once().await;
    }
}

async fn play((name, ends, first, then): Ending) {
    let served = Arc::new(AtomicI64::new(0));
    let counted = Arc::clone(&served);
    let world = World::new(move |request| {
        let reply = answer(request, first, then);
        if matches!(reply, Reply::Billed(..)) {
            counted.fetch_add(price(request), Ordering::SeqCst);
        }
        reply
    });
    let Some(world) = world.await else { return };
    world.configure("stall = \"20s\"\nliveness = \"1s\"\n");
    keep(&world, 2).await;
    run(&world, ends).await;
    let booked = agree(&world, name).await;
    let served = served.load(Ordering::SeqCst);
    let [_, billed, assumed, reserved] = booked;
    assert_eq!(reserved, 0, "{name}");
    match PARTLY_SERVED.contains(&name) {
        true => assert!((0..=WORST_CASE).contains(&(billed + assumed - served)), "{name}"),
        false => assert_eq!((billed, assumed), (served, 0), "{name}: billed is what was served"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_place_shows_the_same_money_however_real_sessions_end() {
    for some in ENDINGS.chunks(AT_ONCE) {
        let playing: JoinSet<()> = some.iter().copied().map(play).collect();
        playing.join_all().await;
    }
}
