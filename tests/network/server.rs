//! The HTTP interface from outside: responses, refusals, and malicious clients.

use std::net::SocketAddr;

use heartbeat::event::{Event, Sink};
use heartbeat::web::bind;
use support::web::{Served, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATHS: [(&str, &str); 19] = [
    ("/", "text/html; charset=utf-8"),
    ("/app.css", "text/css; charset=utf-8"),
    ("/app.js", "text/javascript; charset=utf-8"),
    ("/dom.js", "text/javascript; charset=utf-8"),
    ("/views.js", "text/javascript; charset=utf-8"),
    ("/finding.js", "text/javascript; charset=utf-8"),
    ("/items.js", "text/javascript; charset=utf-8"),
    ("/run.js", "text/javascript; charset=utf-8"),
    ("/icon.svg", "image/svg+xml"),
    ("/health", "application/json"),
    ("/livez", "application/json"),
    ("/readyz", "application/json"),
    ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ("/heartbeat/metrics", "application/json"),
    ("/api/state", "application/json"),
    ("/api/findings", "application/json"),
    ("/api/runs?limit=3", "application/json"),
    ("/api/figures", "application/json"),
    ("/api/items?state=settled&q=a&sort=attempts", "application/json"),
];

#[tokio::test]
async fn every_path_answers_with_the_headers_that_protect_it() {
    let served = serve(None).await;
    for (path, media_type) in PATHS {
        let answer = served.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some(media_type), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
    let page: usize = ["/", "/app.css", "/app.js", "/dom.js", "/views.js", "/finding.js"].len();
    assert_eq!(page, 6);
    let index = served.get("/").await.body;
    for outside in ["http://", "https://", "style=", "onclick"] {
        assert!(!index.contains(outside), "the page speaks of {outside}");
    }
}

#[tokio::test]
async fn a_state_that_is_gone_is_unhealthy_and_not_ready() {
    let served = serve(None).await;
    let calm = served.get("/health").await;
    assert_eq!((calm.status, calm.json()["status"].as_str()), (200, Some("healthy")));
    std::fs::remove_dir_all(served.folder.path().join("state")).unwrap();
    // The last check of the folder is cached for a moment.
    let noticed = async { while served.get("/health").await.status != 503 {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), noticed).await.unwrap();
    let health = served.get("/health").await;
    assert_eq!(health.json()["status"], "unhealthy");
    assert_eq!(health.json()["reasons"][0]["code"], "store");
    assert_eq!(served.get("/readyz").await.status, 503);
    assert_eq!(served.get("/livez").await.status, 200);
    assert!(served.get("/metrics").await.body.contains("health_status{status=\"unhealthy\"} 1"));
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_way_out() {
    let served = serve(None).await;
    let error = bind(served.address, None).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&served.address.to_string()) && text.contains("[http] listen"), "{text}");
    let any = "127.0.0.1:0".parse().unwrap();
    let other = bind(any, Some(served.address.port())).await.unwrap();
    assert_ne!(other.local_addr().unwrap().port(), served.address.port());
}

#[tokio::test]
async fn rubbish_and_ways_out_of_the_tree_lead_nowhere() {
    let served = serve(None).await;
    let traversals = [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/api/items/..%2f..%2f..%2fetc%2fpasswd",
        "/api/items/../../etc/passwd",
        "/app.js/../../Cargo.toml",
        "//etc/passwd",
        "/%00",
        "/api/items/%ff%fe",
    ];
    for path in traversals {
        let answer = served.get(path).await;
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{path}");
    }
    for query in ["/api/runs?limit=-1", "/api/runs?limit=x", "/events?after=1e9"] {
        assert_eq!(served.get(query).await.status, 400, "{query}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(5000));
    let rubbish: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
    ];
    for bytes in rubbish {
        let answer = String::from_utf8_lossy(&served.raw(bytes).await).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // A client that announces a body and does not send it.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let head = "POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n";
    silent.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(served.get("/livez").await.status, 200);
    assert!(served.hands.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_listener_hears_events_at_once_and_catches_up_after_a_break() {
    let served = serve(None).await;
    let mut stream = served.listen("", "").await;
    stream.until(|text| text.contains("event: state")).await;
    for _ in 0..3 {
        served.journal.emit(Event::ConfigReloaded);
    }
    served.journal.flush().await.unwrap();
    stream.until(|text| text.contains("id: 3\n")).await;
    assert_eq!(stream.ids(), [1, 2, 3]);
    drop(stream);
    served.journal.emit(Event::ConfigBroken { message: "line\n3 \"quoted\"".into() });
    served.journal.emit(Event::ConfigReloaded);
    served.journal.flush().await.unwrap();
    let mut back = served.listen("", "Last-Event-ID: 3\r\n").await;
    back.until(|text| text.contains("event: state")).await;
    assert_eq!(back.ids(), [4, 5], "exactly what was missed, in order");
    served.journal.emit(Event::ConfigReloaded);
    served.journal.flush().await.unwrap();
    back.until(|text| text.contains("id: 6\n")).await;
    assert_eq!(back.ids(), [4, 5, 6], "and then what is new, once");
}

#[tokio::test]
async fn a_client_that_missed_too_much_must_start_over() {
    let served = serve(None).await;
    for _ in 0..1001 {
        served.journal.emit(Event::ConfigReloaded);
    }
    served.journal.flush().await.unwrap();
    let mut far = served.listen("?after=0", "").await;
    far.until(|text| text.contains("event: reset")).await;
    assert_eq!(far.ids(), [1001]);
    let mut future = served.listen("?after=999999", "").await;
    future.until(|text| text.contains("event: reset")).await;
}

#[tokio::test]
async fn one_who_does_not_read_keeps_nobody_waiting() {
    let served = serve(None).await;
    let mut deaf = served.listen("", "Connection: close\r\n").await;
    deaf.until(|text| text.contains("event: state")).await;
    let mut attentive = served.listen("", "").await;
    attentive.until(|text| text.contains("event: state")).await;
    let message = "x".repeat(8 << 10);
    let (rounds, in_one) = (26, 50);
    for round in 1..=rounds {
        for _ in 0..in_one {
            served.journal.emit(Event::ConfigBroken { message: message.clone() });
        }
        served.journal.flush().await.unwrap();
        let id = format!("id: {}\n", round * in_one);
        attentive.until(|text| text.contains(&id)).await;
        let ids = attentive.ids();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
        attentive.text.clear();
    }
    // It was disconnected: its stream ends long before everything was sent.
    let mut rest = Vec::new();
    deaf.stream.read_to_end(&mut rest).await.ok();
    assert!(rest.len() < rounds * in_one * message.len(), "{} bytes were kept for it", rest.len());
}

#[tokio::test]
async fn the_thousandth_listener_is_served_and_the_next_is_asked_to_come_back() {
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    if hard < 3000 {
        println!("SKIPPED: only {hard} files may be open");
        return;
    }
    let served = serve(None).await;
    let mut streams = Vec::new();
    for _ in 0..1000 {
        let mut stream = served.listen("", "").await;
        stream.until(|text| text.contains("event: state")).await;
        streams.push(stream);
    }
    let refused = served.get("/events").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("10")));
    served.journal.emit(Event::ConfigReloaded);
    served.journal.flush().await.unwrap();
    for stream in &mut streams {
        stream.until(|text| text.contains("id: 1\n")).await;
    }
    assert_eq!(served.get("/health").await.status, 200);
    drop(streams);
    served.server.stop().await;
}

/// A client that opens a connection and sends slowly, or nothing, loses it after ten seconds.
#[tokio::test]
async fn idle_and_slow_connections_keep_nobody_waiting() {
    let served = serve(None).await;
    let mut idle = Vec::new();
    for _ in 0..heartbeat::web::connection::most_connections() {
        let Ok(connection) = TcpStream::connect(served.address).await else { break };
        idle.push(connection);
    }
    let mut slow = TcpStream::connect(served.address).await.unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    let answered = async { served.get("/livez").await.status };
    let status = tokio::time::timeout(std::time::Duration::from_secs(60), answered).await.unwrap();
    assert_eq!(status, 200);
    // A byte now and then does not prolong it.
    let cut_off = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            if slow.write_all(b"x").await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), cut_off).await.unwrap();
}

/// Holds `count` connections, and opens a new one for each that is closed.
async fn hold_connections(address: SocketAddr, count: usize, first_bytes: &'static [u8]) {
    let mut held = tokio::task::JoinSet::new();
    for _ in 0..count {
        let connection = TcpStream::connect(address).await.unwrap();
        held.spawn(hold(connection, first_bytes));
    }
    tokio::spawn(async move {
        while held.join_next().await.is_some() {
            if let Ok(connection) = TcpStream::connect(address).await {
                held.spawn(hold(connection, first_bytes));
            }
        }
    });
}

async fn hold(mut connection: TcpStream, first_bytes: &[u8]) {
    connection.write_all(first_bytes).await.ok();
    // Until the server closes it; it sends nothing to strangers.
    let _closed = connection.read(&mut [0; 1]).await;
}

/// Clients that are not signed in have the smallest share of the connections, and cannot keep even
/// that: while a stranger takes all available ones, others are answered long before its connections
/// are closed for being idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_hold_connections_keep_nobody_out() {
    let most = heartbeat::web::connection::most_connections();
    for first_bytes in [&b""[..], b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: "] {
        let served = serve(None).await;
        let mut stream = served.listen("", "").await;
        stream.until(|text| text.contains("event: state")).await;
        hold_connections(served.address, most + 50, first_bytes).await;
        let answered = async {
            let [health, livez, readyz, metrics] =
                heartbeat::web::guard::OPEN.map(|path| served.ask_unsigned("GET", path, ""));
            let state = served.get("/api/state");
            let (a, b, c, d, e) = tokio::join!(health, livez, readyz, metrics, state);
            assert_eq!([a, b, c, d, e].map(|answer| answer.status), [200; 5]);
            // A client that was signed in before stays connected.
            served.journal.emit(Event::ConfigReloaded);
            served.journal.flush().await.unwrap();
            stream.until(|text| text.contains("id: 1\n")).await;
        };
        let half = heartbeat::web::connection::REQUEST / 2;
        tokio::time::timeout(half, answered).await.expect("a stranger keeps others out");
    }
}

