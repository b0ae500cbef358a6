//! `heartbeat doctor` names each fault with its cause and its fix.

use std::path::Path;

use serde_json::Value;

use super::world::{Said, TOKEN, World};

const NEW_AGENT: &str = r#"case "$*" in
*--version*) echo "2.1.325 (Claude Code)";;
*--help*) echo "--disable-slash-commands --effort --fallback-model --include-partial-messages
  --json-schema --max-budget-usd --no-session-persistence --output-format --permission-mode
  --permission-prompts --restricted --session-id --setting-sources --strict-mcp-config --tools --bare";;
*) exit 1;;
esac"#;

async fn well() -> World {
    let world = World::new().await;
    world.agent(NEW_AGENT);
    world
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let checks = diagnosis["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{diagnosis:#}"))
}

/// The only failing check, with parts of its cause and of its fix.
fn assert_fails(said: &Said, name: &str, cause: &str, fix: &str) {
    let diagnosis = said.json();
    assert_eq!((said.code(), &diagnosis["healthy"]), (1, &Value::Bool(false)), "{diagnosis:#}");
    let failed: Vec<&Value> = diagnosis["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["status"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:#?}");
    let found = check(&diagnosis, name);
    assert_eq!(found["status"], "failed", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains(cause), "{cause:?} is not in {found:#}");
    assert!(found["fix"].as_str().unwrap().contains(fix), "{fix:?} is not in {found:#}");
}

#[tokio::test]
async fn a_good_setting_is_ready_and_stays_untouched() {
    let world = well().await;
    let said = world.run(&["doctor", "--json"]).await;
    let diagnosis = said.json();
    assert_eq!(said.code(), 0, "{diagnosis:#}");
    for name in [
        "config",
        "credential",
        "source",
        "project",
        "query",
        "agent",
        "agent login",
        "state",
        "clock",
    ] {
        assert_eq!(check(&diagnosis, name)["status"], "ok", "{name}: {diagnosis:#}");
    }
    assert!(!world.path("state").exists(), "the doctor made something");
    let said = world.run(&["doctor"]).await;
    assert!(said.stdout.contains("Ready"), "{}", said.stdout);
    assert!(!said.stdout.contains(TOKEN));
    assert_columns(&said.stdout);
}

#[tokio::test]
async fn the_question_of_the_first_scheduled_run_is_reported_before_it() {
    let world = well().await;
    let asked = world.run(&["doctor", "--json", "--set", "schedule.first_run=ask"]).await;
    let found = asked.json();
    assert_eq!((asked.code(), &check(&found, "first run")["status"]), (0, &"warning".into()));
    assert!(check(&found, "first run")["fix"].as_str().unwrap().contains("baseline"), "{found:#}");
    world.run(&["--once", "--quiet"]).await;
    let after = world.run(&["doctor", "--set", "schedule.first_run=ask"]).await.stdout;
    assert!(!after.contains("first run"), "it is over: {after}");
}

/// Every row has its mark, its name and its finding in separate columns.
fn assert_columns(text: &str) {
    const BEGIN: usize = "FAIL  containment  ".len();
    let rows: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    assert!(rows.len() > 5, "{text}");
    for row in rows {
        let (name, found) = row.split_at(BEGIN.min(row.len()));
        assert!(name.ends_with(' ') && !found.starts_with(' '), "{row:?} in\n{text}");
        assert!(!found.is_empty(), "{row:?}");
    }
}

#[tokio::test]
async fn a_bad_token() {
    let world = well().await.with("TRACKER_TOKEN", "expired");
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "source", "does not accept the credential", "renew the token");
    assert!(!said.stdout.contains("expired\""), "the token is shown");
}

#[tokio::test]
async fn no_token() {
    let world = well().await.with("TRACKER_TOKEN", "");
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "credential", "TRACKER_TOKEN", "personal access token");
}

#[tokio::test]
async fn a_wrong_project() {
    let world = well().await;
    let said = world.run(&["doctor", "--json", "--set", "source.project=Nowhere"]).await;
    assert_fails(&said, "project", "Nowhere", "address bar");
}

#[tokio::test]
async fn a_wrong_query() {
    let world = well().await;
    let query = "source.where=[No.Such.Field] = 1";
    let said = world.run(&["doctor", "--json", "--set", query]).await;
    assert_fails(&said, "query", "source.where", "query editor");
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let world = well().await;
    let nobody = "source.base_url=http://127.0.0.1:9/contoso";
    let said = world.run(&["doctor", "--json", "--set", nobody]).await;
    assert_fails(&said, "source", "127.0.0.1:9", "network");
}

