//! What holds a session, named by subject and by the mechanism that holds it. Stored with the
//! session's row: what is not in force is said, not left out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::confinement::{Confinement, Strength};
use super::containment::Tier;

/// What a keeper could set up around its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Walls {
    /// Mounts of its own, of which all but its own folder are read-only.
    pub mounts: bool,
    /// An IPC namespace of its own.
    pub ipc: bool,
    /// The kernel limits its processes and threads.
    pub tasks: bool,
    /// The kernel limits its memory.
    pub memory: bool,
}

/// By subject.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InForce {
    pub files: String,
    pub network: String,
    pub signals: String,
    pub ipc: String,
    pub capabilities: String,
    pub processes: String,
    pub memory: String,
}

/// No mechanism.
pub const NOTHING: &str = "not restricted";
/// Counted once a second, so that an agent can exceed it in between.
pub const SAMPLED: &str = "not limited by the kernel, sampled";

impl InForce {
    pub fn of(
        confinement: Option<&Confinement>,
        strength: Strength,
        tier: Tier,
        walls: Walls,
    ) -> Self {
        let confined = confinement.is_some();
        let version = match strength {
            _ if !confined => 0,
            Strength::Full => 6,
            Strength::Partial(version) => version,
            Strength::Missing => 0,
        };
        let own_sandbox = confinement.is_some_and(|made| made.makes_own_sandbox);
        let has_filter = confined && strength.has_filter();
        let when = |there: bool, name: &'static str| there.then_some(name);
        let limit = |there: bool| if there { "limited by the kernel" } else { SAMPLED }.to_owned();
        let network = match confinement {
            Some(made) if version >= 4 && made.only_gateway => {
                "the gateway's port only (landlock, seccomp)".to_owned()
            }
            Some(_) if version >= 4 => {
                "TCP to the ports it needs (landlock); UDP is open".to_owned()
            }
            Some(made) if has_filter && made.only_gateway => "TCP only (seccomp)".to_owned(),
            _ => NOTHING.to_owned(),
        };
        Self {
            files: named([
                when(version >= 1 && !own_sandbox, "landlock"),
                when(confined && walls.mounts, "mounts"),
            ]),
            network,
            signals: named([
                when(version >= 6, "landlock"),
                when(tier.has_namespace(), "pid namespace"),
            ]),
            ipc: named([when(has_filter, "seccomp"), when(walls.ipc, "ipc namespace")]),
            capabilities: if confined { "dropped" } else { NOTHING }.to_owned(),
            processes: limit(walls.tasks),
            memory: limit(walls.memory),
        }
    }

    /// Subject and what holds it, in order.
    pub fn rows(&self) -> [(&'static str, &str); 7] {
        [
            ("files", &self.files),
            ("network", &self.network),
            ("signals", &self.signals),
            ("ipc", &self.ipc),
            ("capabilities", &self.capabilities),
            ("processes", &self.processes),
            ("memory", &self.memory),
        ]
    }

    /// Subjects that nothing holds.
    pub fn missing(&self) -> Vec<&'static str> {
        let is_missing = |text: &str| text == NOTHING || text == SAMPLED;
        self.rows().into_iter().filter(|(_, text)| is_missing(text)).map(|(name, _)| name).collect()
    }
}

fn named<const N: usize>(parts: [Option<&'static str>; N]) -> String {
    let parts: Vec<&str> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<String> =
            self.rows().iter().map(|(name, what)| format!("{name}: {what}")).collect();
        f.write_str(&rows.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_in_force_is_said() {
        let none = InForce::of(None, Strength::Full, Tier::Subreaper, Walls::default());
        assert_eq!(none.missing().len(), 7, "{none}");
        let made = Confinement { only_gateway: true, ..Confinement::default() };
        let all = Walls { mounts: true, ipc: true, tasks: true, memory: true };
        let whole = InForce::of(Some(&made), Strength::Full, Tier::PidnsCgroup, all);
        assert_eq!(whole.missing(), Vec::<&str>::new(), "{whole}");
        let sandbox = Confinement { makes_own_sandbox: true, ..made.clone() };
        let weak = InForce::of(Some(&sandbox), Strength::Full, Tier::Subreaper, Walls::default());
        assert_eq!(weak.missing(), ["files", "processes", "memory"], "{weak}");
        let old = InForce::of(Some(&made), Strength::Missing, Tier::Pidns, all);
        assert_eq!((old.files.as_str(), old.network.as_str()), ("mounts", "TCP only (seccomp)"));
    }
}
