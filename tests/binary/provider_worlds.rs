//! The ways to the model provider that a machine can lack. `doctor --live` names each; a run finds
//! the same before anything is paid for, and says it in the same words as `status` and `/health`.
//! Nothing is booked, and no item is blamed.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use support::certificates::{Authority, Certificate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const BINARY: &str = env!("CARGO_BIN_EXE_heartbeat");
const ITEMS: &str = "{\"id\": 7, \"title\": \"Ledger posts twice\", \"body\": \"It posts twice.\"}\n\
                     {\"id\": 8, \"title\": \"Totals are wrong\", \"body\": \"By one cent.\"}\n";

/// Asks the provider once, as an agent does, and gives up.
const ASKS_ONCE: &str = r#"#!/bin/bash
door=${ANTHROPIC_BASE_URL#http://}
exec 3<>"/dev/tcp/${door%:*}/${door#*:}" || exit 1
body='{"model":"haiku","max_tokens":1,"messages":[]}'
printf 'POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s' "$ANTHROPIC_API_KEY" ${#body} "$body" >&3
cat <&3 >/dev/null
exit 1
"#;

struct Machine {
    folder: tempfile::TempDir,
    env: Vec<(&'static str, String)>,
    /// In a network namespace without any interface but loopback, which is down.
    cut_off: bool,
}

impl Machine {
    fn new(provider: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("code")).unwrap();
        std::fs::write(path("code/ledger.rs"), "pub fn post() {}\n").unwrap();
        std::fs::write(path("items.jsonl"), ITEMS).unwrap();
        let machine = Self { folder, env: Vec::new(), cut_off: false };
        machine.configure(&[BINARY, "simulate", "agent"]);
        machine.with("ANTHROPIC_BASE_URL", provider.to_owned())
    }

    fn configure(&self, agent: &[&str]) {
        let config = format!(
            "[source]\nname = \"export\"\nkind = \"file\"\npath = \"items.jsonl\"\n\
             [repository]\npath = \"code\"\n[schedule]\nfirst_run = \"process\"\n\
             [agent]\ncommand = {agent:?}\nread_paths = [{BINARY:?}, {:?}]\n\
             pass_env = [\"ANTHROPIC_BASE_URL\", \"NODE_EXTRA_CA_CERTS\"]\n\
             [limits]\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n\
             min_free_memory = \"1 MiB\"\n",
            self.folder.path()
        );
        std::fs::write(self.folder.path().join("heartbeat.toml"), config).unwrap();
    }

    fn with(mut self, name: &'static str, value: String) -> Self {
        self.env.push((name, value));
        self
    }

    /// Makes the agent a script that really asks.
    fn asking(self) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder.path().join("agent");
        std::fs::write(&path, ASKS_ONCE).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.configure(&[path.to_str().unwrap()]);
        self
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    async fn heartbeat(&self, arguments: &[&str]) -> Output {
        let mut command = match self.cut_off {
            true => Command::new("unshare"),
            false => Command::new(BINARY),
        };
        if self.cut_off {
            command.args(["--net", "--", BINARY]);
        }
        command
            .args(arguments)
            .arg("--state-dir")
            .arg(self.state())
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("ANTHROPIC_API_KEY", "sk-ant-of-the-agent")
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }

    async fn json(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        let output = self.heartbeat(arguments).await;
        let said = serde_json::from_slice(&output.stdout);
        (output.status.code(), said.unwrap_or_else(|error| panic!("{error}: {output:?}")))
    }

    /// What `doctor --live` says about the provider: cause and fix.
    async fn diagnosis(&self) -> (String, String) {
        let (_, said) = self.json(&["doctor", "--live", "--json"]).await;
        let checks = said["checks"].as_array().unwrap();
        let provider = checks.iter().find(|check| check["name"] == "provider").unwrap();
        assert_eq!(provider["status"], "failed", "{provider:#}");
        let text = |key: &str| provider[key].as_str().unwrap().to_owned();
        (text("found"), text("fix"))
    }

    fn figure(&self, sql: &str) -> i64 {
        let database = rusqlite::Connection::open(self.state().join("heartbeat.db")).unwrap();
        database.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn assert_nobody_paid(&self) {
        assert_eq!(self.figure("SELECT coalesce(sum(spent), 0) FROM budget"), 0, "booked");
        assert_eq!(self.figure("SELECT count(*) FROM budget WHERE spent IS NULL"), 0, "reserved");
        let blamed = "SELECT sum(attempts + triage_failures) FROM heartbeat_state";
        assert_eq!(self.figure(blamed), 0, "blamed");
        assert_eq!(self.figure("SELECT count(*) FROM heartbeat_state WHERE phase = 'pending'"), 2);
    }

    /// `doctor --live`, a run and `status` name the cause in the same words, and nothing starts.
    async fn assert_no_way(&self, cause: &str, advice: &str) {
        let (found, fix) = self.diagnosis().await;
        assert!(found.contains(cause), "{cause:?} is not in {found:?}");
        assert!(fix.contains(advice), "{advice:?} is not in {fix:?}");
        let (code, report) = self.json(&["--once", "--json"]).await;
        assert_eq!(code, Some(75), "{report:#}");
        let same = format!("{found}; {fix}");
        let error = report["error"].as_str().unwrap_or_else(|| panic!("{report:#}"));
        assert!(error.contains(&same), "{same:?} is not in {error:?}");
        let (_, status) = self.json(&["status", "--json"]).await;
        assert_eq!(status["providers"][0]["reason"], same, "{status:#}");
        assert_eq!(status["health"]["status"], "blocked", "{status:#}");
        assert_eq!(status["health"]["reasons"][0]["code"], "provider_down");
        self.assert_nobody_paid();
        assert_eq!(self.figure("SELECT count(*) FROM sessions"), 0, "nothing was started");
    }
}

/// Whether this machine lets us make network namespaces.
#[expect(clippy::print_stdout, reason = "the runner of the tests lists what was skipped")]
fn can_cut_off() -> bool {
    let tried = Command::new("unshare").args(["--net", "--", "true"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        println!("SKIPPED: a machine without network needs root and `unshare`");
    }
    can
}

/// Answers every connection with these bytes, once it was asked something.
async fn answering(answer: String, tls: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answer, tls) = (answer.clone(), tls.clone());
            // Whoever does not trust the certificate hangs up.
            tokio::spawn(async move { serve(stream, &answer, tls).await.ok() });
        }
    });
    port
}

