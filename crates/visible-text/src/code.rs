//! Code blocks, kept unchanged.

use super::Rendering;
use super::sight::TextSpace;
use super::writer::{Gap, Writer};

/// Lines of code in the tight rendering: from the start and from the end.
const TIGHT_LINES: (usize, usize) = (6, 2);
/// Longest line of code in the tight rendering.
const TIGHT_LINE: usize = 160;

/// A code block under construction.
#[derive(Debug, Default)]
pub(super) struct Code {
    text: String,
    language: Option<String>,
    /// Number of blocks open inside this one.
    pub(super) depth: usize,
}

impl Code {
    /// Adds text unchanged.
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Starts a new line unless one has just begun.
    pub(super) fn close_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Takes the language from a class such as `language-rust`, if it is not known yet.
    pub(super) fn note_class(&mut self, class: &str) {
        if self.language.is_some() || !self.text.trim().is_empty() {
            return;
        }
        self.language = class
            .split_ascii_whitespace()
            .find_map(|name| name.strip_prefix("language-").or_else(|| name.strip_prefix("lang-")))
            .filter(|name| is_language(name))
            .map(str::to_owned);
    }

    /// Writes the block between fences, or into the line of a table cell.
    pub(super) fn write(self, writer: &mut Writer, rendering: Rendering) {
        let text = self.text.replace('\u{a0}', " ").replace('\r', "");
        let mut lines: Vec<&str> = text.split('\n').map(str::trim_end).collect();
        let first = lines.iter().position(|line| !line.is_empty());
        let last = lines.iter().rposition(|line| !line.is_empty());
        let (Some(first), Some(last)) = (first, last) else { return };
        lines.truncate(last + 1);
        lines.drain(..first);
        if writer.in_cell() {
            for line in lines {
                writer.gap(Gap::Line);
                writer.text(line, TextSpace::Keep);
            }
            return;
        }
        if rendering == Rendering::Tight {
            write_tight(writer, &lines);
            return;
        }
        let fence = "`".repeat(longest_run_of_ticks(&text).max(2) + 1);
        writer.verbatim_line(&format!("{fence}{}", self.language.as_deref().unwrap_or("")));
        lines.iter().for_each(|line| writer.verbatim_line(line));
        writer.verbatim_line(&fence);
    }
}

/// Whether this is a known language: the name is not displayed, so arbitrary text is rejected.
fn is_language(name: &str) -> bool {
    const NAMES: &str = " bash batch bicep c c# c++ cmake cpp cs csharp css csv cxx diff docker dockerfile \
        fs fsharp go gradle graphql groovy h haskell hcl hlsl hpp html http ini java javascript js json jsonc \
        jsx julia kotlin kql kusto latex less log lua make makefile markdown matlab md mermaid mssql mysql \
        nginx objc objectivec pascal perl pgsql php plain plaintext plsql powershell proto protobuf ps1 pwsh py \
        python r rb regex ruby rust rs scala scss sh shell sql svg swift tcl terraform tex text toml ts tsql tsx txt \
        typescript vb vbnet vue wasm xaml xml yaml yml zig zsh ";
    let lower = format!(" {} ", name.to_ascii_lowercase());
    name.len() <= 16 && NAMES.contains(&lower)
}

/// Writes the first and the last lines, without fences.
fn write_tight(writer: &mut Writer, lines: &[&str]) {
    let (head, tail) = TIGHT_LINES;
    let mut write = |line: &str| {
        let end = super::parse::floor_char_boundary(line, TIGHT_LINE);
        if end < line.len() {
            writer.verbatim_line(&format!("{}…", &line[..end]));
        } else {
            writer.verbatim_line(line);
        }
    };
    let words = || lines.iter().filter(|line| !line.is_empty());
    if words().count() <= head + tail + 1 {
        words().for_each(|line| write(line));
        return;
    }
    let left_out = words().count() - head - tail;
    words().take(head).for_each(|line| write(line));
    write(&format!("… {left_out} lines"));
    words().skip(head + left_out).for_each(|line| write(line));
}

fn longest_run_of_ticks(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}
