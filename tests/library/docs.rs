//! The documents name commands, options, keys and files that exist, and keep to their form.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use heartbeat::cli::args::Cli;
use heartbeat::config::DEFAULT_TOML;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documents that users read, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found: Vec<PathBuf> =
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benches/README.md"]
            .map(|name| root().join(name))
            .into();
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    found.extend(pages.filter(|path| path.extension().is_some_and(|end| end == "md")));
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// Fenced blocks with their language, and the text between them.
fn parts(text: &str) -> (Vec<(String, String)>, String) {
    let (mut blocks, mut prose) = (Vec::<(String, String)>::new(), String::new());
    let mut inside = false;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside;
            if inside {
                blocks.push((language.to_owned(), String::new()));
            }
        } else if inside {
            let (_, block) = blocks.last_mut().unwrap();
            block.push_str(line);
            block.push('\n');
        } else {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    (blocks, prose)
}

/// What stands between single backticks.
fn quoted(prose: &str) -> Vec<String> {
    let spans = prose.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Fails with the words that the program does not know.
fn check_command(words: &str) -> Result<(), String> {
    let mut command = Cli::command();
    command.build();
    let mut at = &command;
    let mut options = BTreeSet::new();
    let mut is_first = true;
    for word in words.split_whitespace() {
        if let Some(sub) = at.find_subcommand(word) {
            at = sub;
            is_first = false;
            continue;
        }
        match word.strip_prefix("--") {
            Some("") => break,
            Some(option) => {
                options.insert(option.split('=').next().unwrap().trim_end_matches(['`', ')']));
            }
            None if is_first && word.starts_with(|c: char| c.is_ascii_lowercase()) => {
                return Err(format!("no command {word:?}"));
            }
            None => {}
        }
        is_first = false;
    }
    let known = |option: &str| {
        let mut all = at.get_arguments().chain(command.get_arguments());
        all.any(|argument| argument.get_long() == Some(option)) || option == "help"
    };
    match options.into_iter().find(|option| !known(option)) {
        Some(option) => Err(format!("{} has no option --{option}", at.get_name())),
        None => Ok(()),
    }
}

/// The commands in a line of a shell: what follows `heartbeat`, without comments and pipes.
fn commands(line: &str) -> Option<&str> {
    let line = line.trim().strip_prefix("$ ").unwrap_or(line.trim());
    let rest = line.strip_prefix("heartbeat")?;
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let end = [" #", " | ", " > ", " && ", "  "].iter().filter_map(|mark| rest.find(mark)).min();
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[test]
fn every_command_and_option_exists() {
    let (mut unknown, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        let (blocks, prose) = parts(&text);
        let shell = blocks.iter().filter(|(language, _)| language == "sh");
        let lines = shell.flat_map(|(_, block)| block.lines().map(str::to_owned));
        for line in lines.chain(quoted(&prose)) {
            let Some(words) = commands(&line) else { continue };
            // `kill ITEM|--all` and `service print|install` stand for several.
            let words = words.replace(['|', '[', ']'], " ");
            seen += 1;
            if let Err(why) = check_command(&words) {
                unknown.push(format!("{}: {line}: {why}", name(&path)));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(seen > 80, "only {seen} commands were found");
}

/// What a command line must be like for this test to mean anything.
#[test]
fn an_unknown_command_or_option_is_noticed() {
    check_command("retry 12 --terms A,B").unwrap();
    check_command("service install --user").unwrap();
    check_command("--once --demo").unwrap();
    check_command("frobnicate 12").unwrap_err();
    check_command("show 12 --frobnicate").unwrap_err();
}

fn defaults() -> toml::Table {
    DEFAULT_TOML.parse().unwrap()
}

/// Tables whose keys belong to entries of a list, described in comments of the default file.
const RULES: [&str; 12] = [
    "name",
    "source",
    "area",
    "item_type",
    "tag",
    "priority",
    "model",
    "effort",
    "max_cost",
    "timeout",
    "write_back",
    "triage_only",
];

/// Keys of a table in a document that the default file does not have.
fn unknown_keys(table: &toml::Table, known: &toml::Table) -> Vec<String> {
    let mut unknown = Vec::new();
    for (section, value) in table {
        let entries: Vec<&toml::Table> = match value {
            toml::Value::Table(entry) => vec![entry],
            toml::Value::Array(list) => list.iter().filter_map(toml::Value::as_table).collect(),
            _ => Vec::new(),
        };
        let keys = entries.iter().flat_map(|entry| entry.keys());
        for key in keys {
            let is_known = match section.as_str() {
                "rules" => RULES.contains(&key.as_str()),
                "sources" => known["source"].as_table().unwrap().contains_key(key),
                _ => known
                    .get(section)
                    .and_then(toml::Value::as_table)
                    .is_some_and(|s| s.contains_key(key)),
            };
            if !is_known {
                unknown.push(format!("{section}.{key}"));
            }
        }
        if entries.is_empty() {
            unknown.push(section.clone());
        }
    }
    unknown
}

#[test]
fn every_key_exists() {
    let known = defaults();
    let (mut unknown, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        let (blocks, prose) = parts(&text);
        for (_, block) in blocks.iter().filter(|(language, _)| language == "toml") {
            let table: toml::Table =
                block.parse().unwrap_or_else(|e| panic!("{}: {e}", name(&path)));
            seen += 1;
            unknown.extend(
                unknown_keys(&table, &known)
                    .into_iter()
                    .map(|key| format!("{}: {key}", name(&path))),
            );
        }
        for span in quoted(&prose) {
            // `section.key`, perhaps with a value.
            let word = span.split(['=', ' ']).next().unwrap_or_default();
            let Some((section, key)) = word.split_once('.') else { continue };
            let is_name = |text: &str| {
                !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
            };
            let Some(section_table) = known.get(section).and_then(toml::Value::as_table) else {
                continue;
            };
            // Files such as `state.rs` are no keys.
            if !is_name(key) || ["rs", "toml", "md", "sql", "json"].contains(&key) {
                continue;
            }
            seen += 1;
            if !section_table.contains_key(key) {
                unknown.push(format!("{}: {word}", name(&path)));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(seen > 60, "only {seen} keys were found");
}

/// As GitHub makes it from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let (mut broken, mut seen) = (Vec::new(), 0);
    for (path, text) in documents() {
        let (_, prose) = parts(&text);
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let has_heading = || {
                let (_, prose) = parts(&fs::read_to_string(&target).unwrap_or_default());
                prose.lines().any(|line| {
                    line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading
                })
            };
            if !target.exists() || !heading.is_empty() && !has_heading() {
                broken.push(format!("{}: {link}", name(&path)));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(seen > 30, "only {seen} links were found");
}

/// A page that is read in a terminal or a diff: lines of at most 100 columns, except tables and
/// single long links. The first page is short.
#[test]
fn pages_are_short_and_wrapped() {
    let mut wide = Vec::new();
    for (path, text) in documents() {
        let page = name(&path);
        if page == "SECURITY.md" || page == "benches/README.md" {
            continue;
        }
        if page == "README.md" {
            assert!(text.len() <= 7_000, "README.md has {} bytes, at most 7,000", text.len());
        }
        let (_, prose) = parts(&text);
        let too_wide = |line: &&str| {
            line.chars().count() > 100 && !line.starts_with('|') && !line.starts_with("![")
        };
        wide.extend(prose.lines().filter(too_wide).map(|line| format!("{page}: {line}")));
    }
    assert!(wide.is_empty(), "over 100 columns:\n{}", wide.join("\n"));
    for entry in fs::read_dir(root()).unwrap().map(|entry| entry.unwrap()) {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let is_git = entry.file_name() == ".git";
        if hidden && !is_git && entry.path().is_dir() {
            let guides = fs::read_dir(entry.path()).unwrap().map(|entry| entry.unwrap().path());
            let guide =
                guides.into_iter().find(|path| path.extension().is_some_and(|end| end == "md"));
            assert_eq!(guide, None, "nobody looks for documents in a hidden folder");
        }
    }
}
