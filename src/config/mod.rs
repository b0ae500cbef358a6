//! Configuration layers: the embedded, commented default file, overridden by the user's file, the
//! environment and flags. Every error names where a value came from and what is allowed.
//!
//! [`load()`] reports all problems at once; [`Reloader`] keeps the last valid configuration when an
//! edit breaks it. Values are never secrets: the configuration names where a credential is stored,
//! and [`credential`] reads it when it is needed.

mod agents;
pub mod credential;
mod credential_files;
mod error;
mod file;
mod init;
mod keys;
mod kind;
mod list;
mod load;
mod provenance;
mod reload;
mod rules;
pub mod schema;
pub mod show;
mod source;
mod validate;

pub use credential::CredentialError;
pub use error::{ConfigError, Origin, Problem, Suggestion};
pub use file::FILE_NAME;
pub use init::render_init;
pub(crate) use keys::resolve as resolve_path;
pub use load::{
    Discover, FlagValue, LoadRequest, Loaded, load, load_partial, ping_variable, variable_for,
};
pub use provenance::trust;
pub use reload::{Changed, NEED_RESTART, Reload, Reloader};

/// The commented default file: written by `heartbeat init`, and the default of every key.
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
