//! Resource use of a session's process tree, sampled from outside.
//!
//! The tree is everything below the keeper: detached processes become its children. Processor time
//! of processes that exited between two samples is not lost: the kernel adds it to the process that
//! reaped them.

use std::collections::HashSet;
use std::time::Duration;

use crate::process::system::page_size;
use crate::process::{self, Stat};

/// The kernel reports hundredths of a second on every architecture.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeSample {
    /// Live processes without keeper and init.
    pub processes: u32,
    /// Of these, new since the last sample.
    pub new_processes: u32,
    /// Of these, stopped.
    pub stopped: u32,
    /// Processor time of the agent itself since the last sample.
    pub cpu_leader: Duration,
    /// Processor time of everything below it since the last sample.
    pub cpu_tools: Duration,
    /// Resident memory; shared pages count for each process.
    pub rss_kib: u64,
    /// Files in memory that it holds open, whether mapped or not.
    pub files_kib: u64,
    /// Files on disk that it holds open and that have no name any more.
    pub nameless_kib: u64,
}

#[derive(Debug)]
pub struct TreeWatch {
    keeper: u32,
    leader: u32,
    has_init: bool,
    watcher: Option<u32>,
    known: HashSet<(u32, u64)>,
    leader_ticks: u64,
    tool_ticks: u64,
}

impl TreeWatch {
    /// Watches the tree below `keeper`; `has_init` if a namespace's init is between it and the
    /// agent.
    pub fn new(keeper: u32, leader: u32, has_init: bool) -> Self {
        Self {
            keeper,
            leader,
            has_init,
            watcher: None,
            known: HashSet::new(),
            leader_ticks: 0,
            tool_ticks: 0,
        }
    }

    /// Excludes the keeper's watcher.
    #[must_use]
    pub fn without(mut self, watcher: Option<u32>) -> Self {
        self.watcher = watcher;
        self
    }

    /// Every process in the last sample, with its start time.
    pub fn known(&self) -> &HashSet<(u32, u64)> {
        &self.known
    }

    fn members(&self) -> Vec<Stat> {
        process::descendants(self.keeper)
    }

    fn is_counted(&self, stat: &Stat) -> bool {
        let is_init = self.has_init && stat.parent == self.keeper;
        !stat.is_dead() && !is_init && self.watcher != Some(stat.pid)
    }

    /// Current values, without changing the running sample.
    pub fn measure(&self) -> TreeSample {
        let members = self.members();
        let counted = members.iter().filter(|stat| self.is_counted(stat));
        let files = process::nameless_files(counted.map(|stat| stat.pid));
        let (files_kib, nameless_kib) = (files.in_memory / 1024, files.on_disk / 1024);
        TreeSample { files_kib, nameless_kib, ..self.summarise(&members) }
    }

    fn summarise(&self, members: &[Stat]) -> TreeSample {
        let counted = || members.iter().filter(|stat| self.is_counted(stat));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        TreeSample {
            processes: number(counted().count()),
            stopped: number(counted().filter(|stat| stat.is_stopped()).count()),
            rss_kib: counted().map(|stat| stat.resident_pages).sum::<u64>() * page_size() / 1024,
            ..TreeSample::default()
        }
    }

    /// The next sample of the series.
    pub fn sample(&mut self) -> TreeSample {
        let members = self.members();
        let mut sample = self.summarise(&members);
        let (leader, tools) = self.ticks(&members);
        sample.cpu_leader = ticks(leader.saturating_sub(self.leader_ticks));
        sample.cpu_tools = ticks(tools.saturating_sub(self.tool_ticks));
        (self.leader_ticks, self.tool_ticks) = (leader, tools.max(self.tool_ticks));
        let alive: HashSet<(u32, u64)> = members
            .iter()
            .filter(|stat| self.is_counted(stat))
            .map(|stat| (stat.pid, stat.start_time))
            .collect();
        let new = alive.difference(&self.known).count();
        sample.new_processes = u32::try_from(new).unwrap_or(u32::MAX);
        self.known = alive;
        sample
    }

    fn ticks(&self, members: &[Stat]) -> (u64, u64) {
        let mut leader = 0;
        let mut tools = process::stat(self.keeper).map_or(0, |stat| stat.waited_ticks);
        for stat in members {
            tools += stat.waited_ticks;
            if stat.pid == self.leader { leader += stat.own_ticks } else { tools += stat.own_ticks }
        }
        (leader, tools)
    }
}

fn ticks(count: u64) -> Duration {
    TICK * u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_members_uses_nothing() {
        // No process has this pid.
        let mut watch = TreeWatch::new(u32::MAX, u32::MAX, false);
        assert_eq!(watch.sample(), TreeSample::default());
    }
}
