//! Reads finished items from a file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::backtest::BacktestCommandError;
use crate::backtest::{PastItem, cleaned};
use crate::context::{Subject, code_base_of};
use crate::fetch::ado::saved_item;
use crate::fixes::ItemName;
use crate::model::{Format, ItemId, ItemKey, TextField, WorkItem};
use crate::settings::Config;

/// The short form of an item; also what `gh issue list --json number,title,body,createdAt,url` prints.
#[derive(Deserialize)]
struct PlainItem {
    #[serde(alias = "number", deserialize_with = "number_or_text")]
    id: i64,
    /// Such as SHOP-12, if commits name it so.
    #[serde(default)]
    key: Option<String>,
    title: String,
    #[serde(default, alias = "body")]
    text: String,
    #[serde(default)]
    area: String,
    #[serde(default, rename = "type")]
    item_type: String,
    #[serde(default, alias = "createdAt")]
    created: Option<jiff::Timestamp>,
    /// Address of its page.
    #[serde(default)]
    url: String,
}

pub struct FileItems {
    pub items: Vec<PastItem>,
    /// As GitHub prints them: they have the numbers of the repository's own issues.
    pub are_issues: bool,
}

/// `12` or `"12"`.
fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(i64),
        Text(String),
    }
    match Id::deserialize(deserializer)? {
        Id::Number(number) => Ok(number),
        Id::Text(text) => text.trim().parse().map_err(serde::de::Error::custom),
    }
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
    values(&text).map_err(|(line, source)| wrong(line, source))
}

/// The items with their lines; in an array, with their places.
fn values(text: &str) -> Result<Vec<(usize, Value)>, (usize, serde_json::Error)> {
    if text.trim_start().starts_with('[') {
        let all: Vec<Value> =
            serde_json::from_str(text).map_err(|source| (source.line(), source))?;
        return Ok(all.into_iter().enumerate().map(|(at, value)| (at + 1, value)).collect());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let value = |(at, line): (usize, &str)| {
        let value = serde_json::from_str(line).map_err(|source| (at + 1, source))?;
        Ok((at + 1, value))
    };
    lines.map(value).collect()
}

fn item(value: Value, config: &Config, cwd: &Path) -> Result<PastItem, serde_json::Error> {
    let mut past = if value.get("fields").is_some() {
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
            subject: Some(Subject::of_item(&clean, None)),
            repository: PathBuf::new(),
        }
    } else {
        let plain: PlainItem = serde_json::from_value(value)?;
        PastItem {
            id: plain.id,
            name: name(&plain),
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

fn name(plain: &PlainItem) -> ItemName {
    match &plain.key {
        Some(key) => ItemName::Key(key.clone()),
        None => ItemName::of_page(&plain.url, plain.id),
    }
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
