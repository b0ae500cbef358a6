//! Context of a GitHub issue: links, code changes, files in its texts.

use heartbeat::fetch::Source as _;
use heartbeat::model::{Attachment, ChangeKind, ItemId, LinkKind, LinkedContent, LinkedItem};
use heartbeat::simulate::{StoredCommit, StoredFile};
use simulators::github::{LIBRARY, REPOSITORY, Simulator};

use super::setup::Setup;

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

async fn around(setup: &Setup, number: i64) -> LinkedContent {
    setup.source().linked_content(ItemId(number)).await.unwrap().unwrap()
}

fn issue(simulator: &Simulator, repository: &str, title: &str) -> i64 {
    simulator.add_issue(repository, title, "Checkout **must** not lose a cent.", &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn links_come_with_titles_and_changes_with_their_files() {
    let setup = Setup::of(8).await;
    let simulator = &setup.simulator;
    let [own, parent, child] =
        ["Total is wrong", "Checkout", "Round"].map(|title| issue(simulator, REPOSITORY, title));
    let elsewhere = issue(simulator, LIBRARY, "Cents are lost");
    // A cycle of parents, and an issue that mentions itself.
    simulator.set_parent((REPOSITORY, own), (REPOSITORY, parent));
    simulator.set_parent((REPOSITORY, child), (REPOSITORY, own));
    simulator.set_parent((REPOSITORY, parent), (REPOSITORY, child));
    simulator.refer((REPOSITORY, own), (REPOSITORY, own));
    simulator.refer((REPOSITORY, own), (LIBRARY, elsewhere));
    let request = simulator.add_pull_request(REPOSITORY, "Round once", &["src/total.rs"]);
    simulator.refer((REPOSITORY, own), (REPOSITORY, request));
    let commit =
        StoredCommit { message: "Round\n\nmore".into(), files: vec!["src/cart.rs".into()] };
    simulator.close_by_commit(REPOSITORY, own, HASH, commit);

    let found = around(&setup, own).await;
    let links: Vec<_> = found.items.iter().map(|item| (item.kind, item.name(), item.id)).collect();
    let name = |repository: &str, number: i64| format!("{repository}#{number}");
    let expected = [
        (LinkKind::Parent, name(REPOSITORY, parent), Some(ItemId(parent))),
        (LinkKind::Child, name(REPOSITORY, child), Some(ItemId(child))),
        (LinkKind::Related, name(LIBRARY, elsewhere), None),
    ];
    assert_eq!(links, expected, "one of another repository has no number here");
    assert!(found.items[0].text.as_ref().unwrap().raw.contains("lose a cent"));
    assert_eq!(found.items[2].title.as_deref(), Some("Cents are lost"));
    let mut changes = Vec::new();
    for change in found.changes {
        changes.push(setup.source().change(change).await.unwrap());
    }
    let told: Vec<_> = changes
        .iter()
        .map(|change| (change.kind, change.title.as_str(), change.files.join(",")))
        .collect();
    let expected = [
        (ChangeKind::PullRequest, "Round once", "src/total.rs".to_owned()),
        (ChangeKind::Commit, "Round", "src/cart.rs".to_owned()),
    ];
    assert_eq!(told, expected);
    assert_eq!(changes[0].state, "open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_may_not_be_read_is_reported_by_its_name() {
    let setup = Setup::of(8).await;
    let own = issue(&setup.simulator, REPOSITORY, "Total is wrong");
    setup.simulator.set_parent((REPOSITORY, own), ("contoso/secret", 7));
    let found = around(&setup, own).await;
    let [parent] = &found.items[..] else { panic!("{:?}", found.items) };
    assert_eq!((parent.name(), &parent.title), ("contoso/secret#7".to_owned(), &None));
    assert_eq!(setup.source().linked_content(ItemId(999_999)).await.unwrap(), None, "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_references_stay_within_bounds() {
    let setup = Setup::of(8).await;
    let own = issue(&setup.simulator, REPOSITORY, "Total is wrong");
    let others: Vec<i64> = (0..1_500).map(|_| issue(&setup.simulator, LIBRARY, "Other")).collect();
    for other in others.iter().cycle().take(10_000) {
        setup.simulator.refer((REPOSITORY, own), (LIBRARY, *other));
    }
    let before = setup.simulator.requests();
    let found = around(&setup, own).await;
    assert_eq!(found.items.len(), 20);
    assert!(found.items.iter().all(|item: &LinkedItem| item.title.is_some()));
    assert!(setup.simulator.requests() - before <= 12, "bounded requests");
}

fn file(address: &str) -> Attachment {
    Attachment { name: "a.png".into(), address: address.into(), size: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_from_the_services_own_address_and_its_store_gets_no_credential() {
    let setup = Setup::of(8).await;
    let simulator = &setup.simulator;
    let own = issue(simulator, REPOSITORY, "Total is wrong");
    let stored = simulator.keep_file("media/1/a.png", StoredFile::Bytes(vec![7; 500]));
    let shown = simulator.keep_file("user-attachments/assets/0a", StoredFile::Redirect(stored));
    let log = simulator.keep_file("user-attachments/files/1/a.log", StoredFile::Bytes(vec![65; 9]));
    let astray = StoredFile::Redirect("https://evil.test/a.png".into());
    let astray = simulator.keep_file("user-attachments/assets/0b", astray);
    let body = format!(
        "![the screen]({shown}) and [a.log]({log}), [docs](https://example.test/docs) \
         ![other](https://example.test/b.png)"
    );
    simulator.set_body(REPOSITORY, own, &body);
    let files = around(&setup, own).await.files;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["the screen", "a.log", "b.png"], "a link to a page is no file");
    let source = setup.source();
    let picture = source.attachment(files[0].clone(), 500).await.unwrap();
    assert_eq!(picture, vec![7; 500], "the store refuses who brings a credential");
    assert_eq!(source.attachment(files[1].clone(), 500).await.unwrap(), vec![65; 9]);
    let base = simulator.base_url();
    for (address, word) in [
        (files[2].address.as_str(), "on another host"),
        (&astray, "evil.test, which is not followed"),
        (&format!("{base}/user"), "not one of the tracker's"),
        ("not an address", "not valid"),
        (&shown.replace("0a", "0c"), "answered 404"),
    ] {
        let error = source.attachment(file(address), 500).await.unwrap_err();
        assert!(error.message.contains(word), "{address}: {}", error.message);
    }
    let error = source.attachment(files[0].clone(), 499).await.unwrap_err();
    assert!(error.message.contains("larger than 499 bytes"), "{}", error.message);
}
