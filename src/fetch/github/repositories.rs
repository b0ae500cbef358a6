//! The repositories of a source, and the id ranges of their issues.

use jiff::Timestamp;

use super::decode::item_id;
use super::read::concerns_one_repository;
use super::{GithubSource, wire};
use crate::fetch::FetchError;
use crate::model::{FailureClass, ItemId, RepositoryRecord};
use crate::settings::SourceAuth;

/// Upper limit of repositories per source.
const MAX_REPOSITORIES: usize = 5_000;

/// The value of `source.project`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoScope {
    /// `owner/repository`, one or several.
    Repositories(Vec<String>),
    /// Everything that an organisation or a user owns.
    Owner(String),
}

impl RepoScope {
    pub fn parse(project: &str) -> Result<Self, FetchError> {
        let wrong = |name: &str| {
            let message = format!(
                "source.project {name:?} is not a repository; write owner/repository, several \
                 separated by commas, or only the owner for all of its repositories"
            );
            FetchError::new(FailureClass::Config, message)
        };
        let plain = |part: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part.chars().all(allowed) && part != "." && part != ".."
        };
        let names: Vec<&str> =
            project.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).collect();
        match names.as_slice() {
            [] => Err(wrong(project)),
            [owner] if plain(owner) => Ok(Self::Owner((*owner).to_owned())),
            names => {
                let mut repositories: Vec<String> = Vec::new();
                for name in names {
                    let parts: Vec<&str> = name.split('/').collect();
                    if parts.len() != 2 || !parts.iter().all(|part| plain(part)) {
                        return Err(wrong(name));
                    }
                    if !repositories.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                        repositories.push((*name).to_owned());
                    }
                }
                Ok(Self::Repositories(repositories))
            }
        }
    }

    /// The API path of the App's installation.
    pub fn installation_path(&self) -> Vec<String> {
        match self {
            Self::Repositories(names) => {
                vec![
                    "repos".into(),
                    names.first().cloned().unwrap_or_default(),
                    "installation".into(),
                ]
            }
            Self::Owner(owner) => vec!["users".into(), owner.clone(), "installation".into()],
        }
    }
}

/// A repository that is read, and its position among all that this source ever had. Position 0
/// keeps its issue numbers unchanged, so a source of one repository has plain ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub position: usize,
    pub id: i64,
    /// Current `owner/repository`.
    pub name: String,
    /// How far it was read.
    pub cursor: Option<Timestamp>,
    /// Address and ETag of the last list.
    pub seen_list: Option<(String, String)>,
}

impl Known {
    pub fn item_id(&self, number: i64) -> ItemId {
        item_id(self.position, number)
    }

    /// The number of an issue by its API address, if it is in this repository.
    pub fn number_in(&self, url: &str) -> Option<i64> {
        let (before, number) = url.rsplit_once("/issues/")?;
        let is_ours =
            before.to_lowercase().ends_with(&format!("/repos/{}", self.name.to_lowercase()));
        number.parse().ok().filter(|_| is_ours)
    }

    pub fn of(position: usize, record: &RepositoryRecord) -> Self {
        Self {
            position,
            id: record.id,
            name: record.name.clone(),
            cursor: record.cursor,
            seen_list: record.list_address.clone().zip(record.list_mark.clone()),
        }
    }
}

impl GithubSource {
    /// The repositories to read now. New ones get a position, which is stored before any of their
    /// issues.
    pub async fn repositories(&self) -> Result<Vec<Known>, FetchError> {
        let found = match &self.scope {
            RepoScope::Repositories(names) => self.named(names).await?,
            RepoScope::Owner(owner) => self.owned(owner).await?,
        };
        let known = self.http.notebook.update(move |remembered| {
            let records = &mut remembered.repositories;
            let place = |repository: wire::GithubRepository| {
                let at = records.iter().position(|record| record.id == repository.id);
                let at = at.unwrap_or_else(|| {
                    let id = repository.id;
                    records.push(RepositoryRecord { id, ..RepositoryRecord::default() });
                    records.len() - 1
                });
                if records[at].name != repository.full_name {
                    records[at].name = repository.full_name;
                }
                Known::of(at, &records[at])
            };
            found.into_iter().map(place).collect()
        });
        known.await
    }

