//! Variables of heartbeat's environment that are passed to an agent.

use std::ffi::{OsStr, OsString};

use super::{HOME_DIR, TMP_DIR, Task};
use crate::settings::Config;

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[derive(Clone)]
pub struct Passed {
    path: OsString,
    variables: Vec<(OsString, OsString)>,
}

impl Passed {
    /// Looks up the credential, the variables in the configuration and `PATH`. The tracker's
    /// credential and those `withheld` are never passed on, even if configured.
    pub fn collect(
        config: &Config,
        credential: &str,
        withheld: &[&str],
        lookup: &impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let is_withheld = |name: &str| {
            name.is_empty() || config.is_tracker_variable(name) || withheld.contains(&name)
        };
        let mut variables: Vec<(OsString, OsString)> = Vec::new();
        let names = std::iter::once(credential).chain(config.agent.pass_env.iter().map(|n| &**n));
        for name in names.filter(|name| !is_withheld(name)) {
            let known = variables.iter().any(|(known, _)| known.as_os_str() == name);
            if let (false, Some(value)) = (known, lookup(name)) {
                variables.push((name.into(), value));
            }
        }
        let path = lookup("PATH").filter(|path| !path.is_empty());
        Self { path: path.unwrap_or_else(|| DEFAULT_PATH.into()), variables }
    }

    /// The value of a passed variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known.as_os_str() == name);
        found.map(|(_, value)| value.as_os_str())
    }

    pub fn push(&mut self, name: &str, value: OsString) {
        self.variables.push((name.into(), value));
    }

    pub fn remove(&mut self, name: &str) -> Option<OsString> {
        let place = self.variables.iter().position(|(known, _)| known.as_os_str() == name)?;
        Some(self.variables.remove(place).1)
    }

    /// The complete environment of one session: its folders, `own` variables, and passed ones. A
    /// variable that the user passes overrides ours.
    pub fn environment(
        &self,
        task: &Task,
        own: Vec<(OsString, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let folder = |name: &str| task.scratch.join(name).into_os_string();
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), folder(HOME_DIR)),
            ("TMPDIR".into(), folder(TMP_DIR)),
            ("PATH".into(), self.path.clone()),
            ("LANG".into(), "C.UTF-8".into()),
        ];
        env.extend(own);
        for (name, value) in &self.variables {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        env
    }
}
