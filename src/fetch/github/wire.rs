//! GitHub's JSON as types: missing values are tolerated, unused ones ignored.

use serde::Deserialize;

/// An issue, or a pull request, which is listed with them. Only the number is required.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GithubIssue {
    pub number: i64,
    pub title: Option<String>,
    /// Raw Markdown; null when empty.
    pub body: Option<String>,
    /// `open` or `closed`.
    pub state: Option<String>,
    pub labels: Vec<Label>,
    pub assignees: Option<Vec<GithubAccount>>,
    pub user: Option<GithubAccount>,
    pub milestone: Option<GithubNamed>,
    pub comments: i64,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub html_url: Option<String>,
    /// Address of its current repository.
    pub repository_url: Option<String>,
    /// Present on pull requests.
    pub pull_request: Option<serde::de::IgnoredAny>,
    /// The issue type, where the organisation has types.
    #[serde(rename = "type")]
    pub kind: Option<GithubNamed>,
    pub parent_issue_url: Option<String>,
    pub sub_issues_summary: Option<Summary>,
    pub locked: bool,
}

/// A label, as an object or as a plain name.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Label {
    Bare(String),
    Full { name: Option<String> },
}

impl Label {
    pub fn name(&self) -> &str {
        match self {
            Self::Bare(name) => name,
            Self::Full { name } => name.as_deref().unwrap_or_default(),
        }
    }
}

/// A user, an app or an organisation.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GithubAccount {
    pub login: String,
}

/// A milestone (`title`) or an issue type (`name`).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GithubNamed {
    pub name: Option<String>,
    pub title: Option<String>,
}

/// Number of sub-issues.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub total: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GithubComment {
    pub body: Option<String>,
    pub user: Option<GithubAccount>,
    pub created_at: Option<String>,
    /// What its author is to the repository, such as `MEMBER`.
    pub author_association: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GithubRepository {
    pub id: i64,
    pub full_name: String,
    pub archived: bool,
    pub disabled: bool,
    pub has_issues: Option<bool>,
}

/// The repositories of an App's installation.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct InstallationRepositories {
    pub repositories: Vec<GithubRepository>,
}

#[derive(Debug, Deserialize)]
pub struct Installation {
    pub id: i64,
}

#[derive(Debug, Deserialize)]
pub struct InstallationToken {
    pub token: String,
    pub expires_at: String,
}
