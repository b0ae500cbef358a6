//! Commits that touch too much, or nothing that counts, to say where an item was fixed.

/// What a commit did to one file of the product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path at the parent.
    pub path: String,
    /// Ranges of lines of the parent that it changed, first and last, from 1.
    pub lines: Vec<(u32, u32)>,
}

/// More changed files than this are a move, a reformatting or an import.
const WIDEST: usize = 30;

/// Words of subjects of mechanical commits.
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
    /// Its files are all new, or no code of the product.
    NoKnownFile,
    /// It changes very many files.
    Wide,
    /// Its subject says that a tool made it.
    Mechanical,
}

impl Unusable {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::NoKnownFile => "the fix changed no code that existed before it",
            Self::Wide => "the fix changed very many files",
            Self::Mechanical => "the fix was a mechanical change, such as reformatting",
        }
    }
}

/// Why the changes of a commit say nothing about one item; none if they do.
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
