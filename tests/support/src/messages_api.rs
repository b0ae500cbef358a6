//! A Messages API on loopback for the real agent CLI: scripted replies and every fault of a
//! provider or the network in between.
//!
//! Plain sockets and threads, so that a fault is exactly the bytes that were sent. Nothing here
//! sleeps: a hanging reply waits until the peer disconnects.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::connection::Connection;

/// A received call.
#[derive(Debug, Clone)]
pub struct Request {
    /// Counted from 0.
    pub number: usize,
    /// Names the protocol.
    pub path: String,
    /// Query string.
    pub query: String,
    pub body: Value,
    /// Length of the body.
    pub bytes: usize,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Names of the offered tools.
    pub fn tools<'a>(&'a self) -> Vec<&'a str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let name = |tool: &'a Value| tool["name"].as_str().or(tool["function"]["name"].as_str());
        tools.iter().filter_map(name).collect()
    }

    /// Texts of the user's messages, in order.
    pub fn user_texts(&self) -> Vec<&str> {
        let list = |key: &str| self.body[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut texts = Vec::new();
        // The Responses API calls them input.
        let messages = list("messages").iter().chain(list("input"));
        for message in messages.filter(|message| message["role"] == "user") {
            match &message["content"] {
                Value::String(text) => texts.push(text.as_str()),
                Value::Array(blocks) => {
                    texts.extend(blocks.iter().filter_map(|block| block["text"].as_str()));
                }
                _ => {}
            }
        }
        texts
    }
}

/// The ids in a triage prompt.
pub fn asked_about(request: &Request) -> Vec<i64> {
    let prompt = request.user_texts().concat();
    let parts = prompt.split(" item=\"").skip(1);
    parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
}

/// Triage has no tool that reads files.
pub fn is_triage(request: &Request) -> bool {
    !request.tools().iter().any(|name| ["Read", "exec_command", "view"].contains(name))
}

