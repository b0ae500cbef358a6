//! Removes what could not be confirmed from its place; it is listed with the reason instead.

use super::Struck;
use crate::model::Finding;

/// In place of a text of which nothing is left.
const NOTHING_LEFT: &str = "Nothing of this could be confirmed in the code.";

pub fn strike(finding: &mut Finding, struck: &[Struck]) {
    let without = |text: &str, of: fn(&Struck) -> Option<&str>| {
        let gone: Vec<&str> = struck.iter().filter_map(of).collect();
        if gone.is_empty() {
            return text.to_owned();
        }
        let kept: String =
            super::names::sentences(text).filter(|sentence| !gone.contains(sentence)).collect();
        let left = kept.trim();
        let has_words = left.chars().any(char::is_alphabetic);
        if has_words { left.to_owned() } else { NOTHING_LEFT.to_owned() }
    };
    finding.summary = without(&finding.summary, |struck| match struck {
        Struck::Summary(sentence) => Some(sentence),
        _ => None,
    });
    finding.suggested_change = without(&finding.suggested_change, |struck| match struck {
        Struck::Change(sentence) => Some(sentence),
        _ => None,
    });
    for (at, entry) in finding.evidence.iter_mut().enumerate() {
        if struck.contains(&Struck::Shows(at)) {
            entry.shows.clear();
        }
    }
    for (at, file) in finding.files.iter_mut().enumerate() {
        if struck.contains(&Struck::Reason(at)) {
            file.reason.clear();
        }
    }
    keep(&mut finding.likely_causes, |at| !struck.contains(&Struck::Cause(at)));
    keep(&mut finding.tests, |at| !struck.contains(&Struck::Test(at)));
    keep(&mut finding.pitfalls, |at| !struck.contains(&Struck::Pitfall(at)));
    keep(&mut finding.files, |at| !struck.contains(&Struck::File(at)));
}

fn keep<T>(entries: &mut Vec<T>, wanted: impl Fn(usize) -> bool) {
    let mut at = 0;
    entries.retain(|_| {
        at += 1;
        wanted(at - 1)
    });
}
