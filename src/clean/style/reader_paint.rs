//! Declarations about paint: backgrounds, shadows, outlines, clips and shifts.

use super::declaration::{Overflow, Slot, Value};
use super::length::Length;
use super::property::{self, without_vendor};
use super::reader::Reader;
use super::text::{Text, argument, words};
use super::value::{color, lengths_within, plain_lengths, small_lengths};
use crate::model::VisibilityIssue;

/// An inner shadow with at most this blur stays at the edge of its box.
const INSET_BLUR: f32 = 16.0;

/// One layer of `background`.
#[derive(Default)]
struct Layer {
    color: Option<Value>,
    is_picture: bool,
    /// Its clip leaves some of the text without background.
    clips_to_text: bool,
}

impl Layer {
    /// `None` if a browser drops it.
    fn read(layer: &str) -> Option<Self> {
        let mut read = Self::default();
        let (mut pictures, mut places, mut sizes) = (0, 0, 0);
        let (mut boxes, mut sticks, mut repeats) = (0, 0, 0);
        let words = words(layer);
        for word in &words {
            match *word {
                "none" => pictures += 1,
                "border-box" | "padding-box" => boxes += 1,
                // Text beside the content, as an indented line, is not on it.
                "text" | "border-area" | "content-box" => {
                    boxes += 1;
                    read.clips_to_text = true;
                }
                "scroll" | "fixed" | "local" => sticks += 1,
                "repeat-x" | "repeat-y" => repeats += 2,
                "repeat" | "no-repeat" | "space" | "round" => repeats += 1,
                "left" | "right" | "top" | "bottom" | "center" => places += 1,
                "cover" | "contain" | "auto" => sizes += 1,
                word if Length::parse(word).is_some() => places += 1,
                word if is_picture(word) => {
                    pictures += 1;
                    read.is_picture = true;
                }
                word => {
                    let color = color(word)?;
                    if read.color.replace(color).is_some() {
                        return None;
                    }
                }
            }
        }
        // A size follows a position and a slash.
        let slashes = split_outside_brackets(layer, '/').len() - 1;
        let fits = pictures <= 1
            && places <= 4 + 2 * slashes
            && sizes <= 2 * slashes
            && slashes <= 1
            && places + sizes >= 2 * slashes
            && boxes <= 2
            && sticks <= 1
            && repeats <= 2;
        (fits && !words.is_empty()).then_some(read)
    }
}

fn is_picture(word: &str) -> bool {
    word.starts_with("url(")
        || ["gradient(", "image(", "image-set(", "element(", "paint(", "cross-fade("]
            .iter()
            .any(|function| word.contains(function))
}

/// The parts between commas.
fn layers(value: &str) -> Vec<&str> {
    split_outside_brackets(value, ',')
}

fn split_outside_brackets(value: &str, at: char) -> Vec<&str> {
    let mut depth = 0_usize;
    value
        .split(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == at && depth == 0
        })
        .collect()
}

