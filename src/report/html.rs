//! A report as one page: nothing is loaded, nothing runs, it prints well. Pure.
//!
//! Every word that is not ours goes through [`escape`]; the page forbids scripts and loading by
//! itself as well.

use std::fmt::{self, Write as _};

use super::digest::{Report, minute};
use super::markdown::{outcome, took, web_address};
use crate::model::text::in_words;
use crate::report::lines::{amount, short_key};
use crate::store::{FindingRow, JudgedItem};

const STYLE: &str = include_str!("report.css");

/// The whole page.
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _: fmt::Result = write(&mut page, report);
    page
}

fn write(page: &mut String, report: &Report) -> fmt::Result {
    let title = escape(&report.title());
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>{title}</h1>\n<p>{}</p>\n</header>\n<main>\n",
        escape(&report.headline())
    )?;
    runs(page, report)?;
    spending(page, report)?;
    related(page, report)?;
    findings(page, report)?;
    failures(page, report)?;
    open(page, report)?;
    writeln!(
        page,
        "</main>\n<footer>Generated {} by heartbeat {}. Costs are as the agent reports \
         them.</footer>\n</body>\n</html>",
        minute(report.made_at),
        env!("CARGO_PKG_VERSION")
    )
}

fn runs(page: &mut String, report: &Report) -> fmt::Result {
    page.push_str(
        "<section>\n<h2>Runs</h2>\n<table>\n<thead><tr><th scope=\"col\">Began</th>\
         <th scope=\"col\">Outcome</th><th scope=\"col\">Took</th><th scope=\"col\">Fetched</th>\
         <th scope=\"col\">Changed</th><th scope=\"col\">Triaged</th>\
         <th scope=\"col\">Findings</th><th scope=\"col\">Cost</th></tr></thead>\n<tbody>\n",
    );
    for run in &report.runs {
        let s = run.summary.unwrap_or_default();
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            minute(run.started_at),
            escape(&outcome(run)),
            took(run),
            s.fetched,
            s.shares.new + s.shares.changed,
            s.triaged,
            s.analysed,
            s.cost
        )?;
    }
    page.push_str("</tbody>\n</table>\n</section>\n");
    Ok(())
}

fn spending(page: &mut String, report: &Report) -> fmt::Result {
    if report.spending.is_empty() {
        return Ok(());
    }
    page.push_str(
        "<section>\n<h2>Spending</h2>\n<table>\n<thead><tr><th scope=\"col\">Day</th>\
         <th scope=\"col\">For</th><th scope=\"col\">Sessions</th>\
         <th scope=\"col\">Spent</th></tr></thead>\n<tbody>\n",
    );
    for row in &report.spending {
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            escape(&row.day),
            row.stage,
            row.sessions,
            amount(row)
        )?;
    }
    page.push_str("</tbody>\n</table>\n</section>\n");
    Ok(())
}

fn related(page: &mut String, report: &Report) -> fmt::Result {
    if report.related.is_empty() {
        return Ok(());
    }
    page.push_str("<section>\n<h2>Likely duplicates, according to triage</h2>\n<ul>\n");
    for group in &report.related {
        let name = |item: &JudgedItem| {
            format!("{} {}", escape(&short_key(&item.key)), escape(&item.title))
        };
        writeln!(page, "<li>{}</li>", group.iter().map(name).collect::<Vec<_>>().join("; "))?;
    }
    page.push_str("</ul>\n</section>\n");
    Ok(())
}

