//! The purpose of a folder: the first sentence of its README, or of the opening comment of the file
//! that documents a package.

use crate::index::open::Index;
use crate::index::segment::Entry;
use crate::text::bytes::cut;

/// A purpose is one line.
const MAX_LEN: usize = 120;
/// A shorter sentence says nothing.
const MIN_LEN: usize = 12;
/// The opening of a file is within this many bytes.
const HEAD: u64 = 4096;

/// The purpose of a folder; that of the root is the repository's.
pub(crate) fn purpose(index: &Index, folder: &str) -> Option<String> {
    let mut candidates: Vec<(u8, &Entry)> = index
        .inside(folder)
        .filter_map(|entry| Some((telling(folder, name_of(&entry.path))?, entry)))
        .collect();
    candidates.sort_by_key(|(place, _)| *place);
    candidates.into_iter().take(4).find_map(|(_, entry)| {
        let text = index.beginning(&entry.path, HEAD)?;
        first_sentence(name_of(&entry.path), &text)
    })
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// How likely a file states the purpose of its folder; lowest first.
fn telling(folder: &str, name: &str) -> Option<u8> {
    let lower = name.to_ascii_lowercase();
    let stem = lower.split('.').next().unwrap_or(&lower);
    let own = name_of(folder).to_ascii_lowercase();
    match lower.as_str() {
        "doc.go" | "package-info.java" | "mod.rs" | "lib.rs" | "__init__.py" => Some(1),
        "main.rs" | "main.go" | "index.ts" | "index.js" | "index.tsx" | "main.py" => Some(2),
        _ if matches!(lower.as_str(), "readme" | "readme.md" | "readme.rst" | "readme.txt") => {
            Some(0)
        }
        // Go documents a package in any of its files, mostly in the one with its name.
        _ if lower.ends_with(".go") && !lower.ends_with("_test.go") => {
            Some(if stem == own { 3 } else { 4 })
        }
        _ if !own.is_empty() && stem == own => Some(3),
        _ => None,
    }
}

/// The first meaningful sentence of a file that begins with `text`.
fn first_sentence(name: &str, text: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let lines: Vec<String> = if lower.starts_with("readme") {
        prose(text)
    } else if lower.ends_with(".py") {
        docstring(text)
    } else if lower.ends_with(".go") {
        package_comment(text)
    } else {
        opening_comment(text)
    };
    let mut paragraph = String::new();
    for line in lines {
        let line = line.trim();
        if line.is_empty() {
            if sentence(&paragraph).is_some() {
                break;
            }
            paragraph.clear();
            continue;
        }
        if is_noise(line) {
            paragraph.clear();
            continue;
        }
        if !paragraph.is_empty() {
            paragraph.push(' ');
        }
        paragraph.push_str(line);
        if paragraph.len() > 2 * MAX_LEN {
            break;
        }
    }
    sentence(&paragraph)
}

/// The first sentence of a paragraph as a line, if it is meaningful.
fn sentence(paragraph: &str) -> Option<String> {
    let end = paragraph.find(". ").map_or(paragraph.len(), |at| at + 1);
    let plain: String =
        paragraph[..end].chars().filter(|c| !matches!(c, '`' | '*' | '_' | '|')).collect();
    let letters = plain.chars().filter(|c| c.is_alphabetic()).count();
    let line = cut(plain.trim(), MAX_LEN);
    (letters >= MIN_LEN && line.contains(' ')).then(|| line.to_owned())
}

/// Licences, badges, markup and tool settings.
fn is_noise(line: &str) -> bool {
    const MARKS: &[&str] = &[
        "copyright",
        "licen",
        "spdx",
        "all rights",
        "http://",
        "https://",
        "eslint",
        "prettier",
        "pragma",
        "+build",
        "go:build",
        "@ts-",
        "generated",
        "coding:",
        "vim:",
        "-*-",
        "author",
    ];
    let lower = line.to_ascii_lowercase();
    line.starts_with(['<', '[', '!', '{', '=', '-', '#', '@', '>', '~', '+', '.', ':'])
        || MARKS.iter().any(|mark| lower.contains(mark))
}

/// The prose of a README, without headings and lists.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        lines.push(if fenced { String::new() } else { without_links(line) });
    }
    lines
}

/// Replaces Markdown links by their labels.
fn without_links(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("](") {
        let (called, tail) = (before.rfind('['), after.split_once(')'));
        let (Some(open), Some((_, tail))) = (called, tail) else { break };
        if before[..open].ends_with('!') {
            out.push_str(&before[..open - 1]);
        } else {
            out.push_str(&before[..open]);
            out.push_str(&before[open + 1..]);
        }
        rest = tail;
    }
    out + rest
}