    /// A known name needs no request. One of several that cannot be read does not prevent the
    /// others from being read.
    async fn named(&self, names: &[String]) -> Result<Vec<wire::GithubRepository>, FetchError> {
        let remembered = self.http.notebook.read().await?;
        let mut found = Vec::with_capacity(names.len());
        let mut failed = None;
        for name in names {
            let known = remembered.repositories.iter().find(|r| r.name.eq_ignore_ascii_case(name));
            if let Some(record) = known {
                let (id, full_name) = (record.id, record.name.clone());
                found.push(wire::GithubRepository {
                    id,
                    full_name,
                    ..wire::GithubRepository::default()
                });
                continue;
            }
            match self.repository(name).await {
                Ok(repository) => found.push(repository),
                Err(failure) if concerns_one_repository(&failure) => {
                    tracing::warn!(
                        repository = name,
                        error = failure.message,
                        "skipped a repository that cannot be read"
                    );
                    failed = failed.or(Some(failure));
                }
                Err(failure) => return Err(failure),
            }
        }
        match failed {
            Some(failure) if found.is_empty() => Err(failure),
            _ => Ok(found),
        }
    }

    /// A repository by its name; if it was renamed or moved, under its new name.
    pub async fn repository(&self, name: &str) -> Result<wire::GithubRepository, FetchError> {
        let what = format!("the repository {name}");
        let url = self.http.url(&["repos", name], &[]);
        let repository: wire::GithubRepository = self.json(url, &what).await?;
        if repository.id == 0 || !repository.full_name.contains('/') {
            let message = format!(
                "{} returned JSON that is not {what}; does source.base_url point at the API?",
                self.http.base_url()
            );
            return Err(FetchError::new(FailureClass::Config, message));
        }
        Ok(repository)
    }

    async fn owned(&self, owner: &str) -> Result<Vec<wire::GithubRepository>, FetchError> {
        if self.config.auth == SourceAuth::App {
            return self.listed(&["installation", "repositories"], owner).await;
        }
        match self.listed(&["orgs", owner, "repos"], owner).await {
            Err(failure) if failure.has_code("404") => {
                self.listed(&["users", owner, "repos"], owner).await
            }
            other => other,
        }
    }

    async fn listed(
        &self,
        path: &[&str],
        owner: &str,
    ) -> Result<Vec<wire::GithubRepository>, FetchError> {
        let what = format!("the repositories of {owner}");
        // In the order of creation: a new one does not move the others.
        let query = [
            ("per_page", "100".to_owned()),
            ("sort", "created".into()),
            ("direction", "asc".into()),
        ];
        let mut url = self.http.url(path, &query);
        let mut all: Vec<wire::GithubRepository> = Vec::new();
        loop {
            let (page, next) = match path[0] {
                "installation" => {
                    let (page, next): (wire::InstallationRepositories, _) =
                        self.page(url, &what).await?;
                    (page.repositories, next)
                }
                _ => self.page(url, &what).await?,
            };
            let prefix = format!("{}/", owner.to_lowercase());
            // Archived repositories do not change.
            all.extend(page.into_iter().filter(|repository| {
                !repository.archived
                    && !repository.disabled
                    && repository.has_issues != Some(false)
                    && repository.full_name.to_lowercase().starts_with(&prefix)
            }));
            if all.len() > MAX_REPOSITORIES {
                let message = format!(
                    "{owner} has more than {MAX_REPOSITORIES} repositories; name those to watch \
                     in source.project"
                );
                return Err(FetchError::new(FailureClass::TooMany, message));
            }
            match next {
                Some(next) => url = next,
                None => return Ok(all),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_one_repository_several_or_an_owner() {
        let named =
            |names: &[&str]| RepoScope::Repositories(names.iter().map(|&n| n.to_owned()).collect());
        assert_eq!(RepoScope::parse("contoso/shop").unwrap(), named(&["contoso/shop"]));
        assert_eq!(RepoScope::parse("a/b, a/c A/B").unwrap(), named(&["a/b", "a/c"]));
        assert_eq!(RepoScope::parse("contoso").unwrap(), RepoScope::Owner("contoso".into()));
        for wrong in ["", "a/b/c", "a/", "a/b, c", "https://github.com/a/b", "a/..", "a/b?x"] {
            assert_eq!(RepoScope::parse(wrong).unwrap_err().class, FailureClass::Config, "{wrong}");
        }
    }
}
