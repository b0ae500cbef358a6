//! The layers of the crate: the table in the documentation of `src/lib.rs` is parsed and compared
//! with the sources. The rules are in the table, not here.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The layer and modules of one row, and the layers below that they may use.
struct Layer {
    name: String,
    modules: Vec<String>,
    /// `a → b` in a row: within the layer, `a` may use `b`.
    within: BTreeSet<(String, String)>,
    knows: BTreeSet<String>,
}

/// The layers, highest first.
struct Picture(Vec<Layer>);

impl Picture {
    fn read() -> Self {
        let mut layers: Vec<Layer> = std::fs::read_to_string(root().join("lib.rs"))
            .unwrap()
            .lines()
            .filter_map(|line| line.strip_prefix("//! | **"))
            .map(Layer::parse)
            .collect();
        let names: Vec<String> = layers.iter().map(|layer| layer.name.clone()).collect();
        for (place, layer) in layers.iter_mut().enumerate() {
            if layer.knows.remove("all below") {
                layer.knows = names[place + 1..].iter().cloned().collect();
            }
        }
        Self(layers)
    }

    fn layer_of(&self, module: &str) -> Option<&Layer> {
        self.0.iter().find(|layer| layer.modules.iter().any(|name| name == module))
    }

    fn allows(&self, module: &str, known: &str) -> bool {
        let (Some(from), Some(to)) = (self.layer_of(module), self.layer_of(known)) else {
            return false;
        };
        from.knows.contains(&to.name) || from.within.contains(&(module.into(), known.into()))
    }
}

impl Layer {
    /// `data** | [`event`], [`settings`] → [`model`] | nothing | …`
    fn parse(row: &str) -> Self {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let mut modules = Vec::new();
        let mut within = BTreeSet::new();
        let steps: Vec<Vec<String>> = cells[1].split('→').map(names).collect();
        for (place, step) in steps.iter().enumerate() {
            for below in steps[place + 1..].iter().flatten() {
                within.extend(step.iter().map(|module| (module.clone(), below.clone())));
            }
            modules.extend(step.iter().cloned());
        }
        let knows = cells[2].split(',').map(|name| name.trim().to_owned());
        Self {
            name: cells[0].trim_end_matches("**").to_owned(),
            modules,
            within,
            knows: knows.filter(|name| name != "nothing").collect(),
        }
    }
}

