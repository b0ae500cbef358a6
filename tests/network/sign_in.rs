//! Sign-in from outside: what is open, what is not, and how long a sign-in lasts.

use std::os::unix::process::CommandExt as _;

use axum::http::Method;
use heartbeat::event::{Event, Sink as _};
use heartbeat::web::guard::OPEN;
use heartbeat::web::token::TokenFile;
use heartbeat::web::{ServerError, bind, surface};
use secrecy::{ExposeSecret as _, SecretString};
use support::web::{Served, serve};

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

/// A path of the table with values for its parameters.
fn example(path: &str) -> String {
    let id = "01a1e341-3fe2-71ee-b391-87cb6ed05b26";
    let path = path.replace("{*key}", "ado/7").replace("{session}", id).replace("{run}", id);
    path.replace("{id}", id).replace("{link}", "x")
}

/// Requests that the table serves, and others.
fn requests() -> Vec<(Method, String)> {
    let all = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS];
    let mut paths: Vec<String> = surface().into_iter().map(|(_, path)| example(path)).collect();
    paths.extend(
        ["/healthz", "/nothing", "/api/", "//health", "/health/../api/state"].map(Into::into),
    );
    paths.iter().flat_map(|path| all.clone().map(|method| (method, path.clone()))).collect()
}

fn is_open(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && OPEN.contains(&path)
}

/// The status line that another user of this machine gets.
fn as_nobody(served: &Served, method: &Method, path: &str) -> String {
    let (host, port) = (served.address.ip(), served.address.port());
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}; \
         printf '{method} {path} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; \
         head -n 1 <&3"
    );
    let mut command = std::process::Command::new("bash");
    let output = command.args(["-c", &script]).uid(NOBODY).gid(NOBODY).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_gets_nothing_but_the_open_paths() {
    let served = serve(None).await;
    let open: Vec<_> = surface().into_iter().filter(|(_, path)| OPEN.contains(path)).collect();
    assert_eq!(open.len(), OPEN.len(), "every open path is served");
    if !nix::unistd::Uid::effective().is_root() {
        println!("SKIPPED: only root can become another user");
        return;
    }
    for (method, path) in requests() {
        let line = as_nobody(&served, &method, &path);
        let expected = if is_open(&method, &path) { "HTTP/1.1 200" } else { "HTTP/1.1 401" };
        assert!(line.starts_with(expected), "{method} {path}: {line}");
    }
    let file = TokenFile::in_state(&served.folder.path().join("state"));
    let mut reader = std::process::Command::new("cat");
    let read = reader.arg(file.path()).uid(NOBODY).gid(NOBODY).output().unwrap();
    assert!(!read.status.success() && read.stdout.is_empty());
    assert!(served.hands.0.lock().unwrap().is_empty(), "an action was done");
}

#[tokio::test]
async fn without_sign_in_only_the_open_paths_answer_and_hold_no_item() {
    let served = serve(None).await;
    for (method, path) in requests() {
        let answer = served.ask_unsigned(method.as_str(), &path, "").await;
        if is_open(&method, &path) {
            assert_eq!(answer.status, 200, "{method} {path}");
            assert!(!answer.body.contains("ado/"), "{path}: {}", answer.body);
        } else {
            assert_eq!(answer.status, 401, "{method} {path}: {answer:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"heartbeat\""));
            assert!(!answer.body.contains(&served.token), "{answer:?}");
        }
    }
    assert!(!served.get("/api/state").await.body.contains(&served.token));
}

#[tokio::test]
async fn a_person_gets_a_page_that_says_what_to_do() {
    let served = serve(None).await;
    let page = served.ask_unsigned("GET", "/", "Accept: text/html,*/*\r\n").await;
    assert_eq!((page.status, page.header("refresh")), (401, None));
    assert!(page.body.contains("<code>heartbeat dashboard</code>"), "{}", page.body);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    let program = served.ask_unsigned("GET", "/api/state", "Accept: application/json\r\n").await;
    assert_eq!(program.json()["error"]["code"], "not_signed_in");
    // From another site the cookie is not sent; from our own page it is.
    let link = "Accept: text/html\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    let from_elsewhere = served.ask_unsigned("GET", "/", link).await;
    assert_eq!((from_elsewhere.status, from_elsewhere.header("refresh")), (401, Some("0")));
}

