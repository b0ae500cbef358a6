//! Several code bases that are ranked and packed together.

use crate::index::open::Index;

/// One of the code bases of a context. With a name, its files are `name:path` in everything that is
/// ranked and written; the only one needs none.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Without a colon.
    pub name: &'a str,
    pub index: &'a Index,
}

impl<'a> Part<'a> {
    /// The only code base.
    pub fn only(index: &'a Index) -> Self {
        Self { name: "", index }
    }

    /// A path of this part as it is written.
    pub fn full(&self, path: &str) -> String {
        if self.name.is_empty() { path.to_owned() } else { format!("{}:{path}", self.name) }
    }

    /// The path in this part; `None` for one of another part.
    pub fn own<'p>(&self, full: &'p str) -> Option<&'p str> {
        match self.name {
            "" => Some(full),
            name => full.strip_prefix(name)?.strip_prefix(':'),
        }
    }
}

/// The part of a path, and the path in it.
pub(crate) fn find<'a, 'p>(
    parts: &'a [Part<'a>],
    full: &'p str,
) -> Option<(&'a Part<'a>, &'p str)> {
    parts.iter().find_map(|part| Some((part, part.own(full)?)))
}
