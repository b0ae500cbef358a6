//! Rules and budgets of sources in complete runs.

use std::sync::Arc;

use heartbeat::event::{RunOutcome, Trigger};
use heartbeat::model::{Stage, Usd};
use heartbeat::settings::{Config, RuleSettings, Source};

use crate::world::{World, config};

fn rule(change: impl FnOnce(&mut RuleSettings)) -> RuleSettings {
    let mut rule = RuleSettings::default();
    change(&mut rule);
    rule
}

fn two_sources(config: &mut Config) {
    let named = |name: &str| Source { name: name.into(), ..config.source.clone() };
    config.source_list = vec![named("ado"), named("web")];
}

fn analysed(world: &World) -> Vec<i64> {
    let outside = world.outside.lock().unwrap();
    let deep = outside.started.iter().filter(|(stage, ..)| *stage == Stage::Deep);
    deep.map(|(_, id, ..)| *id).collect()
}

#[tokio::test]
async fn a_dry_run_names_the_rule_of_each_item() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(
        folder.path(),
        config(|config| {
            config.rules = vec![
                rule(|rule| {
                    rule.name = "urgent".into();
                    rule.priority = vec![1];
                    rule.max_cost = Some(Usd::from_dollars(3.0));
                }),
                rule(|rule| {
                    rule.area = "Shop\\Team 0".into();
                    rule.triage_only = true;
                }),
            ];
        }),
    );
    world.add(1, 1, 1);
    world.add(2, 1, 2);
    world.add(3, 1, 2);
    let dry_run = world.dry_run().await.unwrap();
    let rules: Vec<_> = dry_run.decisions.iter().map(|decision| decision.rule.as_deref()).collect();
    assert_eq!(rules, [Some("urgent: at most $3.00"), Some("rules[2]: triage only"), None]);
    let deep: Vec<_> =
        dry_run.prompts.iter().filter(|prompt| prompt.stage == Stage::Deep).collect();
    let costs: Vec<_> = deep.iter().map(|prompt| prompt.worst_case.dollars()).collect();
    assert_eq!(costs, [3.0, 0.5], "the second item gets no analysis");
}

#[tokio::test]
async fn triage_only_finishes_new_items_and_those_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), config(|config| config.limits.max_deep_per_run = 0));
    world.add(1, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.row(1).unwrap().0, "pending", "it waits for its analysis");
    world.config = config(|config| config.rules = vec![rule(|rule| rule.triage_only = true)]);
    world.add(2, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    for id in [1, 2] {
        let (phase, reason, _) = world.row(id).unwrap();
        assert_eq!((phase.as_str(), reason.as_str()), ("done", "triage_only"), "{id}");
    }
    assert_eq!(analysed(&world), Vec::<i64>::new());
    let ended = world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(ended.outcome, RunOutcome::NothingNew);
}

#[tokio::test]
async fn a_rule_decides_whether_a_finding_is_left_in_the_tracker() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(
        folder.path(),
        config(|config| {
            config.rules = vec![rule(|rule| {
                rule.priority = vec![2];
                rule.write_back = Some(false);
            })];
        }),
    );
    world.outside.lock().unwrap().published = Some(Vec::new());
    world.add(1, 1, 1);
    world.add(2, 1, 2);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(world.count("SELECT count(*) FROM findings"), 2);
    assert_eq!(world.outside.lock().unwrap().published.as_deref(), Some(&[(1, 1)][..]));
}

#[tokio::test]
async fn a_source_without_budget_waits_and_takes_no_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path(), config(|_| {}));
    world.others.insert("web".into(), Arc::default());
    world.config = config(|config| {
        two_sources(config);
        config.limits.max_deep_per_run = 2;
        // One analysis of at most half a dollar, and not a second one.
        config.source_list[0].budget_per_month = Usd::from_dollars(0.5);
    });
    for id in 1..=6 {
        world.add(id, 1, 1);
    }
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(analysed(&world).len(), 1, "the month's budget of the first source");
    // Less urgent than everything waiting in the first source.
    for id in [101, 102] {
        world.add_to("web", id, 1, 4);
    }
    for _ in 0..2 {
        world.run(Trigger::Manual).await.unwrap().unwrap();
    }
    let mut of_web = analysed(&world);
    of_web.retain(|id| *id > 100);
    of_web.sort_unstable();
    assert_eq!(of_web, [101, 102], "the other source is not held up");
    let waiting = "SELECT count(*) FROM heartbeat_state
                   WHERE key LIKE 'ado/%' AND phase = 'pending' AND reason = 'source_budget'";
    assert_eq!(world.count(waiting), 5);
    // The next month.
    world.clock.advance_ms(31 * 86_400_000);
    world.run(Trigger::Manual).await.unwrap().unwrap();
    assert_eq!(analysed(&world).len(), 4);
}
