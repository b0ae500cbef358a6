//! Texts in Jira's wiki markup, used by Data Center. Converted line by line to HTML, which is then
//! cleaned like any other.

use super::adf::{background, escaped};
use super::markdown::Document;
use super::parse::floor_char_boundary;
use super::wiki_inline::Inline;

/// Maximum bytes read; the tracker's longest text has 32,767 characters by default.
const MAX_INPUT: usize = 1 << 20;
/// Maximum bytes of HTML per text, except for its last line.
const MAX_HTML: usize = 8 << 20;
/// Maximum depth of nested lists.
const MAX_LISTS: usize = 20;

pub(super) fn read(raw: &str) -> Document {
    let end = floor_char_boundary(raw, MAX_INPUT);
    let text = raw[..end].replace("\r\n", "\n").replace('\r', "\n");
    let (mut page, mut left_out) = (Page::default(), 0);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let mut row = line.to_owned();
        // A table row continues until a line ends it.
        while page.verbatim.is_none()
            && is_unfinished_row(&row)
            && let Some(more) = lines.next_if(|next| !next.trim().is_empty())
        {
            row.push_str("\\\\");
            row.push_str(more);
        }
        if page.html.len() < MAX_HTML {
            page.feed(&row);
        } else {
            left_out += row.len();
        }
    }
    page.end_blocks();
    Document::made(&page.html, raw.len(), 0, raw.len() - end + left_out)
}

/// A block whose text is not formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbatim {
    Code,
    NoFormat,
}

impl Verbatim {
    const fn end(self) -> &'static str {
        match self {
            Self::Code => "{code}",
            Self::NoFormat => "{noformat}",
        }
    }
}

/// HTML under construction.
#[derive(Default)]
struct Page {
    html: String,
    verbatim: Option<Verbatim>,
    /// Markers of the open lists.
    lists: Vec<u8>,
    in_table: bool,
    in_paragraph: bool,
    in_quote: bool,
    in_panel: bool,
    inline: Inline,
}

