//! Checks that send a request for their own sake: the model provider's answer to a free request,
//! and the tracker's to a comment that is not written.

use std::path::Path;
use std::sync::Arc;

use super::source::failed;
use super::{Check, DoctorInput};
use crate::app::ConfiguredCredential;
use crate::fetch::{Connection, FetchRequest, InMemory, Source as _, Tracker, WriteBack, connect};
use crate::gateway::{Greeting, Upstream};
use crate::model::{FailureClass, Format, WorkItem};
use crate::session::agent::of_kind;
use crate::settings::{AgentKind, Source};

pub(super) async fn checks(input: &DoctorInput) -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in input.config.agents() {
        checks.push(provider(input, kind).await);
    }
    for source in input.config.sources().iter().filter(|source| source.write_back) {
        checks.push(writing(input, source).await);
    }
    checks
}

async fn provider(input: &DoctorInput, kind: AgentKind) -> Check {
    let name = "provider";
    let lookup = |name: &str| input.environment.raw(name).map(std::ffi::OsStr::to_owned);
    let agent = of_kind(kind, &input.config, Path::new(""), lookup);
    let Some(provider) = agent.provider() else {
        let found = "the agent's own login or another way to the provider is used, which only a \
                     session can try: heartbeat --once";
        return Check::skipped(name, found);
    };
    let address = provider.address.clone();
    let upstream = match Upstream::new(provider) {
        Ok(upstream) => upstream,
        Err(why) => {
            let fix = "correct the provider's address and the files with certificates \
                       (NODE_EXTRA_CA_CERTS, SSL_CERT_FILE)";
            return Check::failed(name, why, fix);
        }
    };
    match upstream.greet(input.clock.now()).await {
        Greeting::Accepted => {
            Check::ok(name, format!("{address} answers and accepts the credential"))
        }
        Greeting::Unproven => Check::ok(
            name,
            format!("{address} answers; it has no free request that would prove the credential"),
        ),
        Greeting::Refused(failure) | Greeting::Unreachable(failure) => {
            let fix = failure.fix(input.config.credential_env_of(kind));
            Check::failed(name, upstream.told(&failure), fix)
        }
    }
}

/// Whether the tracker would take a comment. It is not written.
async fn writing(input: &DoctorInput, source: &Source) -> Check {
    let name = "write-back";
    let credential = ConfiguredCredential::new(source, &input.config, &input.environment);
    let connection = Connection::new(Arc::new(credential), input.clock.clone(), InMemory::shared());
    let tracker = match connect(source, connection) {
        Ok(tracker) => tracker,
        Err(error) => return failed(source.kind, name, &error),
    };
    let item = match some_item(&tracker).await {
        Ok(Some(item)) => item,
        Ok(None) => {
            let found = "the query matches no item on which the right to write could be tried";
            return Check::skipped(name, found);
        }
        Err(error) => return failed(source.kind, name, &error),
    };
    let write = WriteBack {
        id: item.id,
        rev: item.rev,
        comment: "heartbeat doctor tries the right to write; this comment is not written.",
        format: Format::Markdown,
        tag: &source.write_back_tag,
        may_be_there: false,
    };
    match tracker.validate_write_back(&write).await {
        Ok(()) => Check::ok(name, format!("a comment on item {} would be accepted", item.id)),
        Err(error) if matches!(error.class, FailureClass::Auth | FailureClass::Denied) => {
            let fix = "give the token the right to write work items (Azure DevOps: Work Items, read & \
                       write; GitHub: Issues, write; Jira: add comments, edit issues), or set \
                       source.write_back = false";
            Check::failed(name, error.message, fix)
        }
        Err(error) => failed(source.kind, name, &error),
    }
}

async fn some_item(tracker: &Tracker) -> Result<Option<WorkItem>, crate::fetch::FetchError> {
    let mut pages = tracker.open(FetchRequest { changed_since: None, also: Vec::new() }).await?;
    while let Some(page) = pages.next().await? {
        if let Some(item) = page.items.into_iter().next() {
            return Ok(Some(item));
        }
    }
    Ok(None)
}
