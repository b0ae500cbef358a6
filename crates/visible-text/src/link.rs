//! Link targets and image names that are worth their tokens.

use crate::Alarms;
use std::borrow::Cow;

use super::characters;

/// Longest target kept; longer ones are cut at the query string.
const MAX_TARGET: usize = 2_000;
/// Longest image description kept.
const MAX_DESCRIPTION: usize = 200;

/// The target for the text; `None` for anchors on the page and for scripts.
pub(super) fn target(href: &str) -> Option<String> {
    let mut unseen = Alarms::default();
    let mut cleaned = characters::visible(href, &mut unseen);
    if cleaned.contains(['\t', '\n', '\r']) {
        cleaned.to_mut().retain(|character| !matches!(character, '\t' | '\n' | '\r'));
    }
    let wrapped = without_safe_link(cleaned.trim());
    let href = wrapped.trim();
    let scheme = href.split(['/', '?', '#']).next().unwrap_or("").split_once(':');
    let is_code = scheme.is_some_and(|(scheme, _)| {
        ["javascript", "data", "vbscript", "blob", "about"]
            .iter()
            .any(|bad| scheme.trim().eq_ignore_ascii_case(bad))
    });
    if href.is_empty() || href.starts_with('#') || is_code {
        return None;
    }
    let short = without_tracking(href);
    let short = if short.len() > MAX_TARGET { short.split(['?', '#']).next()? } else { &short };
    (short.len() <= MAX_TARGET).then(|| escape(short))
}

/// The address wrapped by Outlook's SafeLinks service.
fn without_safe_link(href: &str) -> Cow<'_, str> {
    let host = href.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    if !host.to_ascii_lowercase().ends_with(".safelinks.protection.outlook.com") {
        return Cow::Borrowed(href);
    }
    let query = href.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split('&').map(|part| part.strip_prefix("amp;").unwrap_or(part));
    match parameters.into_iter().find_map(|part| part.strip_prefix("url=")) {
        Some(url) => Cow::Owned(percent_decode(&url.replace('+', "%2B"))),
        None => Cow::Borrowed(href),
    }
}

