//! Collects the context of an item within limits, for any tracker (pure).

use std::collections::HashSet;

use reqwest::Url;

use crate::model::{Attachment, ItemId, LinkKind, LinkedChange, LinkedContent, LinkedItem};

/// Most links with titles, and most files.
const MAX_ITEMS: usize = 20;
const MAX_CHANGES: usize = 8;
const MAX_FILES: usize = 30;
/// Most files read of a change.
pub(super) const MAX_TOUCHED: usize = 30;

/// Links and files collected so far, each once. Links are not followed further, so cycles do no
/// harm.
pub(super) struct Around {
    own: ItemId,
    found: LinkedContent,
    seen: HashSet<String>,
}

impl Around {
    pub fn of(own: ItemId) -> Self {
        Self { own, found: LinkedContent::default(), seen: HashSet::new() }
    }

    pub fn add_item(&mut self, item: LinkedItem) {
        let name = format!("item {}", item.id.map_or_else(|| item.name(), |id| id.to_string()));
        if item.id != Some(self.own) && self.seen.insert(name) {
            self.found.items.push(item);
        }
    }

    pub fn add_change(&mut self, change: LinkedChange) {
        let kind: &str = change.kind.into();
        if !self.seen.insert(format!("{kind} {} {}", change.place.to_lowercase(), change.id)) {
            return;
        }
        match self.found.changes.len() < MAX_CHANGES {
            true => self.found.changes.push(change),
            false => self.leave_out(),
        }
    }

    /// Adds an attached file; a file that is omitted is counted.
    pub fn add_file(&mut self, file: Attachment) {
        self.found.left_out += u64::from(!self.take_file(file));
    }

    /// Adds files that a text shows. They may be anything, so omitted ones are not counted.
    pub fn add_shown(&mut self, text: &str, is_wanted: impl Fn(&ShownAddress) -> bool) {
        for shown in addresses(text).into_iter().filter(is_wanted) {
            let name = file_name(&shown);
            self.take_file(Attachment { name, address: shown.address, size: None });
        }
    }

    fn take_file(&mut self, file: Attachment) -> bool {
        // The same file is often attached and shown: the query string is only its name.
        let path = file.address.split('?').next().unwrap_or_default().to_ascii_lowercase();
        if !self.seen.insert(format!("file {path}")) {
            return true;
        }
        let room = self.found.files.len() < MAX_FILES;
        if room {
            self.found.files.push(file);
        }
        room
    }

    /// Counts something that cannot be used or exceeds the limits.
    pub fn leave_out(&mut self) {
        self.found.left_out += 1;
    }

    /// Everything collected, parents first.
    pub fn finish(self) -> LinkedContent {
        let mut found = self.found;
        found.items.sort_by_key(|item| (item.kind, item.id.is_none(), item.id));
        found.left_out += found.items.len().saturating_sub(MAX_ITEMS) as u64;
        found.items.truncate(MAX_ITEMS);
        found
    }
}

/// The parent, if it is an item of this source.
pub(super) fn parent_of(items: &[LinkedItem]) -> Option<ItemId> {
    items.iter().find(|item| item.kind == LinkKind::Parent).and_then(|item| item.id)
}

/// Bytes examined around a link, so that the work grows linearly with the text.
const MAX_ADDRESS_LEN: usize = 2_000;
const MAX_WORDS_LEN: usize = 300;

/// An address in a text, with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownAddress {
    pub words: String,
    pub address: String,
    /// Embedded as a picture, not only linked.
    pub is_picture: bool,
}

/// Addresses of pictures and links in a text, in HTML or Markdown.
fn addresses(text: &str) -> Vec<ShownAddress> {
    let mut found = Vec::new();
    for tag in text.split("<img").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let Some(address) = attribute(tag, "src=") else { continue };
        let words = attribute(tag, "alt=").unwrap_or_default();
        found.push(ShownAddress { words, address, is_picture: true });
    }
    // `[label](address "title")`, with a leading `!` for a picture.
    for (at, _) in text.match_indices("](") {
        let after = &text[at + 2..text.floor_char_boundary(at + MAX_ADDRESS_LEN)];
        let address = after.split([')', ' ', '\n']).next().unwrap_or_default();
        let before = &text[text.floor_char_boundary(at.saturating_sub(MAX_WORDS_LEN))..at];
        let Some((before, words)) = before.rsplit_once('[') else { continue };
        let (words, address) = (words.to_owned(), address.replace("&amp;", "&"));
        found.push(ShownAddress { words, address, is_picture: before.ends_with('!') });
    }
    found.retain(|shown| shown.address.starts_with("http"));
    found
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, value) = tag.split_once(name)?;
    let quote = value.chars().next().filter(|c| "\"'".contains(*c));
    let value = match quote {
        Some(quote) => value[1..].split(quote).next(),
        None => value.split_whitespace().next(),
    };
    value.map(|value| value.replace("&amp;", "&"))
}

/// `fileName` of the address; else its last segment, or the label if that is not a name.
fn file_name(shown: &ShownAddress) -> String {
    let Ok(url) = Url::parse(&shown.address) else { return shown.words.clone() };
    let named = url.query_pairs().find(|(name, _)| name.eq_ignore_ascii_case("fileName"));
    if let Some((_, name)) = named {
        return name.into_owned();
    }
    let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    let has_words = !shown.words.trim().is_empty();
    if !last.contains('.') && has_words { shown.words.clone() } else { last.to_owned() }
}

