//! Compares every HTML case with what a browser shows of it: text, structure, and above all nothing
//! that the browser hides.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use visible_text::{Format, Options, Rendering, UnclearTextPolicy, clean_text};

/// The JSON of a case.
#[derive(Deserialize)]
struct Case {
    id: String,
    licence: String,
    visible_text: String,
    must_not_contain: Vec<String>,
    no_invisible_chars: bool,
    must_contain: Vec<String>,
    verbatim_words: Vec<String>,
    structure: Structure,
}

#[derive(Deserialize)]
struct Structure {
    list_items: Vec<ListItem>,
    tables: Vec<Vec<Vec<String>>>,
    code_blocks: Vec<CodeBlock>,
    inline_code: Vec<String>,
    links: Vec<Link>,
    images: Vec<Image>,
    headings: Vec<Heading>,
}

#[derive(Deserialize)]
struct ListItem {
    first: String,
    num: Option<i64>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct CodeBlock {
    text: String,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
struct Image {
    alt: String,
    file: Option<String>,
}

#[derive(Deserialize)]
struct Heading {
    level: usize,
    text: String,
}

/// Cases and assertions that cannot both hold: a list inside a code block is shown with bullets, so
/// the block differs from the page's source; and text of an item that comes after its inner list is
/// not the item's first line.
const CONTRADICTIONS: &[(&str, &str)] =
    &[("real-jk-commonmark-code", "code"), ("real-jk-commonmark-list", "list")];

fn cases() -> Vec<(Case, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/html");
    let mut cases: Vec<(Case, String)> = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let case: Case = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let html = fs::read(path.with_extension("html")).unwrap();
            cases.push((case, String::from_utf8(html).unwrap()));
        }
    }
    assert!(cases.len() > 100, "the cases are missing");
    cases
}

fn clean(html: &str, rendering: Rendering) -> String {
    let doubtful = UnclearTextPolicy::LeaveOut;
    clean_text(html, Format::Html, &Options { rendering, doubtful, ..Options::default() }).text
}

fn is_wide(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

fn is_unseen(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e01ef}')
        || (character.is_control() && !character.is_whitespace())
}

/// Words in lower case; symbols outside ASCII count as words, bullets do not.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    for character in text.chars().filter(|&character| !is_unseen(character)) {
        if character.is_alphanumeric() && !is_wide(character) {
            word.extend(character.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            found.push(std::mem::take(&mut word));
        }
        let is_symbol = !character.is_ascii() && !character.is_whitespace();
        if is_symbol && !"•◦▪▫●○■□·‣⁃─│".contains(character) {
            found.push(character.to_string());
        }
    }
    if !word.is_empty() {
        found.push(word);
    }
    found
}

/// The text as read aloud: without marks, targets and picture marks.
fn spoken(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['[', ']', '`', '~', '<']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let picture = rest.starts_with("[image").then(|| rest.find(']')).flatten();
        if let Some(end) = picture {
            rest = &rest[end..];
        } else if let Some(target) = rest.strip_prefix("](") {
            let mut depth = 1;
            let end = target.find(|c| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0 || c == '\n'
            });
            rest = end.map_or("", |end| &target[end + 1..]);
        } else if let Some(after) =
            rest.strip_prefix("<sup>").or_else(|| rest.strip_prefix("</sup>"))
        {
            rest = after;
        } else {
            let mark = rest.chars().next().unwrap();
            plain.push_str(if mark == '<' { "<" } else { "" });
            rest = &rest[mark.len_utf8()..];
        }
    }
    plain + rest
}

fn contains(hay: &[String], needle: &[String]) -> bool {
    needle.is_empty() || hay.windows(needle.len()).any(|window| window == needle)
}

/// Length of the longest common subsequence.
fn common(one: &[String], other: &[String]) -> usize {
    let mut row = vec![0; other.len() + 1];
    for word in one {
        let mut diagonal = 0;
        for (at, candidate) in other.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if word == candidate { diagonal + 1 } else { above.max(row[at]) };
            diagonal = above;
        }
    }
    row[other.len()]
}

fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text after the markers of a line that has the item's own one.
fn after_marker<'a>(line: &'a str, item: &ListItem) -> Option<&'a str> {
    let mut rest = line.trim_start_matches([' ', '>']);
    loop {
        let (marker, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_mine = match item.num {
            None => marker == "-",
            Some(number) => {
                marker == format!("{number}.")
                    || (item.kind.is_some() && marker.ends_with('.') && marker.len() <= 5)
            }
        };
        if is_mine {
            return Some(after);
        }
        let is_other =
            marker == "-" || marker.strip_suffix('.').is_some_and(|n| n.parse::<i64>().is_ok());
        if !is_other || after.is_empty() {
            return None;
        }
        rest = after.trim_start_matches([' ', '>']);
    }
}

fn list_misses(case: &Case, text: &str) -> Option<String> {
    let mut lines = text.lines();
    case.structure.list_items.iter().find_map(|item| {
        let first = words(&item.first);
        let first = &first[..first.len().min(3)];
        let found = lines.by_ref().any(|line| {
            after_marker(line, item).is_some_and(|rest| {
                let rest = words(&spoken(rest));
                contains(&rest[..rest.len().min(first.len() + 2)], first)
            })
        });
        (!found).then(|| item.first.clone())
    })
}

fn table_misses(case: &Case, text: &str) -> Option<String> {
    let filled = |row: &Vec<String>| row.iter().filter(|cell| !words(cell).is_empty()).count();
    case.structure.tables.iter().flatten().filter(|row| filled(row) >= 2).find_map(|row| {
        let found = text.lines().any(|line| {
            let mut cells = line.split('|').map(|cell| words(&spoken(cell)));
            row.iter().map(|cell| words(cell)).filter(|cell| !cell.is_empty()).all(|wanted| {
                let wanted = &wanted[..wanted.len().min(4)];
                // A list in the cell puts its marker first.
                cells.any(|cell| contains(&cell[..cell.len().min(wanted.len() + 1)], wanted))
            })
        });
        (!found).then(|| row.join(" | "))
    })
}

fn code_misses(case: &Case, text: &str) -> Option<String> {
    let lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
    case.structure.code_blocks.iter().find_map(|block| {
        let wanted = block.text.replace('\u{a0}', " ");
        let wanted: Vec<&str> = wanted.trim_matches('\n').lines().map(str::trim_end).collect();
        let first = wanted.iter().position(|line| !line.is_empty())?;
        let last = wanted.iter().rposition(|line| !line.is_empty())?;
        let wanted = &wanted[first..=last];
        let found = lines.windows(wanted.len()).any(|window| {
            let Some(prefix) = window[0].strip_suffix(wanted[0]) else { return false };
            prefix.chars().all(|c| c == ' ' || c == '>')
                && window.iter().zip(wanted).all(|(line, wanted)| {
                    line.strip_prefix(prefix).unwrap_or(line.trim()) == *wanted
                })
        });
        (!found).then(|| block.text.clone())
    })
}

fn heading_misses(case: &Case, text: &str) -> Option<String> {
    case.structure.headings.iter().find_map(|heading| {
        let wanted = words(&heading.text);
        let mark = format!("{} ", "#".repeat(heading.level));
        let found = text.lines().any(|line| {
            let line = line.trim_start_matches([' ', '>', '-']);
            line.starts_with(&mark)
                && words(&spoken(line)).starts_with(&wanted[..wanted.len().min(6)])
        });
        (!found).then(|| heading.text.clone())
    })
}

fn image_misses(case: &Case, text: &str) -> Option<String> {
    let flat = collapse(text).to_lowercase();
    case.structure.images.iter().find_map(|image| {
        let alt = collapse(&image.alt).to_lowercase();
        let found = if alt.is_empty() || ["image", "img", "picture"].contains(&alt.as_str()) {
            flat.contains("[image")
                && image.file.as_ref().is_none_or(|file| {
                    flat.contains(&file.to_lowercase()) || flat.contains("[image]")
                })
        } else {
            flat.contains(&alt)
        };
        (!found).then_some(alt)
    })
}

