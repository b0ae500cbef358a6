//! The declared values of one element, and the box they make.

use super::computed::Computed;
use super::declaration::{Declaration, Display, Overflow, Property, SLOTS, Slot, Value};
use super::length::{Length, USUAL_FONT};
use crate::model::Doubt;

/// The kind of box an element makes when nothing else is declared.
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

/// How an element flows, as far as its style has a say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::clean) struct Flow {
    /// The declared display, if any.
    pub(in crate::clean) display: Option<Display>,
    /// Taken out of the line: floating, or placed absolutely.
    pub(in crate::clean) blockified: bool,
    /// Is the box no bigger than a speck?
    pub(in crate::clean) tiny: bool,
}

impl Flow {
    /// Does an element of the inline kind stand on lines of its own?
    pub(in crate::clean) fn is_block(self, in_flex: bool) -> bool {
        in_flex
            || self.blockified
            || matches!(self.display, Some(Display::Block | Display::Flex | Display::TablePart))
    }

    /// Does an element of the block kind stand in the line?
    pub(in crate::clean) fn is_inline(self) -> bool {
        !self.blockified
            && matches!(
                self.display,
                Some(
                    Display::Inline | Display::InlineBlock | Display::TableCell | Display::Contents
                )
            )
    }
}

/// The declared values of one element; the last word on each property counts.
#[derive(Debug)]
pub(super) struct Slots {
    /// The values; only those of which the bit in `declared` is set count.
    known: [Value; SLOTS],
    declared: u64,
    /// The font size of the page, in pixels.
    pub(super) page_font: f32,
    others: Vec<(u32, Value)>,
    /// Was any of the declarations doubtful?
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
    /// Forgets everything, to be used for the next element.
    pub(super) fn clear(&mut self) {
        self.declared = 0;
        self.others.clear();
        self.has_doubts = false;
    }

    /// Takes a declaration over those before it.
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

    /// Is any of these declared?
    pub(super) fn has(&self, bits: u64) -> bool {
        self.declared & bits != 0
    }

    /// Everything that is declared about properties we evaluate.
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

    pub(super) fn doubts(&self) -> impl Iterator<Item = Doubt> {
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

/// What an element does to the text of others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Impact {
    /// It paints more than its letters.
    pub(super) paints: bool,
    /// It reaches beyond its box: an outline, a shadow.
    pub(super) reaches_out: bool,
    /// It pulls its neighbours over one another.
    pub(super) pulls: bool,
}

/// The size of one element's box, as far as declared.
pub(super) struct Frame {
    pub(super) width: Option<f32>,
    pub(super) height: Option<f32>,
    pub(super) overflow: Overflow,
    pub(super) has_unknown_size: bool,
    pub(super) is_padded: bool,
}

/// What says something about the size of a box.
const FRAME: u64 = bits([
    Slot::OverflowX,
    Slot::OverflowY,
    Slot::Width,
    Slot::Height,
    Slot::MaxWidth,
    Slot::MaxHeight,
    Slot::PaddingRight,
    Slot::PaddingBottom,
]);

impl Frame {
    /// One of which nothing is declared.
    const FREE: Self = Self {
        width: None,
        height: None,
        overflow: Overflow::Visible,
        has_unknown_size: false,
        is_padded: false,
    };

    pub(super) fn new(slots: &Slots, style: &Computed, kind: BoxKind) -> Self {
        if !slots.has(FRAME) {
            return Self::FREE;
        }
        let overflow = match (slots.get(Slot::OverflowX), slots.get(Slot::OverflowY)) {
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
            is_padded: [Slot::PaddingRight, Slot::PaddingBottom].into_iter().any(|slot| {
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

pub(super) fn kind_of(usual: BoxKind, flow: Flow, in_flex: bool) -> BoxKind {
    let declared = match flow.display {
        Some(Display::Inline) => BoxKind::Inline,
        Some(Display::InlineBlock) => BoxKind::InlineBlock,
        Some(Display::TableCell) => BoxKind::Cell,
        Some(Display::TablePart) => BoxKind::TablePart,
        Some(Display::Contents) => return BoxKind::Contents,
        Some(Display::Block | Display::Flex | Display::None) => BoxKind::Block,
        None => usual,
    };
    match declared {
        BoxKind::Inline if flow.blockified || in_flex => BoxKind::Block,
        other => other,
    }
}
