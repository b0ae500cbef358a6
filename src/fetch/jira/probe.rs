//! Checks of Jira for `doctor`.

use serde_json::json;

use super::{JiraSource, wire};
use crate::fetch::FetchError;
use crate::fetch::http::Repeat;

impl JiraSource {
    pub async fn account(&self) -> Result<String, FetchError> {
        let kind = if self.is_cloud().await? { "Cloud" } else { "Data Center" };
        let user = self.ensure_signed_in().await?;
        let name = user.display_name.or(user.name).unwrap_or_else(|| "unknown".to_owned());
        Ok(format!("{name} (Jira {kind})"))
    }

    /// Sends one request to validate the query; the rows are ignored.
    pub async fn check(&self) -> Result<(), FetchError> {
        let since = self.http.look_back(&self.config);
        self.changed_since(since, None, 1, Repeat::Never).await.map(|_| ())
    }

    /// A project by its key or name.
    pub async fn project(&self, name: &str) -> Result<wire::JiraNamed, FetchError> {
        self.get(&["project", name], &[], &format!("project {name:?}")).await
    }

    pub async fn project_name(&self) -> Result<String, FetchError> {
        let mut names = Vec::new();
        for project in self.scope.projects() {
            let found = self.project(project).await?;
            names.push(found.name.unwrap_or_else(|| project.clone()));
        }
        Ok(names.join(", "))
    }

    pub async fn matching(&self) -> Result<usize, FetchError> {
        // The first page explains a refused query.
        self.changed_since(self.http.look_back(&self.config), None, 1, Repeat::Safe).await?;
        let dates = self.dates.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let query = self.scope.changed_since(self.http.look_back(&self.config), &dates);
        let what = "the number of items";
        if self.is_cloud().await? {
            let body = json!({ "jql": query });
            let path = ["search", "approximate-count"];
            return Ok(self.ask::<wire::Count>(&path, what, &body).await?.count);
        }
        let body = json!({ "jql": query, "maxResults": 0, "fields": ["updated"] });
        let found: wire::JiraSearch = self.ask(&["search"], what, &body).await?;
        Ok(usize::try_from(found.total.unwrap_or_default()).unwrap_or(usize::MAX))
    }
}