#[derive(Debug, Clone)]
pub enum Reply {
    /// Text, and the end of the turn.
    Text(String),
    /// Text with another stop reason, such as `refusal` or `max_tokens`.
    Stopped { text: String, reason: &'static str },
    /// Tool calls.
    Tools(Vec<(&'static str, Value)>),
    /// The same with usage: input and output tokens.
    Billed(Box<Reply>, u64, u64),
    /// An HTTP error.
    Status {
        /// Such as 429.
        status: u16,
        message: &'static str,
        /// Additional headers.
        headers: Vec<(&'static str, String)>,
    },
    /// A reply that is not valid.
    Fault(Fault),
}

impl Reply {
    /// The structured answer.
    pub fn structured(answer: Value) -> Self {
        Self::Tools(vec![("StructuredOutput", answer)])
    }

    /// An HTTP error without additional headers.
    pub fn status(status: u16, message: &'static str) -> Self {
        Self::Status { status, message, headers: Vec::new() }
    }

    pub(crate) fn content(&self) -> (Vec<Value>, &'static str) {
        let text = |text: &str| vec![json!({ "type": "text", "text": text })];
        match self {
            Self::Text(words) => (text(words), "end_turn"),
            Self::Stopped { text: words, reason } => (text(words), reason),
            Self::Billed(reply, ..) => reply.content(),
            Self::Tools(calls) => {
                let block = |(index, (name, input)): (usize, &(&str, Value))| {
                    let id = format!("toolu_{index:022}");
                    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
                };
                (calls.iter().enumerate().map(block).collect(), "tool_use")
            }
            Self::Status { .. } | Self::Fault(_) => (Vec::new(), "end_turn"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Accepted, without any response.
    Hang,
    /// Only headers.
    HangAfterHeaders,
    /// The stream begins and becomes silent.
    SilentMidStream,
    /// The stream begins and only pings follow.
    PingsMidStream,
    /// The connection is lost during the stream.
    DropMidStream,
    /// The connection is lost before the first byte.
    DropEarly,
    /// Events that are not JSON.
    Malformed,
    /// A web page.
    Html,
    /// The stream ends correctly, but too early.
    Truncated,
    /// An error event inside the stream.
    ErrorEvent,
}

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

struct Shared {
    script: Box<Script>,
    requests: Mutex<Vec<Request>>,
    arrived: Condvar,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    stopped: AtomicBool,
}

/// The server; stops on drop.
pub struct MessagesApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl MessagesApi {
    /// Serves on a free loopback port; `script` answers every call.
    pub fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            requests: Mutex::new(Vec::new()),
            arrived: Condvar::new(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let shared = Arc::clone(&accepting);
                // Many tests disconnect in the middle.
                std::thread::spawn(move || serve(&shared, stream).ok());
            }
        });
        Self { address, shared }
    }

    /// Its address, as configured for the agent.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("no thread panics with it").clone()
    }

    /// Waits for this many calls; false if they do not arrive within half a minute.
    pub fn wait_for(&self, calls: usize) -> bool {
        let requests = self.shared.requests.lock().expect("no thread panics with it");
        let patience = Duration::from_secs(30);
        let waited = self
            .shared
            .arrived
            .wait_timeout_while(requests, patience, |requests| requests.len() < calls);
        waited.is_ok_and(|(requests, _)| requests.len() >= calls)
    }

    /// Maximum number of concurrent calls.
    pub fn most_in_flight(&self) -> usize {
        self.shared.most_in_flight.load(Ordering::SeqCst)
    }
}

/// The address of a provider that answers and serves nothing, for agents that are simulated: a run
/// asks whether its provider can be reached.
pub fn reachable() -> String {
    static API: std::sync::OnceLock<MessagesApi> = std::sync::OnceLock::new();
    let refuse = |_: &Request| Reply::Text("a simulated agent asks nobody".to_owned());
    API.get_or_init(|| MessagesApi::start(refuse)).url()
}

impl Drop for MessagesApi {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, if it still runs.
        TcpStream::connect(self.address).ok();
    }
}

fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some((line, headers)) = head(&mut reader)? else { return Ok(()) };
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut connection = Connection { stream, stopped: &shared.stopped };
    let path = line.split(' ').nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    if path.ends_with("/count_tokens") {
        return connection.json(200, &[], &json!({ "input_tokens": length / 4 }));
    }
    let known = ["/v1/messages", "/responses", "/chat/completions"];
    if !line.starts_with("POST") || !known.iter().any(|known| path.ends_with(known)) {
        return connection.json(404, &[], &error("not_found_error", "no such page"));
    }
    let request = {
        let mut requests = shared.requests.lock().expect("no thread panics with it");
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (number, path, query) = (requests.len(), path.to_owned(), query.to_owned());
        let request = Request { number, path, query, body, bytes: length, headers };
        requests.push(request.clone());
        request
    };
    let open = shared.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most_in_flight.fetch_max(open, Ordering::SeqCst);
    shared.arrived.notify_all();
    let answered = connection.answer(&request, &(shared.script)(&request));
    shared.in_flight.fetch_sub(1, Ordering::SeqCst);
    answered
}

type Head = (String, Vec<(String, String)>);

fn head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            return Ok(Some((line.trim_end().to_owned(), headers)));
        }
        if let Some((name, value)) = header.split_once(':') {
            headers.push((name.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn error_kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

impl Connection<'_> {
    fn answer(&mut self, request: &Request, reply: &Reply) -> io::Result<()> {
        match reply {
            Reply::Status { status, message, headers } => {
                self.json(*status, headers, &error(error_kind(*status), message))
            }
            reply if !request.path.ends_with("/v1/messages") => self.answer_openai(request, reply),
            Reply::Fault(fault) => self.fault(request, *fault),
            reply => {
                let (content, stop) = reply.content();
                let (input, output) = match reply {
                    Reply::Billed(_, input, output) => (*input, *output),
                    _ => {
                        (request.bytes as u64 / 4, json!(content).to_string().len() as u64 / 4 + 1)
                    }
                };
                let mut message = message(request, input);
                if request.body["stream"] == true {
                    self.stream_of(&message, &content, stop, output)
                } else {
                    message["content"] = json!(content);
                    message["stop_reason"] = json!(stop);
                    message["usage"]["output_tokens"] = json!(output);
                    self.json(200, &[], &message)
                }
            }
        }
    }

    fn stream_of(
        &mut self,
        message: &Value,
        content: &[Value],
        stop: &str,
        output: u64,
    ) -> io::Result<()> {
        self.headers(200, "text/event-stream", &[], None)?;
        self.event(&json!({ "type": "message_start", "message": message }))?;
        self.event(&json!({ "type": "ping" }))?;
        for (index, block) in content.iter().enumerate() {
            let (empty, kind, key, payload) = match block["text"].as_str() {
                Some(text) => {
                    (json!({ "type": "text", "text": "" }), "text_delta", "text", text.to_owned())
                }
                None => {
                    let mut empty = block.clone();
                    empty["input"] = json!({});
                    (empty, "input_json_delta", "partial_json", block["input"].to_string())
                }
            };
            self.event(
                &json!({ "type": "content_block_start", "index": index, "content_block": empty }),
            )?;
            let characters: Vec<char> = payload.chars().collect();
            for piece in characters.chunks(characters.len().div_ceil(4).max(1)) {
                let mut delta = json!({ "type": kind });
                delta[key] = json!(piece.iter().collect::<String>());
                self.event(
                    &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
                )?;
            }
            self.event(&json!({ "type": "content_block_stop", "index": index }))?;
        }
        let delta = json!({ "stop_reason": stop, "stop_sequence": null });
        let usage = json!({ "output_tokens": output });
        self.event(&json!({ "type": "message_delta", "delta": delta, "usage": usage }))?;
        self.event(&json!({ "type": "message_stop" }))?;
        self.chunk(b"")
    }

    fn fault(&mut self, request: &Request, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Hang => return self.hang(false),
            Fault::DropEarly => return Ok(()),
            Fault::Html => {
                let page = b"<html><body>Please log in to the network</body></html>";
                self.headers(200, "text/html", &[], Some(page.len()))?;
                return self.stream.write_all(page);
            }
            _ => self.headers(200, "text/event-stream", &[], None)?,
        }
        match fault {
            Fault::HangAfterHeaders => return self.hang(false),
            Fault::Malformed => {
                self.chunk(b"event: message_start\ndata: {not json\n\n")?;
                return self.chunk(b"");
            }
            _ => {
                self.event(&json!({ "type": "message_start", "message": message(request, 10) }))?;
            }
        }
        if fault == Fault::ErrorEvent {
            self.event(&error("overloaded_error", "Overloaded"))?;
            return self.chunk(b"");
        }
        let empty = json!({ "type": "text", "text": "" });
        self.event(&json!({ "type": "content_block_start", "index": 0, "content_block": empty }))?;
        let delta = json!({ "type": "text_delta", "text": "partial " });
        self.event(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }))?;
        match fault {
            Fault::SilentMidStream => self.hang(false),
            Fault::PingsMidStream => self.hang(true),
            Fault::Truncated => self.chunk(b""),
            // The connection is closed in the middle of a chunked body.
            _ => Ok(()),
        }
    }
}

fn message(request: &Request, input_tokens: u64) -> Value {
    json!({
        "id": format!("msg_{:022}", request.number), "type": "message", "role": "assistant",
        "model": request.model(), "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": input_tokens, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": 1,
        },
    })
}
