//! One picture of a repository for every prompt of a run: what it says it is, and what lies where.

use std::collections::BTreeMap;

use super::build::read_text;
use super::bytes::cut;
use super::index::Index;
use super::kind::Kind;

#[derive(Default)]
struct Folder {
    files: usize,
    words: u64,
    tests: usize,
    endings: BTreeMap<String, usize>,
}

/// The repository in at most `token_budget` tokens: its own first words, then its folders.
pub fn overview(index: &Index, token_budget: usize) -> String {
    let room = token_budget * 4;
    let mut out = String::new();
    let mut add = |piece: &str| {
        let fits = out.len() + piece.len() <= room;
        if fits {
            out.push_str(piece);
        }
        fits
    };
    let name = index
        .root()
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let sources = index.files().iter().filter(|entry| entry.kind == Kind::Source).count();
    add(&format!(
        "Repository {name}: {} files, {sources} of them source code.\n",
        index.files().len()
    ));
    if let Some(words) = first_words(index) {
        add(&format!("{words}\n"));
    }
    add("Folders (source files, main kinds; tests):\n");
    let folders = folders(index);
    let mut order: Vec<(&String, &Folder)> = folders.iter().collect();
    order.sort_by(|a, b| b.1.words.cmp(&a.1.words).then(a.0.cmp(b.0)));
    // The largest folders that fit, shown in the order of their paths.
    let mut chosen: Vec<String> = Vec::new();
    let mut used = 0;
    let spare = room.saturating_sub(400);
    for (path, folder) in order {
        let line = line(path, folder);
        if used + line.len() > spare / 2 {
            break;
        }
        used += line.len();
        chosen.push(line);
    }
    chosen.sort();
    for line in chosen {
        add(&line);
    }
    out
}

fn line(path: &str, folder: &Folder) -> String {
    let mut endings: Vec<_> = folder.endings.iter().collect();
    endings.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let kinds =
        endings.iter().take(2).map(|(ending, _)| ending.as_str()).collect::<Vec<_>>().join(" ");
    let tests = if folder.tests > 0 { format!("; {} tests", folder.tests) } else { String::new() };
    format!("- {path}/ ({} {kinds}{tests})\n", folder.files)
}

/// Folders down to the third level, each with everything below it counted in its deepest shown one.
fn folders(index: &Index) -> BTreeMap<String, Folder> {
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    for entry in index.files().iter().filter(|entry| entry.language.is_code()) {
        let parts: Vec<&str> = entry.path.split('/').collect();
        let depth = (parts.len() - 1).min(3);
        let folder = folders
            .entry(if depth == 0 { ".".to_owned() } else { parts[..depth].join("/") })
            .or_default();
        match entry.kind {
            Kind::Source => {
                folder.files += 1;
                folder.words += entry.lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
                let ending = parts
                    .last()
                    .and_then(|name| name.rsplit_once('.'))
                    .map_or("", |(_, ending)| ending);
                *folder.endings.entry(ending.to_owned()).or_default() += 1;
            }
            Kind::Test => folder.tests += 1,
            _ => {}
        }
    }
    folders.retain(|_, folder| folder.files > 0 || folder.tests > 0);
    folders
}

/// The first paragraph of the README.
fn first_words(index: &Index) -> Option<String> {
    let readme = index.files().iter().find(|entry| {
        !entry.path.contains('/') && entry.path.to_lowercase().starts_with("readme")
    })?;
    let text = read_text(&index.root().join(&readme.path))?;
    let prose = text
        .lines()
        .map(str::trim)
        .find(|line| line.len() > 40 && line.starts_with(|c: char| c.is_alphanumeric()))?;
    Some(cut(prose, 300).to_owned())
}
