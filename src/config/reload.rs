//! Reloads the configuration while heartbeat runs: a valid one replaces the last, an invalid one is
//! reported and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::show::values;
use super::{ConfigError, LoadRequest, Loaded, load};

/// Keys that are read only at start: a new value applies after a restart.
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

/// Holds the last valid configuration.
#[derive(Debug, Clone)]
pub struct Reloader {
    request: LoadRequest,
    started: Loaded,
    current: Loaded,
}

#[derive(Debug, Clone)]
pub enum Reload {
    Unchanged,
    /// Other values, well formed. The caller checks whether they can be used.
    Changed(Box<Changed>),
}

/// New values that are not applied yet.
#[derive(Debug, Clone)]
pub struct Changed {
    pub loaded: Loaded,
    /// Keys whose value differs from the current one, as `section.key`.
    pub keys: Vec<String>,
    /// Keys whose value differs from the one at start and that need a restart.
    pub need_restart: Vec<String>,
}

impl Reloader {
    pub fn start(request: LoadRequest) -> Result<Self, ConfigError> {
        let current = load(&request)?;
        Ok(Self { request, started: current.clone(), current })
    }

    /// The last valid configuration.
    pub fn current(&self) -> &Loaded {
        &self.current
    }

    /// Reads everything again. Nothing changes until [`Reloader::keep`] is called with the result.
    ///
    /// A file that was found once must stay: if it were searched for again, deleting it would
    /// silently restore the defaults.
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

    /// Makes these values the current ones.
    pub fn keep(&mut self, loaded: Loaded) {
        self.current = loaded;
    }
}

/// Includes keys that only one of the two has, such as those of an added or removed source.
fn differing(new: &Loaded, old: &Loaded) -> Vec<String> {
    let by_key = |loaded: &Loaded| -> BTreeMap<String, String> {
        values(loaded).into_iter().map(|value| (value.key, value.value)).collect()
    };
    let (new, old) = (by_key(new), by_key(old));
    let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    keys.into_iter().filter(|key| new.get(*key) != old.get(*key)).cloned().collect()
}
