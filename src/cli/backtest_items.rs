//! Reads finished items from a file.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;

use super::backtest::BacktestCommandError;
use crate::backtest::{PastItem, cleaned};
use crate::context::{Subject, code_base_of};
use crate::fetch::ado::saved_item;
use crate::fixes::ItemName;
use crate::model::{Format, ItemId, ItemKey, TextField, WorkItem};
use crate::settings::Config;

/// The short form of an item.
#[derive(Deserialize)]
struct PlainItem {
    id: i64,
    /// Such as SHOP-12, if commits name it so.
    #[serde(default)]
    key: Option<String>,
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

/// One item per line; `-` is standard input.
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
        let raw = saved_item(line, &config.source.text_fields)?;
        let clean = cleaned(config, raw.clone());
        PastItem {
            raw: Some(Box::new(raw)),
            id: clean.facts.id.0,
            name: ItemName::Number(clean.facts.id.0),
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
            name: plain.key.clone().map_or(ItemName::Number(plain.id), ItemName::Key),
            raw: Some(Box::new(raw(&plain)?)),
            subject: Some(Subject::from_text(&format!("{}\n{}", plain.title, plain.text))),
            title: plain.title,
            area: plain.area,
            item_type: plain.item_type,
            created_at: plain.created.map(jiff::Timestamp::as_second),
            repository: PathBuf::new(),
        }
    };
    if let Some(raw) = &mut past.raw {
        raw.key = ItemKey::new(&config.source.name, ItemId(past.id));
    }
    past.repository =
        cwd.join(code_base_of(config, &config.source.name, &[&past.area], &past.item_type));
    Ok(past)
}

/// Converts the short form to a work item.
fn raw(plain: &PlainItem) -> Result<WorkItem, serde_json::Error> {
    let fields = json!({
        "System.Title": plain.title,
        "System.AreaPath": plain.area,
        "System.WorkItemType": plain.item_type,
        "System.State": "Active",
    });
    let mut item =
        saved_item(&json!({ "id": plain.id, "rev": 1, "fields": fields }).to_string(), &[])?;
    let name = "System.Description".to_owned();
    item.texts = vec![TextField { name, format: Format::Plain, raw: plain.text.clone() }];
    Ok(item)
}
