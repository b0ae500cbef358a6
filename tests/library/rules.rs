//! `[[rules]]`: which rule applies to an item, and what it changes.

use std::sync::Arc;

use heartbeat::model::{ItemId, ItemKey, Usd, WorkItem};
use heartbeat::settings::Config;

use crate::config_load::{Place, contains};

const RULES: &str = r#"
[[sources]]
name = "web"
[[sources]]
name = "server"
write_back = true
[[rules]]
name = "security"
tag = "Security"
model = "opus"
effort = "high"
max_cost = 2.0
timeout = "20m"
[[rules]]
source = "web"
area = 'Shop\Web'
item_type = "bug"
priority = [1, 2]
model = "sonnet-next"
write_back = true
[[rules]]
area = 'Shop\Web'
triage_only = true
[[rules]]
name = "quiet"
source = "server"
write_back = false
"#;

fn config() -> Arc<Config> {
    Arc::new(Place::with_file(RULES).load().unwrap().config)
}

struct Case {
    source: &'static str,
    area: &'static str,
    item_type: &'static str,
    tags: &'static [&'static str],
    priority: Option<i64>,
}

fn item(case: &Case) -> WorkItem {
    let mut item = support::agent_items::item(7, "Title", "Text").facts;
    item.key = ItemKey::new(case.source, ItemId(7));
    item.area_path = Some(case.area.to_owned());
    item.item_type = case.item_type.to_owned();
    item.tags = case.tags.iter().map(|tag| (*tag).to_owned()).collect();
    item.priority = case.priority;
    item
}

#[test]
fn the_first_rule_that_matches_applies() {
    let config = config();
    let case =
        |source, area, item_type, tags, priority| Case { source, area, item_type, tags, priority };
    for (case, rule) in [
        (case("web", "Shop\\Web", "Bug", &[][..], Some(1)), Some("rules[2]")),
        (case("web", "shop\\web\\Cart", "BUG", &[], Some(2)), Some("rules[2]")),
        (case("web", "Shop\\Web", "Bug", &["SECURITY", "x"], Some(1)), Some("security")),
        (case("web", "Shop\\Web", "Bug", &[], Some(3)), Some("rules[3]")),
        (case("web", "Shop\\Web", "Bug", &[], None), Some("rules[3]")),
        (case("web", "Shop\\Web", "Task", &[], Some(1)), Some("rules[3]")),
        (case("web", "Shop\\Website", "Bug", &[], Some(1)), None),
        (case("web", "Shop", "Bug", &["security-ish"], Some(1)), None),
        (case("server", "Shop\\Web", "Bug", &[], Some(1)), Some("rules[3]")),
        (case("server", "Other", "Bug", &[], Some(1)), Some("quiet")),
        (case("webserver", "Other", "Bug", &[], Some(1)), None),
    ] {
        let item = item(&case);
        let found = config.rule_for(&item).map(|(name, _)| name);
        assert_eq!(found.as_deref(), rule, "{} {} {:?}", case.source, case.area, case.tags);
        let named = found.and_then(|name| config.rule_named(&name));
        assert_eq!(named, config.rule_for(&item).map(|(_, rule)| rule), "found again by its name");
    }
}

#[test]
fn a_rule_changes_what_it_names_and_nothing_else() {
    let config = config();
    let of = |source, tags| Case { source, area: "Other", item_type: "Bug", tags, priority: None };
    let own = config.for_item(&item(&of("web", &["security"])));
    assert_eq!((own.analyze.model.as_str(), own.analyze.effort.as_str()), ("opus", "high"));
    assert_eq!(own.analyze.max_cost, Usd::from_dollars(2.0));
    assert_eq!(own.analyze.timeout.as_secs(), 1200);
    assert_eq!(own.analyze.max_turns, config.analyze.max_turns);
    assert_eq!(own.triage, config.triage);
    assert!(Arc::ptr_eq(&config.for_item(&item(&of("web", &[]))), &config), "no rule");
    assert!(!config.writes_back(&item(&of("web", &[]))), "as the source says");
    assert!(config.writes_back(&item(&of("server", &["security"]))), "as the source says");
    assert!(!config.writes_back(&item(&of("server", &[]))), "a rule says no");
    let [web, server] = config.sources() else { panic!("two") };
    assert!(config.may_write_back(web) && config.may_write_back(server), "a rule says yes");
    let (_, rule) = config.rule_for(&item(&of("web", &["security"]))).unwrap();
    assert_eq!(rule.changes(), "model opus, effort high, at most $2.00, time limit 20m");
}

#[test]
fn a_rule_that_makes_no_sense_is_reported_with_its_place() {
    let problem = |rules: &str| Place::with_file(rules).problem();
    contains(
        &problem("[[rules]]\ntag = \"x\"\n"),
        &["heartbeat.toml:1:1", "rules[1]", "changes nothing"],
    );
    contains(
        &problem("[[rules]]\nsource = \"wbe\"\nmodel = \"m\"\n"),
        &["heartbeat.toml:2:10", "rules[1].source", "ado"],
    );
    contains(
        &problem("[[rules]]\ntriage_only = true\n\n[[rules]]\ntag = \"x\"\nmodel = \"m\"\n"),
        &["heartbeat.toml:1:1", "rules[1]", "put it last"],
    );
    contains(
        &problem("[[rules]]\ntag = \"x\"\nmodel = \"m\"\ntriage_only = true\n"),
        &["heartbeat.toml:4:15", "no analysis starts"],
    );
    contains(
        &problem("[[rules]]\nmodle = \"m\"\neffort = \"low\"\n"),
        &["heartbeat.toml:2:1", "rules[1].model"],
    );
    contains(
        &problem("[[rules]]\npriority = 1\nmodel = \"m\"\n"),
        &["heartbeat.toml:2:12", "list"],
    );
    contains(&problem("[[rules]]\nmax_cost = 50.0\n"), &["heartbeat.toml:2:12", "budget.per_run"]);
    contains(
        &problem("[[rules]]\ntimeout = \"soon\"\n"),
        &["heartbeat.toml:2:11", "rules[1].timeout"],
    );
    contains(
        &problem("[source]\nbudget_per_month = 0.1\n"),
        &["heartbeat.toml:2:20", "source.budget_per_month", "analyze.max_cost"],
    );
}
