//! An overview of a repository for every prompt of a run: its own description, and its folders.

use std::collections::BTreeMap;

use crate::index::open::Index;
use crate::pack::purpose::purpose;
use crate::text::kind::Kind;

/// Bytes for the part above the folders.
const HEAD: usize = 400;

#[derive(Default)]
struct Folder {
    files: usize,
    words: u64,
    tests: usize,
    endings: BTreeMap<String, usize>,
}

/// The repository in at most `token_budget` tokens: its own description, then its folders.
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
    if let Some(words) = purpose(index, "") {
        add(&format!("{words}\n"));
    }
    add("Folders (source files, main kinds; tests):\n");
    let folders = folders(index);
    let mut order: Vec<(&String, &Folder)> = folders.iter().collect();
    order.sort_by(|a, b| b.1.words.cmp(&a.1.words).then(a.0.cmp(b.0)));
    // The largest folders that fit, ordered by path.
    let mut chosen: Vec<String> = Vec::new();
    let mut spare = room.saturating_sub(HEAD);
    for (path, folder) in order {
        let line = line(index, path, folder);
        if line.len() > spare {
            break;
        }
        spare -= line.len();
        chosen.push(line);
    }
    chosen.sort();
    for line in chosen {
        add(&line);
    }
    out
}

fn line(index: &Index, path: &str, folder: &Folder) -> String {
    let mut endings: Vec<_> = folder.endings.iter().collect();
    endings.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let kinds =
        endings.iter().take(2).map(|(ending, _)| ending.as_str()).collect::<Vec<_>>().join(" ");
    let tests = if folder.tests > 0 { format!("; {} tests", folder.tests) } else { String::new() };
    let sources = match folder.files {
        0 => String::new(),
        files => format!("{files} {kinds}"),
    };
    let purpose = match purpose(index, path).filter(|_| path != ".") {
        Some(words) => format!(": {words}"),
        None => String::new(),
    };
    format!("- {path}/ ({}){purpose}\n", [sources, tests].join("").trim_start_matches("; "))
}

/// Folders down to the third level; files further below count for their deepest shown folder.
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
