//! `[fleet]`: sessions on other hosts.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::human;

/// `[fleet]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    pub address: String,
    pub namespace: String,
    pub pool: String,
    pub host: String,
    #[serde(with = "human::duration")]
    pub lease: Duration,
    pub key_file: PathBuf,
    pub tls_ca_file: PathBuf,
    pub tls_cert_file: PathBuf,
    pub tls_key_file: PathBuf,
    pub tls_domain: String,
    pub api_key_env: String,
    pub account: Account,
    pub when_down: WhenDown,
    pub mirrors: Vec<Mirror>,
}

impl Fleet {
    /// Do sessions run on other hosts?
    pub fn is_on(&self) -> bool {
        !self.address.is_empty()
    }
}

/// Whose the agent's account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Account {
    /// One for all hosts: what the provider refuses to one it refuses to all.
    Shared,
    /// Each host has its own: a refusal stops that host only.
    PerHost,
}

/// What happens while the server cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenDown {
    /// No session starts.
    Wait,
    /// Sessions run on the coordinator.
    Local,
}

/// A repository of this host, under the name that the coordinator's orders use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    pub name: String,
    pub path: PathBuf,
}
