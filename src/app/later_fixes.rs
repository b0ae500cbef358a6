//! After a run: scores findings by later commits.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};

use crate::backtest::{Awaited, LaterFix, fixes_of};
use crate::clock::Clock;
use crate::context::{CodeCopies, NamedRoot, code_bases_of};
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
    // By folder, name among several, and source.
    type Place = (PathBuf, String, String);
    let mut by_code_base: BTreeMap<Place, Vec<UnfixedFinding>> = BTreeMap::new();
    for finding in &waiting {
        let (source, area) = (finding.key.source(), [finding.area.as_str()]);
        for NamedRoot { name, root } in code_bases_of(config, source, &area, &finding.item_type) {
            let place = (copies.latest(&root), name, source.to_owned());
            by_code_base.entry(place).or_default().push(finding.clone());
        }
    }
    let mut fixed: BTreeMap<SessionId, FixChanges> = BTreeMap::new();
    for ((root, name, source), findings) in by_code_base {
        let fixes = config.fixes_of(&source);
        let part = NamedRoot { name, root };
        let searched = tokio::task::spawn_blocking(move || search(&part, &fixes, &findings)).await;
        for (session, at, commits, files) in searched.unwrap_or_default() {
            let known = fixed.entry(session).or_insert_with(|| (at, Vec::new(), Vec::new()));
            known.0 = known.0.min(at);
            known.1.extend(commits);
            known.2.extend(files);
        }
    }
    let mut found: Vec<(SessionId, ItemKey, Fix)> = Vec::new();
    for finding in waiting {
        let Some((at, commits, files)) = fixed.remove(&finding.session) else { continue };
        let fix = Fix::new(at, commits, files, &finding.finding);
        if finding.fix.as_ref() != Some(&fix) {
            found.push((finding.session, finding.key, fix));
        }
    }
    let count = found.len();
    if count > 0 {
        let journal = Journal::open(store.clone(), clock.clone(), None)?;
        journal.findings().store_fixes(found).await?;
    }
    Ok(count)
}

/// When an item was fixed, by which commits, and the files they changed.
type FixChanges = (Timestamp, Vec<FixCommit>, Vec<String>);

/// Commits for these findings. A code base without a readable history yields nothing.
fn search(
    part: &NamedRoot,
    fixes: &Fixes,
    findings: &[UnfixedFinding],
) -> Vec<(SessionId, Timestamp, Vec<FixCommit>, Vec<String>)> {
    let root = part.root.as_path();
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
    let changes = |finding: &UnfixedFinding| {
        let (at, commits, files) = stored_form(fixes.get(&number(&finding.key)?)?)?;
        let files = files.iter().map(|path| part.full(path)).collect();
        Some((finding.session, at, commits, files))
    };
    findings.iter().filter_map(changes).collect()
}

fn stored_form(fix: &LaterFix) -> Option<FixChanges> {
    let fixed_at =
        Timestamp::from_second(fix.commits.iter().map(|commit| commit.time).min()?).ok()?;
    let commit = |commit: &crate::backtest::PastCommit| FixCommit {
        id: commit.id.clone(),
        why: commit.reason.text().to_owned(),
    };
    Some((fixed_at, fix.commits.iter().map(commit).collect(), fix.files.clone()))
}
