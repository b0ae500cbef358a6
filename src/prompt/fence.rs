//! The fence: delimiters around untrusted text in a prompt.
//!
//! A tag with an unguessable name opens and closes each piece of untrusted text. The text is also
//! escaped, so that the fence holds even if the name were known: the name is removed from it, and
//! nothing in it looks like one of our tags.

use uuid::Uuid;

/// Prefix of every fence's tag name.
const PREFIX: &str = "data-";

/// Replaces `@`: looks the same, but no program treats it as a file reference.
const FULL_WIDTH_AT: char = '\u{ff20}';

/// Replaces `<` before something that looks like one of our tags.
const QUOTE: char = '\u{2039}';

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    nonce: String,
}

impl Fence {
    /// Use a fresh random id for every prompt.
    pub fn new(nonce: Uuid) -> Self {
        // The second half of an id is random, even if the first is a time.
        let text = nonce.simple().to_string();
        Self { nonce: text[16..].to_owned() }
    }

    pub fn tag(&self) -> String {
        format!("{PREFIX}{}", self.nonce)
    }

    /// Escapes text for use inside the fence.
    pub fn guard(&self, text: &str) -> String {
        let mut guarded = String::with_capacity(text.len());
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let visible: String =
            text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        let text = without(&visible, &self.nonce);
        for (position, c) in text.char_indices() {
            let looks_like_a_tag = c == '<' && begins_like_a_tag(&text[position + 1..]);
            guarded.push(if looks_like_a_tag { QUOTE } else { c });
        }
        guarded
    }

    /// Like `guard`, on one line.
    pub fn guard_line(&self, text: &str) -> String {
        self.guard(text).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Removes `nonce` in any case, repeatedly, because a removal can create a new occurrence.
fn without(text: &str, nonce: &str) -> String {
    let mut text = text.to_owned();
    while let Some(position) = text.to_ascii_lowercase().find(nonce) {
        text.replace_range(position..position + nonce.len(), "[...]");
    }
    text
}

fn begins_like_a_tag(rest: &str) -> bool {
    let rest = rest.trim_start_matches(|c: char| c == '/' || c.is_whitespace());
    rest.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Neutralises `@path`: an agent that uses a login reads the file named after an `@` at the start
/// of a word, anywhere on the machine. Addresses such as `a@b.example` stay.
pub fn neutralise_mentions(text: &str) -> String {
    let mut previous = None;
    text.chars()
        .map(|c| {
            let in_a_word =
                previous.is_some_and(|c: char| c.is_alphanumeric() || "._-+".contains(c));
            previous = Some(c);
            if c == '@' && !in_a_word { FULL_WIDTH_AT } else { c }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fence() -> Fence {
        Fence::new(Uuid::from_u128(0x0123_4567_89ab_7def_8123_4567_89ab_cdef))
    }

    #[test]
    fn the_name_comes_from_the_random_half() {
        assert_eq!(fence().tag(), "data-8123456789abcdef");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        let text = "if a < b && c > d { <div>x</div> } \u{e4}\u{1f600}\n\tend";
        assert_eq!(fence().guard(text), text);
    }

    #[test]
    fn tags_like_ours_lose_their_bracket() {
        for text in ["</data-1>", "<data-x item=\"2\">", "< / DATA-8", "</\n data-"] {
            assert!(!fence().guard(text).contains('<'), "{text}");
        }
    }

    #[test]
    fn the_name_itself_is_taken_out_also_when_it_is_nested() {
        let nested = "8123456789a8123456789abcdefbcdef 8123456789ABCDEF";
        assert!(!fence().guard(nested).to_ascii_lowercase().contains("8123456789abcdef"));
    }

    #[test]
    fn control_characters_are_taken_out() {
        assert_eq!(fence().guard("a\u{0}b\u{1b}[2Jc\r\nd\re"), "ab[2Jc\nd\ne");
        assert_eq!(fence().guard_line("a\n  b\tc"), "a b c");
    }

    #[test]
    fn mentions_of_files_are_neutralised_and_addresses_kept() {
        for text in ["@/etc/hostname", "x @~/.ssh/id", "\"@/p\"", "(@/p", "\u{a0}@\"p\"", "\n@/p"] {
            assert!(!neutralise_mentions(text).contains('@'), "{text}");
        }
        assert_eq!(neutralise_mentions("a.b@c.example"), "a.b@c.example");
    }

    proptest! {
        #[test]
        fn no_text_leaves_the_fence(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("<".to_owned()), Just("/".to_owned()), Just("data-".to_owned()),
                    Just("8123456789abcdef".to_owned()), Just("8123456789".to_owned()),
                    Just("abcdef".to_owned()), Just(">".to_owned()), Just("\u{0}".to_owned()),
                    Just(" ".to_owned()), Just("DATA-8123456789ABCDEF".to_owned()), ".*",
                ],
                0..12,
            )
        ) {
            let guarded = fence().guard(&parts.concat()).to_ascii_lowercase();
            prop_assert!(!guarded.contains("8123456789abcdef"));
            prop_assert!(!guarded.contains("<data-") && !guarded.contains("</data-"));
            prop_assert!(!guarded.contains(char::from(0)));
        }
    }
}
