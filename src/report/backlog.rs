//! When the work that waits now will be through, by the limits of a run.

use std::time::Duration;

use crate::schedule::Schedule;
use crate::settings::Config;
use crate::store::WaitingWork;

/// One line; `None` if the next run can do everything.
pub fn text(waiting: WaitingWork, config: &Config) -> Option<String> {
    let WaitingWork { untriaged, triaged } = waiting;
    let triages = runs(untriaged, config.limits.max_items_per_run)?;
    let analyses = runs(triaged, config.limits.max_deep_per_run)?;
    let most = triages.max(analyses);
    if most <= 1 {
        return None;
    }
    let schedule = Schedule::parse(&config.schedule.cron, &config.schedule.timezone).ok();
    let time = schedule.map(|schedule| schedule.interval_hint().saturating_mul(most));
    let time = time.map(|time| format!(", {}", readable(time))).unwrap_or_default();
    Some(format!(
        "{untriaged} to triage, {triaged} to analyse: through in about {most} runs{time}, if \
         nothing is added (limits.max_items_per_run, limits.max_deep_per_run)"
    ))
}

/// `None` if a run does none of it.
fn runs(waiting: u32, each: u32) -> Option<u32> {
    match (waiting, each) {
        (0, _) => Some(0),
        (_, 0) => None,
        (waiting, each) => Some(waiting.div_ceil(each)),
    }
}

fn readable(time: Duration) -> String {
    let hours = time.as_secs().div_ceil(3_600);
    match hours {
        0..=1 => "an hour".to_owned(),
        2..48 => format!("{hours} hours"),
        _ => format!("{} days", hours.div_ceil(24)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_says_when_it_is_through() {
        let mut config: Config = toml::from_str(crate::config::DEFAULT_TOML).unwrap();
        config.schedule.cron = "*/30 * * * *".into();
        config.limits.max_items_per_run = 200;
        config.limits.max_deep_per_run = 10;
        let line = |untriaged, triaged| text(WaitingWork { untriaged, triaged }, &config);
        assert_eq!(line(0, 0), None);
        assert_eq!(line(200, 10), None, "the next run does it");
        assert!(line(1546, 35).unwrap().contains("about 8 runs, 4 hours"), "{:?}", line(1546, 35));
        assert!(line(20_000, 0).unwrap().contains("100 runs, 3 days"), "{:?}", line(20_000, 0));
    }
}
