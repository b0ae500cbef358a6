//! Colours as CSS writes them, and how far apart two of them look.

/// A colour with its opacity (1 is solid).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::clean) struct Color {
    red: u8,
    green: u8,
    blue: u8,
    /// 0 is transparent, 1 is solid.
    pub(super) alpha: f32,
}

impl Color {
    pub(super) const BLACK: Self = Self::solid(0, 0, 0);
    /// What a browser gives a link.
    pub(in crate::clean) const LINK: Self = Self::solid(0, 0, 238);
    pub(super) const WHITE: Self = Self::solid(255, 255, 255);

    const fn solid(red: u8, green: u8, blue: u8) -> Self {
        Self { red, green, blue, alpha: 1.0 }
    }

    /// A colour value of CSS or of an old HTML attribute; `None` when it is not one we know.
    pub(in crate::clean) fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        if let Some(hex) = value.strip_prefix('#') {
            return Self::from_hex(hex);
        }
        if let Some(open) = value.find('(') {
            let function = value[..open].trim().to_ascii_lowercase();
            let inside = value[open + 1..].trim_end().trim_end_matches(')');
            return match function.as_str() {
                "rgb" | "rgba" => Self::from_rgb(inside),
                "hsl" | "hsla" => Self::from_hsl(inside),
                _ => None,
            };
        }
        named(value)
    }

    /// The same for the attributes `color` and `bgcolor`, where the `#` may be missing.
    pub(in crate::clean) fn parse_legacy(value: &str) -> Option<Self> {
        let value = value.trim();
        Self::parse(value).or_else(|| (value.len() == 6).then(|| Self::from_hex(value))?)
    }

    fn from_hex(hex: &str) -> Option<Self> {
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let digits = match hex.len() {
            3 | 4 => hex.chars().flat_map(|digit| [digit, digit]).collect(),
            6 | 8 => hex.to_owned(),
            _ => return None,
        };
        let part =
            |at: usize| digits.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let alpha = if digits.len() == 8 { f32::from(part(6)?) / 255.0 } else { 1.0 };
        Some(Self { red: part(0)?, green: part(2)?, blue: part(4)?, alpha })
    }

    fn from_rgb(inside: &str) -> Option<Self> {
        let parts = numbers(inside);
        let channel = |at: usize| {
            let (value, percent) = *parts.get(at)?;
            Some(to_byte(if percent { value * 2.55 } else { value }))
        };
        Some(Self { red: channel(0)?, green: channel(1)?, blue: channel(2)?, alpha: alpha(&parts) })
    }

    fn from_hsl(inside: &str) -> Option<Self> {
        let parts = numbers(inside);
        let hue = parts.first()?.0.rem_euclid(360.0) / 30.0;
        let (saturation, light) = (parts.get(1)?.0 / 100.0, parts.get(2)?.0 / 100.0);
        let amplitude = saturation * light.min(1.0 - light);
        let channel = |offset: f32| {
            let k = (offset + hue) % 12.0;
            to_byte(255.0 * (light - amplitude * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)))
        };
        Some(Self {
            red: channel(0.0),
            green: channel(8.0),
            blue: channel(4.0),
            alpha: alpha(&parts),
        })
    }

    /// This colour seen on top of another one.
    pub(super) fn over(self, below: Self) -> Self {
        let mix = |top: u8, bottom: u8| {
            to_byte(f32::from(top) * self.alpha + f32::from(bottom) * (1.0 - self.alpha))
        };
        Self::solid(
            mix(self.red, below.red),
            mix(self.green, below.green),
            mix(self.blue, below.blue),
        )
    }

    /// Contrast ratio of the accessibility guidelines: 1 is none, 21 is black on white.
    pub(super) fn contrast(self, other: Self) -> f32 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn luminance(self) -> f32 {
        let linear = |channel: u8| {
            let share = f32::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.red) + 0.7152 * linear(self.green) + 0.0722 * linear(self.blue)
    }
}

/// Numbers separated by commas, spaces or a slash, each with "was it a percentage".
fn numbers(inside: &str) -> Vec<(f32, bool)> {
    inside
        .split([',', ' ', '/', '\t', '\n'])
        .filter(|part| !part.is_empty())
        .take(4)
        .map_while(|part| {
            let bare = part.trim_end_matches("deg");
            match bare.strip_suffix('%') {
                Some(number) => Some((number.parse().ok()?, true)),
                None => Some((bare.parse().ok()?, false)),
            }
        })
        .collect()
}

