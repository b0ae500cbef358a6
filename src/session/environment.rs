//! The environment an agent is started with: complete, and without doors to other services.

use std::ffi::{OsStr, OsString};

use super::mark;
use crate::model::SessionId;

/// Variables by which work could be handed to a service outside of the tree, where no sweep
/// reaches: service managers, container engines, terminal multiplexers, message buses, agents of
/// other logins.
const DOORS: [&str; 22] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "DOCKER_HOST",
    "CONTAINER_HOST",
    "TMUX",
    "TMUX_PANE",
    "TMUX_TMPDIR",
    "STY",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CONNECTION",
];

/// What the agent gets: the given environment without the doors, with the session's mark.
pub fn scrub(given: &[(OsString, OsString)], session: SessionId) -> Vec<(OsString, OsString)> {
    let is_door = |name: &OsStr| {
        name == OsStr::new(mark::VARIABLE) || DOORS.iter().any(|door| name == OsStr::new(door))
    };
    let mut kept: Vec<_> = given.iter().filter(|(name, _)| !is_door(name)).cloned().collect();
    kept.push((mark::VARIABLE.into(), session.to_string().into()));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_are_closed_and_the_mark_is_ours() {
        let session = SessionId(uuid::Uuid::from_u128(5));
        let given = [("PATH", "/bin"), ("TMUX", "x"), ("HEARTBEAT_SESSION", "forged")]
            .map(|(name, value)| (name.into(), value.into()));
        let kept = scrub(&given, session);
        let expected = [("PATH", "/bin"), (mark::VARIABLE, &session.to_string())]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        assert_eq!(kept, expected);
    }
}
