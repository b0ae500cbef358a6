//! The combined effect of the declarations on the path from the root: whether text is visible, and
//! how it flows. Values in the ranges of real text pass; what is certainly invisible is hidden;
//! everything in between is doubtful.

use super::boxes::{BoxKind, Flow, Frame, Impact, Slots, bits, kind_of};
use super::color::Color;
use super::declaration::{Display, Position, Slot, TextSpace, Value};
use super::length::Length;
use super::stack::Afloat;
use crate::clean::element::Role;
use crate::model::{VisibilityIssue, VisibilityIssues};

/// Smaller text cannot be read.
pub(super) const UNREADABLE_PX: f32 = 2.5;
/// Lower opacity counts as invisible.
const UNSEEN_OPACITY: f32 = 0.06;
/// The narrowest window assumed.
pub(super) const PAGE_WIDTH: f32 = 900.0;

/// Whether a user can see the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::clean) enum Sight {
    Shown,
    /// Only on a background other than the usual light one.
    LowContrast,
    /// Cannot be determined.
    Doubtful,
    Hidden,
}

/// What an element passes to its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Computed {
    /// Hidden by a property that no child can override.
    pub(super) gone: bool,
    /// `visibility`, which a child can override.
    pub(super) invisible: bool,
    pub(super) opacity: f32,
    pub(super) font_px: f32,
    pub(super) color: Color,
    /// Whether the colour is that of the tracker's page, which is not exactly known.
    pub(super) is_default_color: bool,
    /// Colour of links.
    pub(super) link: Color,
    pub(super) fill: Option<Color>,
    /// Colour of the text stroke, if there is one.
    pub(super) stroke: Option<Color>,
    pub(super) is_stroked: bool,
    /// Whether the text has a shadow or an outline.
    pub(super) is_outlined: bool,
    /// Background of the text, of the nearest block, and of the page.
    pub(super) behind: Color,
    block_behind: Color,
    pub(super) page: Color,
    /// Alternative background.
    pub(super) perhaps_behind: Option<Color>,
    pub(super) own_background: bool,
    /// The product of `zoom` on the path from the root.
    pub(super) zoom: f32,
    /// `visibility: collapse`, which removes rows with all their content.
    pub(super) collapsed: bool,
    pub(super) space: TextSpace,
    pub(super) nowrap: bool,
    pub(super) rtl: bool,
    /// Width in pixels that is certainly available; 0 if unknown.
    pub(super) room: f32,
    /// The same for the clipping box.
    pub(super) clip_room: Option<f32>,
    pub(super) is_fixed_table: bool,
    /// The narrowest column of a table with fixed columns; 0 if unknown.
    pub(super) column_room: f32,
    /// Whether it is displaced from the normal flow.
    pub(super) displaced: bool,
    /// The element that a displaced one cannot leave.
    pub(super) confined_to: Option<u32>,
    /// The nearest positioned element.
    pub(super) positioned: Option<u32>,
    /// Whether it is painted above the text before it.
    pub(super) layered: bool,
    /// Whether its box may be smaller than its text.
    pub(super) shrunk: bool,
    /// Whether its text certainly leaves its box.
    pub(super) spills: bool,
    /// The box outside the normal flow that contains it.
    pub(super) afloat: Option<Afloat>,
    /// The nearest element with a layer of its own, and the outermost above all others.
    pub(super) stack: Option<u32>,
    pub(super) raised: Option<u32>,
    /// How far it is moved to the right, and up if negative, in pixels.
    pub(super) shift: f32,
    pub(super) rise: f32,
    /// The element of the clipping box, and how far that is moved.
    pub(super) clip_at: u32,
    pub(super) clip_shift: f32,
    pub(super) doubts: VisibilityIssues,
}

impl Computed {
    /// Initial values of a page.
    pub(super) const PAGE: Self = Self {
        gone: false,
        invisible: false,
        opacity: 1.0,
        font_px: 16.0,
        color: Color::BLACK,
        is_default_color: true,
        link: Color::LINK,
        fill: None,
        stroke: None,
        is_stroked: false,
        is_outlined: false,
        behind: Color::WHITE,
        block_behind: Color::WHITE,
        page: Color::WHITE,
        perhaps_behind: None,
        own_background: false,
        zoom: 1.0,
        collapsed: false,
        space: TextSpace::Collapse,
        nowrap: false,
        rtl: false,
        room: PAGE_WIDTH,
        clip_room: None,
        is_fixed_table: false,
        column_room: 0.0,
        displaced: false,
        confined_to: None,
        positioned: None,
        layered: false,
        shrunk: false,
        spills: false,
        afloat: None,
        stack: None,
        raised: None,
        shift: 0.0,
        rise: 0.0,
        clip_at: 0,
        clip_shift: 0.0,
        doubts: VisibilityIssues::NONE,
    };