fn link_misses(case: &Case, text: &str) -> Option<String> {
    case.structure.links.iter().map(|link| &link.href).find_map(|href| {
        let without_tracking = href.split("?utm_").next().unwrap_or(href);
        let without_tracking = without_tracking.split("?wt.mc_id").next().unwrap_or(href);
        let without_tracking = without_tracking.split("?WT.mc_id").next().unwrap_or(href);
        let spaced = href.replace(' ', "%20");
        let bracketed = spaced.replace('(', "%28").replace(')', "%29");
        let forms = [href, without_tracking, &spaced, &bracketed, href.trim_end_matches('/')];
        (!forms.iter().any(|form| text.contains(form))).then(|| href.clone())
    })
}

/// Every failed assertion of a case, by kind.
fn misses(case: &Case, text: &str) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    let mut note = |kind, miss: Option<String>| {
        if let Some(miss) = miss {
            found.insert(kind, miss);
        }
    };
    let flat = collapse(text).replace("\\|", "|");
    let seen = words(&case.visible_text);
    let said = words(&spoken(text));
    let all = words(text);
    let kept = common(&seen, &all).max(common(&seen, &said));
    note("words", (kept < seen.len()).then(|| format!("{kept} of {}", seen.len())));
    let hidden = case.must_not_contain.iter().find(|hidden| contains(&all, &words(hidden)));
    note("leak", hidden.cloned());
    let unseen = text.chars().find(|&character| is_unseen(character) && character != '\u{fe0f}');
    note("invisible", unseen.filter(|_| case.no_invisible_chars).map(|c| format!("{c:?}")));
    let verbatim = case.verbatim_words.iter().find(|word| !flat.contains(&collapse(word)));
    note("verbatim", verbatim.cloned());
    let broken = case.must_contain.iter().find(|line| {
        let line = words(line);
        !text
            .lines()
            .any(|out| contains(&words(out), &line) || contains(&words(&spoken(out)), &line))
    });
    note("line", broken.cloned());
    let inline = case.structure.inline_code.iter().find(|code| !flat.contains(&collapse(code)));
    note("inline code", inline.cloned());
    note("list", list_misses(case, text));
    note("table", table_misses(case, text));
    note("code", code_misses(case, text));
    note("heading", heading_misses(case, text));
    note("image", image_misses(case, text));
    note("link", link_misses(case, text));
    found
}

#[test]
fn every_case_shows_what_a_browser_shows() {
    let mut failures = Vec::new();
    for (case, html) in cases() {
        let mut misses = misses(&case, &clean(&html, Rendering::Full));
        for (id, kind) in CONTRADICTIONS.iter().filter(|(id, _)| *id == case.id) {
            assert!(misses.remove(kind).is_some(), "{id} has no trouble with its {kind} any more");
        }
        if !misses.is_empty() {
            failures.push(format!("{}: {misses:?}", case.id));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_tight_rendering_hides_what_is_hidden_and_is_no_longer_than_the_full_one() {
    for (case, html) in cases() {
        let (full, tight) = (clean(&html, Rendering::Full), clean(&html, Rendering::Tight));
        let misses = misses(&case, &tight);
        assert!(!misses.contains_key("leak"), "{}: {misses:?}", case.id);
        assert!(!misses.contains_key("invisible"), "{}: {misses:?}", case.id);
        assert!(tight.len() <= full.len(), "{}: {} > {}", case.id, tight.len(), full.len());
    }
}

#[test]
fn only_cases_whose_licence_allows_it_are_here() {
    for (case, _) in cases() {
        assert!(["project", "MIT", "Apache-2.0"].contains(&case.licence.as_str()), "{}", case.id);
    }
}
