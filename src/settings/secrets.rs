//! The secrets that heartbeat holds: no text that people or other programs get to see carries one.

use secrecy::{ExposeSecret, SecretString};

use super::{Config, Environment};

/// What stands where a secret stood.
pub const REMOVED: &str = "‹credential removed›";

/// Shorter ones are ordinary words.
const SHORTEST: usize = 8;

/// Secrets to look for. Its debug form shows none.
#[derive(Debug, Clone, Default)]
pub struct HeldSecrets(Vec<SecretString>);

impl HeldSecrets {
    /// The agent's credential, the token of the HTTP interface and the webhook's address, as far as
    /// this configuration names them, and the tracker's credential if it is known.
    pub fn of(config: &Config, environment: &Environment, tracker: Option<SecretString>) -> Self {
        let names =
            [&config.agent.credential_env, &config.http.token_env, &config.report.webhook_env];
        let named = names.into_iter().filter(|name| !name.is_empty());
        let values = named.filter_map(|name| environment.text(name)).map(SecretString::from);
        Self::from_iter(values.chain(tracker))
    }

    /// Is one of them in this text?
    pub fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret.expose_secret()))
    }

    /// Takes them out of a text. True: one was there.
    pub fn remove_from(&self, text: &mut String) -> bool {
        let found = self.are_in(text);
        for secret in self.0.iter().filter(|_| found) {
            *text = text.replace(secret.expose_secret(), REMOVED);
        }
        found
    }

    /// Takes them out of many texts; returns how many had one.
    pub fn remove_from_all<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) -> usize {
        texts.into_iter().map(|text| self.remove_from(text)).filter(|found| *found).count()
    }
}

impl FromIterator<SecretString> for HeldSecrets {
    fn from_iter<I: IntoIterator<Item = SecretString>>(secrets: I) -> Self {
        let trimmed = |secret: SecretString| SecretString::from(secret.expose_secret().trim());
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST;
        Self(secrets.into_iter().map(trimmed).filter(long).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(secrets: &[&str]) -> HeldSecrets {
        secrets.iter().map(|secret| SecretString::from(*secret)).collect()
    }

    #[test]
    fn every_occurrence_goes_and_the_rest_stays() {
        let held = held(&["one-secret\n", "another secret", "word"]);
        let mut text = "one-secret, another secret and one-secret in a word".to_owned();
        assert!(held.remove_from(&mut text));
        assert_eq!(text, format!("{REMOVED}, {REMOVED} and {REMOVED} in a word"));
        assert!(!held.remove_from(&mut text), "nothing is left");
        let mut clean = ["words".to_owned(), "one-secret".to_owned()];
        assert_eq!(held.remove_from_all(&mut clean), 1);
    }

    #[test]
    fn empty_and_short_values_take_nothing_away() {
        let held = held(&["", "  ", "short"]);
        let mut text = "a short text".to_owned();
        assert!(!held.remove_from(&mut text));
        assert_eq!(text, "a short text");
    }

    #[test]
    fn the_debug_form_is_silent() {
        assert!(!format!("{:?}", held(&["one-secret"])).contains("one-secret"));
    }
}
