//! Declarations about boxes: sizes, margins, overflow, and properties that hide only with unusual
//! values.

use super::declaration::{Slot, Value};
use super::length::Length;
use super::property;
use super::reader::Reader;
use super::text::{Text, words};
use super::value::{
    is_plain_string, max_size, number, offset, overflow, padding, size, small_lengths,
};
use crate::model::VisibilityIssue;

/// Cells may be this far from each other, in pixels.
const WIDE_SPACING: f32 = 50.0;

impl Reader<'_> {
    pub(super) fn box_property(&mut self, name: &str, text: &Text<'_>) {
        let sides = |prefix: &str| match prefix {
            "margin" => [Slot::MarginTop, Slot::MarginRight, Slot::MarginBottom, Slot::MarginLeft],
            "padding" => {
                [Slot::PaddingTop, Slot::PaddingRight, Slot::PaddingBottom, Slot::PaddingLeft]
            }
            _ => [Slot::Top, Slot::Right, Slot::Bottom, Slot::Left],
        };
        match name {
            "width" => self.one(Slot::Width, false, text, size),
            "height" => self.one(Slot::Height, false, text, size),
            "max-width" => self.one(Slot::MaxWidth, false, text, max_size),
            "max-height" => self.one(Slot::MaxHeight, false, text, max_size),
            "top" => self.one(Slot::Top, false, text, offset),
            "right" => self.one(Slot::Right, false, text, offset),
            "bottom" => self.one(Slot::Bottom, false, text, offset),
            "left" => self.one(Slot::Left, false, text, offset),
            "margin-top" => self.one(Slot::MarginTop, false, text, offset),
            "margin-right" => self.one(Slot::MarginRight, false, text, offset),
            "margin-bottom" => self.one(Slot::MarginBottom, false, text, offset),
            "margin-left" => self.one(Slot::MarginLeft, false, text, offset),
            "padding-top" => self.one(Slot::PaddingTop, false, text, padding),
            "padding-right" => self.one(Slot::PaddingRight, false, text, padding),
            "padding-bottom" => self.one(Slot::PaddingBottom, false, text, padding),
            "padding-left" => self.one(Slot::PaddingLeft, false, text, padding),
            "padding" => self.four(sides(name), text, padding),
            "margin" | "inset" => self.four(sides(name), text, offset),
            "margin-inline" => self.two([Slot::MarginLeft, Slot::MarginRight], text, offset),
            "margin-block" => self.two([Slot::MarginTop, Slot::MarginBottom], text, offset),
            "padding-inline" => self.two([Slot::PaddingLeft, Slot::PaddingRight], text, padding),
            "padding-block" => self.two([Slot::PaddingTop, Slot::PaddingBottom], text, padding),
            "inset-inline" => self.two([Slot::Left, Slot::Right], text, offset),
            "inset-block" => self.two([Slot::Top, Slot::Bottom], text, offset),
            "overflow" => self.overflow(text),
            "overflow-x" => self.one(Slot::OverflowX, false, text, overflow),
            "overflow-y" => self.one(Slot::OverflowY, false, text, overflow),
            "outline" | "outline-width" => self.outline(text),
            _ if name.starts_with("border-image-") => {}
            _ => self.unusual_box_property(name, text),
        }
    }

    /// Properties of boxes that matter with some values only.
    fn unusual_box_property(&mut self, name: &str, text: &Text<'_>) {
        match name {
            "zoom" => {
                let zoom = number(&text.text).filter(|zoom| (0.5..=2.0).contains(zoom));
                self.push(Slot::Zoom, zoom.map_or(Value::Initial, Value::Number));
                self.rarely_hiding(name, text);
            }
            "border-spacing" => {
                // Cells far from each other leave a clipping box.
                let is_wide = text.is_computed() || !small_lengths(&text.text, WIDE_SPACING);
                self.other(name, is_wide.then_some(VisibilityIssue::Sized));
            }
            "border" => {
                let words = text.words();
                self.push(Slot::BorderNone, Value::Flag(words.contains(&"none")));
                self.near_zero(name, text);
            }
            "filter" | "-webkit-filter" if casts_shadow(&text.text) => {
                // A shadow lies over the text beside its box.
                self.other(name, Some(VisibilityIssue::Covered));
            }
            _ => {
                if matches!(name, "scale" | "rotate") && text.text != "none" {
                    self.push(Slot::Stacks, Value::Flag(true));
                }
                if name.starts_with("min-") && Length::parse(&text.text) != Some(Length::Px(0.0)) {
                    self.push(Slot::MinSize, Value::Flag(true));
                }
                self.rarely_hiding(name, text);
            }
        }
    }

    /// Properties that hide only with unusual values.
    pub(super) fn rarely_hiding(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        let is_near_zero = name.starts_with("border")
            || name.starts_with("min-")
            || matches!(
                name,
                "gap"
                    | "row-gap"
                    | "column-gap"
                    | "grid-gap"
                    | "text-underline-offset"
                    | "flex"
                    | "flex-basis"
            );
        let number_in = |low: f32, high: f32| {
            number(value).is_some_and(|number| (low..=high).contains(&number))
        };
        let passes = match name {
            "unicode-bidi" => matches!(value, "embed" | "isolate" | "plaintext"),
            "writing-mode" => matches!(value, "horizontal-tb" | "lr" | "lr-tb"),
            "zoom" => number_in(0.5, 2.0),
            // A wide tab moves the following text out of a clipping box.
            "tab-size" => number_in(0.0, 16.0),
            "color-scheme" => matches!(value, "light" | "only light"),
            "text-decoration-thickness" => small_lengths(value, 4.0),
            "backface-visibility" | "perspective-origin" | "transform-origin" => {
                name != "backface-visibility" || value == "visible"
            }
            "columns" | "column-count" => value == "1",
            "scale" => {
                words(value).len() <= 3
                    && words(value).iter().all(|word| *word == "1" || *word == "100%")
            }
            "vertical-align" => is_small_shift(value),
            "rotate" => matches!(value, "0" | "0deg"),
            "mix-blend-mode" | "filter" | "backdrop-filter" => false,
            "contain" => value == "style",
            // Generated text does not displace the element's own.
            "content" => is_plain_string(value),
            "grid-template-columns"
            | "grid-template-rows"
            | "grid-auto-rows"
            | "grid-auto-columns" => {
                words(value).iter().all(|word| word.ends_with("fr") && !word.starts_with('0'))
            }
            "grid-auto-flow" | "grid-column-gap" | "grid-row-gap" => true,
            _ => false,
        };
        let usual = property::usual(name, value);
        if passes || usual == Some(true) {
            self.other(name, None);
        } else if usual.is_none() {
            // A browser drops it.
        } else if is_near_zero {
            self.near_zero(name, text);
        } else {
            let doubt = property::doubt(name);
            let computed = text.is_computed() && doubt == VisibilityIssue::UnknownStyle;
            self.other(name, Some(if computed { VisibilityIssue::Computed } else { doubt }));
        }
    }

    /// Harmless with plain lengths up to 400 pixels.
    pub(super) fn near_zero(&mut self, name: &str, text: &Text<'_>) {
        if name.starts_with("border") {
            let is_wide = |word: &&str| {
                Length::parse(word).is_some_and(|length| length.pixels(16.0, 16.0) > 3.0)
            };
            self.push(Slot::WideBorder, Value::Flag(text.words().iter().any(is_wide)));
        }
        let fits = !text.is_computed()
            && text.words().iter().all(|word| match Length::parse(word) {
                Some(Length::Px(px)) => px.abs() <= 400.0,
                Some(Length::Em(em) | Length::Rem(em)) => em.abs() <= 30.0,
                Some(Length::Share(share)) => (0.0..=1.0).contains(&share),
                None => {
                    word.parse::<f32>().is_ok()
                        || word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '#')
                }
            });
        self.other(
            name,
            (!fits).then_some(if text.is_computed() {
                VisibilityIssue::Computed
            } else {
                VisibilityIssue::Sized
            }),
        );
    }

    pub(super) fn four(
        &mut self,
        slots: [Slot; 4],
        text: &Text<'_>,
        own: fn(&str) -> Option<Value>,
    ) {
        if let Some(value) = Self::common(text, false) {
            slots.into_iter().for_each(|slot| self.push(slot, value));
            return;
        }
        let Some(words) = text.plain_words(4) else { return };
        let sides: Option<Vec<Value>> = words.into_iter().map(own).collect();
        let Some(sides) = sides else { return };
        let (top, right) = match sides[..] {
            [one] => (one, one),
            [top, right, ..] => (top, right),
            [] => return,
        };
        let bottom = sides.get(2).copied().unwrap_or(top);
        let left = sides.get(3).copied().unwrap_or(right);
        for (slot, value) in slots.into_iter().zip([top, right, bottom, left]) {
            self.push(slot, value);
        }
    }

    pub(super) fn two(
        &mut self,
        slots: [Slot; 2],
        text: &Text<'_>,
        own: fn(&str) -> Option<Value>,
    ) {
        let values = match Self::common(text, false) {
            Some(common) => [common; 2],
            None => {
                let words = text.plain_words(2).unwrap_or_default();
                let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
                let (Some(first), Some(last)) = (own(first), own(last)) else { return };
                [first, last]
            }
        };
        for (slot, value) in slots.into_iter().zip(values) {
            self.push(slot, value);
        }
    }

    pub(super) fn overflow(&mut self, text: &Text<'_>) {
        if let Some(value) = Self::common(text, false) {
            self.push(Slot::OverflowX, value);
            self.push(Slot::OverflowY, value);
            return;
        }
        let words = text.plain_words(2).unwrap_or_default();
        let (Some(x), Some(y)) = (words.first(), words.last()) else { return };
        if let (Some(x), Some(y)) = (overflow(x), overflow(y)) {
            self.push(Slot::OverflowX, x);
            self.push(Slot::OverflowY, y);
        }
    }
}

/// A keyword of `vertical-align`, or a small length: a letter raised higher leaves the background of
/// its line.
fn is_small_shift(value: &str) -> bool {
    match Length::parse(value) {
        Some(length) => length.pixels(12.0, 12.0).abs() <= 8.0,
        None => value.starts_with(|c: char| c.is_ascii_alphabetic()) && !value.contains('('),
    }
}

/// Whether a filter paints outside its box.
fn casts_shadow(value: &str) -> bool {
    value.contains("drop-shadow") || value.contains("url(")
}