#[tokio::test]
async fn a_missing_agent() {
    let world = World::new().await;
    let said = world.run(&["doctor", "--json", "--set", "agent.command=[\"no-such-agent\"]"]).await;
    assert_fails(&said, "agent", "no-such-agent", "npm install");
}

#[tokio::test]
async fn an_old_agent() {
    let world = World::new().await;
    world
        .agent("case \"$*\" in *--version*) echo '1.0.3 (Claude Code)';; *) echo '--model';; esac");
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "agent", "lacks --disable-slash-commands", "update it");
    world.agent("echo broken >&2; exit 3");
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "agent", "broken", "by hand");
}

#[tokio::test]
async fn not_logged_in() {
    let world = well().await.with("ANTHROPIC_API_KEY", "");
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "agent login", "ANTHROPIC_API_KEY is not set", "agent.auth = \"login\"");
    let login = ["doctor", "--json", "--set", "agent.auth=login"];
    let said = world.run(&login).await;
    assert_fails(&said, "agent login", "there is no login", "claude login");
    std::fs::create_dir(world.path("home/.claude")).unwrap();
    std::fs::write(world.path("home/.claude/.credentials.json"), "{}").unwrap();
    assert_eq!(world.run(&login).await.code(), 0);
}

#[tokio::test]
async fn no_repository() {
    let world = well().await;
    let said = world.run(&["doctor", "--json", "--set", "repository.path=/no/such/code"]).await;
    assert_fails(&said, "repository", "/no/such/code", "repository.path");
}

#[tokio::test]
async fn a_state_that_cannot_be_written() {
    let world = well().await;
    // Nobody can create a folder there, not even root.
    let said = world.run(&["doctor", "--json", "--state-dir", "/proc/heartbeat"]).await;
    assert_fails(&said, "state", "cannot write /proc/heartbeat", "--state-dir");
}

#[tokio::test]
async fn a_state_of_a_newer_heartbeat() {
    let world = well().await;
    std::fs::create_dir(world.path("state")).unwrap();
    let database = rusqlite::Connection::open(world.path("state/heartbeat.db")).unwrap();
    database.pragma_update(None, "user_version", 4711).unwrap();
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "state", "4711", "nothing was changed");
}

#[tokio::test]
async fn a_taken_port() {
    let world = well().await;
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("http.listen={}", other.local_addr().unwrap());
    let said = world.run(&["doctor", "--json", "--set", &listen]).await;
    assert_fails(&said, "http", "is in use", "http.listen");
    drop(other);
    assert_eq!(world.run(&["doctor", "--json", "--set", &listen]).await.code(), 0);
}

#[tokio::test]
async fn the_port_of_a_running_heartbeat_is_no_fault() {
    let world = well().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listen = format!("http.listen={free}");
    let daemon = world.start(&["--quiet", "--set", &listen]);
    let listening = || async { tokio::net::TcpStream::connect(free).await.ok().map(drop) };
    support::until("dashboard", listening).await;
    let said = world.run(&["doctor", "--json", "--set", &listen]).await;
    let diagnosis = said.json();
    let found = check(&diagnosis, "http");
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("already listens"), "{found:#}");
    super::world::signal(&daemon, nix::sys::signal::Signal::SIGTERM);
    super::world::finish(daemon).await;
}

/// In a user namespace that may not create another one, where the machine allows it.
#[tokio::test(flavor = "multi_thread")]
async fn no_namespaces() {
    let world = well().await;
    let binary = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let config = world.path("heartbeat.toml");
    let script = world.script(
        "without-namespaces",
        &format!(
            "exec unshare --user --map-root-user sh -c 'echo 0 > /proc/sys/user/max_user_namespaces \
             && echo 0 > /proc/sys/user/max_pid_namespaces && exec {} --config {} doctor --json'",
            binary.display(),
            config.display()
        ),
    );
    let mut command = world.command(&[]);
    let mut inside = assert_cmd::Command::new(script);
    inside.env_clear();
    for (name, value) in command.as_std_mut().get_envs() {
        inside.env(name, value.unwrap());
    }
    let output = inside.current_dir(world.folder.path()).output().unwrap();
    let Ok(diagnosis) = serde_json::from_slice::<Value>(&output.stdout) else {
        eprintln!("SKIPPED: no nested user namespace: {}", String::from_utf8_lossy(&output.stderr));
        return;
    };
    let found = check(&diagnosis, "containment");
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!(!found["found"].as_str().unwrap().contains("pidns"), "{found:#}");
    assert!(found["fix"].as_str().unwrap().contains("max_user_namespaces"), "{found:#}");
    assert_eq!(output.status.code(), Some(0), "sessions are still swept");
}

