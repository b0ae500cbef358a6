//! `[source]` and `[[sources]]`: the trackers that work items are read from.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Config, FixNumbers, Fixes, RouteSettings, human};
use crate::model::{ItemKey, Usd};

/// One tracker project or query. `default.toml` says which fields belong to only one kind of
/// tracker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    pub name: String,
    pub kind: SourceKind,
    pub base_url: String,
    /// Of kind `file`: where the items are.
    pub path: PathBuf,
    pub project: String,
    pub team: String,
    #[serde(rename = "where")]
    pub where_clause: String,
    pub saved_query: String,
    /// Filters beside `where`, by the tracker's own names; empty admits all.
    pub areas: Vec<String>,
    pub types: Vec<String>,
    pub states: Vec<String>,
    pub tags: Vec<String>,
    pub not_areas: Vec<String>,
    pub not_types: Vec<String>,
    pub not_states: Vec<String>,
    pub not_tags: Vec<String>,
    #[serde(with = "human::duration")]
    pub look_back: Duration,
    #[serde(with = "human::duration")]
    pub overlap: Duration,
    pub auth: SourceAuth,
    pub user: String,
    pub token_env: String,
    pub token_file: PathBuf,
    pub token_command: Vec<String>,
    pub api_version: String,
    pub text_fields: Vec<String>,
    pub comments: u32,
    pub page_size: u32,
    #[serde(with = "human::duration")]
    pub request_timeout: Duration,
    #[serde(with = "human::size")]
    pub max_body: u64,
    pub ca_file: PathBuf,
    pub write_back: bool,
    pub write_back_tag: String,
    /// Whether comments may command.
    pub commands: bool,
    pub repository: PathBuf,
    pub routes: Vec<RouteSettings>,
    pub schedule: String,
    /// Zero means no limit for this source.
    pub budget_per_day: Usd,
    /// Zero means no limit for this source.
    pub budget_per_month: Usd,
    pub app_id: String,
    pub area_labels: Vec<String>,
    pub priority_labels: Vec<String>,
    pub severity_labels: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum SourceKind {
    /// Azure DevOps Services or Server.
    Ado,
    /// GitHub or GitHub Enterprise Server.
    Github,
    /// Jira Cloud or Data Center.
    Jira,
    /// A file or a folder: the export of any tracker.
    File,
}

/// How requests are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceAuth {
    /// Personal access token, sent as Basic.
    Pat,
    /// Any other token, sent as Bearer.
    Bearer,
    /// The private key of a GitHub App.
    App,
}

impl Config {
    /// The effective sources, in the order of the file.
    pub fn sources(&self) -> &[Source] {
        match self.source_list.as_slice() {
            [] => std::slice::from_ref(&self.source),
            listed => listed,
        }
    }

    pub fn source_named(&self, name: &str) -> Option<&Source> {
        self.sources().iter().find(|source| source.name == name)
    }

    /// The source of an item, if it is still configured.
    pub fn source_of(&self, item: &ItemKey) -> Option<&Source> {
        self.source_named(item.source())
    }

    /// How commits refer to items of this source: a bare number is an item if the tracker's items
    /// are issues.
    pub fn fixes_of(&self, source: &str) -> Fixes {
        let mut fixes = self.fixes.clone();
        let is_github = self.source_named(source).is_some_and(|s| s.kind == SourceKind::Github);
        if fixes.numbers == FixNumbers::Auto && is_github {
            fixes.numbers = FixNumbers::Issues;
        }
        fixes
    }

    /// Without duplicates.
    pub fn code_bases(&self) -> Vec<PathBuf> {
        let mut all = vec![self.repository.path.clone()];
        all.extend(self.repository.routes.iter().flat_map(RouteSettings::paths).cloned());
        for source in self.sources() {
            all.push(source.repository.clone());
            all.extend(source.routes.iter().flat_map(RouteSettings::paths).cloned());
        }
        all.retain(|path| !path.as_os_str().is_empty());
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether a variable may hold a tracker's credential.
    pub fn is_tracker_variable(&self, name: &str) -> bool {
        self.sources().iter().any(|source| !name.is_empty() && source.token_env == name)
    }

    /// Whether a source is configured.
    pub fn has_source(&self) -> bool {
        let named = |source: &Source| {
            !source.base_url.is_empty()
                || !source.project.is_empty()
                || !source.path.as_os_str().is_empty()
        };
        self.sources().iter().any(named)
    }

    /// Whether some items have only the default code base.
    pub fn needs_default_code_base(&self) -> bool {
        self.sources().iter().any(|source| source.repository.as_os_str().is_empty())
    }

    /// The projects of all sources, for titles.
    pub fn projects(&self) -> String {
        let mut names: Vec<&str> = self.sources().iter().map(Source::title).collect();
        names.dedup();
        names.join(", ")
    }

    /// The organisations or sites of all sources, as in their addresses.
    pub fn organizations(&self) -> String {
        let mut names: Vec<&str> = self.sources().iter().filter_map(Source::organization).collect();
        names.dedup();
        names.join(", ")
    }

    /// Whether every tracker is a simulated one on this machine: nothing here is real.
    pub fn is_simulated(&self) -> bool {
        let sources = self.sources();
        let local = |source: &Source| {
            let host = source.base_url.split("://").nth(1).unwrap_or_default();
            ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| host.starts_with(name))
        };
        !sources.is_empty() && sources.iter().all(local)
    }

    /// The section's name in messages: `source`, or `sources[2]`.
    pub fn source_section(&self, position: usize) -> String {
        match self.source_list.is_empty() {
            true => "source".to_owned(),
            false => format!("sources[{}]", position + 1),
        }
    }
}

impl Source {
    /// The project, or the source's name if the tracker has no projects; empty if no tracker is
    /// configured, such as for the state of a demo.
    pub fn title(&self) -> &str {
        let is_file = self.kind == SourceKind::File;
        match self.project.as_str() {
            "" if self.base_url.is_empty() && !is_file => "",
            "" => &self.name,
            project => project,
        }
    }

    /// `contoso` of `https://dev.azure.com/contoso` and of `https://contoso.atlassian.net`.
    fn organization(&self) -> Option<&str> {
        let (host, path) =
            self.base_url.split_once("://")?.1.split_once('/').unwrap_or_else(|| {
                (self.base_url.split_once("://").map_or("", |(_, host)| host), "")
            });
        let first = path.split('/').next().filter(|first| !first.is_empty());
        match host {
            "dev.azure.com" => first,
            "api.github.com" | "github.com" => None,
            host if host.starts_with("127.") || host.starts_with("localhost") => first,
            host => host.split('.').next(),
        }
    }

    /// A file needs none.
    pub fn needs_credential(&self) -> bool {
        self.kind != SourceKind::File
    }

    /// The filters beside `where`, by their keys.
    pub fn filters(&self) -> [(&'static str, &[String]); 8] {
        [
            ("areas", &self.areas),
            ("types", &self.types),
            ("states", &self.states),
            ("tags", &self.tags),
            ("not_areas", &self.not_areas),
            ("not_types", &self.not_types),
            ("not_states", &self.not_states),
            ("not_tags", &self.not_tags),
        ]
    }

    /// Whether a location for the credential is configured.
    pub fn has_credential_location(&self) -> bool {
        !self.needs_credential()
            || !self.token_env.is_empty()
            || !self.token_file.as_os_str().is_empty()
            || !self.token_command.is_empty()
    }
}
