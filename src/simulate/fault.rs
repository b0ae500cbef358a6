//! Faults that a simulator injects on request: which fault, on which requests, how often.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The faults of one simulator.
pub trait InjectedFault: Copy + Serialize + DeserializeOwned + VariantArray {
    const ALL: &'static [Self] = Self::VARIANTS;

    /// The name used in flags and JSON.
    fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|value| value.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

impl<F: Copy + Serialize + DeserializeOwned + VariantArray> InjectedFault for F {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveFault<F> {
    pub fault: F,
    /// Only on this kind of request (`wiql`, `issues`, `comments`, …); `None` means all.
    #[serde(default)]
    pub on: Option<String>,
    /// Remaining number of times; `None` means until it is cleared.
    #[serde(default)]
    pub times: Option<u32>,
}

impl<F> ActiveFault<F> {
    fn fits(&self, kind: &str) -> bool {
        self.on.as_deref().is_none_or(|on| on == kind) && self.times != Some(0)
    }
}

/// The first matching fault for a request of this kind; consumes one use.
pub fn next<F: Copy>(faults: &mut [ActiveFault<F>], kind: &str) -> Option<F> {
    let active = faults.iter_mut().find(|active| active.fits(kind))?;
    active.times = active.times.map(|times| times - 1);
    Some(active.fault)
}

impl<F> From<F> for ActiveFault<F> {
    fn from(fault: F) -> Self {
        Self { fault, on: None, times: None }
    }
}

impl<F: InjectedFault> FromStr for ActiveFault<F> {
    type Err = String;

    /// `NAME[@KIND][*TIMES]`, such as `throttled429@wiql*2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, times) = match text.rsplit_once('*') {
            Some((rest, times)) => {
                (rest, Some(times.parse().map_err(|_| format!("{times:?} is not a number"))?))
            }
            None => (text, None),
        };
        let (name, on) = match rest.split_once('@') {
            Some((name, on)) => (name, Some(on.to_ascii_lowercase())),
            None => (rest, None),
        };
        let fault = serde_json::from_value(serde_json::Value::from(name)).map_err(|_| {
            let names: Vec<String> = F::ALL.iter().map(|fault| fault.name()).collect();
            format!("unknown fault {name:?}; known faults: {}", names.join(", "))
        })?;
        Ok(Self { fault, on, times })
    }
}
