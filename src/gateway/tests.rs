//! The gateway between a client and providers on loopback, byte by byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use secrecy::SecretString;
use serde_json::json;

use super::*;
use crate::breaker::blame::{Suspect, suspect};
use crate::model::Usd;
use crate::settings::Price;

const KEY: &str = "key-of-the-provider";

/// A provider that answers each connection with what the script writes. The heads of the requests
/// are sent to the receiver.
fn provider(
    script: impl Fn(&mut TcpStream, &[u8]) + Send + Sync + 'static,
) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/v1/messages", listener.local_addr().unwrap());
    let (sender, receiver) = mpsc::channel();
    let script = Arc::new(script);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (sender, script) = (sender.clone(), Arc::clone(&script));
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 {
                        return;
                    }
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                sender.send(head + &String::from_utf8_lossy(&body)).ok();
                let mut stream = stream;
                script(&mut stream, &body);
            });
        }
    });
    (address, receiver)
}

fn upstream(address: &str) -> Arc<Upstream> {
    let provider = Provider {
        address: address.to_owned(),
        path: "/v1/messages",
        credential: Some(("x-api-key", SecretString::from(KEY))),
        headers: vec![("x-team".to_owned(), "ours".into())],
        authorities: Vec::new(),
    };
    Arc::new(Upstream::new(provider).unwrap())
}

fn open(address: &str, cap: f64) -> Gateway {
    let price = Price { input: 1.0, cached_input: None, cache_write: None, output: 10.0 };
    let bounds = Bounds {
        cap: Usd::from_dollars(cap),
        max_calls: None,
        prices: BTreeMap::from([("m".to_owned(), price)]),
        model: "m".to_owned(),
        models: Models::new(["m"]),
    };
    Gateway::open(upstream(address), bounds, Clock::system()).unwrap()
}

fn ask(gateway: &Gateway) -> reqwest::RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({ "model": "m", "max_tokens": 128_000 });
    let address = format!("{}/v1/messages?beta=true", gateway.door().address());
    client.post(address).header("x-api-key", &gateway.door().token).json(&body)
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

fn event(value: &serde_json::Value) -> String {
    format!("data: {value}\n\n")
}

fn start() -> String {
    event(&json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1000 } } }))
}

fn delta(text: &str) -> String {
    event(
        &json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": text } }),
    )
}

