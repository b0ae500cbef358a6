//! Checks of Jira for `doctor`.

use serde_json::json;

use super::http::Call;
use super::{Inner, JiraSource, wire};
use crate::fetch::Probe;
use crate::fetch::failure::Failure;
use crate::fetch::http::Repeat;

impl JiraSource {
    /// Checks credential, projects and condition. Bypasses the breaker, since a user is asking.
    pub async fn probe(&self) -> Probe {
        let to_error = |failure: Failure| failure.into_error(self.0.transport.http.now());
        Probe {
            account: self.0.account().await.map_err(to_error),
            project: self.0.projects().await.map_err(to_error),
            matching: self.0.matching().await.map_err(to_error),
        }
    }
}

impl Inner {
    async fn account(&self) -> Result<String, Failure> {
        let kind = if self.transport.server().await?.is_cloud { "Cloud" } else { "Data Center" };
        let user = self.transport.ensure_signed_in().await?;
        let name = user.display_name.or(user.name).unwrap_or_else(|| "unknown".to_owned());
        Ok(format!("{name} (Jira {kind})"))
    }

    /// A project by its key or name.
    pub async fn project(&self, name: &str) -> Result<wire::Named, Failure> {
        let what = format!("project {name:?}");
        self.transport.json(Call::get(&["project", name], &what)).await
    }

    async fn projects(&self) -> Result<String, Failure> {
        let mut names = Vec::new();
        for project in self.scope.projects() {
            let found = self.project(project).await?;
            names.push(found.name.unwrap_or_else(|| project.clone()));
        }
        Ok(names.join(", "))
    }

    async fn matching(&self) -> Result<usize, Failure> {
        // The first page explains a refused query.
        self.changed_since(self.look_back(), None, 1, Repeat::Safe).await?;
        let dates = self.dates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let query = self.scope.changed_since(self.look_back(), &dates);
        let what = "the number of items";
        if self.transport.server().await?.is_cloud {
            let body = json!({ "jql": query });
            let call = Call::ask(&["search", "approximate-count"], what, body);
            return Ok(self.transport.json::<wire::Count>(call).await?.count);
        }
        let body = json!({ "jql": query, "maxResults": 0, "fields": ["updated"] });
        let found: wire::Search = self.transport.json(Call::ask(&["search"], what, body)).await?;
        Ok(usize::try_from(found.total.unwrap_or_default()).unwrap_or(usize::MAX))
    }
}
