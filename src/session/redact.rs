//! Removes heartbeat's credentials from what an agent wrote, before it is stored or shown.

use serde_json::Value;

use crate::event::{Event, Sink};
use crate::model::{SessionEnd, SessionId, SessionTranscript, Untrusted, plain_text};
use crate::settings::{HeldSecrets, credential_in};

/// Forwards events without credentials: some contain names that the agent reported.
pub struct RedactedEvents<'a> {
    pub events: &'a dyn Sink,
    pub held: &'a HeldSecrets,
}

impl Sink for RedactedEvents<'_> {
    fn emit(&self, mut event: Event) {
        match &mut event {
            Event::SessionInitialised { model, version, .. } => {
                self.held.remove_from_all([model, version]);
            }
            Event::SessionProgressed { what, .. } => {
                self.held.remove_from(what);
            }
            _ => {}
        }
        self.events.emit(event);
    }
}

/// A transcript that may be shown while its session runs.
pub fn shown_transcript(said: &SessionTranscript, held: &HeldSecrets) -> SessionTranscript {
    let mut said = said.clone();
    said.texts_mut().for_each(|text| *text = plain_text(text));
    held.remove_from_all(said.texts_mut());
    for text in said.texts_mut() {
        if let Some(kind) = credential_in(text) {
            *text = format!("‹removed: it contains {kind}›");
        }
    }
    said
}

/// Removes credentials from the output, the transcript and standard error.
pub fn redact(session: SessionId, end: &mut SessionEnd, held: &HeldSecrets) {
    let removed = end.output.as_mut().map_or(0, |output| redact_value(output, held));
    if removed > 0 {
        tracing::error!(session_id = %session, texts = removed, "removed one of heartbeat's credentials from an agent's answer");
    }
    held.remove_from_all(end.transcript.texts_mut());
    let mut said = end.stderr_tail.raw().clone();
    if held.remove_from(&mut said) {
        end.stderr_tail = Untrusted::new(said);
    }
}

/// Includes the names of fields. Returns how many texts contained a credential.
pub(super) fn redact_value(value: &mut Value, held: &HeldSecrets) -> usize {
    match value {
        Value::String(text) => usize::from(held.remove_from(text)),
        Value::Array(values) => values.iter_mut().map(|value| redact_value(value, held)).sum(),
        Value::Object(entries) => {
            let mut removed = 0;
            for (mut name, mut value) in std::mem::take(entries) {
                removed += usize::from(held.remove_from(&mut name));
                removed += redact_value(&mut value, held);
                entries.insert(name, value);
            }
            removed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::*;
    use crate::model::Outcome;

    #[derive(Default)]
    struct Recorded(std::sync::Mutex<Vec<Event>>);

    impl Sink for Recorded {
        fn emit(&self, event: Event) {
            self.0.lock().unwrap().push(event);
        }
    }

    fn held() -> HeldSecrets {
        [SecretString::from("correct-horse")].into_iter().collect()
    }

    #[test]
    fn no_text_of_an_end_keeps_a_credential() {
        let mut end = SessionEnd {
            output: Some(json!({
                "summary": "it is correct-horse", "correct-horse": [{ "a": "correct-horse" }], "n": 1,
            })),
            stderr_tail: Untrusted::from("key correct-horse refused"),
            ..SessionEnd::empty(Outcome::Unkillable)
        };
        redact(SessionId(uuid::Uuid::now_v7()), &mut end, &held());
        let stored = serde_json::to_string(&end).unwrap();
        assert!(!stored.contains("correct-horse"), "{stored}");
        assert_eq!(end.output.unwrap()["n"], 1);
    }

    #[test]
    fn what_is_shown_of_a_live_session_has_no_credential() {
        let mut said = SessionTranscript::default();
        let key = format!("sk-ant-{}", "a1b2c3d4".repeat(4));
        for text in ["the word is correct-horse", key.as_str(), "src/total.rs"] {
            said.push(0, crate::model::TranscriptKind::Said, text);
        }
        let shown = serde_json::to_string(&shown_transcript(&said, &held())).unwrap();
        assert!(!shown.contains("correct-horse") && !shown.contains(&key), "{shown}");
        assert!(shown.contains("src/total.rs"), "{shown}");
    }

    #[test]
    fn no_event_carries_a_credential_as_the_name_of_a_model() {
        let session = SessionId(uuid::Uuid::now_v7());
        let recorder = Recorded::default();
        let held = held();
        let events = RedactedEvents { events: &recorder, held: &held };
        let [model, version] = ["correct-horse", "2 correct-horse"].map(str::to_owned);
        events.emit(Event::SessionInitialised { session, model, version });
        let what = "model fallback to correct-horse".to_owned();
        events.emit(Event::SessionProgressed { session, what });
        let emitted = format!("{:?}", recorder.0.lock().unwrap());
        assert!(!emitted.contains("correct-horse"), "{emitted}");
        assert!(emitted.contains("model fallback to"), "{emitted}");
    }
}
