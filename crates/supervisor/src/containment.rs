//! How strongly agents are contained on this machine.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::in_force::Walls;
use super::keeper::launch::{self, LaunchError};

/// Isolation of agent processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// The strongest that this machine supports.
    Auto,
    /// Like `auto`, but no session starts unless the agent can be fully confined.
    Strict,
    /// Without namespaces and control groups.
    Subreaper,
}

/// Strongest first. In all of them a session has one keeper, and no process is left after its
/// sweep. They differ in what happens when the keeper itself is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Tier {
    /// A PID namespace and a control group.
    #[serde(rename = "pidns+cgroup")]
    #[strum(serialize = "pidns+cgroup")]
    PidnsCgroup,
    /// A PID namespace: the kernel kills the tree with its keeper.
    Pidns,
    /// A control group: after a restart the tree is found by its group.
    Cgroup,
    /// A child subreaper: heartbeat inherits the tree, or finds it by its marks after a restart.
    Subreaper,
    /// Descendants are followed by polling (macOS); one that detaches between two polls can escape.
    Tracked,
}

impl Tier {
    /// The tier for the available parts.
    pub const fn from_parts(namespace: bool, group: bool) -> Self {
        match (namespace, group) {
            (true, true) => Self::PidnsCgroup,
            (true, false) => Self::Pidns,
            (false, true) => Self::Cgroup,
            (false, false) if cfg!(target_os = "linux") => Self::Subreaper,
            (false, false) => Self::Tracked,
        }
    }

    /// Whether a namespace's init runs between keeper and agent.
    pub const fn has_namespace(self) -> bool {
        matches!(self, Self::PidnsCgroup | Self::Pidns)
    }

    pub const fn explanation(self) -> &'static str {
        match self {
            Self::PidnsCgroup | Self::Pidns => {
                "agents run in a PID namespace: the kernel kills the whole tree with its keeper"
            }
            Self::Cgroup => "each agent runs in its own control group, which is killed as a whole",
            Self::Subreaper => {
                "agents run below a subreaper; no PID namespace or control group is available here"
            }
            Self::Tracked => {
                "agents are tracked by polling; a process that detaches between two polls can \
                 escape"
            }
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into_str())
    }
}

/// Detects what this machine allows by starting a keeper without an agent.
pub async fn detect(keeper_program: &Path, containment: Containment) -> std::io::Result<Tier> {
    survey(keeper_program, containment).await.map(|(tier, _)| tier)
}

/// The same, with what the keeper could set up.
pub async fn survey(
    keeper_program: &Path,
    containment: Containment,
) -> std::io::Result<(Tier, Walls)> {
    let session = uuid::Uuid::now_v7();
    match launch::launch(keeper_program, session, containment, None).await {
        Ok(keeper) => Ok((keeper.tier, keeper.walls)),
        Err(LaunchError::Io(error)) => Err(error),
        Err(error @ LaunchError::NoSlot { .. }) => Err(std::io::Error::other(error)),
    }
}

/// The control group (version 2) of this process, if it may create groups below it.
///
/// Under systemd a group that was not delegated is not used, since a group has one writer.
pub fn delegated_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = group_path(&mounts, &own)?;
    let may_write = |path: &Path| nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok();
    // Our unit asks for a group of its own below the delegated one, so that this has no members and
    // can limit its children.
    if path.file_name().is_some_and(|name| name == OWN_SUBGROUP) {
        return path.parent().filter(|parent| may_write(parent)).map(Path::to_owned);
    }
    let may_write = may_write(&path);
    let managed = Path::new("/run/systemd/system").exists();
    (may_write && (!managed || is_delegated(&path))).then_some(path)
}

/// The group of the service itself (`DelegateSubgroup=` of the unit).
pub const OWN_SUBGROUP: &str = "heartbeat-main";

fn is_delegated(path: &Path) -> bool {
    // systemd marks delegated groups with an extended attribute; the user's own slice is owned by
    // that user instead.
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path)
        .is_ok_and(|meta| meta.uid() != 0 && meta.uid() == nix::unistd::getuid().as_raw())
}

/// Our group's folder, from the contents of `mountinfo` and `cgroup`.
fn group_path(mounts: &str, own: &str) -> Option<PathBuf> {
    let inside = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let line = mounts.lines().find(|line| {
        line.split_once(" - ").is_some_and(|(_, kind)| kind.starts_with("cgroup2 "))
    })?;
    let mut fields = line.split(' ').skip(3);
    let (root, mount) = (fields.next()?, fields.next()?);
    let relative = inside.strip_prefix(root).unwrap_or(inside).trim_start_matches('/');
    Some(Path::new(mount).join(relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
25 1 0:22 / /proc rw - proc proc rw
40 30 0:35 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_group_is_found_below_its_mount() {
        let found = group_path(MOUNTS, "1:cpu:/x\n0::/user.slice/a.service\n");
        assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/user.slice/a.service")));
        assert_eq!(group_path(MOUNTS, "0::/\n"), Some(PathBuf::from("/sys/fs/cgroup/")));
    }

    #[test]
    fn without_version_two_there_is_none() {
        assert_eq!(group_path("", "0::/a\n"), None);
        assert_eq!(group_path(MOUNTS, "1:cpu:/x\n"), None);
    }

    #[test]
    fn names_match_what_is_stored() {
        for tier in [Tier::PidnsCgroup, Tier::Pidns, Tier::Cgroup, Tier::Subreaper, Tier::Tracked] {
            assert_eq!(serde_json::to_value(tier).unwrap(), tier.into_str());
        }
    }
}
