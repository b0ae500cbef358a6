//! Writes a finding to its issue.

use heartbeat::fetch::{FetchRequest, FieldChange, FieldWrite, WriteBack};
use heartbeat::model::{FailureClass as Class, Field, Format, ItemId};
use simulators::jira::{ActiveFault, FIRST_ID, Fault, SimulatorOptions};

use super::setup::Setup;
use crate::fetch::setup::read_all;

const COMMENT: &str = "## Likely cause\n\nThe route takes the first event for granted, [~ann].";

fn write(setup: &Setup) -> WriteBack<'static> {
    WriteBack {
        may_be_there: false,
        id: ItemId(FIRST_ID),
        rev: setup.simulator.revision(FIRST_ID).unwrap(),
        comment: COMMENT,
        format: Format::Markdown,
        tag: "heart beat",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_comment_and_a_label_are_written_once_and_do_not_requeue_the_item() {
    for options in Setup::both(SimulatorOptions::default()) {
        let mut setup = Setup::new(options).await;
        setup.config.comments = 5;
        setup.config.write_back_tag = "heart beat".to_owned();
        let one = |setup: &Setup| {
            let (source, now) = (setup.source(), Some(setup.clock.now()));
            let request = FetchRequest { changed_since: now, also: vec![ItemId(FIRST_ID)] };
            async move { read_all(&source, request).await.unwrap()[0].items[0].clone() }
        };
        let before = one(&setup).await;
        let written = setup.source().write_back(&write(&setup)).await.unwrap();
        assert!(!written.repeated);
        assert_eq!(Some(written.rev), setup.simulator.revision(FIRST_ID), "seen as our own");
        assert!(setup.simulator.labels(FIRST_ID).contains(&"heart-beat".to_owned()));
        let comments = setup.simulator.comments(FIRST_ID);
        assert_eq!(comments.len(), 1);
        assert!(comments[0].contains("first event for granted"), "{comments:?}");
        assert!(comments[0].contains("heartbeat ref "), "{comments:?}");
        let after = one(&setup).await;
        assert_eq!(
            (after.tags, after.comments, after.texts),
            (before.tags, before.comments, before.texts)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_recognised_and_not_repeated() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let first = write(&setup);
        let lost =
            ActiveFault { on: Some("comment".into()), times: Some(1), ..Fault::LostAnswer.into() };
        setup.simulator.set_faults([lost]);
        let error = setup.source().write_back(&first).await.unwrap_err();
        assert_eq!(error.class, Class::Transient);
        assert_eq!(setup.simulator.comments(FIRST_ID).len(), 1, "it arrived");
        let rev_of_comment = setup.simulator.revision(FIRST_ID).unwrap();
        // Another user edits the item; then the same finding again, as the outbox does: ours is
        // recognised, and the edit counts as another user's.
        setup.simulator.edit(FIRST_ID, "edited");
        let again = WriteBack { may_be_there: true, ..first };
        let written = setup.source().write_back(&again).await.unwrap();
        assert_eq!((written.repeated, written.rev), (true, rev_of_comment));
        assert_eq!(setup.simulator.comments(FIRST_ID).len(), 1);
        assert!(setup.simulator.labels(FIRST_ID).contains(&"heart-beat".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issue_that_moved_on_is_a_conflict_and_one_that_is_gone_is_reported() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let stale = write(&setup);
        setup.simulator.edit(FIRST_ID, "edited");
        let error = setup.source().write_back(&stale).await.unwrap_err();
        assert_eq!(error.class, Class::Conflict, "{error}");
        assert!(setup.simulator.comments(FIRST_ID).is_empty());
        setup.simulator.delete(FIRST_ID);
        assert_eq!(setup.source().write_back(&stale).await.unwrap_err().class, Class::Gone);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported_before_and_after() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let write = write(&setup);
        setup.source().validate_write_back(&write).await.unwrap();
        assert!(setup.simulator.comments(FIRST_ID).is_empty(), "nothing is changed");
        setup.simulator.permit(false, false);
        let error = setup.source().validate_write_back(&write).await.unwrap_err();
        assert_eq!(error.class, Class::Denied);
        assert!(error.message.contains("ADD_COMMENTS and EDIT_ISSUES"), "{error}");
        let error = setup.source().write_back(&write).await.unwrap_err();
        assert_eq!(error.class, Class::Denied);
        assert!(error.message.contains("write:jira-work"), "{error}");
        // A refused label does not remove the comment.
        setup.simulator.permit(true, false);
        setup.source().write_back(&write).await.unwrap();
        assert_eq!(setup.simulator.comments(FIRST_ID).len(), 1);
        assert!(!setup.simulator.labels(FIRST_ID).contains(&"heart-beat".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_findings_fit_and_our_own_credential_is_never_written() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let long = "Words with *signs* and [brackets] in {braces}.\n\n".repeat(2_000);
        let written =
            setup.source().write_back(&WriteBack { comment: &long, ..write(&setup) }).await;
        written.unwrap();
        assert!(setup.simulator.comments(FIRST_ID)[0].contains("shortened"));
        let sent = setup.simulator.requests();
        let secret = WriteBack { comment: "found not-a-secret in the log", ..write(&setup) };
        let error = setup.source().write_back(&secret).await.unwrap_err();
        assert!(error.message.contains("contains the tracker's credential"), "{error}");
        assert_eq!(setup.simulator.requests(), sent);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_written_once_and_taken_back() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let labels = setup.simulator.labels(FIRST_ID);
        let change = FieldChange {
            field: Field::Tags,
            expected: String::new(),
            value: "cart".to_owned(),
            remove: false,
        };
        let write = FieldWrite { id: ItemId(FIRST_ID), changes: vec![change.clone()] };
        let written = setup.source().set_fields(&write).await.unwrap();
        assert_eq!(
            (Some(written.rev), written.repeated),
            (setup.simulator.revision(FIRST_ID), false)
        );
        assert!(setup.simulator.labels(FIRST_ID).contains(&"cart".to_owned()));
        assert!(setup.source().set_fields(&write).await.unwrap().repeated, "nothing twice");
        let back = FieldWrite { changes: vec![change.reversed()], ..write.clone() };
        setup.source().set_fields(&back).await.unwrap();
        assert_eq!(setup.simulator.labels(FIRST_ID), labels);
        let owner = FieldChange { field: Field::Owner, value: "Ann".to_owned(), ..change };
        let refused = FieldWrite { changes: vec![owner], ..write };
        let error = setup.source().set_fields(&refused).await.unwrap_err();
        assert!(error.message.contains("cannot be written"), "{error}");
    }
}
