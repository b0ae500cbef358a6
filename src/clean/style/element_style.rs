//! The default look of an element, by its name and attributes.

use ego_tree::NodeRef;
use html5ever::ns;
use scraper::Node;
use scraper::node::Element;

use super::boxes::{BoxKind, Flow};
use super::color::Color;
use super::computed::Computed;
use super::declaration::{Display, TextSpace};
use crate::clean::element::{Role, attribute};
use crate::clean::enter::whole_number;
use crate::model::VisibilityIssue;

/// How far a list or a quotation is moved to the right, in pixels.
const USUAL_INDENT: f32 = 40.0;
/// Lines of at most this many pixels cover no text.
const THIN_LINE: i64 = 3;
/// Characters and nodes examined to check whether a line fits its box.
const MAX_LINE: usize = 400;

/// Whether it is one line that does not fit its clipping box.
pub(super) fn is_cut_line(node: NodeRef<'_, Node>, style: &Computed) -> bool {
    style.nowrap
        && style.clip_room.is_some_and(|room| room < f32::MAX)
        && !fits_its_line(node, style)
}

/// Whether all text of the element fits on one line of its clipping box.
fn fits_its_line(node: NodeRef<'_, Node>, style: &Computed) -> bool {
    let room = style.clip_room.unwrap_or(f32::MAX);
    let mut characters = 0_usize;
    let wide = node.descendants().skip(1).take(MAX_LINE).any(|node| is_wide(node, room));
    if wide {
        return false;
    }
    for text in node.descendants().take(MAX_LINE).filter_map(|node| node.value().as_text()) {
        characters += text.chars().take(MAX_LINE).count();
        if characters >= MAX_LINE {
            return false;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred characters")]
    let width = characters as f32 * style.font_px * 0.75;
    width <= room
}

/// Whether it is a box that may take half of the room, and push what follows out of it.
fn is_wide(node: NodeRef<'_, Node>, room: f32) -> bool {
    let Some(element) = node.value().as_element() else { return false };
    let style = attribute(element, "style").unwrap_or("").to_ascii_lowercase();
    let changes_width =
        ["width", "border", "inline-size", "quotes"].iter().any(|name| style.contains(name));
    let is_small = || {
        let width = attribute(element, "width").and_then(whole_number);
        width.is_some_and(|width| (0..=32).contains(&width)) && room >= 100.0
    };
    let is_box = makes_a_box(element.name())
        || matches!(element.name(), "img" | "svg" | "input" | "textarea" | "select" | "mspace");
    // Padding or margins of a hundred pixels and more.
    let is_spread = (style.contains("padding") || style.contains("margin"))
        && style.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 2);
    changes_width || is_spread || (is_box && !is_small())
}

/// The narrowest column of a table by the `width` of its columns; 0 if one has none.
pub(super) fn narrowest_column(table: NodeRef<'_, Node>) -> f32 {
    let groups = table.children().take(MAX_LINE).filter(|node| is_named(*node, "colgroup"));
    let columns = groups
        .flat_map(|group| group.children().take(MAX_LINE))
        .filter(|node| is_named(*node, "col"));
    let widths = columns.map(|column| {
        let width = column.value().as_element().and_then(|element| attribute(element, "width"));
        width.and_then(|width| width.trim().parse::<f32>().ok()).unwrap_or(0.0)
    });
    let narrowest = widths.fold(f32::MAX, f32::min);
    if narrowest < f32::MAX { narrowest } else { 0.0 }
}

pub(super) fn is_named(node: NodeRef<'_, Node>, name: &str) -> bool {
    node.value().as_element().is_some_and(|element| element.name() == name)
}

/// The default kind of box of an element.
pub(super) fn kind_of(name: &str, role: Role) -> BoxKind {
    match role {
        Role::Table => BoxKind::Table,
        Role::Row | Role::TableHead => BoxKind::TablePart,
        Role::Cell | Role::HeaderCell => BoxKind::Cell,
        Role::Image | Role::Input | Role::TextArea | Role::Select => BoxKind::InlineBlock,
        _ if matches!(name, "tbody" | "tfoot") => BoxKind::TablePart,
        _ if name == "slot" => BoxKind::Contents,
        _ if matches!(name, "button" | "svg" | "marquee" | "object") => BoxKind::InlineBlock,
        _ if role.is_inline() => BoxKind::Inline,
        Role::Break => BoxKind::Inline,
        _ => BoxKind::Block,
    }
}

/// Whether a browser makes no box for it.
pub(super) fn is_left_out(
    node: NodeRef<'_, Node>,
    element: &Element,
    role: Role,
    flow: Flow,
) -> bool {
    (element.name.ns == ns!(mathml) && is_second_meaning(node))
        || (flow.display == Some(Display::Contents) && has_no_contents(element.name(), role))
}

/// Whether it is a child of `<semantics>` other than the first, which alone is shown.
fn is_second_meaning(node: NodeRef<'_, Node>) -> bool {
    node.parent().is_some_and(|parent| is_named(parent, "semantics"))
        && node.prev_siblings().any(|before| before.value().is_element())
}

/// Whether its `bgcolor` is a background; other elements ignore it.
pub(super) fn takes_bgcolor(name: &str) -> bool {
    matches!(
        name,
        "body" | "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th" | "col" | "colgroup"
    ) || name == "marquee"
}

/// Whether an element without readable text has a box.
pub(super) fn makes_a_box(name: &str) -> bool {
    matches!(
        name,
        "iframe"
            | "object"
            | "embed"
            | "applet"
            | "video"
            | "audio"
            | "canvas"
            | "meter"
            | "progress"
            | "frame"
            | "frameset"
    )
}

/// Whether `display: contents` hides it, since it has no content of its own.
fn has_no_contents(name: &str, role: Role) -> bool {
    matches!(role, Role::Image | Role::Input | Role::TextArea | Role::Select)
        || makes_a_box(name)
        || matches!(name, "svg" | "br" | "wbr")
}

impl Computed {
    /// The `size` of `<font>`, from 1 to 7, or relative to 3.
    fn set_legacy_size(&mut self, element: &Element) {
        const SIZES: [f32; 7] = [10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0];
        let Some(value) = attribute(element, "size") else { return };
        let Some(size) = whole_number(value) else { return };
        let is_relative = value.trim_start().starts_with(['+', '-']);
        let size = if is_relative { size.saturating_add(3) } else { size };
        let at = usize::try_from(size.clamp(1, 7)).unwrap_or(1) - 1;
        self.font_px = SIZES[at];
    }

    /// Whether the attribute `hidden` hides an element, unless it declares a display.
    pub(super) fn is_hidden_by(&mut self, value: &str, element: &Element) -> bool {
        // What a search finds is shown, as is the text of an inline element.
        let is_doubtful = element.name.ns != ns!(html) || value.eq_ignore_ascii_case("until-found");
        if is_doubtful {
            self.doubts.add(VisibilityIssue::Element);
        }
        !is_doubtful
    }
}

/// Whether its attributes give it a thick border, or paint a whole `<hr>`.
pub(super) fn is_painted(element: &Element, role: Role) -> bool {
    let is_thick = |name: &str| {
        attribute(element, name).and_then(whole_number).is_some_and(|thick| thick > THIN_LINE)
    };
    match role {
        Role::Rule => is_thick("size") || attribute(element, "color").is_some(),
        Role::Table => is_thick("border"),
        _ => false,
    }
}

/// A browser's default style sheet.
pub(super) fn usual_style(name: &str, role: Role, element: &Element, style: &mut Computed) {
    match role {
        Role::Preformatted => (style.space, style.nowrap) = (TextSpace::Keep, true),
        Role::Link if attribute(element, "href").is_some() => style.set_color(style.link),
        Role::Drawing => style.doubts.add(VisibilityIssue::Element),
        Role::Raised | Role::Lowered => style.make_smaller(0.83),
        Role::Heading(5) => style.make_smaller(0.83),
        Role::Heading(6) => style.make_smaller(0.67),
        Role::BulletList | Role::NumberedList | Role::Quote | Role::Definition => {
            style.move_by(USUAL_INDENT);
        }
        Role::Font => style.set_legacy_size(element),
        Role::RubyText => style.font_px *= 0.5,
        Role::Input | Role::TextArea | Role::Select => {
            style.set_color(Color::BLACK);
            style.paint(Color::WHITE, BoxKind::InlineBlock);
            style.font_px = 13.33;
        }
        _ => {}
    }
    match name {
        "small" => style.make_smaller(0.83),
        "big" => style.font_px *= 1.2,
        "nobr" => style.nowrap = true,
        "mark" => {
            style.paint(Color::MARK, BoxKind::Inline);
            style.set_color(Color::BLACK);
        }
        "button" => {
            style.paint(Color::BUTTON, BoxKind::InlineBlock);
            style.set_color(Color::BLACK);
            style.font_px = 13.33;
        }
        "mphantom" => style.hide(),
        // Its label is shown instead of its text.
        "option" if attribute(element, "label").is_some_and(|label| !label.is_empty()) => {
            style.doubts.add(VisibilityIssue::Element);
        }
        "bdo" if attribute(element, "dir").is_some_and(|dir| dir.eq_ignore_ascii_case("rtl")) => {
            style.doubts.add(VisibilityIssue::Moved);
        }
        _ => {}
    }
}
