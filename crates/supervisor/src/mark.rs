//! The two marks of every process of a session, by which it is found after a crash.
//!
//! One is an environment variable, which a program may drop. The other is a resource limit that is
//! never reached here (how long a real-time thread may run without a pause), set to a number
//! derived from the session's id: fork and exec inherit it like the environment, `env -i` does not
//! change it, and the kernel shows it for every process, also for one that hides its environment.
//! Only a process that deliberately changes this limit loses it.

use crate::SessionId;

/// Name of the environment variable.
pub const VARIABLE: &str = "HEARTBEAT_SESSION";

const RANDOM_BITS: u32 = 62;

/// The session's value of the limit: far beyond any real use, never the value for "unlimited".
pub fn limit(session: SessionId) -> u64 {
    let random = session.as_u64_pair().1 & ((1 << RANDOM_BITS) - 1);
    random | 1 << RANDOM_BITS
}

/// Whether this environment (NUL-terminated entries) has the variable with the session's id.
pub fn is_in_environment(environment: &[u8], session: SessionId) -> bool {
    let entry = format!("{VARIABLE}={session}");
    environment.split(|byte| *byte == 0).any(|part| part == entry.as_bytes())
}

/// Whether this limit (soft, hard) is the session's mark. The soft one may have been lowered.
pub fn is_in_limit(values: (u64, u64), session: SessionId) -> bool {
    values.1 == limit(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(low: u64) -> SessionId {
        uuid::Uuid::from_u64_pair(1, low)
    }

    #[test]
    fn the_limit_is_large_finite_and_different_per_session() {
        for low in [0, 1, u64::MAX] {
            let value = limit(session(low));
            assert!((1 << 62..u64::MAX).contains(&value), "{value}");
        }
        assert_ne!(limit(session(5)), limit(session(6)));
    }

    #[test]
    fn only_a_whole_entry_counts() {
        let id = session(7);
        assert!(is_in_environment(format!("A=1\0{VARIABLE}={id}\0").as_bytes(), id));
        assert!(!is_in_environment(format!("X{VARIABLE}={id}\0").as_bytes(), id));
        assert!(!is_in_environment(format!("{VARIABLE}={id}0\0").as_bytes(), id));
        assert!(!is_in_environment(b"", id));
    }
}