    /// Whether everything below is hidden permanently.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Hides everything below permanently.
    pub(super) fn hide(&mut self) {
        self.gone = true;
    }

    /// An undeclared text colour: of a link, of `<font>`.
    pub(super) fn set_color(&mut self, color: Color) {
        self.color = color;
        self.is_default_color = false;
    }

    /// An undeclared background: of `bgcolor`, of `<mark>`.
    pub(super) fn paint(&mut self, color: Color, kind: BoxKind) {
        if color.alpha() <= 0.0 {
            return;
        }
        self.behind = color.over(self.behind);
        if kind != BoxKind::Inline {
            self.block_behind = self.behind;
        }
        if color.alpha() >= 1.0 {
            self.perhaps_behind = None;
        }
        self.own_background = true;
    }

    /// The `color` of `<font>`.
    pub(super) fn set_legacy_color(&mut self, value: &str) {
        if let Some(color) = Color::parse_legacy(value) {
            self.set_color(color);
        }
    }

    /// A `bgcolor`. Returns whether it is a colour.
    pub(super) fn paint_legacy(&mut self, value: &str, kind: BoxKind) -> bool {
        let color = Color::parse_legacy(value);
        color.into_iter().for_each(|color| self.paint(color, kind));
        color.is_some()
    }

    /// A dialog is in front of the page.
    pub(super) fn raise(&mut self) {
        self.displaced = true;
        self.confined_to = None;
        self.layered = true;
    }

    /// Declarations replace the colours of the element's name and attributes.
    pub(super) fn replace_usual(&mut self, inherited: &Self, slots: &Slots, role: Role) {
        if slots.get(Slot::Color) == Some(Value::Inherit) {
            self.color = inherited.color;
            self.is_default_color = inherited.is_default_color;
        }
        // Lists are indented by their padding, quotations by their margin.
        let is_list = matches!(role, Role::BulletList | Role::NumberedList);
        if slots.get(if is_list { Slot::PaddingLeft } else { Slot::MarginLeft }).is_some() {
            self.shift = inherited.shift;
        }
        if slots.get(Slot::FontSize).is_some() {
            self.font_px = inherited.font_px;
        }
        if slots.get(Slot::BackgroundColor).is_some() {
            self.behind = inherited.behind;
            self.block_behind = inherited.block_behind;
            self.perhaps_behind = inherited.perhaps_behind;
            self.own_background = inherited.own_background;
        }
    }

    /// The background of an invisible box, or of an inline one without size, is not painted; that
    /// of a table is not behind its caption, and that of a word not behind its ruby text.
    pub(super) fn leave_hidden_background(&mut self, around: &Self, name: &str, kind: BoxKind) {
        let is_painted = self.behind != around.behind;
        let is_flat = kind == BoxKind::Inline && self.font_px < UNREADABLE_PX;
        if is_painted && (self.invisible || is_flat) {
            self.perhaps_behind = Some(around.perhaps_behind.unwrap_or(around.behind));
        }
        if matches!(name, "caption" | "rt") && around.behind != around.page {
            self.perhaps_behind = Some(self.page);
        }
    }

    /// Starts the page: its background is behind everything.
    pub(super) fn begin_page(&mut self) {
        self.page = self.behind;
        self.block_behind = self.behind;
    }

