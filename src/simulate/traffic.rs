//! Request counters and faults: the part of the control interface that is the same for every
//! tracker.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fault::{self, ActiveFault, InjectedFault};

/// Requests whose method and path are kept.
const MAX_LOG_LEN: usize = 10_000;

#[derive(Debug)]
pub struct Traffic<F> {
    /// The first match applies.
    pub faults: Vec<ActiveFault<F>>,
    /// Requests by kind.
    counts: BTreeMap<String, u64>,
    /// Method and path of the first requests.
    log: Vec<String>,
    busy: u32,
    most_busy: u32,
}

impl<F> Traffic<F> {
    pub const fn new(faults: Vec<ActiveFault<F>>) -> Self {
        Self { faults, counts: BTreeMap::new(), log: Vec::new(), busy: 0, most_busy: 0 }
    }

    /// All requests so far, without the control interface.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub fn of(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }

    /// Maximum number of requests that were in progress at the same time.
    pub const fn most_at_once(&self) -> u32 {
        self.most_busy
    }

    /// Records that a response was sent.
    pub const fn answered(&mut self) {
        self.busy = self.busy.saturating_sub(1);
    }
}

impl<F: InjectedFault> Traffic<F> {
    /// Counts a request and returns the fault for it, if any.
    pub fn arrived(&mut self, kind: &str, method: &str, path: &str) -> Option<F> {
        *self.counts.entry(kind.to_owned()).or_default() += 1;
        if self.log.len() < MAX_LOG_LEN {
            self.log.push(format!("{method} {path}"));
        }
        self.busy += 1;
        self.most_busy = self.most_busy.max(self.busy);
        fault::next(&mut self.faults, kind)
    }

    /// Handles a control request about faults and counters, with the error if it is invalid; `None`
    /// if it is about something else.
    pub fn handle_control(
        &mut self,
        method: &str,
        path: &str,
        value: &Value,
    ) -> Option<Result<Value, String>> {
        Some(match (method, path) {
            ("GET", "faults") => Ok(json!(self.faults)),
            ("POST", "faults") => {
                let parsed = match value.as_str() {
                    Some(text) => text.parse(),
                    None => serde_json::from_value(value.clone()).map_err(|e| e.to_string()),
                };
                parsed.map(|fault| {
                    self.faults.push(fault);
                    json!(self.faults)
                })
            }
            ("DELETE", "faults") => {
                self.faults.clear();
                Ok(json!([]))
            }
            ("GET", "requests") => {
                Ok(json!({ "total": self.total(), "by_kind": self.counts, "log": self.log }))
            }
            ("DELETE", "requests") => {
                self.counts.clear();
                self.log.clear();
                Ok(json!({}))
            }
            _ => return None,
        })
    }
}
