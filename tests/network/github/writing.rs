//! Comments and labels: written once, with a mark; refusals are reported.

use heartbeat::fetch::{FieldChange, FieldWrite, Source as _, WriteBack};
use heartbeat::model::{FailureClass, Field, Format, ItemId};
use simulators::github::{ActiveFault, Fault, LIBRARY, REPOSITORY};

use super::setup::{Setup, also};
use crate::fetch::setup::everything;

async fn write(
    setup: &Setup,
    number: i64,
    may_be_there: bool,
) -> Result<(i64, bool), FailureClass> {
    let states = setup.source().current_states(also(&[number]).also).await.unwrap().unwrap();
    let rev = states.first().map_or(0, |state| state.rev);
    let write = WriteBack {
        id: ItemId(number),
        rev,
        comment: "**Likely cause**: the list is empty",
        format: Format::Markdown,
        tag: "heartbeat",
        may_be_there,
    };
    let written = setup.source().write_back(&write).await;
    written.map(|written| (written.rev, written.repeated)).map_err(|error| error.class)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_and_a_label_are_written_once_and_are_no_news_to_us() {
    let mut setup = Setup::of(24).await;
    setup.config.comments = 5;
    let before = item(&setup, 1).await;
    let (rev, repeated) = write(&setup, 1, false).await.unwrap();
    assert!(!repeated);
    let updated = setup.simulator.updated(REPOSITORY, 1).unwrap();
    assert_eq!(rev, updated.as_millisecond(), "our own write is what was last seen");
    let comments = setup.simulator.comments(REPOSITORY, 1);
    assert!(comments.len() == 1 && comments[0].contains("<!-- heartbeat ref "), "{comments:?}");
    assert!(setup.simulator.labels(REPOSITORY, 1).contains(&"heartbeat".to_owned()));
    // An earlier attempt that arrived is recognised; an existing label is not set again.
    let labels = setup.simulator.requests_of("label");
    assert!(write(&setup, 1, true).await.unwrap().1);
    assert_eq!(setup.simulator.comments(REPOSITORY, 1).len(), 1);
    assert_eq!(setup.simulator.requests_of("label"), labels);
    let after = item(&setup, 1).await;
    assert_eq!((after.comments, after.tags), (before.comments, before.tags), "nothing woke us");
}

async fn item(setup: &Setup, number: i64) -> heartbeat::model::WorkItem {
    let source = setup.source();
    let pages = crate::fetch::setup::read_all(&source, everything()).await.unwrap();
    let mut items = pages.into_iter().flat_map(|page| page.items);
    items.find(|item| item.id.0 == number).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_recognised_and_not_repeated() {
    let setup = Setup::of(24).await;
    let lost = ActiveFault { on: Some("comment".into()), times: Some(1), fault: Fault::LostAnswer };
    setup.simulator.set_faults([lost]);
    assert_eq!(write(&setup, 2, false).await, Err(FailureClass::Transient));
    assert_eq!(setup.simulator.comments(REPOSITORY, 2).len(), 1, "it had arrived");
    assert!(write(&setup, 2, true).await.unwrap().1);
    assert_eq!(setup.simulator.comments(REPOSITORY, 2).len(), 1);
    assert!(setup.simulator.labels(REPOSITORY, 2).contains(&"heartbeat".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_is_reported_by_its_class() {
    let setup = Setup::of(24).await;
    setup.read(everything()).await;
    let simulator = &setup.simulator;
    simulator.lock_issue(REPOSITORY, 3);
    assert_eq!(write(&setup, 3, false).await, Err(FailureClass::Denied));
    simulator.delete(REPOSITORY, 4);
    assert_eq!(write(&setup, 4, false).await, Err(FailureClass::Gone));
    simulator.transfer(REPOSITORY, 5, LIBRARY);
    assert_eq!(write(&setup, 5, false).await, Err(FailureClass::Gone));
    let closed = WriteBack {
        id: ItemId(6),
        rev: 1,
        comment: "late",
        format: Format::Markdown,
        tag: "",
        may_be_there: false,
    };
    simulator.close(REPOSITORY, 6);
    let error = setup.source().write_back(&closed).await.unwrap_err();
    assert_eq!(error.class, FailureClass::Conflict);
    // Validation finds the same without writing.
    let locked = WriteBack { id: ItemId(3), ..closed };
    assert_eq!(
        setup.source().validate_write_back(&locked).await.unwrap_err().class,
        FailureClass::Denied
    );
    simulator.archive(REPOSITORY);
    assert_eq!(write(&setup, 7, false).await, Err(FailureClass::Denied));
    let secret = WriteBack { comment: "it is ghp_not_a_secret", id: ItemId(8), ..closed };
    assert_eq!(setup.source().write_back(&secret).await.unwrap_err().class, FailureClass::Denied);
    assert_eq!(simulator.requests_of("comment"), 2, "locked and archived; the rest was not sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_is_dropped_for_want_of_rights_does_not_undo_the_comment() {
    let setup = Setup::of(24).await;
    setup
        .simulator
        .set_faults([ActiveFault { on: Some("label".into()), ..Fault::NoLabels.into() }]);
    write(&setup, 1, false).await.unwrap();
    assert_eq!(setup.simulator.comments(REPOSITORY, 1).len(), 1);
    assert!(!setup.simulator.labels(REPOSITORY, 1).contains(&"heartbeat".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_follows_a_repository_to_its_new_name() {
    let setup = Setup::of(24).await;
    setup.read(everything()).await;
    setup.simulator.rename(REPOSITORY, "parcel/renamed");
    write(&setup, 1, false).await.unwrap();
    assert_eq!(setup.simulator.comments("parcel/renamed", 1).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_and_the_assignee_are_written_once_and_taken_back() {
    let setup = Setup::of(24).await;
    let change = |field, value: &str| FieldChange {
        field,
        expected: String::new(),
        value: value.to_owned(),
        remove: false,
    };
    let changes = vec![change(Field::Tags, "cart"), change(Field::Owner, "ann")];
    let write = FieldWrite { id: ItemId(1), changes };
    let labels = setup.simulator.labels(REPOSITORY, 1);
    let written = setup.source().set_fields(&write).await.unwrap();
    let updated = setup.simulator.updated(REPOSITORY, 1).unwrap();
    assert_eq!((written.rev, written.repeated), (updated.as_millisecond(), false));
    assert!(setup.simulator.labels(REPOSITORY, 1).contains(&"cart".to_owned()));
    assert_eq!(item(&setup, 1).await.assigned_to.as_deref(), Some("ann"));
    assert!(setup.source().set_fields(&write).await.unwrap().repeated, "nothing twice");
    assert_eq!(setup.simulator.updated(REPOSITORY, 1), Some(updated));
    let changes = write.changes.iter().map(FieldChange::reversed).collect();
    setup.source().set_fields(&FieldWrite { changes, ..write.clone() }).await.unwrap();
    assert_eq!(setup.simulator.labels(REPOSITORY, 1), labels);
    assert_eq!(item(&setup, 1).await.assigned_to, None);
    let area = FieldWrite { changes: vec![change(Field::Severity, "high")], ..write };
    let error = setup.source().set_fields(&area).await.unwrap_err();
    assert!(error.message.contains("cannot be written"), "{error}");
}
