//! Sends a short digest of a run to a chat; retried a few times, and never blocks a run.
//!
//! The address of a webhook is a secret: it is read when it is used and never shown.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::{Client, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::digest::Report;
use super::markdown::web_address;
use crate::model::plain_text;
use crate::model::text::clip;
use crate::report::lines::short_key;
use crate::settings::{WebhookStyle, WebhookWhen};

/// Findings listed in a message; the rest are counted.
const NAMED: usize = 8;
const TRIES: usize = 4;
/// Per attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// No message contains the address.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("the variable named by report.webhook_env does not hold an https URL")]
    Address,
    #[error("cannot reach the webhook: {0}")]
    Unreachable(String),
    #[error("the webhook answered {0}")]
    Refused(StatusCode),
}

impl WebhookError {
    /// Whether a retry may help.
    fn is_passing(&self) -> bool {
        match self {
            Self::Address => false,
            Self::Unreachable(_) => true,
            Self::Refused(status) => {
                status.is_server_error()
                    || matches!(
                        *status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT
                    )
            }
        }
    }
}

pub fn wants(when: WebhookWhen, report: &Report) -> bool {
    match when {
        WebhookWhen::Always => true,
        WebhookWhen::News => report.is_news(),
        WebhookWhen::Trouble => report.is_trouble(),
    }
}

/// The message in the format of the receiver.
pub fn message(style: WebhookStyle, report: &Report) -> Value {
    match style {
        WebhookStyle::Slack => json!({ "text": slack(report) }),
        WebhookStyle::Teams => teams(report),
    }
}

/// Delivers a message and retries temporary failures; `first_wait` doubles with each attempt.
pub async fn send(
    address: &SecretString,
    message: &Value,
    first_wait: Duration,
) -> Result<(), WebhookError> {
    let url = parse(address)?;
    // Fails if a provider is already installed, which is fine.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let mut builder =
        Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none());
    if is_loopback(&url) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(unreachable)?;
    let policy = ExponentialBuilder::default()
        .with_min_delay(first_wait)
        .with_max_times(TRIES - 1)
        .with_jitter();
    let once = || async {
        let answer = client.post(url.clone()).json(message).send().await.map_err(unreachable)?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(WebhookError::Refused(status)) }
    };
    once.retry(policy).when(WebhookError::is_passing).await
}

fn parse(address: &SecretString) -> Result<Url, WebhookError> {
    let url =
        Url::parse(address.expose_secret().trim()).map_err(|_unsaid| WebhookError::Address)?;
    // Without TLS the address could be read in transit.
    let safe = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    if safe && url.has_host() { Ok(url) } else { Err(WebhookError::Address) }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

#[expect(clippy::needless_pass_by_value, reason = "used as a function in map_err")]
fn unreachable(error: reqwest::Error) -> WebhookError {
    let what = match (error.is_timeout(), error.is_connect()) {
        (true, _) => "no answer in time",
        (_, true) => "no connection",
        _ => "the request failed",
    };
    WebhookError::Unreachable(what.into())
}

fn slack(report: &Report) -> String {
    let mut lines =
        vec![format!("*{}*", slack_text(&report.title())), slack_text(&report.headline())];
    for row in report.findings.iter().take(NAMED) {
        let key = short_key(&row.key);
        let name = match web_address(&row.url) {
            Some(url) => format!("<{}|{key}>", url.replace('|', "%7C")),
            None => key,
        };
        lines.push(format!(
            "• {name} {}: {}",
            slack_text(&clip(&row.title, 80)),
            slack_text(&clip(&row.finding.summary, 200))
        ));
    }
    lines.extend(rest(report));
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

fn teams(report: &Report) -> Value {
    let block = |text: String, weight: &str| json!({ "type": "TextBlock", "text": text, "wrap": true, "weight": weight });
    let mut body = vec![
        block(card_text(&report.title()), "Bolder"),
        block(card_text(&report.headline()), "Default"),
    ];
    for row in report.findings.iter().take(NAMED) {
        let key = short_key(&row.key);
        let name = match web_address(&row.url) {
            Some(url) => format!("[{key}]({})", url.replace('(', "%28").replace(')', "%29")),
            None => key,
        };
        let text = format!(
            "{name} {}: {}",
            card_text(&clip(&row.title, 80)),
            card_text(&clip(&row.finding.summary, 200))
        );
        body.push(block(text, "Default"));
    }
    body.extend(rest(report).map(|text| block(text, "Default")));
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
        let text = message(WebhookStyle::Slack, &many)["text"].to_string();
        assert_eq!(text.matches("#42").count(), NAMED);
        assert!(text.contains("… and 22 more"));
    }

    #[test]
    fn an_address_without_tls_is_refused_unless_it_is_our_own_machine() {
        let parsed = |text: &str| parse(&SecretString::from(text)).is_ok();
        assert!(parsed("https://hooks.example/x") && parsed("http://127.0.0.1:9/x"));
        assert!(!parsed("http://hooks.example/x") && !parsed("hooks.example") && !parsed(""));
    }

    #[test]
    fn the_address_is_in_no_message() {
        for error in [WebhookError::Address, WebhookError::Refused(StatusCode::NOT_FOUND)] {
            assert!(!error.to_string().contains("://"));
        }
    }
}