/// The names in "[`a`], [`b`]".
fn names(list: &str) -> Vec<String> {
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn a_module_knows_only_what_the_picture_allows() {
    let picture = Picture::read();
    let wrong: Vec<String> = uses()
        .into_iter()
        .filter(|(module, _, known)| module != known && !picture.allows(module, known))
        .map(|(module, file, known)| format!("{}: {module} knows {known}", file.display()))
        .collect();
    assert!(wrong.is_empty(), "against the picture in src/lib.rs:\n{}", wrong.join("\n"));
}

#[test]
fn the_picture_shows_every_module_once_and_points_downwards() {
    let picture = Picture::read();
    let drawn: Vec<&String> = picture.0.iter().flat_map(|layer| &layer.modules).collect();
    let unique: BTreeSet<&String> = drawn.iter().copied().collect();
    assert_eq!(drawn.len(), unique.len(), "a module stands in two layers");
    let library = std::fs::read_to_string(root().join("lib.rs")).unwrap();
    let declared: BTreeSet<String> = library
        .lines()
        .filter_map(|line| Some(line.strip_prefix("pub mod ")?.trim_end_matches(';').to_owned()))
        .collect();
    assert_eq!(unique, declared.iter().collect(), "drawn and declared modules differ");
    let mut below: BTreeSet<&str> = BTreeSet::new();
    for layer in picture.0.iter().rev() {
        for known in &layer.knows {
            assert!(below.contains(known.as_str()), "{} points up to {known}", layer.name);
        }
        below.insert(&layer.name);
    }
}

/// An unused permission would hide the next mistake.
#[test]
fn the_picture_allows_no_more_than_is_used() {
    let picture = Picture::read();
    let used: BTreeSet<(String, String)> = uses()
        .into_iter()
        .filter_map(|(module, _, known)| {
            let (from, to) = (picture.layer_of(&module)?, picture.layer_of(&known)?);
            Some((from.name.clone(), to.name.clone()))
        })
        .collect();
    for layer in &picture.0 {
        for known in &layer.knows {
            let both = (layer.name.clone(), known.clone());
            assert!(used.contains(&both), "{} does not use {known}", layer.name);
        }
    }
}

/// The purpose of the redesign; a table that allows it again is wrong.
#[test]
fn the_picture_keeps_the_promises_of_the_layers() {
    let picture = Picture::read();
    let nothing_but = |module: &str, allowed: &[&str]| {
        let layer = picture.layer_of(module).unwrap();
        let known: Vec<&str> = layer.knows.iter().map(String::as_str).collect();
        assert_eq!(known, allowed, "{module}");
    };
    nothing_but("model", &[]);
    nothing_but("clean", &["data"]);
    for (module, known) in [
        ("fetch", "store"),
        ("session", "fetch"),
        ("store", "session"),
        ("store", "fetch"),
        ("web", "session"),
        ("web", "fetch"),
        ("report", "session"),
        ("simulate", "session"),
        ("run", "report"),
        ("prompt", "config"),
    ] {
        assert!(!picture.allows(module, known), "{module} may know {known}");
    }
}

#[test]
fn words_and_pure_modules_do_no_io_and_read_no_clock() {
    const IO: [&str; 8] = [
        "std::fs",
        "std::net",
        "std::env::",
        "std::process",
        "tokio::",
        "Timestamp::now",
        "Instant::now",
        "SystemTime",
    ];
    let picture = Picture::read();
    let mut wrong = Vec::new();
    for (module, file, code) in code() {
        let layer = picture.layer_of(&module).map_or("", |layer| layer.name.as_str());
        if ["data", "pure", "ports"].contains(&layer) {
            let found = IO.iter().filter(|word| code.contains(**word));
            wrong.extend(found.map(|word| format!("{}: {word}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "IO in a pure module:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stands_only_in_process() {
    let process = supervisor().join("process");
    let wrong: Vec<PathBuf> = sources(&root())
        .into_iter()
        .chain(sources(&supervisor()))
        .filter(|file| !file.starts_with(&process))
        .filter(|file| without_tests(&std::fs::read_to_string(file).unwrap()).contains("unsafe {"))
        .collect();
    assert!(wrong.is_empty(), "unsafe outside of the supervisor's `process`: {wrong:?}");
}

/// The path of one item on the architecture page names files and functions.
#[test]
fn the_functions_on_the_path_of_an_item_exist() {
    let page = std::fs::read_to_string(root().join("lib.rs")).unwrap();
    let path = page.split("//! # The path of one item").nth(1).unwrap();
    let path = path.split("//! # ").next().unwrap();
    let rows: Vec<Vec<&str>> = path
        .lines()
        .filter(|line| line.starts_with("//! | `"))
        .map(|line| line.split('|').collect())
        .collect();
    assert!(rows.len() > 10, "the table was not read");
    for row in rows {
        let file = names(row[1]).remove(0);
        let code = std::fs::read_to_string(root().join(&file)).unwrap_or_else(|_| panic!("{file}"));
        for name in names(row[2]) {
            let is_there = ["(", "<"].iter().any(|next| code.contains(&format!("fn {name}{next}")));
            assert!(is_there, "{file}: no function {name}");
        }
    }
}

/// Each invariant on the architecture page names the tests that check it.
#[test]
fn the_tests_named_beside_the_invariants_exist() {
    let page = std::fs::read_to_string(root().join("lib.rs")).unwrap();
    let tests = root().join("../tests");
    let all: String = sources(&root())
        .into_iter()
        .chain(sources(&tests))
        .chain(sources(&root().join("../crates")))
        .chain(["tests.rs", "budget_tests.rs"].map(|file| root().join("store").join(file)))
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    let invariants = page.split("//! # Invariants").nth(1).unwrap();
    let invariants = invariants.split("//! # ").next().unwrap();
    let mut seen = 0;
    for item in invariants.split("//! - **I").skip(1) {
        let number = item.split('*').next().unwrap();
        let (_, held) = item.split_once("Held by").unwrap_or_else(|| panic!("I{number}: no test"));
        for name in names(held) {
            assert!(all.contains(&format!("fn {name}(")), "I{number}: no test {name}");
        }
        seen += 1;
    }
    assert_eq!(seen, 18, "I1 to I16, I18 and I21");
}

/// The rules would hold by accident if no uses were found in the sources.
#[test]
fn the_reader_of_sources_sees_the_known_directions() {
    let seen: BTreeSet<(String, String)> =
        uses().into_iter().map(|(module, _, known)| (module, known)).collect();
    for (module, known) in [("run", "store"), ("store", "ports"), ("app", "fetch")] {
        assert!(seen.contains(&(module.into(), known.into())), "{module} → {known} was not seen");
    }
    let text = "use crate::{a, b::{c, d}, e};\n// crate::f\n#[cfg(test)]\nmod tests {\n    \
                use crate::g;\n}\ncrate::h::i();\n";
    let found = mentioned(&without_tests(text));
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "e", "h"]);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The sources of the crate that contains, confines and ends agents.
fn supervisor() -> PathBuf {
    root().join("../crates/supervisor/src")
}

/// It builds and tests alone, and knows nothing of the job: the wall of the crate itself.
#[test]
fn the_supervisor_needs_no_database_no_http_and_no_other_crate_of_ours() {
    let manifest = std::fs::read_to_string(supervisor().join("../Cargo.toml")).unwrap();
    assert!(manifest.contains("nix ="), "the manifest was not read");
    for name in ["rusqlite", "reqwest", "hyper", "axum", "rustls", "heartbeat-batch", "path = \".."]
    {
        assert!(!manifest.contains(name), "{name}");
    }
}

/// (module, file, used module) for every `crate::module` outside of tests.
fn uses() -> Vec<(String, PathBuf, String)> {
    let each = |(module, file, code): (String, PathBuf, String)| {
        mentioned(&code)
            .into_iter()
            .map(|known| (module.clone(), file.clone(), known))
            .collect::<Vec<_>>()
    };
    code().into_iter().flat_map(each).collect()
}

/// (module, file, code without comments and tests) of every source file of a module.
fn code() -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for file in sources(&root()) {
        let relative = file.strip_prefix(root()).unwrap().to_path_buf();
        let first = relative.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if !["lib", "main"].contains(&module.as_str()) {
            let code = without_tests(&std::fs::read_to_string(&file).unwrap());
            found.push((module, relative, code));
        }
    }
    found
}

/// Names after `crate::`, alone or at the top level of braces.
fn mentioned(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let list = after.strip_prefix('{').map_or_else(|| vec![after.to_owned()], top_level);
        for name in list {
            let name: String =
                name.trim().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if !name.is_empty() {
                names.insert(name);
            }
        }
    }
    names
}

/// The parts of "a, b::{c, d}, e} …", up to the brace that closes the list.
fn top_level(text: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for char in text.chars() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            _ if depth == 0 => parts.last_mut().unwrap().push(char),
            _ => {}
        }
    }
    parts
}

/// A file without comments and without the items marked `#[cfg(test)]`. Relies on rustfmt: an item
/// ends with a brace at its own indentation, or on its first line.
fn without_tests(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let indent = &line[..line.len() - line.trim_start().len()];
        if line.trim() == "#[cfg(test)]" {
            let end = format!("{indent}}}");
            let mut first = true;
            for line in lines.by_ref() {
                let attribute = line.trim_start().starts_with("#[");
                if line == end || (first && !attribute && line.ends_with(['}', ';'])) {
                    break;
                }
                first &= attribute;
            }
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" {
            found.extend(sources(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
    found
}

/// Where a confined agent could write, a file may be a trap: such places are read and written by
/// `private::beneath` only. These files of the supervisor open others: system files, the program,
/// what was created before any agent had it.
#[test]
fn what_an_agent_could_write_is_opened_by_one_module_only() {
    const OPENS: [&str; 9] = [
        "fs::read(",
        "fs::write(",
        "fs::read_to_string(",
        "fs::copy(",
        "File::open(",
        "File::create(",
        "File::options(",
        "OpenOptions",
        "private::write(",
    ];
    const KNOWN: [(&str, usize); 8] = [
        ("confinement.rs", 2),
        ("containment.rs", 2),
        ("sessions.rs", 2),
        ("keeper/start.rs", 2),
        ("keeper/group.rs", 6),
        ("keeper/namespace.rs", 6),
        ("keeper/verify.rs", 2),
        ("keeper/view.rs", 1),
    ];
    // These two are the modules that open and read for all others.
    let is_opener = |name: &str| name.starts_with("private") || name.starts_with("process/");
    let folders = [root().join("session"), supervisor()];
    let files = folders.iter().flat_map(|folder| {
        sources(folder).into_iter().map(move |file| {
            let name = file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            (file, name)
        })
    });
    let mut wrong = Vec::new();
    for (file, name) in files.filter(|(_, name)| !is_opener(name)) {
        let text = std::fs::read_to_string(&file).unwrap();
        let own = text.split("#[cfg(test)]").next().unwrap_or_default();
        let opens = own.lines().filter(|line| OPENS.iter().any(|open| line.contains(open))).count();
        let known = KNOWN.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most);
        if opens > known {
            wrong.push(format!("{name}: {opens} calls, {known} are known"));
        }
    }
    assert!(wrong.is_empty(), "use private::beneath:\n{}", wrong.join("\n"));
}
