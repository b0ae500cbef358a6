//! What the HTTP interface costs, beside a bare handler and a bare loopback round trip.
//!
//! `cargo bench --bench web`: prints a table. With `wrk` on the path its figures are added. Figures
//! are ratios wherever the machine would decide the absolute ones.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, or stops")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use heartbeat::event::{Event, Sink};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use support::web::{Served, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 16;
const SECONDS: u64 = 3;
const LISTENERS: usize = 100;
/// As a busy run has them: three sessions with a sign of life each second, and their steps.
const EVENTS_PER_SECOND: u64 = 10;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|word| word == "--listen-to") {
        Some(at) => runtime.block_on(listen_all(arguments[at + 1].parse().unwrap())),
        None => runtime.block_on(measure()),
    }
}

async fn measure() {
    let served = serve(None).await;
    let body = served.get("/health").await.body;
    let bare = bare(body).await;
    let one = load(bare, "/").await;
    println!("bare handler          {:>8.0}/s  p50 {:?}  p99 {:?}", one.rate, one.p50, one.p99);
    for path in ["/health", "/metrics", "/livez"] {
        let found = load(served.address, path).await;
        let ratio = found.rate / one.rate;
        println!(
            "{path:<21} {:>8.0}/s  p50 {:?}  p99 {:?}  {ratio:.2} of bare",
            found.rate, found.p50, found.p99
        );
    }
    wrk(bare, "/");
    wrk(served.address, "/health");
    wrk(served.address, "/metrics");
    latency(&served).await;
    listeners(&served).await;
}

async fn bare(body: String) -> SocketAddr {
    let body = axum::body::Bytes::from(body);
    let router = Router::new().route("/", get(move || std::future::ready(body.clone())));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

struct Load {
    rate: f64,
    p50: Duration,
    p99: Duration,
}

async fn load(address: SocketAddr, path: &str) -> Load {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = request.clone();
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut times = Vec::new();
            while Instant::now() < until {
                let begun = Instant::now();
                stream.write_all(request.as_bytes()).await.unwrap();
                read_answer(&mut stream).await;
                times.push(begun.elapsed());
            }
            times
        });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    times.sort_unstable();
    let count = u32::try_from(times.len()).unwrap();
    let rate = f64::from(count) / Duration::from_secs(SECONDS).as_secs_f64();
    Load { rate, p50: times[times.len() / 2], p99: times[times.len() * 99 / 100] }
}

async fn read_answer(stream: &mut TcpStream) {
    let mut text = Vec::with_capacity(16 << 10);
    loop {
        assert!(stream.read_buf(&mut text).await.unwrap() > 0);
        let Some(head) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let told = String::from_utf8_lossy(&text[..head]).to_lowercase();
        let length = told.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        if text.len() >= head + 4 + length {
            return;
        }
    }
}

fn wrk(address: SocketAddr, path: &str) {
    let url = format!("http://localhost:{}{path}", address.port());
    let seconds = format!("-d{SECONDS}s");
    let run = assert_cmd::Command::new("wrk").args(["-t1", "-c16", &seconds, &url]).output();
    if let Ok(output) = run {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let rate = said.lines().find(|line| line.contains("Requests/sec")).unwrap_or(&said);
        println!("wrk {path:<17} {}", rate.trim());
    }
}

/// From the emission of an event, over its commit, to the reader of a stream.
async fn latency(served: &Served) {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = echo.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = echo.accept().await.unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
    });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut trips = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        stream.write_all(b"x").await.unwrap();
        stream.read_exact(&mut [0]).await.unwrap();
        trips.push(begun.elapsed());
    }
    let mut listener = served.listen("", "").await;
    listener.until(|text| text.contains("event: state")).await;
    let (mut whole, mut commits) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let begun = Instant::now();
        served.journal.emit(Event::ConfigReloaded);
        served.journal.flush().await.unwrap();
        commits.push(begun.elapsed());
        listener.text.clear();
        listener.until(|text| text.contains("event: happened")).await;
        whole.push(begun.elapsed());
    }
    for times in [&mut trips, &mut whole, &mut commits] {
        times.sort_unstable();
    }
    let ratio = whole[100].as_secs_f64() / trips[100].as_secs_f64();
    println!(
        "event to reader       p50 {:?} (of it the commit {:?}), p99 {:?}; round trip {:?}; {ratio:.0} round trips",
        whole[100], commits[100], whole[198], trips[100]
    );
}

/// CPU of this process with a hundred listeners in another one.
async fn listeners(served: &Served) {
    #[expect(
        clippy::disallowed_methods,
        reason = "a benchmark's clients must not be in its figures"
    )]
    let mut clients = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--listen-to", &served.address.to_string()])
        .spawn()
        .unwrap();
    while served.server.hub().clients() < LISTENERS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (begun, used) = (Instant::now(), cpu());
    for _ in 0..EVENTS_PER_SECOND * SECONDS {
        served.journal.emit(Event::ConfigReloaded);
        served.journal.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1000 / EVENTS_PER_SECOND)).await;
    }
    let share = (cpu() - used).as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    println!(
        "{LISTENERS} listeners         {share:.1} % of a core at {EVENTS_PER_SECOND} events/s"
    );
    clients.kill().unwrap();
    clients.wait().unwrap();
}

fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap())
}

async fn listen_all(address: SocketAddr) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..LISTENERS {
        tasks.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let mut buffer = vec![0; 64 << 10];
            while stream.read(&mut buffer).await.unwrap_or(0) > 0 {}
        });
    }
    tasks.join_all().await;
}
