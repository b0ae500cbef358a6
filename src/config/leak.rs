//! Recognises credentials where none belong, so that they are refused and never echoed.

/// What kind of credential a text contains, if it looks like one.
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
        // Random letters of that length are never as uniform as a line of x.
        return (letters.len() > 10).then_some("an Azure DevOps token");
    }
    if word.len() == 84 && word.get(76..80) == Some("AZDO") {
        return Some("an Azure DevOps token");
    }
    if long && word.starts_with("sk-ant-") {
        return Some("an Anthropic key");
    }
    if long && ["ghp_", "gho_", "ghs_", "github_pat_"].iter().any(|p| word.starts_with(p)) {
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

/// Whether a key is named as if a credential itself were its value.
pub fn is_credential_name(key: &str) -> bool {
    ["token", "pat", "password", "secret", "api_key", "apikey", "access_token", "credential"]
        .contains(&key.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(credential_in(super::super::DEFAULT_TOML), None);
        assert_eq!(credential_in("https://contoso@dev.azure.com/contoso"), None);
        assert_eq!(credential_in(&"x".repeat(52)), None);
        assert_eq!(credential_in("0123456789abcdef0123456789abcdef01234567"), None);
    }
}