fn end(output: u64) -> String {
    event(&json!({ "type": "message_delta", "usage": { "output_tokens": output } }))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_streamed_metered_and_the_key_is_added() {
    let (go, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (address, heads) = provider(move |stream, _| {
        write!(stream, "{STREAM}{}", start()).unwrap();
        // The rest follows only when the client has seen the beginning.
        gate.lock().unwrap().recv().unwrap();
        write!(stream, "{}{}", delta("hello"), end(100)).unwrap();
    });
    let gateway = open(&address, 1.0);
    let request = ask(&gateway).header("accept-encoding", "gzip, br");
    // Each leads some gateway elsewhere, with the key, or names another account.
    let request = request.header("helicone-target-url", "https://evil.example");
    let request = request.header("x-portkey-custom-host", "https://evil.example");
    let request = request.header("openai-organization", "other").header("x-team", "other");
    let request = request.header("cookie", "a=b").header("x-http-method-override", "DELETE");
    let request = request.query(&[("host", "evil.example"), ("api-version", "2025/../x")]);
    let mut response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    let first = response.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"data: {"));
    go.send(()).unwrap();
    let rest = response.text().await.unwrap();
    assert!(rest.contains("hello") && rest.contains("message_delta"), "{rest}");
    let head = heads.recv().unwrap();
    assert!(head.starts_with("POST /v1/messages?beta=true "), "{head}");
    assert!(head.contains(KEY) && head.contains("x-team: ours"), "{head}");
    for other in ["evil", "other", "cookie", "override", "2025"] {
        assert!(!head.contains(other), "{other}: {head}");
    }
    assert!(!head.contains(&gateway.door().token), "the token stays here: {head}");
    assert!(head.contains("accept-encoding: identity"), "{head}");
    assert!(!head.contains("gzip"), "{head}");
    assert!(head.contains("\"max_tokens\":99999"), "what a dollar can pay: {head}");
    let account = gateway.account();
    assert_eq!(account.usage.cost, Some(Usd::from_dollars(0.002)));
    assert_eq!((account.calls, account.failure, account.usage.estimated), (1, None, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_session_and_only_its_path_are_served() {
    let (address, heads) = provider(|_, _| {});
    let gateway = open(&address, 1.0);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (base, token) = (gateway.door().address(), gateway.door().token.clone());
    let at = |path: &str| format!("{base}{path}");
    let status = |request: reqwest::RequestBuilder| async {
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(client.post(at("/v1/messages")).body("{}")).await, 401);
    assert_eq!(status(client.post(at("/v1/messages")).header("x-api-key", "x")).await, 401);
    assert_eq!(status(client.post(at("/v1/messages")).bearer_auth("session-")).await, 401);
    assert_eq!(status(client.get(at("/v1/messages")).bearer_auth(&token)).await, 404);
    assert_eq!(status(client.post(at("/v1/models")).bearer_auth(&token)).await, 404);
    assert_eq!(status(client.post(at("/v1/messages/../x")).header("api-key", &token)).await, 404);
    assert_eq!(status(client.post(at("/v1/messages")).bearer_auth(&token).body("no")).await, 400);
    let other = open(&address, 1.0);
    let foreign = client.post(format!("{}/v1/messages", other.door().address()));
    assert_eq!(status(foreign.bearer_auth(&token).body("{}")).await, 401, "another session's");
    assert!(heads.try_recv().is_err(), "nothing was forwarded");
    drop(gateway);
    assert!(client.post(at("/v1/messages")).send().await.is_err(), "closed with its session");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_keep_their_status_and_words_and_long_waits_are_not_left_to_the_agent() {
    let (address, _heads) = provider(|stream, _| {
        let body = r#"{"error":{"type":"rate_limit_error","message":"slow down"}}"#;
        write!(
            stream,
            "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    });
    let gateway = open(&address, 1.0);
    let response = ask(&gateway).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["x-should-retry"], "false");
    assert!(!response.headers().contains_key("retry-after"));
    assert!(response.text().await.unwrap().contains("slow down"));
    let account = gateway.account();
    let failure = account.failure.unwrap();
    assert_eq!((failure.class, failure.status), (Class::Limit, 429));
    assert!(failure.reset.is_some());
    assert_eq!((account.usage.cost, account.calls), (Some(Usd::ZERO), 0), "nothing was served");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_reaches_the_agent_as_broken_and_is_estimated() {
    let (address, _heads) = provider(|stream, _| {
        let head = STREAM.replace("connection: close", "transfer-encoding: chunked");
        let words = start() + &delta("12345678");
        write!(stream, "{head}{:x}\r\n{words}\r\n", words.len()).unwrap();
        // Closed without the last chunk.
    });
    let gateway = open(&address, 1.0);
    let response = ask(&gateway).send().await.unwrap();
    assert!(response.bytes().await.is_err(), "not a proper end");
    let account = gateway.account();
    assert_eq!(account.failure.unwrap().class, Class::Outage);
    let (tokens, cost) = (account.usage.tokens(), account.usage.cost);
    assert_eq!(
        (tokens, cost, account.usage.estimated),
        (1002, Some(Usd::from_dollars(0.00102)), true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_is_cut_at_the_cap_and_the_next_request_is_refused() {
    let (address, heads) = provider(|stream, _| {
        let words = delta(&"x".repeat(4000));
        let mut open = write!(stream, "{STREAM}{}", start()).is_ok();
        while open {
            open = stream.write_all(words.as_bytes()).is_ok();
        }
    });
    let gateway = open(&address, 0.1);
    let response = ask(&gateway).send().await.unwrap();
    assert!(response.bytes().await.is_err(), "it is cut");
    let account = gateway.account();
    assert_eq!(account.stop, Some(Stop::Budget));
    let over = account.usage.cost.unwrap() - Usd::from_dollars(0.1);
    assert!(over < Usd::from_dollars(0.05), "at most a chunk: {over}");
    let again = ask(&gateway).send().await.unwrap();
    assert_eq!(again.status(), 402);
    assert_eq!(again.headers()["x-should-retry"], "false");
    assert_eq!(heads.iter().take(1).count(), 1);
    assert!(heads.try_recv().is_err(), "the retry was not forwarded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_there_is_an_outage() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let gateway = open(&format!("http://127.0.0.1:{port}/v1/messages"), 1.0);
    let response = ask(&gateway).send().await.unwrap();
    assert_eq!(response.status(), 502);
    let account = gateway.account();
    assert_eq!(account.failure.as_ref().unwrap().class, Class::Outage);
    assert!(account.failure.unwrap().words.to_lowercase().contains("refused"));
    assert_eq!(account.usage.cost, Some(Usd::ZERO));
}

/// A provider, or something before it, compresses although nobody asked, speaks another protocol,
/// or resets the connection: metered, or told apart.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_another_form_is_metered_or_named() {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    let answer = format!("{}{}{}", start(), delta("hello").repeat(50), end(100));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(answer.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let (address, heads) = provider(move |stream, _| {
        let head = STREAM.replace("\r\n\r\n", "\r\ncontent-encoding: gzip\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &packed].concat()).unwrap();
    });
    let gateway = open(&address, 1.0);
    assert_eq!(ask(&gateway).send().await.unwrap().text().await.unwrap(), answer);
    let usage = gateway.account().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.estimated), (1000, 100, false));
    assert!(heads.recv().unwrap().contains("accept-encoding: identity"));

    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    let brotli = STREAM.replace("\r\n\r\n", "\r\ncontent-encoding: br\r\n\r\n\x0b\x02");
    for (sent, expected) in [
        (brotli.as_bytes().to_vec(), "compressed (\"br\")"),
        (SETTINGS.to_vec(), "invalid HTTP version"),
        (Vec::new(), "connection closed"),
    ] {
        let (address, _heads) = provider(move |stream, _| stream.write_all(&sent).unwrap());
        let gateway = open(&address, 1.0);
        let told = ask(&gateway).send().await.unwrap();
        assert_eq!(told.status(), 502, "{expected}");
        let account = gateway.account();
        let failure = account.failure.unwrap();
        assert_eq!(failure.class, Class::Outage);
        assert!(failure.words.contains(expected), "{expected}: {}", failure.words);
        assert_eq!(account.usage.cost, Some(Usd::ZERO), "{expected}");
    }
}

/// A body of the gateway's session, as it is.
fn send(gateway: &Gateway, body: &serde_json::Value) -> reqwest::RequestBuilder {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let address = format!("{}/v1/messages?beta=true", gateway.door().address());
    client.post(address).header("x-api-key", &gateway.door().token).json(body)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_providers_own_work_and_other_models_are_not_asked_for() {
    let (address, heads) = provider(|stream, _| {
        write!(stream, "{STREAM}{}{}", start(), end(1)).unwrap();
    });
    let gateway = open(&address, 1.0);
    let image = json!({ "type": "image", "source": { "type": "url", "url": "https://a.test/?x" } });
    for change in [
        json!({ "tools": [{ "type": "web_fetch_20250910", "name": "web_fetch" }] }),
        json!({ "mcp_servers": [{ "type": "url", "url": "https://a.test/mcp", "name": "x" }] }),
        json!({ "messages": [{ "role": "user", "content": [image] }] }),
        json!({ "container": "container_1" }),
        json!({ "model": "claude-opus-latest-preview" }),
        json!({ "max_tokens": 128_000.0 }),
    ] {
        let mut body = json!({ "model": "m", "max_tokens": 9 });
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = send(&gateway, &body).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-should-retry"]),
            (400, &"false".parse().unwrap()),
            "{change}"
        );
        let said = answer.text().await.unwrap();
        assert!(said.contains("heartbeat's gateway: "), "{said}");
        let failure = gateway.account().failure.unwrap();
        assert!(matches!(failure.class, Class::Setting | Class::UnknownModel), "{failure:?}");
        assert!(failure.text().starts_with("heartbeat's gateway: "), "{}", failure.text());
    }
    assert!(heads.try_recv().is_err(), "nothing was forwarded");
    assert_eq!(gateway.account().usage.cost, Some(Usd::ZERO));
    let body = json!({ "model": "m", "max_tokens": 9, "speed": "fast", "service_tier": "auto" });
    let betas = "effort-2025-11-24,mcp-client-2025-04-04";
    let request = send(&gateway, &body).header("anthropic-beta", betas);
    assert_eq!(request.send().await.unwrap().status(), 200);
    let head = heads.recv().unwrap();
    assert!(head.contains("anthropic-beta: effort-2025-11-24\r\n"), "{head}");
    assert!(!head.contains("mcp-client") && !head.contains("speed"), "{head}");
    assert!(!head.contains("service_tier"), "{head}");
}

/// Any local user can open connections, and never sends a token.
#[tokio::test(flavor = "multi_thread")]
async fn connections_without_the_token_keep_the_session_from_nothing() {
    let (address, _heads) = provider(|stream, _| {
        write!(stream, "{STREAM}{}{}", start(), end(1)).unwrap();
    });
    let gateway = open(&address, 1.0);
    let port = gateway.door().port;
    let mut held = Vec::new();
    for round in 0..10 {
        for _ in 0..16 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            // Some say nothing, some never end their head.
            if held.len() & 1 == 0 {
                stream.write_all(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\n").unwrap();
            }
            held.push(stream);
        }
        let answer = ask(&gateway).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{round}");
        assert!(answer.text().await.unwrap().contains("message_delta"));
    }
    // The first ones were closed for the last ones.
    let mut first = held.swap_remove(0);
    first.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    assert!(matches!(first.read(&mut [0]), Ok(0) | Err(_)), "still open");
}

/// Ten calls at once, each of which could cost $0.40: together they cost no more than the cap.
#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_are_reserved_against_each_other() {
    let (address, heads) = provider(|stream, body| {
        let asked: serde_json::Value = serde_json::from_slice(body).unwrap();
        let body = json!({ "usage": { "input_tokens": 10, "output_tokens": asked["max_tokens"] } });
        let body = body.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    let gateway = open(&address, 0.5);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        calls.spawn(send(&gateway, &json!({ "model": "m", "max_tokens": 40_000 })).send());
    }
    let mut statuses = BTreeMap::new();
    while let Some(answer) = calls.join_next().await {
        let answer = answer.unwrap().unwrap();
        *statuses.entry(answer.status().as_u16()).or_insert(0) += 1;
        drop(answer.bytes().await);
    }
    let account = gateway.account();
    assert_eq!(statuses, BTreeMap::from([(200, 2), (402, 8)]), "{account:?}");
    assert_eq!(heads.try_iter().count(), 2, "one of 40,000 tokens and one of what is left");
    let cost = account.usage.cost.unwrap();
    assert!(cost <= Usd::from_dollars(0.5) && cost > Usd::from_dollars(0.49), "{cost}");
}

/// Eight answers of 8 MB in parallel go through without being kept.
#[tokio::test(flavor = "multi_thread")]
async fn large_answers_pass_in_bounded_memory() {
    const SIZE: usize = 8 << 20;
    let (address, _heads) = provider(|stream, _| {
        let words = delta(&"x".repeat(16 << 10));
        write!(stream, "{STREAM}{}", start()).unwrap();
        for _ in 0..SIZE / words.len() {
            if stream.write_all(words.as_bytes()).is_err() {
                return;
            }
        }
        drop(stream.write_all(end(7).as_bytes()));
    });
    let gateway = open(&address, 1_000.0);
    let before = resident();
    let one = || async {
        let mut response = ask(&gateway).send().await.unwrap();
        let mut length = 0;
        while let Some(chunk) = response.chunk().await.unwrap() {
            length += chunk.len();
        }
        length
    };
    let all = tokio::join!(one(), one(), one(), one(), one(), one(), one(), one());
    assert!(all.0 > SIZE - (64 << 10) && all.0 == all.7, "{all:?}");
    let grown = resident().saturating_sub(before);
    // Client and provider are in this process too.
    println!("eight answers of 8 MB at once: {grown} KiB more, client and provider included");
    assert!(grown < 24 << 10, "{grown} KiB");
    let account = gateway.account();
    assert_eq!((account.calls, account.usage.output_tokens), (8, 56));
    assert!(!account.usage.estimated);
}

/// Prints how much later the first byte of an answer is; asserts nothing about time.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_byte_through_the_gateway() {
    let (address, _heads) = provider(|stream, _| {
        drop(write!(stream, "{STREAM}{}{}", start(), end(1)));
    });
    let gateway = open(&address, 1_000.0);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({ "model": "m", "stream": true, "messages": "x".repeat(30_000) }).to_string();
    let through = format!("{}/v1/messages", gateway.door().address());
    let mut medians = Vec::new();
    for target in [&address, &through] {
        let mut times = Vec::new();
        for _ in 0..200 {
            let request = client.post(target).header("x-api-key", &gateway.door().token);
            let began = tokio::time::Instant::now();
            let mut response = request.body(body.clone()).send().await.unwrap();
            assert!(response.chunk().await.unwrap().is_some());
            times.push(began.elapsed());
        }
        times.sort_unstable();
        medians.push(times[100]);
    }
    println!("first byte, p50: direct {:?}, through the gateway {:?}", medians[0], medians[1]);
    assert_eq!(gateway.account().calls, 200);
}

/// What the provider of the next test does with one request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Complete,
    /// Breaks off after so many words.
    Cut(u32),
    ErrorEvent,
    Refusal(u16),
    Silence,
    Plain,
}

fn act_of(number: u64) -> Act {
    const REFUSALS: [u16; 7] = [400, 401, 402, 413, 429, 500, 529];
    match number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xf {
        0..5 => Act::Complete,
        5..8 => Act::Cut(u32::try_from(number % 90).unwrap() + 30),
        8 => Act::ErrorEvent,
        9 | 10 => Act::Plain,
        11 => Act::Silence,
        _ => Act::Refusal(REFUSALS[usize::try_from(number % 7).unwrap()]),
    }
}

/// What the provider sends for it.
fn sent_for(act: Act) -> String {
    let chunked = STREAM.replace("connection: close", "transfer-encoding: chunked");
    let word = delta("12345678"); // Two tokens.
    match act {
        Act::Complete => {
            format!("{STREAM}{}{}{}", start(), word.repeat(50), end(100))
        }
        Act::Cut(words) => {
            let text = start() + &word.repeat(words as usize);
            format!("{chunked}{:x}\r\n{text}\r\n", text.len())
        }
        Act::ErrorEvent => {
            let error = json!({ "type": "error", "error": { "type": "overloaded_error" } });
            format!("{STREAM}{}{}{}", start(), word.repeat(40), event(&error))
        }
        Act::Plain => {
            let body = json!({ "usage": { "input_tokens": 1000, "output_tokens": 7 } });
            let body = body.to_string();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        Act::Silence => String::new(),
        Act::Refusal(status) => {
            format!("HTTP/1.1 {status} No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}")
        }
    }
}

/// Input and output, and whether they may be an estimate.
fn served(act: Act) -> (u64, u64, bool) {
    match act {
        Act::Complete => (1000, 100, false),
        Act::Cut(words) => (1000, u64::from(words) * 2, true),
        Act::ErrorEvent => (1000, 80, true),
        Act::Plain => (1000, 7, false),
        Act::Silence | Act::Refusal(_) => (0, 0, false),
    }
}

/// What a session with these requests must have: input, output, and whether it is an estimate.
fn expected(acts: &[Act]) -> (u64, u64, bool) {
    acts.iter()
        .map(|act| served(*act))
        .fold((0, 0, false), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 | one.2))
}

/// Whom the end of a session points to whose last request ended like this.
fn assert_blame(last: Act, account: &Account) {
    let suspect =
        account.failure.as_ref().map(|failure| suspect(&failure.class.outcome(), &account.usage));
    let expected = match last {
        Act::Complete | Act::Plain => None,
        Act::Cut(_) | Act::ErrorEvent | Act::Silence | Act::Refusal(500 | 529) => {
            Some(Suspect::Provider)
        }
        Act::Refusal(401 | 402 | 429) => Some(Suspect::Nobody),
        // A request that the provider refuses as such: the item, unless it answered before.
        Act::Refusal(_) if account.usage.tokens() > 0 => Some(Suspect::Provider),
        Act::Refusal(_) => Some(Suspect::Item),
    };
    assert_eq!(suspect, expected, "{last:?} {account:?}");
}

/// One session of three requests; returns whether its figures are an estimate.
async fn session(upstream: &Arc<Upstream>, client: &reqwest::Client, numbers: [u64; 3]) -> bool {
    let bounds = Bounds {
        cap: Usd::from_dollars(9.0),
        max_calls: None,
        prices: BTreeMap::new(),
        model: "m".to_owned(),
        models: Models::new(["claude-sonnet-4"]),
    };
    let gateway = Gateway::open(Arc::clone(upstream), bounds, Clock::system()).unwrap();
    let address = format!("{}/v1/messages", gateway.door().address());
    for number in numbers {
        let body = json!({
            "model": "claude-sonnet-4", "stream": true, "metadata": { "number": number },
        });
        let asked = client.post(&address).bearer_auth(&gateway.door().token).json(&body);
        if let Ok(answer) = asked.send().await {
            drop(answer.bytes().await);
        }
    }
    let acts = numbers.map(act_of);
    let (input, output, estimated) = expected(&acts);
    // A request is settled when its answer has passed as a whole, shortly after the client has it.
    while gateway.meter.open_calls() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let account = gateway.account();
    let usage = account.usage;
    let off = usage.output_tokens.abs_diff(output);
    assert_eq!(usage.input_tokens, input, "{acts:?} {account:?}");
    assert!(off * 50 <= output, "{acts:?} {account:?}");
    assert_eq!(usage.estimated, estimated, "{acts:?} {account:?}");
    assert!(usage.estimated || off == 0, "{acts:?} {account:?}");
    assert_blame(acts[2], &account);
    estimated
}

/// A thousand sessions with faults, eight at a time: what is booked is what was served, to the token,
/// or is marked as estimated and is within two in a hundred; a refusal costs nothing; what the
/// provider did is not blamed on an item; nothing hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_booked_is_what_was_served() {
    let (address, _heads) = provider(move |stream, body| {
        let asked: serde_json::Value = serde_json::from_slice(body).unwrap();
        let sent = sent_for(act_of(asked["metadata"]["number"].as_u64().unwrap()));
        stream.write_all(sent.as_bytes()).ok();
    });
    let upstream = upstream(&address);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut exact, mut estimated) = (0, 0);
    for wave in 0..125 {
        let mut sessions = tokio::task::JoinSet::new();
        for place in 0..8 {
            let (upstream, client) = (Arc::clone(&upstream), client.clone());
            let first = (wave * 8 + place) * 3;
            sessions.spawn(async move {
                session(&upstream, &client, [first, first + 1, first + 2]).await
            });
        }
        while let Some(is_estimate) = sessions.join_next().await {
            *(if is_estimate.unwrap() { &mut estimated } else { &mut exact }) += 1;
        }
    }
    println!("{exact} sessions booked to the token, {estimated} estimated within 2 %");
    assert!(exact > 100 && estimated > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_played_back_without_a_provider() {
    let (address, heads) = provider(|stream, _| {
        write!(stream, "{STREAM}{}{}{}", start(), delta("hello"), end(100)).unwrap();
    });
    let bounds = || Bounds {
        cap: Usd::from_dollars(9.0),
        max_calls: None,
        prices: BTreeMap::new(),
        model: "claude-sonnet-4".to_owned(),
        models: Models::new(["m"]),
    };
    let gateway = Gateway::recording(upstream(&address), bounds(), Clock::system()).unwrap();
    let said = ask(&gateway).send().await.unwrap().text().await.unwrap();
    let kept = gateway.recorded().unwrap().unwrap();
    assert_eq!((kept.len(), kept[0].status, kept[0].complete), (1, 200, true));
    assert_eq!(kept[0].body, said);
    let text = serde_json::to_string(&kept).unwrap();
    assert!(!text.contains(KEY) && !text.contains(&gateway.door().token), "{text}");
    assert_eq!(heads.try_iter().count(), 1);
    let playback = Arc::new(Playback::new(kept, "/v1/messages"));
    let played = Gateway::playing(playback, bounds(), Clock::system()).unwrap();
    assert_eq!(ask(&played).send().await.unwrap().text().await.unwrap(), said);
    assert_eq!(played.account().usage.output_tokens, 100);
    let beyond = ask(&played).send().await.unwrap();
    assert_eq!(
        (beyond.status().as_u16(), &beyond.headers()["x-should-retry"]),
        (402, &"false".parse().unwrap())
    );
    assert_eq!(heads.try_iter().count(), 0, "the provider was asked");
}

/// In KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}
