//! Which files a shell command shows. An agent without a tool for reading uses commands, so what it
//! has read is what they name. A lower bound: a pattern or a search over folders names no file.

use std::path::Path;

use super::paths::{absolute, shown};

/// Commands that show the files they name, and whether their first word is a script or a pattern.
const SHOWING: &[(&str, bool)] = &[
    ("cat", false),
    ("bat", false),
    ("head", false),
    ("tail", false),
    ("nl", false),
    ("less", false),
    ("more", false),
    ("tac", false),
    ("sed", true),
    ("awk", true),
    ("grep", true),
    ("rg", true),
];
const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash"];
/// Programs may be nested in shells this deep.
const MAX_DEPTH: usize = 3;

/// The files that a command line names, relative to `cwd` if they are inside.
pub fn files_named(command: &str, cwd: &Path) -> Vec<String> {
    let mut found = Vec::new();
    collect(command, cwd, MAX_DEPTH, &mut found);
    found
}

fn collect(command: &str, cwd: &Path, depth: usize, found: &mut Vec<String>) {
    let mut folder = cwd.to_owned();
    for words in simple_commands(command) {
        let mut words = words.iter().map(String::as_str);
        let Some(program) = words.find(|word| !word.contains('=')) else { continue };
        let program = program.rsplit('/').next().unwrap_or(program);
        let words: Vec<&str> = words.collect();
        if SHELLS.contains(&program) {
            let inner = words.iter().find(|word| !word.starts_with('-'));
            if let Some(inner) = inner.filter(|_| depth > 0) {
                collect(inner, &folder, depth - 1, found);
            }
        } else if program == "cd" {
            folder = words.first().map_or(folder.clone(), |to| absolute(&folder, to));
        } else if let Some((_, has_script)) = SHOWING.iter().find(|(name, _)| *name == program) {
            let named = operands(&words, *has_script);
            found.extend(named.map(|file| shown(cwd, &absolute(&folder, file))));
        }
    }
}

/// The words that are neither options, their values, nor the script.
fn operands<'a>(words: &'a [&'a str], has_script: bool) -> impl Iterator<Item = &'a str> {
    const WITH_VALUE: &[&str] = &["-n", "-c", "-A", "-B", "-C", "-m", "-g", "-t", "-e", "-f"];
    let given = words.iter().any(|word| matches!(*word, "-e" | "-f"));
    let mut rest: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        // `sed -n 1,20p`: for sed, `-n` has no value.
        let numeric = words
            .get(at + 1)
            .is_some_and(|next| next.bytes().all(|b| b.is_ascii_digit() || b == b'+'));
        let takes_value =
            WITH_VALUE.contains(word) && (numeric || matches!(*word, "-e" | "-f" | "-g" | "-t"));
        at += 1 + usize::from(takes_value);
        let skipped = word.starts_with('-') || word.starts_with(['<', '>']) || word.contains('*');
        if !skipped {
            rest.push(word);
        }
    }
    let first = usize::from(has_script && !given);
    rest.into_iter().skip(first)
}

/// The commands of a line, each as its words; quotes and backslashes are resolved.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut begun) = (String::new(), None, false);
    let mut chars = line.chars();
    let end_word = |word: &mut String, begun: &mut bool, commands: &mut Vec<Vec<String>>| {
        if *begun && let Some(last) = commands.last_mut() {
            last.push(std::mem::take(word));
        }
        *begun = false;
    };
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => {
                word.extend(chars.next());
                begun = true;
            }
            (c, Some(_)) => word.push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                begun = true;
            }
            ('|' | '&' | ';' | '\n', None) => {
                end_word(&mut word, &mut begun, &mut commands);
                commands.push(Vec::new());
            }
            // What follows is a file that the command reads.
            ('<', None) => end_word(&mut word, &mut begun, &mut commands),
            (c, None) if c.is_whitespace() => end_word(&mut word, &mut begun, &mut commands),
            (c, None) => {
                word.push(c);
                begun = true;
            }
        }
    }
    end_word(&mut word, &mut begun, &mut commands);
    commands.retain(|command| !command.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_show_files_name_them() {
        for (command, files) in [
            ("/bin/bash -lc \"sed -n '1,200p' src/total.ts\"", vec!["src/total.ts"]),
            (
                "bash -lc 'cat src/a.rs && nl -ba ./src/b.rs | head -n 40'",
                vec!["src/a.rs", "src/b.rs"],
            ),
            ("bash -lc \"cd src && cat 'a b.rs'\"", vec!["src/a b.rs"]),
            ("rg -n \"total\" src/total.ts", vec!["src/total.ts"]),
            ("rg --files", vec![]),
            ("ls -la src; git log -3", vec![]),
            ("head -n 20 /repo/src/a.rs", vec!["src/a.rs"]),
            ("tail -n +20 src/a.rs", vec!["src/a.rs"]),
            ("cat ../other/secret", vec!["/other/secret"]),
            ("awk 'NR>=3' src/a.rs", vec!["src/a.rs"]),
            ("LC_ALL=C sed -n -e 1p src/a.rs", vec!["src/a.rs"]),
            ("cat src/*.rs", vec![]),
        ] {
            assert_eq!(files_named(command, Path::new("/repo")), files, "{command}");
        }
    }
}
