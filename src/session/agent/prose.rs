//! Extracts an answer from prose: a model that ignored the schema may still have written the
//! requested object. It is validated like any other answer.

use serde_json::Value;

/// Limit of opening braces tried, since each may cost a pass over the whole text.
const MAX_TRIED: usize = 100;

/// The longest JSON object in a text.
pub fn embedded_object(text: &str) -> Option<Value> {
    let (mut longest, mut rest) = (None::<(usize, Value)>, text);
    for _ in 0..MAX_TRIED {
        let Some(start) = rest.find('{') else { break };
        let candidate = &rest[start..];
        let mut values = serde_json::Deserializer::from_str(candidate).into_iter::<Value>();
        let skip = match values.next() {
            Some(Ok(value @ Value::Object(_))) => {
                let length = values.byte_offset();
                if longest.as_ref().is_none_or(|(known, _)| length > *known) {
                    longest = Some((length, value));
                }
                length
            }
            _ => 1,
        };
        rest = &candidate[skip..];
    }
    longest.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_object_is_found_between_words_and_fences() {
        let answer = json!({ "verdicts": [{ "id": 1, "reason": "a { b } c" }] });
        for text in [
            answer.to_string(),
            format!("Here is what I found:\n```json\n{answer:#}\n```\nAnything else?"),
            format!("An example is {{\"id\": 1}} and {{ not JSON }}. {answer}"),
            format!("{{{{ {answer}"),
        ] {
            assert_eq!(embedded_object(&text), Some(answer.clone()), "{text}");
        }
        for text in ["", "no braces", "{", "{ not JSON }", "[1, 2]", "\u{e9}{\u{e9}"] {
            assert_eq!(embedded_object(text), None, "{text}");
        }
    }

    #[test]
    fn a_text_full_of_braces_is_given_up() {
        let text = format!("{} {}", "{\"a\":\"".repeat(1 << 15), json!({ "id": 1 }));
        assert_eq!(embedded_object(&text), None);
    }
}
