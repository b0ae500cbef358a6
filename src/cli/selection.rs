//! The items that `retry --parked` and `retry --failed` requeue, and the message if none match.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::args::RetryArgs;
use crate::event::Reason;
use crate::model::{ItemKey, Phase, is_within_area};
use crate::store::ItemRow;

/// Areas or reasons that a message lists at most.
const LISTED: usize = 8;

pub(super) struct Selection<'a> {
    args: &'a RetryArgs,
    /// Parked or failed, regardless of reason and area.
    candidates: Vec<&'a ItemRow>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(args: &'a RetryArgs, open: &'a [ItemRow]) -> Self {
        let candidates = open.iter().filter(|item| is_candidate(args, item)).collect();
        Self { args, candidates }
    }

    pub(super) fn keys(&self) -> Vec<ItemKey> {
        self.selected().map(|item| item.key.clone()).collect()
    }

    /// The question before anything changes.
    pub(super) fn question(&self) -> String {
        let selected: Vec<_> = self.selected().collect();
        let reasons = counts(selected.iter().map(|item| item.reason.into_str()));
        let (count, what, place) = (selected.len(), self.what(), self.place());
        format!("Requeue {count} {what} item(s){place} with a fresh attempt count? ({reasons})")
    }

    /// Why nothing is selected, and what exists instead.
    pub(super) fn nothing_matches(&self) -> String {
        let what = self.what();
        if self.candidates.is_empty() {
            return format!("no {what} items\n");
        }
        let for_reason =
            self.args.reason.as_ref().map(|reason| format!(" for {reason}")).unwrap_or_default();
        let mut text = format!("no item is {what}{for_reason}{}\n", self.place());
        let reasons = counts(self.candidates.iter().map(|item| item.reason.into_str()));
        let _: std::fmt::Result = writeln!(text, "{what} items by reason: {reasons}");
        if self.args.area.is_some() {
            let known = self.candidates.iter().filter_map(|item| item.area_path.as_deref());
            let areas = counts(known.map(|area| if area.is_empty() { "(none)" } else { area }));
            if !areas.is_empty() {
                let _: std::fmt::Result = writeln!(text, "{what} items by area: {areas}");
            }
        }
        text + &self.unknown_areas().unwrap_or_default()
    }

    /// Items whose area is not known yet, which `--area` cannot match.
    pub(super) fn unknown_areas(&self) -> Option<String> {
        self.args.area.as_ref()?;
        let matching = self.candidates.iter().filter(|item| self.has_reason(item));
        let unknown = matching.filter(|item| item.area_path.is_none()).count();
        (unknown > 0).then(|| {
            format!(
                "the area of {unknown} {} item(s) is not stored yet; the next runs read it\n",
                self.what()
            )
        })
    }

    fn selected(&self) -> impl Iterator<Item = &'a ItemRow> + '_ {
        let fits = |item: &&ItemRow| self.has_reason(item) && self.is_in_area(item);
        self.candidates.iter().copied().filter(fits)
    }

    fn has_reason(&self, item: &ItemRow) -> bool {
        let wanted = self.args.reason.as_deref();
        wanted.is_none_or(|wanted| {
            wanted.to_lowercase().replace(['-', ' '], "_") == item.reason.into_str()
        })
    }

    fn is_in_area(&self, item: &ItemRow) -> bool {
        let Some(wanted) = self.args.area.as_deref() else { return true };
        item.area_path.as_deref().is_some_and(|area| is_within_area(area, wanted))
    }

    fn what(&self) -> &'static str {
        match self.args {
            RetryArgs { gone: true, .. } => "given-up",
            RetryArgs { parked: true, .. } => "parked",
            _ => "failed",
        }
    }

    fn place(&self) -> String {
        self.args.area.as_ref().map(|area| format!(" in the area {area}")).unwrap_or_default()
    }
}

/// Items that a person stopped or that triage left to a person did not fail.
fn is_candidate(args: &RetryArgs, item: &ItemRow) -> bool {
    if args.gone {
        return item.phase == Phase::Vanished;
    }
    match (args.parked, item.phase) {
        (true, phase) => phase == Phase::Parked,
        (false, Phase::Waiting) => true,
        (false, phase) => phase == Phase::Parked && item.reason == Reason::AttemptsExhausted,
    }
}

