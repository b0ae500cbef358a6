//! `[fleet]`: sessions on other hosts.

use std::collections::BTreeMap;
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
    /// How long a worker that was asked to stop lets its sessions end.
    #[serde(with = "human::duration")]
    pub drain: Duration,
    pub key_file: PathBuf,
    /// On a worker: the public keys of the coordinator.
    pub coordinator: Vec<String>,
    /// On the coordinator: the public key of every worker, by its host.
    pub workers: BTreeMap<String, String>,
    pub tls_ca_file: PathBuf,
    pub tls_cert_file: PathBuf,
    pub tls_key_file: PathBuf,
    pub tls_domain: String,
    pub api_key_env: String,
    pub account: FleetAccount,
    pub when_down: WhenDown,
    pub mirrors: Vec<Mirror>,
}

impl Fleet {
    pub fn is_on(&self) -> bool {
        !self.address.is_empty()
    }
}

/// Scope of the agent's account, and so of the provider's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetAccount {
    /// One account for all hosts: a provider limit stops all of them.
    Shared,
    /// One account per host: a provider limit stops only that host.
    PerHost,
}

/// What happens while the server is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenDown {
    /// No session starts.
    Wait,
    /// Sessions run on the coordinator.
    Local,
}

/// A repository on this host, by the name that the coordinator uses for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirror {
    pub name: String,
    pub path: PathBuf,
}
