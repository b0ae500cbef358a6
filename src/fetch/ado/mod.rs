//! Azure DevOps Services and Server.
//!
//! It queries the ids that changed and then reads items in batches. One request is in flight at a
//! time, success is JSON with a 2xx other than 203, and every failure has a class with its own
//! action.
//!
//! Where things are: versions, headers and failures in `http` and `version`; the query language and
//! its limits in `query` and `pages`; texts, identities and dates in `decode`; finished items, their
//! past texts and their links to commits in `look_back`; writing in `write_back`.
//!
//! Items are read in their current state and not `asOf` the query: an edit in between is read early
//! instead of late, and the cursor never passes the time of the query, so none is missed.
//!
//! Out of scope, with the reason: service hooks (they cannot reach a private machine, and lose
//! events on probation, so polling is needed anyway); NTLM and Kerberos (the HTTP client does not
//! support them; Server accepts personal access tokens); TFS 2018 and older (no batch resource);
//! targets of all links (`relations` and a choice of fields exclude each other, so it would cost a
//! second response with every field; the parent and the number of links by kind are read, and the
//! rest only for items that are analysed, see `linked_content`) and hashing them (a link changes
//! neither revision nor date, and does not describe the item itself); validating state names (a
//! misspelt one matches nothing, and the probe reports how many items were found); the recycle bin
//! (deleted items are reported as vanished); writing comments by their own resource (a patch with a
//! tested revision can be repeated, a comment cannot); `$batch` (there is only one patch per
//! finding); `X-HTTP-Method-Override` (if a proxy refuses PATCH, its response says so);
//! `bypassRules` and `suppressNotifications` (they need rights that heartbeat should not have).
//!
//! The cost of reading compared with a plain download loop: `benches/README.md`.

mod decode;
mod field_write;
mod fields;
mod http;
mod linked_content;
mod look_back;
mod pages;
mod probe;
mod query;
mod read;
mod version;
mod wire;
mod write_back;

use std::collections::BTreeMap;
use std::sync::RwLock;

use tokio::sync::OnceCell;

pub use decode::saved_item;
pub use query::literal;

use super::http::Http;
use super::{Connection, FetchError, client};
use crate::model::FailureClass;
use crate::settings;

/// One project of one organisation or collection.
pub(super) struct AdoSource {
    pub(super) config: settings::Source,
    pub(super) http: Http,
    fields: read::Fields,
    /// API versions agreed with the server, by resource.
    agreed: RwLock<BTreeMap<String, String>>,
    /// Those of earlier runs were loaded.
    loaded: OnceCell<()>,
}

impl AdoSource {
    /// Creates a client for the source in `config`; sends nothing.
    pub fn connect(config: &settings::Source, connection: &Connection) -> Result<Self, FetchError> {
        if config.project.trim().is_empty() {
            let message = "source.project is empty; set it to the project to watch";
            return Err(FetchError::new(FailureClass::Config, message));
        }
        let examples = "https://dev.azure.com/contoso or https://server:8080/tfs/DefaultCollection";
        let base = client::base_url(&config.base_url, examples)?;
        let session = uuid::Uuid::now_v7().to_string();
        let dialect = Box::new(http::Ado { auth: config.auth, session });
        let http = Http::new(config, base, dialect, connection)?;
        let fields = read::Fields::new(config, http.base_url());
        let (agreed, loaded) = (RwLock::default(), OnceCell::new());
        Ok(Self { config: config.clone(), http, fields, agreed, loaded })
    }
}
