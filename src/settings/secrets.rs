//! Removes the secrets that heartbeat holds from every text that people or programs can see. Other
//! credentials are recognised by their format and never echoed.

use secrecy::{ExposeSecret, SecretString};

use super::{AgentKind, Config, Environment};

/// Replacement for a secret.
pub const REMOVED: &str = "‹credential removed›";

/// Shorter secrets could match ordinary words.
const MIN_LEN: usize = 8;

/// Secrets to search for. `Debug` hides them.
#[derive(Debug, Clone, Default)]
pub struct HeldSecrets(Vec<SecretString>);

impl HeldSecrets {
    /// The agent's credential, the token of the HTTP interface and the addresses of the webhook and
    /// the monitor, where the configuration names them, plus the trackers' credentials.
    pub fn of(config: &Config, environment: &Environment, trackers: Vec<SecretString>) -> Self {
        let agents = AgentKind::ALL.map(|kind| config.credential_env_of(kind));
        let others = [
            &config.http.token_env,
            &config.http.hooks_env,
            &config.report.webhook_env,
            &config.monitor.ping_env,
        ];
        let others = others.map(String::as_str);
        let named = agents.into_iter().chain(others).filter(|name| !name.is_empty());
        let values = named.filter_map(|name| environment.text(name)).map(SecretString::from);
        Self::from_iter(values.chain(trackers))
    }

    /// Whether the text contains one of them.
    pub fn are_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret.expose_secret()))
    }

    /// Returns whether the text contained one.
    pub fn remove_from(&self, text: &mut String) -> bool {
        let found = self.are_in(text);
        for secret in self.0.iter().filter(|_| found) {
            *text = text.replace(secret.expose_secret(), REMOVED);
        }
        found
    }

    /// Returns how many texts contained one.
    pub fn remove_from_all<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) -> usize {
        texts.into_iter().map(|text| self.remove_from(text)).filter(|found| *found).count()
    }
}

impl FromIterator<SecretString> for HeldSecrets {
    fn from_iter<I: IntoIterator<Item = SecretString>>(secrets: I) -> Self {
        let trimmed = |secret: SecretString| SecretString::from(secret.expose_secret().trim());
        let long = |secret: &SecretString| secret.expose_secret().len() >= MIN_LEN;
        Self(secrets.into_iter().map(trimmed).filter(long).collect())
    }
}

/// The kind of credential that a text appears to contain.
pub fn credential_in(text: &str) -> Option<&'static str> {
    if has_password_in_url(text) {
        return Some("a URL with a password");
    }
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')))
        .find_map(credential_word)
}

fn credential_word(word: &str) -> Option<&'static str> {
    let long = word.len() >= 20;
    if word.len() == 52 && word.bytes().all(|b| matches!(b, b'a'..=b'z' | b'2'..=b'7')) {
        let mut letters: Vec<u8> = word.bytes().collect();
        letters.sort_unstable();
        letters.dedup();
        // A real token of that length uses many different letters; a placeholder such as xxxx does
        // not.
        return (letters.len() > 10).then_some("an Azure DevOps token");
    }
    if word.len() == 84 && word.get(76..80) == Some("AZDO") {
        return Some("an Azure DevOps token");
    }
    if long && word.starts_with("sk-ant-") {
        return Some("an Anthropic key");
    }
    let is_mixed = |word: &str| word.bytes().any(|b| b.is_ascii_digit());
    if word.len() >= 32 && word.starts_with("sk-") && is_mixed(word) {
        return Some("an OpenAI key");
    }
    if long && ["ghp_", "gho_", "ghs_", "ghu_", "github_pat_"].iter().any(|p| word.starts_with(p)) {
        return Some("a GitHub token");
    }
    let is_web_token =
        word.len() >= 40 && word.starts_with("eyJ") && word.matches('.').count() == 2;
    is_web_token.then_some("a web token")
}

fn has_password_in_url(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| {
            user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
        })
    })
}

/// Whether a key's name suggests that its value is a credential.
pub fn is_credential_name(key: &str) -> bool {
    ["token", "pat", "password", "secret", "api_key", "apikey", "access_token", "credential"]
        .contains(&key.to_ascii_lowercase().as_str())
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

    #[test]
    fn credentials_are_recognised() {
        let old = format!("token = \"{}\"", "abcdefghijklm234567nopqrstuvwxyz".repeat(2));
        assert_eq!(credential_in(&old[..]), None, "64 characters are no token");
        let pat = "abcdefghijklm234567nopqrstuvwxyzabcdefghijklm2345672";
        assert_eq!(credential_in(&format!("# old: {pat}")), Some("an Azure DevOps token"));
        let new = format!("{}AZDO{}", "A1".repeat(38), "4444");
        assert_eq!(credential_in(&new), Some("an Azure DevOps token"));
        assert!(credential_in("x = 'sk-ant-api03-0123456789abcdef'").is_some());
        assert!(credential_in("https://me:pass@dev.azure.com/contoso").is_some());
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        assert_eq!(credential_in(crate::config::DEFAULT_TOML), None);
        assert_eq!(credential_in("https://contoso@dev.azure.com/contoso"), None);
        assert_eq!(credential_in(&"x".repeat(52)), None);
        assert_eq!(credential_in("0123456789abcdef0123456789abcdef01234567"), None);
    }
}
