//! Judges every element of a tree in one pass: rules and declarations are applied on the way down;
//! elements that may cover other text are recorded and applied at the end.

use std::ops::Range;

use ego_tree::NodeRef;
use ego_tree::iter::Edge;
use rustc_hash::FxHashMap;
use scraper::Node;
use scraper::node::Element;

use super::boxes::{self, BoxKind, Drag, Flow, Impact, Slots};
use super::computed::Computed;
use super::condition::{self, Holds};
use super::declaration::{self, Declaration, Display, Slot, Value};
use super::drag::Dragged;
use super::element_style::{is_left_out, is_painted, kind_of, takes_bgcolor, usual_style};
use super::fonts::names_odd_font;
use super::seen::Verdict;
use super::selector::{Matched, Work};
use super::sheet::{Matches, Sheet};
use super::shift::block_of;
use super::stack::Layers;
use super::value::fills_its_box;
use crate::clean::element::{Role, attribute};
use crate::clean::parse::Parsed;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// Step budget of matching selectors in one text.
const MATCHING_WORK: u64 = 1_000_000;
/// Maximum number of cached `style` attributes.
const MAX_REMEMBERED: usize = 256;
/// Maximum places that may cover text; with more of them all text is doubtful.
pub(super) const MAX_COVERS: usize = 16;

/// Judges every visited element below `root`, in document order. Also returns the steps of matching
/// selectors.
pub(in crate::clean) fn judge(parsed: &Parsed) -> (Vec<Verdict>, u64) {
    let work = Work::new(MATCHING_WORK);
    let mut judge = Judge {
        work: &work,
        sheet: Sheet::default(),
        verdicts: Vec::with_capacity(parsed.elements),
        remembered: FxHashMap::default(),
        declarations: Vec::new(),
        slots: Slots::default(),
        field: VisibilityIssues::NONE,
        covers: Vec::new(),
        pulls: false,
        layers: Layers::default(),
        line_pulls: FxHashMap::default(),
        page_is_flex: false,
        drags: None,
        dragged: Vec::new(),
    };
    let root = parsed.html.tree.root();
    if parsed.has_style {
        judge.read_sheets(root);
    }
    judge.run(root, parsed.body.as_ref());
    if parsed.is_made && judge.sheet.has_unused_hiding_rule() {
        // Another renderer may use other names for generated HTML.
        judge.field.add(VisibilityIssue::Selector);
    }
    (judge.finish(), MATCHING_WORK - work.left())
}

pub(super) struct Judge<'a> {
    pub(super) work: &'a Work,
    pub(super) sheet: Sheet,
    pub(super) verdicts: Vec<Verdict>,
    /// The range of a `style` attribute's declarations in `declarations`.
    remembered: FxHashMap<&'a str, Range<usize>>,
    declarations: Vec<Declaration>,
    pub(super) slots: Slots,
    /// Doubts about all text.
    pub(super) field: VisibilityIssues,
    /// Elements whose text may be covered.
    pub(super) covers: Vec<u32>,
    pulls: bool,
    layers: Layers,
    /// The sum of negative margins in the lines of each block, in pixels.
    pub(super) line_pulls: FxHashMap<u32, f32>,
    /// Whether the element around the text may place its children next to each other.
    pub(super) page_is_flex: bool,
    /// What the current element moves.
    pub(super) drags: Option<Drag>,
    pub(super) dragged: Vec<Dragged>,
}

/// An open element.
pub(super) struct Frame<'a> {
    node: NodeRef<'a, Node>,
    pub(super) at: usize,
    pub(super) style: Computed,
    pub(super) is_flex: bool,
    /// The nearest table, since columns affect its cells.
    pub(super) table: Option<u32>,
    /// The nearest block, for what is in the same line.
    pub(super) block: u32,
}

