//! The agent's output is read within a memory bound, even if it was made to expand when parsed. The
//! test runs alone in a process, since it measures the peak of the whole process.

use heartbeat::session::agent::claude::stream::ClaudeDecoder;
use heartbeat::session::conversation::{Conversation, memory_bound};
use tokio::time::Instant;

const MAX_LINE: usize = 4 << 20;

/// The highest resident size so far, in bytes, since the last [`forget_peak`].
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

/// `head`, then `part` until the line is nearly too long, then `tail`.
fn long_line(head: &str, part: impl Fn(usize) -> String, tail: &str) -> Vec<u8> {
    let mut line = head.to_owned();
    for number in 0.. {
        let part = part(number);
        if line.len() + part.len() + tail.len() + 1 >= MAX_LINE {
            break;
        }
        line.push_str(&part);
    }
    line.push_str(tail);
    line.push('\n');
    line.into_bytes()
}

#[test]
fn lines_that_are_small_on_the_wire_and_large_in_memory() {
    if support::ran_alone("bounded_memory::lines_that_are_small_on_the_wire_and_large_in_memory") {
        return;
    }
    let empty_objects = |_| "{\"\":0},".to_owned();
    let tool = |n| format!("{{\"type\":\"tool_use\",\"id\":\"{n}\",\"name\":\"Read\"}},");
    let lines = [
        ("unknown", long_line("{\"x\":[", empty_objects, "0]}")),
        ("content", long_line("{\"type\":\"assistant\",\"message\":{\"content\":[", tool, "0]}}")),
        (
            "answer",
            long_line("{\"type\":\"result\",\"structured_output\":{\"a\":[", empty_objects, "0]}}"),
        ),
        ("text", long_line("{\"type\":\"result\",\"result\":\"", |_| "\\u00e4".into(), "\"}")),
        ("keys", long_line("{", |n| format!("\"{n}\":0,"), "\"type\":\"user\"}")),
    ];
    for (name, line) in lines {
        let now = Instant::now();
        let mut conversation = Conversation::new(Box::new(ClaudeDecoder::default()), MAX_LINE, now);
        forget_peak();
        let before = peak();
        for piece in line.chunks(64 << 10) {
            conversation.feed(piece, now);
        }
        let used = peak() - before;
        let bound = memory_bound(MAX_LINE);
        println!("{name}: {} KiB of at most {} KiB", used >> 10, bound >> 10);
        assert!(used <= bound, "{name}: {used} bytes of {bound}");
        assert_eq!(conversation.json_lines, 1, "{name}");
        assert!(conversation.open_tools.len() <= 256, "{name}");
    }
}