    /// Applies an element's declarations.
    pub(super) fn apply(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        in_flex: bool,
        at: u32,
    ) -> (Flow, Impact) {
        if slots.is_empty() {
            self.apply_usual(kind, in_flex);
            return (Flow::default(), Impact::default());
        }
        let mut flow = Flow::default();
        let mut impact = Impact::default();
        if let Some(Value::Display(display)) = slots.get(Slot::Display) {
            flow.display = Some(display);
        }
        if flow.display == Some(Display::None) {
            self.gone = true;
            return (flow, impact);
        }
        self.note_doubts(slots);
        self.apply_text(slots);
        let position = self.position(slots);
        let floats = slots.flag(Slot::Float);
        let out_of_flow = position == Position::Absolute;
        flow.blockified = floats || out_of_flow;
        let kind = kind_of(kind, flow, in_flex);
        if kind == BoxKind::Contents {
            return (flow, impact);
        }
        self.apply_opacity(slots);
        self.apply_zoom(slots);
        self.leave_collapsed(kind);
        let mut frame = Frame::new(slots, self, kind);
        flow.tiny = frame.is_tiny();
        self.apply_place(slots, position, kind, in_flex, at);
        self.apply_margins(slots, kind, &mut impact);
        if !out_of_flow {
            impact.drags = self.drags(slots, kind, in_flex || floats);
            self.pulls(slots, kind, in_flex || floats, &mut impact);
        }
        self.doubt_in_clipped_flex(in_flex);
        self.apply_sizes(slots, kind, in_flex || flow.blockified, &mut frame);
        if (floats || in_flex) && frame.width.is_some_and(|width| width > PAGE_WIDTH) {
            // It leaves the page on the other side.
            self.doubts.add(VisibilityIssue::Moved);
        }
        self.apply_overflow(&frame, kind);
        self.apply_clips(slots, out_of_flow, kind);
        self.apply_background(slots, kind, flow.blockified, &frame, &mut impact);
        self.apply_effects(slots, kind, &mut impact);
        self.apply_layers(slots, position, in_flex, at);
        (flow, impact)
    }

    /// The same for an element without declarations, which is the common case.
    fn apply_usual(&mut self, kind: BoxKind, in_flex: bool) {
        let kind = kind_of(kind, Flow::default(), in_flex);
        self.doubt_in_clipped_flex(in_flex);
        if kind == BoxKind::Contents {
            return;
        }
        self.leave_line(kind, false);
        self.leave_collapsed(kind);
        match kind {
            BoxKind::Table | BoxKind::TablePart | BoxKind::Cell => self.share_table_room(),
            BoxKind::Inline => {}
            _ if in_flex => self.room = 0.0,
            _ => {}
        }
        self.layered |= kind == BoxKind::InlineBlock;
    }

    /// Inherited text properties.
    fn apply_text(&mut self, slots: &Slots) {
        let parent_font = self.font_px;
        match slots.get(Slot::FontSize) {
            Some(Value::Length(size)) => {
                self.font_px = size.font_size(parent_font);
                // Some browsers keep relative sizes readable.
                let is_relative = !matches!(size, Length::Px(_));
                if is_relative && self.font_px > 0.0 && self.font_px < UNREADABLE_PX {
                    self.doubts.add(VisibilityIssue::Sized);
                }
            }
            Some(Value::Initial) => self.font_px = 16.0,
            _ => {}
        }
        if self.font_px > 200.0 {
            self.doubts.add(VisibilityIssue::Sized);
        }
        if slots.has(bits([Slot::LineHeight, Slot::LetterSpacing, Slot::WordSpacing])) {
            self.apply_spacing(slots);
        }
        match slots.get(Slot::Visibility) {
            Some(Value::Flag(hidden)) => self.invisible = hidden,
            Some(Value::Initial) => self.invisible = false,
            _ => {}
        }
        match slots.get(Slot::Collapse) {
            Some(Value::Flag(collapsed)) => self.collapsed = collapsed,
            Some(Value::Initial) => self.collapsed = false,
            _ => {}
        }
        match slots.get(Slot::WhiteSpace) {
            Some(Value::Space(space, nowrap)) => (self.space, self.nowrap) = (space, nowrap),
            Some(Value::Initial) => (self.space, self.nowrap) = (TextSpace::Collapse, false),
            _ => {}
        }
        if let Some(Value::Space(space, _)) = slots.get(Slot::SpaceCollapse) {
            self.space = space;
        }
        self.nowrap |= slots.flag(Slot::NoWrap);
        match slots.get(Slot::Direction) {
            Some(Value::Flag(rtl)) => self.rtl = rtl,
            Some(Value::Initial) => self.rtl = false,
            _ => {}
        }
        self.apply_colors(slots);
    }

    fn apply_colors(&mut self, slots: &Slots) {
        match slots.get(Slot::Color) {
            Some(Value::Color(color)) => self.set_color(color),
            Some(Value::Initial) => self.set_color(Color::BLACK),
            _ => {}
        }
        match slots.get(Slot::TextFill) {
            Some(Value::Color(color)) => self.fill = Some(color),
            Some(Value::Initial | Value::CurrentColor) => self.fill = None,
            _ => {}
        }
        match slots.get(Slot::StrokeColor) {
            Some(Value::Color(color)) => self.stroke = Some(color),
            Some(Value::Initial | Value::CurrentColor) => self.stroke = None,
            _ => {}
        }
        self.is_stroked |= slots.flag(Slot::Stroke);
        for slot in [Slot::Stroke, Slot::TextShadow] {
            self.is_outlined |= slots.flag(slot);
        }
    }

