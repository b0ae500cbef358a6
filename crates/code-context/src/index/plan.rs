//! What to do to update a known index. Pure.

use crate::index::catalog::{Catalog, Entry, SegmentName};
use crate::index::scan::Found;

/// Segments with fewer words are small: an update creates one, and a query reads each.
const SMALL: u64 = 250_000;
/// With more small segments they are merged.
const MAX_SMALL: usize = 8;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Known files that are unchanged, ordered by path, with renumbered segments.
    pub kept: Vec<Entry>,
    /// Files to read, ordered by path: new, changed, not to be trusted, or in a dropped segment.
    pub read: Vec<Found>,
    /// Segments that stay.
    pub segments: Vec<SegmentName>,
    /// Known files that were deleted or changed.
    pub gone: usize,
}

/// Compares the found files with the known ones; both are ordered by path.
pub(crate) fn plan(catalog: &mut Catalog, found: Vec<Found>) -> Plan {
    let mut plan = Plan::default();
    let looked_at = catalog.looked_at;
    let mut found = found.into_iter().peekable();
    for entry in std::mem::take(&mut catalog.files) {
        while let Some(new) = found.next_if(|file| file.path < entry.path) {
            plan.read.push(new);
        }
        match found.next_if(|file| file.path == entry.path) {
            Some(same) if same.stamp == entry.stamp && !same.stamp.is_fresh_at(looked_at) => {
                plan.kept.push(entry);
            }
            changed => {
                plan.gone += 1;
                plan.read.extend(changed);
            }
        }
    }
    plan.read.extend(found);
    plan.settle(&catalog.segments);
    plan.read.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    plan
}

impl Plan {
    /// Drops segments that are mostly dead, or small and many; their files are read again.
    fn settle(&mut self, segments: &[SegmentName]) {
        let mut living = vec![0u32; segments.len()];
        self.kept.iter().for_each(|entry| living[entry.position.segment as usize] += 1);
        let is_small = |segment: &SegmentName| segment.words < SMALL;
        let small = segments.iter().zip(&living);
        let small = small.filter(|(segment, living)| **living > 0 && is_small(segment)).count();
        // The files to read make one more.
        let too_many = small + usize::from(!self.read.is_empty()) > MAX_SMALL;
        let mut numbers = vec![None; segments.len()];
        for (number, segment) in segments.iter().enumerate() {
            let stale = living[number] < segment.documents.div_ceil(2);
            let given_up = stale || too_many && is_small(segment);
            if !given_up {
                numbers[number] = u32::try_from(self.segments.len()).ok();
                self.segments.push(segment.clone());
            }
        }
        for mut entry in std::mem::take(&mut self.kept) {
            match numbers[entry.position.segment as usize] {
                Some(number) => {
                    entry.position.segment = number;
                    self.kept.push(entry);
                }
                None => self.read.push(Found { path: entry.path, stamp: entry.stamp }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::catalog::SegmentPosition;
    use crate::index::scan::Stamp;
    use crate::text::document::{Content, FIELDS};
    use crate::text::kind::Kind;
    use crate::text::language::Language;

    const OLD: Stamp = Stamp { changed: 5, size: 1, inode: 1 };
    const LATER: i64 = 10_000_000_000;

    fn entry(path: &str, segment: u32, local: u32) -> Entry {
        Entry {
            path: path.into(),
            stamp: OLD,
            kind: Kind::Source,
            language: Language::Rust,
            content: Content::Read,
            lines: 1,
            block_lines: 1,
            lengths: [0; FIELDS],
            position: SegmentPosition {
                segment,
                local,
                outline: 0,
                outline_length: 0,
                outline_sum: 0,
            },
        }
    }

    fn segment(number: usize, documents: u32, words: u64) -> SegmentName {
        SegmentName { file: format!("s{number}"), sum: 0, documents, words }
    }

    fn of(files: Vec<Entry>, segments: Vec<SegmentName>, known: Vec<Option<Stamp>>) -> Plan {
        let stamps = files.iter().zip(known);
        let found = stamps.filter_map(|(file, stamp)| Some((file.path.clone(), stamp?)));
        let found = found.map(|(path, stamp)| Found { path, stamp }).collect();
        let mut catalog = Catalog { files, segments, looked_at: LATER, ..Catalog::default() };
        plan(&mut catalog, found)
    }

    #[test]
    fn what_is_gone_or_changed_leaves_and_a_dead_segment_with_it() {
        let files = vec![entry("a", 0, 0), entry("b", 1, 0), entry("c", 1, 1), entry("d", 1, 2)];
        let changed = Stamp { size: 2, ..OLD };
        let segments = vec![segment(0, 1, 9), segment(1, 3, 9)];
        let plan = of(files, segments, vec![None, Some(OLD), Some(OLD), Some(changed)]);
        assert_eq!((plan.gone, plan.segments.len()), (2, 1));
        assert_eq!(plan.kept, [entry("b", 0, 0), entry("c", 0, 1)]);
        assert_eq!(plan.read, [Found { path: "d".into(), stamp: changed }]);
    }

    #[test]
    fn a_segment_that_is_mostly_dead_is_given_up() {
        let files = vec![entry("a", 0, 0), entry("b", 0, 1), entry("c", 0, 2)];
        let plan = of(files, vec![segment(0, 3, SMALL)], vec![None, None, Some(OLD)]);
        assert_eq!((plan.kept.len(), plan.read.len(), plan.gone), (0, 1, 2));
    }

    #[test]
    fn many_small_segments_become_one_and_large_ones_stay() {
        let count = u32::try_from(MAX_SMALL).unwrap() + 1;
        let files = (0..=count).map(|n| entry(&format!("f{n:02}"), n, 0)).collect();
        let words = |n: u32| if n == 3 { SMALL } else { 1 };
        let segments = (0..=count).map(|n| segment(n as usize, 1, words(n))).collect();
        let plan = of(files, segments, (0..=count).map(|_| Some(OLD)).collect());
        assert_eq!(plan.kept, [entry("f03", 0, 0)]);
        assert_eq!((plan.read.len(), plan.gone), (MAX_SMALL + 1, 0));
    }
}
