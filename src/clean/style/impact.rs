//! Possible effects of declarations on text, regardless of their target.

use super::color::Color;
use super::declaration::{Declaration, Display, Overflow, Position, Property, Slot, Value};
use super::layout::DRAGGING;
use super::length::Length;

/// Colours nearer than this to the page or its text could hide something.
const SAFE_DISTANCE: f32 = 0.4;

/// A generated box of more pixels takes most of a line.
const WIDE: f32 = 400.0;

/// Effects of generated boxes on text.
#[derive(Debug, Default)]
pub(super) struct Generated {
    /// One covers text.
    pub(super) covers: bool,
    /// One moves the text after it away.
    pub(super) drags: bool,
    /// One is so wide that it pushes the text after it away.
    pub(super) widens: bool,
}

impl Generated {
    pub(super) fn note(&mut self, declarations: &[Declaration]) {
        self.covers |= covers(declarations);
        self.drags |= drags(declarations);
        self.widens |= widens(declarations);
    }
}

/// Whether any of these could hide text, if they applied.
pub(super) fn could_hide(declarations: &[Declaration]) -> bool {
    declarations.iter().any(|declaration| {
        let Property::Known(slot) = declaration.property else {
            return matches!(declaration.value, Value::Doubt(_));
        };
        match (slot, declaration.value) {
            (_, Value::Doubt(_)) => true,
            (_, Value::Inherit | Value::Initial) => {
                matches!(slot, Slot::Color | Slot::TextFill | Slot::BackgroundColor | Slot::Display)
            }
            (Slot::Color | Slot::TextFill, Value::Color(color)) => {
                color.over(Color::WHITE).distance(Color::WHITE) < SAFE_DISTANCE
            }
            (Slot::BackgroundColor, Value::Color(color)) => {
                color.over(Color::WHITE).distance(Color::BLACK) < SAFE_DISTANCE
            }
            (Slot::Display, Value::Display(display)) => display == Display::None,
            (Slot::Visibility | Slot::ContentVisibility | Slot::Clip, Value::Flag(hides)) => hides,
            (Slot::Opacity, Value::Number(opacity)) => opacity < 0.5,
            (Slot::FontSize, Value::Length(length)) => {
                !(6.0..=200.0).contains(&length.font_size(16.0))
            }
            (Slot::Position, Value::Position(position)) => position != Position::Static,
            (Slot::OverflowX | Slot::OverflowY, Value::Overflow(overflow)) => {
                overflow == Overflow::Clips
            }
            (Slot::LineHeight, Value::Length(length)) => length.pixels(16.0, 16.0) < 8.0,
            (Slot::Direction, Value::Flag(rtl)) => rtl,
            (_, Value::Length(length)) => is_far(slot, length),
            _ => false,
        }
    })
}

fn is_far(slot: Slot, length: Length) -> bool {
    let pixels = length.pixels(16.0, 900.0);
    match slot {
        Slot::Width | Slot::Height | Slot::MaxWidth | Slot::MaxHeight => {
            !(20.0..=2600.0).contains(&pixels)
        }
        _ => !(-5.0..=400.0).contains(&pixels),
    }
}

/// Whether a generated box with these covers other text.
fn covers(declarations: &[Declaration]) -> bool {
    let is_displaced =
        declarations.iter().any(|declaration| match (declaration.property, declaration.value) {
            (Property::Known(Slot::Position), Value::Position(position)) => {
                position != Position::Static
            }
            (
                Property::Known(
                    Slot::MarginTop | Slot::MarginBottom | Slot::MarginLeft | Slot::MarginRight,
                ),
                Value::Length(length),
            ) => length.pixels(16.0, 900.0) < 0.0,
            (Property::Known(Slot::TranslateX | Slot::TranslateY), Value::Length(_)) => true,
            (_, Value::Doubt(_)) => true,
            _ => false,
        });
    is_displaced && declarations.iter().any(paints)
}

/// Whether a generated box with these moves the text after it away.
fn drags(declarations: &[Declaration]) -> bool {
    let is_margin = |property: Property| {
        matches!(
            property,
            Property::Known(
                Slot::MarginTop | Slot::MarginBottom | Slot::MarginLeft | Slot::MarginRight
            )
        )
    };
    declarations.iter().any(|declaration| match declaration.value {
        Value::Length(length) => {
            is_margin(declaration.property) && length.pixels(16.0, 900.0) < DRAGGING
        }
        _ => false,
    })
}

/// Whether a generated box with these takes most of a line.
fn widens(declarations: &[Declaration]) -> bool {
    declarations.iter().any(|declaration| match (declaration.property, declaration.value) {
        (
            Property::Known(
                Slot::Width
                | Slot::MarginLeft
                | Slot::MarginRight
                | Slot::PaddingLeft
                | Slot::PaddingRight,
            ),
            Value::Length(length),
        ) => !matches!(length, Length::Share(_)) && length.pixels(16.0, 0.0) > WIDE,
        _ => false,
    })
}

/// Whether it paints where text could be.
fn paints(declaration: &Declaration) -> bool {
    match (declaration.property, declaration.value) {
        (Property::Known(Slot::BackgroundColor), Value::Color(color)) => color.alpha() > 0.1,
        (Property::Known(Slot::BackgroundColor), Value::CurrentColor) => true,
        (_, Value::Doubt(_)) => true,
        _ => false,
    }
}
