//! Numbers and texts as bytes, for the files of the index; reading never trusts a length.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes do not have the expected form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends a number in as few bytes as needed, seven bits each.
pub(crate) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a number in four bytes.
pub(crate) fn put_four(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a number in eight bytes.
pub(crate) fn put_eight(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A checksum against damage; any change within eight bytes changes it.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, word: [u8; 8]| {
        (sum.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| step(sum, *word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    crate::text::term::mix(step(sum, last))
}

/// The same in four bytes, for small parts.
pub(crate) fn short_checksum(bytes: &[u8]) -> u32 {
    let sum = checksum(bytes);
    (sum >> 32) as u32 ^ (sum & 0xffff_ffff) as u32
}

/// A value as a file: a magic number, a checksum, and the value as JSON.
pub(crate) fn seal(magic: &[u8; 8], value: &impl Serialize) -> Vec<u8> {
    // Plain data: it cannot fail, and what it would leave is refused when it is read.
    let content = serde_json::to_vec(value).unwrap_or_default();
    [&magic[..], &checksum(&content).to_le_bytes(), &content].concat()
}

/// The value in a sealed file, if it is undamaged.
pub(crate) fn unseal<T: DeserializeOwned>(magic: &[u8; 8], file: &[u8]) -> Result<T, Malformed> {
    let mut bytes = Bytes(file);
    if bytes.take(8)? != magic || bytes.fixed()? != checksum(bytes.0) {
        return Err(Malformed);
    }
    serde_json::from_slice(bytes.0).map_err(|_| Malformed)
}

/// Reads the appended values in order.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    pub(crate) fn four(&mut self) -> Result<u32, Malformed> {
        let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn fixed(&mut self) -> Result<u64, Malformed> {
        let bytes: [u8; 8] = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The first at most `most` bytes of a text, without splitting a character.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn what_is_put_comes_back(numbers in proptest::collection::vec(proptest::prelude::any::<u64>(), 0..20), text in ".{0,30}") {
            let mut out = Vec::new();
            for number in &numbers {
                put_number(&mut out, *number);
            }
            put_text(&mut out, &text);
            let mut bytes = Bytes(&out);
            for number in &numbers {
                assert_eq!(bytes.number(), Ok(*number));
            }
            assert_eq!(bytes.text(), Ok(text.as_str()));
            assert!(bytes.is_empty());
        }

        #[test]
        fn a_sealed_file_is_whole_or_refused(
            content in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
            at in proptest::prelude::any::<proptest::sample::Index>(),
            flip in 1u8..,
        ) {
            let mut file = seal(b"testing\0", &content);
            let read = |file: &[u8]| unseal::<Vec<u8>>(b"testing\0", file);
            assert_eq!(read(&file), Ok(content));
            assert!(read(&file[..at.index(file.len())]).is_err());
            let at = at.index(file.len());
            file[at] ^= flip;
            assert!(read(&file).is_err());
        }

        #[test]
        fn any_bytes_are_survived(input in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
            let mut bytes = Bytes(&input);
            while !bytes.is_empty() {
                if bytes.number().is_err() || bytes.text().is_err() {
                    break;
                }
            }
        }
    }
}