#[tokio::test]
async fn a_broken_configuration_is_reported_completely() {
    let world = World::new().await;
    std::fs::write(world.path("heartbeat.toml"), "[limits]\nmax_live_sesions = 1\nnice = 99\n")
        .unwrap();
    let said = world.run(&["doctor", "--json"]).await;
    assert_fails(&said, "config", "max_live_sessions", "heartbeat init");
    assert!(said.stdout.contains("nice"), "only the first fault is told");
}

#[tokio::test]
async fn a_held_breaker_is_reported_and_closed_by_hand() {
    let world = well().await.with("TRACKER_TOKEN", "expired");
    assert_eq!(world.run(&["--once"]).await.code(), 77);
    let said = world.run(&["doctor", "--json"]).await;
    assert_eq!(check(&said.json(), "breaker")["status"], "warning", "{}", said.stdout);
    assert_eq!(world.run(&["--once"]).await.code(), 69, "the breaker holds");
    let closed = world.run(&["retry", "--source"]).await;
    assert_eq!(closed.code(), 0, "{}", closed.stderr);
    let said = world.run(&["doctor", "--json"]).await;
    assert_eq!(check(&said.json(), "breaker")["status"], "ok", "{}", said.stdout);
    let status = world.run(&["status", "--json"]).await.json();
    assert_eq!(status["source"]["breaker"]["state"]["is"], "closed", "{status:#}");
    assert_eq!(world.run(&["--once"]).await.code(), 77, "it is asked again, and refuses again");
    let world = world.with("TRACKER_TOKEN", TOKEN);
    let renewed = world.run(&["--once"]).await;
    assert!(![69, 77].contains(&renewed.code()), "a new token needs no hand: {}", renewed.stderr);
}

