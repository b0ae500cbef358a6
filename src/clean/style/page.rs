//! The style of the page around a text: of `html`, `body` and the elements of the tracker.

use ego_tree::NodeRef;
use scraper::Node;
use scraper::node::Element;

use super::boxes::{BoxKind, Drag};
use super::color::Color;
use super::computed::Computed;
use super::declaration::Slot;
use super::selector::Matched;
use super::sheet::Matches;
use super::verdict::Judge;
use crate::clean::element::attribute;
use crate::model::VisibilityIssue;

/// Larger page font sizes are ignored, since lengths derived from them could be huge.
const LARGEST_PAGE_FONT: f32 = 40.0;

impl<'a> Judge<'a> {
    /// The style of the page itself, and what the attributes of `html` and `body` could change.
    pub(super) fn page_of_text(
        &mut self,
        root: NodeRef<'a, Node>,
        body: Option<&'a Element>,
    ) -> Computed {
        let Some(html) = root.children().find(|child| child.value().is_element()) else {
            return Computed::PAGE;
        };
        let Some(tag) = html.value().as_element() else { return Computed::PAGE };
        let has_attributes = !tag.attrs.is_empty() || body.is_some_and(|tag| !tag.attrs.is_empty());
        let with_attributes =
            has_attributes.then(|| self.page(html, [Some(tag), body.or(Some(tag))]));
        let mut style = self.page(html, [None, None]);
        if let Some(other) = with_attributes {
            style.doubt_unlike(&other);
        }
        style
    }

    /// The style of `html` and `body`, with the attributes of these tags.
    fn page(&mut self, html: NodeRef<'a, Node>, tags: [Option<&'a Element>; 2]) -> Computed {
        let mut style = Computed::PAGE;
        let [as_html, as_body, outer] = Matched::roots(html, self.work);
        for (place, element) in [as_html, as_body].into_iter().enumerate() {
            let tag = tags[place];
            self.slots.clear();
            let mut is_hidden = false;
            for (name, value) in tag.iter().flat_map(|tag| &tag.attrs) {
                match &*name.local {
                    "hidden" => is_hidden = true,
                    "bgcolor" => Color::parse_legacy(value)
                        .into_iter()
                        .for_each(|color| style.paint(color, BoxKind::Block)),
                    "text" => Color::parse_legacy(value)
                        .into_iter()
                        .for_each(|color| style.set_color(color)),
                    "link" => style.link = Color::parse_legacy(value).unwrap_or(style.link),
                    "background" => style.doubts.add(VisibilityIssue::Painted),
                    _ => {}
                }
            }
            let inline = tag.and_then(|tag| attribute(tag, "style"));
            self.work.reads_root.set(tag.is_some());
            self.declare(tag, &element, inline, &mut style);
            style.apply(&self.slots, BoxKind::Block, false, 0);
            if is_hidden && self.slots.get(Slot::Display).is_none() {
                style.hide();
            }
            if place == 0 {
                self.slots.page_font = style.font_px;
            }
        }
        let mut matches = Matches::default();
        self.sheet.collect(None, &outer, self.work, &mut matches);
        self.note_matches(&matches, &mut style);
        self.page_is_flex = matches.may_be_flex;
        if self.slots.page_font > LARGEST_PAGE_FONT {
            style.doubts.add(VisibilityIssue::Sized);
        }
        style.begin_page();
        style
    }

    /// Notes the effects of rules that are no declarations.
    pub(super) fn note_matches(&mut self, matches: &Matches, style: &mut Computed) {
        style.doubts = style.doubts.and(matches.doubts);
        if matches.generated.covers {
            self.field.add(VisibilityIssue::Covered);
        }
        if matches.generated.widens {
            style.doubts.add(VisibilityIssue::Sized);
        }
        if matches.generated.drags {
            style.doubts.add(VisibilityIssue::Moved);
            self.drags = Some(Drag::Page);
        }
        if self.work.is_spent() {
            self.field.add(VisibilityIssue::Budget);
        }
    }
}

impl Computed {
    /// Doubts what the attributes of `<html>` and `<body>` change: some trackers show the text as a
    /// page of its own, others ignore them.
    pub(super) fn doubt_unlike(&mut self, with_attributes: &Self) {
        let other = with_attributes;
        let is_pale = |color: Color| color.over(other.behind).distance(other.behind) < 0.3;
        if other.gone || other.invisible || other.font_px < 6.0 || !other.doubts.is_empty() {
            self.doubts.add(VisibilityIssue::Element);
        }
        let is_repainted = other.behind.distance(self.behind) > 0.1;
        if is_repainted || is_pale(other.color) || is_pale(other.link) {
            self.doubts.add(VisibilityIssue::Painted);
        }
    }

    /// Text that leaves a dark box of fixed width is as invisible as if it were clipped.
    pub(super) fn keep_in_dark_box(&mut self, around: &Self, width: Option<f32>, is_narrow: bool) {
        if self.behind.distance(around.behind) < 0.5 || !(is_narrow || width.is_some()) {
            return;
        }
        let room = width.unwrap_or(self.room).min(self.clip_room.unwrap_or(f32::MAX));
        self.clip_room = Some(room);
    }
}
