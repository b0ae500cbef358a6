//! Who changed the code lately, as the tracker knows them.

use std::collections::BTreeMap;

/// A person as git knows them, and how much of the code in question they changed lately.
#[derive(Debug, Clone, PartialEq)]
pub struct Author {
    pub name: String,
    pub mail: String,
    pub share: f64,
}

/// The authors that are among the tracker's people, by the tracker's name for them; most of the
/// code first. Somebody who cannot be matched without a doubt is left out.
pub fn matched(authors: &[Author], people: &[String]) -> Vec<(String, f64)> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for author in authors {
        if let Some(person) = person(author, people) {
            *shares.entry(person).or_default() += author.share;
        }
    }
    let mut found: Vec<(String, f64)> =
        shares.into_iter().map(|(name, share)| (name.to_owned(), share)).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found
}

fn person<'a>(author: &Author, people: &'a [String]) -> Option<&'a str> {
    let local = author.mail.split('@').next().unwrap_or_default();
    // 1234+login@users.noreply.github.com
    let local = local.rsplit('+').next().unwrap_or(local);
    let own = [plain(&author.name), plain(local)];
    let mut same = people.iter().filter(|person| {
        let name = plain(person);
        !name.is_empty() && own.contains(&name)
    });
    match (same.next(), same.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

/// Letters and digits in a fixed order: `Lee, Ann`, `ann.lee` and `Ann Lee` are one person.
fn plain(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut words: Vec<String> = words.map(str::to_lowercase).collect();
    words.sort_unstable();
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_person_who_is_surely_meant_is_matched() {
        let author = |name: &str, mail: &str| Author {
            name: name.to_owned(),
            mail: mail.to_owned(),
            share: 0.5,
        };
        let people = ["Ann Lee", "bobm", "Kim", "kim"].map(str::to_owned);
        let found = matched(
            &[
                author("Lee, Ann", "x@contoso.com"),
                author("A. L.", "ann.lee@contoso.com"),
                author("Bob Miller", "12+bobm@users.noreply.github.com"),
                author("Kim", "kim@contoso.com"),
                author("Stranger", "stranger@example.com"),
            ],
            &people,
        );
        assert_eq!(found, [("Ann Lee".to_owned(), 1.0), ("bobm".to_owned(), 0.5)]);
    }
}
