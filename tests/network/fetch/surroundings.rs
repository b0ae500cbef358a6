//! Context of an item: links, code changes, attached files; and every way in which they could do
//! harm.

use std::sync::Arc;

use heartbeat::fetch::Source as _;
use heartbeat::model::{Attachment, ItemId, LinkKind, LinkedContent};
use heartbeat::simulate::ado::{SimulatorOptions, StoredCommit, StoredFile, StoredRequest};
use serde_json::json;

use super::canned::{Canned, Request};
use super::setup::Setup;

async fn around(setup: &Setup, id: i64) -> LinkedContent {
    setup.source().linked_content(ItemId(id)).await.unwrap().unwrap()
}

/// An item without links.
fn fresh(setup: &Setup) -> i64 {
    setup.simulator.add_item(&[("System.Title", json!("Total is wrong"))])
}

fn file(name: &str, address: &str) -> Attachment {
    Attachment { name: name.to_owned(), address: address.to_owned(), size: None }
}

const HASH: &str = "0123456789abcdef0123456789abcdef01234567";

#[tokio::test]
async fn links_come_with_titles_and_changes_with_their_files() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let simulator = &setup.simulator;
    let ids = simulator.item_ids();
    let (own, parent, child, related, twin) = (fresh(&setup), ids[1], ids[2], ids[3], ids[4]);
    let description = json!("<p>Checkout <b>must</b> not lose a cent.</p>");
    simulator.edit_item(
        parent,
        &[("System.Title", json!("Checkout")), ("System.Description", description)],
    );
    simulator.edit_item(own, &[("System.Parent", json!(parent))]);
    simulator.edit_item(child, &[("System.Parent", json!(own))]);
    // A cycle, and a link to the item itself.
    simulator.edit_item(parent, &[("System.Parent", json!(child))]);
    simulator.link_items(own, "System.LinkTypes.Related", related);
    simulator.link_items(own, "System.LinkTypes.Related", own);
    simulator.link_items(twin, "System.LinkTypes.Duplicate-Forward", own);
    let files = vec!["src/total.rs".to_owned()];
    simulator.link_commit(own, HASH, StoredCommit { message: "Round once\n\nmore".into(), files });
    let merged = Some(HASH.to_owned());
    let request =
        StoredRequest { title: "Try banker's rounding".into(), status: "abandoned".into(), merged };
    simulator.link_pull_request(own, 17, request);
    simulator.link(own, "Hyperlink", "https://example.test", json!({}));
    let elsewhere = "https://dev.azure.com/fabrikam/_apis/wit/workItems/12";
    simulator.link(own, "System.LinkTypes.Remote.Related", elsewhere, json!({}));

    let found = around(&setup, own).await;
    let mut found = found;
    let remote = found.items.pop().unwrap();
    assert_eq!((remote.id, remote.name(), remote.title), (None, "fabrikam#12".to_owned(), None));
    let links: Vec<_> = found.items.iter().map(|item| (item.kind, item.id.unwrap().0)).collect();
    let expected = [
        (LinkKind::Parent, parent),
        (LinkKind::Duplicate, twin),
        (LinkKind::Child, child),
        (LinkKind::Related, related),
    ];
    assert_eq!(links, expected);
    assert_eq!(found.items[0].title.as_deref(), Some("Checkout"));
    assert!(found.items[0].text.as_ref().unwrap().raw.contains("lose a cent"));
    assert!(found.items[1..].iter().all(|item| item.title.is_some() && item.text.is_none()));
    assert_eq!(found.left_out, 1, "the page on the web");
    let mut changes = Vec::new();
    for change in found.changes {
        changes.push(setup.source().change(change).await.unwrap());
    }
    assert_eq!(
        (changes[0].title.as_str(), &changes[0].files[..]),
        ("Round once", &["src/total.rs".to_owned()][..])
    );
    assert_eq!(
        (changes[1].title.as_str(), changes[1].state.as_str()),
        ("Try banker's rounding", "abandoned")
    );
    assert_eq!(changes[1].files, ["src/total.rs"]);
}

#[tokio::test]
async fn a_parent_that_may_not_be_read_and_ten_thousand_links_are_reported_within_bounds() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let own = fresh(&setup);
    setup.simulator.edit_item(own, &[("System.Parent", json!(999_999))]);
    for other in 0..10_000 {
        setup.simulator.link_items(own, "System.LinkTypes.Related", 1_000_000 + other);
    }
    let before = setup.simulator.requests();
    let found = around(&setup, own).await;
    assert_eq!((found.items[0].kind, &found.items[0].title), (LinkKind::Parent, &None));
    assert_eq!((found.items.len(), found.left_out), (20, 9_981));
    assert!(setup.simulator.requests() - before <= 3, "bounded requests");
}