/// Escapes a target so that it does not end the surrounding Markdown.
fn escape(href: &str) -> String {
    let mut depth = 0_i32;
    let balanced = href.chars().all(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth >= 0
    }) && depth == 0;
    let mut escaped = String::with_capacity(href.len());
    for character in href.chars() {
        match character {
            character if character.is_whitespace() => escaped.push_str("%20"),
            '(' if !balanced => escaped.push_str("%28"),
            ')' if !balanced => escaped.push_str("%29"),
            '<' => escaped.push_str("%3C"),
            '>' => escaped.push_str("%3E"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The address without tracking parameters.
fn without_tracking(href: &str) -> Cow<'_, str> {
    let Some((path, rest)) = href.split_once('?') else { return Cow::Borrowed(href) };
    let (query, fragment) = match rest.split_once('#') {
        Some((query, fragment)) => (query, Some(fragment)),
        None => (rest, None),
    };
    if !query.split('&').any(is_tracking) {
        return Cow::Borrowed(href);
    }
    let kept: Vec<&str> = query.split('&').filter(|parameter| !is_tracking(parameter)).collect();
    let mut short = path.to_owned();
    if !kept.is_empty() {
        short.push('?');
        short.push_str(&kept.join("&"));
    }
    if let Some(fragment) = fragment {
        short.push('#');
        short.push_str(fragment);
    }
    Cow::Owned(short)
}

fn is_tracking(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or("").to_ascii_lowercase();
    name.starts_with("utm_")
        || matches!(
            name.as_str(),
            "wt.mc_id"
                | "ocid"
                | "gclid"
                | "fbclid"
                | "msclkid"
                | "mkt_tok"
                | "mc_cid"
                | "mc_eid"
                | "_hsenc"
                | "_hsmi"
                | "igshid"
        )
}

/// Whether the text of a link already states its target.
pub(super) fn says_target(text: &str, target: &str) -> bool {
    fn bare(address: &str) -> &str {
        let address = address.trim().trim_end_matches('/');
        let address = ["https://", "http://", "mailto:", "tel:"]
            .iter()
            .find_map(|scheme| address.strip_prefix(scheme))
            .unwrap_or(address);
        address.trim_start_matches("www.")
    }
    // Of two mail addresses the displayed one is intended.
    bare(text).eq_ignore_ascii_case(bare(target))
        || (target.starts_with("mailto:") && text.contains('@'))
}

/// The name of an image: its description if it is meaningful, else its file name.
pub(super) fn picture_name(description: &str, source: &str) -> Option<String> {
    let mut unseen = Alarms::default();
    let visible = characters::visible(description, &mut unseen);
    let words: Vec<&str> = visible.split_whitespace().collect();
    let description = words.join(" ");
    let says_nothing = ["", "image", "img", "picture", "photo", "screenshot"]
        .iter()
        .any(|word| description.eq_ignore_ascii_case(word));
    let name = if says_nothing { file_name(source)? } else { description };
    let end = super::parse::floor_char_boundary(&name, MAX_DESCRIPTION);
    Some(name[..end].to_owned())
}

/// The file name in an address, if it has one.
fn file_name(source: &str) -> Option<String> {
    let mut unseen = Alarms::default();
    let visible = characters::visible(source.trim(), &mut unseen);
    let source = visible.as_ref();
    let start: String = source.chars().take(5).collect();
    if start.eq_ignore_ascii_case("data:") || start.eq_ignore_ascii_case("blob:") {
        return None;
    }
    let (path, query) = source.split_once('?').unwrap_or((source, ""));
    let from_query = query.split(['&', ';']).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("filename").then_some(value)
    });
    let path = path.split('#').next().unwrap_or(path);
    let last = path.trim_start_matches("cid:").rsplit(['/', '\\']).next().unwrap_or("");
    let last = last.split('@').next().unwrap_or(last);
    let name = percent_decode(from_query.unwrap_or(last));
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_extension = name
        .rsplit_once('.')
        .is_some_and(|(stem, extension)| !stem.is_empty() && (1..=5).contains(&extension.len()));
    (has_extension && name.len() <= 120).then_some(name)
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let two = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        match two.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(if bytes[at] == b'+' { b' ' } else { bytes[at] });
                at += 1;
            }
        }
    }
    let mut unseen = Alarms::default();
    characters::visible(&String::from_utf8_lossy(&decoded), &mut unseen).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_keep_what_leads_somewhere() {
        assert_eq!(
            target("https://e.com/a_b?x=1&y=2").as_deref(),
            Some("https://e.com/a_b?x=1&y=2")
        );
        assert_eq!(target(" /page ").as_deref(), Some("/page"));
        assert_eq!(target("https://e.com/a b").as_deref(), Some("https://e.com/a%20b"));
        assert_eq!(target("https://e.com/a)b").as_deref(), Some("https://e.com/a%29b"));
        assert_eq!(target("https://e.com/(a)").as_deref(), Some("https://e.com/(a)"));
        for nothing in ["", "#", "#top", "javascript:x", "JAVA\nscript:x", " data:text/html,x"] {
            assert_eq!(target(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn tracking_is_dropped() {
        let clean = |href| target(href).unwrap();
        assert_eq!(clean("https://e.com/?utm_source=x&a=1&fbclid=2#f"), "https://e.com/?a=1#f");
        assert_eq!(clean("https://e.com/p?WT.mc_id=x"), "https://e.com/p");
        assert_eq!(clean("https://e.com/p?a=utm_x"), "https://e.com/p?a=utm_x");
    }

    #[test]
    fn safe_links_are_unwrapped_and_judged() {
        let safe = |url: &str| {
            target(&format!(
                "https://nam02.safelinks.protection.outlook.com/?url={url}&data=05%7C01&reserved=0"
            ))
        };
        assert_eq!(
            safe("https%3A%2F%2Fe.com%2Fa%3Fb%3D1%2B2").as_deref(),
            Some("https://e.com/a?b=1+2")
        );
        assert_eq!(safe("javascript%3Aalert(1)"), None);
        let other = "https://safelinks.protection.outlook.com.evil.example/?url=x";
        assert_eq!(target(other).as_deref(), Some(other));
    }

    #[test]
    fn a_text_that_is_the_address_says_the_target() {
        assert!(says_target("https://Example.org/", "https://example.org"));
        assert!(says_target("example.org", "http://www.example.org/"));
        assert!(says_target("ops@e.com", "mailto:ops@e.com?subject=x"));
        assert!(!says_target("docs", "https://example.org"));
    }

    #[test]
    fn pictures_have_a_name_or_none() {
        let name = |alt, src| picture_name(alt, src);
        assert_eq!(name("login error", "x.png").as_deref(), Some("login error"));
        let attachment = "https://e.com/_apis/wit/attachments/1f3b?fileName=my%20err.png";
        assert_eq!(name("Image", attachment).as_deref(), Some("my err.png"));
        assert_eq!(name("", "cid:image001.png@01D").as_deref(), Some("image001.png"));
        assert_eq!(name("", "file:///C:\\a\\b.jpg").as_deref(), Some("b.jpg"));
        assert_eq!(name("", "data:image/png;base64,AAAA"), None);
        assert_eq!(name("", "https://e.com/picture"), None);
    }
}
