//! Writes a finding to its item.

use heartbeat::fetch::{FieldChange, FieldWrite, WriteBack};
use heartbeat::model::{FailureClass as Class, Field, Format, ItemId};
use heartbeat::simulate::ado::{ActiveFault, FIRST_ID, Fault, SimulatorOptions};
use serde_json::json;

use super::setup::Setup;

const ID: i64 = FIRST_ID + 1;

fn write(rev: i64) -> WriteBack<'static> {
    WriteBack {
        may_be_there: false,
        id: ItemId(ID),
        rev,
        comment: "<p>Likely cause: the route takes the first event for granted.</p>",
        format: Format::Html,
        tag: "heartbeat",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn comment_and_tag_make_one_revision_which_is_reported() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let before = setup.simulator.comments(ID).len();
    let written = setup.source().write_back(&write(1)).await.unwrap();
    assert_eq!((written.rev, written.repeated), (2, false));
    assert_eq!(setup.simulator.revision(ID), Some(2));
    let tags = setup.simulator.field(ID, "System.Tags");
    assert_eq!(tags, json!("customer-reported; regression; tracking; heartbeat"));
    let comments = setup.simulator.comments(ID);
    assert_eq!(comments.len(), before + 1);
    assert!(comments.last().unwrap().contains("Likely cause"));
    assert_eq!(setup.simulator.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_validates_and_changes_nothing() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let comments = setup.simulator.comments(ID);
    setup.source().validate_write_back(&write(1)).await.unwrap();
    assert_eq!(setup.simulator.revision(ID), Some(1));
    assert_eq!(setup.simulator.comments(ID), comments);
    let error = setup.source().validate_write_back(&write(7)).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_recognised_and_not_repeated() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let comments = setup.simulator.comments(ID).len();
    // The write arrives, its response is lost, the retry meets the new revision.
    let lost = ActiveFault { on: Some("patch".into()), times: Some(1), ..Fault::Truncated.into() };
    setup.simulator.set_faults([lost]);
    let written = setup.source().write_back(&write(1)).await.unwrap();
    assert_eq!((written.rev, written.repeated), (2, true));
    assert_eq!(setup.simulator.comments(ID).len(), comments + 1);
    assert_eq!(setup.simulator.requests_of("patch"), 2);
    // Another user edits the item; then the same finding again, as after a crash before it was
    // stored: our revision is still the second, so the edit counts as another user's.
    setup.simulator.edit_item(ID, &[("System.Title", json!("edited"))]).unwrap();
    let again = setup.source().write_back(&write(1)).await.unwrap();
    assert_eq!((again.rev, again.repeated), (2, true));
    assert_eq!(setup.simulator.comments(ID).len(), comments + 1);
    assert_eq!(setup.simulator.revision(ID), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_moved_on_is_a_conflict_and_stays_as_it_is() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    setup.simulator.edit_item(ID, &[("System.Title", json!("edited"))]).unwrap();
    let comments = setup.simulator.comments(ID);
    let error = setup.source().write_back(&write(1)).await.unwrap_err();
    assert_eq!(error.class, Class::Conflict);
    assert_eq!(setup.simulator.comments(ID), comments);
    assert_eq!(setup.simulator.revision(ID), Some(2));
    let gone = WriteBack { id: ItemId(1), ..write(1) };
    assert_eq!(setup.source().write_back(&gone).await.unwrap_err().class, Class::Gone);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_markdown_comment_is_sent_as_one() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let write =
        WriteBack { comment: "**Likely cause**", format: Format::Markdown, tag: "", ..write(1) };
    setup.source().write_back(&write).await.unwrap();
    assert!(setup.simulator.comments(ID).last().unwrap().starts_with("**Likely cause**\n\n"));
    let tags = setup.simulator.field(ID, "System.Tags");
    assert_eq!(tags, json!("customer-reported; regression; tracking"));
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_credential_is_never_written() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let write = WriteBack { comment: "<p>found not-a-secret in the log</p>", ..write(1) };
    let error = setup.source().write_back(&write).await.unwrap_err();
    assert!(error.message.contains("contains the tracker's credential"), "{error}");
    assert!(!error.message.contains("not-a-secret"));
    assert_eq!(setup.simulator.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn writing_gives_way_when_limits_are_low_or_the_breaker_is_open() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let now = setup.clock.now();
    let later = now + jiff::SignedDuration::from_mins(3);
    let notebook = setup.source().notebook();
    let low = |remembered: &mut heartbeat::model::SourceRecord| {
        let limit = remembered.rate_limit.get_or_insert_default();
        (limit.limit, limit.remaining, limit.reset) = (Some(200), Some(19), Some(later));
    };
    notebook.update(low).await.unwrap();
    let error = setup.source().write_back(&write(1)).await.unwrap_err();
    assert_eq!((error.class, error.not_before), (Class::Throttled, Some(later)));
    let open = |remembered: &mut heartbeat::model::SourceRecord| {
        let signal = heartbeat::breaker::Signal::Failed(Class::Auth);
        remembered.breaker.record(signal, now, &heartbeat::breaker::TRACKER);
    };
    notebook.update(open).await.unwrap();
    let error = setup.source().write_back(&write(1)).await.unwrap_err();
    assert_eq!(error.class, Class::BreakerOpen);
    assert_eq!(setup.simulator.requests(), 0);
}

fn values(changes: &[(Field, &str, &str)]) -> FieldWrite {
    let change = |(field, expected, value): &(Field, &str, &str)| FieldChange {
        field: *field,
        expected: (*expected).to_owned(),
        value: (*value).to_owned(),
        remove: false,
    };
    FieldWrite { id: ItemId(ID), changes: changes.iter().map(change).collect() }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_written_in_one_revision_once_and_taken_back_exactly() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let names = ["System.AssignedTo", "System.Tags", "Microsoft.VSTS.Common.Priority"];
    for name in ["System.AssignedTo", "Microsoft.VSTS.Common.Priority"] {
        setup.simulator.edit_item(ID, &[(name, json!(null))]).unwrap();
    }
    let before = names.map(|name| setup.simulator.field(ID, name));
    let rev = setup.simulator.revision(ID).unwrap();
    let write = values(&[
        (Field::Owner, "", "Ann Lee"),
        (Field::Tags, "", "cart"),
        (Field::Priority, "", "1"),
    ]);
    let written = setup.source().set_fields(&write).await.unwrap();
    assert_eq!((written.rev, written.repeated), (rev + 1, false));
    let tags = setup.simulator.field(ID, "System.Tags");
    assert!(tags.as_str().unwrap().ends_with("; cart"), "{tags}");
    // As after a crash: nothing is written twice.
    let again = setup.source().set_fields(&write).await.unwrap();
    assert_eq!((again.rev, again.repeated), (rev + 1, true));
    let back = FieldWrite {
        changes: write.changes.iter().map(FieldChange::reversed).collect(),
        ..write.clone()
    };
    assert_eq!(setup.source().set_fields(&back).await.unwrap().rev, rev + 2);
    assert_eq!(names.map(|name| setup.simulator.field(ID, name)), before);
    // A person was faster: nothing is overwritten.
    setup.simulator.edit_item(ID, &[("System.AssignedTo", json!("Bob"))]).unwrap();
    let error = setup.source().set_fields(&write).await.unwrap_err();
    assert!(error.message.contains("changed in the meantime"), "{error}");
    assert_eq!(setup.simulator.revision(ID), Some(rev + 3));
}
