//! Elements without readable text: columns, videos, scripts. They can still affect how other text
//! is shown, or cover it.

use ego_tree::NodeRef;
use scraper::Node;
use scraper::node::Element;

use super::boxes::BoxKind;
use super::element_style::makes_a_box;
use super::selector::Matched;
use super::verdict::{Frame, Judge};
use crate::clean::element::attribute;

impl<'a> Judge<'a> {
    /// Elements that display nothing can still affect how others are displayed.
    pub(super) fn note_unseen(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        parent: Option<&Frame<'a>>,
    ) {
        let Some(parent) = parent else { return };
        if makes_a_box(element.name()) && parent.style.clip_room.is_some() {
            self.slots.clear();
            self.note_wide(element, &parent.style, parent);
        }
        match element.name() {
            "col" => self.note_column(node, element, parent),
            "colgroup" => {
                self.note_column(node, element, parent);
                for column in node.children() {
                    if let Some(element) = column.value().as_element() {
                        self.note_column(column, element, parent);
                    }
                }
            }
            "template" if attribute(element, "shadowrootmode").is_some() => {
                self.covers.push(u32::try_from(parent.at).unwrap_or(0));
            }
            name => self.note_box(node, element, parent, makes_a_box(name)),
        }
    }

    /// A box without readable text can cover text: a video, or a script that is displayed.
    fn note_box(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        parent: &Frame<'a>,
        is_box: bool,
    ) {
        let inline = attribute(element, "style");
        if parent.style.is_gone() || (inline.is_none() && self.sheet.is_empty()) {
            return;
        }
        let mut style = parent.style;
        self.slots.clear();
        let element_in_tree = Matched::new(node, self.work);
        self.declare(Some(element), &element_in_tree, inline, &mut style);
        let at = u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX);
        let (flow, mut impact) = style.apply(&self.slots, BoxKind::InlineBlock, parent.is_flex, at);
        impact.in_line = true;
        if is_box || flow.display.is_some() {
            impact.paints |= is_box;
            self.drags = self.drags.or(impact.drags);
            self.note_impact(impact, &style);
        }
    }

    /// A column can hide its cells or be behind them.
    fn note_column(&mut self, node: NodeRef<'a, Node>, element: &'a Element, parent: &Frame<'a>) {
        let mut style = parent.style;
        self.slots.clear();
        let column = Matched::new(node, self.work);
        self.declare(Some(element), &column, attribute(element, "style"), &mut style);
        let (flow, impact) = style.apply(&self.slots, BoxKind::TablePart, false, 0);
        let changes = style.sight() != parent.style.sight()
            || impact.paints
            || flow.display.is_some()
            || attribute(element, "bgcolor").is_some();
        if let (true, Some(table)) = (changes, parent.table) {
            self.covers.push(table);
        }
    }
}
