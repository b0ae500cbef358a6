//! Reading, cleaning and judging many changed items, beside a bare loop that only downloads the same
//! pages.
//!
//! `cargo bench --bench fetch [-- ITEMS…]`; with `github` or `jira` before the sizes, that tracker takes
//! the place of Azure DevOps. Simulator, client and loop are processes of their own,
//! so that the peak memory of each is its own. Both ask for the same batches and both take packed
//! answers, as the service gives them; the last line is for a server that packs nothing. Of several
//! rounds the fastest counts, since other work on the machine can only make one slower.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark talks to a terminal, starts its own parts and fails by panicking"
)]

#[path = "fetch_jira.rs"]
mod bare_jira;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use heartbeat::clean;
use heartbeat::clock::Clock;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::dedupe;
use heartbeat::fetch::{Connection, FetchRequest, FixedCredential, InMemory, Source as _, connect};
use heartbeat::settings::{self, Config};
use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use serde_json::{Value, json};
use simulators::{github, jira};

const ROUNDS: usize = 7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    match arguments.first().map(String::as_str) {
        Some("serve") => {
            runtime().block_on(serve(arguments[1].parse().unwrap(), &arguments[2]));
        }
        Some("bare") if arguments[2] == GITHUB => {
            runtime().block_on(bare_github(arguments[1].clone()));
        }
        Some("bare") if arguments[2] == JIRA => runtime().block_on(async {
            let (start, items, bytes, requests) = bare_jira::read(arguments[1].clone()).await;
            report(start, items, bytes, requests);
        }),
        Some("bare") => runtime().block_on(bare(arguments[1].clone())),
        Some("client") => runtime().block_on(client(arguments[1].clone(), &arguments[2])),
        _ => compare(&arguments),
    }
}

