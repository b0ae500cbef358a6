//! What a piece of work cost this process: time, time on the processors, and the most memory.
//!
//! Each contender runs in a process of its own, so that its memory is its own, and says what it
//! took in one line: three numbers and a note.

use std::time::Instant;

/// The start of some work.
pub struct Started {
    wall: Instant,
    processor: f64,
}

impl Started {
    /// Work starts now.
    pub fn now() -> Self {
        Self { wall: Instant::now(), processor: processor_seconds() }
    }

    /// What it took until now: milliseconds, milliseconds on processors, megabytes at most.
    pub fn line(&self, note: &str) -> String {
        let wall = self.wall.elapsed().as_secs_f64() * 1e3;
        let processor = (processor_seconds() - self.processor) * 1e3;
        format!("{wall:.1} {processor:.0} {:.1} {note}", peak_megabytes())
    }
}

/// Time all threads of this process, and the children it has waited for, have spent on processors.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold anything; the figures follow its closing bracket.
    let figures = stat.rsplit(") ").next().unwrap_or_default();
    let ticks: f64 =
        figures.split(' ').skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Peak resident memory of this process.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}
