//! A proxy to the tracker, from the environment. Uses the real binary, since the environment of a
//! process is read when its client is built.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use heartbeat::simulate::ado::{Simulator, SimulatorOptions};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::canned::{Canned, json};
use super::tls;

/// A proxy that leads every connection to the same target, whatever name was requested.
struct Proxy {
    address: String,
    /// The first line and the headers of each connection, as the proxy saw them.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, target) = (Arc::clone(&log), target.clone());
                // Either side may disconnect first.
                tokio::spawn(async move { pass_on(stream, &target, &log).await.ok() });
            }
        });
        Self { address, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

async fn pass_on(stream: TcpStream, target: &str, log: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut client = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    log.lock().unwrap().push(head.clone());
    let mut server = TcpStream::connect(target).await?;
    if head.starts_with("CONNECT ") {
        client.get_mut().write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n").await?;
    } else {
        server.write_all(head.as_bytes()).await?;
    }
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Makes a dry run with this address and environment.
async fn dry_run(base_url: &str, settings: &str, environment: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("code")).unwrap();
    let config = format!(
        "[source]\nbase_url = \"{base_url}\"\nproject = \"Parcel\"\n{settings}\n\
         [repository]\npath = \"code\"\n"
    );
    std::fs::write(folder.path().join("heartbeat.toml"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_heartbeat"));
    command.env_clear().current_dir(folder.path());
    command.env("HOME", folder.path()).env("AZURE_DEVOPS_PAT", "right");
    command.envs(environment.iter().copied());
    command.args(["--dry-run", "--state-dir"]).arg(folder.path().join("state"));
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn told(output: &Output) -> String {
    let all = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8_lossy(&all).into_owned()
}

async fn simulator() -> Simulator {
    Simulator::start(SimulatorOptions::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_requests_go_to_the_proxy_with_their_whole_address() {
    let simulator = simulator().await;
    let proxy = Proxy::to(simulator.address().to_string()).await;
    let environment = [("HTTP_PROXY", proxy.address.as_str())];
    let output = dry_run("http://tracker.example/contoso", "", &environment).await;
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(simulator.requests_of("wiql"), 1, "{}", told(&output));
    let asked = "POST http://tracker.example/contoso/Parcel/_apis/wit/wiql?";
    assert!(proxy.seen()[0].starts_with(asked), "{:?}", proxy.seen());
}

#[tokio::test(flavor = "multi_thread")]
async fn secure_requests_go_through_a_tunnel_in_which_the_proxy_sees_no_credential() {
    let rows = r#"{"asOf":"2026-11-16T12:00:00Z","workItems":[]}"#;
    let canned = Canned::start_with(Arc::new(move |_| json(rows)), Some(tls::acceptor())).await;
    let target = canned.base_url.trim_start_matches("https://").trim_end_matches("/org").to_owned();
    let proxy = Proxy::to(target).await;
    let authority = format!("ca_file = \"{}\"", tls::file("authority.pem").display());
    let environment = [("HTTPS_PROXY", proxy.address.as_str())];
    let output = dry_run("https://tracker.example/org", &authority, &environment).await;
    assert!(output.status.success(), "{}", told(&output));
    let seen = proxy.seen();
    assert!(seen[0].starts_with("CONNECT tracker.example:443 "), "{seen:?}");
    assert!(!seen.concat().to_lowercase().contains("\r\nauthorization:"), "{seen:?}");
    let inside = canned.requests.lock().unwrap();
    assert!(inside[0].is("POST /org/Parcel/_apis/wit/wiql?"), "{}", inside[0].head);
    assert!(inside[0].head.to_lowercase().contains("\r\nauthorization: basic "));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_proxy_names_and_our_own_machine_are_asked_directly() {
    let simulator = simulator().await;
    let proxy = Proxy::to(simulator.address().to_string()).await;
    // An address of this machine that does not look like one.
    let here = simulator.base_url().replace("127.0.0.1", "0.0.0.0");
    let through = [("HTTP_PROXY", proxy.address.as_str())];
    let output = dry_run(&here, "", &through).await;
    assert!(output.status.success(), "{}", told(&output));
    assert!(!proxy.seen().is_empty(), "without an exception it goes through the proxy");
    proxy.seen.lock().unwrap().clear();
    let around = [("HTTP_PROXY", proxy.address.as_str()), ("NO_PROXY", "other.example,0.0.0.0")];
    for (base_url, environment) in [(&here, &around[..]), (&simulator.base_url(), &through[..])] {
        let output = dry_run(base_url, "", environment).await;
        assert!(output.status.success(), "{}", told(&output));
        assert!(proxy.seen().is_empty(), "{base_url}: {:?}", proxy.seen());
    }
    assert_eq!(simulator.requests_of("wiql"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_wants_a_credential_is_distinguished_from_a_tracker_that_does() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 << 10];
            let answer = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic \
                          realm=\"corp\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                // A client that has disconnected already has its response.
                stream.write_all(answer.as_bytes()).await.ok();
            }
        }
    });
    for (base_url, name) in [
        ("http://tracker.example/contoso", "HTTP_PROXY"),
        ("https://tracker.example/contoso", "HTTPS_PROXY"),
    ] {
        let output = dry_run(base_url, "", &[(name, address.as_str())]).await;
        assert_eq!(output.status.code(), Some(78), "{}", told(&output));
        assert!(told(&output).contains("proxy"), "{}", told(&output));
        assert!(told(&output).contains("HTTPS_PROXY"), "{}", told(&output));
    }
}
