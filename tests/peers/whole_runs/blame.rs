//! The real CLI: one item that spoils a batch is isolated, verdicts that are there count, and a CLI
//! that does not start is nobody's fault.

use serde_json::json;

use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::{Reply, Request};

fn is_probe(request: &Request) -> bool {
    request.user_texts().concat().contains("Does the connection work?")
}

/// Answers well, but leaves one item out.
fn without(request: &Request, left_out: i64) -> Reply {
    if is_probe(request) {
        return Reply::structured(json!({ "ok": true }));
    }
    match is_triage(request) {
        true => {
            let ids = asked_about(request).into_iter().filter(|id| *id != left_out);
            Reply::structured(verdicts(ids, 0))
        }
        false => Reply::structured(finding(&["src/total.rs"])),
    }
}

const ITEM: i64 = 4106;

fn open(world: &World) -> i64 {
    world.figure("SELECT count(*) FROM heartbeat_state WHERE phase <> 'done'")
}

#[tokio::test(flavor = "multi_thread")]
async fn verdicts_that_are_there_count_and_only_the_missing_one_is_asked_for_again() {
    let Some(world) = World::new(|request| without(request, ITEM)).await else { return };
    let said = world.once().await;
    let triages: Vec<usize> = world
        .api
        .requests()
        .iter()
        .filter(|request| is_triage(request) && !is_probe(request))
        .map(|request| asked_about(request).len())
        .collect();
    assert_eq!(triages.len(), 2, "{triages:?} {:#}\n{}", said.json, said.stderr);
    assert_eq!(triages[1], 1, "{triages:?}");
    let from_model = "SELECT count(*) FROM events WHERE event = 'item_triaged'
                      AND json_extract(body, '$.from_model') = 0";
    assert_eq!(world.figure(from_model), 1, "the default for it alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_the_provider_refuses_or_fails_on_is_isolated() {
    for status in [400, 500] {
        let world = World::new(move |request| {
            let poisoned = is_triage(request) && asked_about(request).contains(&ITEM);
            match poisoned && !is_probe(request) {
                true => Reply::status(status, "the request cannot be processed"),
                false => without(request, 0),
            }
        });
        let Some(world) = world.await else { return };
        world.once().await;
        assert_eq!(open(&world), 1, "{status}: everybody else is judged in the first run");
        for _ in 0..3 {
            world.once().await;
        }
        let aside = format!(
            "SELECT count(*) FROM heartbeat_state WHERE item_id = {ITEM} AND phase = 'parked'
             AND reason = 'fails_triage' AND verdict LIKE '%cannot be processed%'"
        );
        assert_eq!(world.figure(&aside), 1, "{status}: with the provider's words");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shim_is_followed_and_one_that_breaks_costs_nothing() {
    let Some(world) = World::new(|request| without(request, 0)).await else { return };
    let shims = world.folder.path().join("shims");
    std::fs::create_dir_all(&shims).unwrap();
    let shim = shims.join("claude");
    let write = |text: String| {
        std::fs::write(&shim, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&shim, mode).unwrap();
    };
    write("#!/bin/sh\necho 'the update broke me' >&2\nexit 1\n".to_owned());
    let command = shim.display().to_string();
    world.configure_agent(&[&command], "", "");
    let said = world.once().await;
    assert_eq!(said.code, Some(75), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(world.figure("SELECT coalesce(sum(spent), 0) FROM budget"), 0);
    let status = world.status().await;
    let fault = status["agent_fault"].as_str().unwrap_or_default();
    assert!(fault.contains("the update broke me"), "{status:#}");
    write(format!("#!/bin/sh\nexec '{}' \"$@\"\n", world.claude().display()));
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(open(&world), 0);
    assert!(world.status().await["agent_fault"].is_null());
}
