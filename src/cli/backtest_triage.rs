//! `heartbeat backtest --triage`: how often the suggestions of triage would have been right.

use std::path::Path;

use super::backtest::{BacktestArgs, BacktestCommandError, to_json, write_report};
use super::backtest_items::values_of;
use super::error::CommandError;
use super::exit::Code;
use super::report::parse_since;
use crate::app::backtest_triage::{MeasuredSource, measure_file, measure_trackers};
use crate::backtest::{exported_item, render_triage};
use crate::settings::Config;
use crate::suggest::PastItem;

impl super::Context {
    pub(super) async fn backtest_triage(
        &self,
        args: &BacktestArgs,
        config: &Config,
        state: &Path,
    ) -> Result<Code, CommandError> {
        let sources = match &args.items {
            Some(file) => {
                let items = read(file, config)?;
                measure_file(config, (state, &self.clock), items, |_| {}).await?
            }
            None => {
                let zone = &config.schedule.timezone;
                let since = parse_since(&args.since, zone, self.clock.now())?;
                measure_trackers(&self.start_options(false), since, |_| {}).await?
            }
        };
        let text = match self.global.json {
            true => to_json(&sources)?,
            false => text(&sources),
        };
        write_report(args, &text)?;
        Ok(Code::Done)
    }
}

fn text(sources: &[MeasuredSource]) -> String {
    let one = |found: &MeasuredSource| render_triage(&found.source, &found.measured);
    let mut text = sources.iter().map(one).collect::<Vec<_>>().join("\n");
    text.push_str(
        "The figures are stored: suggestions that were right often enough are shown from the next run \
         on (suggest.min_precision).\n",
    );
    text
}

/// Items with the history of their fields; lines that are none are passed over.
fn read(path: &Path, config: &Config) -> Result<Vec<PastItem>, BacktestCommandError> {
    let items: Vec<PastItem> =
        values_of(path)?.iter().filter_map(|(_, value)| exported_item(value, config)).collect();
    match items.is_empty() {
        true => Err(BacktestCommandError::NoItems(path.to_owned())),
        false => Ok(items),
    }
}
