//! Reading the configuration again while heartbeat runs: a good one replaces the last, a broken
//! one is reported and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::show::values;
use super::{ConfigError, LoadRequest, Loaded, load};

/// Keys that are read once at start: a new value is accepted and waits for the next start.
pub const NEED_RESTART: [&str; 8] = [
    "state.dir",
    "http.listen",
    "http.token_env",
    "log.level",
    "log.format",
    "log.file",
    "log.max_size",
    "log.keep",
];

/// Holds the last good configuration.
#[derive(Debug, Clone)]
pub struct Reloader {
    request: LoadRequest,
    started: Loaded,
    current: Loaded,
}

/// What a look found.
#[derive(Debug, Clone)]
pub enum Reload {
    /// The same values as before.
    Unchanged,
    /// Other values, well formed. Whether they can be used is the caller's to find out.
    Changed(Box<Changed>),
}

/// New values that are not in force yet.
#[derive(Debug, Clone)]
pub struct Changed {
    /// All of them.
    pub loaded: Loaded,
    /// Keys whose value differs from the one in force, as `section.key`.
    pub keys: Vec<String>,
    /// Keys whose value differs from the one at start, and that wait for the next start.
    pub need_restart: Vec<String>,
}

impl Reloader {
    /// Loads for the first time.
    pub fn start(request: LoadRequest) -> Result<Self, ConfigError> {
        let current = load(&request)?;
        Ok(Self { request, started: current.clone(), current })
    }

    /// The last good configuration.
    pub fn current(&self) -> &Loaded {
        &self.current
    }

    /// Reads everything again. Nothing is in force before [`Reloader::keep`] is called with it.
    ///
    /// A file that was found once must stay: were it searched for again, a deleted file would
    /// silently bring back the defaults.
    pub fn look(&self) -> Result<Reload, ConfigError> {
        let mut request = self.request.clone();
        request.explicit = request.explicit.or_else(|| self.current.file.clone());
        let loaded = load(&request)?;
        if loaded.digest == self.current.digest {
            return Ok(Reload::Unchanged);
        }
        let keys = differing(&loaded, &self.current);
        let mut need_restart = differing(&loaded, &self.started);
        need_restart.retain(|key| NEED_RESTART.contains(&key.as_str()));
        Ok(Reload::Changed(Box::new(Changed { loaded, keys, need_restart })))
    }

    /// These values proved to be good and are in force from now on.
    pub fn keep(&mut self, loaded: Loaded) {
        self.current = loaded;
    }
}

/// Also keys that only one of the two has, such as those of a source that was added or removed.
fn differing(new: &Loaded, old: &Loaded) -> Vec<String> {
    let by_key = |loaded: &Loaded| -> BTreeMap<String, String> {
        values(loaded).into_iter().map(|value| (value.key, value.value)).collect()
    };
    let (new, old) = (by_key(new), by_key(old));
    let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    keys.into_iter().filter(|key| new.get(*key) != old.get(*key)).cloned().collect()
}
