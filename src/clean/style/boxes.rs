//! The declared values of one element, and the box they make.

use super::computed::Computed;
use super::declaration::{Declaration, Display, Overflow, Property, SLOTS, Slot, Value};
use super::length::Length;
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
    pub(super) known: [Option<Value>; SLOTS],
    others: Vec<(u32, Value)>,
    is_empty: bool,
    /// Was any of the declarations doubtful?
    pub(super) has_doubts: bool,
}

impl Default for Slots {
    fn default() -> Self {
        Self { known: [None; SLOTS], others: Vec::new(), is_empty: true, has_doubts: false }
    }
}

impl Slots {
    /// Forgets everything, to be used for the next element.
    pub(super) fn clear(&mut self) {
        if !self.is_empty {
            self.known = [None; SLOTS];
            self.others.clear();
            self.is_empty = true;
            self.has_doubts = false;
        }
    }

    /// Takes a declaration over those before it.
    pub(super) fn set(&mut self, declaration: &Declaration) {
        self.is_empty = false;
        self.has_doubts |= declaration.value.doubt().is_some();
        match declaration.property {
            Property::Known(slot) => self.known[slot as usize] = Some(declaration.value),
            Property::Other(name) => {
                self.others.retain(|(known, _)| *known != name);
                self.others.push((name, declaration.value));
            }
        }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<Value> {
        self.known[slot as usize]
    }

    pub(super) fn flag(&self, slot: Slot) -> bool {
        self.get(slot) == Some(Value::Flag(true))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
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

impl Frame {
    pub(super) fn new(slots: &Slots, style: &Computed, kind: BoxKind) -> Self {
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