/// Opens the address with the token and returns the cookie.
async fn sign_in(served: &Served, token: &str) -> Option<String> {
    let answer = served.ask_unsigned("GET", &format!("/?q=cart&token={token}"), "").await;
    if answer.status != 303 {
        assert_eq!((answer.status, answer.header("set-cookie")), (401, None));
        return None;
    }
    assert_eq!(answer.header("location"), Some("/?q=cart"));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    Some(format!("Cookie: {}\r\n", cookie.split(';').next().unwrap()))
}

#[tokio::test]
async fn the_address_with_the_token_signs_a_browser_in_until_the_token_is_rotated() {
    let served = serve(None).await;
    assert_eq!(sign_in(&served, "guess").await, None);
    let cookie = sign_in(&served, &served.token).await.unwrap();
    assert_eq!(served.ask_unsigned("GET", "/api/state", &cookie).await.status, 200);
    let mut stream = served.listen("", "Connection: close\r\n").await;
    stream.until(|text| text.contains("event: state")).await;

    let file = TokenFile::in_state(&served.folder.path().join("state"));
    let rotated = file.rotate().unwrap();
    assert_eq!(served.ask_unsigned("GET", "/api/state", &cookie).await.status, 401);
    assert_eq!(served.get("/api/state").await.status, 401, "nor by the old token");
    let new = sign_in(&served, rotated.expose_secret()).await.unwrap();
    assert_eq!(served.ask_unsigned("GET", "/api/state", &new).await.status, 200);
    // An open stream ends with its sign-in.
    let ended = async {
        loop {
            served.journal.emit(Event::ConfigReloaded);
            let mut buffer = [0; 4096];
            let read = tokio::io::AsyncReadExt::read(&mut stream.stream, &mut buffer);
            let within = tokio::time::timeout(std::time::Duration::from_millis(200), read);
            if within.await.is_ok_and(|read| read.is_ok_and(|bytes| bytes == 0)) {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), ended).await.unwrap();
    std::fs::remove_file(file.path()).unwrap();
    assert_eq!(served.ask_unsigned("GET", "/api/state", &new).await.status, 401);
}

#[tokio::test]
async fn actions_need_post_sign_in_and_our_own_page() {
    let served = serve(None).await;
    let cookie = sign_in(&served, &served.token).await.unwrap();
    let with = format!("{cookie}Content-Length: 0\r\nOrigin: http://localhost\r\n");
    let read = served.ask_unsigned("GET", "/api/run", &cookie).await;
    assert_eq!(read.status, 405);
    for (more, status) in [
        ("Content-Length: 0\r\n".to_owned(), 401),
        ("Content-Length: 0\r\nOrigin: http://localhost\r\n".to_owned(), 401),
        ("Cookie: heartbeat-x=guess\r\nOrigin: http://localhost\r\n".to_owned(), 401),
        (format!("{cookie}Content-Length: 0\r\n"), 403),
        (format!("{cookie}Origin: https://evil.example\r\n"), 403),
        (format!("{with}Sec-Fetch-Site: cross-site\r\n"), 403),
        (format!("{with}Host: evil.example\r\n"), 421),
    ] {
        let answer = served.ask_unsigned("POST", "/api/run", &more).await;
        assert_eq!(answer.status, status, "{more}");
    }
    assert!(served.hands.0.lock().unwrap().is_empty(), "a refused action was done");
    let own = format!("{with}Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(served.ask_unsigned("POST", "/api/run", &own).await.status, 409);
    assert_eq!(served.ask_unsigned("POST", "/api/retry/ado/7", &with).await.status, 200);
    let session = "01a1e341-3fe2-71ee-b391-87cb6ed05b26";
    let path = format!("/api/sessions/{session}/stop");
    assert_eq!(served.ask("POST", &path, "Content-Length: 0\r\n").await.status, 404);
    let wrong = served.ask("POST", "/api/sessions/rm%20-rf/stop", "Content-Length: 0\r\n").await;
    assert_eq!(wrong.status, 400);
    let done = served.hands.0.lock().unwrap().clone();
    assert_eq!(done, ["run".to_owned(), "retry ado/7".into(), format!("stop {session}")]);
}

#[tokio::test]
async fn a_configured_token_signs_in_beside_the_states_own() {
    let served = serve(Some(SecretString::from("s3cret"))).await;
    assert_eq!(served.ask_unsigned("GET", "/", "").await.status, 401);
    let bearer = "Authorization: Bearer s3cret\r\n";
    assert_eq!(served.ask_unsigned("GET", "/", bearer).await.status, 200);
    let cookie = sign_in(&served, "s3cret").await.unwrap();
    assert_eq!(served.ask_unsigned("GET", "/", &cookie).await.status, 200);
    assert_eq!(served.get("/").await.status, 200);
}

#[tokio::test]
async fn an_open_address_without_a_token_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = heartbeat::store::Store::open(folder.path()).unwrap();
    let listener = bind("0.0.0.0:0".parse().unwrap(), None).await.unwrap();
    let options = heartbeat::web::ServerOptions {
        store,
        clock: heartbeat::clock::Clock::system(),
        config: std::sync::Arc::new(toml::from_str(heartbeat::config::DEFAULT_TOML).unwrap()),
        token_file: TokenFile::in_state(folder.path()),
        token: None,
        actions: std::sync::Arc::new(support::web::Hands::default()),
        can_run: false,
        search_path: "/bin".into(),
        hooks: None,
    };
    let refused = heartbeat::web::Server::start(listener, options);
    assert!(matches!(refused.err(), Some(ServerError::Open { .. })));
}

#[tokio::test]
async fn a_reader_reads_everything_and_changes_nothing() {
    let served = serve(None).await;
    let state = served.folder.path().join("state");
    let token = TokenFile::of_readers(&state).read_or_create().unwrap();
    let bearer = format!("Authorization: Bearer {}\r\n", token.expose_secret());
    for (method, path) in surface() {
        let path = example(path);
        // An event stream does not end.
        if path == "/events" {
            continue;
        }
        let answer = served.ask_unsigned(method.as_str(), &path, &bearer).await;
        match method {
            Method::GET => assert!(![401, 403].contains(&answer.status), "{path}: {answer:?}"),
            _ => assert_eq!(answer.status, 403, "{path}: {answer:?}"),
        }
    }
    let hands = served.hands.0.lock().unwrap().clone();
    let reads = |done: &String| done.starts_with("report") || done.starts_with("brief");
    assert!(hands.iter().all(reads), "only reading: {hands:?}");
    let me = served.ask_unsigned("GET", "/api/me", &bearer).await.json();
    assert_eq!(me["may_act"], false);
    assert_eq!(served.get("/api/me").await.json()["may_act"], true);
}

#[tokio::test]
async fn a_shared_link_opens_one_finding_and_nothing_else_until_it_is_revoked() {
    let served = serve(None).await;
    let session = "01a1e341-3fe2-71ee-b391-87cb6ed05b26";
    let made = served.ask("POST", &format!("/api/share/{session}"), "").await.json();
    let link = made["link"].as_str().unwrap().to_owned();
    let opened = served.ask_unsigned("GET", &link, "").await;
    assert_eq!((opened.status, &*opened.body), (200, "the report"));
    assert!(opened.head.contains("default-src 'none'; style-src 'unsafe-inline'"), "{opened:?}");
    let asked = served.hands.0.lock().unwrap().clone();
    assert!(asked.len() == 1 && asked[0].contains(session), "{asked:?}");
    for path in ["/", "/api/state", "/api/findings", "/shared/x", &link[..link.len() - 1]] {
        assert_eq!(served.ask_unsigned("GET", path, "").await.status, 401, "{path}");
    }
    assert_eq!(served.ask_unsigned("POST", &link, "").await.status, 401);
    let state = served.folder.path().join("state");
    heartbeat::web::share::secret_file(&state).rotate().unwrap();
    assert_eq!(served.ask_unsigned("GET", &link, "").await.status, 401, "revoked");
}