    /// Applies every doubt; those that depend on the position are deferred.
    fn note_doubts(&mut self, slots: &Slots) {
        if !slots.has_doubts {
            return;
        }
        let depends = |slot: usize| {
            let depending = [
                Slot::Left,
                Slot::Top,
                Slot::Right,
                Slot::Bottom,
                Slot::ZIndex,
                Slot::Clip,
                Slot::Outline,
                Slot::BoxShadow,
            ];
            depending.iter().any(|known| *known as usize == slot)
        };
        let known = slots.known().filter(|(slot, _)| !depends(*slot));
        for doubt in known.filter_map(|(_, value)| value.doubt()) {
            self.doubts.add(doubt);
        }
        for doubt in slots.doubts() {
            self.doubts.add(doubt);
        }
    }

    pub(super) fn note_doubt(&mut self, value: Option<Value>) {
        if let Some(doubt) = value.and_then(Value::doubt) {
            self.doubts.add(doubt);
        }
    }

    fn apply_opacity(&mut self, slots: &Slots) {
        match slots.get(Slot::Opacity) {
            Some(Value::Number(opacity)) => {
                self.layered |= opacity < 1.0;
                self.opacity *= opacity.clamp(0.0, 1.0);
            }
            Some(Value::Inherit) => self.opacity *= self.opacity,
            _ => {}
        }
        // An animation can make it opaque.
        if self.opacity < UNSEEN_OPACITY && !self.doubts.has(VisibilityIssue::Animated) {
            self.gone = true;
        }
    }

    fn apply_background(
        &mut self,
        slots: &Slots,
        kind: BoxKind,
        is_out: bool,
        frame: &Frame,
        impact: &mut Impact,
    ) {
        self.leave_line(kind, is_out);
        for slot in [Slot::BackgroundImage, Slot::BackgroundClip, Slot::BackgroundColor] {
            if let Some(Value::Doubt(doubt)) = slots.get(slot) {
                self.doubts.add(doubt);
                impact.paints = true;
            }
        }
        let color = match slots.get(Slot::BackgroundColor) {
            Some(Value::Color(color)) => color,
            Some(Value::CurrentColor) => self.color,
            Some(Value::Inherit) => {
                self.doubts.add(VisibilityIssue::Painted);
                return;
            }
            _ => return,
        };
        impact.paints |= color.alpha() * self.opacity > 0.05;
        let below = self.behind;
        self.paint(color, kind);
        let is_partial = frame.height.is_some() || frame.width.is_some_and(|width| width < 200.0);
        if is_partial
            && kind != BoxKind::Inline
            && kind != BoxKind::Cell
            && self.behind.distance(below) > 0.05
        {
            self.perhaps_behind = Some(below);
        }
    }

    /// Possible background of a box other than that of its line.
    fn leave_line(&mut self, kind: BoxKind, is_out: bool) {
        if kind != BoxKind::Inline && self.behind != self.block_behind {
            // The background of an inline element is not behind the blocks in it.
            self.perhaps_behind = Some(self.block_behind);
        }
        if (is_out || self.displaced) && self.behind != self.page {
            self.perhaps_behind = Some(self.page);
        }
    }

    fn apply_effects(&mut self, slots: &Slots, kind: BoxKind, impact: &mut Impact) {
        for slot in [Slot::Outline, Slot::BoxShadow, Slot::TextShadow] {
            impact.reaches_out |= matches!(slots.get(slot), Some(Value::Doubt(_)));
        }
        impact.paints |= slots.flag(Slot::WideBorder);
        for doubt in slots.doubts() {
            self.displaced |= matches!(
                doubt,
                VisibilityIssue::Moved | VisibilityIssue::Animated | VisibilityIssue::UnknownStyle
            );
            self.layered = true;
            impact.reaches_out |= doubt == VisibilityIssue::Covered;
            impact.paints |=
                matches!(doubt, VisibilityIssue::Painted | VisibilityIssue::UnknownStyle);
            self.confined_to = None;
        }
        self.layered |= kind == BoxKind::InlineBlock;
    }
}
