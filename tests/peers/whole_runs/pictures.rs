//! A picture attached to an item reaches the model: through the tracker, the session's folder, the
//! agent's own Read tool.

use heartbeat::settings::AgentKind;
use heartbeat::simulate::ado::StoredFile;
use serde_json::{Value, json};

use super::world::{World, asked_about, is_triage};
use crate::agents::bench::answer;
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

/// A red pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x02\x00\x00\x00\
    \x90wS\xde\x00\x00\x00\x0cIDATx\xdac\xf8\xcf\xc0\x00\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00IEND\xaeB`\x82";

/// The path of the picture in the prompt.
fn named_picture(request: &Request) -> Option<String> {
    let prompt = request.user_texts().concat();
    let files = prompt.split("part=\"files\">\n").nth(1)?.split("\n</").next()?;
    files.lines().find_map(|line| line.split_once(": picture").map(|(path, _)| path.to_owned()))
}

/// The tool results in a request.
fn results(request: &Request) -> Vec<Value> {
    let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    blocks.filter(|block| block["type"] == "tool_result").cloned().collect()
}

/// Reads the picture, then answers.
fn look_and_answer(request: &Request) -> Reply {
    if is_triage(request) {
        // Its number is the highest; it is the one to analyse.
        let mut asked = asked_about(request);
        asked.sort_unstable_by(|a, b| b.cmp(a));
        return Reply::structured(verdicts(asked, 1));
    }
    match named_picture(request).filter(|_| results(request).is_empty()) {
        Some(path) => Reply::Tools(vec![("Read", json!({ "file_path": path }))]),
        None => Reply::structured(finding(&["src/total.rs"])),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deep_session_reads_the_attached_picture_by_its_path() {
    let Some(world) = World::new(look_and_answer).await else { return };
    let item = world.simulator.add_item(&[
        ("System.Title", json!("Total is shown in red, see screenshot")),
        ("System.WorkItemType", json!("Bug")),
        ("System.State", json!("New")),
        ("Microsoft.VSTS.Common.Priority", json!(1)),
        ("System.Description", json!("<img src=\"http://127.0.0.1:9/other.png\">")),
    ]);
    world.simulator.attach(item, "../../shot.png", StoredFile::Bytes(PNG.to_vec()));
    world.simulator.attach(item, "run.log", StoredFile::Bytes(b"12:00 total is -1\n".to_vec()));
    let svg = b"<svg onload='alert(1)'/>".to_vec();
    world.simulator.attach(item, "logo.png", StoredFile::Bytes(svg));
    let elsewhere = "http://127.0.0.1:9/x.png".to_owned();
    world.simulator.attach(item, "far.png", StoredFile::Redirect(elsewhere));
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);

    let requests = world.api.requests();
    let deep: Vec<&Request> = requests
        .iter()
        .filter(|request| !is_triage(request) && request.user_texts().concat().contains("in red"))
        .collect();
    let path = named_picture(deep[0]).expect("the prompt names the picture");
    assert!(path.ends_with("/attached/1-shot.png") && path.starts_with('/'), "{path}");
    let prompt = deep[0].user_texts().concat();
    assert!(prompt.contains("text file named \"run.log\":\n12:00 total is -1"), "{prompt}");
    let read = deep.iter().flat_map(|request| results(request)).next().expect("it was read");
    assert_ne!(read["is_error"], true, "{read:#}");
    let shown = &read["content"][0];
    assert_eq!(
        (&shown["type"], &shown["source"]["type"]),
        (&json!("image"), &json!("base64")),
        "{read:#}"
    );

    let story = world.run(&["show", &item.to_string(), "--json"]).await.json;
    let fates: Vec<&str> = story["surroundings"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["fate"].as_str().unwrap())
        .collect();
    for word in [
        "as a picture of 1 x 1",
        "given to the analysis as text",
        "SVG can carry scripts",
        "not followed",
        "on another host",
    ] {
        assert!(fates.iter().any(|fate| fate.contains(word)), "{word}: {fates:?}");
    }
    assert!(!std::path::Path::new(&path).exists(), "the folder went with its session");
}

/// Codex gets no pictures: the prompt says that there is one, and the report says why.
#[tokio::test(flavor = "multi_thread")]
async fn pictures_that_the_agent_cannot_see_are_named_in_the_prompt() {
    let script = |request: &Request| match is_triage(request) {
        true => {
            let mut asked = asked_about(request);
            asked.sort_unstable_by(|a, b| b.cmp(a));
            answer(&verdicts(asked, 1))
        }
        false => answer(&finding(&["src/total.rs"])),
    };
    let Some(world) = World::of_kinds([AgentKind::Codex; 2], script).await else { return };
    let item = world.simulator.add_item(&[
        ("System.Title", json!("Total is shown in red, see screenshot")),
        ("System.WorkItemType", json!("Bug")),
        ("System.State", json!("New")),
        ("Microsoft.VSTS.Common.Priority", json!(1)),
    ]);
    world.simulator.attach(item, "shot.png", StoredFile::Bytes(PNG.to_vec()));
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    let requests = world.api.requests();
    let deep = requests.iter().map(|request| request.user_texts().concat());
    let told = deep.filter(|prompt| prompt.contains("shot.png")).collect::<Vec<_>>().concat();
    assert!(told.contains("it cannot be shown to you"), "{told}");
    assert!(!told.contains("/attached/"), "no path that it could not open: {told}");
    let story = world.run(&["show", &item.to_string(), "--json"]).await.json;
    let fate = story["surroundings"]["files"][0]["fate"].as_str().unwrap();
    assert!(fate.contains("Codex cannot read pictures"), "{fate}");
}
