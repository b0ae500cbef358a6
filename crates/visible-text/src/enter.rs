//! Actions at the start of each kind of element.

use super::Rendering;
use super::characters;
use super::code::Code;
use super::control;
use super::element::{Role, attribute};
use super::link;
use super::list::{List, style_of_type};
use super::sight::{Sight, TextSpace};
use super::table::{self, TIGHT_ROWS, Table};
use super::walk::{Closing, Entry, Seen, Walk};
use super::writer::Gap;
use crate::{UnclearTextPolicy, VisibilityIssue, VisibilityIssues};

impl Walk<'_> {
    /// Starts a visible element.
    pub(super) fn enter(&mut self, seen: &Seen<'_>) -> Entry {
        if self.code.is_some() {
            return self.enter_in_code(seen);
        }
        let closing = match seen.role {
            Role::Inline if self.in_pair() && seen.element.name() == "mrow" => self.enter_group(),
            Role::RubyText => self.enter_group(),
            Role::Inline | Role::Font | Role::Lowered | Role::Pair(_) | Role::Drawing => {
                self.enter_inline(seen)
            }
            Role::Block | Role::TableHead | Role::Dialog | Role::Summary => {
                self.enter_block(seen, Gap::Line)
            }
            Role::Paragraph => return Entry::Into(self.enter_paragraph(seen)),
            Role::Heading(level) => self.enter_heading(level),
            Role::BulletList | Role::NumberedList => return Entry::Into(self.enter_list(seen)),
            Role::Item => self.enter_item(seen),
            Role::Definition => {
                self.writer.close_line();
                self.writer.push_prefix("  ", "  ");
                Closing::Prefix(Gap::Line)
            }
            Role::Quote => self.enter_quote(seen),
            Role::Preformatted => self.enter_preformatted(seen),
            Role::Link => self.enter_link(seen),
            Role::Code => {
                self.code_spans += 1;
                self.writer.open_span();
                Closing::Code
            }
            Role::Struck => self.enter_struck(),
            Role::Raised => {
                self.writer.open_span();
                Closing::Raised
            }
            Role::Quotation => {
                self.quotations += 1;
                self.writer.open_span();
                Closing::Quotation
            }
            Role::Table => self.enter_table(seen),
            Role::Row => return self.enter_row(),
            Role::Cell | Role::HeaderCell => self.enter_cell(seen),
            Role::Details => {
                // A closed section is one click away: it is text.
                self.writer.gap(Gap::Line);
                Closing::Gap(Gap::Line)
            }
            Role::Break
            | Role::Rule
            | Role::Image
            | Role::Input
            | Role::TextArea
            | Role::Select
            | Role::Nothing => {
                self.leaf(seen);
                return Entry::Skip;
            }
        };
        Entry::Into(closing)
    }

    /// Inside a code block only line breaks, images and the language matter.
    fn enter_in_code(&mut self, seen: &Seen<'_>) -> Entry {
        let picture = (seen.role == Role::Image).then(|| picture(seen, self.rendering)).flatten();
        let Some(code) = &mut self.code else { return Entry::Skip };
        match seen.role {
            Role::Break if !seen.verdict.is_gone => code.push("\n"),
            Role::Break | Role::Input | Role::TextArea | Role::Select => {}
            Role::Image => code.push(&picture.unwrap_or_default()),
            Role::Code => {
                code.note_class(attribute(seen.element, "class").unwrap_or(""));
                return Entry::Into(Closing::Nothing);
            }
            Role::Preformatted => {
                code.close_line();
                code.depth += 1;
                return Entry::Into(Closing::Preformatted);
            }
            role if role.is_inline() || seen.verdict.flow.is_inline() => {
                return Entry::Into(Closing::Nothing);
            }
            role => {
                code.close_line();
                if role == Role::Item {
                    code.push("- ");
                }
                return Entry::Into(Closing::Gap(Gap::Line));
            }
        }
        Entry::Skip
    }

    /// Elements without text content.
    fn leaf(&mut self, seen: &Seen<'_>) {
        match seen.verdict.sight {
            _ if seen.role == Role::Break => self.writer.line_break(),
            Sight::Shown => self.leaf_shown(seen),
            Sight::Doubtful | Sight::Pale => {
                let words = match seen.role {
                    Role::Image => attribute(seen.element, "alt").unwrap_or("").to_owned(),
                    Role::Input | Role::TextArea | Role::Select => control::text(seen).0,
                    _ => String::new(),
                };
                self.doubtful(&words, seen.verdict.doubts, TextSpace::Collapse);
                if self.doubtful == UnclearTextPolicy::MarkAndKeep && seen.role == Role::Image {
                    self.leaf_shown(seen);
                }
            }
            Sight::Hidden => {}
        }
    }

    fn leaf_shown(&mut self, seen: &Seen<'_>) {
        match seen.role {
            Role::Rule if self.rendering == Rendering::Full && !self.writer.in_cell() => {
                self.writer.gap(Gap::Line);
                self.writer.word("---");
                self.writer.gap(Gap::Line);
            }
            Role::Rule => self.writer.gap(Gap::Line),
            Role::Image => {
                if let Some(picture) = picture(seen, self.rendering) {
                    // Triage needs to know that there are pictures, not how many.
                    if self.rendering == Rendering::Full || !self.writer.ends_with(&picture) {
                        self.writer.word(&picture);
                    }
                }
            }
            Role::Input | Role::TextArea | Role::Select => {
                let (shown, cut_off) = control::text(seen);
                let shown = characters::visible(&shown, &mut self.alarms).into_owned();
                self.writer.text(&shown, TextSpace::Collapse);
                self.writer.text(" ", TextSpace::Collapse);
                self.doubtful(
                    &cut_off,
                    VisibilityIssues::of(VisibilityIssue::Clipped),
                    TextSpace::Collapse,
                );
            }
            _ => {}
        }
    }

    fn enter_group(&mut self) -> Closing {
        self.writer.open_span();
        Closing::Group
    }

    fn enter_inline(&mut self, seen: &Seen<'_>) -> Closing {
        if seen.verdict.is_word_marker {
            self.in_word_marker = true;
            Closing::WordMarker
        } else if seen.verdict.line_through {
            self.enter_struck()
        } else {
            Closing::Nothing
        }
    }

    fn enter_struck(&mut self) -> Closing {
        self.struck_spans += 1;
        self.writer.open_span();
        Closing::Struck
    }

    fn enter_block(&mut self, seen: &Seen<'_>, gap: Gap) -> Closing {
        if seen.verdict.flow.is_inline() {
            return Closing::Nothing;
        }
        self.writer.gap(gap);
        Closing::Gap(gap)
    }

    fn paragraph_gap(&self) -> Gap {
        if self.rendering == Rendering::Full { Gap::Blank } else { Gap::Line }
    }

    fn enter_paragraph(&mut self, seen: &Seen<'_>) -> Closing {
        let level = seen.verdict.word_list_level;
        if level == 0 {
            return self.enter_block(seen, self.paragraph_gap());
        }
        self.writer.close_line();
        let indent = &"                "[..2 * usize::from(level - 1)];
        self.writer.push_prefix(indent, indent);
        Closing::Prefix(Gap::Line)
    }

    fn enter_heading(&mut self, level: u8) -> Closing {
        self.writer.gap(self.paragraph_gap());
        self.writer.push_prefix(&"###### "[6 - usize::from(level.min(6))..], "");
        Closing::Prefix(Gap::Line)
    }

    fn enter_list(&mut self, seen: &Seen<'_>) -> Closing {
        let attribute = |name: &str| attribute(seen.element, name);
        let list = if seen.role == Role::BulletList {
            List::bullets()
        } else {
            let items = || {
                let is_item = |node: &ego_tree::NodeRef<'_, scraper::Node>| {
                    node.value().as_element().is_some_and(|element| element.name() == "li")
                };
                i64::try_from(seen.node.children().filter(is_item).count()).unwrap_or(i64::MAX)
            };
            let start = attribute("start").and_then(whole_number);
            let count_down = attribute("reversed").map(|_| items());
            List::numbered(attribute("type"), start, count_down)
        };
        // The tracker's editor nests a list directly in a list, not in an item of it.
        let indent = self.lists.last().and_then(List::indent_outside_items);
        if let Some(indent) = indent {
            self.writer.push_prefix(indent, indent);
        }
        if self.lists.is_empty() {
            self.writer.gap(Gap::Line);
        } else {
            self.writer.close_line();
        }
        self.lists.push(list);
        Closing::List { has_prefix: indent.is_some() }
    }

    fn enter_item(&mut self, seen: &Seen<'_>) -> Closing {
        let kind = attribute(seen.element, "type").and_then(style_of_type);
        let value = attribute(seen.element, "value").and_then(whole_number);
        let marker = match self.lists.last_mut() {
            Some(list) => {
                list.open_items += 1;
                list.marker(value, kind)
            }
            None => "- ".to_owned(),
        };
        self.writer.close_line();
        self.writer.push_item(&marker);
        Closing::Item
    }

    fn enter_quote(&mut self, seen: &Seen<'_>) -> Closing {
        if seen.verdict.border_none {
            return self.enter_block(seen, Gap::Line);
        }
        self.writer.gap(self.paragraph_gap());
        self.writer.push_prefix("> ", "> ");
        Closing::Prefix(self.paragraph_gap())
    }

    fn enter_preformatted(&mut self, seen: &Seen<'_>) -> Closing {
        if seen.verdict.space == TextSpace::Collapse {
            return self.enter_block(seen, self.paragraph_gap());
        }
        let mut code = Code::default();
        code.note_class(attribute(seen.element, "class").unwrap_or(""));
        self.code = Some(code);
        Closing::Preformatted
    }

    fn enter_link(&mut self, seen: &Seen<'_>) -> Closing {
        if self.in_link {
            return Closing::Nothing;
        }
        self.in_link = true;
        self.writer.open_span();
        let is_mention = attribute(seen.element, "data-vss-mention").is_some();
        let wanted = self.rendering == Rendering::Full && !is_mention;
        let href = attribute(seen.element, "href").filter(|_| wanted);
        Closing::Link(href.and_then(link::target))
    }

    fn enter_table(&mut self, seen: &Seen<'_>) -> Closing {
        if !self.data_tables.contains_key(&seen.node.id()) {
            table::note_tables(seen.node, &mut self.data_tables);
        }
        let holds_data = self.data_tables.get(&seen.node.id()).copied().unwrap_or(false);
        self.writer.gap(Gap::Line);
        self.tables.push(Table::new(holds_data && !self.writer.in_cell()));
        Closing::Table
    }

    fn enter_row(&mut self) -> Entry {
        match self.tables.last_mut() {
            Some(table) if table.is_data => {
                if self.rendering == Rendering::Tight && table.rows >= TIGHT_ROWS {
                    table.rows_left_out += 1;
                    return Entry::Skip;
                }
                table.begin_row();
                self.writer.begin_row();
                Entry::Into(Closing::Row)
            }
            _ => {
                self.writer.gap(Gap::Line);
                Entry::Into(Closing::Gap(Gap::Line))
            }
        }
    }

    fn enter_cell(&mut self, seen: &Seen<'_>) -> Closing {
        match self.tables.last_mut() {
            Some(table) if table.is_data => {
                for _ in 0..table.begin_cell(seen.role == Role::HeaderCell) {
                    self.writer.begin_cell();
                }
                let span = |name: &str| {
                    attribute(seen.element, name)
                        .and_then(|text| text.trim().parse().ok())
                        .unwrap_or(1)
                };
                Closing::Cell { columns: span("colspan"), rows: span("rowspan") }
            }
            _ => {
                self.writer.gap(Gap::Line);
                Closing::Gap(Gap::Line)
            }
        }
    }
}

