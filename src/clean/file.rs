//! Attached files: their type by content, and a safe name. Nothing is decoded: the header of an
//! image has its size.

/// Wider or higher images are useless to a model.
const MAX_SIDE: u32 = 8_000;
/// A small file can become very large when decoded.
const MAX_PIXELS: u64 = 40_000_000;
const MAX_NAME_LEN: usize = 40;

/// The type of a file, regardless of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// An image that a model can read.
    Picture { extension: &'static str, width: u32, height: u32 },
    /// Plain text, such as a log.
    Text,
    /// Another type, or not passed on, with the reason.
    Refused(&'static str),
}

/// Checks the bytes of a complete file.
pub fn kind_of_file(bytes: &[u8]) -> FileKind {
    match picture(bytes) {
        Some((extension, Some((width, height)))) => match within_bounds(width, height) {
            true => FileKind::Picture { extension, width, height },
            false => FileKind::Refused("the picture has too many pixels"),
        },
        Some((_, None)) => FileKind::Refused("the picture is damaged"),
        None => text(bytes),
    }
}

fn within_bounds(width: u32, height: u32) -> bool {
    let side = |length: u32| (1..=MAX_SIDE).contains(&length);
    side(width) && side(height) && u64::from(width) * u64::from(height) <= MAX_PIXELS
}

/// Type and size of an image; no size if its header is damaged.
fn picture(bytes: &[u8]) -> Option<(&'static str, Option<(u32, u32)>)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        let size = (bytes.get(12..16) == Some(b"IHDR"))
            .then(|| Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?)));
        return Some(("png", size.flatten()));
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Some(("jpg", jpeg_size(bytes)));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(("gif", little(bytes, 6, 2).zip(little(bytes, 8, 2))));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some(("webp", webp_size(bytes)));
    }
    None
}

/// Size of the first frame; other segments are skipped by their length.
fn jpeg_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        match *bytes.get(at + 1)? {
            0xff => at += 1,
            // Frames of every coding; the excluded ones are tables.
            0xc0..=0xcf if !matches!(bytes[at + 1], 0xc4 | 0xc8 | 0xcc) => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            0x01 | 0xd0..=0xd9 => at += 2,
            _ => at += 2 + usize::try_from(big(bytes, at + 2, 2)?.max(2)).ok()?,
        }
    }
}

fn webp_size(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let packed = little(bytes, 21, 4)?;
            Some(((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1))
        }
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(length)?)?;
    Some(part.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(length)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Markup is not passed on as text: a browser would display something else.
fn text(bytes: &[u8]) -> FileKind {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return FileKind::Refused("neither a picture nor plain text");
    };
    let odd = text.chars().filter(|c| c.is_control() && !"\n\r\t\u{1b}".contains(*c)).count();
    if odd * 50 > text.len() || text.contains('\0') {
        return FileKind::Refused("neither a picture nor plain text");
    }
    let start: String =
        text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).chars().take(4_000).collect();
    let start = start.to_ascii_lowercase();
    let is_markup = start.starts_with('<')
        && ["<svg", "<html", "<!doctype", "<script"].iter().any(|tag| start.contains(tag));
    match is_markup {
        true if start.contains("<svg") => FileKind::Refused("SVG can carry scripts"),
        true => FileKind::Refused("a web page"),
        false => FileKind::Text,
    }
}

/// A generated name for the `number`-th file: no path, safe for shells and readers.
pub fn harmless_name(number: usize, given: &str, extension: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let stem: String = stem.chars().map(plain).take(MAX_NAME_LEN).collect();
    match stem.trim_matches('-') {
        "" => format!("{number}.{extension}"),
        stem => format!("{number}-{stem}.{extension}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let mut bytes = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03x\xff\xff\xc2\0\x0b\x08".to_vec();
        bytes.extend(height.to_be_bytes());
        bytes.extend(width.to_be_bytes());
        bytes
    }

    #[test]
    fn pictures_are_known_by_their_bytes_with_their_size() {
        let picture = |extension, width, height| FileKind::Picture { extension, width, height };
        assert_eq!(kind_of_file(&png(800, 600)), picture("png", 800, 600));
        assert_eq!(kind_of_file(&jpeg(640, 480)), picture("jpg", 640, 480));
        assert_eq!(kind_of_file(b"GIF89a\x20\x03\x58\x02rest"), picture("gif", 800, 600));
        let vp8x = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0";
        assert_eq!(kind_of_file(vp8x), picture("webp", 800, 600));
        let vp8l = [&b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f"[..], &(799_u32 | 599 << 14).to_le_bytes()];
        assert_eq!(kind_of_file(&vp8l.concat()), picture("webp", 800, 600));
    }

    #[test]
    fn bombs_damaged_ones_and_scripts_are_refused() {
        for (bytes, word) in [
            (png(60_000, 60_000), "too many pixels"),
            (png(7_999, 7_999), "too many pixels"),
            (png(0, 5), "too many pixels"),
            (png(5, 5)[..20].to_vec(), "damaged"),
            (b"\xff\xd8\xff\xe0\xff\xff".to_vec(), "damaged"),
            (b"RIFF\0\0\0\0WEBPVP8?".to_vec(), "damaged"),
            (b"<?xml version=\"1.0\"?>\n<svg onload=\"alert(1)\"/>".to_vec(), "scripts"),
            (b" <SVG><script>x</script></SVG>".to_vec(), "scripts"),
            (b"<!DOCTYPE html><p>x".to_vec(), "web page"),
            (b"\x7fELF\x02\x01\x01\0\0".to_vec(), "neither"),
            (b"PK\x03\x04\xff\xfe".to_vec(), "neither"),
        ] {
            let FileKind::Refused(why) = kind_of_file(&bytes) else { panic!("{bytes:?}") };
            assert!(why.contains(word), "{why}: {bytes:?}");
        }
        for log in ["12:00 ERROR <svg> is not a number\n", "", "{\"a\": 1}", "<bound method x>"] {
            assert_eq!(kind_of_file(log.as_bytes()), FileKind::Text, "{log}");
        }
    }

    #[test]
    fn names_lead_nowhere() {
        assert_eq!(harmless_name(1, "../../x", "png"), "1-x.png");
        assert_eq!(harmless_name(2, "..\\..\\My shot (1).PNG.exe", "png"), "2-My-shot--1--PNG.png");
        assert_eq!(harmless_name(3, "\u{202e}gnp.\0/..", "txt"), "3.txt");
        assert_eq!(harmless_name(4, &"a".repeat(500), "gif").len(), 46);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_kind(bytes in prop::collection::vec(any::<u8>(), 0..80), start in 0_usize..6) {
            let starts: [&[u8]; 6] = [b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"<svg"];
            kind_of_file(&[starts[start], &bytes].concat());
        }
    }
}
