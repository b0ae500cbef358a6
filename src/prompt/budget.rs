//! How long a text may be.

use crate::model::BYTES_PER_TOKEN;

/// The text, or as much of its beginning as fits, and how many bytes were left out.
pub fn cut_to_tokens(text: &str, max_tokens: u32) -> (String, usize) {
    let max_bytes =
        usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    if text.len() <= max_bytes {
        return (text.to_owned(), 0);
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A cut in the middle of a word or a line reads worse than a slightly shorter text.
    if let Some(line_end) = text[..end].rfind('\n').filter(|line_end| *line_end * 10 >= end * 9) {
        end = line_end;
    }
    let kept = text[..end].trim_end();
    (kept.to_owned(), text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::estimate_tokens;

    #[test]
    fn a_short_text_stays_and_of_a_long_one_is_known_what_is_missing() {
        assert_eq!(cut_to_tokens("short", 10), ("short".to_owned(), 0));
        let (kept, cut) = cut_to_tokens(&"word ".repeat(100), 50);
        assert_eq!((kept.len() + cut, kept.ends_with("word")), (500, true));
    }

    proptest! {
        #[test]
        fn never_longer_than_allowed(text in "\\PC{0,400}", max in 12_u32..80) {
            prop_assert!(estimate_tokens(&cut_to_tokens(&text, max).0) <= u64::from(max));
        }

        #[test]
        fn any_limit_is_survived(text in "\\PC{0,60}", max in any::<u32>()) {
            cut_to_tokens(&text, max);
        }
    }
}