impl Page {
    /// Processes a line, which may begin and end unformatted blocks.
    fn feed(&mut self, line: &str) {
        let mut rest = line;
        loop {
            if let Some(kind) = self.verbatim {
                let Some((last, more)) = rest.split_once(kind.end()) else {
                    self.html.push_str(&escaped(rest));
                    self.html.push('\n');
                    return;
                };
                self.html.push_str(&escaped(last));
                self.html.push_str("</code></pre>");
                self.verbatim = None;
                rest = more;
                if rest.trim().is_empty() {
                    return;
                }
            }
            let Some((before, kind, options, after)) = begins_verbatim(rest) else {
                return self.quoted(rest);
            };
            if !before.trim().is_empty() {
                self.quoted(before);
            }
            self.end_blocks_but_quote();
            let language = language(options);
            let painted = background(option(options, "bgColor=").unwrap_or_default());
            // A colour continues into unformatted text.
            let painted = match self.inline.colour() {
                Some(colour) => format!(" style=\"color:{colour}\""),
                None => painted,
            };
            self.html.push_str(&format!("<pre{painted}><code class=\"language-{language}\">"));
            self.verbatim = Some(kind);
            rest = after;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Processes a line, in which quotations may begin and end.
    fn quoted(&mut self, line: &str) {
        let mut parts = line.split("{quote}");
        let first = parts.next().unwrap_or_default();
        let mut parts = parts.peekable();
        if parts.peek().is_none() || !first.trim().is_empty() {
            self.line(first);
        }
        for part in parts {
            self.end_blocks_but_quote();
            self.html.push_str(if self.in_quote { "</blockquote>" } else { "<blockquote>" });
            self.in_quote = !self.in_quote;
            if !part.trim().is_empty() {
                self.line(part);
            }
        }
    }

    /// Processes a line, in which panels may begin and end.
    fn line(&mut self, line: &str) {
        let mut rest = line.trim();
        while !rest.starts_with('|')
            && let Some((before, options, after)) = panel_in(rest)
        {
            if !before.trim().is_empty() {
                self.set_line(before);
            }
            self.panel(options);
            rest = after.trim();
            if rest.is_empty() {
                return;
            }
        }
        self.set_line(rest);
    }

    fn set_line(&mut self, line: &str) {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return self.end_blocks_but_quote();
        }
        if trimmed.len() >= 4 && trimmed.bytes().all(|byte| byte == b'-') {
            self.end_blocks_but_quote();
            self.html.push_str("<hr>");
        } else if let Some((level, words)) = heading(trimmed) {
            self.end_blocks_but_quote();
            self.html.push_str(&format!("<h{level}>"));
            self.words(words);
            self.html.push_str(&format!("</h{level}>"));
        } else if let Some(words) = trimmed.strip_prefix("bq. ") {
            self.end_blocks_but_quote();
            self.html.push_str("<blockquote>");
            self.words(words);
            self.html.push_str("</blockquote>");
        } else if let Some((signs, words)) = list_item(trimmed) {
            self.list_item(signs, words);
        } else if trimmed.starts_with('|') && trimmed.len() > 1 {
            self.row(trimmed);
        } else {
            self.paragraph(trimmed);
        }
    }

    fn words(&mut self, words: &str) {
        self.inline.write(words, &mut self.html);
    }

    fn paragraph(&mut self, words: &str) {
        if !self.lists.is_empty() {
            // A line directly below an item belongs to it.
            self.html.push_str("<br>");
        } else if self.in_paragraph {
            self.html.push_str("<br>");
        } else {
            self.end_blocks_but_quote();
            self.html.push_str("<p>");
            self.in_paragraph = true;
        }
        self.words(words);
    }

    /// Starts a panel with its title and colour, or ends it.
    fn panel(&mut self, options: &str) {
        self.end_blocks_but_quote();
        if std::mem::take(&mut self.in_panel) {
            self.html.push_str("</div>");
            return;
        }
        self.in_panel = true;
        // Text in the colour of its panel is hidden text.
        let painted = background(option(options, "bgColor=").unwrap_or_default());
        self.html.push_str(&format!("<div{painted}>"));
        let title = option(options, "title=");
        if let Some(title) = title {
            self.html.push_str("<p>");
            self.words(title);
            self.html.push_str("</p>");
        }
    }

    fn list_item(&mut self, signs: &str, words: &str) {
        if self.in_table || self.in_paragraph {
            self.end_blocks_but_quote();
        }
        let signs = &signs.as_bytes()[..signs.len().min(MAX_LISTS)];
        let is_same = |(a, b): &(&u8, &u8)| (**a == b'#') == (**b == b'#');
        let common = self.lists.iter().zip(signs).take_while(is_same).count();
        while self.lists.len() > common {
            self.close_list();
        }
        if self.lists.len() == signs.len() && !signs.is_empty() {
            self.html.push_str("</li>");
        }
        for &sign in &signs[common..] {
            self.html.push_str(if sign == b'#' { "<ol>" } else { "<ul>" });
            self.lists.push(sign);
            if self.lists.len() < signs.len() {
                self.html.push_str("<li>");
            }
        }
        self.html.push_str("<li>");
        self.words(words);
    }

    fn close_list(&mut self) {
        if let Some(sign) = self.lists.pop() {
            self.html.push_str(if sign == b'#' { "</li></ol>" } else { "</li></ul>" });
        }
    }

    fn row(&mut self, line: &str) {
        if !self.in_table {
            self.end_blocks_but_quote();
            self.html.push_str("<table>");
            self.in_table = true;
        }
        self.html.push_str("<tr>");
        for (is_header, cell) in cells(line) {
            self.html.push_str(if is_header { "<th>" } else { "<td>" });
            self.words(cell.trim());
            self.html.push_str(if is_header { "</th>" } else { "</td>" });
        }
        self.html.push_str("</tr>");
    }

    fn end_blocks_but_quote(&mut self) {
        while !self.lists.is_empty() {
            self.close_list();
        }
        if std::mem::take(&mut self.in_table) {
            self.html.push_str("</table>");
        }
        if std::mem::take(&mut self.in_paragraph) {
            self.html.push_str("</p>");
        }
    }

    fn end_blocks(&mut self) {
        if self.verbatim.take().is_some() {
            self.html.push_str("</code></pre>");
        }
        self.end_blocks_but_quote();
    }
}

/// Whether a table row continues on the next line.
fn is_unfinished_row(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.len() > 1 && !line.ends_with('|') && line.len() < 32_768
}

/// The value of a macro option.
fn option<'a>(options: &'a str, name: &str) -> Option<&'a str> {
    options.split(['|', ':']).find_map(|part| part.trim().strip_prefix(name))
}

/// The text before the next panel macro, its options, and the text after it.
fn panel_in(line: &str) -> Option<(&str, &str, &str)> {
    const SIGN: &str = "{panel";
    let is_sign = |at: &usize| {
        line[at + SIGN.len()..].starts_with(['}', ':']) && !line[..*at].ends_with('\\')
    };
    let at = line.match_indices(SIGN).map(|(at, _)| at).find(is_sign)?;
    let (options, after) = line[at + SIGN.len()..].split_once('}')?;
    Some((&line[..at], options, after))
}

/// The text before a code block, its kind and options, and the text after its start.
fn begins_verbatim(line: &str) -> Option<(&str, Verbatim, &str, &str)> {
    let mut found = None;
    let mut within = line;
    for kind in [Verbatim::Code, Verbatim::NoFormat] {
        let sign = kind.end().trim_end_matches('}');
        let Some(at) = within.find(sign) else { continue };
        let after = &line[at + sign.len()..];
        if after.starts_with(['}', ':']) {
            found = Some((at, kind, after));
            within = &line[..at];
        }
    }
    let (at, kind, after) = found?;
    let (options, rest) = after.split_once('}')?;
    Some((&line[..at], kind, options, rest))
}

