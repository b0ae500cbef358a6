//! How long a text may be.
//!
//! Tokens are estimated as a quarter of the bytes: no tokenizer of the model is at hand, and the
//! true figures come with every result.

const BYTES_PER_TOKEN: usize = 4;

/// Estimated tokens of a text, rounded up.
pub fn estimate_tokens(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

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
