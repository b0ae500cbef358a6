//! Actions at the end of each kind of element.

use super::Rendering;
use super::link;
use super::sight::{Display, TextSpace};
use super::walk::{Closing, Walk};
use super::writer::Gap;

impl Walk<'_> {
    pub(super) fn close(&mut self, closing: Closing, is_block: bool, display: Option<Display>) {
        match closing {
            Closing::Nothing => {}
            Closing::Gap(gap) => match &mut self.code {
                Some(code) => code.close_line(),
                None => self.writer.gap(gap),
            },
            Closing::Prefix(gap) => {
                self.writer.pop_prefix();
                self.writer.gap(gap);
            }
            Closing::Item => {
                self.writer.pop_prefix();
                self.writer.gap(Gap::Line);
                if let Some(list) = self.lists.last_mut() {
                    list.open_items = list.open_items.saturating_sub(1);
                }
            }
            Closing::List { has_prefix } => self.close_list(has_prefix),
            Closing::Link(target) => self.close_link(target.as_deref()),
            Closing::Code => self.close_code_span(),
            Closing::Struck => self.close_struck(),
            Closing::Raised => self.close_raised(),
            Closing::Quotation => {
                self.quotations -= 1;
                if let Some(start) = self.writer.close_span()
                    && self.quotations == 0
                {
                    self.writer.wrap(start, "\"", "\"");
                }
            }
            Closing::Group => {
                if let Some(start) = self.writer.close_span() {
                    self.writer.wrap(start, "(", ")");
                }
            }
            Closing::Preformatted => self.close_preformatted(),
            Closing::Cell { columns, rows } => {
                let empty = self.tables.last_mut().map_or(0, |table| table.end_cell(columns, rows));
                for _ in 0..empty {
                    self.writer.begin_cell();
                }
            }
            Closing::Row => self.close_row(),
            Closing::Table => self.close_table(),
            Closing::WordMarker => self.in_word_marker = false,
        }
        if is_block {
            self.writer.gap(Gap::Line);
        } else if display == Some(Display::TableCell) && self.code.is_none() {
            self.writer.text(" ", TextSpace::Collapse);
        }
    }

    fn close_list(&mut self, has_prefix: bool) {
        self.lists.pop();
        if has_prefix {
            self.writer.pop_prefix();
        }
        if self.lists.is_empty() {
            self.writer.gap(Gap::Line);
        } else {
            self.writer.close_line();
        }
    }

    fn close_link(&mut self, target: Option<&str>) {
        self.in_link = false;
        let (Some(start), Some(target)) = (self.writer.close_span(), target) else { return };
        let text = self.writer.since(start);
        let target =
            if self.writer.in_cell() { target.replace('|', "%7C") } else { target.to_owned() };
        let is_picture = text.starts_with("[image") && text.find(']') == text.len().checked_sub(1);
        if text.contains('\n') {
            self.writer.append(&format!(" ({target})"));
        } else if is_picture {
            self.writer.append(&format!("({target})"));
        } else if !link::says_target(text, &target) {
            self.writer.wrap(start, "[", &format!("]({target})"));
        }
    }

    fn close_code_span(&mut self) {
        self.code_spans -= 1;
        let Some(start) = self.writer.close_span() else { return };
        let text = self.writer.since(start);
        let is_plain = self.rendering == Rendering::Tight;
        if is_plain || self.code_spans > 0 || text.contains('\n') {
            return;
        }
        let is_adjacent = self.writer.before(start) == Some('`');
        if is_adjacent && !text.contains('`') && !self.writer.begins_span(start) {
            // Two adjacent spans are merged, or their backticks would read as an empty span.
            let text = text.to_owned();
            self.writer.replace(start - 1, &text);
            self.writer.append("`");
            return;
        }
        let ticks = if text.contains("``") {
            "```"
        } else if text.contains('`') {
            "``"
        } else {
            "`"
        };
        let (open, close) = if text.starts_with('`') || text.ends_with('`') {
            (format!("{ticks} "), format!(" {ticks}"))
        } else {
            (ticks.to_owned(), ticks.to_owned())
        };
        self.writer.wrap(start, &open, &close);
    }

    fn close_struck(&mut self) {
        self.struck_spans -= 1;
        let Some(start) = self.writer.close_span() else { return };
        if self.struck_spans == 0 && !self.writer.since(start).contains('\n') {
            self.writer.wrap(start, "~~", "~~");
        }
    }

    /// Ten squared must not become a hundred and two.
    fn close_raised(&mut self) {
        let Some(start) = self.writer.close_span() else { return };
        let text = self.writer.since(start);
        let is_number = text.len() <= 6
            && text.bytes().any(|b| b.is_ascii_digit())
            && text.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'+');
        if is_number && self.writer.before(start).is_some_and(char::is_alphanumeric) {
            self.writer.wrap(start, "<sup>", "</sup>");
        }
    }

    fn close_preformatted(&mut self) {
        match &mut self.code {
            Some(code) if code.depth > 0 => {
                code.depth -= 1;
                code.close_line();
            }
            _ => {
                if let Some(code) = self.code.take() {
                    code.write(&mut self.writer, self.rendering);
                }
            }
        }
    }

    fn close_row(&mut self) {
        if !self.writer.end_row() {
            return;
        }
        let separator = self.tables.last_mut().and_then(super::table::Table::end_row);
        if let (Some(separator), Rendering::Full) = (separator, self.rendering) {
            self.writer.verbatim_line(&separator);
        }
    }

    fn close_table(&mut self) {
        let left_out = self.tables.pop().map_or(0, |table| table.rows_left_out);
        if left_out > 0 {
            self.writer.verbatim_line(&format!("… {left_out} rows"));
        }
        self.writer.gap(Gap::Line);
    }
}
