//! Offsets add up: many small ones, one inside the other or one after the other, move text as far
//! away as a large one.

use ego_tree::NodeRef;
use scraper::Node;
use scraper::node::Element;

use super::boxes::{Drag, Impact};
use super::computed::{Computed, PAGE_WIDTH};
use super::declaration::Slot;
use super::element_style::narrowest_column;
use super::layout::DRAGGING;
use super::stack::Afloat;
use super::verdict::{Frame, Judge, MAX_COVERS};
use crate::clean::element::{Role, attribute};
use crate::clean::enter::whole_number;
use crate::model::VisibilityIssue;

/// A table with larger distances between its cells is wider than its text.
const MOST_BETWEEN_CELLS: f32 = 50.0;
/// A box with more space at its sides pushes its neighbours far away.
const MOST_BESIDE: f32 = 200.0;
/// A box that leaves less than this of a clipping box pushes what follows out of it.
const LEAST_BESIDE: f32 = 100.0;

impl Computed {
    /// Moves everything inside to the right, or to the left if negative.
    pub(super) fn move_by(&mut self, pixels: f32) {
        self.shift += pixels;
        if pixels < 0.0 && self.shift < DRAGGING {
            self.doubts.add(VisibilityIssue::Moved);
        }
        let inside = self.shift - self.clip_shift;
        if pixels > 0.0 && self.clip_room.is_some_and(|room| inside > room / 2.0) {
            self.doubts.add(VisibilityIssue::Clipped);
        }
    }

    /// Moves everything inside up; what moves down stays in reach.
    pub(super) fn raise_by(&mut self, pixels: f32) {
        self.rise = (self.rise + pixels).min(0.0);
        if pixels < 0.0 && self.rise < DRAGGING {
            self.doubts.add(VisibilityIssue::Moved);
        }
    }

    /// Notes where the clipping box of an element begins.
    pub(super) fn note_clip(&mut self, around: &Self, at: u32) {
        if self.clip_room != around.clip_room {
            self.clip_at = at;
            self.clip_shift = self.shift;
        }
    }
}

impl<'a> Judge<'a> {
    /// Adds up the negative margins in one line, and those of empty blocks.
    pub(super) fn note_pull(&mut self, impact: Impact, node: NodeRef<'a, Node>, block: u32) {
        let (key, pull, drag) = match (impact.pull_back, impact.pull_up) {
            (back, _) if back < 0.0 => (block, back, Drag::Line),
            (_, up) if up < 0.0 && is_empty(node) => (u32::MAX, up, Drag::Page),
            _ => return,
        };
        let sum = self.line_pulls.entry(key).or_default();
        *sum += pull;
        if *sum < DRAGGING {
            *sum = 0.0;
            self.drags = self.drags.or(Some(drag));
        }
    }

    /// The width of a table and of its columns.
    pub(super) fn apply_table(
        &self,
        node: NodeRef<'a, Node>,
        element: &Element,
        style: &mut Computed,
        at: u32,
    ) {
        self.doubt_wide_table(element, style);
        if floats_by_attribute(element) {
            style.afloat = Some(Afloat { at, floats: true });
        }
        style.column_room = if style.is_fixed_table { narrowest_column(node) } else { 0.0 };
    }

    /// A table wider than its clipping box.
    fn doubt_wide_table(&self, element: &Element, style: &mut Computed) {
        let number = |name: &str| attribute(element, name).and_then(pixels_of);
        let width = self.width_of(element, style);
        let is_spread = ["cellpadding", "cellspacing"]
            .into_iter()
            .any(|name| number(name).is_some_and(|space| space > MOST_BETWEEN_CELLS));
        if style.clip_room.is_some_and(|room| width > room || (is_spread && room < f32::MAX)) {
            style.doubts.add(VisibilityIssue::Clipped);
        }
        if floats_by_attribute(element) && width > PAGE_WIDTH {
            style.doubts.add(VisibilityIssue::Moved);
        }
    }

    /// The declared width of an element, or that of its attribute; 0 if there is none.
    fn width_of(&self, element: &Element, style: &Computed) -> f32 {
        let declared = self.slots.length(Slot::Width);
        let declared = declared.map(|width| width.pixels(style.font_px, style.room));
        declared.or_else(|| attribute(element, "width").and_then(pixels_of)).unwrap_or(0.0)
    }

    /// A wide box pushes its neighbours in a row out of the clipping box.
    pub(super) fn note_wide(&mut self, element: &Element, style: &Computed, parent: &Frame<'_>) {
        let Some(room) = parent.style.clip_room else { return };
        let is_stiff = parent.is_flex
            && style.doubts.has(VisibilityIssue::Sized)
            && !parent.style.doubts.has(VisibilityIssue::Sized);
        let beside = [Slot::PaddingLeft, Slot::PaddingRight, Slot::MarginLeft, Slot::MarginRight]
            .into_iter()
            .filter_map(|slot| self.slots.length(slot))
            .map(|length| length.pixels(style.font_px, PAGE_WIDTH))
            .sum::<f32>();
        let is_wide = self.width_of(element, style) > room - LEAST_BESIDE
            || (beside > MOST_BESIDE && room < f32::MAX);
        if !is_wide && !is_stiff {
            return;
        }
        let table = parent.table.filter(|table| *table > parent.style.clip_at);
        let row = if parent.is_flex { u32::try_from(parent.at).ok() } else { table };
        let Some(row) = row else { return };
        match self.covers.contains(&row) {
            true => {}
            false if self.covers.len() >= MAX_COVERS => self.field.add(VisibilityIssue::Clipped),
            false => self.covers.push(row),
        }
    }
}

/// The block of a line: the element itself, unless it is inline.
pub(super) fn block_of(in_line: bool, place: u32, parent: Option<&Frame<'_>>) -> u32 {
    parent.filter(|_| in_line).map_or(place, |parent| parent.block)
}

/// Whether `align` makes a table float.
fn floats_by_attribute(element: &Element) -> bool {
    Role::of(element) == Role::Table
        && attribute(element, "align").is_some_and(|side| {
            side.eq_ignore_ascii_case("left") || side.eq_ignore_ascii_case("right")
        })
}

/// The number of an attribute; percentages are those of the page.
fn pixels_of(value: &str) -> Option<f32> {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let number = whole_number(value)? as f32;
    Some(if value.trim_end().ends_with('%') { number / 100.0 * PAGE_WIDTH } else { number })
}

fn is_empty(node: NodeRef<'_, Node>) -> bool {
    node.children().all(|child| child.value().as_text().is_some_and(|text| text.trim().is_empty()))
}