impl Reader<'_> {
    pub(super) fn background(&mut self, text: &Text<'_>) {
        if let Some(common) = Self::common(text, false) {
            let is_doubt = matches!(common, Value::Doubt(_));
            let painted = Value::Doubt(VisibilityIssue::Painted);
            self.push(Slot::BackgroundColor, common);
            self.push(Slot::BackgroundImage, if is_doubt { painted } else { common });
            self.push(Slot::BackgroundClip, Value::Initial);
            return;
        }
        let layers: Option<Vec<Layer>> = layers(&text.text).into_iter().map(Layer::read).collect();
        let Some((last, above)) = layers.as_deref().and_then(<[Layer]>::split_last) else { return };
        if above.iter().any(|layer| layer.color.is_some()) {
            return;
        }
        let is_any = |test: fn(&Layer) -> bool| above.iter().chain([last]).any(test);
        let doubt_if = |is_doubt: bool| match is_doubt {
            true => Value::Doubt(VisibilityIssue::Painted),
            false => Value::Initial,
        };
        self.push(Slot::BackgroundClip, doubt_if(is_any(|layer| layer.clips_to_text)));
        self.push(Slot::BackgroundImage, doubt_if(is_any(|layer| layer.is_picture)));
        self.push(Slot::BackgroundColor, last.color.unwrap_or(Value::Initial));
    }

    pub(super) fn background_clip(&mut self, text: &Text<'_>) {
        let is_box = |word: &str| matches!(word, "border-box" | "padding-box" | "border-area");
        let layers = layers(&text.text);
        let value = match &*text.text {
            "initial" | "unset" | "revert" => Value::Initial,
            _ if layers.iter().all(|layer| is_box(layer.trim())) => Value::Initial,
            value
                if value == "inherit"
                    || text.is_computed()
                    || value.contains("text")
                    || value.contains("content-box") =>
            {
                Value::Doubt(VisibilityIssue::Painted)
            }
            _ => return,
        };
        self.push(Slot::BackgroundClip, value);
    }

    pub(super) fn picture(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "inherit" => Value::Inherit,
            "none" | "initial" | "unset" | "revert" => Value::Initial,
            _ => Value::Doubt(VisibilityIssue::Painted),
        };
        self.push(Slot::BackgroundImage, value);
    }

    pub(super) fn text_decoration(&mut self, text: &Text<'_>) {
        let words = text.words();
        self.push(Slot::LineThrough, Value::Flag(words.contains(&"line-through")));
        let lengths = words.iter().filter_map(|word| Length::parse(word));
        let thick = text.is_computed()
            || lengths.into_iter().any(|length| length.pixels(16.0, 16.0).abs() > 4.0);
        self.other("text-decoration", thick.then_some(VisibilityIssue::Covered));
    }

    /// A shadow: a flag if it stays near, a doubt if it could cover other text.
    pub(super) fn shadow(&mut self, slot: Slot, text: &Text<'_>, reach: f32) {
        let is_inset = slot == Slot::BoxShadow && text.words().contains(&"inset");
        let value = match &*text.text {
            "none" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            _ if text.is_computed() => Value::Doubt(VisibilityIssue::Computed),
            value if is_inset && lengths_within(value, reach, INSET_BLUR) => Value::Flag(false),
            value => match lengths_within(value, reach, 40.0) {
                true => Value::Flag(true),
                false => Value::Doubt(VisibilityIssue::Covered),
            },
        };
        self.push(slot, value);
    }

    /// A border image can fill the box and extend beyond it.
    pub(super) fn border_image(&mut self, text: &Text<'_>) {
        let is_picture = text.text.contains('(') || text.text == "inherit";
        self.other("border-image", is_picture.then_some(VisibilityIssue::Covered));
    }

    pub(super) fn stroke(&mut self, text: &Text<'_>) {
        let value = match &*text.text {
            "0" | "initial" | "unset" | "revert" => Value::Flag(false),
            "inherit" => Value::Inherit,
            value if !text.is_computed() && small_lengths(value, 1.0) => Value::Flag(true),
            _ => Value::Doubt(VisibilityIssue::Painted),
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
            false => Value::Doubt(VisibilityIssue::Covered),
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
                    _ => Value::Doubt(VisibilityIssue::Clipped),
                },
                _ => Value::Doubt(VisibilityIssue::Clipped),
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
                    Some(sides) if sides.iter().all(|side| *side <= 0.0) => {
                        Value::Overflow(Overflow::Clips)
                    }
                    _ => Value::Doubt(VisibilityIssue::Clipped),
                }
            }
        };
        if value != Value::Initial {
            self.push(Slot::Stacks, Value::Flag(true));
        }
        self.push(Slot::ClipPath, value);
    }

    /// `transform` and `translate`, as far as they only shift.
    pub(super) fn movement(&mut self, name: &str, text: &Text<'_>) {
        let value = &*text.text;
        let usual = property::usual(name, value);
        if usual.is_none() {
            return;
        }
        if usual == Some(true) {
            self.push(Slot::TranslateX, Value::Initial);
            self.push(Slot::TranslateY, Value::Initial);
            self.other(name, None);
            return;
        }
        self.push(Slot::Stacks, Value::Flag(true));
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
            None => self.other(name, (!changes_nothing).then_some(VisibilityIssue::Moved)),
        }
    }
}
