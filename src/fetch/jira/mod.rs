//! Jira: Cloud and Data Center.
//!
//! Changes are searched for, oldest first, continuing from the minute of the last row. One request
//! is in flight at a time; success is JSON with a 2xx from a server that accepted the sign-in, and
//! every failure has a class with its own action.
//!
//! Where things are: addresses, credential, the kind of Jira and failures in `http`; the query
//! language, its minutes and its time zones in `jql`; Cloud's delayed index and queries that the
//! server rewrites in `pages`; texts and areas in `decode`, priorities in `priority`; comments in
//! both formats in `compose`; writing in `write_back`; links and attached files in
//! `linked_content`; finished issues and their earlier texts in `look_back`.
//!
//! Out of scope, with the reason: webhooks (they cannot reach a private machine); the development
//! panel (only a private API has it); sprints (a custom field of a plug-in; the fix version serves
//! as the iteration); OAuth with refresh (`token_command` can do it); hidden marks in comment
//! properties (Data Center does not show them to other readers, a visible line works everywhere);
//! `notifyUsers=false` (requires administrator rights).

mod compose;
mod decode;
mod field_write;
mod http;
mod jql;
pub use jql::literal;
mod linked_content;
mod look_back;
mod pages;
mod priority;
mod probe;
mod read;
mod wire;
mod write_back;

use std::collections::HashSet;
use std::sync::RwLock;

use tokio::sync::OnceCell;

use self::decode::JiraDecoder;
use self::http::{Deployment, Jira};
use self::jql::{Dates, JqlScope};
use self::priority::Priorities;
use super::http::Http;
use super::{Connection, FetchError, client};
use crate::model::FailureClass;
use crate::settings;

/// One project or several of one site or server.
pub(super) struct JiraSource {
    pub(super) config: settings::Source,
    pub(super) http: Http,
    scope: JqlScope,
    decoder: JiraDecoder,
    deployment: OnceCell<Deployment>,
    dates: RwLock<Dates>,
    priorities: OnceCell<Priorities>,
    /// Current keys on the server.
    project_keys: OnceCell<HashSet<String>>,
}

impl JiraSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn connect(config: &settings::Source, connection: &Connection) -> Result<Self, FetchError> {
        let scope = JqlScope::new(&config.project, &config.where_clause, &config.saved_query)
            .map_err(|why| FetchError::new(FailureClass::Config, why))?;
        let examples = "https://contoso.atlassian.net or https://jira.contoso.com/jira";
        let base = client::base_url(&config.base_url, examples)?;
        let dialect = Box::new(Jira { user: config.user.trim().to_owned(), auth: config.auth });
        Ok(Self {
            http: Http::new(config, base, dialect, connection)?,
            decoder: JiraDecoder::new(config),
            config: config.clone(),
            scope,
            deployment: OnceCell::new(),
            dates: RwLock::new(Dates::Milliseconds),
            priorities: OnceCell::new(),
            project_keys: OnceCell::new(),
        })
    }
}
