//! Checks of the tracker for `doctor`.

use serde_json::Value;

use super::{AdoSource, Call, Inner};
use crate::fetch::Probe;
use crate::fetch::failure::Failure;

impl AdoSource {
    /// Checks credential, project and query. Bypasses the breaker, since a user is asking.
    pub async fn probe(&self) -> Probe {
        let to_error = |failure: Failure| failure.into_error(self.0.transport.now());
        Probe {
            account: self.0.account().await.map_err(to_error),
            project: self.0.project().await.map_err(to_error),
            matching: self.0.matching().await.map_err(to_error),
        }
    }
}

impl Inner {
    async fn account(&self) -> Result<String, Failure> {
        let what = "the account of the credential";
        let call = Call::get(vec!["_apis", "connectionData"], "connectionData", what);
        let value = self.json(&call, what).await?;
        let user = &value["authenticatedUser"];
        let name = user["providerDisplayName"].as_str().or_else(|| user["id"].as_str());
        Ok(name.unwrap_or("unknown").to_owned())
    }

    async fn project(&self) -> Result<String, Failure> {
        let what = format!("project {:?}", self.config.project);
        let path = vec!["_apis", "projects", &self.config.project];
        let value = self.json(&Call::get(path, "projects", what.as_str()), &what).await?;
        Ok(value["name"].as_str().unwrap_or(&self.config.project).to_owned())
    }

    async fn matching(&self) -> Result<usize, Failure> {
        if !self.config.saved_query.is_empty() {
            return self.saved_rows().await.map(|rows| rows.ids.len());
        }
        let window = super::query::Window::since(self.look_back());
        self.rows(window, Some(super::query::MAX_ROWS)).await.map(|rows| rows.ids.len())
    }

    async fn json(&self, call: &Call<'_>, what: &str) -> Result<Value, Failure> {
        let answer = self.transport.send(call).await?;
        self.transport.decode(&answer, what)
    }
}
