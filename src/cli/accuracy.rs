//! `heartbeat accuracy`: findings compared with what happened afterwards.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::error::CommandError;
use super::exit::Code;
use super::report::parse_since;
use crate::fixes::Accuracy;
use crate::model::Fate;
use crate::report::fixes::{accuracy, table};
use crate::store::{FieldOutcome, FindingRow};

#[derive(Debug, Clone, Args)]
pub struct AccuracyArgs {
    /// Only findings made since WHEN: a duration such as 30d, a date such as 2026-11-09, or a time
    #[arg(long, value_name = "WHEN", default_value = "365d")]
    pub since: String,
    /// Break the figures down by area, model, prompt version or proof
    #[arg(long, value_enum)]
    pub by: Option<Grouping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// The area of the item
    Area,
    /// The model that made the finding
    Model,
    /// The version of the prompts that made it
    Prompt,
    /// How far it is proven
    Proof,
}

#[derive(Debug, Serialize)]
struct AccuracyAnswer {
    all: Accuracy,
    groups: BTreeMap<String, Accuracy>,
    /// What people did with suggested values, by field.
    suggestions: BTreeMap<&'static str, Used>,
}

/// What people did with the suggestions for one field.
#[derive(Debug, Default, Serialize)]
struct Used {
    shown: u32,
    kept: u32,
    changed: u32,
    ignored: u32,
    open: u32,
    /// Made to build a record, and not shown.
    not_shown: u32,
}

fn used(outcomes: &[FieldOutcome]) -> BTreeMap<&'static str, Used> {
    let mut fields: BTreeMap<&'static str, Used> = BTreeMap::new();
    for one in outcomes {
        let used = fields.entry(one.field.into_str()).or_default();
        if !one.shown {
            used.not_shown += one.count;
            continue;
        }
        used.shown += one.count;
        *match one.fate {
            Fate::Open => &mut used.open,
            Fate::Kept => &mut used.kept,
            Fate::Changed => &mut used.changed,
            Fate::Ignored => &mut used.ignored,
        } += one.count;
    }
    fields
}

impl Grouping {
    fn of(self, row: &FindingRow) -> String {
        let name = match (self, &row.made_with) {
            (Self::Area, _) => row.area.clone(),
            (Self::Proof, _) => match row.finding.rung() {
                Some(rung) => rung.to_string(),
                None => "not checked".to_owned(),
            },
            (Self::Model, Some(made)) => made.model.clone(),
            (Self::Prompt, Some(made)) => made.prompt.clone(),
            (Self::Model | Self::Prompt, None) => String::new(),
        };
        if name.is_empty() { "unknown".to_owned() } else { name }
    }
}

impl super::Context {
    pub(super) async fn accuracy(&self, args: &AccuracyArgs) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        let now = self.clock.now();
        let since = parse_since(&args.since, &config.schedule.timezone, now)?;
        let rows = store.findings().between(since, jiff::Timestamp::MAX).await?;
        let mut groups: BTreeMap<String, Vec<&FindingRow>> = BTreeMap::new();
        if let Some(by) = args.by {
            rows.iter().for_each(|row| groups.entry(by.of(row)).or_default().push(row));
        }
        let groups = groups.into_iter().map(|(name, rows)| (name, accuracy(rows))).collect();
        let outcomes = store.suggestions().outcomes(since).await?;
        let answer = AccuracyAnswer { all: accuracy(&rows), groups, suggestions: used(&outcomes) };
        self.print(&answer, render)?;
        Ok(Code::Done)
    }
}

fn render(answer: &AccuracyAnswer) -> String {
    if answer.all.findings == 0 {
        return format!("No findings in this period.\n{}", suggestions(answer));
    }
    let groups = answer.groups.iter().map(|(name, accuracy)| (name.clone(), accuracy.clone()));
    let rows: Vec<_> =
        std::iter::once(("all".to_owned(), answer.all.clone())).chain(groups).collect();
    let mut text = table(&rows);
    let late = answer.all.too_late;
    if late > 0 {
        text.push_str(&format!(
            "{late} more findings came after their item was fixed and are not counted as fixed.\n"
        ));
    }
    if answer.all.fixed == 0 {
        text.push_str(
            "No commit names an item that has a finding yet. After each run, heartbeat searches the \
             local clones for such commits (#123, AB#123, or branches named after items); pull \
             regularly so that it sees them.\n",
        );
    }
    text.push_str(&suggestions(answer));
    text
}

/// `area: 40 suggested, 31 kept, 5 changed, 4 not used`
fn suggestions(answer: &AccuracyAnswer) -> String {
    let one = |(field, used): (&&str, &Used)| {
        let Used { shown, kept, changed, ignored, open, not_shown } = used;
        format!(
            "{field}: {shown} suggested, {kept} kept, {changed} changed, {ignored} not used, {open} open; \
             {not_shown} more not shown\n"
        )
    };
    let lines: String = answer.suggestions.iter().map(one).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nSuggested values, and what people did with them:\n{lines}")
    }
}
