//! The process environment as a value: read once at start, passed on explicitly.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A snapshot of the environment. Cheap to clone; `Debug` hides the values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(Arc<BTreeMap<String, OsString>>);

impl Environment {
    /// Keeps the variables whose names are valid UTF-8.
    pub fn new<K, V>(variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<OsString>,
        V: Into<OsString>,
    {
        let named = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into().into_string().ok()?, value.into())));
        Self(Arc::new(named.collect()))
    }

    /// `None` if unset or not valid UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str()
    }

    pub fn raw(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_os_str()))
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.folder("HOME")
    }

    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    pub fn config_home(&self) -> Option<PathBuf> {
        self.folder("XDG_CONFIG_HOME").or_else(|| Some(self.home()?.join(".config")))
    }

    /// `$XDG_STATE_HOME`, or `~/.local/state`.
    pub fn state_home(&self) -> Option<PathBuf> {
        self.folder("XDG_STATE_HOME").or_else(|| Some(self.home()?.join(".local/state")))
    }

    /// Ignores a relative path, as the XDG specification requires.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(Path::new).filter(|path| path.is_absolute()).map(Path::to_path_buf)
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_follow_the_xdg_rules() {
        let env = Environment::new([("HOME", "/home/ada"), ("XDG_STATE_HOME", "/var/s")]);
        assert_eq!(env.config_home().unwrap(), Path::new("/home/ada/.config"));
        assert_eq!(env.state_home().unwrap(), Path::new("/var/s"));
        let relative = Environment::new([("XDG_CONFIG_HOME", "conf"), ("HOME", "home")]);
        assert_eq!(relative.config_home(), None);
    }

    #[test]
    fn values_are_not_shown() {
        let env = Environment::new([("AZURE_DEVOPS_PAT", "hunter2")]);
        assert_eq!(format!("{env:?}"), "{\"AZURE_DEVOPS_PAT\"}");
    }
}
