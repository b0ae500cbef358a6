//! Hosts as network namespaces: a real network between real processes, which can be cut. Requires
//! root.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tests of one process have separate networks.
static MADE: AtomicUsize = AtomicUsize::new(0);

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/hosts.sh");

/// The server, the coordinator and two hosts.
pub struct Hosts {
    prefix: String,
}

impl Hosts {
    /// `None`, with a message, if this machine does not allow it.
    pub fn up() -> Option<Self> {
        let number = MADE.fetch_add(1, Ordering::SeqCst);
        let prefix = format!("hb{}x{number}", std::process::id());
        let hosts = Self { prefix };
        match hosts.script(&["up"]) {
            Ok(()) => Some(hosts),
            Err(why) => {
                println!("SKIPPED: hosts as network namespaces need root and `ip`: {why}");
                None
            }
        }
    }

    fn script(&self, words: &[&str]) -> Result<(), String> {
        let ran = Command::new("sh").arg(SCRIPT).arg(&self.prefix).args(words).output();
        match ran {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The program on this host. Only its network differs.
    pub fn command(&self, host: &str, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}{host}", self.prefix)).arg("--").arg(program);
        command
    }

    pub fn cut(&self, host: &str) {
        self.script(&["cut", host]).unwrap();
    }

    pub fn mend(&self, host: &str) {
        self.script(&["mend", host]).unwrap();
    }

    /// Every process on this host.
    pub fn processes(&self, host: &str) -> Vec<u32> {
        let name = format!("{}{host}", self.prefix);
        let listed = Command::new("ip").args(["netns", "pids", &name]).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.script(&["down"]).ok();
    }
}