/// Serves so many items until it is killed; the first line of output is the address.
async fn serve(items: usize, packing: &str) {
    if packing == GITHUB {
        let options =
            github::SimulatorOptions { items, limit: None, ..github::SimulatorOptions::default() };
        let simulator = github::Simulator::start(options).await.unwrap();
        println!("{}", simulator.base_url());
        return std::future::pending::<()>().await;
    }
    if packing == JIRA {
        let options = jira::SimulatorOptions { items, ..jira::SimulatorOptions::default() };
        let simulator = jira::Simulator::start(options).await.unwrap();
        println!("{}", simulator.base_url());
        return std::future::pending::<()>().await;
    }
    let packs = packing == "packed";
    let options = SimulatorOptions { items, packs, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    println!("{}", simulator.base_url());
    std::future::pending::<()>().await;
}

/// Stands in the column of how answers are packed.
const GITHUB: &str = "github";
const JIRA: &str = "jira";

fn source_config(base_url: String, packing: &str) -> settings::Source {
    let defaults: Config = toml::from_str(DEFAULT_TOML).unwrap();
    let (kind, project) = match packing {
        GITHUB => (settings::SourceKind::Github, github::REPOSITORY),
        JIRA => (settings::SourceKind::Jira, jira::PROJECT),
        _ => (settings::SourceKind::Ado, "Parcel"),
    };
    settings::Source {
        base_url,
        kind,
        project: project.to_owned(),
        where_clause: String::new(),
        look_back: Duration::from_secs(90 * 86_400),
        ..defaults.source
    }
}

/// Our client: query, batches, decoding.
async fn client(base_url: String, packing: &str) {
    let config = source_config(base_url, packing);
    let credential = Arc::new(FixedCredential::new("none".to_owned().into(), "the benchmark"));
    let memory = InMemory::shared();
    let connection = Connection::new(credential, Clock::system(), memory);
    let source = connect(&config, connection).unwrap();
    let start = Instant::now();
    let request = FetchRequest { changed_since: None, also: vec![] };
    let mut pages = source.open(request).await.unwrap();
    let (mut items, mut text) = (0, 0);
    let budget = clean::Budget::per_item(8000, 800);
    let now = Clock::system().now();
    while let Some(page) = pages.next().await.unwrap() {
        items += page.items.len();
        let (cleaned, failed) = clean::clean_items(page.items, &budget, || false);
        assert!(failed.is_empty(), "the cleaner takes everything");
        for item in cleaned {
            text += item.stats.raw_bytes;
            let fingerprint = dedupe::fingerprint(&item, &INPUTS);
            let seen = dedupe::Seen {
                fingerprint: &fingerprint,
                revision: 1,
                area_path: "",
                terminal: false,
                readable: true,
                max_attempts: 3,
            };
            std::hint::black_box(dedupe::decide(seen, None, now));
        }
    }
    report(start, items, text, pages.requests());
}

/// What goes into a fingerprint beside the item.
const INPUTS: dedupe::FingerprintInputs<'_> =
    dedupe::FingerprintInputs { prompt_version: "1", models: &["haiku", "sonnet"], watch: &[] };

/// Numbers in one question of the bare loop; fewer than the tracker's limit of rows.
const WINDOW: i64 = 19_000;

/// The least anybody could do: the same ids, the same batches, nothing read of the answers.
async fn bare(base_url: String) {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().gzip(true).build().unwrap();
    let config = source_config(base_url.clone(), "packed");
    let basic = heartbeat_fields(&config);
    let start = Instant::now();
    let (mut items, mut bytes, mut requests, mut last) = (0, 0, 0_u64, 0);
    loop {
        // In the client's order, so that the server's work is the same.
        let query = format!(
            "SELECT [System.Id] FROM WorkItems WHERE [System.Id] > {last} AND [System.Id] <= {} \
             ORDER BY [System.ChangedDate], [System.Id]",
            last + WINDOW
        );
        let url = format!("{base_url}/Parcel/_apis/wit/wiql?$top=19999&api-version=7.1");
        let request = http.post(url).basic_auth("", Some("none")).json(&json!({ "query": query }));
        let rows: Value = request.send().await.unwrap().json().await.unwrap();
        requests += 1;
        let ids: Vec<i64> =
            rows["workItems"].as_array().unwrap().iter().filter_map(|r| r["id"].as_i64()).collect();
        for part in ids.chunks(usize::try_from(config.page_size).unwrap()) {
            let body = json!({ "ids": part, "fields": basic, "errorPolicy": "omit" });
            let url = format!("{base_url}/_apis/wit/workitemsbatch?api-version=7.1");
            let request = http.post(url).basic_auth("", Some("none")).json(&body);
            let mut answer = request.send().await.unwrap();
            while let Some(chunk) = answer.chunk().await.unwrap() {
                bytes += chunk.len();
            }
            requests += 1;
        }
        items += ids.len();
        if ids.is_empty() && last > 0 {
            break;
        }
        last += WINDOW;
    }
    report(start, items, bytes, requests);
}

/// The same for GitHub: page after page from the date of the last row, nothing else read.
async fn bare_github(base_url: String) {
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::builder().no_proxy().gzip(true).user_agent("bare").build().unwrap();
    let start = Instant::now();
    let (mut numbers, mut bytes, mut requests) = (std::collections::HashSet::new(), 0, 0_u64);
    let mut since = "2000-01-01T00:00:00Z".to_owned();
    loop {
        let url = format!(
            "{base_url}/repos/{}/issues?state=all&sort=updated&direction=asc&per_page=100&since={since}",
            github::REPOSITORY
        );
        let body = http.get(url).send().await.unwrap().bytes().await.unwrap();
        requests += 1;
        bytes += body.len();
        let text = std::str::from_utf8(&body).unwrap();
        // The least that shows where to go on, by searching and not by decoding.
        let of = |name: &'static str| {
            text.split(name).skip(1).map(|rest| &rest[..rest.find('"').unwrap_or(0)])
        };
        let pages = of("\"html_url\":\"https://github.com/parcel/tracking/issues/");
        numbers.extend(pages.filter_map(|page| page.parse::<i64>().ok()));
        let dates: Vec<&str> = of("\"updated_at\":\"").collect();
        let last = dates.iter().max().copied().unwrap_or_default();
        if dates.len() < 100 || last == since {
            break;
        }
        since = last.to_owned();
    }
    report(start, numbers.len(), bytes, requests);
}

