//! The one look at the process environment.

use crate::settings::Environment;

/// Everything that is set, once, at start.
#[expect(clippy::disallowed_methods, reason = "this is the room that reads the environment")]
pub fn snapshot() -> Environment {
    Environment::new(std::env::vars_os())
}
