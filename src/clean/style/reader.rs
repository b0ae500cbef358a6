//! Reads one declaration: evaluated values go to their slots, all others are harmless or doubtful.

use super::declaration::{Declaration, Overflow, Property, Slot, Value};
use super::property::without_vendor;
use super::text::Text;
use super::value::{
    color, direction, display, flag, font_size, line_height, opacity, position, spacing,
    text_indent, visibility, white_space, z_index,
};
use crate::model::VisibilityIssue;

pub(super) struct Reader<'a> {
    pub(super) important: bool,
    pub(super) found: &'a mut Vec<Declaration>,
}

impl Reader<'_> {
    pub(super) fn push(&mut self, slot: Slot, value: Value) {
        let property = Property::Known(slot);
        self.found.push(Declaration { property, value, important: self.important });
    }

    /// A property without a slot: doubtful, or reset to a harmless value.
    pub(super) fn other(&mut self, name: &str, doubt: Option<VisibilityIssue>) {
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let value = doubt.map_or(Value::Initial, Value::Doubt);
        let property = Property::Other(hash | 0x100);
        self.found.push(Declaration { property, value, important: self.important });
    }

    /// A keyword of every property, a computed value, or `None` for the property's own values.
    pub(super) fn common(text: &Text<'_>, inherits: bool) -> Option<Value> {
        match &*text.text {
            "inherit" => Some(Value::Inherit),
            "initial" => Some(Value::Initial),
            "unset" | "revert" if inherits => Some(Value::Inherit),
            "unset" | "revert" => Some(Value::Initial),
            "revert-layer" => Some(Value::Doubt(VisibilityIssue::UnknownStyle)),
            _ if text.is_computed() => Some(Value::Doubt(VisibilityIssue::Computed)),
            _ => None,
        }
    }

    /// Pushes the common value or the result of `own`; nothing if it is invalid.
    pub(super) fn one(
        &mut self,
        slot: Slot,
        inherits: bool,
        text: &Text<'_>,
        own: impl Fn(&str) -> Option<Value>,
    ) {
        if let Some(value) = Self::common(text, inherits).or_else(|| own(&text.text)) {
            self.push(slot, value);
        }
    }

    pub(super) fn property(&mut self, name: &str, text: &Text<'_>) {
        match without_vendor(name) {
            "display" => self.one(Slot::Display, false, text, display),
            "visibility" => {
                self.one(Slot::Visibility, true, text, visibility);
                self.one(Slot::Collapse, true, text, |value| {
                    flag(value, &["collapse"], &["visible", "hidden"])
                });
            }
            "opacity" => self.one(Slot::Opacity, false, text, opacity),
            "color" => self.one(Slot::Color, true, text, color),
            "text-fill-color" => self.one(Slot::TextFill, true, text, color),
            "font-size" => self.one(Slot::FontSize, true, text, font_size),
            "font" => self.font(text),
            "line-height" => self.one(Slot::LineHeight, true, text, line_height),
            "letter-spacing" => self.one(Slot::LetterSpacing, true, text, spacing),
            "word-spacing" => self.one(Slot::WordSpacing, true, text, spacing),
            "white-space" => self.one(Slot::WhiteSpace, true, text, white_space),
            // Whether lines wrap is declared elsewhere.
            "white-space-collapse" | "text-space-collapse" => {
                self.one(Slot::SpaceCollapse, true, text, white_space);
            }
            "float" => {
                self.one(Slot::Float, false, text, |value| {
                    flag(value, &["left", "right", "inline-start", "inline-end"], &["none"])
                });
            }
            "position" => {
                self.one(Slot::Position, false, text, position);
                self.one(Slot::Fixed, false, text, |value| {
                    flag(value, &["fixed"], &["static", "relative", "absolute"])
                });
            }
            "text-wrap" | "text-wrap-mode" => {
                self.one(Slot::NoWrap, true, text, |value| {
                    flag(value, &["nowrap"], &["wrap", "balance", "pretty", "stable", "auto"])
                });
            }
            "z-index" => self.one(Slot::ZIndex, false, text, z_index),
            "direction" => self.one(Slot::Direction, true, text, direction),
            "text-indent" => self.one(Slot::TextIndent, true, text, text_indent),
            "table-layout" => {
                self.one(Slot::FixedTable, false, text, |value| flag(value, &["fixed"], &["auto"]));
            }
            "all" => self.all(text),
            "content-visibility" => {
                self.one(Slot::ContentVisibility, false, text, |value| match value {
                    // What leaves the box is not painted, even if the box is.
                    "auto" => Some(Value::Overflow(Overflow::Clips)),
                    _ => flag(value, &["hidden"], &["visible"]),
                });
            }
            "isolation" if text.text == "isolate" => self.push(Slot::Stacks, Value::Flag(true)),
            "will-change" if text.text != "auto" => self.push(Slot::Stacks, Value::Flag(true)),
            "isolation" | "will-change" => {}
            bare => self.paint_property(bare, name, text),
        }
    }

    fn paint_property(&mut self, bare: &str, name: &str, text: &Text<'_>) {
        match bare {
            "background" => self.background(text),
            "background-color" => self.one(Slot::BackgroundColor, false, text, color),
            "background-image" => self.picture(text),
            "background-clip" => self.background_clip(text),
            "text-decoration" | "text-decoration-line" => self.text_decoration(text),
            "text-shadow" => self.shadow(Slot::TextShadow, text, 3.0),
            "box-shadow" => self.shadow(Slot::BoxShadow, text, 8.0),
            "text-stroke" | "text-stroke-width" => self.stroke(text),
            "text-stroke-color" => self.one(Slot::StrokeColor, true, text, color),
            "clip" => self.clip(text),
            "clip-path" => self.clip_path(text),
            "transform" | "translate" => self.movement(name, text),
            "border-image" | "border-image-source" => self.border_image(text),
            _ => self.box_property(name, text),
        }
    }

    pub(super) fn font(&mut self, text: &Text<'_>) {
        if let Some(common) = Self::common(text, true) {
            self.push(Slot::FontSize, common);
            self.push(Slot::LineHeight, common);
            return;
        }
        let words = text.words();
        let Some(at) = words.iter().position(|word| font_size(word).is_some()) else { return };
        let has_height = text.text.contains('/');
        if words.len() <= at + 1 + usize::from(has_height) || text.text.ends_with([',', '/']) {
            // Without a family it is invalid.
            return;
        }
        let is_understood = words[..at].iter().all(|word| is_font_keyword(word));
        match font_size(words[at]) {
            Some(size) if is_understood => self.push(Slot::FontSize, size),
            _ => self.push(Slot::FontSize, Value::Doubt(VisibilityIssue::Sized)),
        }
        let height = words.get(at + 1).filter(|_| has_height).and_then(|word| line_height(word));
        self.push(Slot::LineHeight, height.unwrap_or(Value::Initial));
    }

    /// `all` sets every property of the element but its direction.
    fn all(&mut self, text: &Text<'_>) {
        let (inherited, own) = match &*text.text {
            "initial" => (Value::Initial, Value::Initial),
            "unset" | "revert" => (Value::Inherit, Value::Initial),
            "inherit" | "revert-layer" => {
                self.other("all", Some(VisibilityIssue::UnknownStyle));
                return;
            }
            _ if text.is_computed() => {
                self.other("all", Some(VisibilityIssue::Computed));
                return;
            }
            _ => return,
        };
        INHERITED.into_iter().for_each(|slot| self.push(slot, inherited));
        OWN.into_iter().for_each(|slot| self.push(slot, own));
    }

    /// Word writes `mso-list:l0 level2 lfo1` on an item and `mso-list:Ignore` on its marker.
    pub(super) fn word_list(&mut self, value: &str) {
        if value == "ignore" {
            self.push(Slot::WordMarker, Value::Flag(true));
        }
        let level = value
            .split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("level")?.parse::<u8>().ok());
        if let Some(level) = level {
            self.push(Slot::WordListLevel, Value::Number(f32::from(level.clamp(1, 9))));
        }
    }
}

