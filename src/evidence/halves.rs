//! The two halves of a patch: its tests, and the change that they are to show. Without a test that it
//! brings, nothing shows that its change is needed.
//!
//! A file belongs to one half, except one of Rust with an inline module of tests at its end: that
//! module is compiled for tests alone, so it is one half and everything before it the other. Code of
//! the product that is taken for a test does no harm, because it is there before and after; a test that
//! is taken for the change would make one that shows nothing look like a proof. So a file is divided
//! only if nothing outside of its module is for tests.

use super::patch::{self, FilePatch, Mark, Outcome, Patch, PatchError};
use super::{Code, File};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Halves {
    /// The files as the whole patch leaves them.
    pub whole: Outcome,
    /// As its tests alone do.
    pub tests: Outcome,
    /// Lines that the tests add.
    pub added: Vec<String>,
    /// Paths of the change.
    pub changed: Vec<String>,
    /// A file of the change with code outside of its tests that only tests use.
    pub mixed: Option<String>,
}

pub fn halves(
    patch: &Patch,
    is_test: impl Fn(&str) -> bool,
    code: &dyn Code,
) -> Result<Halves, PatchError> {
    let of_tests =
        |file: &FilePatch| [&file.old, &file.new].into_iter().flatten().any(|path| is_test(path));
    let (tests, rest): (Vec<_>, Vec<_>) = patch.files.iter().cloned().partition(of_tests);
    let mut halves = Halves {
        whole: patch::apply(patch, code)?,
        added: tests.iter().flat_map(added).collect(),
        tests: patch::apply(&Patch { files: tests }, code)?,
        ..Halves::default()
    };
    for file in rest {
        let old = file.old.as_deref().map(|path| code.file(path));
        let old = old.as_ref().and_then(File::text).map(|text| text.text.as_str());
        let new = halves.whole.get(file.path()).cloned().flatten();
        match (old, new) {
            (Some(old), Some(new)) if is_rust(&file) => halves.divide(&file, old, &new),
            _ => halves.changed.push(file.path().to_owned()),
        }
    }
    Ok(halves)
}

impl Halves {
    fn divide(&mut self, file: &FilePatch, old: &str, new: &str) {
        let path = file.path().to_owned();
        let ((old, old_tests), (new, new_tests)) = (divided(old), divided(new));
        if !new_tests.is_empty() && old_tests != new_tests {
            let in_tests = |line: &String| new_tests.lines().any(|one| one == line);
            self.added.extend(added(file).into_iter().filter(in_tests));
            self.tests.insert(path.clone(), Some(format!("{old}{new_tests}")));
        }
        if squeezed(old) == squeezed(new) {
            return;
        }
        let (old, new) = (Outside::of(old), Outside::of(new));
        if old.is_for_tests() || new.is_for_tests() || old.kept != new.kept {
            self.mixed = Some(path.clone());
        }
        self.changed.push(path);
    }
}

fn added(file: &FilePatch) -> Vec<String> {
    let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
    lines.filter(|(mark, _)| *mark == Mark::Added).map(|(_, text)| text.clone()).collect()
}

fn is_rust(file: &FilePatch) -> bool {
    let ends = |path: &Option<String>| path.as_ref().is_some_and(|path| path.ends_with(".rs"));
    file.old == file.new && ends(&file.new)
}