fn findings(page: &mut String, report: &Report) -> fmt::Result {
    page.push_str("<section>\n<h2>Findings</h2>\n");
    if report.findings.is_empty() {
        page.push_str("<p>None.</p>\n");
    }
    for row in &report.findings {
        finding(page, row)?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn finding(page: &mut String, row: &FindingRow) -> fmt::Result {
    let key = escape(&short_key(&row.key));
    let name = match web_address(&row.url) {
        Some(url) => {
            format!("<a href=\"{}\" rel=\"noopener noreferrer\">{key}</a>", escape(url))
        }
        None => key,
    };
    let f = &row.finding;
    write!(
        page,
        "<article>\n<h3>{name} {}</h3>\n<p class=\"meta\">risk <b class=\"{risk}\">{risk}</b> · \
         effort <b>{}</b> · confidence <b>{}</b> · revision {} · {}</p>\n<p>{}</p>\n",
        escape(&row.title),
        f.effort.to_string().to_lowercase(),
        f.confidence.to_string().to_lowercase(),
        row.revision,
        minute(row.created_at),
        escape(&f.summary),
        risk = f.risk.to_string().to_lowercase(),
    )?;
    list(page, "Likely causes", f.likely_causes.iter().map(|cause| escape(cause)))?;
    let files = f.files.iter().map(|file| {
        let gone = if file.exists == Some(false) { " <i>(not in the repository)</i>" } else { "" };
        format!("<code>{}</code>{gone}: {}", escape(&file.path), escape(&file.reason))
    });
    list(page, "Where to look", files)?;
    if !f.suggested_change.is_empty() {
        writeln!(page, "<h4>Suggested change</h4>\n<p>{}</p>", escape(&f.suggested_change))?;
    }
    list(page, "Open questions", f.open_questions.iter().map(|question| escape(question)))?;
    page.push_str("</article>\n");
    Ok(())
}

fn list(page: &mut String, title: &str, entries: impl Iterator<Item = String>) -> fmt::Result {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(page, "<h4>{title}</h4>\n<ul>")?;
    for entry in entries {
        writeln!(page, "<li>{entry}</li>")?;
    }
    writeln!(page, "</ul>")
}

fn failures(page: &mut String, report: &Report) -> fmt::Result {
    if report.failed_sessions.is_empty() {
        return Ok(());
    }
    page.push_str("<section>\n<h2>Sessions that did not complete</h2>\n<ul>\n");
    for row in &report.failed_sessions {
        let item = row.session.item.as_ref().map(short_key).unwrap_or_default();
        let how = row.outcome.as_ref().map(ToString::to_string).unwrap_or_default();
        writeln!(
            page,
            "<li>{} {} attempt {}: {} <span class=\"meta\">session <code>{}</code></span></li>",
            row.session.stage,
            escape(&item),
            row.session.attempt,
            escape(&how),
            row.session.id
        )?;
    }
    page.push_str("</ul>\n</section>\n");
    Ok(())
}

fn open(page: &mut String, report: &Report) -> fmt::Result {
    if report.open.first.is_empty() {
        return Ok(());
    }
    page.push_str("<section>\n<h2>Not finished</h2>\n<ul>\n");
    for item in &report.open.first {
        let next = item.next_attempt.map(|t| format!(", next attempt {}", minute(t)));
        writeln!(
            page,
            "<li>{} {}: <b>{}</b> ({}{})</li>",
            escape(&short_key(&item.key)),
            escape(&item.title),
            escape(&in_words(&item.phase)),
            escape(&in_words(&item.reason)),
            next.unwrap_or_default()
        )?;
    }
    if report.open.beyond() > 0 {
        writeln!(page, "<li>and {} more</li>", report.open.beyond())?;
    }
    page.push_str("</ul>\n</section>\n");
    Ok(())
}

/// Text that cannot be anything but text, in an element or in a quoted attribute. Characters that
/// turn the direction of writing or do not show at all are left out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::digest::samples::{HOSTILE, report};

    #[test]
    fn words_of_strangers_can_do_nothing() {
        let page = render(&report(HOSTILE));
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
        // Nothing of it was lost either.
        let text: String = parsed.root_element().text().collect();
        assert!(text.matches("<script>alert(1)</script>").count() >= 6, "{text}");
    }

    #[test]
    fn a_million_characters_are_no_trouble() {
        let long = "<b>".repeat(350_000);
        let page = render(&report(&long));
        assert!(!page.contains("<b><b>"));
        assert!(page.ends_with("</html>\n"));
    }

    #[test]
    fn nothing_is_loaded_from_anywhere() {
        let page = render(&report("words"));
        assert!(!page.contains("src="));
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(page.contains("default-src 'none'"));
    }
}