/// Evaluated properties that children inherit.
const INHERITED: [Slot; 14] = [
    Slot::Visibility,
    Slot::Collapse,
    Slot::NoWrap,
    Slot::Color,
    Slot::TextFill,
    Slot::Stroke,
    Slot::StrokeColor,
    Slot::TextShadow,
    Slot::FontSize,
    Slot::LineHeight,
    Slot::LetterSpacing,
    Slot::WordSpacing,
    Slot::WhiteSpace,
    Slot::TextIndent,
];

/// Evaluated properties that children do not inherit.
const OWN: [Slot; 33] = [
    Slot::Display,
    Slot::Opacity,
    Slot::BackgroundColor,
    Slot::BackgroundImage,
    Slot::BackgroundClip,
    Slot::Float,
    Slot::Position,
    Slot::Top,
    Slot::Right,
    Slot::Bottom,
    Slot::Left,
    Slot::ZIndex,
    Slot::Width,
    Slot::Height,
    Slot::MaxWidth,
    Slot::MaxHeight,
    Slot::MarginTop,
    Slot::MarginRight,
    Slot::MarginBottom,
    Slot::MarginLeft,
    Slot::PaddingTop,
    Slot::PaddingRight,
    Slot::PaddingBottom,
    Slot::PaddingLeft,
    Slot::OverflowX,
    Slot::OverflowY,
    Slot::Outline,
    Slot::BoxShadow,
    Slot::Clip,
    Slot::ClipPath,
    Slot::TranslateX,
    Slot::TranslateY,
    Slot::ContentVisibility,
];

/// Keywords that precede the size in `font`.
fn is_font_keyword(word: &str) -> bool {
    matches!(word, "normal" | "italic" | "oblique" | "bold" | "bolder" | "lighter" | "small-caps")
        || word.ends_with("condensed")
        || word.ends_with("expanded")
        || word.parse::<u16>().is_ok_and(|weight| (1..=1000).contains(&weight))
}
