//! The declared values of one element, and the resulting box.

use super::computed::Computed;
use super::declaration::{Declaration, Display, Overflow, Property, SLOTS, Slot, Value};
use super::length::{Length, USUAL_FONT};
use crate::model::VisibilityIssue;

/// The default kind of box of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoxKind {
    Inline,
    InlineBlock,
    Block,
    Table,
    TablePart,
    Cell,
    Contents,
}

/// How an element flows, as far as its style determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::clean) struct Flow {
    /// The declared display, if any.
    pub(in crate::clean) display: Option<Display>,
    /// Floating, or positioned absolutely.
    pub(in crate::clean) blockified: bool,
    /// Whether the box is only a few pixels in size.
    pub(in crate::clean) tiny: bool,
}

impl Flow {
    /// Whether an inline element is displayed as a block.
    pub(in crate::clean) fn is_block(self, in_flex: bool) -> bool {
        in_flex
            || self.blockified
            || matches!(self.display, Some(Display::Block | Display::Flex | Display::TablePart))
    }

    /// Whether a block element is displayed inline.
    pub(in crate::clean) fn is_inline(self) -> bool {
        !self.blockified
            && matches!(
                self.display,
                Some(
                    Display::Inline
                        | Display::InlineBlock
                        | Display::InlineFlex
                        | Display::TableCell
                        | Display::Contents
                )
            )
    }
}

/// The declared values of one element; the last declaration of a property counts.
#[derive(Debug)]
pub(super) struct Slots {
    /// Only values whose bit in `declared` is set count.
    known: [Value; SLOTS],
    declared: u64,
    /// The font size of the page, in pixels.
    pub(super) page_font: f32,
    others: Vec<(u32, Value)>,
    /// Whether any declaration was doubtful.
    pub(super) has_doubts: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            known: [Value::Initial; SLOTS],
            declared: 0,
            page_font: USUAL_FONT,
            others: Vec::new(),
            has_doubts: false,
        }
    }
}

impl Slots {
    /// Resets it for the next element.
    pub(super) fn clear(&mut self) {
        self.declared = 0;
        self.others.clear();
        self.has_doubts = false;
    }

    /// Applies a declaration over earlier ones.
    pub(super) fn set(&mut self, declaration: &Declaration) {
        self.has_doubts |= declaration.value.doubt().is_some();
        match declaration.property {
            Property::Known(slot) => {
                self.known[slot as usize] = match declaration.value {
                    Value::Length(Length::Rem(factor)) => {
                        Value::Length(Length::Px(factor * self.page_font))
                    }
                    value => value,
                };
                self.declared |= bit(slot);
            }
            Property::Other(name) => {
                self.others.retain(|(known, _)| *known != name);
                self.others.push((name, declaration.value));
            }
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Value> {
        self.has(bit(slot)).then(|| self.known[slot as usize])
    }

    /// Whether any of these is declared.
    pub(super) fn has(&self, bits: u64) -> bool {
        self.declared & bits != 0
    }

    /// All declared values of evaluated properties.
    pub(super) fn known(&self) -> impl Iterator<Item = (usize, Value)> {
        let declared = self.declared;
        let is_declared = move |(slot, _): &(usize, Value)| declared & (1 << slot) != 0;
        self.known.iter().copied().enumerate().filter(is_declared)
    }

    pub(super) fn flag(&self, slot: Slot) -> bool {
        self.get(slot) == Some(Value::Flag(true))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.declared == 0 && self.others.is_empty()
    }

    pub(super) fn length(&self, slot: Slot) -> Option<Length> {
        match self.get(slot)? {
            Value::Length(length) => Some(length),
            _ => None,
        }
    }

    pub(super) fn doubts(&self) -> impl Iterator<Item = VisibilityIssue> {
        self.others.iter().filter_map(|(_, value)| value.doubt())
    }
}

const _: () = assert!(SLOTS <= u64::BITS as usize, "each slot has a bit");

const fn bit(slot: Slot) -> u64 {
    1 << slot as u8
}

/// The bits of several slots.
pub(super) const fn bits<const N: usize>(slots: [Slot; N]) -> u64 {
    let (mut all, mut at) = (0, 0);
    while at < N {
        all |= bit(slots[at]);
        at += 1;
    }
    all
}

/// Effect of an element on the text of others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Impact {
    /// It paints more than its letters.
    pub(super) paints: bool,
    /// It extends beyond its box: an outline, a shadow.
    pub(super) reaches_out: bool,
    /// It moves its neighbours over one another.
    pub(super) pulls: bool,
    /// It moves the text after it far away.
    pub(super) drags: Option<Drag>,
    /// The negative margins beside it in its line, and above and below it, in pixels.
    pub(super) pull_back: f32,
    pub(super) pull_up: f32,
    /// It is part of a line.
    pub(super) in_line: bool,
}

/// How far a negative margin reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drag {
    /// To the end of the block around it.
    Line,
    /// To the end of the page.
    Page,
}

