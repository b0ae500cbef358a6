//! Text that leaves a box smaller than itself: it may be outside a clipping box or a dark one, or
//! under what follows it.

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use scraper::Node;
use scraper::node::Element;

use super::boxes::{BoxKind, bits};
use super::computed::Computed;
use super::declaration::{Overflow, Slot, Value};
use super::element_style::{kind_of, makes_a_box};
use super::length::Length;
use super::verdict::Judge;
use crate::clean::element::{Role, attribute};
use crate::clean::enter::whole_number;
use crate::model::VisibilityIssue;

/// Nodes examined to estimate the size of a text; a longer one fits no declared size.
const MAX_NODES: usize = 400;
/// The same for the bytes of one text node.
const MAX_TEXT: usize = 4000;
/// Width of a long word, in pixels.
const USUAL_WORD: f32 = 100.0;
/// Height of a line, and of its letters alone, as a share of the font size.
const LINE: f32 = 1.15;
const LETTERS: f32 = 0.75;
/// Width of a letter, as a share of the font size.
const LETTER: f32 = 0.5;

const SIZES: u64 = bits([Slot::Width, Slot::Height, Slot::MaxWidth, Slot::MaxHeight]);

impl Judge<'_> {
    /// Doubts text that does not fit the declared size of its box, if that can hide it.
    pub(super) fn doubt_spilled(
        &self,
        node: NodeRef<'_, Node>,
        kind: BoxKind,
        style: &mut Computed,
    ) {
        let is_sized = matches!(kind, BoxKind::Block | BoxKind::InlineBlock);
        // A form control scrolls.
        let is_control = node.value().as_element().is_some_and(|element| {
            matches!(element.name(), "textarea" | "select" | "button" | "input")
        });
        if !is_sized || is_control || !self.slots.has(SIZES) || style.is_gone() {
            return;
        }
        let keeps = [Slot::OverflowX, Slot::OverflowY]
            .into_iter()
            .any(|slot| matches!(self.slots.get(slot), Some(Value::Overflow(Overflow::Scrolls))));
        let smallest = |slots: [Slot; 2], whole: f32| {
            let lengths = slots.map(|slot| self.slots.length(slot));
            let known = lengths.into_iter().flatten().filter(|length| match length {
                Length::Share(_) => whole > 0.0,
                _ => true,
            });
            known.map(|length| length.pixels(style.font_px, whole)).reduce(f32::min)
        };
        let width = smallest([Slot::Width, Slot::MaxWidth], style.room);
        let height = smallest([Slot::Height, Slot::MaxHeight], 0.0);
        if keeps || (width.is_none_or(|width| width > 400.0) && height.is_none()) {
            return;
        }
        let extent = Extent::of(node, style, width.unwrap_or(style.room).max(20.0));
        if width.is_some_and(|width| extent.width > width)
            || height.is_some_and(|height| extent.height > height)
        {
            style.spill();
        }
    }
}

impl Computed {
    fn spill(&mut self) {
        self.spills = true;
        if self.clip_room.is_some() {
            self.doubts.add(VisibilityIssue::Clipped);
        }
        if self.behind != self.page {
            self.perhaps_behind = Some(self.page);
        }
    }
}

/// The least size that a text needs, in pixels.
struct Extent {
    width: f32,
    height: f32,
}

/// What was counted of a text.
#[derive(Default)]
struct Count {
    lines: f32,
    /// Height of pictures and other boxes.
    boxes: f32,
    longest_word: usize,
    longest_text: usize,
    is_new_line: bool,
    never_wraps: bool,
    is_unknown: bool,
}

impl Extent {
    #[expect(clippy::cast_precision_loss, reason = "the number of characters is small")]
    fn of(node: NodeRef<'_, Node>, style: &Computed, room: f32) -> Self {
        let letter = style.font_px * LETTER;
        let mut count = Count { is_new_line: true, never_wraps: style.nowrap, ..Count::default() };
        let mut nodes = 0_usize;
        for edge in node.traverse().skip(1) {
            nodes += 1;
            if nodes > MAX_NODES {
                count.is_unknown = true;
                break;
            }
            match edge {
                Edge::Open(node) => match node.value() {
                    Node::Text(text) => count.add_text(text, letter, room),
                    Node::Element(element) => count.add_element(element, true),
                    _ => {}
                },
                Edge::Close(node) => {
                    if let Some(element) = node.value().as_element() {
                        count.add_element(element, false);
                    }
                }
            }
        }
        let longest = if count.never_wraps { count.longest_text } else { count.longest_word };
        let between = (count.lines - 1.0).max(0.0) * style.font_px * LINE;
        let last = if count.lines > 0.0 { style.font_px * LETTERS } else { 0.0 };
        let width = longest as f32 * letter;
        match count.is_unknown {
            true => Self { width: width.max(USUAL_WORD), height: f32::MAX },
            false => Self { width, height: between + last + count.boxes },
        }
    }
}

impl Count {
    #[expect(clippy::cast_precision_loss, reason = "the number of characters is small")]
    fn add_text(&mut self, text: &str, letter: f32, room: f32) {
        self.is_unknown |= text.len() > MAX_TEXT;
        let text = &text[..text.floor_char_boundary(MAX_TEXT)];
        let characters = text.chars().count();
        let words = text.split_ascii_whitespace().map(|word| word.chars().count());
        let Some(longest) = words.max() else { return };
        self.longest_word = self.longest_word.max(longest);
        self.longest_text = self.longest_text.max(characters);
        self.lines += (characters as f32 * letter / room).floor();
        if std::mem::take(&mut self.is_new_line) {
            self.lines += 1.0;
        }
    }

    fn add_element(&mut self, element: &Element, opens: bool) {
        let name = element.name();
        let role = Role::of(element);
        self.is_new_line |= kind_of(name, role) != BoxKind::Inline;
        if !opens {
            // The space below a paragraph.
            self.lines += if role == Role::Paragraph { 1.0 } else { 0.0 };
            return;
        }
        if role == Role::Break {
            self.lines += if self.is_new_line { 1.0 } else { 0.0 };
            self.is_new_line = true;
        }
        let style = attribute(element, "style").unwrap_or("").to_ascii_lowercase();
        let sizes = style.replace("line-height", "");
        self.is_unknown |= sizes.contains("height") || sizes.contains("block-size");
        self.never_wraps |= matches!(name, "nobr" | "pre") || style.contains("nowrap");
        if role == Role::Image || makes_a_box(name) || matches!(name, "svg" | "table" | "td") {
            let height = attribute(element, "height").and_then(whole_number).unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let height = height as f32;
            self.boxes += height;
        }
    }
}
