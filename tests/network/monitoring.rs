//! The alert rules and the Grafana dashboard use existing metrics.

use std::collections::BTreeSet;

use heartbeat::web::metrics::FAMILIES;

const ALERTS: &str = include_str!("../../packaging/monitoring/alerts.yml");
const DASHBOARD: &str = include_str!("../../packaging/monitoring/grafana.json");

/// Every `heartbeat_…` word of a text, without histogram suffixes.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named = words.filter_map(|word| word.strip_prefix("heartbeat_"));
    named.map(|name| name.trim_end_matches("_bucket").to_owned()).collect()
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let known: BTreeSet<&str> = FAMILIES.iter().map(|family| family.0).collect();
    for (file, text) in [("alerts.yml", ALERTS), ("grafana.json", DASHBOARD)] {
        let named = metrics_in(text);
        assert!(named.len() > 5, "{file}: {named:?}");
        let unknown: Vec<_> = named.iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(unknown.is_empty(), "{file} names metrics that do not exist: {unknown:?}");
    }
    serde_json::from_str::<serde_json::Value>(DASHBOARD).unwrap();
}

#[test]
fn promtool_accepts_the_alert_rules() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/monitoring/alerts.yml");
    match assert_cmd::Command::new("promtool").args(["check", "rules", rules]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(_) => println!("SKIPPED: promtool is not installed"),
    }
}
