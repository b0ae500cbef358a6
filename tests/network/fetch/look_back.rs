//! The past of items: which are finished, their earlier texts, and the commits they link to.

use heartbeat::fetch::{DevelopmentLink, FinishedRequest, PastText, Source};
use heartbeat::model::{FailureClass, ItemId};
use heartbeat::simulate::ado::{Fault, SimulatorOptions};
use jiff::Timestamp;
use serde_json::json;

use super::setup::Setup;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const STEPS: &str = "Microsoft.VSTS.TCM.ReproSteps";

fn day(day: u8) -> Timestamp {
    format!("2026-03-{day:02}T10:00:00.5Z").parse().unwrap()
}

fn finished(watched_only: bool) -> FinishedRequest {
    FinishedRequest { since: day(1), states: vec!["Closed".into(), "Done".into()], watched_only }
}

/// Three finished items of March: one edited after its fix, one linked to a pull request, one old.
async fn past(options: SimulatorOptions) -> Setup {
    let setup = Setup::new(SimulatorOptions { items: 0, ..options }).await;
    let simulator = &setup.simulator;
    for (id, created, title) in [(7001, 2, "Sum is wrong"), (7002, 3, "Label"), (7003, 4, "Open")] {
        let fields = [
            ("System.Title", json!(title)),
            ("System.WorkItemType", json!("Bug")),
            ("System.State", json!("Active")),
            ("System.AreaPath", json!("Parcel\\Billing")),
            (STEPS, json!("<p>The first text.</p>")),
        ];
        simulator.add_past_item(id, day(created), &fields);
    }
    simulator.add_past_comment(7001, day(5), "It happens on Mondays.");
    simulator.link_artifact(7001, day(6), &format!("vstfs:///Git/Commit/p%2Fr%2F{COMMIT}"));
    let text = json!("<p>The cause was in tariff.rs.</p>");
    simulator.bulk_edit(&[7001], day(7), &[(STEPS, text), ("System.State", json!("Closed"))]);
    simulator.add_past_comment(7001, day(8), "Fixed in tariff.rs.");
    simulator.link_artifact(7002, day(6), "vstfs:///Git/PullRequestId/p%2Fr%2F21");
    simulator.link_artifact(7002, day(6), "vstfs:///Build/Build/9");
    simulator.bulk_edit(&[7002], day(7), &[("System.State", json!("Done"))]);
    setup
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_items_are_found_with_where_they_belong() {
    let setup = past(SimulatorOptions::default()).await;
    let source = setup.guarded();
    let found = source.finished(finished(false)).await.unwrap().unwrap();
    let ids: Vec<i64> = found.iter().map(|item| item.id.0).collect();
    assert_eq!(ids, [7001, 7002]);
    assert_eq!((found[0].area.as_str(), found[0].item_type.as_str()), ("Parcel\\Billing", "Bug"));
    assert_eq!(found[0].created_at, Some(day(2)));
    assert_eq!((found[0].development_links, found[1].development_links), (1, 2));
    // The default condition matches only open items.
    assert_eq!(source.finished(finished(true)).await.unwrap().unwrap(), []);
    let later = FinishedRequest { since: day(20), ..finished(false) };
    assert_eq!(source.finished(later).await.unwrap().unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_is_read_as_it_was_and_comments_of_later_are_left_out() {
    let mut setup = past(SimulatorOptions::default()).await;
    setup.config.comments = 5;
    let source = setup.guarded();
    let ids = vec![ItemId(7001), ItemId(7003)];
    let then = source.as_of(ids.clone(), day(6)).await.unwrap().unwrap();
    assert_eq!(then.len(), 2);
    assert!(then.iter().all(|past| past.text == PastText::OfThatTime));
    assert_eq!(then[0].item.texts[0].raw, "<p>The first text.</p>");
    assert_eq!(then[0].item.state, "Active");
    let said: Vec<&str> =
        then[0].item.comments.iter().map(|comment| comment.raw.as_str()).collect();
    assert_eq!(said, ["It happens on Mondays."]);
    let now = source.as_of(ids.clone(), day(9)).await.unwrap().unwrap();
    assert_eq!(now[0].item.texts[0].raw, "<p>The cause was in tariff.rs.</p>");
    assert_eq!(now[0].item.comments.len(), 2);
    let before_the_second = source.as_of(ids, day(3)).await.unwrap().unwrap();
    assert_eq!(before_the_second.len(), 1, "one did not exist yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_to_commits_and_pull_requests_are_read() {
    let setup = past(SimulatorOptions::default()).await;
    let ids = vec![ItemId(7001), ItemId(7002), ItemId(7003), ItemId(9999)];
    let links = setup.guarded().development_links(ids).await.unwrap().unwrap();
    let expected = [
        (ItemId(7001), DevelopmentLink::Commit(COMMIT.to_owned())),
        (ItemId(7002), DevelopmentLink::PullRequest(21)),
    ];
    assert_eq!(links, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_items_than_one_answer_holds_are_all_found() {
    // A server that returns at most 40 rows, as the service returns 20,000.
    let setup = past(SimulatorOptions { row_limit: 40, ..SimulatorOptions::default() }).await;
    for id in 8000..8150 {
        let fields = [("System.Title", json!("Many")), ("System.State", json!("Closed"))];
        setup.simulator.add_past_item(id, day(10), &fields);
    }
    let found = setup.guarded().finished(finished(false)).await.unwrap().unwrap();
    assert_eq!(found.len(), 152);
    assert!(found.is_sorted_by_key(|item| item.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_back_respects_the_breaker_and_tells_it_of_failures() {
    let setup = past(SimulatorOptions::default()).await;
    setup.simulator.set_faults([Fault::Denied403.into()]);
    let source = setup.guarded();
    let error = source.finished(finished(false)).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Denied);
    let before = setup.simulator.requests();
    let error = source.finished(finished(false)).await.unwrap_err();
    assert_eq!(error.class, FailureClass::BreakerOpen);
    assert_eq!(setup.simulator.requests(), before);
}
