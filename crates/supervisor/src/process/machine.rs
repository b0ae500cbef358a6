//! Load and memory of this machine.

use std::fs;

use serde::Serialize;

/// One measurement. Memory is `None` on systems without `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Machine {
    /// One-minute average.
    pub load: f64,
    pub cores: u32,
    /// Without swapping, in bytes.
    pub available_memory: Option<u64>,
    /// Percentage of the last ten seconds in which a process waited for memory.
    pub memory_pressure: Option<f64>,
}

/// Host name reduced to letters, digits, `-`, `_` and `.`; empty if unknown.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.trim().chars().map(|c| if plain(c) { c } else { '-' }).collect()
}

impl Machine {
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            load: first_number(&text("/proc/loadavg")).unwrap_or_default(),
            cores: std::thread::available_parallelism()
                .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
            available_memory: available_memory(&text("/proc/meminfo")),
            memory_pressure: pressure(&text("/proc/pressure/memory")),
        }
    }

    pub fn load_per_core(&self) -> f64 {
        self.load / f64::from(self.cores.max(1))
    }
}

fn first_number(text: &str) -> Option<f64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn available_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_ascii_whitespace().find_map(|part| part.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_kernel_are_understood() {
        assert_eq!(first_number("1.25 0.9 0.5 1/234 99\n"), Some(1.25));
        assert_eq!(available_memory("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(pressure("some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n"), Some(1.5));
        assert_eq!(pressure(""), None);
    }
}
