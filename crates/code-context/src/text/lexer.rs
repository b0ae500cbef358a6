//! Splits a text into words, line by line, each with its field: code, comment or string.

use crate::text::document::Field;
use crate::text::language::Language;
use crate::text::term;

/// State at the start of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LexerState {
    Code,
    Comment(&'static [u8]),
    LongText(&'static [u8], Field),
}

/// Reads a file of one language.
pub(crate) struct Lexer {
    state: LexerState,
    language: Language,
    /// The field of words outside of comments and strings.
    code: Field,
    /// Bytes at which a comment or a string may begin.
    begins: [bool; 256],
}

impl Lexer {
    pub(crate) fn new(language: Language) -> Self {
        let mut begins = [false; 256];
        let block = language.block_comment().map_or(&b""[..], |(open, _)| open);
        for mark in [language.line_comment(), block] {
            if let Some(first) = mark.first() {
                begins[usize::from(*first)] = true;
            }
        }
        for quote in language.quotes() {
            begins[usize::from(*quote)] = true;
        }
        let code = if language.is_code() { Field::Identifier } else { Field::Text };
        Self { state: LexerState::Code, language, code, begins }
    }

    /// Whether the next line starts in code.
    pub(crate) fn is_in_code(&self) -> bool {
        self.state == LexerState::Code
    }

    /// Calls back for every word of a line with its field and position.
    pub(crate) fn read(&mut self, line: &[u8], each: &mut impl FnMut(Field, usize, &[u8])) {
        let mut position = 0;
        while position < line.len() {
            let (field, end_mark) = match self.state {
                LexerState::Code => {
                    position = self.read_code(line, position, each);
                    continue;
                }
                LexerState::Comment(end) => (Field::Comment, end),
                LexerState::LongText(end, field) => (field, end),
            };
            let rest = &line[position..];
            let inside = find(rest, end_mark).unwrap_or(rest.len());
            give_words(&rest[..inside], position, field, each);
            if inside == rest.len() {
                break;
            }
            position += inside + end_mark.len();
            self.state = LexerState::Code;
        }
    }

    /// Reads words up to the end of the line or past the next start of a comment or a string;
    /// returns that position.
    fn read_code(
        &mut self,
        line: &[u8],
        mut position: usize,
        each: &mut impl FnMut(Field, usize, &[u8]),
    ) -> usize {
        while let Some(&byte) = line.get(position) {
            if term::is_word_byte(byte) {
                let rest = &line[position..];
                let length = rest.iter().take_while(|byte| term::is_word_byte(**byte)).count();
                each(self.code, position, &rest[..length]);
                position += length;
            } else if self.begins[usize::from(byte)] {
                return self.begin(line, position, each);
            } else {
                position += 1;
            }
        }
        position
    }

    /// One step where a comment or a string may begin.
    fn begin(
        &mut self,
        line: &[u8],
        position: usize,
        each: &mut impl FnMut(Field, usize, &[u8]),
    ) -> usize {
        let rest = &line[position..];
        let mark = self.language.line_comment();
        if !mark.is_empty() && rest.starts_with(mark) {
            give_words(rest, position, Field::Comment, each);
            return line.len();
        }
        if let Some((open, close)) = self.language.block_comment()
            && rest.starts_with(open)
        {
            self.state = LexerState::Comment(close);
            return position + open.len();
        }
        if self.language == Language::Python {
            for mark in [&b"\"\"\""[..], b"'''"] {
                if rest.starts_with(mark) {
                    self.state = LexerState::LongText(mark, Field::Comment);
                    return position + 3;
                }
            }
        }
        let quote = rest[0];
        if !self.language.quotes().contains(&quote) {
            return position + 1;
        }
        let Some(length) = closing(&rest[1..], quote) else {
            if quote == b'`' {
                self.state = LexerState::LongText(b"`", Field::Text);
            }
            return position + 1;
        };
        give_words(&rest[1..=length], position + 1, Field::Text, each);
        position + length + 2
    }
}

fn give_words(
    text: &[u8],
    offset: usize,
    field: Field,
    each: &mut impl FnMut(Field, usize, &[u8]),
) {
    for (at, word) in term::identifiers(text) {
        each(field, offset + at, word);
    }
}

/// The end of a string that has just opened, if it is on this line.
fn closing(text: &[u8], quote: u8) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let end = *byte == quote && !escaped;
        escaped = *byte == b'\\' && !escaped;
        end
    })
}

fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    let first = mark.first()?;
    (0..text.len()).find(|at| text[*at] == *first && text[*at..].starts_with(mark))
}
