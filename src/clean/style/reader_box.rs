//! Declarations about boxes: sizes, margins, overflow, and what hides only with odd values.

use super::declaration::{Slot, Value};
use super::length::Length;
use super::property;
use super::reader::Reader;
use super::text::{Text, words};
use super::value::{is_plain_string, length, number, overflow, small_lengths};
use crate::model::Doubt;

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
            "width" => self.one(Slot::Width, false, text, length),
            "height" => self.one(Slot::Height, false, text, length),
            "max-width" => self.one(Slot::MaxWidth, false, text, length),
            "max-height" => self.one(Slot::MaxHeight, false, text, length),
            "top" => self.one(Slot::Top, false, text, length),
            "right" => self.one(Slot::Right, false, text, length),
            "bottom" => self.one(Slot::Bottom, false, text, length),
            "left" => self.one(Slot::Left, false, text, length),
            "margin-top" => self.one(Slot::MarginTop, false, text, length),
            "margin-right" => self.one(Slot::MarginRight, false, text, length),
            "margin-bottom" => self.one(Slot::MarginBottom, false, text, length),
            "margin-left" => self.one(Slot::MarginLeft, false, text, length),
            "padding-top" => self.one(Slot::PaddingTop, false, text, length),
            "padding-right" => self.one(Slot::PaddingRight, false, text, length),
            "padding-bottom" => self.one(Slot::PaddingBottom, false, text, length),
            "padding-left" => self.one(Slot::PaddingLeft, false, text, length),
            "margin" | "padding" | "inset" => self.four(sides(name), text),
            "margin-inline" => self.two([Slot::MarginLeft, Slot::MarginRight], text),
            "margin-block" => self.two([Slot::MarginTop, Slot::MarginBottom], text),
            "padding-inline" => self.two([Slot::PaddingLeft, Slot::PaddingRight], text),
            "padding-block" => self.two([Slot::PaddingTop, Slot::PaddingBottom], text),
            "inset-inline" => self.two([Slot::Left, Slot::Right], text),
            "inset-block" => self.two([Slot::Top, Slot::Bottom], text),
            "overflow" => self.overflow(text),
            "overflow-x" => self.one(Slot::OverflowX, false, text, overflow),
            "overflow-y" => self.one(Slot::OverflowY, false, text, overflow),
            "outline" | "outline-width" => self.outline(text),
            _ if name.starts_with("border-image-") => {}
            "border" => {
                let words = text.words();
                self.push(Slot::BorderNone, Value::Flag(words.contains(&"none")));
                self.near_zero(name, text);
            }
            _ => self.rarely_hiding(name, text),
        }
    }

    /// Properties that hide only with values out of the ordinary.
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
            // A wide tab moves what follows it out of a box that clips.
            "tab-size" => number_in(0.0, 16.0),
            "color-scheme" => matches!(value, "light" | "only light"),
            "text-decoration-thickness" => small_lengths(value, 4.0),
            "backface-visibility" | "perspective-origin" | "transform-origin" => {
                name != "backface-visibility" || value == "visible"
            }
            "columns" | "column-count" => value == "1",
            "scale" => words(value).iter().all(|word| *word == "1" || *word == "100%"),
            "rotate" => matches!(value, "0" | "0deg"),
            "mix-blend-mode" | "filter" | "backdrop-filter" => false,
            "contain" => value == "style",
            // Text generated for an element takes no place from its own.
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
        if passes || property::is_usual(value) {
            self.other(name, None);
        } else if is_near_zero {
            self.near_zero(name, text);
        } else {
            let doubt = property::doubt(name);
            let computed = text.is_computed() && doubt == Doubt::UnknownStyle;
            self.other(name, Some(if computed { Doubt::Computed } else { doubt }));
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
            (!fits).then_some(if text.is_computed() { Doubt::Computed } else { Doubt::Sized }),
        );
    }

    pub(super) fn four(&mut self, slots: [Slot; 4], text: &Text<'_>) {
        if let Some(value) = Self::common(text, false) {
            slots.into_iter().for_each(|slot| self.push(slot, value));
            return;
        }
        let sides: Option<Vec<Value>> = text.words().into_iter().map(length).collect();
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

    pub(super) fn two(&mut self, slots: [Slot; 2], text: &Text<'_>) {
        let common = Self::common(text, false);
        let words = text.words();
        let (Some(first), last) = (words.first(), words.last()) else { return };
        let values = [length(first), last.and_then(|last| length(last))];
        for (slot, value) in slots.into_iter().zip(values) {
            if let Some(value) = common.or(value) {
                self.push(slot, value);
            }
        }
    }

    pub(super) fn overflow(&mut self, text: &Text<'_>) {
        if let Some(value) = Self::common(text, false) {
            self.push(Slot::OverflowX, value);
            self.push(Slot::OverflowY, value);
            return;
        }
        let words = text.words();
        let (Some(x), Some(y)) = (words.first(), words.last()) else { return };
        if let (Some(x), Some(y)) = (overflow(x), overflow(y)) {
            self.push(Slot::OverflowX, x);
            self.push(Slot::OverflowY, y);
        }
    }
}