/// A file of Rust without and with the module of tests at its end.
fn divided(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find("#[cfg(test)]\n").map(|at| from + at) {
        let begins_line = at == 0 || text[..at].ends_with('\n');
        let item = text[at..].lines().skip(1).find(|line| !line.starts_with("#["));
        let is_module = item.is_some_and(|item| {
            (item.starts_with("mod ") || item.starts_with("pub mod ")) && item.ends_with('{')
        });
        // The first closing bracket without indentation ends the file too.
        let last = text[at..].lines().skip(1).position(|line| line == "}");
        let lines = text[at..].trim_end().lines().count();
        if begins_line && is_module && last.is_some_and(|last| last + 2 == lines) {
            return text.split_at(at);
        }
        from = at + 1;
    }
    (text, "")
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// What a file has outside of its module of tests, without white space.
struct Outside {
    code: String,
    /// What may be about tests, as long as it does not change: attributes of the whole crate, such as
    /// `#![cfg_attr(not(test), no_std)]`, and modules of tests in files of their own.
    kept: Vec<String>,
}

impl Outside {
    fn of(text: &str) -> Self {
        let is_inner = |line: &&str| line.trim_start().starts_with("#![");
        let mut kept: Vec<String> = text.lines().filter(is_inner).map(str::to_owned).collect();
        let outer: String = text.lines().filter(|line| !is_inner(line)).collect();
        let mut code = String::new();
        for (number, part) in squeezed(&outer).split("#[cfg(test)]mod").enumerate() {
            let name = part.split_once(';').filter(|(name, _)| !name.contains(['{', '(']));
            match name {
                Some((name, rest)) if number > 0 => {
                    kept.push(name.to_owned());
                    code.push_str(rest);
                }
                _ if number > 0 => code.extend(["#[cfg(test)]mod", part]),
                _ => code.push_str(part),
            }
        }
        Self { code, kept }
    }

    /// Whether it has parts that are compiled for tests alone or left out of them.
    fn is_for_tests(&self) -> bool {
        const SIGNS: [&str; 12] = [
            "cfg(test",
            "cfg!(test",
            "cfg_attr(test",
            "not(test",
            "all(test",
            "any(test",
            ",test)",
            ",test,",
            "#[test",
            "::test]",
            "#[rstest",
            "#[bench]",
        ];
        SIGNS.iter().any(|sign| self.code.contains(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files<F>(F);

    impl<F: Fn(&str) -> File + Send + Sync> Code for Files<F> {
        fn commit(&self) -> Option<&str> {
            None
        }

        fn file(&self, path: &str) -> File {
            (self.0)(path)
        }

        fn knows(&self, _name: &str) -> Option<bool> {
            None
        }

        fn files_with(&self, _: &[&str], _: usize) -> Vec<String> {
            Vec::new()
        }

        fn has_file_named(&self, _: &str) -> bool {
            false
        }
    }

    const OLD: &str = "pub fn two() -> u8 {\n    3\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn is_small() {\n        assert!(two() < 9);\n    }\n}\n";
    const FIX: &str = "@@ -1,3 +1,3 @@\n pub fn two() -> u8 {\n-    3\n+    2\n }\n";
    const TEST: &str = "@@ -9,4 +9,9 @@\n     #[test]\n     fn is_small() {\n         assert!(two() < 9);\n     }\n+\n+    #[test]\n+    fn is_two() {\n+        assert_eq!(two(), 2);\n+    }\n";

    fn of(hunks: &str, old: &'static str) -> Halves {
        let patch = format!("--- a/src/two.rs\n+++ b/src/two.rs\n{hunks}");
        let read = |path: &str| match path {
            "src/two.rs" => File::of(old.as_bytes()),
            _ => File::Missing,
        };
        halves(&patch::parse(&patch).unwrap(), |path| path.starts_with("tests/"), &Files(read))
            .unwrap()
    }

    #[test]
    fn tests_inside_of_the_file_are_a_half_of_their_own() {
        let halves = of(&format!("{FIX}{TEST}"), OLD);
        assert_eq!((halves.changed.as_slice(), halves.mixed), (&["src/two.rs".into()][..], None));
        assert!(halves.added.iter().any(|line| line.contains("is_two")), "{:?}", halves.added);
        assert!(halves.added.iter().all(|line| line != "    2"), "{:?}", halves.added);
        let before = halves.tests["src/two.rs"].clone().unwrap();
        assert!(before.contains("    3\n") && before.contains("fn is_two()"), "{before}");
        let after = halves.whole["src/two.rs"].clone().unwrap();
        assert!(after.contains("    2\n") && after.contains("fn is_two()"), "{after}");
    }

    #[test]
    fn a_change_of_tests_alone_is_no_change() {
        assert_eq!(of(TEST, OLD).changed, [""; 0]);
        assert_eq!(of(FIX, OLD).added, [""; 0]);
    }

    #[test]
    fn code_for_tests_outside_of_their_module_is_told() {
        for (what, old) in [
            (
                "a helper",
                OLD.replace(
                    "\n#[cfg(test)]\nmod",
                    "#[cfg(test)]\nfn help() {}\n\n#[cfg(test)]\nmod",
                ),
            ),
            (
                "a test",
                OLD.replace("\n#[cfg(test)]\nmod", "#[test]\nfn other() {}\n\n#[cfg(test)]\nmod"),
            ),
            ("a choice", OLD.replace("}\n\n#[", "}\n\nconst IS: bool = cfg!( test );\n\n#[")),
            (
                "a second module",
                OLD.replace("\n#[cfg(test)]\nmod", "#[cfg(test)]\nmod a {\n}\n\n#[cfg(test)]\nmod"),
            ),
            ("no end of the file", format!("{OLD}\nfn later() {{\n}}\n")),
        ] {
            let halves = of(FIX, old.leak());
            assert_eq!(halves.mixed.as_deref(), Some("src/two.rs"), "{what}");
        }
        let unchanged = format!(
            "#![cfg_attr(not(test), no_std)]\n{}",
            OLD.replace("\n#[cfg(test)]", "#[cfg(test)]\nmod more;\n\n#[cfg(test)]")
        );
        assert_eq!(of(FIX, unchanged.leak()).mixed, None);
        let declares = FIX.replace("+    2\n }\n", "+    2\n }\n+#[cfg(test)]\n+mod more;\n");
        assert!(of(&declares, OLD).mixed.is_some());
    }

    #[test]
    fn a_file_that_becomes_a_test_or_was_one_belongs_to_the_tests() {
        let moved =
            "diff --git a/tests/a.rs b/src/a.rs\nrename from tests/a.rs\nrename to src/a.rs\n";
        let read = |path: &str| match path {
            "tests/a.rs" => File::of(b"fn a() {}\n"),
            _ => File::Missing,
        };
        let patch = patch::parse(moved).unwrap();
        let halves = halves(&patch, |path| path.starts_with("tests/"), &Files(read)).unwrap();
        assert_eq!((halves.changed.len(), halves.tests.len()), (0, 2));
    }
}
