//! Colours as CSS writes them, and how far apart two of them look.

use color::{ColorSpaceTag, Srgb, parse_color};

/// A colour with its opacity: red, green, blue and alpha from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::clean) struct Color {
    channels: [f32; 3],
    /// 0 is transparent, 1 is solid.
    pub(super) alpha: f32,
}

impl Color {
    pub(super) const BLACK: Self = Self::solid([0.0; 3]);
    pub(super) const WHITE: Self = Self::solid([1.0; 3]);
    /// What a browser gives a link.
    pub(super) const LINK: Self = Self::solid([0.0, 0.0, 238.0 / 255.0]);
    /// The background of `<mark>`.
    pub(super) const MARK: Self = Self::solid([1.0, 1.0, 0.0]);
    /// The background of a button.
    pub(super) const BUTTON: Self = Self::solid([239.0 / 255.0; 3]);

    const fn solid(channels: [f32; 3]) -> Self {
        Self { channels, alpha: 1.0 }
    }

    /// A colour value of CSS, in lower case; `None` when it is not one we evaluate.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if let Some(color) = system(value) {
            return Some(color);
        }
        let [red, green, blue, alpha] = match value.strip_prefix('#') {
            Some(hex) => from_hex(hex)?,
            None => {
                let parsed = parse_color(value).ok()?;
                parsed.to_alpha_color::<Srgb>().components
            }
        };
        let clamp = |channel: f32| if channel.is_nan() { 0.0 } else { channel.clamp(0.0, 1.0) };
        Some(Self { channels: [clamp(red), clamp(green), clamp(blue)], alpha: clamp(alpha) })
    }

    /// An old HTML attribute: any text is a colour, by the standard's rules for legacy values.
    pub(super) fn parse_legacy(value: &str) -> Option<Self> {
        let value = value.trim().to_ascii_lowercase();
        if value.is_empty() || value == "transparent" {
            return None;
        }
        if !value.starts_with('#') && !value.contains('(') {
            if let Some(named) = parse_color(&value).ok().filter(|c| c.cs == ColorSpaceTag::Srgb) {
                let [red, green, blue, _] = named.to_alpha_color::<Srgb>().components;
                return Some(Self::solid([red, green, blue]));
            }
        } else if value.len() == 4
            && let Some([red, green, blue, _]) = from_hex(&value[1..])
        {
            return Some(Self::solid([red, green, blue]));
        }
        Some(Self::from_anything(value.trim_start_matches('#')))
    }

    /// What is no digit counts as 0; three equal parts, of which the first digits count.
    fn from_anything(value: &str) -> Self {
        let mut digits: Vec<u8> = value
            .chars()
            .take(128)
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0))
            .collect();
        while digits.is_empty() || !digits.len().is_multiple_of(3) {
            digits.push(0);
        }
        let size = digits.len() / 3;
        let parts: Vec<&[u8]> = digits.chunks(size).collect();
        let skip = size.saturating_sub(8);
        let zeros = parts
            .iter()
            .map(|part| part[skip..].iter().take_while(|digit| **digit == 0).count())
            .min()
            .unwrap_or(0)
            .min((size - skip).saturating_sub(2));
        let channel = |part: &[u8]| {
            let digits: Vec<u8> = part[skip + zeros..].iter().take(2).copied().collect();
            f32::from(
                digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(16).wrapping_add(*digit)),
            ) / 255.0
        };
        Self::solid([channel(parts[0]), channel(parts[1]), channel(parts[2])])
    }

    /// This colour seen on top of another one.
    pub(super) fn over(self, below: Self) -> Self {
        let mix =
            |at: usize| self.channels[at] * self.alpha + below.channels[at] * (1.0 - self.alpha);
        Self::solid([mix(0), mix(1), mix(2)])
    }

    /// The largest difference of a channel: 0 is none, 1 is black on white.
    pub(super) fn distance(self, other: Self) -> f32 {
        (0..3).map(|at| (self.channels[at] - other.channels[at]).abs()).fold(0.0, f32::max)
    }
}

fn from_hex(hex: &str) -> Option<[f32; 4]> {
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digit = |at: usize| u8::from_str_radix(hex.get(at..=at)?, 16).ok();
    let short = |at: usize| digit(at).map(|digit| f32::from(digit * 17) / 255.0);
    let long = |at: usize| Some(f32::from(digit(2 * at)? * 16 + digit(2 * at + 1)?) / 255.0);
    match hex.len() {
        3 => Some([short(0)?, short(1)?, short(2)?, 1.0]),
        4 => Some([short(0)?, short(1)?, short(2)?, short(3)?]),
        6 => Some([long(0)?, long(1)?, long(2)?, 1.0]),
        8 => Some([long(0)?, long(1)?, long(2)?, long(3)?]),
        _ => None,
    }
}

/// The system colours of a light theme, as Outlook and Word write them.
fn system(value: &str) -> Option<Color> {
    Some(match value {
        "canvas" | "window" | "field" | "background" | "infobackground" => Color::WHITE,
        "canvastext" | "windowtext" | "fieldtext" | "buttontext" | "infotext" | "captiontext"
        | "menutext" => Color::BLACK,
        "linktext" => Color::LINK,
        "buttonface" | "threedface" => Color::BUTTON,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_white() {
        for text in [
            "#fff",
            "#ffffff",
            "#ffff",
            "white",
            "rgb(255,255,255)",
            "rgb(255 255 255 / 100%)",
            "rgba(255, 255, 255, 1)",
            "rgb(100%,100%,100%)",
            "hsl(0,0%,100%)",
            "hsla(120deg 50% 100% / 1)",
            "hwb(120 100% 0%)",
            "color(srgb 1 1 1)",
            "oklch(1 0 0)",
            "lab(100 0 0)",
            "canvas",
        ] {
            let color = Color::parse(text).unwrap_or(Color::BLACK);
            assert!(color.distance(Color::WHITE) < 0.01, "{text}: {color:?}");
        }
    }

    #[test]
    fn what_is_no_colour_or_is_computed_is_none() {
        for text in [
            "",
            "#ff",
            "#ggg",
            "inherit",
            "rgb(1,2)",
            "url(x)",
            "rgb(",
            "color-mix(in srgb,red,red)",
            "rgb(from red r g b)",
        ] {
            assert_eq!(Color::parse(text), None, "{text}");
        }
    }

    #[test]
    fn attributes_take_anything_for_a_colour() {
        for (text, same) in [
            ("FFFFFF", "#ffffff"),
            ("#fff", "#fff"),
            ("fff", "#0f0f0f"),
            ("White", "white"),
            ("xyz", "#000"),
            ("#036", "#003366"),
        ] {
            let (one, other) = (Color::parse_legacy(text).unwrap(), Color::parse(same).unwrap());
            assert!(one.distance(other) < 0.005, "{text}: {one:?}");
        }
        assert_eq!(Color::parse_legacy(" "), None);
    }

    #[test]
    fn transparency_mixes() {
        let faint = Color::parse("rgba(0,0,0,0.0)").unwrap();
        assert_eq!(faint.over(Color::WHITE), Color::WHITE);
        assert!(Color::BLACK.distance(Color::WHITE) > 0.99);
    }
}
