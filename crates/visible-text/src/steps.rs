//! The steps of a test case: XML with escaped HTML, converted to a numbered list.

use super::markdown::decode_entities;
use super::{Cleaned, Rendering, html};
use crate::UnclearTextPolicy;

/// Most steps shown; a test case with more is a mistake.
const MAX_STEPS: usize = 2_000;

#[derive(Default)]
struct Step {
    /// Action and expected result, as HTML.
    parts: Vec<String>,
    /// Number of the shared steps it refers to.
    shared: Option<String>,
}

/// Cleans the XML of a test case's steps. Anything else is treated as HTML.
pub(super) fn clean(raw: &str, rendering: Rendering, doubtful: UnclearTextPolicy) -> Cleaned {
    if !raw.contains("<step") {
        return html::clean(raw, rendering, doubtful);
    }
    let mut cleaned = Cleaned::default();
    for (at, step) in read(raw).iter().take(MAX_STEPS).enumerate() {
        let mut lines = Vec::new();
        if let Some(shared) = &step.shared {
            lines.push(format!("Shared steps #{shared}"));
        }
        for (place, part) in step.parts.iter().enumerate() {
            let part = html::Page::read_snippet(part).render(rendering, doubtful);
            cleaned.alarms = cleaned.alarms.plus(part.alarms);
            cleaned.stats = cleaned.stats.plus(part.stats);
            cleaned.steps += part.steps;
            if part.text.is_empty() {
                continue;
            }
            let label = if place == 1 { "Expected: " } else { "" };
            lines.push(format!("{label}{}", part.text));
        }
        if lines.is_empty() {
            continue;
        }
        if !cleaned.text.is_empty() {
            cleaned.text.push('\n');
        }
        let marker = format!("{}. ", at + 1);
        let indent = format!("\n{}", " ".repeat(marker.len()));
        cleaned.text.push_str(&marker);
        cleaned.text.push_str(&lines.join("\n").replace('\n', &indent));
    }
    cleaned
}

/// Reads the steps, tag by tag.
fn read(xml: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut rest = xml;
    while let Some(open) = rest.find('<') {
        let tag = &rest[open + 1..];
        let end = tag.find('>').unwrap_or(tag.len());
        let (tag, after) = (&tag[..end], tag.get(end + 1..).unwrap_or(""));
        rest = after;
        let name = tag.split([' ', '\t', '\n', '/']).next().unwrap_or("");
        match name {
            "step" => steps.push(Step::default()),
            "compref" => {
                let shared = tag.split("ref=\"").last().and_then(|rest| rest.split('"').next());
                let shared = shared.filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
                steps.push(Step { shared: shared.map(str::to_owned), ..Step::default() });
            }
            "parameterizedString" if !tag.ends_with('/') => {
                let close = after.find("</parameterizedString").unwrap_or(after.len());
                if let Some(step) = steps.last_mut() {
                    step.parts.push(decode_entities(&after[..close]).into_owned());
                }
                rest = &after[close..];
            }
            "parameterizedString" => {
                if let Some(step) = steps.last_mut() {
                    step.parts.push(String::new());
                }
            }
            _ => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_a_numbered_list() {
        let xml = "<steps id=\"0\" last=\"4\">\
            <step id=\"2\" type=\"ValidateStep\"><parameterizedString isformatted=\"true\">\
            &lt;DIV&gt;&lt;P&gt;Open &amp;lt;page&amp;gt;&lt;/P&gt;&lt;P&gt;Log in as @user&lt;/P&gt;&lt;/DIV&gt;\
            </parameterizedString><parameterizedString isformatted=\"true\">It opens\
            </parameterizedString><description/></step>\
            <compref id=\"3\" ref=\"77\"><step id=\"4\" type=\"ActionStep\">\
            <parameterizedString isformatted=\"true\">Leave</parameterizedString>\
            <parameterizedString isformatted=\"true\"/></step></compref></steps>";
        let cleaned = clean(xml, Rendering::Tight, UnclearTextPolicy::LeaveOut);
        assert_eq!(
            cleaned.text,
            "1. Open <page>\n   Log in as @user\n   Expected: It opens\n2. Shared steps #77\n3. Leave"
        );
    }

    #[test]
    fn anything_else_is_html_and_broken_xml_is_no_trouble() {
        assert_eq!(
            clean("<p>just text</p>", Rendering::Full, UnclearTextPolicy::LeaveOut).text,
            "just text"
        );
        for broken in ["<step", "<step><parameterizedString>", "<steps><step/>", "<step <step <"] {
            clean(broken, Rendering::Full, UnclearTextPolicy::LeaveOut);
        }
    }
}
