//! The initial issues: those of a small parcel-tracking product, and as many variations of them as
//! requested.

use jiff::SignedDuration;
use serde::Deserialize;

use super::tracker_data::{GithubData, NewIssue};
use super::{LIBRARY, REPOSITORY};
use heartbeat::simulate::SeededRng;

static ISSUES: &str = include_str!("issues.json");

#[derive(Deserialize)]
struct GithubSeed {
    title: String,
    labels: Vec<String>,
    user: String,
    hours_ago: i64,
    body: String,
}

/// Fills an empty board: two repositories, the first with `count` issues and some pull requests.
pub fn fill(board: &mut GithubData, count: usize, seed: u64) -> Result<(), serde_json::Error> {
    let issues: Vec<GithubSeed> = serde_json::from_str(ISSUES)?;
    board.add_repository(REPOSITORY);
    board.add_repository(LIBRARY);
    let now = board.now();
    let before = |seconds: i64| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let mut rng = SeededRng::new(seed);
    for number in 0..count {
        let first = issues.get(number);
        let seed = first.unwrap_or_else(|| &issues[rng.roll(issues.len())]);
        let (title, at) = match first {
            Some(_) => (seed.title.clone(), before(seed.hours_ago * 3600)),
            // Spread over the last twenty days, several in the same second.
            None => {
                let seconds = i64::try_from(rng.roll(20 * 86_400)).unwrap_or(0);
                (format!("{} (case {number})", seed.title), before(seconds))
            }
        };
        let labels: Vec<&str> = seed.labels.iter().map(String::as_str).collect();
        let (labels, user, body) = (&*labels, &*seed.user, &*seed.body);
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
    Ok(())
}
