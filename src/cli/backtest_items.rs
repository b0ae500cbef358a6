//! Finished items from a file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::backtest::BacktestCommandError;
use crate::backtest::{PastItem, cleaned};
use crate::context::{Subject, code_base_of};
use crate::fetch::ado::saved_item;
use crate::settings::Config;

/// The short form of an item.
#[derive(Deserialize)]
struct PlainItem {
    id: i64,
    title: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    area: String,
    #[serde(default, rename = "type")]
    item_type: String,
    #[serde(default)]
    created: Option<jiff::Timestamp>,
}

/// The items of a file, one per line; `-` is standard input.
pub fn read(
    path: &Path,
    config: &Config,
    cwd: &Path,
) -> Result<Vec<PastItem>, BacktestCommandError> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(path)
    };
    let text =
        text.map_err(|source| BacktestCommandError::Items { path: path.to_owned(), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let items: Result<Vec<_>, _> = lines
        .map(|(at, line)| {
            let wrong =
                |source| BacktestCommandError::Item { path: path.to_owned(), line: at + 1, source };
            item(line, config, cwd).map_err(wrong)
        })
        .collect();
    let items = items?;
    if items.is_empty() {
        return Err(BacktestCommandError::NoItems(path.to_owned()));
    }
    Ok(items)
}

fn item(line: &str, config: &Config, cwd: &Path) -> Result<PastItem, serde_json::Error> {
    let value: serde_json::Value = serde_json::from_str(line)?;
    let mut past = if value.get("fields").is_some() {
        let clean = cleaned(config, saved_item(line, &config.source.text_fields)?);
        PastItem {
            id: clean.facts.id.0,
            title: clean.facts.title.clone(),
            area: clean.facts.area_path.clone().unwrap_or_default(),
            item_type: clean.facts.item_type.clone(),
            created_at: clean.facts.created_at.map(jiff::Timestamp::as_second),
            subject: Some(Subject::of_item(&clean, None)),
            repository: PathBuf::new(),
        }
    } else {
        let plain: PlainItem = serde_json::from_value(value)?;
        PastItem {
            id: plain.id,
            subject: Some(Subject::from_text(&format!("{}\n{}", plain.title, plain.text))),
            title: plain.title,
            area: plain.area,
            item_type: plain.item_type,
            created_at: plain.created.map(jiff::Timestamp::as_second),
            repository: PathBuf::new(),
        }
    };
    past.repository =
        cwd.join(code_base_of(config, &config.source.name, &[&past.area], &past.item_type));
    Ok(past)
}
