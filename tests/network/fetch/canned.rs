//! A server that sends given bytes: for responses no sane tracker gives.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A received request.
#[derive(Debug, Clone)]
pub struct Request {
    pub head: String,
    pub body: String,
}

impl Request {
    pub fn is(&self, part: &str) -> bool {
        self.head.lines().next().unwrap().contains(part)
    }
}

/// Returns the response to a request.
pub type Answer = Arc<dyn Fn(&Request) -> Vec<u8> + Send + Sync>;

pub struct Canned {
    pub base_url: String,
    pub requests: Arc<Mutex<Vec<Request>>>,
    /// Maximum number of concurrent requests.
    pub most_at_once: Arc<Mutex<(u32, u32)>>,
    hangs_up: Arc<AtomicBool>,
}

impl Canned {
    /// From now on the connection is closed after each response.
    pub fn hang_up(&self) {
        self.hangs_up.store(true, Ordering::SeqCst);
    }

    pub async fn start(answer: Answer) -> Self {
        Self::start_with(answer, None).await
    }

    /// The same, behind TLS.
    pub async fn start_with(answer: Answer, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let base_url = format!("{scheme}://{}/org", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let most_at_once: Arc<Mutex<(u32, u32)>> = Arc::default();
        let hangs_up: Arc<AtomicBool> = Arc::default();
        let told = Told {
            answer,
            log: Arc::clone(&requests),
            count: Arc::clone(&most_at_once),
            hangs_up: Arc::clone(&hangs_up),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let told = told.clone();
                match tls.clone() {
                    None => drop(tokio::spawn(serve(stream, told))),
                    Some(tls) => drop(tokio::spawn(async move {
                        // A client that does not trust us disconnects.
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, told).await;
                        }
                    })),
                }
            }
        });
        Self { base_url, requests, most_at_once, hangs_up }
    }
}

/// Shared by the connections of one server.
#[derive(Clone)]
struct Told {
    answer: Answer,
    log: Arc<Mutex<Vec<Request>>>,
    count: Arc<Mutex<(u32, u32)>>,
    hangs_up: Arc<AtomicBool>,
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, told: Told) {
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await {
        told.log.lock().unwrap().push(request.clone());
        {
            let mut count = told.count.lock().unwrap();
            count.0 += 1;
            count.1 = count.1.max(count.0);
        }
        // Two concurrent requests would meet here.
        tokio::task::yield_now().await;
        let bytes = (told.answer)(&request);
        told.count.lock().unwrap().0 -= 1;
        if stream.write_all(&bytes).await.is_err() || told.hangs_up.load(Ordering::SeqCst) {
            return;
        }
    }
}

async fn read_request<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<Request> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase().strip_prefix("content-length:").map(str::to_owned)
                })
                .and_then(|length| length.trim().parse::<usize>().ok())
                .unwrap_or(0);
            if buffer.len() >= end + 4 + length {
                let body = String::from_utf8_lossy(&buffer[end + 4..end + 4 + length]).into_owned();
                buffer.drain(..end + 4 + length);
                return Some(Request { head, body });
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// 200 with JSON.
pub fn json(body: &str) -> Vec<u8> {
    with_headers("200 OK", "content-type: application/json; charset=utf-8\r\n", body.as_bytes())
}

pub fn with_headers(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len())
        .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Compresses `data`.
pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}
