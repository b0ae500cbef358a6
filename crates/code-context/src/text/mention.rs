//! Paths, hyphenated names and links in the text of an item. Pure.

/// Removes what the reporter did not write: comments of the form, pictures, addresses.
///
/// The second value has the files that links into a code browser point to.
pub(crate) fn without_noise(text: &str) -> (String, Vec<String>) {
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

/// The file of `https://host/owner/name/blob/commit/path#L1`.
fn linked_path(address: &str) -> Option<String> {
    let (_, after) = address.split_once("/blob/")?;
    let (_, path) = after.split_once('/')?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    (!path.is_empty()).then(|| path.to_lowercase())
}

/// Calls back for everything that looks like a path or a file name.
pub(crate) fn paths(text: &str, mut each: impl FnMut(String)) {
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

/// Every line of a file named by a stack frame or a link: `Cart.cs:line 9`, `cart.py", line 3`,
/// `cart.go:12`, `cart.ts#L5`.
pub(crate) fn lines(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let inside = |c: char| c.is_ascii_alphanumeric() || "/\\._-@+".contains(c);
        let mut rest = line;
        while let Some(dot) = rest.find('.') {
            let start = rest[..dot].rfind(|c| !inside(c)).map_or(0, |at| at + 1);
            let end = rest[dot..].find(|c| !inside(c)).map_or(rest.len(), |at| dot + at);
            let (path, after) = (rest.get(start..end).unwrap_or_default(), &rest[end..]);
            let marks = ["\", line ", ":line ", "#L", ":", "("];
            let number = marks.iter().find_map(|mark| {
                let digits = after.strip_prefix(mark)?;
                let digits = digits.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse::<usize>().ok().filter(|line| *line > 0)
            });
            paths(path, |path| found.extend(number.map(|number| (path, number))));
            rest = after;
        }
    }
    found
}

/// Calls back for every hyphenated name, such as that of a rule or a package.
pub(crate) fn hyphened<'a>(text: &'a str, mut each: impl FnMut(&'a str)) {
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

/// Possible prefixes of commit ids: seven to forty hexadecimal digits with at least one letter and
/// one digit, not part of a longer name.
pub(crate) fn commits(text: &str) -> Vec<String> {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let is_id = |word: &&str| {
        (7..=40).contains(&word.len())
            && word.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    text.split(|c: char| !inside(c)).filter(is_id).map(str::to_owned).collect()
}

/// The numbers of pull requests: `PR 17`, `PR #17`, `pull request 17`, `!17`, `/pull/17`.
pub(crate) fn pulls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let lower = text.to_ascii_lowercase();
    for mark in ["pr ", "pull request ", "/pull/", "/pullrequest/", "!"] {
        for (at, _) in lower.match_indices(mark) {
            let within = mark.starts_with('p') && lower[..at].ends_with(char::is_alphanumeric);
            let digits = lower[at + mark.len()..].trim_start_matches(['#', '!']);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            if !within && (1..=7).contains(&end) {
                found.push(digits[..end].to_owned());
            }
        }
    }
    found
}

const MIN_LITERAL_LEN: usize = 6;
const MAX_LITERAL_LEN: usize = 80;

/// Text that may occur in the code verbatim: quoted messages, error messages, qualified names and
/// flags.
pub(crate) fn literals(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for quote in ['"', '`', '\''] {
            let quoted = line.split(quote).skip(1).step_by(2).map(str::trim);
            found.extend(quoted.filter(|quoted| is_distinctive(quoted)).map(str::to_owned));
        }
        for mark in ["rror: ", "xception: ", "anic: ", "arning: "] {
            let Some((_, message)) = line.split_once(mark) else { continue };
            let parts = message.split(|c: char| c.is_ascii_digit() || "\"'`<>{}[]()".contains(c));
            let longest = parts.map(str::trim).max_by_key(|part| part.len());
            let words = |part: &&str| part.split_whitespace().count() >= 3;
            found.extend(
                longest.filter(words).filter(|part| is_distinctive(part)).map(str::to_owned),
            );
        }
        let inside = |c: char| c.is_alphanumeric() || "_.:-#>/@".contains(c);
        let tokens = line.split(|c: char| !inside(c));
        let tokens = tokens.map(|token| token.trim_matches(['.', ':', '#', '>', '/']));
        found.extend(tokens.filter(|token| is_qualified(token)).map(str::to_owned));
    }
    found
}

fn is_distinctive(text: &str) -> bool {
    let odd = |c: char| !c.is_alphanumeric() && !matches!(c, '_' | ' ');
    let words = text.split_whitespace().count();
    (MIN_LITERAL_LEN..=MAX_LITERAL_LEN).contains(&text.len())
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
    (MIN_LITERAL_LEN..=MAX_LITERAL_LEN).contains(&token.len()) && (flag || joined)
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
    fn lines_are_taken_from_frames_and_links() {
        let text = "File \"/usr/shop/cart.py\", line 3\n at Cart.Total() in C:\\src\\Cart.cs:line 9\n src/cart.go:12 +0x1\nhttps://h/a/b/blob/c/src/x.ts#L5-L9 v1.2.3:4";
        let found = lines(text);
        for (end, line) in [("shop/cart.py", 3), ("cart.cs", 9), ("src/cart.go", 12), ("x.ts", 5)] {
            assert!(
                found.iter().any(|(own, n)| own.ends_with(end) && *n == line),
                "{end} {found:?}"
            );
        }
        assert_eq!(found.len(), 4, "{found:?}");
    }

    #[test]
    fn commits_and_pull_requests_are_taken_by_their_names() {
        let text = "since 1a2b3c4d, not 1a2b3c4d-0000-4000-8000-000000000000, 12345678, deadbeef or \
                    https://h/a/b/commit/0123456789abcdef0123456789abcdef01234567#x";
        assert_eq!(commits(text), ["1a2b3c4d", "0123456789abcdef0123456789abcdef01234567"]);
        let text =
            "see PR 17, pull request !18, expr 4, https://h/_git/x/pullrequest/19 and !20; #21";
        let mut found = pulls(text);
        found.sort();
        assert_eq!(found, ["17", "18", "18", "19", "20"]);
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