impl<'a> Judge<'a> {
    fn read_sheets(&mut self, root: NodeRef<'a, Node>) {
        let mut templates = 0_usize;
        for edge in root.traverse() {
            let (node, opens) = match edge {
                Edge::Open(node) => (node, true),
                Edge::Close(node) => (node, false),
            };
            let Some(element) = node.value().as_element() else { continue };
            if opens && attribute(element, "autofocus").is_some() {
                self.work.has_focus.set(true);
            }
            match element.name() {
                "template" if opens => templates += 1,
                "template" => templates -= 1,
                "style" if opens && templates == 0 => self.read_style(node, element),
                "link" if opens && templates == 0 => self.note_link(element),
                _ => {}
            }
        }
        self.field = self.field.and(self.sheet.doubts);
        if self.sheet.fetches_fonts && root.descendants().any(names_odd_font) {
            self.field.add(VisibilityIssue::Remote);
        }
    }

    fn read_style(&mut self, node: NodeRef<'a, Node>, element: &Element) {
        let kind = attribute(element, "type").unwrap_or("").trim().to_ascii_lowercase();
        let media = attribute(element, "media").unwrap_or("").to_ascii_lowercase();
        let holds = condition::media(&media);
        if !matches!(&*kind, "" | "text/css") || holds == Holds::No {
            return;
        }
        let texts = node.children().filter_map(|child| child.value().as_text());
        let css: String = texts.map(|text| &**text).collect();
        self.sheet.read(&css, holds);
    }

    fn note_link(&mut self, element: &Element) {
        let is_sheet = attribute(element, "rel").is_some_and(|rel| {
            rel.split_ascii_whitespace().any(|word| word.eq_ignore_ascii_case("stylesheet"))
        });
        let media = attribute(element, "media").unwrap_or("").to_ascii_lowercase();
        if is_sheet && attribute(element, "href").is_some() && condition::media(&media) != Holds::No
        {
            self.field.add(VisibilityIssue::Remote);
        }
    }

