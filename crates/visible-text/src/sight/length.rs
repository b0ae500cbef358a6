//! Lengths, converted to pixels as far as possible without a page.

/// A window of a usual size, in pixels.
const WINDOW: (f32, f32) = (1200.0, 800.0);
const PAGE: f32 = 1000.0;

/// The default font size of a page.
pub(super) const USUAL_FONT: f32 = 16.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Length {
    /// Pixels; absolute units are converted.
    Px(f32),
    /// A multiple of the font size.
    Em(f32),
    /// A multiple of the page's font size.
    Rem(f32),
    /// A percentage of the container or of the parent's font.
    Share(f32),
    /// Computed by a function.
    Unknown,
}

impl Length {
    /// `12px`, `0`, `-.25in`, `1.5em`, `50%`; `None` for keywords and functions. Units of the window
    /// are those of one of a usual size.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let mut digits = value
            .bytes()
            .enumerate()
            .take_while(|&(at, byte)| {
                byte.is_ascii_digit() || byte == b'.' || (at == 0 && matches!(byte, b'-' | b'+'))
            })
            .count();
        let exponent = value[digits..].strip_prefix('e').unwrap_or("");
        let signed = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        let power = signed.bytes().take_while(u8::is_ascii_digit).count();
        if power > 0 {
            digits += 1 + exponent.len() - signed.len() + power;
        }
        let number: f32 = value[..digits].parse().ok()?;
        Some(match &value[digits..] {
            "px" => Self::Px(number),
            "" if number == 0.0 => Self::Px(0.0),
            "pt" => Self::Px(number * 4.0 / 3.0),
            "in" => Self::Px(number * 96.0),
            "cm" => Self::Px(number * 96.0 / 2.54),
            "mm" => Self::Px(number * 96.0 / 25.4),
            "pc" => Self::Px(number * 16.0),
            "rem" => Self::Rem(number),
            "em" => Self::Em(number),
            "ex" | "ch" => Self::Em(number / 2.0),
            "%" => Self::Share(number / 100.0),
            "q" => Self::Px(number * 96.0 / 101.6),
            "vw" | "dvw" | "svw" | "lvw" | "vi" => Self::Px(number * WINDOW.0 / 100.0),
            "vh" | "dvh" | "svh" | "lvh" | "vb" | "vmin" => Self::Px(number * WINDOW.1 / 100.0),
            "vmax" => Self::Px(number * WINDOW.0 / 100.0),
            "cqw" | "cqi" | "cqmax" => Self::Px(number * PAGE / 100.0),
            "cqh" | "cqb" | "cqmin" => Self::Px(number * WINDOW.1 / 100.0),
            "lh" | "rlh" => Self::Rem(number * 1.2),
            "cap" | "ic" => Self::Em(number),
            _ => return None,
        })
    }

    /// In pixels, given the font size and the base of a percentage.
    pub(super) fn pixels(self, font: f32, whole: f32) -> f32 {
        match self {
            Self::Px(pixels) => pixels,
            Self::Em(factor) => factor * font,
            Self::Rem(factor) => factor * USUAL_FONT,
            Self::Share(share) => share * whole,
            Self::Unknown => f32::NAN,
        }
    }

    /// As a font size, given the parent's.
    pub(super) fn font_size(self, parent: f32) -> f32 {
        self.pixels(parent, parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_become_pixels() {
        let pixels = |text| Length::parse(text).map(|length| length.pixels(10.0, 1000.0));
        assert_eq!(pixels("0"), Some(0.0));
        assert_eq!(pixels("-9999px"), Some(-9999.0));
        assert_eq!(pixels("3pt"), Some(4.0));
        assert_eq!(pixels("1in"), Some(96.0));
        assert_eq!(pixels("-100em"), Some(-1000.0));
        assert_eq!(pixels("2rem"), Some(32.0));
        assert_eq!(pixels("-100%"), Some(-1000.0));
        assert_eq!(pixels("1e3px"), Some(1000.0));
        assert_eq!(pixels("50vw"), Some(600.0));
        for text in ["", "auto", "calc(1px)", "px", "5", "--1px", "1.2.3px"] {
            assert_eq!(pixels(text), None, "{text}");
        }
    }
}
