//! A setting that no session can work with: the run ends and names it, no attempt is counted, and
//! once it is corrected the work is done.

use super::world::{World, asked_about, attempts, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::Reply;

/// A provider that supports only one model and the usual settings.
async fn world(unknown_model: &'static str) -> Option<World> {
    World::new(move |request| match is_triage(request) {
        _ if request.model() == unknown_model => Reply::status(404, "model: no-such-model"),
        true => Reply::structured(verdicts(asked_about(request), 4)),
        false => Reply::structured(finding(&["src/total.rs"])),
    })
    .await
}

/// The run's end, and where else it is shown.
async fn refused(world: &World, setting: &str) {
    let said = world.once().await;
    assert_eq!(said.code, Some(78), "{:#}\n{}", said.json, said.stderr);
    assert!(said.stderr.contains(setting), "{}", said.stderr);
    assert_eq!(attempts(&said.json), [0], "{:#}", said.json);
    assert_eq!(said.json["summary"]["failed_sessions"], 0);
    let status = world.status().await;
    assert!(status["agent_fault"].as_str().unwrap().contains(setting), "{status:#}");
    let doctor = world.run(&["doctor", "--json"]).await;
    assert_eq!(doctor.code, Some(1), "{:#}", doctor.json);
    assert!(doctor.json.to_string().contains(setting.trim_start_matches('[')), "{:#}", doctor.json);
    let spent = "SELECT coalesce(sum(spent), 0) FROM budget JOIN sessions USING (session)
                 WHERE outcome NOT LIKE '%completed%'";
    assert_eq!(world.figure(spent), 0, "a refusal costs nothing");
}

/// Items have three attempts.
async fn more_often_than_attempts(world: &World) {
    for _ in 0..3 {
        let said = world.once().await;
        assert_eq!(said.code, Some(78), "{:#}\n{}", said.json, said.stderr);
    }
}

async fn works(world: &World) {
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(said.json["summary"]["analysed"], 4);
    assert_eq!(world.status().await["agent_fault"], serde_json::Value::Null);
    assert_eq!(world.processes(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_in_triage_ends_the_run_and_costs_no_attempt() {
    let Some(world) = world("no-such-model").await else { return };
    world.configure("[triage]\nmodel = \"no-such-model\"\n");
    more_often_than_attempts(&world).await;
    refused(&world, "[triage] model").await;
    world.configure("");
    works(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_in_analysis_ends_the_run_and_costs_no_attempt() {
    let Some(world) = world("no-such-model").await else { return };
    let wrong = "[analyze]\nmodel = \"no-such-model\"\nfallback_model = \"\"\n";
    world.configure(wrong);
    more_often_than_attempts(&world).await;
    refused(&world, "[analyze] model").await;
    let sessions = world.figure("SELECT count(*) FROM sessions WHERE stage = 'deep'");
    assert!(sessions <= 4 * 3, "{sessions}: after the first refusal of a run no more is started");
    world.configure("");
    works(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_refuses_its_command_line_or_is_not_there_costs_no_attempt() {
    let Some(world) = world("no-such-model").await else { return };
    let claude = world.claude().display().to_string();
    world.configure_agent(&[&claude, "--no-such-flag"], "", "");
    refused(&world, "[agent] command").await;
    world.configure_agent(&["/no/such/agent"], "", "");
    let said = world.once().await;
    assert_eq!(said.code, Some(78), "{:#}\n{}", said.json, said.stderr);
    world.configure("");
    works(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_that_the_provider_refuses_costs_no_attempt_and_a_bad_item_does() {
    let refuse = |message: &'static str| move |_: &_| Reply::status(400, message);
    let Some(world) = World::new(refuse("thinking.type: adaptive is not supported")).await else {
        return;
    };
    refused(&world, "[triage] model").await;

    let Some(world) = World::new(refuse("prompt is too long: 300000 tokens > 200000")).await else {
        return;
    };
    let said = world.once().await;
    assert_eq!(said.code, Some(11), "{:#}\n{}", said.json, said.stderr);
}
