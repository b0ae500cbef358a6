//! What the simulated trackers store besides their items.

/// An attached file, or a redirect in its place.
#[derive(Debug, Clone)]
pub enum StoredFile {
    Bytes(Vec<u8>),
    Redirect(String),
}

impl StoredFile {
    /// As the tracker reports it.
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Redirect(_) => 1,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct StoredCommit {
    pub message: String,
    pub files: Vec<String>,
}
