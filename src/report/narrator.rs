//! The progress lines for a person who waits for a run. Pure.
//!
//! Fewer lines than the log: decisions on the backlog are only counted, and what the screen shows
//! about sessions is not repeated.

use crate::event::fold::RunView;
use crate::event::{Event, Reason, Recorded};
use crate::report::lines::line;
use crate::report::moment::time_of_day;

/// Counts events until they can be reported in one line.
#[derive(Debug, Default)]
pub struct Narrator {
    deferred: Option<Group>,
}

#[derive(Debug)]
struct Group {
    first: Recorded,
    reason: Reason,
    count: u64,
}

impl Narrator {
    /// The lines due after this event; `view` already contains it.
    pub fn lines(&mut self, recorded: &Recorded, view: &RunView) -> Vec<String> {
        if let Event::ItemDeferred { reason, .. } = &recorded.event {
            match &mut self.deferred {
                Some(group) if group.reason == *reason => {
                    group.count += 1;
                    return Vec::new();
                }
                _ => {
                    let group = Group { first: recorded.clone(), reason: *reason, count: 1 };
                    return group_lines(self.deferred.replace(group), view);
                }
            }
        }
        // A decision does not end a group: pages of items come between deferred ones.
        if matches!(
            recorded.event,
            Event::ItemDecided { .. } | Event::ItemTriaged { .. } | Event::ItemSettled { .. }
        ) {
            return Vec::new();
        }
        let Some(text) = line(recorded, view) else { return Vec::new() };
        let mut lines = self.rest(view);
        lines.push(text);
        lines
    }

    /// The counts not reported yet.
    pub fn rest(&mut self, view: &RunView) -> Vec<String> {
        group_lines(self.deferred.take(), view)
    }
}

fn group_lines(group: Option<Group>, view: &RunView) -> Vec<String> {
    let Some(group) = group else { return Vec::new() };
    if group.count == 1 {
        return line(&group.first, view).into_iter().collect();
    }
    let (at, count) = (time_of_day(group.first.at), group.count);
    vec![format!("{at}  deferred {count} items ({})", group.reason.to_text())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Decision;
    use crate::model::{ItemId, ItemKey};

    #[test]
    fn a_backlog_of_hundreds_is_reported_in_a_few_lines() {
        let (mut view, mut narrator, mut lines) =
            (RunView::default(), Narrator::default(), Vec::new());
        let key = |id| ItemKey::new("ado", ItemId(id));
        let mut events = Vec::new();
        for id in 1..=327 {
            let (decision, reason) = (Decision::New, Reason::FirstSeen);
            let title = format!("Item {id}");
            events.push(Event::ItemDecided { item: key(id), rev: 1, title, decision, reason });
            if id > 100 {
                let reason = Reason::MaxItemsPerRun;
                events.push(Event::ItemDeferred { item: key(id), reason });
            }
        }
        events.push(Event::PlanMade { work: 100, deferred: 227, unchanged: 0 });
        for event in events {
            let recorded = Recorded { seq: 1, at: jiff::Timestamp::UNIX_EPOCH, run: None, event };
            view.apply(&recorded);
            lines.extend(narrator.lines(&recorded, &view));
        }
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(lines[0].contains("deferred 227 items (max items per run)"), "{lines:?}");
        assert!(lines[1].contains("plan     100 to do"), "{lines:?}");
    }
}