/// A provider of models that knows one key.
async fn provider() -> String {
    use axum::http::{HeaderMap, StatusCode};
    let list = |headers: HeaderMap| async move {
        match headers.get("x-api-key").and_then(|key| key.to_str().ok()) {
            Some("a-valid-key") => (StatusCode::OK, r#"{"data":[]}"#),
            Some("an-empty-account") => (
                StatusCode::BAD_REQUEST,
                r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            ),
            _ => (
                StatusCode::UNAUTHORIZED,
                r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
            ),
        }
    };
    let router = axum::Router::new().route("/v1/models", axum::routing::get(list));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

const LIVE: [&str; 5] =
    ["doctor", "--live", "--json", "--set", "agent.pass_env=[\"ANTHROPIC_BASE_URL\"]"];

#[tokio::test]
async fn the_provider_is_asked_when_people_want_it() {
    let address = provider().await;
    let with_key = |key: &'static str| {
        let address = address.clone();
        async move {
            let world = well().await;
            world.with("ANTHROPIC_BASE_URL", &address).with("ANTHROPIC_API_KEY", key)
        }
    };
    let world = with_key("a-valid-key").await;
    let said = world.run(&LIVE).await.json();
    let found = check(&said, "provider");
    assert_eq!(found["status"], "ok", "{found:#}");
    let quiet = world.run(&["doctor", "--json"]).await.json();
    assert!(!quiet.to_string().contains("\"provider\""), "only if asked for: {quiet:#}");

    let said = with_key("sk-ant-fake").await.run(&LIVE).await;
    assert_fails(
        &said,
        "provider",
        "status 401: authentication_error: invalid x-api-key",
        "ANTHROPIC_API_KEY",
    );
    assert!(!said.stdout.contains("sk-ant-fake"));
    let said = with_key("an-empty-account").await.run(&LIVE).await;
    assert_fails(&said, "provider", "Your credit balance is too low", "add credit");
    let world = well().await.with("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    assert_fails(&world.run(&LIVE).await, "provider", "refused", "check the network");
    let world = well().await.with("ANTHROPIC_BASE_URL", "https://no-such-host.invalid");
    assert_fails(&world.run(&LIVE).await, "provider", "lookup", "DNS");
}

#[tokio::test]
async fn the_right_to_write_is_tried_and_nothing_is_written() {
    let address = provider().await;
    let world = well().await.with("ANTHROPIC_BASE_URL", &address);
    let world = world.with("ANTHROPIC_API_KEY", "a-valid-key");
    let args = [&LIVE[..], &["--set", "source.write_back=true"]].concat();
    let said = world.run(&args).await.json();
    assert_eq!(check(&said, "write-back")["status"], "ok", "{said:#}");
    let comments = world.simulator.item_ids().into_iter().map(|id| world.simulator.comments(id));
    assert!(!comments.flatten().any(|comment| comment.contains("heartbeat")));
}

#[tokio::test]
async fn a_query_that_matches_nothing_is_a_warning_that_names_its_conditions() {
    let world = well().await;
    let args = ["doctor", "--json", "--set", "source.types=[\"Epic of dreams\"]"];
    let said = world.run(&args).await.json();
    let found = check(&said, "query");
    assert_eq!(found["status"], "warning", "{said:#}");
    let fix = found["fix"].as_str().unwrap();
    assert!(fix.contains("IN ('Epic of dreams')") && fix.contains("heartbeat why"), "{fix}");
    // Whoever does not ask the doctor sees it after three runs.
    let told = "the query matches nothing";
    for _ in 0..3 {
        let status = world.run(&["status"]).await.stdout;
        assert!(!status.contains(told), "{status}");
        let run = world.run(&["--once", "--set", "source.types=[\"Epic of dreams\"]"]).await;
        assert_eq!(run.code(), 0, "{}", run.stderr);
    }
    let status = world.run(&["status"]).await.stdout;
    assert!(status.contains(told) && status.contains("heartbeat doctor"), "{status}");
}

/// A repository of the code, with a commit of some days ago.
fn commit(world: &World, days: i64) {
    let code = world.path("code");
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
    support::git(&code, &["init", "-q"]);
    support::git(&code, &["add", "-A"]);
    support::git_at(&code, &["commit", "-q", "-m", "as it is"], Some(at.as_second()));
}

#[tokio::test]
async fn code_that_nothing_updates_is_a_warning_with_its_age() {
    let world = well().await;
    commit(&world, 225);
    let repository = async || {
        let said = world.run(&["doctor", "--json"]).await.json();
        check(&said, "repository").clone()
    };
    let found = repository().await;
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("225 days old"), "{found:#}");
    assert!(found["fix"].as_str().unwrap().contains("repository.fetch"), "{found:#}");
    // With a remote, a run reads the newest commit, and the doctor names it.
    support::git(world.folder.path(), &["clone", "-q", "code", "elsewhere"]);
    let elsewhere = world.path("elsewhere").display().to_string();
    support::git(&world.path("code"), &["remote", "add", "origin", &elsewhere]);
    let found = repository().await;
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("the newest commit of its remote"));
    std::fs::remove_dir_all(elsewhere).unwrap();
    let found = repository().await;
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("cannot be fetched"), "{found:#}");
}

#[tokio::test]
async fn the_code_base_of_another_product_is_known_by_the_files_that_items_name() {
    let address = provider().await;
    let world = well().await.with("ANTHROPIC_BASE_URL", &address);
    let world = world.with("ANTHROPIC_API_KEY", "a-valid-key");
    let trace = "System.Exception: at Cart.Add() in C:\\build\\src\\Cart\\CartService.cs:line 9 \
                 at Shop in src/Shop/ShopController.cs:line 4, see also web/basket.ts";
    world.simulator.add_item(&[
        ("System.WorkItemType", "Bug".into()),
        ("System.State", "Active".into()),
        ("System.Title", "The cart is empty".into()),
        ("System.Description", trace.into()),
    ]);
    commit(&world, 1);
    let live = async || check(&world.run(&LIVE).await.json(), "named files").clone();
    let found = live().await;
    assert_eq!(found["status"], "warning", "{found:#}");
    assert!(found["found"].as_str().unwrap().contains("basket.ts"), "{found:#}");
    std::fs::write(world.path("code/ShopController.cs"), "class ShopController {}\n").unwrap();
    commit(&world, 0);
    let found = live().await;
    assert_eq!(found["status"], "ok", "{found:#}");
    assert!(found["found"].as_str().unwrap().starts_with("1 of "), "{found:#}");
}
