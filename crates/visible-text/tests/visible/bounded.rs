//! Arbitrary foreign texts. The fuzzers compile this file too; here its properties are checked on
//! their seeds.

use visible_text::{
    Cleaned, Format, Options, Rendering, UnclearTextPolicy, clean_both, clean_text,
};

/// How much a text may grow: marks replace what was removed.
const MARKS: usize = 8 << 10;

/// Minimum length of a trimmed text: the mark that says how much is missing.
const MIN_LEN: usize = 120;

/// The result for any text is bounded, visible, and deterministic.
pub fn any_text_stays_bounded(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let max_bytes = input.first().map_or(0, |byte| usize::from(*byte) * 16);
    for format in [
        Format::Html,
        Format::Markdown,
        Format::RawMarkdown,
        Format::Plain,
        Format::TestSteps,
        Format::Adf,
        Format::Wiki,
    ] {
        let (full, tight) = clean_both(&text, format, UnclearTextPolicy::default());
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
            check(&trimmed, max_bytes.max(MIN_LEN));
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

/// Bytes of the smaller of two texts whose work is compared.
const GROWN: usize = 192 << 10;

/// Allowance for the smallest text: tables and buffers that are made once.
const START: u64 = 1 << 20;

/// Steps allowed for the smallest text: those for parsing and matching.
const FREE_STEPS: u64 = 3_000_000;

/// Twice as much of anything takes about twice the steps, and about twice the work according to
/// `measure`. The input is a prefix, the repeated part, and a suffix.
pub fn work_grows_with_the_text(input: &[u8], measure: &dyn Fn(&mut dyn FnMut()) -> u64) {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.splitn(3, '\u{1}');
    let (first, second, third) = (parts.next(), parts.next(), parts.next());
    let (before, unit, after) = match (first, second) {
        (Some(before), Some(unit)) => (before, unit, third.unwrap_or("")),
        _ => ("", &*text, ""),
    };
    if unit.is_empty() || text.len() > 4 << 10 {
        return;
    }
    let grown = |bytes: usize| format!("{before}{}{after}", unit.repeat(bytes / unit.len() + 1));
    for format in [Format::Html, Format::Markdown, Format::Wiki] {
        let [one, two] = [GROWN, 2 * GROWN].map(|bytes| {
            let text = grown(bytes);
            let mut steps = 0;
            let measured = measure(&mut || {
                steps = clean_both(&text, format, UnclearTextPolicy::default()).0.steps;
            });
            (steps, measured)
        });
        let most = |small: u64, start: u64| small * 23 / 10 + start;
        assert!(two.0 <= most(one.0, FREE_STEPS), "{format:?}: {} steps become {}", one.0, two.0);
        assert!(two.1 <= most(one.1, START), "{format:?}: {} measured become {}", one.1, two.1);
    }
}

#[cfg(test)]
mod on_seeds {
    use std::path::Path;

    use super::{any_text_stays_bounded, work_grows_with_the_text};

    fn seeds(folder: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(folder);
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let seeds: Vec<Vec<u8>> =
            files.filter_map(|file| std::fs::read(file.path()).ok()).collect();
        assert!(seeds.len() > 50, "{} seeds", seeds.len());
        seeds
    }

    /// A seed, and its halves swapped with one of them repeated.
    fn variants(seed: &[u8]) -> [Vec<u8>; 2] {
        let (first, second) = seed.split_at(seed.len() / 2);
        [seed.to_vec(), [second, b"\xff\x03", first].concat()]
    }

    #[test]
    fn texts_stay_bounded() {
        for input in seeds("html").iter().flat_map(|seed| variants(seed)) {
            any_text_stays_bounded(&input);
        }
    }

    #[test]
    fn work_grows_with_recorded_texts() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/growth");
        let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
        assert!(files.len() >= 20, "{} recorded inputs", files.len());
        for file in files {
            let input = std::fs::read(file.path()).unwrap();
            work_grows_with_the_text(&input, &|work| {
                work();
                0
            });
        }
    }
}