/// The declared size of one element's box.
pub(super) struct Frame {
    pub(super) width: Option<f32>,
    pub(super) height: Option<f32>,
    pub(super) overflow: Overflow,
    pub(super) has_unknown_size: bool,
    /// Whether it is a cell that is narrower than its words.
    pub(super) is_squeezed: bool,
    /// Whether it may be larger than its declared size.
    pub(super) is_padded: bool,
}

/// Properties that affect the size of a box.
const FRAME: u64 = bits([
    Slot::OverflowX,
    Slot::OverflowY,
    Slot::Width,
    Slot::Height,
    Slot::MaxWidth,
    Slot::MaxHeight,
    Slot::PaddingRight,
    Slot::PaddingBottom,
    Slot::ClipPath,
    Slot::ContentVisibility,
]);

impl Frame {
    /// Nothing is declared.
    const FREE: Self = Self {
        width: None,
        height: None,
        overflow: Overflow::Visible,
        has_unknown_size: false,
        is_squeezed: false,
        is_padded: false,
    };

    pub(super) fn new(slots: &Slots, style: &Computed, kind: BoxKind) -> Self {
        if !slots.has(FRAME) {
            return Self::FREE;
        }
        let clips = Some(Value::Overflow(Overflow::Clips));
        let is_clipped = [Slot::ClipPath, Slot::ContentVisibility].map(|slot| slots.get(slot));
        let overflow = match (slots.get(Slot::OverflowX), slots.get(Slot::OverflowY)) {
            _ if is_clipped.contains(&clips) => Overflow::Clips,
            (None, None) => Overflow::Visible,
            (Some(Value::Overflow(Overflow::Clips)), _)
            | (_, Some(Value::Overflow(Overflow::Clips))) => Overflow::Clips,
            (Some(Value::Overflow(Overflow::Scrolls)), _)
            | (_, Some(Value::Overflow(Overflow::Scrolls))) => Overflow::Scrolls,
            (Some(Value::Inherit | Value::Doubt(_)), _)
            | (_, Some(Value::Inherit | Value::Doubt(_))) => Overflow::Clips,
            _ => Overflow::Visible,
        };
        let size = |slots_of: [Slot; 2], whole: f32| {
            let sizes = slots_of.map(|slot| match slots.length(slot) {
                Some(Length::Share(_)) if whole <= 0.0 => None,
                Some(length) => Some(length.pixels(style.font_px, whole)),
                None => None,
            });
            match sizes {
                [Some(one), Some(other)] => Some(one.min(other)),
                [one, other] => one.or(other),
            }
        };
        let is_unknown = |slot: Slot| {
            let is_share = matches!(slots.length(slot), Some(Length::Share(_)));
            let is_height = matches!(slot, Slot::Height | Slot::MaxHeight);
            matches!(slots.get(slot), Some(Value::Doubt(_) | Value::Inherit))
                || (is_share && (is_height || style.room <= 0.0))
        };
        let has_unknown_size = [Slot::Width, Slot::Height, Slot::MaxWidth, Slot::MaxHeight]
            .into_iter()
            .any(is_unknown);
        let applies = kind != BoxKind::Inline;
        Self {
            width: size([Slot::Width, Slot::MaxWidth], style.room).filter(|_| applies),
            height: size([Slot::Height, Slot::MaxHeight], 0.0).filter(|_| applies),
            overflow,
            has_unknown_size,
            is_squeezed: false,
            is_padded: slots.flag(Slot::MinSize)
                || [Slot::PaddingRight, Slot::PaddingBottom].into_iter().any(|slot| {
                    slots.get(slot).is_some_and(|value| value != Value::Length(Length::Px(0.0)))
                }),
        }
    }

    pub(super) fn is_tiny(&self) -> bool {
        let nothing = |size: Option<f32>| size.is_some_and(|size| size <= 0.0);
        let speck = |size: Option<f32>| size.is_some_and(|size| size <= 1.0);
        nothing(self.width) || nothing(self.height) || (speck(self.width) && speck(self.height))
    }
}

/// The kind of box by its default and its flow.
pub(super) fn kind_of(usual: BoxKind, flow: Flow, in_flex: bool) -> BoxKind {
    let declared = match flow.display {
        Some(Display::Inline) => BoxKind::Inline,
        Some(Display::InlineBlock | Display::InlineFlex) => BoxKind::InlineBlock,
        Some(Display::TableCell) => BoxKind::Cell,
        Some(Display::TablePart) => BoxKind::TablePart,
        Some(Display::Contents) => return BoxKind::Contents,
        Some(Display::Block | Display::Flex | Display::None) => BoxKind::Block,
        None => usual,
    };
    match declared {
        BoxKind::Inline | BoxKind::Cell | BoxKind::TablePart if flow.blockified || in_flex => {
            BoxKind::Block
        }
        other => other,
    }
}
