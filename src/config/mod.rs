//! Configuration: one embedded, commented default file, under the user's file, under the
//! environment, under flags; every error names where a value came from and what is allowed.
//!
//! [`load()`] reports all that is wrong at once; [`Reloader`] keeps the last good configuration
//! when an edit breaks it. Secrets are never among the values: a configuration says where a
//! credential lives, and [`credential`] fetches it when it is needed.

mod agents;
pub mod credential;
mod error;
mod file;
mod init;
mod keys;
mod kind;
mod list;
mod load;
mod reload;
mod rules;
pub mod show;
mod source;
mod validate;

pub use credential::CredentialError;
pub use error::{ConfigError, Origin, Problem, Suggestion};
pub use file::FILE_NAME;
pub use init::render_init;
pub use load::{Discover, FlagValue, LoadRequest, Loaded, load, salvage, variable_for};
pub use reload::{Changed, NEED_RESTART, Reload, Reloader};

/// The commented default file: what `heartbeat init` writes and what every key falls back to.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Config;

    #[test]
    fn the_embedded_default_is_complete_and_valid() {
        let config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        assert_eq!(config.limits.max_live_sessions, 3);
        let written = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
    }
}