/// The docstring of a Python module.
fn docstring(text: &str) -> Vec<String> {
    let code = text.lines().skip_while(|line| line.trim().is_empty() || line.starts_with('#'));
    let text = code.collect::<Vec<_>>().join("\n");
    let text = text.trim_start_matches(['r', 'R', 'u']);
    for quotes in ["\"\"\"", "'''"] {
        if let Some(inside) = text.strip_prefix(quotes) {
            let inside = inside.split(quotes).next().unwrap_or(inside);
            return inside.lines().map(str::to_owned).collect();
        }
    }
    Vec::new()
}

/// The comment directly above `package`, without the words "Package name".
fn package_comment(text: &str) -> Vec<String> {
    let Some(end) = text.lines().position(|line| line.starts_with("package ")) else {
        return Vec::new();
    };
    let lines: Vec<&str> = text.lines().take(end).collect();
    let start = lines.iter().rposition(|line| line.trim().is_empty()).map_or(0, |at| at + 1);
    let comment = opening_comment(&lines[start..].join("\n"));
    let mut words = comment.join("\n");
    if let Some(rest) = words.strip_prefix("Package ") {
        words = rest.split_once(' ').map_or(rest, |(_, rest)| rest).to_owned();
    }
    words.lines().map(str::to_owned).collect()
}

/// The opening comment of a file.
fn opening_comment(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let marked = ["//!", "///", "//", "/**", "/*!", "/*"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark).map(|rest| (mark, rest)));
        let (text, ends) = match marked {
            Some((mark, rest)) if mark.starts_with("/*") => {
                inside = true;
                (rest, rest.contains("*/"))
            }
            Some((_, rest)) if !inside => (rest, false),
            _ if inside => (line.trim_start_matches('*'), line.contains("*/")),
            // A further comment may follow the first one.
            _ if line.is_empty() || line.starts_with("#!") || line.contains("use strict") => {
                ("", false)
            }
            _ => break,
        };
        inside &= !ends;
        lines.push(text.split("*/").next().unwrap_or(text).trim().to_owned());
        if ends {
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Option<String> {
        first_sentence(name, text)
    }

    #[test]
    fn every_language_says_it_in_its_own_place() {
        let right = Some("Prices of the basket, with discounts.".to_owned());
        for (name, text) in [
            (
                "README.md",
                "# Cart\n\n[![b](c)](d)\n\nPrices of the *basket*,\nwith [discounts](x.md). More.\n",
            ),
            ("README.rst", "Cart\n====\n\nPrices of the basket, with discounts.\n"),
            (
                "doc.go",
                "// Copyright X\n\n// Package cart Prices of the basket, with discounts.\npackage cart\n",
            ),
            (
                "doc.go",
                "/*\nCopyright The X Authors.\n*/\n\n/*\nPrices of the basket, with discounts.\n*/\npackage cart\n",
            ),
            ("mod.rs", "//! Prices of the basket, with discounts. It is\n//! long.\nuse x;\n"),
            (
                "__init__.py",
                "# coding: utf-8\n\"\"\"Prices of the basket, with discounts.\n\nMore.\"\"\"\n",
            ),
            (
                "index.ts",
                "/**\n * @license MIT\n */\n\n/* Prices of the basket, with discounts. */\nexport {}\n",
            ),
            (
                "package-info.java",
                "/*\n * Licensed to X.\n */\n/** Prices of the basket, with discounts. */\npackage x;\n",
            ),
        ] {
            assert_eq!(of(name, text), right, "{name}: {text}");
        }
    }

    #[test]
    fn nothing_is_said_where_nothing_is() {
        for (name, text) in [
            (
                "README.md",
                "# Title\n\n<img src=x>\n\n```\nsome code that looks like prose here\n```\n",
            ),
            ("index.js", "export * from './a';\n// later words that are not about the file\n"),
            ("doc.go", "// Copyright 2020 The Authors of everything here.\n\npackage cart\n"),
            ("__init__.py", "from .a import b\n"),
        ] {
            assert_eq!(of(name, text), None, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in "(?s).{0,300}", name in "(README.md|doc.go|mod.rs|__init__.py|index.js)") {
            if let Some(line) = first_sentence(&name, &text) {
                assert!(line.len() <= MAX_LEN);
            }
        }
    }
}
