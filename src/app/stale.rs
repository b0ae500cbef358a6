//! After a run: marks findings whose files changed since with the commits, and requeues their items
//! if configured.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::context::{CodeCopies, NamedRoot, changes_since, code_bases_of};
use crate::model::{FileRole, ItemKey, SessionId, Stale};
use crate::settings::{Config, Reanalyse};
use crate::store::{AgeingFinding, Journal, Store, StoreError};

/// Older findings are not checked.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(180 * 24);
/// A file that changes every day must not requeue an item every day.
const QUIET: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Commits stored with a finding.
const MAX_COMMITS: usize = 5;

/// Returns how many findings were newly marked, and how many items were requeued.
pub async fn mark_stale(
    config: &Config,
    clock: &Clock,
    store: &Store,
    copies: &CodeCopies,
) -> Result<(usize, u32), StoreError> {
    let now = clock.now();
    let back = |span| now.checked_sub(span).unwrap_or(Timestamp::MIN);
    let ageing = store.findings().ageing(back(LOOK_BACK)).await?;
    let mut by_code_base: BTreeMap<(PathBuf, String), Vec<AgeingFinding>> = BTreeMap::new();
    for finding in &ageing {
        let (source, area) = (finding.key.source(), [finding.area.as_str()]);
        for NamedRoot { name, root } in code_bases_of(config, source, &area, &finding.item_type) {
            let place = (copies.latest(&root), name);
            by_code_base.entry(place).or_default().push(finding.clone());
        }
    }
    let mut changed: BTreeMap<SessionId, Stale> = BTreeMap::new();
    for ((root, name), findings) in by_code_base {
        let searched = tokio::task::spawn_blocking(move || search(&root, &name, &findings)).await;
        for (session, stale) in searched.unwrap_or_default() {
            match changed.entry(session) {
                Entry::Vacant(first) => drop(first.insert(stale)),
                Entry::Occupied(mut known) => known.get_mut().add(stale, MAX_COMMITS),
            }
        }
    }
    let mut found: Vec<(SessionId, ItemKey, Stale, bool)> = Vec::new();
    for finding in ageing {
        if let Some(stale) = changed.remove(&finding.session) {
            let is_new = finding.stale.as_ref() != Some(&stale);
            found.push((finding.session, finding.key, stale, is_new));
        }
    }
    // A finding that was already stale may become due only now.
    let requeue_before = (config.analyze.reanalyse == Reanalyse::Stale).then(|| back(QUIET));
    found.retain(|(_, _, _, is_new)| *is_new || requeue_before.is_some());
    let news = found.iter().filter(|(.., is_new)| *is_new).count();
    if found.is_empty() {
        return Ok((0, 0));
    }
    let journal = Journal::open(store.clone(), clock.clone(), None)?;
    let found = found.into_iter().map(|(session, key, stale, _)| (session, key, stale)).collect();
    let queued = journal.findings().store_stale(found, requeue_before).await?;
    Ok((news, queued))
}

/// What makes findings stale. A code base without a readable history yields nothing. `name` is that of
/// one of several code bases.
fn search(root: &Path, name: &str, findings: &[AgeingFinding]) -> Vec<(SessionId, Stale)> {
    let Some(oldest) = findings.iter().map(|finding| finding.created_at).min() else {
        return Vec::new();
    };
    let changes = match changes_since(root, oldest) {
        Ok(changes) => changes,
        Err(error) => {
            tracing::debug!(code_base = %root.display(), %error, "could not read the git history; findings are not compared with it");
            return Vec::new();
        }
    };
    let stale = |finding: &AgeingFinding| {
        // Files that are only to be understood may change.
        let named =
            finding.finding.files.iter().filter(|file| file.role != Some(FileRole::Understand));
        let part = NamedRoot { name: name.to_owned(), root: PathBuf::new() };
        let named: BTreeSet<&str> = named.filter_map(|file| part.own(&file.path)).collect();
        let later = changes.iter().filter(|(commit, _)| commit.at > finding.created_at);
        let (mut commits, mut files, mut total) = (Vec::new(), BTreeSet::new(), 0_u32);
        for (commit, touched) in later {
            let hit: Vec<&String> =
                touched.iter().filter(|file| named.contains(file.as_str())).collect();
            if hit.is_empty() {
                continue;
            }
            files.extend(hit.into_iter().map(|path| part.full(path)));
            total = total.saturating_add(1);
            if commits.len() < MAX_COMMITS {
                commits.push(commit.clone());
            }
        }
        let stale = Stale { commits, total, files: files.into_iter().collect() };
        (total > 0).then_some((finding.session, stale))
    };
    findings.iter().filter_map(stale).collect()
}
