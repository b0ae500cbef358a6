//! Following descendants by looking often, where the kernel has no subreaper (macOS).
//!
//! A process that was seen once below the agent stays known by its number and start time, also
//! after it has detached. One that detaches between two looks is missed: the tier says so.

use std::collections::HashMap;

/// Everything that was ever seen below one process, with its start time.
#[derive(Debug, Default)]
pub struct Tracked {
    known: HashMap<u32, u64>,
}

impl Tracked {
    /// Looks at everything below `root` and below everything known, and remembers it.
    ///
    /// `children` lists direct children, `start_of` gives the start time of a living process.
    pub fn look(
        &mut self,
        root: u32,
        children: impl Fn(u32) -> Vec<u32>,
        start_of: impl Fn(u32) -> Option<u64>,
    ) {
        self.known.retain(|pid, start| start_of(*pid) == Some(*start));
        let mut pending: Vec<u32> = self.known.keys().copied().collect();
        pending.push(root);
        while let Some(parent) = pending.pop() {
            for child in children(parent) {
                if let Some(start) = start_of(child)
                    && self.known.insert(child, start) != Some(start)
                {
                    pending.push(child);
                }
            }
        }
    }

    /// Those of them that are alive and still the same.
    pub fn alive(&self, start_of: impl Fn(u32) -> Option<u64>) -> Vec<u32> {
        let same = |(pid, start): (&u32, &u64)| (start_of(*pid) == Some(*start)).then_some(*pid);
        self.known.iter().filter_map(same).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as a table: process, parent, start time.
    struct Table(Vec<(u32, u32, u64)>);

    impl Table {
        fn look(&self, tracked: &mut Tracked) {
            tracked.look(1, |pid| self.children(pid), |pid| self.start(pid));
        }

        fn children(&self, parent: u32) -> Vec<u32> {
            self.0.iter().filter(|row| row.1 == parent).map(|row| row.0).collect()
        }

        fn start(&self, pid: u32) -> Option<u64> {
            self.0.iter().find(|row| row.0 == pid).map(|row| row.2)
        }

        fn alive(&self, tracked: &Tracked) -> Vec<u32> {
            let mut alive = tracked.alive(|pid| self.start(pid));
            alive.sort_unstable();
            alive
        }
    }

    #[test]
    fn who_was_seen_once_stays_known_after_it_detached() {
        let mut tracked = Tracked::default();
        Table(vec![(2, 1, 10), (3, 2, 11), (4, 3, 12)]).look(&mut tracked);
        // The middle one left; its child belongs to the first process of the machine now.
        let later = Table(vec![(2, 1, 10), (4, 0, 12), (5, 4, 13)]);
        later.look(&mut tracked);
        assert_eq!(later.alive(&tracked), [2, 4, 5]);
    }

    #[test]
    fn a_reused_number_is_not_ours() {
        let mut tracked = Tracked::default();
        Table(vec![(2, 1, 10), (3, 2, 11)]).look(&mut tracked);
        let later = Table(vec![(2, 1, 10), (3, 0, 99)]);
        assert_eq!(later.alive(&tracked), [2]);
        later.look(&mut tracked);
        assert_eq!(later.alive(&tracked), [2]);
    }
}
