//! Checks of the tracker for `doctor`.

use serde_json::Value;

use super::AdoSource;
use super::query::{MAX_ROWS, Window};
use crate::fetch::FetchError;
use crate::fetch::http::Request;

impl AdoSource {
    pub async fn account(&self) -> Result<String, FetchError> {
        let url = self.http.url(&["_apis", "connectionData"], &[]);
        let request = Request::get(url, "the account of the credential");
        let value: Value = self.json("connectionData", request).await?;
        let user = &value["authenticatedUser"];
        let name = user["providerDisplayName"].as_str().or_else(|| user["id"].as_str());
        Ok(name.unwrap_or("unknown").to_owned())
    }

    pub async fn project_name(&self) -> Result<String, FetchError> {
        let project = &self.config.project;
        let url = self.http.url(&["_apis", "projects", project], &[]);
        let request = Request::get(url, format!("project {project:?}"));
        let value: Value = self.json("projects", request).await?;
        Ok(value["name"].as_str().unwrap_or(project).to_owned())
    }

    pub async fn matching(&self) -> Result<usize, FetchError> {
        let window = Window::since(self.http.look_back(&self.config));
        let rows = match self.config.saved_query.is_empty() {
            true => self.rows(window, Some(MAX_ROWS)).await?,
            false => self.saved_rows().await?,
        };
        Ok(rows.ids.len())
    }
}
