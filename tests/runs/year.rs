//! A year of findings and of the later fixes: the reported figures equal those counted in this
//! file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::world::{World, config};
use heartbeat::app::later_fixes::score_findings;
use heartbeat::context::CodeCopies;
use heartbeat::event::Trigger;
use heartbeat::report::fixes::accuracy;
use heartbeat::store::{FindingRow, Store};
use jiff::Timestamp;
use support::{git, git_at};

const WEEKS: i64 = 52;
const PER_WEEK: i64 = 4;
const DAY_MS: i64 = 24 * 3_600_000;

/// What happens to an item, by its number alone.
struct Fate {
    id: i64,
}

impl Fate {
    fn with_new_prompt(&self) -> bool {
        self.id > WEEKS * PER_WEEK / 2
    }

    /// Files that the finding names. The new prompt is right more often.
    fn named(&self) -> BTreeSet<String> {
        let right = if self.with_new_prompt() { self.id % 5 != 0 } else { self.id % 3 == 0 };
        let first = if right { self.id % 12 } else { 20 + self.id % 4 };
        [first, 24 + self.id % 3]
            .into_iter()
            .take(1 + usize::from(self.id % 2 == 0))
            .map(file)
            .collect()
    }

    /// Files that the fix changes.
    fn changed(&self) -> BTreeSet<String> {
        [self.id % 12, 12 + self.id % 5]
            .into_iter()
            .take(1 + usize::from(self.id % 4 == 0))
            .map(file)
            .collect()
    }

    fn fixed(&self) -> bool {
        self.id % 6 != 0
    }

    fn fixed_before_the_finding(&self) -> bool {
        self.id % 11 == 0
    }
}

fn file(number: i64) -> String {
    format!("src/f{number}.rs")
}

fn repository(root: &Path) {
    std::fs::create_dir_all(root.join("src")).unwrap();
    for number in 0..30 {
        std::fs::write(root.join(file(number)), format!("fn f{number}() {{}}\n")).unwrap();
    }
    git(root, &["init", "--quiet", "--initial-branch=main"]);
    git(root, &["add", "--all"]);
    git_at(root, &["commit", "--quiet", "--message", "Begin"], Some(1_700_000_000));
}

fn fix(root: &Path, fate: &Fate, at: Timestamp) {
    for path in fate.changed() {
        let text = std::fs::read_to_string(root.join(&path)).unwrap();
        std::fs::write(root.join(&path), format!("{text}// {}\n", fate.id)).unwrap();
    }
    let message = format!("Mend it\n\nFixes #{}", fate.id);
    git_at(root, &["commit", "--quiet", "--all", "--message", &message], Some(at.as_second()));
}

fn share(of: usize, all: usize) -> f64 {
    100.0 * of as f64 / all.max(1) as f64
}

/// The expected figures, counted from the fates alone.
fn expected(fates: &[Fate]) -> (usize, usize, usize, f64, f64) {
    let fixed: Vec<&Fate> = fates.iter().filter(|fate| fate.fixed()).collect();
    let (late, in_time): (Vec<&Fate>, Vec<&Fate>) =
        fixed.into_iter().partition(|fate| fate.fixed_before_the_finding());
    let hits = |fate: &Fate| fate.named().intersection(&fate.changed()).count();
    let confirmed = in_time.iter().filter(|fate| hits(fate) > 0).count();
    let mean = |of: &dyn Fn(&Fate) -> f64| {
        in_time.iter().map(|fate| of(fate)).sum::<f64>() / in_time.len() as f64
    };
    let precision = mean(&|fate| share(hits(fate), fate.named().len()));
    let recall = mean(&|fate| share(hits(fate), fate.changed().len()));
    (in_time.len(), late.len(), confirmed, precision, recall)
}

