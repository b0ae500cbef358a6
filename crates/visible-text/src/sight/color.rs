//! CSS colours, and the visible difference between two of them.

use color::{Srgb, parse_color};

/// A colour with its opacity: red, green, blue and alpha from 0 to 255, small because every element
/// passes several of them to its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color {
    channels: [u8; 3],
    alpha: u8,
}

impl Color {
    pub(super) const BLACK: Self = Self::solid([0; 3]);
    pub(super) const WHITE: Self = Self::solid([255; 3]);
    /// A browser's default link colour.
    pub(super) const LINK: Self = Self::solid([0, 0, 238]);
    /// The background of `<mark>`.
    pub(super) const MARK: Self = Self::solid([255, 255, 0]);
    /// The background of a button.
    pub(super) const BUTTON: Self = Self::solid([239; 3]);

    const fn solid(channels: [u8; 3]) -> Self {
        Self { channels, alpha: 255 }
    }

    fn from_shares([red, green, blue, alpha]: [f32; 4]) -> Self {
        Self { channels: [byte(red), byte(green), byte(blue)], alpha: byte(alpha) }
    }

    /// 0 is transparent, 1 is opaque.
    pub(super) fn alpha(self) -> f32 {
        f32::from(self.alpha) / 255.0
    }

    /// Parses a CSS colour in lower case; `None` if it is not evaluated.
    pub(super) fn parse(value: &str) -> Option<Self> {
        if let Some(color) = system(value) {
            return Some(color);
        }
        match value.strip_prefix('#') {
            Some(hex) => from_hex(hex),
            None if is_mixed(value) => None,
            None => {
                let parsed = parse_color(value).ok()?;
                Some(Self::from_shares(parsed.to_alpha_color::<Srgb>().components))
            }
        }
    }

    /// Parses a legacy HTML attribute; `None` if it is not evaluated: there any text is a colour.
    pub(super) fn parse_legacy(value: &str) -> Option<Self> {
        let value = value.trim().to_ascii_lowercase();
        match value.trim_start_matches('#') {
            "transparent" => None,
            hex if hex.len() == 6 || (hex.len() == 3 && value.len() == 4) => {
                from_hex(hex).or_else(|| Self::parse(&value))
            }
            _ if value.contains('(') => None,
            _ => Self::parse(&value),
        }
    }

    /// This colour on top of another one.
    pub(super) fn over(self, below: Self) -> Self {
        if self.alpha == 255 {
            return self;
        }
        let (above, alpha) = (self.channels.map(f32::from), self.alpha());
        let mix = |at: usize| above[at] * alpha + f32::from(below.channels[at]) * (1.0 - alpha);
        Self::from_shares([mix(0) / 255.0, mix(1) / 255.0, mix(2) / 255.0, 1.0])
    }

    /// The same to the nearest of the colours that pages have for text: black to dark grey.
    pub(super) fn distance_to_text(self) -> f32 {
        let [red, green, blue] = self.channels;
        let (least, most) = (red.min(green).min(blue), red.max(green).max(blue));
        self.distance(Self::solid([least.midpoint(most).min(0x33); 3]))
    }

    /// The largest difference of a channel: 0 is none, 1 is black on white.
    pub(super) fn distance(self, other: Self) -> f32 {
        let most = (0..3).map(|at| self.channels[at].abs_diff(other.channels[at])).max();
        f32::from(most.unwrap_or(0)) / 255.0
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped first")]
fn byte(share: f32) -> u8 {
    // NaN becomes 0.
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

fn from_hex(hex: &str) -> Option<Color> {
    if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digit = |at: usize| u8::from_str_radix(hex.get(at..=at)?, 16).ok();
    let short = |at: usize| digit(at).map(|digit| digit * 17);
    let long = |at: usize| Some(digit(2 * at)? * 16 + digit(2 * at + 1)?);
    let color = |channels: [Option<u8>; 3], alpha: Option<u8>| {
        let [red, green, blue] = channels;
        Some(Color { channels: [red?, green?, blue?], alpha: alpha? })
    };
    match hex.len() {
        3 => color([short(0), short(1), short(2)], Some(255)),
        4 => color([short(0), short(1), short(2)], short(3)),
        6 => color([long(0), long(1), long(2)], Some(255)),
        8 => color([long(0), long(1), long(2)], long(3)),
        _ => None,
    }
}

/// Whether `rgb(…)` with commas mixes numbers and percentages, or `hsl(…)` has numbers instead of
/// percentages; a browser drops both.
fn is_mixed(value: &str) -> bool {
    let Some((name, inside)) = value.split_once('(') else { return false };
    let parts: Vec<&str> = inside.trim_end_matches(')').split(',').map(str::trim).collect();
    let is_share = |part: &&str| part.ends_with('%');
    match (name, &parts[..]) {
        ("rgb" | "rgba", [red, green, blue, ..]) => {
            let shares = [red, green, blue].into_iter().filter(|part| is_share(part)).count();
            !matches!(shares, 0 | 3)
        }
        ("hsl" | "hsla", [hue, saturation, light, ..]) => {
            is_share(hue) || !is_share(saturation) || !is_share(light)
        }
        _ => false,
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
            "rgb(0,0%,0)",
            "hsl(0,0,0)",
        ] {
            assert_eq!(Color::parse(text), None, "{text}");
        }
    }

    #[test]
    fn attributes_need_no_sign_before_a_colour() {
        for (text, same) in [
            ("FFFFFF", "#ffffff"),
            ("#fff", "#fff"),
            (" White", "white"),
            ("#036", "#003366"),
            ("teal12", "#000000"),
        ] {
            let same = Color::parse(same).filter(|_| text != "teal12");
            assert_eq!(Color::parse_legacy(text), same, "{text}");
        }
    }

    #[test]
    fn transparency_mixes() {
        let faint = Color::parse("rgba(0,0,0,0.0)").unwrap();
        assert_eq!(faint.over(Color::WHITE), Color::WHITE);
        assert!(Color::BLACK.distance(Color::WHITE) > 0.99);
    }
}