/// `name (3), other (1)`, most frequent first.
fn counts<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut found = BTreeMap::<&str, usize>::new();
    names.for_each(|name| *found.entry(name).or_default() += 1);
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let beyond = found.len().saturating_sub(LISTED);
    let first = found.iter().take(LISTED).map(|(name, count)| format!("{name} ({count})"));
    let mut text = first.collect::<Vec<_>>().join(", ");
    if beyond > 0 {
        let _: std::fmt::Result = write!(text, " and {beyond} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ItemId;

    fn item(id: i64, phase: Phase, reason: Reason, area: Option<&str>) -> ItemRow {
        ItemRow {
            key: ItemKey::new("ado", ItemId(id)),
            title: String::new(),
            item_type: "Bug".into(),
            url: String::new(),
            area_path: area.map(Into::into),
            revision: 1,
            last_changed: jiff::Timestamp::UNIX_EPOCH,
            last_processed: None,
            phase,
            reason,
            attempts: 0,
            next_attempt: None,
            deferrals: 0,
            verdict: None,
        }
    }

    fn args(parked: bool, reason: Option<&str>, area: Option<&str>) -> RetryArgs {
        RetryArgs {
            item: None,
            source: None,
            provider: false,
            terms: Vec::new(),
            parked,
            failed: !parked,
            gone: false,
            reason: reason.map(Into::into),
            area: area.map(Into::into),
            yes: true,
        }
    }

    fn open() -> Vec<ItemRow> {
        vec![
            item(1, Phase::Parked, Reason::AttemptsExhausted, Some("Shop\\Web")),
            item(2, Phase::Parked, Reason::StoppedByOperator, Some("Shop\\Web\\Login")),
            item(3, Phase::Waiting, Reason::Backoff, Some("Shop\\Website")),
            item(4, Phase::Parked, Reason::AttemptsExhausted, None),
            item(5, Phase::Pending, Reason::CarriedOver, Some("Shop\\Web")),
            item(6, Phase::Parked, Reason::AttemptsExhausted, Some("")),
        ]
    }

    fn numbers(args: &RetryArgs) -> Vec<i64> {
        let open = open();
        Selection::new(args, &open).keys().iter().map(|key| key.item_id().unwrap().0).collect()
    }

    #[test]
    fn reason_and_area_narrow_what_is_requeued() {
        for (parked, reason, area, expected) in [
            (true, None, None, vec![1, 2, 4, 6]),
            (true, Some("attempts exhausted"), None, vec![1, 4, 6]),
            (true, None, Some("shop/web"), vec![1, 2]),
            (true, Some("Stopped-By-Operator"), Some("Shop"), vec![2]),
            (true, None, Some("Shop\\Website"), vec![]),
            (false, None, None, vec![1, 3, 4, 6]),
            (false, None, Some("Shop\\Website"), vec![3]),
        ] {
            assert_eq!(numbers(&args(parked, reason, area)), expected, "{reason:?} {area:?}");
        }
    }

    #[test]
    fn the_question_has_the_counts() {
        let (args, open) = (args(true, None, Some("Shop")), open());
        assert_eq!(
            Selection::new(&args, &open).question(),
            "Requeue 2 parked item(s) in the area Shop with a fresh attempt count? \
             (attempts_exhausted (1), stopped_by_operator (1))"
        );
    }

    #[test]
    fn nothing_selected_says_what_there_is() {
        let (args, open) = (args(true, Some("typo"), Some("Elsewhere")), open());
        assert_eq!(
            Selection::new(&args, &open).nothing_matches(),
            "no item is parked for typo in the area Elsewhere\n\
             parked items by reason: attempts_exhausted (3), stopped_by_operator (1)\n\
             parked items by area: (none) (1), Shop\\Web (1), Shop\\Web\\Login (1)\n"
        );
        let args = super::tests::args(true, None, Some("Elsewhere"));
        let text = Selection::new(&args, &open).nothing_matches();
        assert!(
            text.ends_with(
                "the area of 1 parked item(s) is not stored yet; the next runs read it\n"
            )
        );
        assert_eq!(Selection::new(&args, &[]).nothing_matches(), "no parked items\n");
    }
}
