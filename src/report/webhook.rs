//! Sends a short digest of a run, or a notice, to a chat; retried a few times, and never blocks a
//! run. The address of a webhook is a secret: it is read when it is used and never shown.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::digest::Report;
use super::markdown::web_address;
use crate::analyze::parts::grades_line;
use crate::model::plain_text;
use crate::model::text::clip;
use crate::outbound::{Body, OutboundError, SecretAddress, post};
use crate::settings::{WebhookStyle, WebhookWhen};

/// Findings listed in a message; the rest are counted.
const NAMED: usize = 8;
const TRIES: usize = 4;

pub fn wants(when: WebhookWhen, report: &Report) -> bool {
    match when {
        WebhookWhen::Always => true,
        WebhookWhen::News => report.is_news(),
        WebhookWhen::Trouble => report.is_trouble(),
        WebhookWhen::Never => false,
    }
}

/// The message in the format of the receiver.
pub fn message(style: WebhookStyle, report: &Report) -> Value {
    match style {
        WebhookStyle::Slack => json!({ "text": slack(report) }),
        WebhookStyle::Teams => teams(report),
    }
}

/// A short text in the format of the receiver; the first line is its title.
pub fn notice(style: WebhookStyle, lines: &[String]) -> Value {
    match style {
        WebhookStyle::Slack => {
            let text = |line: &String| slack_text(line);
            json!({ "text": lines.iter().map(text).collect::<Vec<_>>().join("\n") })
        }
        WebhookStyle::Teams => {
            let weight = |n| if n == 0 { "Bolder" } else { "Default" };
            let block = |(n, line): (usize, &String)| block(card_text(line), weight(n));
            card(&lines.iter().enumerate().map(block).collect::<Vec<_>>())
        }
    }
}

/// Delivers a message and retries temporary failures; `first_wait` doubles with each attempt.
pub async fn send(
    address: &SecretString,
    message: &Value,
    first_wait: Duration,
) -> Result<(), OutboundError> {
    let address = SecretAddress::parse(address.expose_secret())?;
    post(&address, Body::Json(message), first_wait, TRIES).await.map(drop)
}

fn slack(report: &Report) -> String {
    let mut lines =
        vec![format!("*{}*", slack_text(&report.title())), slack_text(&report.headline())];
    for row in report.findings.iter().take(NAMED) {
        let key = report.names.name(&row.key);
        let name = match web_address(&row.url) {
            Some(url) => format!("<{}|{key}>", url.replace('|', "%7C")),
            None => key,
        };
        let page = report.page_of(row).map(|page| format!(" <{page}|Read it>"));
        lines.push(format!(
            "• {name} {} ({}): {}{}",
            slack_text(&clip(&row.title, 80)),
            grades_line(&row.finding),
            slack_text(&clip(&row.finding.summary, 200)),
            page.unwrap_or_default()
        ));
    }
    lines.extend(rest(report));
    for (title, entries) in report.sections() {
        lines.push(format!("*{title}*"));
        lines.extend(entries.iter().map(|entry| format!("• {}", slack_text(&clip(entry, 200)))));
    }
    lines.extend(suggested(report).map(|text| slack_text(&text)));
    lines.join("\n")
}

/// Slack's three special characters; escaped, no link, mention or channel call is possible.
fn slack_text(text: &str) -> String {
    let one_line = plain_text(text).split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn rest(report: &Report) -> Option<String> {
    let more = report.findings.len().saturating_sub(NAMED);
    (more > 0).then(|| format!("… and {more} more"))
}

/// How many items have suggestions, and those of the first.
fn suggested(report: &Report) -> Option<String> {
    let first = report.suggested.first()?;
    let lines: Vec<String> =
        first.suggestions.iter().map(|line| format!("{}: {}", line.name, line.value)).collect();
    let more = match report.suggested.len() {
        1 => String::new(),
        all => format!("; suggestions for {} more items are in the report", all - 1),
    };
    let name = report.names.name(&first.key);
    Some(format!("Suggested for {name}: {}{more}", clip(&lines.join(", "), 160)))
}

fn teams(report: &Report) -> Value {
    let mut body = vec![
        block(card_text(&report.title()), "Bolder"),
        block(card_text(&report.headline()), "Default"),
    ];
    for row in report.findings.iter().take(NAMED) {
        let key = report.names.name(&row.key);
        let name = match web_address(&row.url) {
            Some(url) => format!("[{key}]({})", url.replace('(', "%28").replace(')', "%29")),
            None => key,
        };
        let page = report.page_of(row).map(|page| format!(" [Read it]({page})"));
        let text = format!(
            "{name} {} ({}): {}{}",
            card_text(&clip(&row.title, 80)),
            grades_line(&row.finding),
            card_text(&clip(&row.finding.summary, 200)),
            page.unwrap_or_default()
        );
        body.push(block(text, "Default"));
    }
    body.extend(rest(report).map(|text| block(text, "Default")));
    for (title, entries) in report.sections() {
        body.push(block(title.to_owned(), "Bolder"));
        let text = |entry: &String| block(card_text(&clip(entry, 200)), "Default");
        body.extend(entries.iter().map(text));
    }
    body.extend(suggested(report).map(|text| block(card_text(&text), "Default")));
    card(&body)
}

fn block(text: String, weight: &str) -> Value {
    json!({ "type": "TextBlock", "text": text, "wrap": true, "weight": weight })
}

fn card(body: &[Value]) -> Value {
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "msteams": { "width": "Full" },
                "body": body,
            },
        }],
    })
}

/// Cards support some Markdown; untrusted text must not become a link or a mention.
fn card_text(text: &str) -> String {
    let mut out = String::new();
    for c in plain_text(text).split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '(' | ')' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
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
    fn words_of_strangers_call_nobody() {
        let text = message(WebhookStyle::Slack, &report(HOSTILE))["text"].to_string();
        assert!(!text.contains("<!channel>") && !text.contains("<script"), "{text}");
        assert!(text.contains("<https://dev.azure.com/contoso/_workitems/edit/42|#42>"), "{text}");
        let card = message(WebhookStyle::Teams, &report(HOSTILE)).to_string();
        assert!(!card.contains("](javascript") && !card.contains("<script"), "{card}");
        assert!(card.contains("[#42](https://dev.azure.com/contoso/_workitems/edit/42)"), "{card}");
    }

    #[test]
    fn a_card_is_what_a_workflow_takes() {
        let card = message(WebhookStyle::Teams, &report("words"));
        assert_eq!(card["type"], "message");
        let attachment = &card["attachments"][0];
        assert_eq!(attachment["contentType"], "application/vnd.microsoft.card.adaptive");
        assert_eq!(attachment["content"]["type"], "AdaptiveCard");
        assert_eq!(attachment["content"]["body"][0]["type"], "TextBlock");
    }

    #[test]
    fn many_findings_are_counted_and_not_listed() {
        let mut many = report("words");
        let one = many.findings[0].clone();
        many.findings = vec![one; 30];
        many.suggested = Vec::new();
        let text = message(WebhookStyle::Slack, &many)["text"].to_string();
        assert_eq!(text.matches("#42").count(), NAMED);
        assert!(text.contains("… and 22 more"));
    }
}
