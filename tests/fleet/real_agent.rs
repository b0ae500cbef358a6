//! The real agent CLI on a worker, with a scripted model: all stages of an item on two machines.

use serde_json::json;
use support::answers::{finding, verdicts};
use support::messages_api::{MessagesApi, Reply, Request, asked_about, is_triage};
use support::real_cli::installed;

use crate::world::{OPEN_ITEMS, Process, World, tail};

const DEEP: usize = 2;

fn reply(request: &Request) -> Reply {
    if is_triage(request) {
        return Reply::structured(verdicts(asked_about(request), DEEP));
    }
    match request.body["messages"].to_string().contains("tool_result") {
        false => Reply::Tools(vec![("Read", json!({ "file_path": "src/cart.rs" }))]),
        true => Reply::structured(finding(&["src/cart.rs"])),
    }
}

#[test]
fn the_real_agent_reads_the_code_on_its_host() {
    let Some(claude) = installed() else { return };
    let Some(world) = World::new(16) else { return };
    let api = MessagesApi::start(reply);
    let of_script = format!("command = {:?}", world.agent.command());
    let real = format!(
        "command = [{:?}]\npass_env = [\"ANTHROPIC_BASE_URL\"]\nmax_retries = 0",
        claude.display().to_string()
    );
    let use_real = |config: &std::path::Path| {
        let text = std::fs::read_to_string(config).unwrap();
        assert!(text.contains(&of_script), "{text}");
        std::fs::write(config, text.replace(&of_script, &real)).unwrap();
    };
    let (host, config) = (world.config("w0", 2, ""), world.coordinator_config("coordinator", 2));
    use_real(&host);
    use_real(&config);
    let mut worker = world.command(&host, "w0", &["worker"]);
    let _worker = Process::start(worker.env("ANTHROPIC_BASE_URL", api.url()));
    let mut run = world.command(&config, "coordinator", &["--once", "--quiet", "--json"]);
    // The coordinator reaches no provider: only its hosts do.
    let code = Process::start(run.env_remove("ANTHROPIC_API_KEY")).wait();
    let said = tail(&world.said("coordinator"));
    assert_eq!(code, Some(0), "{said}\n{}", tail(&world.said("w0")));
    assert_eq!(world.figure(OPEN_ITEMS), 0, "{said}");
    let findings = world.figure("SELECT count(*) FROM findings");
    assert!(findings >= 2, "{findings}: {said}");
    let elsewhere = "SELECT count(*) FROM sessions WHERE host <> 'w0'";
    assert_eq!(world.figure(elsewhere), 0);
    let read = api
        .requests()
        .iter()
        .any(|request| request.body["messages"].to_string().contains("pub fn total() -> u32"));
    assert!(read, "it read the commit that the coordinator named");
    assert!(world.figure("SELECT sum(spent) FROM budget") > 0, "what the host reported is booked");
    for request in api.requests() {
        assert_eq!(request.header("x-api-key"), Some("test-key-of-the-agent"), "the host's own");
        assert!(!request.body.to_string().contains("TRACKER"));
    }
    let scratch = world.path().join("w0/scratch");
    let left = std::fs::read_dir(scratch).map_or(0, Iterator::count);
    assert_eq!(left, 0, "private folders are removed");
    assert!(
        !world.path().join("w0/trees").exists()
            || std::fs::read_dir(world.path().join("w0/trees")).unwrap().count() == 0
    );
}
