//! Invisible characters, and the few of them that belong to visible ones.

use std::borrow::Cow;

use crate::Alarms;

/// Bytes that are looked at together.
pub(super) const STRIDE: usize = 16;
/// So many characters that can spell, one after another, are a message.
const MESSAGE: usize = 4;

/// `text` without invisible characters; they are counted.
///
/// Tabs, line ends and spaces of all widths stay. A joiner stays inside an emoji or between letters
/// of a script that needs it, a variation selector after the one symbol it styles.
pub fn visible<'a>(text: &'a str, alarms: &mut Alarms) -> Cow<'a, str> {
    let Some(first) = first_suspect(text) else { return Cow::Borrowed(text) };
    let mut kept = String::with_capacity(text.len());
    kept.push_str(&text[..first]);
    let mut previous = text[..first].chars().next_back();
    let mut rest = text[first..].chars();
    let mut run = 0;
    while let Some(character) = rest.next() {
        if character == '\u{1F3F4}' {
            // The flags of England, Scotland and Wales are written with tag characters.
            let tags: String = rest.as_str().chars().map_while(tag_letter).take(6).collect();
            if matches!(&*tags, "gbeng\u{7f}" | "gbsct\u{7f}" | "gbwls\u{7f}") {
                rest.nth(tags.len() - 1);
            }
        }
        if is_visible(previous, character, rest.as_str()) {
            kept.push(character);
            previous = Some(character);
            run = 0;
            continue;
        }
        alarms.invisible_chars += usize::from(!is_direction_mark(character));
        run = if can_spell(character) { run + 1 } else { 0 };
        alarms.smuggled_chars += match run {
            0..MESSAGE => 0,
            MESSAGE => MESSAGE,
            _ => 1,
        };
    }
    Cow::Owned(kept)
}

/// Tag characters and variation selectors: each stands for a letter or a byte.
fn can_spell(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e01ef}')
}

/// Byte position of the first character that needs a check.
fn first_suspect(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let needs_look =
        |byte: u8| !(0x20..0x7f).contains(&byte) & !matches!(byte, b'\t' | b'\n' | b'\r');
    // Many at a time, since hardly any does.
    let plain = bytes
        .chunks_exact(STRIDE)
        .take_while(|chunk| !chunk.iter().fold(false, |found, &byte| found | needs_look(byte)))
        .count();
    let rest = &bytes[plain * STRIDE..];
    let ascii_end = plain * STRIDE + rest.iter().position(|&byte| needs_look(byte))?;
    text[ascii_end..]
        .char_indices()
        .find(|&(_, character)| is_suspect(character))
        .map(|(at, _)| ascii_end + at)
}

fn is_suspect(character: char) -> bool {
    // Fast path for nearly all text.
    let is_common = matches!(character,
        ' '..='~' | '\u{ae}'..='\u{2ff}' | '\u{2010}'..='\u{2027}' | '\u{3200}'..='\u{fdff}');
    !is_common && is_rarely_visible(character)
}

fn is_rarely_visible(character: char) -> bool {
    matches!(character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
        | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{1F3F4}' | '\u{e0000}'..='\u{e0fff}')
}

/// Common in right-to-left text: removed, but not counted as an alarm.
fn is_direction_mark(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// The letter that a tag character represents.
fn tag_letter(character: char) -> Option<char> {
    let letter = u32::from(character).checked_sub(0xe_0000)?;
    char::from_u32(letter).filter(|letter| matches!(letter, ' '..='\u{7f}'))
}

fn is_visible(previous: Option<char>, character: char, rest: &str) -> bool {
    match character {
        '\u{1F3F4}' => true,
        '\u{fe0e}' | '\u{fe0f}' => previous.is_some_and(takes_selector),
        '\u{200c}' | '\u{200d}' => {
            let next = rest.chars().next();
            let between =
                |test: fn(char) -> bool| previous.is_some_and(test) && next.is_some_and(test);
            between(needs_joiners) || (character == '\u{200d}' && between(is_pictograph))
        }
        _ => !is_suspect(character),
    }
}

fn is_pictograph(character: char) -> bool {
    matches!(character, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}')
}

fn takes_selector(character: char) -> bool {
    matches!(character, '#' | '*' | '0'..='9' | '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{3299}')
        || (is_pictograph(character) && character != '\u{fe0f}')
}

/// Letters of the scripts whose spelling uses joiners: Arabic to Sinhala, Khmer, Mongolian.
fn needs_joiners(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{dff}' | '\u{1780}'..='\u{18af}')
        && character.is_alphabetic()
        || matches!(
            character,
            '\u{94d}'
                | '\u{9cd}'
                | '\u{a4d}'
                | '\u{acd}'
                | '\u{b4d}'
                | '\u{bcd}'
                | '\u{c4d}'
                | '\u{ccd}'
                | '\u{d4d}'
                | '\u{dca}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> (String, usize) {
        let mut alarms = Alarms::default();
        let kept = visible(text, &mut alarms).into_owned();
        (kept, alarms.invisible_chars)
    }

    #[test]
    fn plain_text_is_borrowed() {
        let mut alarms = Alarms::default();
        for text in ["", "plain\ttext\r\n", "Grüße, 修复 — “quotes”\u{a0}…"] {
            assert!(matches!(visible(text, &mut alarms), Cow::Borrowed(same) if same == text));
        }
        assert_eq!(alarms, Alarms::default());
    }

    #[test]
    fn smuggled_characters_go_and_are_counted() {
        assert_eq!(seen("a\u{200b}b\u{202e}c\u{ad}d\u{0}e"), ("abcde".into(), 4));
        assert_eq!(seen("ok\u{e0049}\u{e0067}"), ("ok".into(), 2));
        assert_eq!(seen("x\u{fe0f}\u{fe01}\u{200d}y"), ("xy".into(), 3));
        assert_eq!(seen("\u{1F600}\u{fe0f}\u{fe0f}\u{fe0f}"), ("\u{1F600}\u{fe0f}".into(), 2));
    }

    #[test]
    fn only_a_run_of_characters_that_can_spell_is_a_message() {
        let smuggled = |text: &str| {
            let mut alarms = Alarms::default();
            visible(text, &mut alarms);
            alarms.smuggled_chars
        };
        assert_eq!(smuggled("a\u{ad}b\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}c\u{fe0f}"), 0);
        assert_eq!(smuggled("ok\u{e0049}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}"), 6);
        assert_eq!(smuggled("x\u{e0101}\u{e0102}\u{e0103}\u{e0104}y\u{e0101}"), 4);
    }

    #[test]
    fn emoji_and_scripts_keep_their_joiners() {
        for text in ["👨‍👩‍👧‍👦", "🖥️ ⚠️ 1️⃣", "می‌خواهم", "क्‍ष"]
        {
            assert_eq!(seen(text), (text.into(), 0), "{text}");
        }
        let flag = "\u{1F3F4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        assert_eq!(seen(flag), ("\u{1F3F4}".into(), 0));
        let words = "\u{1F3F4}\u{e006f}\u{e0062}\u{e0065}\u{e0079}\u{e006d}\u{e0065}";
        assert_eq!(seen(words), ("\u{1F3F4}".into(), 6));
    }
}
