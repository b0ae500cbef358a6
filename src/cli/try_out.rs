//! `heartbeat try`: what heartbeat would have known about a team's finished items, on one page,
//! without a configuration, a key or costs.

use std::path::PathBuf;

use clap::Args;

use super::backtest::{self, BacktestArgs};
use super::error::CommandError;
use super::exit::Code;
use super::{Context, backtest_items, write_out};
use crate::app::{TemporaryFolder, backtest as app_backtest};
use crate::backtest::{PastItem, Report, render, render_html};
use crate::config::{Discover, load};
use crate::dedupe::{ItemWords, similar_pairs};
use crate::model::text::clip;
use crate::private;

/// Likely duplicates that are named.
const MAX_PAIRS: usize = 20;

#[derive(Debug, Clone, Args)]
pub struct TryArgs {
    /// A clone of the code base with its history
    #[arg(long, value_name = "DIR")]
    pub repo: PathBuf,
    /// Finished items as JSON, in any form that `heartbeat backtest --items` takes, such as
    /// `gh issue list --state closed --limit 500 --json number,title,body,createdAt,url`
    #[arg(long, value_name = "FILE")]
    pub items: PathBuf,
    /// The page to write
    #[arg(long, value_name = "FILE", default_value = "heartbeat-try.html")]
    pub out: PathBuf,
}

impl Context {
    pub(super) async fn try_out(&self, args: &TryArgs) -> Result<Code, CommandError> {
        let mut request = crate::app::load_request(&self.global.overrides(), &self.environment)?;
        // Without a configuration, whatever lies around.
        (request.discover, request.explicit) = (Discover::Nowhere, None);
        let config = load(&request)?.config;
        let folder = TemporaryFolder::new("try")
            .map_err(CommandError::io("cannot create a temporary folder"))?;
        let file = backtest_items::read(&args.items, &config, &request.cwd)?;
        let duplicates = unlinked_duplicates(&file.items);
        let settings = BacktestArgs::of_file(&args.items, &args.repo);
        let options =
            backtest::file_options(&settings, &config, &request.cwd, folder.path().into(), file);
        let on_step = backtest::progress_reporter(self.progress());
        let start = self.start_options(false);
        let mut report = app_backtest::backtest(&start, &config, options, on_step).await?;
        report.notes.extend(duplicates);
        let page = render_html(&report).map_err(backtest::BacktestCommandError::Page)?;
        private::replace(&args.out, page.as_bytes())
            .map_err(CommandError::io(format!("cannot write {}", args.out.display())))?;
        self.say_tried(args, &report)
    }

    fn say_tried(&self, args: &TryArgs, report: &Report) -> Result<Code, CommandError> {
        let text = match self.global.json {
            true => backtest::to_json(report)?,
            false => format!("{}\nThe page: {}\n", render(report), args.out.display()),
        };
        write_out(&text)?;
        Ok(Code::Done)
    }
}

/// One line for each pair of items that look alike and do not name each other.
fn unlinked_duplicates(items: &[PastItem]) -> Vec<String> {
    let texts: Vec<String> = items.iter().map(whole_text).collect();
    let words: Vec<ItemWords> = texts.iter().map(|text| ItemWords::of_text(text)).collect();
    let pairs = similar_pairs(&words, 10 * MAX_PAIRS);
    let unlinked = pairs.into_iter().filter(|pair| {
        let (first, second) = (pair.first, pair.second);
        !names(&texts[first], items[second].id) && !names(&texts[second], items[first].id)
    });
    let line = |pair: crate::dedupe::Pair| {
        let (one, other) = (&items[pair.first], &items[pair.second]);
        format!(
            "Likely duplicates that do not name each other: {} \"{}\" and {} \"{}\"",
            one.name.text(),
            clip(&one.title, 80),
            other.name.text(),
            clip(&other.title, 80)
        )
    };
    unlinked.take(MAX_PAIRS).map(line).collect()
}

fn whole_text(item: &PastItem) -> String {
    let texts = item.subject.iter().flat_map(|subject| &subject.texts);
    let texts: Vec<&str> = texts.map(|(_, text)| text.as_str()).collect();
    format!("{}\n{}", item.title, texts.join("\n"))
}

/// Whether a text contains this number as a word, such as in `#12` or `SHOP-12`.
fn names(text: &str, id: i64) -> bool {
    let number = id.to_string();
    text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits == number)
}
