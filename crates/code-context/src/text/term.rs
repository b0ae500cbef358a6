//! Words as the index knows them: identifiers are split at underscores and capitals, folded,
//! stemmed and hashed. The index has only hashes, so it never stores or compares the words.

pub type Term = u64;

/// Words of one letter say nothing, and very long ones are data.
const MIN_LEN: usize = 2;
const MAX_LEN: usize = 64;

/// The kind of a hashed word; the same letters give different terms in each space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// A stemmed part of an identifier, or a word of prose.
    Word,
    /// A whole identifier made of several parts.
    Whole,
    /// The name of a definition.
    Symbol,
}

/// The term of `folded` (already in lower case) in a space.
pub fn hash(space: Space, folded: &[u8]) -> Term {
    let seed = match space {
        Space::Word => 0xcbf2_9ce4_8422_2325,
        Space::Whole => 0x9e37_79b9_7f4a_7c15,
        Space::Symbol => 0xc2b2_ae3d_27d4_eb4f,
    };
    mix(raw_hash(seed, folded))
}

/// A fast hash; the same on every machine and in every version of this format.
pub(crate) fn raw_hash(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Spreads a hash over all bits, so that its high bits select buckets evenly.
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A hash for tables in memory only: eight bytes at a time.
pub(crate) fn hash_in_memory(bytes: &[u8]) -> u64 {
    const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let fold = |hash: u64, word: [u8; 8]| {
        let wide = u128::from(hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        let (high, low) = (wide >> 64, wide & u128::from(u64::MAX));
        #[expect(clippy::cast_possible_truncation, reason = "both halves have 64 bits")]
        let folded = high as u64 ^ low as u64;
        folded
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words.iter().fold(!(bytes.len() as u64), |hash, word| fold(hash, *word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(hash, last)
}

/// Whether this byte can be inside an identifier. Letters beyond ASCII count as letters.
pub(crate) const fn is_word_byte(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            #[expect(clippy::cast_possible_truncation, reason = "below 256")]
            let letter = byte as u8;
            word[byte] = letter.is_ascii_alphanumeric() || letter == b'_' || letter >= 0x80;
            byte += 1;
        }
        word
    };
    WORD[byte as usize]
}

/// The identifiers and words in a text, with their byte offsets.
pub fn identifiers(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut position = 0;
    std::iter::from_fn(move || {
        while position < text.len() && !is_word_byte(text[position]) {
            position += 1;
        }
        let start = position;
        while position < text.len() && is_word_byte(text[position]) {
            position += 1;
        }
        (position > start).then(|| (start, &text[start..position]))
    })
}

/// The parts of an identifier in lower case: `HTTPServer_name2` gives `http`, `server`, `name`, `2`.
pub fn parts(identifier: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    let mut buffer = [0u8; MAX_LEN];
    let mut length = 0;
    let mut count = 0;
    let mut flush = |buffer: &[u8; MAX_LEN], length: &mut usize| {
        if *length > 0 {
            each(&buffer[..*length]);
            count += 1;
        }
        *length = 0;
    };
    for (index, &byte) in identifier.iter().enumerate() {
        if byte == b'_' {
            flush(&buffer, &mut length);
            continue;
        }
        let before = index.checked_sub(1).map(|i| identifier[i]);
        let after = identifier.get(index + 1);
        let hump = byte.is_ascii_uppercase()
            && (before.is_some_and(|b| !b.is_ascii_uppercase())
                || after.is_some_and(u8::is_ascii_lowercase));
        let digits = before.is_some_and(|b| b.is_ascii_digit() != byte.is_ascii_digit());
        if hump || digits {
            flush(&buffer, &mut length);
        }
        if length < MAX_LEN {
            buffer[length] = byte.to_ascii_lowercase();
            length += 1;
        }
    }
    flush(&buffer, &mut length);
    count
}

/// Calls back with the terms of one identifier: its stemmed parts, and itself if it has several.
pub fn terms_of(identifier: &[u8], mut each: impl FnMut(Term)) {
    if identifier.len() < MIN_LEN || identifier.len() > MAX_LEN {
        return;
    }
    let mut letters = 0;
    let count = parts(identifier, |part| {
        letters += usize::from(!part[0].is_ascii_digit());
        if part.len() >= MIN_LEN && !part[0].is_ascii_digit() {
            each(hash(Space::Word, stem(part)));
        }
    });
    if count > 1 && letters > 0 {
        let mut folded = [0; MAX_LEN];
        let folded = &mut folded[..identifier.len()];
        folded.copy_from_slice(identifier);
        folded.make_ascii_lowercase();
        each(hash(Space::Whole, folded));
    }
}

/// Whether this identifier has several parts, such as `parse_line`, `parseLine` or the error code
/// `E0308`.
pub fn is_compound(identifier: &[u8]) -> bool {
    let mut letters = 0;
    let count = parts(identifier, |part| letters += usize::from(!part[0].is_ascii_digit()));
    count > 1 && letters > 0
}

/// A name normalised for comparison: letters and digits only, folded, in the singular.
pub fn squeeze(name: &str) -> String {
    let mut squeezed: String =
        name.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect();
    if squeezed.ends_with('s') {
        squeezed.pop();
    }
    squeezed
}

/// Removes common English endings, so that `disposed`, `disposing` and `dispose` are equal.
pub fn stem(word: &[u8]) -> &[u8] {
    let mut length = word.len();
    if !word.iter().all(u8::is_ascii_lowercase) {
        return word;
    }
    let ends = |length: usize, ending: &[u8], rest: usize| {
        length >= ending.len() + rest
            && word[length - 1] == ending[ending.len() - 1]
            && word[..length].ends_with(ending)
    };
    if ends(length, b"ies", 3) {
        length -= 2;
    } else if ends(length, b"s", 3)
        && !ends(length, b"ss", 0)
        && !ends(length, b"us", 0)
        && !ends(length, b"is", 0)
    {
        length -= 1;
    }
    for ending in [&b"ing"[..], b"ion", b"ed", b"er", b"or", b"able"] {
        if ends(length, ending, 4) {
            length -= ending.len();
            break;
        }
    }
    for (ending, rest) in [(&b"e"[..], 3), (b"i", 3), (b"y", 3), (b"at", 5)] {
        if ends(length, ending, rest) {
            length -= ending.len();
        }
    }
    let doubled = length >= 4
        && word[length - 1] == word[length - 2]
        && !matches!(word[length - 1], b's' | b'l');
    &word[..length - usize::from(doubled)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(identifier: &str) -> Vec<String> {
        let mut all = Vec::new();
        parts(identifier.as_bytes(), |part| all.push(String::from_utf8(part.to_vec()).unwrap()));
        all
    }

    #[test]
    fn identifiers_split_at_humps_underscores_and_digits() {
        assert_eq!(split("HTTPServerName"), ["http", "server", "name"]);
        assert_eq!(split("snake_case__x"), ["snake", "case", "x"]);
        assert_eq!(split("utf8Text"), ["utf", "8", "text"]);
        assert_eq!(split("IReadOnlyList"), ["i", "read", "only", "list"]);
        assert_eq!(split("___"), [""; 0]);
    }

    #[test]
    fn word_families_meet_in_one_stem() {
        for family in [
            &["dispose", "disposed", "disposing", "disposes"][..],
            &["parse", "parser", "parsing", "parsers"],
            &["validate", "validation", "validating", "validator"],
            &["serialize", "serializer", "serialization"],
            &["entry", "entries"],
            &["format", "formatting", "formatter"],
            &["configure", "configuration", "configured"],
            &["log", "logs"],
        ] {
            let stems: std::collections::BTreeSet<Vec<u8>> =
                family.iter().map(|word| stem(word.as_bytes()).to_vec()).collect();
            assert_eq!(stems.len(), 1, "{family:?} {stems:?}");
        }
        assert_eq!(stem(b"class"), b"class");
    }

    #[test]
    fn a_name_is_the_same_however_it_is_written() {
        for name in ["SourceMap", "source-maps", "source_map", "sourceMaps"] {
            assert_eq!(squeeze(name), "sourcemap");
        }
    }

    #[test]
    fn spaces_keep_the_same_letters_apart() {
        assert_ne!(hash(Space::Word, b"cart"), hash(Space::Symbol, b"cart"));
        assert_eq!(hash(Space::Word, b"cart"), hash(Space::Word, b"cart"));
    }

    #[test]
    fn identifiers_carry_their_offsets() {
        let found: Vec<_> = identifiers(b"a.b_c(42) \xc3\xa4").collect();
        assert_eq!(found, [(0, &b"a"[..]), (2, b"b_c"), (6, b"42"), (10, b"\xc3\xa4")]);
    }
}
