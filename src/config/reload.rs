//! Reading the configuration again while heartbeat runs: a good one replaces the last, a broken
//! one is reported and changes nothing.

use super::show::values;
use super::{ConfigError, LoadRequest, Loaded, load};

/// Keys that are read once at start: a new value is accepted and waits for the next start.
pub const NEED_RESTART: [&str; 5] =
    ["state.dir", "state.containment", "http.listen", "log.format", "log.file"];

/// Holds the last good configuration.
#[derive(Debug, Clone)]
pub struct Reloader {
    request: LoadRequest,
    current: Loaded,
    fault: Option<ConfigError>,
}

/// What a reload found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reload {
    /// The same values as before.
    Unchanged,
    /// New values are in force.
    Changed {
        /// Keys whose value differs, as `section.key`.
        keys: Vec<String>,
        /// Those of them that wait for the next start.
        need_restart: Vec<String>,
    },
}

impl Reloader {
    /// Loads for the first time.
    pub fn start(request: LoadRequest) -> Result<Self, ConfigError> {
        let current = load(&request)?;
        Ok(Self { request, current, fault: None })
    }

    /// The last good configuration.
    pub fn current(&self) -> &Loaded {
        &self.current
    }

    /// What is wrong with the configuration as it is now on disk, if the last reload failed. While
    /// it stands, status and health say so.
    pub fn fault(&self) -> Option<&ConfigError> {
        self.fault.as_ref()
    }

    /// Reads everything again. On an error the last good configuration stays in force.
    ///
    /// A file that was found once must stay: were it searched for again, a deleted file would
    /// silently bring back the defaults.
    pub fn reload(&mut self) -> Result<Reload, ConfigError> {
        let mut request = self.request.clone();
        request.explicit = request.explicit.or_else(|| self.current.file.clone());
        match load(&request) {
            Ok(loaded) => {
                self.fault = None;
                Ok(self.take(loaded))
            }
            Err(error) => {
                self.fault = Some(error.clone());
                Err(error)
            }
        }
    }

    fn take(&mut self, loaded: Loaded) -> Reload {
        let unchanged = loaded.digest == self.current.digest;
        let keys: Vec<String> = values(&loaded)
            .into_iter()
            .zip(values(&self.current))
            .filter(|(new, old)| new.value != old.value)
            .map(|(new, _)| new.key)
            .collect();
        self.current = loaded;
        if unchanged {
            return Reload::Unchanged;
        }
        let need_restart =
            keys.iter().filter(|key| NEED_RESTART.contains(&key.as_str())).cloned().collect();
        Reload::Changed { keys, need_restart }
    }
}
