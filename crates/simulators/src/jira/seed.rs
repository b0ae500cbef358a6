//! The initial issues: those of a small parcel-tracking product, and as many variations of them as
//! requested.

use jiff::SignedDuration;

use super::text::{Block, Text};
use super::tracker_data::{Issue, OTHER, PROJECT, TrackerData};
use heartbeat::simulate::SeededRng;

struct JiraSeed {
    summary: &'static str,
    kind: &'static str,
    status: &'static str,
    priority: &'static str,
    components: &'static [&'static str],
    labels: &'static [&'static str],
    hours_ago: i64,
    text: &'static [Block],
}

const SEEDS: [JiraSeed; 8] = [
    JiraSeed {
        summary: "Tracking page answers 500 for shipments without any scan event",
        kind: "Bug",
        status: "To Do",
        priority: "Highest",
        components: &["Tracking"],
        labels: &["customer-reported"],
        hours_ago: 3,
        text: &[
            Block::Words("The page of a new shipment ends with a 500 until its first scan."),
            Block::Code(
                "javascript",
                "TypeError: Cannot read properties of undefined (reading 'occurredAt')\n    at summarize (api/src/routes/tracking.ts:41)",
            ),
            Block::Heading("Steps"),
            Block::List(&["Create a shipment", "Open its tracking page before the first scan"]),
        ],
    },
    JiraSeed {
        summary: "Timeline shows events in the wrong order when carrier and depot are in different time zones",
        kind: "Bug",
        status: "In Progress",
        priority: "High",
        components: &["Tracking", "Web"],
        labels: &[],
        hours_ago: 20,
        text: &[
            Block::Words("A parcel from Lisbon is delivered before it is sent."),
            Block::Table(&[&["event", "shown"], &["picked up", "14:10"], &["delivered", "13:55"]]),
            Block::Picture("timeline.png"),
        ],
    },
    JiraSeed {
        summary: "Import of tracking numbers from CSV",
        kind: "Story",
        status: "To Do",
        priority: "Medium",
        components: &["Import"],
        labels: &["roadmap"],
        hours_ago: 70,
        text: &[Block::Words("Customers paste a column of numbers. A file would be easier.")],
    },
    JiraSeed {
        summary: "Carrier sync sends the same status twice after a restart",
        kind: "Bug",
        status: "To Do",
        priority: "High",
        components: &["Worker"],
        labels: &["regression"],
        hours_ago: 5,
        text: &[
            Block::Warning("Receivers bill twice. Handle before the end of the month."),
            Block::Mention("Tomasz Wrona", "saw it in RetryQueue too."),
        ],
    },
    JiraSeed {
        summary: "Typo in the footer",
        kind: "Task",
        status: "Done",
        priority: "Lowest",
        components: &[],
        labels: &[],
        hours_ago: 200,
        text: &[],
    },
    JiraSeed {
        summary: "Postcode search is slow for big cities",
        kind: "Bug",
        status: "In Review",
        priority: "Medium",
        components: &["Addresses"],
        labels: &["performance"],
        hours_ago: 30,
        text: &[
            Block::Words("A search for 10115 takes 4 s."),
            Block::Code("sql", "Seq Scan on address (cost=0.00..91234.00)"),
        ],
    },
    JiraSeed {
        summary: "Times in the e-mail are UTC",
        kind: "Bug",
        status: "To Do",
        priority: "Low",
        components: &["Mail"],
        labels: &[],
        hours_ago: 90,
        text: &[Block::Words("The mail says 05:00, the page says 07:00.")],
    },
    JiraSeed {
        summary: "Crash when the carrier returns an empty list",
        kind: "Bug",
        status: "To Do",
        priority: "High",
        components: &["Worker", "Carriers"],
        labels: &["customer-reported"],
        hours_ago: 8,
        text: &[Block::Words("CarrierSync fails on an empty answer.")],
    },
];

/// An issue with default values.
pub fn blank(project: &str, summary: &str) -> Issue {
    Issue {
        id: 0,
        project: project.to_owned(),
        number: 0,
        summary: summary.to_owned(),
        description: Text::default(),
        kind: "Bug".to_owned(),
        status: "To Do".to_owned(),
        priority: "Medium".to_owned(),
        labels: Vec::new(),
        components: Vec::new(),
        assignee: None,
        parent: None,
        created: jiff::Timestamp::UNIX_EPOCH,
        updated: jiff::Timestamp::UNIX_EPOCH,
        comments: Vec::new(),
        links: Vec::new(),
        files: Vec::new(),
        children: Vec::new(),
        history: Vec::new(),
    }
}

/// Fills an empty board with `count` issues of the first project and one of another.
pub fn fill(board: &mut TrackerData, count: usize, seed: u64) {
    let texts: Vec<Text> = SEEDS.iter().map(|seed| Text::of(seed.text)).collect();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let now = board.now();
    let before = |seconds: i64| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let mut rng = SeededRng::new(seed);
    for number in 0..count {
        let is_first = number < SEEDS.len();
        let at = if is_first { number } else { rng.roll(SEEDS.len()) };
        let seed = &SEEDS[at];
        let (summary, changed) = if is_first {
            (seed.summary.to_owned(), before(seed.hours_ago * 3600))
        } else {
            // Spread over the last twenty days, some in the same minute.
            let seconds = i64::try_from(rng.roll(20 * 86_400)).unwrap_or(0);
            (format!("{} (case {number})", seed.summary), before(seconds))
        };
        let issue = Issue {
            description: texts[at].clone(),
            kind: seed.kind.to_owned(),
            status: seed.status.to_owned(),
            priority: seed.priority.to_owned(),
            labels: owned(seed.labels),
            components: owned(seed.components),
            assignee: (at % 3 == 0).then(|| "Tomasz Wrona".to_owned()),
            ..blank(PROJECT, &summary)
        };
        board.add(issue, changed);
    }
    board.add(blank(OTHER, "Rotate the certificates"), before(3600));
}