#[tokio::test]
async fn files_of_relations_and_of_texts_are_listed_once_and_read_within_their_limit() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let own = fresh(&setup);
    let address = setup.simulator.attach(own, "../../x", StoredFile::Bytes(vec![7; 5_000]));
    let shown = format!(
        "<img alt='a' src=\"{address}&amp;download=true\"><img src='https://other.test/a.png'>"
    );
    setup.simulator.edit_item(own, &[("System.Description", json!(shown))]);
    let found = around(&setup, own).await;
    let names: Vec<_> = found.files.iter().map(|file| (file.name.as_str(), file.size)).collect();
    assert_eq!(names, [("../../x", Some(5_000)), ("a.png", None)]);
    let source = setup.source();
    assert_eq!(source.attachment(found.files[0].clone(), 5_000).await.unwrap(), vec![7; 5_000]);
    let error = source.attachment(found.files[0].clone(), 4_999).await.unwrap_err();
    assert!(error.message.contains("larger than 4999 bytes"), "{}", error.message);
}

#[tokio::test]
async fn names_and_sizes_of_many_items_files_take_one_request() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let (one, other, bare) = (fresh(&setup), fresh(&setup), fresh(&setup));
    for (id, name, size) in [(one, "a.png", 3), (other, "b.log", 5_000), (other, "../../x", 7)] {
        setup.simulator.attach(id, name, StoredFile::Bytes(vec![7; size]));
    }
    let source = setup.source();
    source.attached_files(vec![ItemId(one)]).await.unwrap();
    let before = setup.simulator.requests();
    let ids = [one, other, bare, 999_999].map(ItemId).to_vec();
    let files = source.attached_files(ids).await.unwrap().unwrap();
    let named: Vec<_> =
        files.iter().map(|(id, file)| (id.0, file.name.as_str(), file.size)).collect();
    let expected =
        [(one, "a.png", Some(3)), (other, "b.log", Some(5_000)), (other, "../../x", Some(7))];
    assert_eq!(named, expected);
    assert_eq!(setup.simulator.requests() - before, 1);
}

#[tokio::test]
async fn the_credential_goes_to_no_other_address() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let stranger = Canned::start(Arc::new(|_: &Request| {
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".to_vec()
    }))
    .await;
    let own = fresh(&setup);
    let elsewhere = format!("{}/_apis/wit/attachments/1?fileName=a.png", stranger.base_url);
    let redirects = setup.simulator.attach(own, "a.png", StoredFile::Redirect(elsewhere.clone()));
    let base = setup.simulator.base_url();
    let host = base.strip_prefix("http://").unwrap();
    let source = setup.source();
    for (address, word) in [
        (elsewhere.clone(), "on another host"),
        (redirects, "not followed"),
        (format!("http://user@{host}/_apis/wit/attachments/1"), "not one of the tracker's"),
        (format!("{base}/_apis/wit/workitems/1"), "not one of the tracker's"),
        (format!("https://{host}/_apis/wit/attachments/1"), "on another host"),
        ("file:///etc/passwd".to_owned(), "on another host"),
        ("not an address".to_owned(), "not valid"),
        (format!("{base}/_apis/wit/attachments/0"), "answered 404"),
        // The request is made from an id; a reporter's path is never passed on.
        (format!("{base}/_apis/wit/attachments/unknown"), "not one of the tracker's"),
        (format!("{base}/_apis/wit/attachments/..%2F..%2Fprojects"), "not one of the tracker's"),
        (format!("{base}/_apis/wit/attachments/..;/..;/projects"), "not one of the tracker's"),
    ] {
        let error = source.attachment(file("a.png", &address), 1_000).await.unwrap_err();
        assert!(error.message.contains(word), "{address}: {}", error.message);
    }
    assert_eq!(stranger.requests.lock().unwrap().len(), 0, "nobody asked the other host");
}

#[tokio::test]
async fn a_file_of_two_gigabytes_is_not_read_past_the_limit() {
    // One states its length, the other does not and never ends.
    for head in ["Content-Length: 2147483648\r\n", "Transfer-Encoding: chunked\r\n"] {
        let answer = move |_: &Request| {
            let chunk = format!("{:x}\r\n{}\r\n", 4_000_000, "x".repeat(4_000_000));
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n{head}\r\n{chunk}"
            )
            .into_bytes()
        };
        let server = Canned::start(Arc::new(answer)).await;
        let mut setup = Setup::new(SimulatorOptions::default()).await;
        setup.config.base_url = server.base_url.clone();
        let address = format!("{}/_apis/wit/attachments/1?fileName=dump.bin", server.base_url);
        let read = setup.source().attachment(file("dump.bin", &address), 1 << 20).await;
        let error = read.unwrap_err();
        assert!(error.message.contains("larger than 1048576 bytes"), "{}", error.message);
    }
}