/// The fields our client asks for.
fn heartbeat_fields(config: &settings::Source) -> Vec<String> {
    let basic = [
        "System.Id",
        "System.Title",
        "System.WorkItemType",
        "System.State",
        "System.ChangedDate",
        "System.CreatedDate",
        "System.TeamProject",
        "System.AreaPath",
        "System.IterationPath",
        "System.AssignedTo",
        "System.Tags",
        "System.Parent",
        "Microsoft.VSTS.Common.Priority",
        "Microsoft.VSTS.Common.Severity",
        "System.RelatedLinkCount",
        "System.ExternalLinkCount",
        "System.HyperLinkCount",
        "System.AttachedFileCount",
    ];
    basic.iter().map(|&name| name.to_owned()).chain(config.text_fields.iter().cloned()).collect()
}

/// One line for the parent: time, peak memory and counts.
fn report(start: Instant, items: usize, bytes: usize, requests: u64) {
    let elapsed = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let peak = peak.unwrap_or_default() / 1024.0;
    println!(
        "{}",
        json!({ "s": elapsed, "cpu": processor_seconds(), "mib": peak, "items": items,
                "bytes": bytes, "requests": requests })
    );
}

/// Processor time of this process: on a busy machine it says more than the clock.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

struct Server(Child, String);

impl Server {
    fn start(items: usize, packing: &str) -> Self {
        let mut child =
            this(&["serve", &items.to_string(), packing]).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        Self(child, address.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().expect("our own child");
        self.0.wait().expect("our own child");
    }
}

fn this(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments);
    command
}

/// The fastest of several rounds of the loop and of the client, in turns.
fn best(server: &Server, packing: &str) -> (Value, Value) {
    let round = |kind: &str| {
        let output = this(&[kind, &server.1, packing]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (bare, client): (Vec<_>, Vec<_>) =
        (0..ROUNDS).map(|_| (round("bare"), round("client"))).unzip();
    let fastest = |rounds: Vec<Value>| {
        let by_time = |a: &Value, b: &Value| seconds(a).partial_cmp(&seconds(b)).unwrap();
        rounds.into_iter().min_by(by_time).unwrap()
    };
    (fastest(bare), fastest(client))
}

fn seconds(report: &Value) -> f64 {
    report["s"].as_f64().unwrap()
}

fn compare(arguments: &[String]) {
    let sizes: Vec<usize> = arguments.iter().filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![1_000, 5_000, 20_000, 50_000] } else { sizes };
    println!(
        "  items answers   bare s  client s  ratio  µs/item   bare cpu s  client cpu s   bare MiB  \
         client MiB  requests"
    );
    let other = [GITHUB, JIRA].into_iter().find(|kind| arguments.iter().any(|one| one == kind));
    let packing = other.unwrap_or("packed");
    let times: Vec<(usize, f64)> = sizes.iter().map(|&size| (size, line(size, packing))).collect();
    if other.is_none() {
        line(20_000, "plain");
    }
    if times.len() > 1 {
        println!("time grows with the number of items to the power of {:.2}", exponent(&times));
    }
}

/// Measures one size and prints its line; the client's time.
fn line(size: usize, packing: &str) -> f64 {
    let server = Server::start(size, packing);
    let (bare, client) = best(&server, packing);
    assert_eq!(bare["items"], size, "the loop reads everything");
    assert_eq!(client["items"], size, "and so does the client");
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap();
    let (bare_s, client_s) = (seconds(&bare), seconds(&client));
    println!(
        "{size:>7} {packing:>7} {bare_s:>8.3} {client_s:>9.3} {:>6.2} {:>8.1} {:>12.2} {:>13.2} \
         {:>10.1} {:>11.1} {:>9}",
        client_s / bare_s,
        client_s * 1e6 / size as f64,
        number(&bare, "cpu"),
        number(&client, "cpu"),
        number(&bare, "mib"),
        number(&client, "mib"),
        client["requests"],
    );
    client_s
}

/// The slope of a straight line through the logarithms: 1 is growth in proportion.
fn exponent(times: &[(usize, f64)]) -> f64 {
    let points: Vec<(f64, f64)> =
        times.iter().map(|&(items, time)| ((items as f64).ln(), time.ln())).collect();
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / spread
}