/// Whether two addresses are on the same server.
pub(super) fn is_same_server(one: &Url, other: &Url) -> bool {
    let place = |url: &Url| {
        (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
    };
    place(one) == place(other)
}

/// An address for a request with the tracker's credential, made anew from what a reporter's address
/// says. `path` gets the segments after those of `base` and returns the path to request, built from
/// an id; the address itself is never passed on.
pub(super) fn own_address(
    address: &str,
    base: &Url,
    path: impl Fn(&[&str]) -> Option<Vec<String>>,
) -> Result<Url, String> {
    let url = Url::parse(address).map_err(|_| "its address is not valid".to_owned())?;
    if !is_same_server(&url, base) {
        let host = url.host_str().unwrap_or("nothing");
        return Err(format!("it is on another host ({host})"));
    }
    let own = || -> Option<Url> {
        let (given, inside) = (segments(&url)?, segments(base)?);
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let is_inside = given.len() > inside.len()
            && inside.iter().zip(&given).all(|(ours, theirs)| ours.eq_ignore_ascii_case(theirs));
        let path = path(given.get(inside.len()..)?)?;
        (is_inside && url.username().is_empty() && url.password().is_none()).then_some(())?;
        with_path(base, &path)
    };
    own().ok_or_else(|| NOT_A_FILE.to_owned())
}

/// `base` with these segments at its end, each encoded as one.
pub(super) fn with_path(base: &Url, path: &[String]) -> Option<Url> {
    let mut made = base.clone();
    made.set_query(None);
    made.set_fragment(None);
    made.path_segments_mut().ok()?.pop_if_empty().extend(path);
    Some(made)
}

/// The decoded segments of a path; `None` if one of them could mean another path to some server.
pub(super) fn segments(url: &Url) -> Option<Vec<String>> {
    let plain = |part: &str| {
        let part = percent_encoding::percent_decode_str(part).decode_utf8().ok()?.into_owned();
        let is_odd = |c: char| c.is_control() || matches!(c, '/' | '\\' | ';' | '%' | '?' | '#');
        (part != "." && part != ".." && !part.contains(is_odd)).then_some(part)
    };
    let parts = url.path_segments()?.filter(|part| !part.is_empty());
    parts.map(plain).collect()
}

/// A number, or a string of hexadecimal digits and dashes: nothing that has a meaning in a path.
pub(super) fn is_file_id(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Why an address of the tracker is not requested.
pub(super) const NOT_A_FILE: &str = "it is not one of the tracker's addresses for files";

/// The first line of a text.
pub(super) fn first_line(text: Option<&str>) -> String {
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

pub(super) fn is_hash(id: &str) -> bool {
    (7..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, String, bool)> {
        let one = |shown: ShownAddress| (file_name(&shown), shown.address, shown.is_picture);
        addresses(text).into_iter().map(one).collect()
    }

    #[test]
    fn pictures_and_links_are_found_in_both_kinds_of_text() {
        for (text, name, address, is_picture) in [
            (
                "<img alt='a' src=\"https://e.com/x?fileName=b.png&amp;c=1\">",
                "b.png",
                "https://e.com/x?fileName=b.png&c=1",
                true,
            ),
            ("<img src=https://e.com/a.png width=3>", "a.png", "https://e.com/a.png", true),
            (
                "see ![the screen](https://e.com/0a1b) here",
                "the screen",
                "https://e.com/0a1b",
                true,
            ),
            ("![](https://e.com/0a1b \"t\")", "0a1b", "https://e.com/0a1b", true),
            (
                "[server.log](https://e.com/files/7/server.log)",
                "server.log",
                "https://e.com/files/7/server.log",
                false,
            ),
        ] {
            let expected = vec![(name.to_owned(), address.to_owned(), is_picture)];
            assert_eq!(shown(text), expected, "{text}");
        }
        for nothing in
            ["", "](", "[](", "![x](data:image/png;base64,AA)", "<img", "<img src=", "é](é"]
        {
            assert_eq!(shown(nothing), vec![], "{nothing}");
        }
    }

    /// Servers differ in what they make of an encoded slash, a semicolon or a backslash.
    #[test]
    fn an_address_is_made_from_an_id_and_never_passed_on() {
        let base = Url::parse("https://e.com/org/").unwrap();
        let own = |address: &str| {
            own_address(address, &base, |path| match path {
                [.., "files", id] if is_file_id(id) => Some(vec!["files".into(), (*id).into()]),
                _ => None,
            })
        };
        let made = own("https://E.com/ORG/p/files/1f-2b?fileName=../../x&api=1#f").unwrap();
        assert_eq!(made.as_str(), "https://e.com/org/files/1f-2b");
        for address in [
            "https://e.com/org/files/..%2F..%2Fadmin",
            "https://e.com/org/files/..;/admin",
            "https://e.com/org/files/%2e%2e/admin",
            "https://e.com/org/files/..%5Cadmin",
            "https://e.com/org/files/1%3Bx",
            "https://e.com/org/files/1%252f",
            "https://e.com/org/admin/files/../secrets",
            "https://e.com/other/files/1",
            "https://me@e.com/org/files/1",
            "https://e.com/files/1",
        ] {
            assert!(own(address).is_err(), "{address}");
        }
    }

    #[test]
    fn each_link_counts_once_and_the_item_is_not_its_own() {
        let mut around = Around::of(ItemId(1));
        for id in [1, 2, 2, 3] {
            around.add_item(LinkedItem::new(LinkKind::Related, Some(ItemId(id)), None));
        }
        around.add_item(LinkedItem::new(LinkKind::Parent, None, Some("other/shop#2".into())));
        for file in ["https://e.com/a?x=1", "https://e.com/A?x=2"] {
            let (name, address) = ("a".to_owned(), file.to_owned());
            around.add_file(Attachment { name, address, size: None });
        }
        let found = around.finish();
        let names: Vec<String> = found.items.iter().map(LinkedItem::name).collect();
        assert_eq!(names, ["other/shop#2", "#2", "#3"]);
        assert_eq!((found.files.len(), found.left_out), (1, 0));
    }
}
