//! Configuration: one embedded, commented default file, under the user's file, under the
//! environment, under flags; every error names where a value came from and what is allowed.

pub mod human;
mod types;

pub use types::*;

/// The commented default file: what `heartbeat init` writes and what every key falls back to.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_default_is_complete_and_valid() {
        let config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        assert_eq!(config.limits.max_live_sessions, 3);
        let written = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
    }
}