/// A number as HTML parses it: leading white space, a sign, digits, then anything.
pub(super) fn whole_number(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let digits = text
        .bytes()
        .enumerate()
        .take_while(|&(at, byte)| byte.is_ascii_digit() || (at == 0 && matches!(byte, b'-' | b'+')))
        .count();
    text[..digits].parse().ok()
}

/// The placeholder of an image; `None` for an invisible one.
fn picture(seen: &Seen<'_>, rendering: Rendering) -> Option<String> {
    let attribute = |name: &str| attribute(seen.element, name);
    let size = |name: &str| attribute(name).and_then(whole_number);
    let is_speck = |name: &str| size(name).is_some_and(|size| size <= 1);
    if seen.verdict.flow.tiny || (is_speck("width") && is_speck("height")) {
        return None;
    }
    let (description, source) = (attribute("alt").unwrap_or(""), attribute("src").unwrap_or(""));
    if description.trim().is_empty() && source.trim().is_empty() {
        return None;
    }
    let is_symbol = !description.is_empty()
        && description.chars().count() <= 4
        && !description.chars().any(|c| c.is_alphanumeric() || c.is_whitespace());
    if is_symbol {
        return link::picture_name(description, "");
    }
    let name = link::picture_name(description, source).filter(|_| rendering == Rendering::Full);
    Some(name.map_or_else(|| "[image]".to_owned(), |name| format!("[image: {name}]")))
}
