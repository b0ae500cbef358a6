//! A server over a separate state, and a client that sends exact bytes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use heartbeat::clock::Clock;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{BoxFuture, ItemKey, Opinion, RunId, SessionId};
use heartbeat::report::digest::Scope;
use heartbeat::settings::{Config, ReportFormat};
use heartbeat::store::{Journal, Store};
use heartbeat::web::token::TokenFile;
use heartbeat::web::{ActionError, Actions, Server, ServerOptions, Token, bind};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Records what it was asked to do.
#[derive(Debug, Default)]
pub struct Hands(pub Mutex<Vec<String>>);

impl Hands {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

impl Actions for Hands {
    fn stop_session(&self, session: SessionId) -> BoxFuture<'_, Result<(), ActionError>> {
        self.note(format!("stop {session}"));
        Box::pin(async { Err(ActionError::NotFound("not alive".into())) })
    }

    fn retry_item(&self, item: ItemKey) -> BoxFuture<'_, Result<(), ActionError>> {
        self.note(format!("retry {item}"));
        Box::pin(async { Ok(()) })
    }

    fn retry_items(&self, items: Vec<ItemKey>) -> BoxFuture<'_, Result<u32, ActionError>> {
        let names: Vec<_> = items.iter().map(ToString::to_string).collect();
        self.note(format!("retry {}", names.join(" ")));
        Box::pin(async move { Ok(u32::try_from(items.len()).unwrap()) })
    }

    fn pause(&self, note: String) -> BoxFuture<'_, Result<(), ActionError>> {
        self.note(format!("pause {note}"));
        Box::pin(async { Ok(()) })
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), ActionError>> {
        self.note("resume".into());
        Box::pin(async { Ok(()) })
    }

    fn report(
        &self,
        scope: Scope,
        format: ReportFormat,
    ) -> BoxFuture<'_, Result<String, ActionError>> {
        self.note(format!("report {scope:?} {format:?}"));
        Box::pin(async { Ok("the report".into()) })
    }

    fn brief(&self, session: SessionId) -> BoxFuture<'_, Result<String, ActionError>> {
        self.note(format!("brief {session}"));
        Box::pin(async { Ok("the task".into()) })
    }

    fn give_feedback(
        &self,
        item: ItemKey,
        opinion: Opinion,
        note: String,
    ) -> BoxFuture<'_, Result<(), ActionError>> {
        self.note(format!("feedback {item} {opinion} {note}"));
        Box::pin(async { Ok(()) })
    }

    fn run_now(&self) -> BoxFuture<'_, Result<RunId, ActionError>> {
        self.note("run".into());
        Box::pin(async { Err(ActionError::NotNow("one is going on".into())) })
    }
}

pub struct Served {
    pub folder: tempfile::TempDir,
    pub journal: Journal,
    pub server: Server,
    pub hands: Arc<Hands>,
    pub address: SocketAddr,
    /// The state's token at the start.
    pub token: String,
}

/// Serves a new state on a free loopback port.
pub async fn serve(token: Token) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let journal = Journal::open(Store::open(&state).unwrap(), Clock::system(), None).unwrap();
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    // The machine that runs the tests may be busy.
    config.limits.max_load_per_core = 1e6;
    config.agent.command = vec!["sh".into()];
    let hands = Arc::new(Hands::default());
    let token_file = TokenFile::in_state(&state);
    let own = token_file.read_or_create().unwrap().expose_secret().to_owned();
    let options = ServerOptions {
        store: Store::open_for_reading(&state).unwrap().unwrap(),
        clock: Clock::system(),
        config: Arc::new(config),
        token_file,
        token,
        actions: Arc::clone(&hands) as _,
        can_run: true,
        search_path: "/bin".into(),
        hooks: None,
    };
    let listener = bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let server = Server::start(listener, options).unwrap();
    server.hub().subscribe_to(&journal);
    let address = server.address();
    Served { folder, journal, server, hands, address, token: own }
}

/// The parts of a response that tests check.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Served {
    /// `GET path`, signed in.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    /// One request, signed in, with more header lines, each terminated by CRLF.
    pub async fn ask(&self, method: &str, path: &str, more: &str) -> Answer {
        self.ask_unsigned(method, path, &format!("{}{more}", self.bearer())).await
    }

    /// The header line that signs in.
    pub fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// One request without signing in.
    pub async fn ask_unsigned(&self, method: &str, path: &str, more: &str) -> Answer {
        let host = if more.to_lowercase().contains("host:") { "" } else { "Host: localhost\r\n" };
        let request = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{more}\r\n");
        let answer = self.exchange(request.as_bytes(), false).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.into(), body: body.into() }
    }

    /// The response to these bytes, after which nothing more is sent.
    pub async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        self.exchange(bytes, true).await
    }

    async fn exchange(&self, bytes: &[u8], and_no_more: bool) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may refuse before it has read everything.
        stream.write_all(bytes).await.ok();
        if and_no_more {
            stream.shutdown().await.ok();
        }
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok();
        answer
    }

    /// Opens the event stream.
    pub async fn listen(&self, query: &str, more: &str) -> Stream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let bearer = self.bearer();
        let request =
            format!("GET /events{query} HTTP/1.1\r\nHost: localhost\r\n{bearer}{more}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Stream { stream, raw: Vec::new(), has_head: false, text: String::new() }
    }
}

/// An open event stream.
pub struct Stream {
    pub stream: TcpStream,
    raw: Vec<u8>,
    has_head: bool,
    pub text: String,
}

impl Stream {
    /// Reads until the text satisfies `enough`; the test runner's time limit ends a futile wait.
    pub async fn until(&mut self, enough: impl Fn(&str) -> bool) -> &str {
        while !enough(&self.text) {
            let read = self.stream.read_buf(&mut self.raw).await.unwrap();
            assert!(read > 0, "the stream ended: {}", self.text);
            self.decode();
        }
        &self.text
    }

    /// Takes complete chunks out of the received bytes: a chunk may end in the middle of a line.
    fn decode(&mut self) {
        if !self.has_head {
            let Some(end) = self.raw.windows(4).position(|four| four == b"\r\n\r\n") else {
                return;
            };
            self.raw.drain(..end + 4);
            self.has_head = true;
        }
        while let Some(end) = self.raw.windows(2).position(|two| two == b"\r\n") {
            let size = String::from_utf8_lossy(&self.raw[..end]).into_owned();
            let size = usize::from_str_radix(&size, 16).unwrap();
            let (begin, after) = (end + 2, end + 2 + size + 2);
            if self.raw.len() < after {
                return;
            }
            self.text.push_str(std::str::from_utf8(&self.raw[begin..after - 2]).unwrap());
            self.raw.drain(..after);
        }
    }

    /// Numbers of the events so far.
    pub fn ids(&self) -> Vec<i64> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("id: ")?.trim().parse().ok())
            .collect()
    }
}