#[tokio::test]
async fn feedback_is_one_of_three_words_with_a_note() {
    let served = serve(None).await;
    let post = async |body: &str| {
        let more = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        served.ask("POST", "/api/feedback/ado/7", &more).await.status
    };
    let unsigned = "Content-Length: 20\r\n\r\n{\"opinion\":\"useful\"}";
    let refused = served.ask_unsigned("POST", "/api/feedback/ado/7", unsigned).await;
    assert_eq!(refused.status, 401);
    assert_eq!(post(r#"{"opinion":"lovely"}"#).await, 400);
    assert_eq!(post("").await, 400);
    assert_eq!(post(r#"{"opinion":"useful"}"#).await, 200);
    assert_eq!(post(r#"{"opinion":"wrong","note":" not here "}"#).await, 200);
    let done = served.hands.0.lock().unwrap().clone();
    assert_eq!(done, ["feedback ado/7 useful ", "feedback ado/7 wrong not here"]);
}

/// The body and its head, as sent.
async fn packed(served: &Served, path: &str, accepts: &str) -> (String, Vec<u8>) {
    let bearer = served.bearer();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{bearer}{accepts}\r\n"
    );
    let answer = served.raw(request.as_bytes()).await;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).to_lowercase(), answer[end + 4..].to_vec())
}

#[tokio::test]
async fn long_bodies_are_compressed_for_clients_that_take_it() {
    let served = serve(None).await;
    let plain = served.get("/views.js").await.body;
    let (head, body) = packed(&served, "/views.js", "Accept-Encoding: br, gzip;q=0.8\r\n").await;
    assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"));
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    assert!(body.len() * 2 < plain.len(), "{} of {}", body.len(), plain.len());
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*body), &mut unpacked)
        .unwrap();
    assert!(unpacked == plain, "the same text");
    for accepts in ["", "Accept-Encoding: br\r\n", "Accept-Encoding: gzip;q=0\r\n"] {
        let (head, body) = packed(&served, "/views.js", accepts).await;
        assert!(
            !head.contains("content-encoding") && body == plain.as_bytes(),
            "{accepts}: {head}"
        );
    }
    let (head, _) = packed(&served, "/livez", "Accept-Encoding: gzip\r\n").await;
    assert!(!head.contains("content-encoding"), "short: {head}");
    let mut stream = served.listen("", "Accept-Encoding: gzip\r\n").await;
    stream.until(|text| text.contains("event: state")).await;
}
