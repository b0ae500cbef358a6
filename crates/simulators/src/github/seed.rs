//! The initial issues: those of a small parcel-tracking product, and as many variations of them as
//! requested.

use jiff::SignedDuration;

use super::tracker_data::{NewIssue, TrackerData};
use super::{LIBRARY, REPOSITORY};
use heartbeat::simulate::SeededRng;

struct GithubSeed {
    title: &'static str,
    labels: &'static [&'static str],
    user: &'static str,
    hours_ago: i64,
    body: &'static str,
}

const ISSUES: [GithubSeed; 8] = [
    GithubSeed {
        title: "Tracking page answers 500 for shipments without any scan event",
        labels: &["bug", "P1", "area/tracking"],
        user: "mira",
        hours_ago: 3,
        body: "### What happened\r\n<!-- Tell us what you saw. -->\r\nThe page of a new shipment ends \
               with a 500:\r\n\r\n```\r\nTypeError: Cannot read properties of undefined (reading 'at')\r\n    \
               at latestScan (src/tracking/timeline.ts:41)\r\n```\r\n\r\n### Steps\r\n1. Create a \
               shipment\r\n2. Open `/t/<id>` before the first scan\r\n",
    },
    GithubSeed {
        title: "Labels for Swiss addresses have the postcode on the wrong line",
        labels: &["bug", "P2", "area/labels"],
        user: "jonas",
        hours_ago: 20,
        body: "Expected `CH-8001 Zürich` on **one** line, see [the guide](https://www.post.ch/en/addressing).\n\n\
               | country | printed |\n|---|---|\n| DE | ok |\n| CH | postcode alone |\n",
    },
    GithubSeed {
        title: "Support importing tracking numbers from CSV",
        labels: &["enhancement"],
        user: "priya",
        hours_ago: 70,
        body: "Customers paste a column of numbers. A file would be easier.\n\n- [ ] upload\n- [ ] errors per line\n",
    },
    GithubSeed {
        title: "Webhook is delivered twice after a restart",
        labels: &["bug", "P0", "area/webhooks"],
        user: "tomasz",
        hours_ago: 5,
        body: "After a restart of the worker every event of the last minute is sent again. The receiver \
               sees two `delivered` events with the same id.\n\n@adaeze saw it too in #2.\n",
    },
    GithubSeed {
        title: "Typo in the footer",
        labels: &["good first issue"],
        user: "mira",
        hours_ago: 200,
        body: "",
    },
    GithubSeed {
        title: "Postcode search is slow for big cities",
        labels: &["performance", "P2"],
        user: "adaeze",
        hours_ago: 30,
        body: "A search for `10115` takes 4 s.\n\n<details><summary>Plan</summary>\n\n```sql\nSeq Scan on address\n```\n\n</details>\n",
    },
    GithubSeed {
        title: "Times in the e-mail are UTC",
        labels: &["bug"],
        user: "jonas",
        hours_ago: 90,
        body: "The mail says 05:00, the page says 07:00.\n",
    },
    GithubSeed {
        title: "Crash when the carrier returns an empty list",
        labels: &["bug", "P1", "area/tracking", "component: carriers"],
        user: "support",
        hours_ago: 8,
        body: "`carrier.poll()` panics on `[]`.\n",
    },
];

/// Fills an empty board: two repositories, the first with `count` issues and some pull requests.
pub fn fill(board: &mut TrackerData, count: usize, seed: u64) {
    board.add_repository(REPOSITORY);
    board.add_repository(LIBRARY);
    let now = board.now();
    let before = |seconds: i64| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let mut rng = SeededRng::new(seed);
    for number in 0..count {
        let first = ISSUES.get(number);
        let seed = first.unwrap_or_else(|| &ISSUES[rng.roll(ISSUES.len())]);
        let (title, at) = match first {
            Some(_) => (seed.title.to_owned(), before(seed.hours_ago * 3600)),
            // Spread over the last twenty days, several in the same second.
            None => {
                let seconds = i64::try_from(rng.roll(20 * 86_400)).unwrap_or(0);
                (format!("{} (case {number})", seed.title), before(seconds))
            }
        };
        let (labels, user, body) = (seed.labels, seed.user, seed.body);
        let new = NewIssue { title: &title, body, user, labels, is_pull_request: false };
        board.add_issue(REPOSITORY, new, at);
        if number % 10 == 9 {
            let title = format!("Fix {}", seed.title);
            let new = NewIssue { title: &title, body, user, labels: &[], is_pull_request: true };
            board.add_issue(REPOSITORY, new, at);
        }
    }
    let new = NewIssue {
        title: "Address parser drops the house number of \"12 bis\"",
        body: "Only in French addresses.",
        user: "priya",
        ..NewIssue::default()
    };
    board.add_issue(LIBRARY, new, before(3600));
}
