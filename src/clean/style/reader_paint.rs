//! Declarations about paint: backgrounds, shadows, outlines, clips and shifts.

use super::declaration::{Slot, Value};
use super::length::Length;
use super::property::{self, without_vendor};
use super::reader::Reader;
use super::text::{Text, argument, words};
use super::value::{color, lengths_within, plain_lengths, small_lengths};
use crate::model::Doubt;

/// An inner shadow that is blurred no further stays at the edge of its box.
const INSET_BLUR: f32 = 16.0;

impl Reader<'_> {
    pub(super) fn background(&mut self, text: &Text<'_>) {
        let words = text.words();
        self.push(
            Slot::BackgroundClip,
            match words.contains(&"text") {
                true => Value::Doubt(Doubt::Painted),
                false => Value::Initial,
            },
        );
        if let Some(common) = Self::common(text, false) {
            let is_doubt = matches!(common, Value::Doubt(_));
            self.push(Slot::BackgroundColor, common);
            self.push(
                Slot::BackgroundImage,
                if is_doubt { Value::Doubt(Doubt::Painted) } else { common },
            );
            return;
        }
        let is_picture =
            words.iter().any(|word| word.starts_with("url(") || word.contains("gradient("));
        let painted = words.iter().find_map(|word| color(word));
        self.push(Slot::BackgroundColor, painted.unwrap_or(Value::Initial));
        self.push(
            Slot::BackgroundImage,
            match is_picture {
                true => Value::Doubt(Doubt::Painted),
                false => Value::Initial,
            },
        );
    }

    pub(super) fn picture(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "inherit" => Value::Inherit,
            "none" | "initial" | "unset" | "revert" => Value::Initial,
            _ => Value::Doubt(Doubt::Painted),
        };
        self.push(Slot::BackgroundImage, value);
    }

    pub(super) fn text_decoration(&mut self, text: &Text<'_>) {
        let words = text.words();
        self.push(Slot::LineThrough, Value::Flag(words.contains(&"line-through")));
        let lengths = words.iter().filter_map(|word| Length::parse(word));
        let thick = text.is_computed()
            || lengths.into_iter().any(|length| length.pixels(16.0, 16.0).abs() > 4.0);
        self.other("text-decoration", thick.then_some(Doubt::Covered));
    }

    /// A shadow: a flag for one that stays near, a doubt for one that could cover other text.
    pub(super) fn shadow(&mut self, slot: Slot, text: &Text<'_>, reach: f32) {
        let is_inset = slot == Slot::BoxShadow && text.words().contains(&"inset");
        let value = match &*text.text {
            "none" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            _ if text.is_computed() => Value::Doubt(Doubt::Computed),
            value if is_inset && lengths_within(value, reach, INSET_BLUR) => Value::Flag(false),
            value => match lengths_within(value, reach, 40.0) {
                true => Value::Flag(true),
                false => Value::Doubt(Doubt::Covered),
            },
        };
        self.push(slot, value);
    }

    /// A picture on the border can fill the box and reach beyond it.
    pub(super) fn border_image(&mut self, text: &Text<'_>) {
        let is_picture = text.text.contains('(') || text.text == "inherit";
        self.other("border-image", is_picture.then_some(Doubt::Covered));
    }

    pub(super) fn stroke(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "0" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            value if !text.is_computed() && small_lengths(value, 1.0) => Value::Flag(true),
            _ => Value::Doubt(Doubt::Painted),
        };
        let own_color = text.words().into_iter().find_map(color);
        self.push(Slot::Stroke, value);
        if let Some(own_color) = own_color {
            self.push(Slot::StrokeColor, own_color);
        }
    }

    pub(super) fn outline(&mut self, text: &Text<'_>) {
        let is_none = text.words().iter().any(|word| matches!(*word, "none" | "0" | "hidden"));
        let value = match is_none || (!text.is_computed() && small_lengths(&text.text, 6.0)) {
            true => Value::Initial,
            false => Value::Doubt(Doubt::Covered),
        };
        self.push(Slot::Outline, value);
    }

    pub(super) fn clip(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "auto" | "initial" | "unset" | "revert" => Value::Initial,
            value => match argument(value, "rect").map(plain_lengths) {
                Some(Some(sides)) => match sides[..] {
                    [top, right, bottom, left] if right - left <= 1.0 || bottom - top <= 1.0 => {
                        Value::Flag(true)
                    }
                    _ => Value::Doubt(Doubt::Clipped),
                },
                _ => Value::Doubt(Doubt::Clipped),
            },
        };
        self.push(Slot::Clip, value);
    }

    pub(super) fn clip_path(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "none" | "initial" | "unset" | "revert" => Value::Initial,
            value => {
                let inset =
                    argument(value, "inset").map(|inset| inset.split("round").next().unwrap_or(""));
                match inset.and_then(plain_lengths) {
                    Some(sides) if sides.iter().all(|side| *side <= 0.0) => Value::Initial,
                    _ => Value::Doubt(Doubt::Clipped),
                }
            }
        };
        self.push(Slot::ClipPath, value);
    }

    /// `transform` and `translate`, as far as they only shift.
    pub(super) fn movement(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        if property::is_usual(value) {
            self.push(Slot::TranslateX, Value::Initial);
            self.push(Slot::TranslateY, Value::Initial);
            self.other(name, None);
            return;
        }
        let shift = |inside: &str| -> Option<(Value, Value)> {
            let parts = words(inside);
            let zero = Value::Length(Length::Px(0.0));
            let read = |at: usize| {
                parts.get(at).map_or(Some(zero), |part| Length::parse(part).map(Value::Length))
            };
            (1..=2).contains(&parts.len()).then_some((read(0)?, read(1)?))
        };
        let zero = Value::Length(Length::Px(0.0));
        let shifted = match without_vendor(name) {
            "translate" => shift(value),
            _ => argument(value, "translate")
                .and_then(shift)
                .or_else(|| argument(value, "translatex").and_then(shift).map(|(x, _)| (x, zero)))
                .or_else(|| argument(value, "translatey").and_then(shift).map(|(y, _)| (zero, y))),
        };
        let changes_nothing = matches!(
            value,
            "scale(1)"
                | "rotate(0)"
                | "rotate(0deg)"
                | "translatez(0)"
                | "translate3d(0,0,0)"
                | "translate3d(0, 0, 0)"
        );
        match shifted {
            Some((x, y)) => {
                self.push(Slot::TranslateX, x);
                self.push(Slot::TranslateY, y);
                self.other(name, None);
            }
            None => self.other(name, (!changes_nothing).then_some(Doubt::Moved)),
        }
    }
}
