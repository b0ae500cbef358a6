//! Parses a tracker's JSON, whatever its texts contain.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Parses JSON. Unpaired surrogates, which a Rust string cannot hold, and bytes that are not UTF-8
/// are replaced with replacement characters.
pub fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    // One pass over the whole body is faster than one over each text.
    let text = match std::str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(body),
    };
    serde_json::from_str(&text)
        .or_else(|first| serde_json::from_str(&mend(&text)).map_err(|_| first.to_string()))
}

/// Replaces `\uD800`…`\uDFFF` escapes that are not part of a pair.
fn mend(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match surrogate(rest) {
            None => rest.chars().take(2).map(char::len_utf8).sum(),
            Some(Half::High) if matches!(rest.get(6..).and_then(surrogate), Some(Half::Low)) => 12,
            Some(_) => {
                out.push('\u{FFFD}');
                rest = &rest[6..];
                continue;
            }
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

enum Half {
    High,
    Low,
}

/// Which half of a surrogate pair the escape at the start of `text` is, if it is one.
fn surrogate(text: &str) -> Option<Half> {
    let hex = text.strip_prefix("\\u")?.get(..4)?;
    match u32::from_str_radix(hex, 16).ok()? {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_costs_one_character_and_not_the_batch() {
        let body =
            br#"{"a":"x\ud83dy","b":"\udc00","c":"\ud83d\ude00","d":"\\ud83d","e":"\u0000"}"#;
        let map: HashMap<String, String> = from_json(body).unwrap();
        assert_eq!(map["a"], "x\u{FFFD}y");
        assert_eq!(map["b"], "\u{FFFD}");
        assert_eq!(map["c"], "😀");
        assert_eq!(map["d"], "\\ud83d");
        assert_eq!(map["e"], "\0");
        let body = b"\xEF\xBB\xBF{\"a\":\"\xFFz\"}";
        let map: HashMap<String, String> = from_json(body).unwrap();
        assert_eq!(map["a"], "\u{FFFD}z");
    }

    #[test]
    fn truncated_escapes_are_an_error_and_not_a_panic() {
        for body in
            ["\"\\", "\"\\u", "\"\\ud8", "\"\\ud83d", "\"\\ud83d\\", "\"é\\ud83d\\u00\"", "{"]
        {
            assert!(from_json::<String>(body.as_bytes()).is_err(), "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_and_no_bytes_make_it_panic(
            text in r#"(\\u[dD][89abcdefABCDEF][0-9a-f]{2}|\\|"|[a-z😀é]|\\u00|\\n){0,40}"#,
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60),
        ) {
            let quoted = format!("\"{text}\"");
            let _either = from_json::<Value>(quoted.as_bytes());
            let _either = from_json::<Value>(&bytes);
            let mended = mend(&quoted);
            proptest::prop_assert_eq!(mend(&mended), mended.clone());
        }

        #[test]
        fn whole_texts_come_through_unchanged(text in "\\PC*") {
            let json = serde_json::to_vec(&text).unwrap();
            proptest::prop_assert_eq!(from_json::<String>(&json).unwrap(), text.clone());
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            let mended = mend(&format!("\"{escaped}\""));
            proptest::prop_assert_eq!(serde_json::from_str::<String>(&mended).unwrap(), text);
        }
    }
}
