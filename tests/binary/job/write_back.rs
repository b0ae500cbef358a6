//! Findings written to the work items: enabled by configuration, written once, creating no work.

use super::world::{Running, World, code, text};

/// The tracker is a separate process, so that it outlives one run.
fn config(world: &World, address: &str, more: &str) {
    std::fs::create_dir_all(world.path().join("code")).unwrap();
    std::fs::write(world.path().join("code/total.rs"), "fn total() {}\n").unwrap();
    let agent = super::world::HEARTBEAT;
    let text = format!(
        "[source]\nbase_url = \"{address}\"\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
         write_back = true\nwrite_back_tag = \"seen-by-heartbeat\"\n\
         [repository]\npath = \"code\"\n\
         [agent]\ncommand = [\"{agent}\", \"simulate\", \"agent\"]\n\
         [verify]\nwrite_back_unproven = true\n\
         [limits]\nmax_deep_per_run = 2\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n{more}"
    );
    std::fs::write(world.path().join("heartbeat.toml"), text).unwrap();
}

fn heartbeat(world: &World, args: &[&str]) -> (i32, String) {
    let output = world.heartbeat(args).env("AZURE_DEVOPS_PAT", "right").output().unwrap();
    (code(&output), text(&output))
}

#[test]
fn a_finding_is_written_once_and_our_own_write_does_not_requeue_the_item() {
    let world = World::new(0);
    let simulator = Running::start(world.simulator(&["--token", "right"]));
    config(&world, &simulator.first_line(), "");
    let (code, told) = heartbeat(&world, &["--dry-run"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("Write-back: the tracker would accept a comment"), "{told}");
    let (code, told) = heartbeat(&world, &["--once"]);
    assert_eq!(code, 0, "{told}");
    let written = "SELECT count(*) FROM events WHERE event = 'finding_published'";
    assert_eq!(world.figure(written), 2, "{told}");
    assert_eq!(world.figure("SELECT count(*) FROM events WHERE event = 'publish_failed'"), 0);
    let kept = "SELECT count(*) FROM heartbeat_state s JOIN findings f USING (key)
                WHERE s.revision = f.revision + 1";
    assert_eq!(world.figure(kept), 2, "the revision we made is one we have seen");
    // The next runs finish the backlog; items with our comment are never work again.
    for _ in 0..8 {
        heartbeat(&world, &["--once"]);
    }
    let doubled =
        "SELECT count(*) FROM (SELECT key FROM findings GROUP BY key HAVING count(*) > 1)";
    assert_eq!(world.figure(doubled), 0, "no item was analysed because of our own comment");
    assert_eq!(world.figure(written), world.figure("SELECT count(*) FROM findings"));
}

/// Changes an item's iteration, over the simulator's own interface.
fn move_item(address: &str, id: i64) {
    use std::io::{Read, Write};
    let host = address.split('/').nth(2).unwrap();
    let body = "{\"System.IterationPath\": \"Parcel\\\\Later\"}";
    let request = format!(
        "PATCH /_simulator/items/{id} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Our own tag is not a change of an item, even where tags are watched: a later edit that leaves
/// the text unchanged does not count as one either.
#[test]
fn our_own_tag_does_not_requeue_the_item_where_tags_are_watched() {
    let world = World::new(0);
    let simulator = Running::start(world.simulator(&["--token", "right"]));
    let address = simulator.first_line();
    config(&world, &address, "[dedupe]\nwatch = [\"tags\"]\n");
    let (code, told) = heartbeat(&world, &["--once"]);
    assert_eq!(code, 0, "{told}");
    let findings = "SELECT count(*) FROM findings";
    assert_eq!(world.figure(findings), 2, "{told}");
    // Only these two items are moved.
    let ids: Vec<i64> = {
        let database = world.database();
        let mut rows = database.prepare("SELECT key FROM findings").unwrap();
        let keys = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
        keys.map(|key| key.unwrap().rsplit('/').next().unwrap().parse().unwrap()).collect()
    };
    for id in ids {
        move_item(&address, id);
    }
    for _ in 0..8 {
        heartbeat(&world, &["--once"]);
    }
    let doubled =
        "SELECT count(*) FROM (SELECT key FROM findings GROUP BY key HAVING count(*) > 1)";
    assert_eq!(world.figure(doubled), 0, "an item was analysed again because of our own tag");
}
