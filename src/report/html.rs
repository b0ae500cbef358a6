//! A report as one self-contained page without scripts, suitable for printing. Pure.
//!
//! `report.html` is the template. Every value is escaped, and the page's own policy forbids scripts
//! and loading.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, Output, State, UndefinedBehavior, Value, context};

use super::digest::{Report, Scope};
use super::fixes::{fix_line, stale_line};
use super::markdown::{outcome, took, web_address};
use super::moment::{minute, version};
use super::prose::prose;
use crate::analyze::parts::{Body, Grade, Part, Place, proof_word};
use crate::event::fold::AlarmedItem;
use crate::model::text::in_words;
use crate::model::{is_acting, plain_text};
use crate::report::lines::short_key;
use crate::report::suggestions::{SuggestedItem, SuggestedLine};
use crate::store::{
    DuplicateGroup, DuplicateItem, FindingRow, ItemRow, JudgedItem, RunRow, SessionRow,
    StageSpending,
};

const PAGE: &str = include_str!("report.html");
/// Used by every page that is sent or stored.
pub const STYLE: &str = include_str!("report.css");

pub fn render(report: &Report) -> Result<String, Error> {
    Ok(report.names.in_text(page(PAGE, values(report))?))
}

/// Renders a template. Every value is escaped, and nothing in it acts on a terminal or a browser.
pub fn page(template: &str, values: Value) -> Result<String, Error> {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()?,
    );
    templates.set_formatter(write_visible);
    // The file name's extension enables escaping.
    templates.add_template("page.html", template)?;
    templates.get_template("page.html")?.render(values)
}

fn values(report: &Report) -> Value {
    context! {
        title => report.title(),
        headline => report.headline(),
        single => matches!(report.scope, Scope::Finding { .. }),
        accuracy => report.fixed_sentence(),
        style => STYLE,
        runs => report.runs.iter().map(run).collect::<Vec<_>>(),
        spending => report.spending.iter().map(spending).collect::<Vec<_>>(),
        related => report.related.iter().map(|group| group.iter().map(related).collect::<Vec<_>>())
            .collect::<Vec<_>>(),
        suggested => report.suggested.iter().map(suggested).collect::<Vec<_>>(),
        duplicates => report.duplicates.iter().map(duplicates).collect::<Vec<_>>(),
        settled => report.settled.iter().map(settled).collect::<Vec<_>>(),
        alarmed => report.alarmed.iter().map(alarmed).collect::<Vec<_>>(),
        findings => report.findings.iter().map(|row| finding(row, report)).collect::<Vec<_>>(),
        sections => report
            .sections()
            .map(|(title, entries)| context! { title, entries => entries.to_vec() })
            .collect::<Vec<_>>(),
        failures => report.failed_sessions.iter().map(failure).collect::<Vec<_>>(),
        open => report.open.first.iter().map(open).collect::<Vec<_>>(),
        beyond => report.open.beyond(),
        made_at => minute(report.made_at),
        version => env!("CARGO_PKG_VERSION"),
    }
}

fn run(run: &RunRow) -> Value {
    let summary = run.summary.unwrap_or_default();
    context! {
        started => minute(run.started_at),
        outcome => outcome(run),
        took => took(run),
        fetched => summary.fetched,
        changed => summary.shares.new + summary.shares.changed,
        triaged => summary.triaged,
        findings => summary.analysed,
        cost => summary.cost_text(),
    }
}

fn spending(row: &StageSpending) -> Value {
    context! {
        day => row.day.clone(),
        stage => row.stage.into_str(),
        sessions => row.money.sessions,
        amount => row.money.to_text(),
    }
}

fn duplicates(group: &DuplicateGroup) -> Value {
    let one = |item: &DuplicateItem| {
        context! { key => short_key(&item.key), title => item.title.clone(), why => prose(&item.why), live => item.live }
    };
    context! { items => group.items.iter().map(one).collect::<Vec<_>>(), beyond => group.beyond() }
}

fn suggested(item: &SuggestedItem) -> Value {
    let one = |line: &SuggestedLine| {
        let (name, value, note) = (line.name.clone(), line.value.clone(), line.note.clone());
        context! { name, value, note }
    };
    let lines = item.suggestions.iter().map(one).collect::<Vec<_>>();
    context! { key => short_key(&item.key), title => item.title.clone(), lines }
}

fn related(item: &JudgedItem) -> Value {
    context! { key => short_key(&item.key), title => item.title.clone() }
}

fn settled(item: &JudgedItem) -> Value {
    let (key, reason) = (short_key(&item.key), prose(&item.verdict.reason));
    context! { key, title => item.title.clone(), reason }
}

fn alarmed(alarm: &AlarmedItem) -> Value {
    context! { key => short_key(&alarm.item), words => alarm.alarms.to_text() }
}