    fn run(&mut self, root: NodeRef<'a, Node>, body: Option<&'a Element>) {
        let mut frames: Vec<Frame<'a>> = Vec::new();
        let page = self.page_of_text(root, body);
        let mut next = root.first_child();
        loop {
            let Some(node) = next else {
                let Some(frame) = frames.pop() else { return };
                self.verdicts[frame.at].next =
                    u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX);
                next = frame.node.next_sibling();
                continue;
            };
            next = match node.value() {
                Node::Element(element) => {
                    let at = self.verdicts.len();
                    let opened = self.open(node, element, frames.last(), &page);
                    if let Some(drag) = self.drags.take() {
                        self.note_drag(drag, &frames, at);
                    }
                    let is_open = opened.is_some();
                    frames.extend(opened);
                    if is_open { node.first_child() } else { node.next_sibling() }
                }
                Node::Text(text) => {
                    if let Some(frame) = frames.last() {
                        self.note_text(text, &frame.style);
                    }
                    node.next_sibling()
                }
                _ => node.next_sibling(),
            };
        }
    }

    /// Judges an element. Returns a frame if its children are to be judged too.
    fn open(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        parent: Option<&Frame<'a>>,
        page: &Computed,
    ) -> Option<Frame<'a>> {
        let role = Role::of(element);
        let at = self.verdicts.len();
        let place = u32::try_from(at).unwrap_or(u32::MAX);
        if role == Role::Nothing {
            self.note_unseen(node, element, parent);
            self.verdicts.push(Verdict::unread(place.saturating_add(1)));
            return None;
        }
        let mut style = parent.map_or(*page, |frame| frame.style);
        let is_root = parent.is_none();
        let (flow, impact) = match style.is_gone() || is_root {
            true => (Flow::default(), Impact::default()),
            false => self.style_of(
                node,
                element,
                role,
                &mut style,
                parent.is_some_and(|frame| frame.is_flex),
                place,
            ),
        };
        self.note_impact(impact, &style);
        let block = block_of(impact.in_line, place, parent);
        self.note_pull(impact, node, block);
        if let Some(parent) =
            parent.filter(|parent| parent.style.clip_room.is_some() && !style.is_gone())
        {
            self.note_wide(element, &style, parent);
        }
        let verdict = self.verdict(role, &style, flow, style.is_gone() || is_root);
        self.verdicts.push(verdict);
        let is_flex = match flow.display {
            _ if is_root => self.page_is_flex,
            Some(Display::Flex | Display::InlineFlex) => true,
            Some(Display::Contents) => parent.is_some_and(|frame| frame.is_flex),
            None if element.name() == "slot" => parent.is_some_and(|frame| frame.is_flex),
            _ => false,
        };
        let table =
            if role == Role::Table { Some(place) } else { parent.and_then(|frame| frame.table) };
        Some(Frame { node, at, style, is_flex, table, block })
    }

    fn verdict(&self, role: Role, style: &Computed, flow: Flow, is_plain: bool) -> Verdict {
        let (sight, doubts) = style.sight();
        let width = style.font_px * 0.75;
        let longest = style.clip_room.map_or(f32::MAX, |room| room / width.max(1.0));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the range first"
        )]
        let longest_word = longest.clamp(0.0, f32::from(u16::MAX)) as u16;
        let flag = |slot: Slot| !is_plain && self.slots.flag(slot);
        let level = match self.slots.get(Slot::WordListLevel) {
            Some(Value::Number(level)) if !is_plain => level,
            _ => 0.0,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "levels are from 1 to 9"
        )]
        let word_list_level = level as u8;
        Verdict {
            role,
            sight,
            doubts,
            next: u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX).saturating_add(1),
            longest_word,
            space: style.space,
            flow,
            is_gone: style.is_gone(),
            line_through: flag(Slot::LineThrough),
            border_none: flag(Slot::BorderNone),
            is_word_marker: flag(Slot::WordMarker),
            word_list_level,
            is_shrunk: style.shrunk,
            spills: style.spills,
            afloat: style.afloat,
        }
    }

    /// Computes an element's style from its attributes, the rules and its own declarations.
    fn style_of(
        &mut self,
        node: NodeRef<'a, Node>,
        element: &'a Element,
        role: Role,
        style: &mut Computed,
        in_flex: bool,
        at: u32,
    ) -> (Flow, Impact) {
        self.slots.clear();
        let name = element.name();
        let kind = kind_of(name, role);
        let inherited = *style;
        usual_style(name, role, element, style);
        let mut paints = matches!(name, "mark" | "button");
        let mut is_hidden = role == Role::Dialog && attribute(element, "open").is_none();
        let mut inline = None;
        for (name, value) in &element.attrs {
            match &*name.local {
                "style" => inline = Some(&**value),
                "hidden" => is_hidden |= style.is_hidden_by(value, element),
                "popover" => is_hidden = true,
                "bgcolor" if takes_bgcolor(element.name()) => {
                    paints |= style.paint_legacy(value, kind);
                }
                "background" => style.doubts.add(VisibilityIssue::Painted),
                "color" if role == Role::Font => style.set_legacy_color(value),
                "dir" => style.rtl = value.eq_ignore_ascii_case("rtl"),
                "nowrap" => style.nowrap = true,
                crate::clean::parse::CUT_ATTRIBUTES => style.doubts.add(VisibilityIssue::Budget),
                _ => {}
            }
        }
        if !(inline.is_none() && self.sheet.is_empty()) {
            let element_in_tree = Matched::new(node, self.work);
            self.declare(Some(element), &element_in_tree, inline, style);
            style.replace_usual(&inherited, &self.slots, role);
        }
        let (flow, mut impact) = style.apply(&self.slots, kind, in_flex, at);
        style.leave_hidden_background(&inherited, name, kind);
        if is_left_out(node, element, role, flow) {
            style.hide();
        }
        let own_kind = boxes::kind_of(kind, flow, in_flex);
        self.doubt_pushed_out(node, role, own_kind, &inherited, style);
        impact.in_line = matches!(own_kind, BoxKind::Inline | BoxKind::InlineBlock);
        impact.paints |= paints;
        style.note_clip(&inherited, at);
        if role == Role::Table {
            self.apply_table(node, element, style, at);
        }
        if is_hidden && self.slots.get(Slot::Display) == Some(Value::Initial) {
            // The declared default replaces that of `hidden`.
            style.doubts.add(VisibilityIssue::Element);
        } else if is_hidden && flow.display.is_none() {
            style.hide();
        } else {
            self.drags = self.drags.or(impact.drags);
        }
        impact.paints |= matches!(kind, BoxKind::InlineBlock) || is_painted(element, role);
        if (role == Role::Dialog || attribute(element, "popover").is_some()) && !style.is_gone() {
            style.raise();
            impact.paints = true;
        }
        (flow, impact)
    }

    /// Puts the declarations of rules and of the `style` attribute into `slots`.
    pub(super) fn declare(
        &mut self,
        tag: Option<&'a Element>,
        element: &Matched<'_>,
        inline: Option<&'a str>,
        style: &mut Computed,
    ) {
        let mut matches = Matches::default();
        if !self.sheet.is_empty() {
            self.sheet.collect(tag, element, self.work, &mut matches);
            self.note_matches(&matches, style);
        }
        let inline = inline.map_or(0..0, |inline| self.read_inline(inline));
        let inline = &self.declarations[inline];
        let of = |list: &'_ [Declaration], important: bool, slots: &mut Slots| {
            list.iter()
                .filter(|declaration| declaration.important == important)
                .for_each(|declaration| slots.set(declaration));
        };
        of(&matches.declarations, false, &mut self.slots);
        of(inline, false, &mut self.slots);
        of(&matches.declarations, true, &mut self.slots);
        of(inline, true, &mut self.slots);
    }

    fn read_inline(&mut self, css: &'a str) -> Range<usize> {
        if let Some(known) = self.remembered.get(css) {
            return known.clone();
        }
        if self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
            self.declarations.clear();
        }
        let start = self.declarations.len();
        declaration::read_inline(css, &mut self.declarations);
        let read = start..self.declarations.len();
        self.remembered.insert(css, read.clone());
        read
    }

    pub(super) fn note_impact(&mut self, impact: Impact, style: &Computed) {
        if style.is_gone() {
            return;
        }
        self.pulls |= impact.pulls;
        let at = u32::try_from(self.verdicts.len()).unwrap_or(u32::MAX);
        self.layers.note(impact, style, at);
        if impact.paints && style.spills && style.stack.is_some() {
            self.cover(style);
        }
        if impact.reaches_out {
            self.field.add(VisibilityIssue::Covered);
        }
        if impact.paints && style.displaced {
            self.cover(style);
        }
    }

    fn cover(&mut self, style: &Computed) {
        match style.confined_to {
            Some(_) if self.covers.len() >= MAX_COVERS => self.field.add(VisibilityIssue::Covered),
            Some(at) if !self.covers.contains(&at) => self.covers.push(at),
            Some(_) => {}
            None => self.field.add(VisibilityIssue::Covered),
        }
    }

    /// Letters that fill their box can cover text like one.
    fn note_text(&mut self, text: &str, style: &Computed) {
        if style.displaced
            && !style.is_gone()
            && (style.font_px > 40.0 || text.chars().any(fills_its_box))
            && !text.trim().is_empty()
        {
            self.cover(style);
        }
    }

    /// Applies doubts about the whole text.
    fn finish(mut self) -> Vec<Verdict> {
        if self.pulls && self.layers.any() {
            self.field.add(VisibilityIssue::Covered);
        }
        if self.covers.len() > MAX_COVERS {
            self.field.add(VisibilityIssue::Covered);
            self.covers.clear();
        }
        for at in std::mem::take(&mut self.covers) {
            let end = self.verdicts.get(at as usize).map_or(0, |verdict| verdict.next);
            for verdict in self.verdicts.get_mut(at as usize..end as usize).into_iter().flatten() {
                verdict.doubt(VisibilityIssues::of(VisibilityIssue::Covered));
            }
        }
        self.doubt_dragged();
        self.layers.apply(&mut self.verdicts);
        let field = self.field;
        for verdict in self.verdicts.iter_mut().filter(|_| !field.is_empty()) {
            verdict.doubt(field);
        }
        self.verdicts
    }
}
