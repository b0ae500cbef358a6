//! Reads finished items from a file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::backtest::BacktestCommandError;
use crate::backtest::{PastItem, cleaned};
use crate::context::{Subject, code_base_of, subject_of};
use crate::fetch::ado::saved_item;
use crate::fetch::file::export::{self, PlainItem};
use crate::fixes::ItemName;
use crate::model::{ItemId, ItemKey};
use crate::settings::Config;

pub struct FileItems {
    pub items: Vec<PastItem>,
    /// As GitHub prints them: they have the numbers of the repository's own issues.
    pub are_issues: bool,
}

/// One item per line, or an array of items; `-` is standard input. Of several with the same number
/// the first counts.
pub fn read(path: &Path, config: &Config, cwd: &Path) -> Result<FileItems, BacktestCommandError> {
    let wrong = |line, source| BacktestCommandError::Item { path: path.to_owned(), line, source };
    let (mut items, mut are_issues): (Vec<PastItem>, bool) = (Vec::new(), true);
    for (at, value) in values_of(path)? {
        are_issues &= value.get("number").is_some();
        items.push(item(value, config, cwd).map_err(|source| wrong(at, source))?);
    }
    let mut seen = HashSet::new();
    items.retain(|item| seen.insert(item.id));
    if items.is_empty() {
        return Err(BacktestCommandError::NoItems(path.to_owned()));
    }
    Ok(FileItems { items, are_issues })
}

/// The JSON values of a file with their lines; `-` is standard input.
pub fn values_of(path: &Path) -> Result<Vec<(usize, Value)>, BacktestCommandError> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(path)
    };
    let text =
        text.map_err(|source| BacktestCommandError::Items { path: path.to_owned(), source })?;
    let wrong = |line, source| BacktestCommandError::Item { path: path.to_owned(), line, source };
    let values = export::values(&text).into_iter();
    values.map(|(line, value)| Ok((line, value.map_err(|source| wrong(line, source))?))).collect()
}

fn item(value: Value, config: &Config, cwd: &Path) -> Result<PastItem, serde_json::Error> {
    let mut past = if export::is_whole(&value) {
        let raw = saved_item(&value.to_string(), &config.source.text_fields)?;
        let clean = cleaned(config, raw.clone());
        PastItem {
            raw: Some(Box::new(raw)),
            id: clean.facts.id.0,
            name: ItemName::Number(clean.facts.id.0),
            title: clean.facts.title.clone(),
            area: clean.facts.area_path.clone().unwrap_or_default(),
            item_type: clean.facts.item_type.clone(),
            created_at: clean.facts.created_at.map(jiff::Timestamp::as_second),
            subject: Some(subject_of(&clean, None)),
            repository: PathBuf::new(),
        }
    } else {
        let plain: PlainItem = serde_json::from_value(value)?;
        PastItem {
            id: plain.id,
            name: name(&plain),
            // As it was reported: open.
            raw: Some(Box::new(PlainItem { state: String::new(), ..plain.clone() }.into_item()?)),
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

fn name(plain: &PlainItem) -> ItemName {
    match &plain.key {
        Some(key) => ItemName::Key(key.clone()),
        None => ItemName::of_page(&plain.url, plain.id),
    }
}