fn finding(row: &FindingRow, report: &Report) -> Value {
    let finding = &row.finding;
    context! {
        key => short_key(&row.key),
        url => web_address(&row.url),
        title => row.title.clone(),
        risk => finding.risk.into_str(),
        effort => finding.effort.into_str(),
        confidence => finding.confidence.into_str(),
        proof => proof_word(finding),
        revision => version(row.revision),
        created => minute(row.created_at),
        files => finding.files.len(),
        parts => report.parts(row).iter().map(part).collect::<Vec<_>>(),
        cost => row.cost.map(|cost| cost.to_string()).unwrap_or_default(),
        feedback => row.feedback.as_ref().map(ToString::to_string),
        fix => fix_line(row),
        stale => stale_line(row),
    }
}

/// A part of a finding, for the template's macro.
fn part(part: &Part) -> Value {
    let all = |texts: &[String]| texts.iter().map(|text| prose(text)).collect::<Vec<_>>();
    let (shape, body) = match &part.body {
        Body::Text(text) => ("text", prose(text)),
        Body::List(texts) => ("list", all(texts).into()),
        Body::Ranked(texts) => ("ranked", all(texts).into()),
        Body::Places(places) => ("places", places.iter().map(place).collect::<Vec<_>>().into()),
        Body::Grades(grades) => ("grades", grades.iter().map(grade).collect::<Vec<_>>().into()),
        Body::Code(text) => ("diff", text.lines().map(diff_line).collect::<Vec<_>>().into()),
    };
    context! { title => part.title, shape, body }
}

/// A line of a patch with its colour. It ends with its newline, for readers without the style.
fn diff_line(line: &str) -> Value {
    let tone = match line.as_bytes() {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] | [b'@', b'@', ..] => "meta",
        [b'+', ..] => "good",
        [b'-', ..] => "bad",
        _ => "",
    };
    context! { tone, text => format!("{line}\n") }
}

fn place(place: &Place) -> Value {
    context! {
        name => place.name(),
        address => place.address.clone(),
        notes => place.notes.clone(),
        text => prose(&place.text),
        quote => place.quote.clone(),
    }
}

fn grade(grade: &Grade) -> Value {
    context! { name => grade.name, value => grade.value, tone => grade.tone }
}

fn failure(row: &SessionRow) -> Value {
    context! {
        stage => row.session.stage.into_str(),
        item => row.session.item.as_ref().map(short_key).unwrap_or_default(),
        attempt => row.session.attempt,
        outcome => row.outcome.as_ref().map(ToString::to_string).unwrap_or_default(),
        session => row.session.id.to_string(),
    }
}

fn open(item: &ItemRow) -> Value {
    context! {
        key => short_key(&item.key),
        title => item.title.clone(),
        phase => in_words(item.phase),
        reason => item.reason.to_text(),
        next_attempt => item.next_attempt.map(minute),
    }
}

/// Escapes text and drops direction marks and invisible characters.
fn write_visible(
    out: &mut Output<'_>,
    state: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), Error> {
    match value.as_str().filter(|text| !value.is_safe() && text.contains(is_acting)) {
        Some(text) => minijinja::escape_formatter(out, state, &Value::from(plain_text(text))),
        None => minijinja::escape_formatter(out, state, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::digest::samples::{HOSTILE, report};

    #[test]
    fn words_of_strangers_can_do_nothing() {
        let page = render(&report(HOSTILE)).unwrap();
        let parsed = scraper::Html::parse_document(&page);
        for forbidden in ["script", "img", "iframe", "object", "form", "link"] {
            let selector = scraper::Selector::parse(forbidden).unwrap();
            assert_eq!(parsed.select(&selector).count(), 0, "{forbidden}");
        }
        let links = scraper::Selector::parse("a").unwrap();
        for link in parsed.select(&links) {
            assert!(link.value().attr("href").unwrap().starts_with("https://"));
        }
        for element in parsed.root_element().descendent_elements() {
            let handlers = element.value().attrs().filter(|(name, _)| name.starts_with("on"));
            assert_eq!(handlers.count(), 0);
        }
        // No text was lost.
        let text: String = parsed.root_element().text().collect();
        assert!(text.matches("<script>alert(1)</script>").count() >= 6, "{text}");
    }

    #[test]
    fn a_million_characters_are_no_trouble() {
        let long = "<b>".repeat(350_000);
        let page = render(&report(&long)).unwrap();
        assert!(!page.contains("<b><b>"));
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = render(&report("words")).unwrap();
        assert!(!page.contains("src="));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn characters_that_do_not_show_are_dropped() {
        let page = render(&report("a\u{202e}b\u{200b}c\u{7}d")).unwrap();
        assert!(page.contains("abcd"));
    }

    #[test]
    fn prose_is_shown_with_its_code_and_lists() {
        let text = "`a < b` is wrong:\n\n1. Read `x`.\n2. Write *y*.\n\n```rust\nlet <T> = 1;\n```";
        let page = render(&report(text)).unwrap();
        for part in [
            "<code>a &lt; b</code> is wrong:</p>",
            "<ol>\n<li>Read <code>x</code>.</li>\n<li>Write <em>y</em>.</li>\n</ol>",
            "<pre><code>let &lt;T&gt; = 1;\n</code></pre>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        let page = render(&report("one `x`\ntwo")).unwrap();
        assert!(page.contains("<li class=\"prose\">one <code>x</code><br />\ntwo</li>"), "{page}");
    }
}
