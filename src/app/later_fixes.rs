//! After a run: scores findings by later commits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::backtest::{Awaited, LaterFix, fixes_of};
use crate::clock::Clock;
use crate::context::{CodeCopies, code_base_of};
use crate::fixes::ItemName;
use crate::model::{Fix, FixCommit, ItemKey, SessionId};
use crate::settings::{Config, Fixes};
use crate::store::{Journal, Store, StoreError, UnfixedFinding};

/// Older findings are no longer checked for a fix.
const WAIT_FOR_FIX: SignedDuration = SignedDuration::from_hours(365 * 24);
/// A fix may take several commits; commits within this time belong to it.
const FIX_MAY_GROW: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Searches the code bases for commits that refer to items with findings, and stores what they
/// changed. Returns how many findings have new commits.
pub async fn score_findings(
    config: &Config,
    clock: &Clock,
    store: &Store,
    copies: &CodeCopies,
) -> Result<usize, StoreError> {
    let now = clock.now();
    let back = |span| now.checked_sub(span).unwrap_or(Timestamp::MIN);
    let waiting = store.findings().awaiting_fix(back(WAIT_FOR_FIX), back(FIX_MAY_GROW)).await?;
    let mut by_code_base: BTreeMap<(PathBuf, String), Vec<UnfixedFinding>> = BTreeMap::new();
    for finding in waiting {
        let source = finding.key.source().to_owned();
        let root = code_base_of(config, &source, &[&finding.area], &finding.item_type);
        by_code_base.entry((copies.latest(root), source)).or_default().push(finding);
    }
    let mut found = Vec::new();
    for ((root, source), findings) in by_code_base {
        let fixes = config.fixes_of(&source);
        let searched = tokio::task::spawn_blocking(move || search(&root, &fixes, &findings)).await;
        found.extend(searched.unwrap_or_default());
    }
    let count = found.len();
    if count > 0 {
        let journal = Journal::open(store.clone(), clock.clone(), None)?;
        journal.findings().store_fixes(found).await?;
    }
    Ok(count)
}

/// New commits for these findings. A code base without a readable history yields nothing.
fn search(
    root: &Path,
    fixes: &Fixes,
    findings: &[UnfixedFinding],
) -> Vec<(SessionId, ItemKey, Fix)> {
    let number = |key: &ItemKey| key.item_id().map(|id| id.0);
    let mut items: BTreeMap<i64, Awaited> = BTreeMap::new();
    for finding in findings {
        let Some(number) = number(&finding.key) else { continue };
        let name = ItemName::of_page(&finding.url, number);
        items.insert(number, Awaited { name, since: finding.first_seen.as_second() });
    }
    let fixes = match fixes_of(root, fixes, &items) {
        Ok(fixes) => fixes,
        Err(error) => {
            tracing::debug!(code_base = %root.display(), %error, "could not read the git history; fixes are not looked for");
            return Vec::new();
        }
    };
    let news = |finding: &UnfixedFinding| {
        let fix = stored_form(fixes.get(&number(&finding.key)?)?, finding)?;
        let is_new = finding.fix.as_ref() != Some(&fix);
        is_new.then(|| (finding.session, finding.key.clone(), fix))
    };
    findings.iter().filter_map(news).collect()
}

fn stored_form(fix: &LaterFix, finding: &UnfixedFinding) -> Option<Fix> {
    let fixed_at =
        Timestamp::from_second(fix.commits.iter().map(|commit| commit.time).min()?).ok()?;
    let commit = |commit: &crate::backtest::PastCommit| FixCommit {
        id: commit.id.clone(),
        why: commit.reason.text().to_owned(),
    };
    let commits = fix.commits.iter().map(commit).collect();
    Some(Fix::new(fixed_at, commits, fix.files.clone(), &finding.finding))
}