fn language(options: &str) -> String {
    let mut options = options.trim_start_matches(':').split('|');
    let language = options.find(|option| !option.contains('=')).unwrap_or_default();
    language.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}

/// `h2. Words`.
fn heading(line: &str) -> Option<(u8, &str)> {
    let (level, words) = line.strip_prefix('h')?.split_once(". ")?;
    let level = level.parse().ok().filter(|level| (1..=6).contains(level))?;
    Some((level, words))
}

/// `*# Words`: markers and text.
fn list_item(line: &str) -> Option<(&str, &str)> {
    let (signs, words) = line.split_once(' ')?;
    let is_list = !signs.is_empty()
        && (signs.bytes().all(|byte| matches!(byte, b'*' | b'#')) || signs == "-");
    is_list.then_some((signs, words.trim()))
}

/// The cells of a row, each with whether it is a header. Bars inside links and images do not
/// separate cells.
fn cells(line: &str) -> Vec<(bool, &str)> {
    let bytes = line.as_bytes();
    let (mut cells, mut depth, mut at, mut start) = (Vec::new(), 0_usize, 0, 0);
    let mut header = false;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                if start > 0 {
                    cells.push((header, &line[start..at]));
                }
                header = bytes.get(at + 1) == Some(&b'|');
                at += usize::from(header);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if start < line.len() && !line[start..].trim().is_empty() {
        cells.push((header, &line[start..]));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UnclearTextPolicy;
    use crate::{Cleaned, Rendering};

    fn clean(raw: &str) -> Cleaned {
        read(raw).render(Rendering::Full, UnclearTextPolicy::LeaveOut)
    }

    /// Without the empty lines between blocks.
    fn squeezed(text: &str) -> String {
        text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn markup_becomes_markdown() {
        for (raw, text) in [
            ("one\r\ntwo\r\n\r\nthree", "one\ntwo\n\nthree"),
            ("h2. Title\ntext", "## Title\ntext"),
            ("* a\n** b\n*# c\n* d", "- a\n  - b\n  1. c\n- d"),
            ("# one\n# two", "1. one\n2. two"),
            (
                "{code:java|title=A.java}\nint a = 1;\n  {b}\n{code}\nafter",
                "```java\nint a = 1;\n  {b}\n```\nafter",
            ),
            ("see {noformat}*raw*{noformat} there", "see\n```\n*raw*\n```\nthere"),
            ("bq. said\nnot", "> said\n\nnot"),
            ("{quote}\na\nb\n{quote}\nc", "> a\n> b\n\nc"),
            (
                "||a||b||\n|1|[x|https://e.com/y]|",
                "| a | b |\n|---|---|\n| 1 | [x](https://e.com/y) |",
            ),
            ("*bold* and _it_, a*b*c {{mono}} -gone-", "bold and it, a*b*c `mono` ~~gone~~"),
            (
                "[docs|https://e.com/x] [https://e.com] [~ann] [^a.log]",
                "[docs](https://e.com/x) https://e.com @ann [file a.log]",
            ),
            ("!shot.png|thumbnail! wow!", "[image: shot.png] wow!"),
            ("a \\*b\\* \\{c}", "a *b* {c}"),
            ("----\n{panel:title=Note}\nbody\n{panel}", "---\nNote\n\nbody"),
            ("a < b & c", "a < b & c"),
        ] {
            assert_eq!(squeezed(&clean(raw).text), squeezed(text), "{raw}");
        }
    }

    #[test]
    fn coloured_words_are_judged() {
        assert_eq!(clean("{color:red}hot{color} cold").text, "hot cold");
        let hidden = clean("seen {color:white}OBEY\nME{color} end");
        assert!(!hidden.text.contains("OBEY") && hidden.text.contains("end"), "{hidden:?}");
        assert!(hidden.alarms.low_contrast_chars > 0);
    }

    #[test]
    fn hostile_input_is_bounded() {
        for part in [
            "*a ",
            "{code",
            "[a|",
            "|",
            "||",
            "!x",
            "{quote}",
            "{color:red}",
            "{color:red}a\n\n",
            "{panel:bgColor=red}",
            "{{",
            "\\",
            "**",
            "h1. ",
        ] {
            let raw = part.repeat(200_000 / part.len());
            let cleaned = clean(&raw);
            assert!(cleaned.text.len() <= 2 * raw.len() + 8192, "{part}");
            let lines = format!("{part}\n").repeat(50_000 / part.len());
            assert!(clean(&lines).text.len() <= 2 * lines.len() + 8192, "{part} in lines");
        }
    }
}
