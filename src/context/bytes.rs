//! Numbers and texts as bytes, for the files of the index; reading never trusts a length.

/// The bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Appends a number in as few bytes as it needs, seven bits each.
pub(super) fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends a text with its length before it.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what was appended, in order.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
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

    pub(super) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    pub(super) fn fixed(&mut self) -> Result<u64, Malformed> {
        let bytes: [u8; 8] = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The head of a text in at most `most` bytes, never half a character.
pub(super) fn cut(text: &str, most: usize) -> &str {
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
