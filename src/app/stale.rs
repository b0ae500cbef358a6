//! After a run: marks findings whose files changed since with the commits, and requeues their items
//! if configured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::clock::Clock;
use crate::context::{CodeCopies, changes_since, code_base_of};
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
    let mut by_code_base: BTreeMap<PathBuf, Vec<AgeingFinding>> = BTreeMap::new();
    for finding in store.findings().ageing(back(LOOK_BACK)).await? {
        let root = code_base_of(config, finding.key.source(), &[&finding.area], &finding.item_type);
        by_code_base.entry(copies.latest(root)).or_default().push(finding);
    }
    let mut found = Vec::new();
    for (root, findings) in by_code_base {
        let searched = tokio::task::spawn_blocking(move || search(&root, &findings)).await;
        found.extend(searched.unwrap_or_default());
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

/// Every stale finding, and whether that is new. A code base without a readable history yields
/// nothing.
fn search(root: &Path, findings: &[AgeingFinding]) -> Vec<(SessionId, ItemKey, Stale, bool)> {
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
        let named: BTreeSet<&str> = named.map(|file| file.path.as_str()).collect();
        let later = changes.iter().filter(|(commit, _)| commit.at > finding.created_at);
        let (mut commits, mut files, mut total) = (Vec::new(), BTreeSet::new(), 0_u32);
        for (commit, touched) in later {
            let hit: Vec<&String> =
                touched.iter().filter(|file| named.contains(file.as_str())).collect();
            if hit.is_empty() {
                continue;
            }
            files.extend(hit.into_iter().cloned());
            total = total.saturating_add(1);
            if commits.len() < MAX_COMMITS {
                commits.push(commit.clone());
            }
        }
        let stale = Stale { commits, total, files: files.into_iter().collect() };
        let is_new = finding.stale.as_ref() != Some(&stale);
        (total > 0).then(|| (finding.session, finding.key.clone(), stale, is_new))
    };
    findings.iter().filter_map(stale).collect()
}
