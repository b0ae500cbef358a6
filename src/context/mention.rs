//! Paths, names with hyphens and links in the text of an item. Pure.

/// Leaves out what is not the reporter's words: comments of the form, pictures, addresses.
///
/// The second value holds the files that links into a code browser point to.
pub(super) fn without_noise(text: &str) -> (String, Vec<String>) {
    let mut clean = String::with_capacity(text.len());
    let mut linked = Vec::new();
    let mut rest = text;
    while let Some(at) = next_noise(rest) {
        clean.push_str(&rest[..at]);
        clean.push(' ');
        let noise = &rest[at..];
        let length = if noise.starts_with("<!--") {
            noise.find("-->").map_or(noise.len(), |end| end + 3)
        } else if noise.starts_with("![") {
            noise.find(')').map_or(2, |end| end + 1)
        } else {
            noise
                .find(|c: char| c.is_whitespace() || matches!(c, ')' | '>' | '"' | ']'))
                .unwrap_or(noise.len())
        };
        linked.extend(linked_path(&noise[..length]));
        rest = &noise[length..];
    }
    clean.push_str(rest);
    (clean, linked)
}

fn next_noise(text: &str) -> Option<usize> {
    ["<!--", "![", "http://", "https://", "data:image"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
}

/// The file behind `https://host/owner/name/blob/commit/path#L1`.
fn linked_path(address: &str) -> Option<String> {
    let (_, after) = address.split_once("/blob/")?;
    let (_, path) = after.split_once('/')?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    (!path.is_empty()).then(|| path.to_lowercase())
}

/// Gives everything that looks like a path or a file's name.
pub(super) fn paths(text: &str, mut each: impl FnMut(String)) {
    let inside = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '\\' | '.' | '_' | '-' | '@' | '+')
    };
    for candidate in text.split(|c: char| !inside(c)) {
        let candidate = candidate.trim_matches(|c: char| matches!(c, '.' | '-' | '@' | '+'));
        let path = candidate.replace('\\', "/").to_lowercase();
        let path = path.trim_start_matches(['.', '/']);
        let name = path.rsplit('/').next().unwrap_or(path);
        let Some((stem, extension)) = name.rsplit_once('.') else { continue };
        let likely = (1..=6).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && !extension.starts_with(|c: char| c.is_ascii_digit());
        if likely && !stem.is_empty() && stem.chars().any(|c| c.is_ascii_alphabetic()) {
            each(path.to_owned());
        }
    }
}

/// Gives every name with hyphens inside, such as a rule's or a package's.
pub(super) fn hyphened<'a>(text: &'a str, mut each: impl FnMut(&'a str)) {
    for candidate in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let name = candidate.trim_matches('-');
        let parts = name.split('-').count();
        let named = name
            .split('-')
            .all(|part| part.len() > 1 && part.starts_with(|c: char| c.is_ascii_alphabetic()));
        if (2..=6).contains(&parts) && named {
            each(name);
        }
    }
}

const SHORTEST_LITERAL: usize = 6;
const LONGEST_LITERAL: usize = 80;

/// What may stand in the code word for word: quoted messages, the words of an error, qualified
/// names and flags.
pub(super) fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for quote in ['"', '`', '\''] {
            let quoted = line.split(quote).skip(1).step_by(2).map(str::trim);
            found.extend(quoted.filter(|quoted| is_telling(quoted)).map(str::to_owned));
        }
        for mark in ["rror: ", "xception: ", "anic: ", "arning: "] {
            let Some((_, message)) = line.split_once(mark) else { continue };
            let parts = message.split(|c: char| c.is_ascii_digit() || "\"'`<>{}[]()".contains(c));
            let longest = parts.map(str::trim).max_by_key(|part| part.len());
            let words = |part: &&str| part.split_whitespace().count() >= 3;
            found.extend(longest.filter(words).filter(|part| is_telling(part)).map(str::to_owned));
        }
        let inside = |c: char| c.is_alphanumeric() || "_.:-#>/@".contains(c);
        let tokens = line.split(|c: char| !inside(c));
        let tokens = tokens.map(|token| token.trim_matches(['.', ':', '#', '>', '/']));
        found.extend(tokens.filter(|token| is_qualified(token)).map(str::to_owned));
    }
    found
}

fn is_telling(text: &str) -> bool {
    let odd = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | ' ');
    let words = text.split_whitespace().count();
    (SHORTEST_LITERAL..=LONGEST_LITERAL).contains(&text.len())
        && text.chars().any(char::is_alphabetic)
        && (words >= 2 || text.chars().any(odd))
}

/// `Regex.IsMatch`, `fmt::format`, `--no-color`.
fn is_qualified(token: &str) -> bool {
    let named = |part: &str| part.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    let flag = token.strip_prefix("--").is_some_and(named);
    let joined = ["::", "->", "."].iter().any(|mark| {
        token.split(mark).count() > 1 && token.split(mark).all(|part| part.len() > 1 && named(part))
    });
    (SHORTEST_LITERAL..=LONGEST_LITERAL).contains(&token.len()) && (flag || joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_give_their_file_and_no_words() {
        let (clean, linked) = without_noise(
            "see https://github.com/a/b/blob/abc/src/Cart.cs#L3 <!-- form --> ![x](y) end",
        );
        assert_eq!(linked, ["src/cart.cs"]);
        assert_eq!(clean.split_whitespace().collect::<Vec<_>>(), ["see", "end"]);
    }

    #[test]
    fn stack_frames_give_their_files() {
        let mut found = Vec::new();
        let text = "File \"/usr/lib/site-packages/shop/cart.py\", line 3\n at Shop.Cart.Total() in C:\\src\\Shop\\Cart.cs:line 9\n at x.Cart.total(Cart.java:12)\n v1.2.3";
        paths(text, |path| found.push(path));
        assert!(found.contains(&"usr/lib/site-packages/shop/cart.py".to_owned()), "{found:?}");
        assert!(found.contains(&"cart.java".to_owned()));
        assert!(found.iter().any(|path| path.ends_with("src/shop/cart.cs")));
        assert!(!found.iter().any(|path| path.contains("1.2")));
    }

    #[test]
    fn rare_phrases_are_taken_word_for_word() {
        let found = literals(
            "It says \"Cannot open the basket\" and `x`, see Regex.IsMatch or --no-color.\nError: index 3 is out of the allowed range",
        );
        for literal in
            ["Cannot open the basket", "Regex.IsMatch", "--no-color", "is out of the allowed range"]
        {
            assert!(found.iter().any(|own| own == literal), "{literal} {found:?}");
        }
        assert!(!found.iter().any(|own| own == "x"));
    }

    #[test]
    fn names_with_hyphens_are_names() {
        let mut found = Vec::new();
        hyphened("rule no-unused-vars of @shop/cart-core, --verbose, 2026-01-02 a-b", |name| {
            found.push(name);
        });
        assert_eq!(found, ["no-unused-vars", "cart-core"]);
    }
}
