//! Context of a Jira issue: parent, sub-tasks, links, attached files.

use heartbeat::fetch::Source as _;
use heartbeat::model::{Attachment, ItemId, LinkKind, LinkedContent};
use heartbeat::simulate::StoredFile;
use simulators::jira::SimulatorOptions;

use super::setup::Setup;

async fn around(setup: &Setup, id: i64) -> LinkedContent {
    setup.source().linked_content(ItemId(id)).await.unwrap().unwrap()
}

#[tokio::test]
async fn links_come_with_titles_and_a_parent_with_its_words() {
    for options in Setup::both(SimulatorOptions::default()) {
        let setup = Setup::new(options).await;
        let simulator = &setup.simulator;
        let add = |summary: &str| simulator.add_issue(summary, "Checkout *must* not lose a cent.");
        let ids = ["Total is wrong", "Checkout", "Round", "Cents are lost", "Slow"].map(add);
        let [own, parent, child, twin, blocker] = ids;
        simulator.set_parent(own, parent);
        simulator.set_parent(child, own);
        // A cycle.
        simulator.set_parent(parent, child);
        simulator.link(twin, "Duplicate", own);
        simulator.link(own, "Blocks", blocker);
        simulator.link(own, "Relates", own);
        let before = simulator.requests();
        let found = around(&setup, own).await;
        let links: Vec<_> = found.items.iter().map(|item| (item.kind, item.id)).collect();
        let expected = [
            (LinkKind::Parent, parent),
            (LinkKind::Duplicate, twin),
            (LinkKind::Child, child),
            (LinkKind::Other, blocker),
        ];
        assert_eq!(links, expected.map(|(kind, id)| (kind, Some(ItemId(id)))));
        assert_eq!(found.items[0].title.as_deref(), Some("Checkout"));
        assert!(found.items[0].text.as_ref().unwrap().raw.contains("lose a cent"));
        assert!(found.items[0].name().starts_with("PARCEL-"), "{}", found.items[0].name());
        assert!(found.items[0].url.contains("/browse/PARCEL-"), "{}", found.items[0].url);
        assert!(simulator.requests() - before <= 5, "titles come with the issue");
        assert_eq!(setup.source().linked_content(ItemId(999_999)).await.unwrap(), None, "gone");
    }
}

#[tokio::test]
async fn ten_thousand_links_stay_within_bounds() {
    let setup = Setup::new(SimulatorOptions::default()).await;
    let own = setup.simulator.add_issue("Total is wrong", "");
    let others: Vec<i64> = (0..300).map(|_| setup.simulator.add_issue("Other", "text")).collect();
    for other in others.iter().cycle().take(10_000) {
        setup.simulator.link(own, "Relates", *other);
    }
    let found = around(&setup, own).await;
    assert_eq!((found.items.len(), found.left_out), (20, 280), "each once");
}

#[tokio::test]
async fn files_are_named_for_triage_and_read_from_the_own_address_only() {
    for options in Setup::both(SimulatorOptions::default()) {
        let is_cloud = options.is_cloud;
        let setup = Setup::new(options).await;
        let simulator = &setup.simulator;
        let own = simulator.add_issue("Total is wrong", "See the screen.");
        simulator.attach(own, "../../x", StoredFile::Bytes(vec![7; 500]));
        simulator.attach(own, "b.png", StoredFile::Redirect("https://evil.test/b.png".into()));
        let source = setup.source();
        let named = source.attached_files(vec![ItemId(own)]).await.unwrap().unwrap();
        let names: Vec<_> =
            named.iter().map(|(id, file)| (id.0, file.name.as_str(), file.size)).collect();
        assert_eq!(names, [(own, "../../x", Some(500)), (own, "b.png", Some(1))]);
        let files = around(&setup, own).await.files;
        assert_eq!(source.attachment(files[0].clone(), 500).await.unwrap(), vec![7; 500]);
        let base = simulator.base_url();
        for (address, word) in [
            (files[1].address.clone(), "evil.test, which is not followed"),
            ("https://evil.test/secure/attachment/1/a.png".to_owned(), "on another host"),
            (format!("{base}/rest/api/2/myself"), "not one of the tracker's"),
            (files[0].address.replace(&own.to_string(), "999"), "answered 404"),
        ] {
            let file = Attachment { name: "a.png".into(), address: address.clone(), size: None };
            let error = source.attachment(file, 500).await.unwrap_err();
            assert!(error.message.contains(word), "{is_cloud} {address}: {}", error.message);
        }
        let error = source.attachment(files[0].clone(), 499).await.unwrap_err();
        assert!(error.message.contains("larger than 499 bytes"), "{}", error.message);
    }
}
