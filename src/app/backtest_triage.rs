//! `backtest --triage`: measures what triage suggests on finished items, and stores the figures that
//! later suggestions are shown by.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::error::CommandError;
use super::logging::{self, Purpose};
use super::{Setting, StartOptions, trackers};
use crate::backtest::past_fields;
use crate::clock::Clock;
use crate::model::ChosenBy;
use crate::settings::Config;
use crate::store::{Journal, Store};
use crate::suggest::{Measured, PastItem, measure};

/// The figures of one source.
#[derive(Debug, Serialize)]
pub struct MeasuredSource {
    pub source: String,
    #[serde(flatten)]
    pub measured: Measured,
}

/// Items of a file, as those of the configured source.
pub async fn measure_file(
    config: &Config,
    (state, clock): (&Path, &Clock),
    items: Vec<PastItem>,
    on_item: impl FnMut(usize) + Send + 'static,
) -> Result<Vec<MeasuredSource>, CommandError> {
    let journal = Journal::open(Store::open(state)?, clock.clone(), None)?;
    Ok(vec![one(config, &journal, config.source.name.clone(), items, on_item).await?])
}

/// The finished items of every configured tracker.
pub async fn measure_trackers(
    start: &StartOptions,
    since: Timestamp,
    on_item: impl Fn(usize) + Clone + Send + 'static,
) -> Result<Vec<MeasuredSource>, CommandError> {
    let (setting, _) = Setting::for_one_run(start, Purpose::DryRun).await?;
    logging::start(&setting.config, start, Purpose::DryRun)?;
    let journal = Journal::open(Store::open(&setting.state)?, setting.clock.clone(), None)?;
    let mut all = Vec::new();
    for tracker in trackers::trackers(&setting, &journal).iter() {
        let now = setting.clock.now();
        let from = (tracker.name.as_str(), tracker.source.as_ref());
        let reading = |read, _all| on_item(read);
        let items = past_fields(from, &setting.config, since, now, reading).await?;
        let name = tracker.name.clone();
        all.push(one(&setting.config, &journal, name, items, on_item.clone()).await?);
    }
    Ok(all)
}

async fn one(
    config: &Config,
    journal: &Journal,
    source: String,
    items: Vec<PastItem>,
    on_item: impl FnMut(usize) + Send + 'static,
) -> Result<MeasuredSource, CommandError> {
    let least = config.suggest.min_precision;
    let measured = tokio::task::spawn_blocking(move || measure(&items, least, on_item)).await;
    let measured = measured
        .map_err(|_| CommandError::NotFound("measuring panicked, which is a bug".to_owned()))?;
    let figures = measured.figures();
    journal.suggestions().set_figures(source.clone(), ChosenBy::History, figures).await?;
    Ok(MeasuredSource { source, measured })
}
