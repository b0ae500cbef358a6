//! Commits that change too many files, or none that count, to tell where an item was fixed.

/// The change of one file of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path in the parent commit.
    pub path: String,
    /// Changed line ranges of the parent, first and last, from 1.
    pub lines: Vec<(u32, u32)>,
}

/// A commit with more changed files is a move, a reformatting or an import.
const WIDEST: usize = 30;

/// Words in subjects of mechanical commits.
const MECHANICAL: &[&str] = &[
    "reformat",
    "run formatter",
    "apply formatting",
    "code style",
    "license header",
    "licence header",
    "copyright year",
    "mass rename",
    "vendored",
    "update vendor",
    "regenerate",
    "line endings",
    "whitespace only",
];

/// Why a commit is not used as a fix.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Unusable {
    /// Its files are all new, or not code of the product.
    NoKnownFile,
    /// It changes very many files.
    Wide,
    /// According to its subject, a tool made it.
    Mechanical,
}

impl Unusable {
    /// Text for display.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoKnownFile => {
                "the fix changed only tests, documentation or build files, or only added files"
            }
            Self::Wide => "the fix changed very many files",
            Self::Mechanical => "the fix was a mechanical change, such as reformatting",
        }
    }
}

/// Why the changes of a commit say nothing about one item; `None` if they do.
pub fn unusable(subject: &str, changes: &[Change]) -> Option<Unusable> {
    let subject = subject.to_lowercase();
    if MECHANICAL.iter().any(|word| subject.contains(word)) {
        return Some(Unusable::Mechanical);
    }
    match changes.len() {
        0 => Some(Unusable::NoKnownFile),
        many if many > WIDEST => Some(Unusable::Wide),
        _ => None,
    }
}