async fn serve(stream: TcpStream, answer: &str, tls: Option<TlsAcceptor>) -> std::io::Result<()> {
    async fn reply(
        mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin,
        answer: &str,
    ) -> std::io::Result<()> {
        let mut asked = vec![0; 1 << 16];
        let _read = stream.read(&mut asked).await?;
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    }
    match tls {
        Some(tls) => reply(tls.accept(stream).await?, answer).await,
        None => reply(stream, answer).await,
    }
}

fn refusal(status: &str, kind: &str, message: &str) -> String {
    let body = format!(
        "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\"}}}}"
    );
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn acceptor(certificate: &Certificate) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_file(&certificate.file).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_a_route() {
    if can_cut_off() {
        let machine = Machine::new("http://10.9.8.7");
        Machine { cut_off: true, ..machine }.assert_no_way("unreachable", "network").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_names_are_not_resolved() {
    if can_cut_off() {
        let machine = Machine::new("https://api.example.com");
        Machine { cut_off: true, ..machine }.assert_no_way("lookup", "DNS").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_refuses() {
    let port = answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".into(), None).await;
    let machine = Machine::new("https://api.example.com");
    let machine = machine.with("HTTPS_PROXY", format!("http://127.0.0.1:{port}"));
    machine.assert_no_way("the proxy lets nothing through", "HTTPS_PROXY").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let Some(authority) = Authority::new(folder.path()) else { return };
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}".to_owned();
    let expired = acceptor(&authority.issue("localhost", "20200601"));
    let port = answering(ok.clone(), Some(expired)).await;
    let trusting = |port| {
        let machine = Machine::new(&format!("https://localhost:{port}"));
        machine.with("NODE_EXTRA_CA_CERTS", authority.file().display().to_string())
    };
    trusting(port).assert_no_way("expired", "clock").await;
    // The same with a certificate that is valid: only its date was wrong.
    let valid = acceptor(&authority.issue("localhost", "20991231"));
    let machine = trusting(answering(ok, Some(valid)).await);
    let (code, report) = machine.json(&["--once", "--json"]).await;
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let machine = Machine::new(&format!("http://127.0.0.1:{port}"));
    machine.assert_no_way("refused", "check the network").await;
}

/// These answer, so only a session knows whether they serve models; it costs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_overloaded_or_wants_money_is_quoted() {
    let overloaded = refusal("529 Overloaded", "overloaded_error", "Overloaded");
    let broke = refusal(
        "400 Bad Request",
        "invalid_request_error",
        "Your credit balance is too low to access the API.",
    );
    for (answer, words, advice) in [
        (overloaded, "overloaded_error: Overloaded", "wait"),
        (broke, "credit balance", "add credit"),
    ] {
        let port = answering(answer, None).await;
        let machine = Machine::new(&format!("http://127.0.0.1:{port}")).asking();
        let (found, fix) = machine.diagnosis().await;
        assert!(found.contains(words) && fix.contains(advice), "{found} / {fix}");
        // An overload may pass: three sessions say that it does not.
        for _ in 0..3 {
            let (code, report) = machine.json(&["--once", "--json"]).await;
            assert_eq!(code, Some(75), "{report:#}");
            machine.assert_nobody_paid();
        }
        let (_, status) = machine.json(&["status", "--json"]).await;
        let reason = status["providers"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{words:?} is not in {status:#}");
        assert_eq!(status["health"]["status"], "blocked", "{:#}", status["health"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_base_without_files_is_named_before_anything_is_paid_for() {
    let machine = Machine::new(&support::messages_api::reachable());
    std::fs::remove_file(machine.folder.path().join("code/ledger.rs")).unwrap();
    let (_, said) = machine.json(&["doctor", "--json"]).await;
    let checks = said["checks"].as_array().unwrap();
    let repository = checks.iter().find(|check| check["name"] == "repository").unwrap();
    let found = repository["found"].as_str().unwrap();
    assert!(repository["status"] == "failed" && found.contains("has no files"), "{repository:#}");
    let (code, report) = machine.json(&["--once", "--json"]).await;
    assert_eq!(code, Some(78), "{report:#}");
    assert!(report["error"].as_str().unwrap().contains(found), "{report:#}");
    machine.assert_nobody_paid();
    assert_eq!(machine.figure("SELECT count(*) FROM sessions"), 0);
}
