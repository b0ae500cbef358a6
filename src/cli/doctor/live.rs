//! Checks that send a request for their own sake: the model provider's answer to a free request,
//! the tracker's to a comment that is not written, and items whose files the code base should have.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::source::failed;
use super::{DoctorCheck, DoctorInput};
use crate::app::ConfiguredCredential;
use crate::clean::{Budget, clean_item};
use crate::context::{Query, git, subject_of};
use crate::fetch::Source as _;
use crate::fetch::{Connection, FetchError, FetchRequest, InMemory, Tracker, WriteBack, connect};
use crate::gateway::{Greeting, Upstream};
use crate::model::{FailureClass, Format, WorkItem};
use crate::session::agent::of_kind;
use crate::settings::{AgentKind, Source};

/// Items whose named files are looked for.
const SAMPLE: usize = 50;
/// Tokens of one item that are read for them.
const ITEM_TOKENS: u32 = 4000;
/// Fewer files that nobody has are no sign of another product.
const FEW: usize = 3;
/// Listing the files of a code base.
const LIST: git::Bounds = git::Bounds { time: Duration::from_secs(20), output: 64 << 20 };

pub(super) async fn checks(input: &DoctorInput) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    for kind in input.config.agents() {
        checks.push(provider(input, kind).await);
    }
    let mut named = BTreeSet::new();
    for source in input.config.sources() {
        let tracker = tracker(input, source);
        if source.write_back {
            checks.push(match &tracker {
                Ok(tracker) => writing(source, tracker).await,
                Err(error) => failed(source.kind, "write-back", error),
            });
        }
        // What is wrong with a source is said by its own checks.
        if let Ok(tracker) = tracker {
            let items = some_items(&tracker, SAMPLE).await.unwrap_or_default();
            named.extend(items.into_iter().flat_map(files_named_by));
        }
    }
    checks.extend(named_files(input, &named).await);
    checks
}

fn tracker(input: &DoctorInput, source: &Source) -> Result<Tracker, FetchError> {
    let credential = ConfiguredCredential::new(source, &input.config, &input.environment);
    let credential = Arc::new(credential);
    connect(source, Connection::new(credential, input.clock.clone(), InMemory::shared()))
}

/// The names of files, in lower case and without their folders: a trace has those of its machine.
fn files_named_by(item: WorkItem) -> impl Iterator<Item = String> {
    let clean = clean_item(item, &Budget::per_item(ITEM_TOKENS, ITEM_TOKENS));
    let paths = Query::of(&subject_of(&clean, None)).paths;
    paths.into_iter().map(|path| path.rsplit('/').next().unwrap_or(&path).to_owned())
}

/// Whether the code base has the files that items name: if it has none, it may be another product's.
async fn named_files(input: &DoctorInput, named: &BTreeSet<String>) -> Option<DoctorCheck> {
    let name = "named files";
    let repository = &input.config.repository;
    let roots = repository.routes.iter().flat_map(|route| route.paths().cloned());
    let roots: Vec<_> = roots.chain([repository.path.clone()]).collect();
    let files = tokio::task::spawn_blocking(move || {
        let listed = roots
            .iter()
            .map(|root| git::output(root, &["ls-tree", "-r", "-z", "--name-only", "HEAD"], LIST));
        listed.collect::<Result<Vec<_>, _>>()
    });
    // Without git there is no list that is quick to make.
    let files = files.await.ok()?.ok()?.concat();
    let files = String::from_utf8_lossy(&files).to_lowercase();
    let there: BTreeSet<&str> =
        files.split('\0').filter_map(|path| path.rsplit('/').next()).collect();
    let known = named.iter().filter(|file| there.contains(file.as_str())).count();
    let found = format!("{known} of {} files that items name are in the code base", named.len());
    let examples: Vec<&str> = named.iter().take(FEW).map(String::as_str).collect();
    Some(match (known, named.len()) {
        (_, 0) => return None,
        (0, FEW..) => DoctorCheck::warning(
            name,
            format!("{found}, such as {}", examples.join(", ")),
            "set repository.path to the code base of these items, or add [[repository.routes]] for \
             their areas",
        ),
        _ => DoctorCheck::ok(name, found),
    })
}

async fn provider(input: &DoctorInput, kind: AgentKind) -> DoctorCheck {
    let name = "provider";
    let lookup = |name: &str| input.environment.raw(name).map(std::ffi::OsStr::to_owned);
    let agent = of_kind(kind, &input.config, Path::new(""), lookup);
    let Some(provider) = agent.provider() else {
        let found = "the agent's own login or another way to the provider is used, which only a \
                     session can try: heartbeat --once";
        return DoctorCheck::skipped(name, found);
    };
    let address = provider.address.clone();
    let upstream = match Upstream::new(provider) {
        Ok(upstream) => upstream,
        Err(why) => {
            let fix = "correct the provider's address and the files with certificates \
                       (NODE_EXTRA_CA_CERTS, SSL_CERT_FILE)";
            return DoctorCheck::failed(name, why, fix);
        }
    };
    match upstream.greet(input.clock.now()).await {
        Greeting::Accepted => {
            DoctorCheck::ok(name, format!("{address} answers and accepts the credential"))
        }
        Greeting::Unproven => DoctorCheck::ok(
            name,
            format!("{address} answers; it has no free request that would prove the credential"),
        ),
        Greeting::Refused(failure) | Greeting::Unreachable(failure) => {
            let fix = failure.fix(input.config.credential_env_of(kind));
            DoctorCheck::failed(name, upstream.told(&failure), fix)
        }
    }
}

/// Whether the tracker would take a comment. It is not written.
async fn writing(source: &Source, tracker: &Tracker) -> DoctorCheck {
    let name = "write-back";
    let item = match some_items(tracker, 1).await {
        Ok(items) => items.into_iter().next(),
        Err(error) => return failed(source.kind, name, &error),
    };
    let Some(item) = item else {
        let found = "the query matches no item on which the right to write could be tried";
        return DoctorCheck::skipped(name, found);
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
        Ok(()) => DoctorCheck::ok(name, format!("a comment on item {} would be accepted", item.id)),
        Err(error) if matches!(error.class, FailureClass::Auth | FailureClass::Denied) => {
            let fix = "give the token the right to write work items (Azure DevOps: Work Items, read & \
                       write; GitHub: Issues, write; Jira: add comments, edit issues), or set \
                       source.write_back = false";
            DoctorCheck::failed(name, error.message, fix)
        }
        Err(error) => failed(source.kind, name, &error),
    }
}

/// The first items of the query.
async fn some_items(tracker: &Tracker, most: usize) -> Result<Vec<WorkItem>, FetchError> {
    let mut pages = tracker.open(FetchRequest { changed_since: None, also: Vec::new() }).await?;
    let mut items = Vec::new();
    while items.len() < most {
        let Some(page) = pages.next().await? else { break };
        items.extend(page.items);
    }
    items.truncate(most);
    Ok(items)
}
