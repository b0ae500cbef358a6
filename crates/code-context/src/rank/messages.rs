//! Message catalogues: they contain the text a user reads, and the code contains only its key.

/// Folders of catalogues that are plain data.
const FOLDERS: [&str; 7] =
    ["locale", "locales", "i18n", "l10n", "lang", "translations", "localization"];
/// A shorter key is an ordinary word.
const MIN_KEY_LEN: usize = 4;

/// Whether this is a message catalogue, judged by its path.
pub(crate) fn is_catalogue(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    is_markup(name)
        || ends(&[".properties", ".arb", ".strings"])
        || ends(&[".json", ".yml", ".yaml"])
            && folders.split('/').any(|folder| FOLDERS.contains(&folder))
}

fn is_markup(lower: &str) -> bool {
    lower.ends_with(".resx") || lower.ends_with(".resw") || lower.ends_with("strings.xml")
}

/// The key of a message in a catalogue.
pub(crate) fn key_of<'a>(path: &str, text: &'a str, message: &str) -> Option<&'a str> {
    let at = text.find(message).filter(|_| is_catalogue(path))?;
    let key = if is_markup(&path.to_ascii_lowercase()) {
        let (_, entry) = text[..at].rsplit_once("name=\"")?;
        let (key, rest) = entry.split_once('"')?;
        // The entry must still be open at the message.
        Some(key).filter(|_| !rest.contains("</data>") && !rest.contains("</string>"))
    } else {
        let line = text[..at].rsplit('\n').next()?.trim_start().trim_start_matches(['"', '\'']);
        let end = line.find(|c: char| !c.is_alphanumeric() && !"._-".contains(c))?;
        Some(&line[..end])
    };
    key.filter(|key| key.len() >= MIN_KEY_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_key_of_its_entry() {
        let resx = "<data name=\"First\"><value>One</value></data>\n\
                    <data name=\"Closed\" xml:space=\"preserve\">\n<value>It is closed</value></data>\n\
                    It is loose";
        assert_eq!(key_of("a/Texts.resx", resx, "It is closed"), Some("Closed"));
        assert_eq!(key_of("a/Texts.resx", resx, "It is loose"), None);
        let json = "{\n  \"gate.closed\": \"It is closed\"\n}";
        assert_eq!(key_of("web/locales/en.json", json, "It is closed"), Some("gate.closed"));
        assert_eq!(key_of("web/settings/en.json", json, "It is closed"), None);
        let lines = "gateClosed = It is closed\nno=It is short\n";
        assert_eq!(key_of("t.properties", lines, "It is closed"), Some("gateClosed"));
        assert_eq!(key_of("t.properties", lines, "It is short"), None);
    }
}
