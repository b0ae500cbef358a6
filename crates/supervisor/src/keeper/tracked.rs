//! Tracks descendants by polling, where the kernel has no subreaper (macOS).
//!
//! A process seen once below the agent stays known by its pid and start time after it has detached.
//! One that detaches between two polls is missed: the tier says so.

use std::collections::HashMap;

/// Every process ever seen below one process, with its start time.
#[derive(Debug, Default)]
pub struct Tracked {
    known: HashMap<u32, u64>,
}

impl Tracked {
    /// Records everything below `root` and below every known process.
    ///
    /// `children` lists direct children, `start_of` returns the start time of a live process.
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

    /// Known processes that are alive and unchanged.
    pub fn alive(&self, start_of: impl Fn(u32) -> Option<u64>) -> Vec<u32> {
        let same = |(pid, start): (&u32, &u64)| (start_of(*pid) == Some(*start)).then_some(*pid);
        self.known.iter().filter_map(same).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process table: pid, parent, start time.
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
        // The middle one exited; its child was re-parented to pid 0.
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