fn compare(rows: &[&FindingRow], fates: &[Fate]) -> f64 {
    let told = accuracy(rows.iter().copied());
    let (fixed, late, confirmed, precision, recall) = expected(fates);
    assert_eq!(told.findings, fates.len());
    assert_eq!((told.fixed, told.too_late, told.confirmed), (fixed, late, confirmed));
    assert!((told.precision - precision).abs() < 1e-9, "{} {precision}", told.precision);
    assert!((told.recall - recall).abs() < 1e-9, "{} {recall}", told.recall);
    told.confirmed_share
}

#[tokio::test]
async fn two_hundred_findings_are_scored_as_they_were_fixed_and_a_better_prompt_shows() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("code");
    repository(&root);
    let own_prompt = folder.path().join("deep.system.md");
    std::fs::write(&own_prompt, "Name the file to change.").unwrap();
    let set_up = |new_prompt: bool| {
        config(|config| {
            config.repository.path.clone_from(&root);
            if new_prompt {
                config.prompts.deep_system.clone_from(&own_prompt);
            }
        })
    };
    let mut world = World::new(folder.path(), set_up(false));
    world.outside.lock().unwrap().root = Some(root.clone());
    for week in 0..WEEKS {
        let fates: Vec<Fate> = (1..=PER_WEEK).map(|id| Fate { id: week * PER_WEEK + id }).collect();
        world.config = set_up(fates[0].with_new_prompt());
        for fate in &fates {
            world.add(fate.id, 1, 2);
            let named = fate.named().into_iter().collect();
            world.outside.lock().unwrap().names_files.insert(fate.id, named);
        }
        see_then_analyse(&mut world, &root, &fates).await;
        world.clock.advance_ms(2 * DAY_MS);
        for fate in fates.iter().filter(|fate| fate.fixed() && !fate.fixed_before_the_finding()) {
            fix(&root, fate, world.clock.now());
        }
        // A new prompt would analyse open items again.
        fates.iter().for_each(|fate| world.edit(fate.id, |item| item.open = false));
        world.clock.advance_ms(4 * DAY_MS);
        let store = Store::open(&world.state).unwrap();
        score_findings(&world.config, &world.clock, &store, &CodeCopies::None).await.unwrap();
        let again =
            score_findings(&world.config, &world.clock, &store, &CodeCopies::None).await.unwrap();
        assert_eq!(again, 0, "nothing new, nothing told");
    }
    let store = Store::open(&world.state).unwrap();
    let rows = store.findings().newest(1_000).await.unwrap();
    let all: Vec<Fate> = (1..=WEEKS * PER_WEEK).map(|id| Fate { id }).collect();
    compare(&rows.iter().collect::<Vec<_>>(), &all);
    let prompts: BTreeSet<String> =
        rows.iter().map(|row| row.made_with.clone().unwrap().prompt).collect();
    assert_eq!(prompts.len(), 2);
    let (new, old): (Vec<Fate>, Vec<Fate>) = all.into_iter().partition(Fate::with_new_prompt);
    let newest = rows[0].made_with.clone().unwrap().prompt;
    let (of_new, of_old): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.made_with.as_ref().unwrap().prompt == newest);
    let (after, before) = (compare(&of_new, &new), compare(&of_old, &old));
    println!("right file: {before:.1} % with the first prompt, {after:.1} % with the second");
    assert!(after > before + 20.0, "the change of prompt shows as a step");
}

/// A first run sees the items and cannot analyse them; some are fixed before the next one can.
async fn see_then_analyse(world: &mut World, root: &Path, fates: &[Fate]) {
    let able = Arc::clone(&world.config);
    let mut unable = (*able).clone();
    unable.limits.max_deep_per_run = 0;
    world.config = Arc::new(unable);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    world.clock.advance_ms(DAY_MS / 2);
    for fate in fates.iter().filter(|fate| fate.fixed() && fate.fixed_before_the_finding()) {
        fix(root, fate, world.clock.now());
    }
    world.clock.advance_ms(DAY_MS / 2);
    world.config = able;
    world.run(Trigger::Manual).await.unwrap().unwrap();
}
