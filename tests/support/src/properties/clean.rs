//! Texts of strangers, whatever they are.

use heartbeat::clean::{Cleaned, Options, Rendering, clean_both, clean_text};
use heartbeat::model::{Doubtful, Format};

/// What a text may grow by: marks stand in for what was left out.
const MARKS: usize = 8 << 10;

/// What a trimmed text has at least: the mark that says how much is missing.
const SHORTEST: usize = 120;

/// However a text is built, what comes out is bounded, visible, and the same each time.
pub fn any_text_stays_bounded(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let max_bytes = input.first().map_or(0, |byte| usize::from(*byte) * 16);
    for format in [Format::Html, Format::Markdown, Format::Plain, Format::TestSteps] {
        let (full, tight) = clean_both(&text, format, Doubtful::LeaveOut);
        for cleaned in [&full, &tight] {
            check(cleaned, 2 * text.len() + MARKS);
        }
        for (rendering, expected) in [(Rendering::Full, &full), (Rendering::Tight, &tight)] {
            let whole = clean_text(
                &text,
                format,
                &Options { rendering, max_bytes: None, ..Options::default() },
            );
            assert_eq!(whole.text, expected.text, "both at once are the same as one by one");
            let trimmed = clean_text(
                &text,
                format,
                &Options { rendering, max_bytes: Some(max_bytes), ..Options::default() },
            );
            check(&trimmed, max_bytes.max(SHORTEST));
        }
    }
}

fn check(cleaned: &Cleaned, most: usize) {
    assert!(cleaned.text.len() <= most, "{} bytes of {most}", cleaned.text.len());
    let unseen = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    assert!(!cleaned.text.contains(unseen), "something that nobody sees: {:?}", cleaned.text);
}
