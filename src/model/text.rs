//! Formatting of values for people.

/// `1 item`, `2 items`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Cuts the text to `width` characters; an ellipsis marks the cut.
pub fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// An enum's name as words: `TimedOut` becomes `timed out`.
pub fn in_words(value: impl Into<&'static str>) -> String {
    value.into().replace('_', " ")
}

pub fn seconds(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..120_000 => format!("{} s", ms / 1000),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => {
            format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
        }
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::{in_words, size};
    use crate::event::{Decision, Event, LiveVerdict, Reason, RunOutcome, Trigger};
    use crate::model::{
        BreakerState, Complexity, Confidence, FailureClass, FailureKind, Outcome, Phase, Stage,
    };

    fn in_json(value: impl Serialize, tag: Option<&str>) -> String {
        let json = serde_json::to_value(value).unwrap();
        tag.map_or(json.clone(), |tag| json[tag].clone()).as_str().unwrap().to_owned()
    }

    /// JSON, tables, metrics and texts call a value by one name.
    #[test]
    fn the_name_of_a_value_is_the_one_in_json() {
        macro_rules! same {
            ($($value:expr),+ $(,)?) => { $(assert_eq!($value.into_str(), in_json($value, None));)+ };
        }
        same!(Stage::Deep, FailureKind::MaxOutputTokens, FailureClass::BreakerOpen, Phase::Claimed);
        same!(Complexity::Moderate, Confidence::High, Decision::Vanished, Trigger::Schedule);
        same!(Reason::MaxDeepPerRun, Reason::ForAPerson, LiveVerdict::FinishedNotExiting);
        same!(RunOutcome::NothingNew);
        let outcome = Outcome::BadOutput { why: FailureKind::NoJson };
        assert_eq!(outcome.into_str(), in_json(&outcome, Some("kind")));
        assert_eq!(BreakerState::Closed.into_str(), in_json(BreakerState::Closed, Some("is")));
        let event = Event::ConfigBroken { message: String::new() };
        assert_eq!(event.into_str(), in_json(&event, Some("event")));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([999, 1_000, 1_999_999].map(size), ["999 bytes", "1 kB", "1.9 MB"]);
    }

    #[test]
    fn names_are_read_in_words() {
        assert_eq!(in_words(Reason::MaxDeepPerRun), "max deep per run");
    }
}
