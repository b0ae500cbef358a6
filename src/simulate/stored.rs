//! What the simulated trackers keep beside their items.

/// An attached file, or an answer that leads elsewhere in its place.
#[derive(Debug, Clone)]
pub enum StoredFile {
    Bytes(Vec<u8>),
    Redirect(String),
}

impl StoredFile {
    /// As the tracker states it.
    pub fn size(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Redirect(_) => 1,
        }
    }
}

/// A commit with its message and files.
#[derive(Debug, Clone, Default)]
pub struct StoredCommit {
    pub message: String,
    pub files: Vec<String>,
}