fn alpha(parts: &[(f32, bool)]) -> f32 {
    parts.get(3).map_or(1.0, |&(value, percent)| if percent { value / 100.0 } else { value })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped to the range of a byte first"
)]
fn to_byte(value: f32) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

/// The colour names that occur in practice, light ones above all: a missing name only means that
/// text is taken for visible.
fn named(value: &str) -> Option<Color> {
    const NAMES: &[(&str, u8, u8, u8)] = &[
        ("aliceblue", 240, 248, 255),
        ("antiquewhite", 250, 235, 215),
        ("aqua", 0, 255, 255),
        ("azure", 240, 255, 255),
        ("beige", 245, 245, 220),
        ("black", 0, 0, 0),
        ("blue", 0, 0, 255),
        ("brown", 165, 42, 42),
        ("cornsilk", 255, 248, 220),
        ("cyan", 0, 255, 255),
        ("darkblue", 0, 0, 139),
        ("darkgray", 169, 169, 169),
        ("darkgreen", 0, 100, 0),
        ("darkgrey", 169, 169, 169),
        ("darkred", 139, 0, 0),
        ("floralwhite", 255, 250, 240),
        ("fuchsia", 255, 0, 255),
        ("gainsboro", 220, 220, 220),
        ("ghostwhite", 248, 248, 255),
        ("gray", 128, 128, 128),
        ("green", 0, 128, 0),
        ("grey", 128, 128, 128),
        ("honeydew", 240, 255, 240),
        ("ivory", 255, 255, 240),
        ("lavenderblush", 255, 240, 245),
        ("lemonchiffon", 255, 250, 205),
        ("lightcyan", 224, 255, 255),
        ("lightgray", 211, 211, 211),
        ("lightgrey", 211, 211, 211),
        ("lightyellow", 255, 255, 224),
        ("lime", 0, 255, 0),
        ("linen", 250, 240, 230),
        ("magenta", 255, 0, 255),
        ("maroon", 128, 0, 0),
        ("mintcream", 245, 255, 250),
        ("navy", 0, 0, 128),
        ("oldlace", 253, 245, 230),
        ("olive", 128, 128, 0),
        ("orange", 255, 165, 0),
        ("pink", 255, 192, 203),
        ("purple", 128, 0, 128),
        ("red", 255, 0, 0),
        ("seashell", 255, 245, 238),
        ("silver", 192, 192, 192),
        ("snow", 255, 250, 250),
        ("teal", 0, 128, 128),
        ("white", 255, 255, 255),
        ("whitesmoke", 245, 245, 245),
        ("window", 255, 255, 255),
        ("windowtext", 0, 0, 0),
        ("yellow", 255, 255, 0),
    ];
    if value.eq_ignore_ascii_case("transparent") {
        return Some(Color { alpha: 0.0, ..Color::BLACK });
    }
    NAMES
        .iter()
        .find(|(name, ..)| value.eq_ignore_ascii_case(name))
        .map(|&(_, red, green, blue)| Color::solid(red, green, blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_white() {
        for text in [
            "#fff",
            "#FFFFFF",
            "#ffff",
            "#ffffffff",
            "white",
            "White",
            "rgb(255,255,255)",
            "rgb(255 255 255 / 100%)",
            "rgba(255, 255, 255, 1)",
            "rgb(100%,100%,100%)",
            "hsl(0,0%,100%)",
            " hsla(120deg 50% 100% / 1) ",
        ] {
            assert_eq!(Color::parse(text), Some(Color::WHITE), "{text}");
        }
        assert_eq!(Color::parse_legacy("FFFFFF"), Some(Color::WHITE));
    }

    #[test]
    fn what_is_no_colour_is_none() {
        for text in ["", "#ff", "#ggg", "inherit", "rgb(1,2)", "url(x)", "rgb(", "ffffff"] {
            assert_eq!(Color::parse(text), None, "{text}");
        }
    }

    #[test]
    fn transparency_mixes() {
        let faint = Color::parse("rgba(0,0,0,0.0)").unwrap();
        assert_eq!(faint.over(Color::WHITE), Color::WHITE);
        assert!(Color::BLACK.contrast(Color::WHITE) > 20.0);
        assert!((Color::WHITE.contrast(Color::WHITE) - 1.0).abs() < 1e-6);
        assert_eq!(Color::parse("hsl(120,100%,25%)"), Color::parse("#008000"));
    }
}
