//! The initial issues: those of a small parcel-tracking product, and as many variations of them as
//! requested.

use jiff::SignedDuration;
use serde::Deserialize;

use super::text::JiraText;
use super::tracker_data::{JiraData, JiraRecord, OTHER, PROJECT};
use heartbeat::simulate::SeededRng;

static ISSUES: &str = include_str!("issues.json");

#[derive(Deserialize)]
struct JiraSeed {
    summary: String,
    kind: String,
    status: String,
    priority: String,
    components: Vec<String>,
    labels: Vec<String>,
    hours_ago: i64,
    description: JiraText,
}

/// An issue with default values.
pub fn blank(project: &str, summary: &str) -> JiraRecord {
    JiraRecord {
        id: 0,
        project: project.to_owned(),
        number: 0,
        summary: summary.to_owned(),
        description: JiraText::default(),
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
pub fn fill(board: &mut JiraData, count: usize, seed: u64) -> Result<(), serde_json::Error> {
    let seeds: Vec<JiraSeed> = serde_json::from_str(ISSUES)?;
    let now = board.now();
    let before = |seconds: i64| now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(now);
    let mut rng = SeededRng::new(seed);
    for number in 0..count {
        let is_first = number < seeds.len();
        let at = if is_first { number } else { rng.roll(seeds.len()) };
        let seed = &seeds[at];
        let (summary, changed) = if is_first {
            (seed.summary.clone(), before(seed.hours_ago * 3600))
        } else {
            // Spread over the last twenty days, some in the same minute.
            let seconds = i64::try_from(rng.roll(20 * 86_400)).unwrap_or(0);
            (format!("{} (case {number})", seed.summary), before(seconds))
        };
        let issue = JiraRecord {
            description: seed.description.clone(),
            kind: seed.kind.clone(),
            status: seed.status.clone(),
            priority: seed.priority.clone(),
            labels: seed.labels.clone(),
            components: seed.components.clone(),
            assignee: (at % 3 == 0).then(|| "Tomasz Wrona".to_owned()),
            ..blank(PROJECT, &summary)
        };
        board.add(issue, changed);
    }
    board.add(blank(OTHER, "Rotate the certificates"), before(3600));
    Ok(())
}
