//! One-line values, dates and addresses from foreign text (pure).

use jiff::Timestamp;

/// An instant as trackers write it: zero to nine fractional digits, an offset with or without a
/// colon; UTC if it has no zone.
pub(super) fn instant(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let plain = || text.parse().ok().or_else(|| format!("{text}Z").parse().ok());
    let (date, offset) = text.split_at_checked(text.len().checked_sub(5)?)?;
    let is_offset =
        offset.starts_with(['+', '-']) && offset[1..].bytes().all(|b| b.is_ascii_digit());
    match is_offset {
        true => format!("{date}{}:{}", &offset[..3], &offset[3..]).parse().ok(),
        false => plain(),
    }
}

/// Removes control characters, which would garble a terminal and hide text.
pub(super) fn without_controls(text: String) -> String {
    if !text.chars().any(char::is_control) {
        return text;
    }
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// A path segment, percent-encoded.
pub(super) fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_any_precision_and_an_offset_in_any_form() {
        let shown = |text: &str| instant(text).map(|at| at.to_string());
        for digits in 1..=7 {
            let fraction: String = "1234567".chars().take(digits).collect();
            let text = format!("2026-03-31T18:36:26.{fraction}Z");
            assert_eq!(shown(&text).unwrap(), text);
        }
        for (text, expected) in [
            ("2026-03-31T18:36:26Z", "2026-03-31T18:36:26Z"),
            ("2026-03-31T18:36:26.2", "2026-03-31T18:36:26.2Z"),
            ("9999-01-01T00:00:00Z", "9999-01-01T00:00:00Z"),
            ("2018-05-24T23:35:30.742+0200", "2018-05-24T21:35:30.742Z"),
            ("2018-05-24T23:35:30.742-0330", "2018-05-25T03:05:30.742Z"),
            ("2026-11-16T12:00:00.000+00:00", "2026-11-16T12:00:00Z"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
        let (early, late) = ("2026-03-31T18:36:26.2Z", "2026-03-31T18:36:26.23Z");
        assert!(early > late && instant(early) < instant(late), "not as strings");
        for wrong in ["", "31/03/2026", "2 days ago", "+0200", "16/Nov/26", "é+0200"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }
}
