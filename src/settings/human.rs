//! Parses and formats durations such as `10m` and sizes such as `64 MiB`.

use std::time::Duration;

/// A duration such as `90s`, `10m`, `2h`, `7d` or `1h 30m`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration = text
        .trim()
        .parse::<jiff::Span>()
        .ok()
        .and_then(|span| span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).ok())
        .ok_or_else(|| {
            format!("{text:?} is not a duration; write for example 90s, 10m, 2h or 7d")
        })?;
    Duration::try_from(span).map_err(|_| format!("{text:?} is negative"))
}

/// The shortest text that [`parse_duration`] parses to the same value.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    match ms {
        0 => "0s".into(),
        ms if ms % 86_400_000 == 0 => format!("{}d", ms / 86_400_000),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}m", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

const UNITS: [(&str, u64); 7] = [
    ("gib", 1 << 30),
    ("mib", 1 << 20),
    ("kib", 1 << 10),
    ("gb", 1_000_000_000),
    ("mb", 1_000_000),
    ("kb", 1_000),
    ("b", 1),
];

/// A size such as `64 MiB`, `4GiB`, `500 kB` or `1024` (bytes).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| lower.strip_suffix(unit).map(|n| (n.trim(), *factor)))
        .unwrap_or((lower.as_str(), 1));
    number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(|| format!("{text:?} is not a size; write for example 64 MiB or 4 GiB"))
}

/// The shortest text that [`parse_size`] parses to the same value.
pub fn format_size(bytes: u64) -> String {
    for (name, unit) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

macro_rules! serde_text {
    ($module:ident, $type:ty, $parse:expr, $format:expr) => {
        /// `#[serde(with = …)]` for values written as text.
        pub mod $module {
            use serde::{Deserialize, Deserializer, Serializer, de::Error};

            pub fn serialize<S: Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$format(value))
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                let text = String::deserialize(deserializer)?;
                $parse(&text).map_err(D::Error::custom)
            }
        }
    };
}

serde_text!(duration, std::time::Duration, super::parse_duration, |d: &std::time::Duration| {
    super::format_duration(*d)
});
serde_text!(size, u64, super::parse_size, |n: &u64| super::format_size(*n));
serde_text!(
    optional_duration,
    Option<std::time::Duration>,
    |text: &str| if text.is_empty() { Ok(None) } else { super::parse_duration(text).map(Some) },
    |d: &Option<std::time::Duration>| d.map(super::format_duration).unwrap_or_default()
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, seconds) in [("0s", 0), ("90s", 90), ("10m", 600), ("2h", 7200), ("7d", 604_800)]
        {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_secs(), seconds);
            assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }
        assert_eq!(parse_duration(" 1h 30m ").unwrap().as_secs(), 5400);
        assert_eq!(format_duration(Duration::from_millis(1500)), "1500ms");
        for wrong in ["", "10", "ten minutes", "-5m", "1mo", "99999999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in
            [("64 MiB", 64 << 20), ("4GiB", 4 << 30), ("500 kB", 500_000), ("7", 7)]
        {
            assert_eq!(parse_size(text).unwrap(), bytes);
            assert_eq!(parse_size(&format_size(bytes)).unwrap(), bytes);
        }
        for wrong in ["", "MiB", "-1 MiB", "1.5 GiB", "99999999999 GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
