//! A finding as Markdown.
//!
//! A model that has read untrusted text wrote it, so no image, link or HTML in it may become active
//! in the reader's browser.

use std::fmt::Write;

use crate::model::{FileRole, Finding, plain_markdown, plain_text};

/// Without a title.
pub fn markdown(finding: &Finding) -> String {
    let mut page = format!("{}\n", plain(&finding.summary));
    list(&mut page, "Likely causes", finding.likely_causes.iter().map(|cause| plain(cause)));
    list(
        &mut page,
        "Where to look",
        finding.files.iter().map(|file| {
            let missing = if file.exists == Some(false) { " (not in the repository)" } else { "" };
            let role = match file.role {
                Some(FileRole::Change) => " (change)",
                Some(FileRole::Test) => " (test)",
                Some(FileRole::Understand) | None => "",
            };
            let unread = if file.read == Some(false) { " (not read)" } else { "" };
            format!("`{}`{role}{unread}{missing}: {}", code(&file.path), plain(&file.reason))
        }),
    );
    section(&mut page, "Suggested change", &plain(&finding.suggested_change));
    list(&mut page, "Tests", finding.tests.iter().map(|text| plain(text)));
    list(&mut page, "Pitfalls", finding.pitfalls.iter().map(|text| plain(text)));
    let grades = format!(
        "risk **{}** \u{b7} effort **{}** \u{b7} confidence **{}**",
        finding.risk, finding.effort, finding.confidence
    );
    section(&mut page, "Assessment", &grades);
    list(&mut page, "Not checked", finding.not_checked.iter().map(|text| plain(text)));
    list(&mut page, "Open questions", finding.open_questions.iter().map(|text| plain(text)));
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    // Writing to a String cannot fail.
    let _ = write!(page, "\n#### {title}\n\n{text}\n");
}

fn list(page: &mut String, title: &str, entries: impl Iterator<Item = String>) {
    let lines: Vec<String> =
        entries.map(|entry| format!("- {}", entry.replace('\n', "\n  "))).collect();
    if !lines.is_empty() {
        section(page, title, &lines.join("\n"));
    }
}

/// Text with headings, links, images and HTML disabled; code and lists stay.
fn plain(text: &str) -> String {
    let mut lines = Vec::new();
    for line in plain_markdown(text.trim()).lines() {
        let line = line.replace('&', "&amp;").replace('<', "&lt;");
        let line = line.replace("](", "]\\(").replace("![", "!\\[").replace("]:", "]\\:");
        lines.push(match line.trim_start().starts_with(['#', '=']) {
            true => format!("\\{}", line.trim_start()),
            false => line,
        });
    }
    lines.join("\n")
}

fn code(path: &str) -> String {
    plain_text(path).replace('`', "").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Confidence, Effort, FileReference, Risk};

    fn finding() -> Finding {
        Finding {
            summary: "The total is rounded twice.".into(),
            likely_causes: vec!["Rounding per line.".into(), "And in the sum.".into()],
            files: vec![
                FileReference {
                    role: None,
                    read: None,
                    path: "src/total.rs".into(),
                    reason: "sums up".into(),
                    exists: Some(true),
                },
                FileReference {
                    role: None,
                    read: None,
                    path: "src/gone.rs".into(),
                    reason: "rounds".into(),
                    exists: Some(false),
                },
            ],
            suggested_change: "1. Round once.\n2. Test it.".into(),
            risk: Risk::Low,
            effort: Effort::Small,
            confidence: Confidence::High,
            open_questions: vec![],
            tests: Vec::new(),
            pitfalls: Vec::new(),
            not_checked: Vec::new(),
        }
    }

    #[test]
    fn reads_well() {
        let expected = "The total is rounded twice.

#### Likely causes

- Rounding per line.
- And in the sum.

#### Where to look

- `src/total.rs`: sums up
- `src/gone.rs` (not in the repository): rounds

#### Suggested change

1. Round once.
2. Test it.

#### Assessment

risk **low** \u{b7} effort **small** \u{b7} confidence **high**
";
        assert_eq!(markdown(&finding()), expected);
    }

    #[test]
    fn nothing_in_it_becomes_an_image_a_link_or_html() {
        let mut finding = finding();
        finding.summary =
            "![x](http://evil/?q=secret) <img src=x> [a](javascript:1)\n# Big\n[b]: http://evil"
                .into();
        finding.files[0].path = "a`</code><script>`".into();
        let page = markdown(&finding);
        for bad in ["![", "](", "<img", "\n# Big", "[b]:"] {
            assert!(!page.contains(bad), "{bad} in {page}");
        }
        assert!(page.contains("- `a</code><script>`:"), "inside code, harmless: {page}");
    }
}
