//! Recorded runs with each real CLI: `heartbeat replay` ends like the session did, without asking
//! the provider, and a changed recording is refused. The same runs show what two analyses share.

use heartbeat::settings::AgentKind;
use serde_json::Value;
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

use super::whole_run::keep;
use super::world::{World, asked_about, is_triage};
use crate::agents::bench::{answer, read};

fn script(kind: AgentKind, request: &Request) -> Reply {
    let structured = |value| match kind {
        AgentKind::Claude => Reply::structured(value),
        _ => answer(&value),
    };
    if is_triage(request) {
        return structured(verdicts(asked_about(request), 2));
    }
    let words = request.body.to_string();
    let has_read = ["tool_result", "function_call_output", "\"role\":\"tool\""];
    match has_read.iter().any(|sign| words.contains(sign)) {
        false => Reply::Tools(vec![read(kind, "src/total.rs")]),
        true => structured(finding(&["src/total.rs"])),
    }
}

/// What a provider's cache sees first: the tools, the system's text, the messages.
fn in_order_of_the_cache(body: &Value) -> String {
    let parts = ["tools", "system", "instructions", "messages", "input"];
    let found = parts.iter().filter_map(|name| body.get(*name)).map(Value::to_string);
    found.collect::<Vec<_>>().join("\n")
}

/// Bytes of the common beginning of the first requests of two analyses.
fn shared(world: &World) -> usize {
    let requests = world.api.requests();
    let words = ["tool_result", "function_call_output", "\"role\":\"tool\""];
    let is_first = |request: &&Request| {
        let text = request.body.to_string();
        !is_triage(request) && !words.iter().any(|word| text.contains(word))
    };
    let firsts: Vec<String> = requests
        .iter()
        .filter(is_first)
        .map(|request| in_order_of_the_cache(&request.body))
        .collect();
    assert_eq!(firsts.len(), 2, "two analyses");
    firsts[0].bytes().zip(firsts[1].bytes()).take_while(|(one, other)| one == other).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_are_replayed_without_the_provider_and_changed_ones_refused() {
    for kind in [AgentKind::Claude, AgentKind::Codex, AgentKind::Copilot] {
        let Some(world) = World::of_kinds([kind; 2], move |request| script(kind, request)).await
        else {
            continue;
        };
        keep(&world, 4).await;
        let said = world.run(&["--once", "--json", "--set", "record.sessions=true"]).await;
        assert_eq!(
            said.json["summary"]["analysed"], 2,
            "{kind:?} {:#}\n{}",
            said.json, said.stderr
        );
        let same = shared(&world);
        println!("{kind:?}: two analyses share {same} bytes, about {} tokens", same / 4);
        assert!(same / 4 >= 1_024, "{kind:?}: {same} bytes");
        let asked = world.api.requests().len();
        let folder = world.state().join("recordings");
        let mut recordings: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .collect();
        recordings.sort();
        assert_eq!(recordings.len(), 3, "{kind:?}: triage and two analyses");
        for file in &recordings {
            let text = std::fs::read_to_string(file).unwrap();
            for secret in ["key-of-the-provider", "sk-ant-of-the-agent", "of-the-tracker"] {
                assert!(!text.contains(secret), "{kind:?}: {secret}");
            }
            let session = file.file_stem().unwrap().to_str().unwrap();
            let said = world.run(&["replay", session, "--json"]).await;
            assert_eq!(said.json["same"], true, "{kind:?} {:#}\n{}", said.json, said.stderr);
            assert_eq!(said.code, Some(0), "{kind:?}");
        }
        assert_eq!(world.api.requests().len(), asked, "{kind:?}: the provider was asked");
        let file = recordings.last().unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        std::fs::write(file, text.replacen("total.rs", "other.rs", 1)).unwrap();
        let session = file.file_stem().unwrap().to_str().unwrap();
        let said = world.run(&["replay", session]).await;
        assert!(said.code != Some(0) && said.stderr.contains("was changed"), "{}", said.stderr);
        assert_eq!(world.api.requests().len(), asked, "{kind:?}");
        assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new());
    }
}
