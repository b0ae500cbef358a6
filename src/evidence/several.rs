//! Several code bases as one: each path begins with the name of its code base.

use std::sync::Arc;

use super::{Code, File, Role, stays_inside};
use crate::model::AnalysedCode;

/// The code bases of one analysis, each at its commit.
pub struct Several(Vec<(AnalysedCode, Arc<dyn Code>)>);

impl Several {
    pub fn new(code_bases: Vec<(AnalysedCode, Arc<dyn Code>)>) -> Self {
        Self(code_bases)
    }

    fn find<'p>(&self, full: &'p str) -> Option<(&dyn Code, &'p str)> {
        self.0.iter().find_map(|(about, code)| Some((&**code, about.own(full)?)))
    }
}

impl Code for Several {
    /// There is no one commit.
    fn commit(&self) -> Option<&str> {
        None
    }

    fn code_bases(&self) -> Vec<AnalysedCode> {
        let kept = |about: &AnalysedCode| AnalysedCode { root: "".into(), ..about.clone() };
        self.0.iter().map(|(about, _)| kept(about)).collect()
    }

    fn admits(&self, path: &str) -> bool {
        self.find(path).is_some_and(|(_, own)| stays_inside(own))
    }

    fn file(&self, path: &str) -> File {
        self.find(path).map_or(File::Missing, |(code, own)| code.file(own))
    }

    fn in_work_tree(&self, path: &str) -> File {
        let inside = self.find(path).filter(|(_, own)| stays_inside(own));
        inside.map_or(File::Missing, |(code, own)| code.in_work_tree(own))
    }

    /// Known if any of them knows it; unknown only if all can tell.
    fn knows(&self, name: &str) -> Option<bool> {
        let mut known = Some(false);
        for (_, code) in &self.0 {
            match code.knows(name) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => known = None,
            }
        }
        known
    }

    fn files_with(&self, words: &[&str], most: usize) -> Vec<String> {
        let found = self.0.iter().flat_map(|(about, code)| {
            let paths = code.files_with(words, most);
            paths.into_iter().map(|path| about.full(&path)).collect::<Vec<_>>()
        });
        found.take(most).collect()
    }

    fn role(&self, path: &str) -> Role {
        self.find(path).map_or(Role::Other, |(code, own)| code.role(own))
    }

    /// In prose a file is also named without its code base.
    fn has_file_named(&self, end: &str) -> bool {
        match self.find(end) {
            Some((code, own)) => code.has_file_named(own),
            None => self.0.iter().any(|(_, code)| code.has_file_named(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(&'static str, &'static str);

    impl Code for One {
        fn commit(&self) -> Option<&str> {
            Some("c0ffee")
        }

        fn file(&self, path: &str) -> File {
            if path == self.0 { File::of(self.1.as_bytes()) } else { File::Missing }
        }

        fn knows(&self, name: &str) -> Option<bool> {
            Some(self.1.contains(name))
        }

        fn files_with(&self, _: &[&str], _: usize) -> Vec<String> {
            vec![self.0.to_owned()]
        }

        fn has_file_named(&self, end: &str) -> bool {
            self.0.ends_with(end)
        }
    }

    #[test]
    fn a_path_belongs_to_the_code_base_that_it_names_and_to_no_other() {
        let about = |name: &str| AnalysedCode {
            name: name.into(),
            commit: Some("c0ffee".into()),
            root: "/somewhere".into(),
        };
        let several = Several::new(vec![
            (about("web"), Arc::new(One("src/a.ts", "webTotal"))),
            (about("web-api"), Arc::new(One("src/a.rs", "api_total"))),
        ]);
        assert_eq!(several.file("web:src/a.ts"), File::of(b"webTotal"));
        assert_eq!(several.file("web-api:src/a.rs"), File::of(b"api_total"));
        assert_eq!(several.file("web:src/a.rs"), File::Missing);
        for path in [
            "src/a.ts",
            "api:src/a.rs",
            "web:/etc/passwd",
            "web:../web-api/src/a.rs",
            "web:web-api:src/a.rs",
            "web:.git/config",
            "web:",
            "/etc/passwd",
        ] {
            assert!(!several.admits(path), "{path}");
        }
        assert!(several.admits("web:src/new.ts"));
        assert_eq!((several.knows("api_total"), several.knows("other")), (Some(true), Some(false)));
        assert_eq!(several.files_with(&["x"], 9), ["web:src/a.ts", "web-api:src/a.rs"]);
        assert!(several.has_file_named("web-api:src/a.rs") && several.has_file_named("src/a.rs"));
        assert!(!several.has_file_named("web:src/a.rs"));
        assert!(several.code_bases().iter().all(|code| code.root.as_os_str().is_empty()));
    }
}
