//! The dashboard's own token: a file in the state folder that only its owner can read. Who can read
//! it may sign in.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::private;

/// Name of the file in the state folder.
pub const FILE: &str = "dashboard-token";
/// Random bytes in a token; the file has two hexadecimal digits for each.
const RANDOM_BYTES: usize = 32;

/// Where the token of a state is kept.
#[derive(Debug, Clone)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    pub fn in_state(folder: &Path) -> Self {
        Self(folder.join(FILE))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The token. A file that others can read, or that holds something else, has none.
    pub fn read(&self) -> io::Result<SecretString> {
        let file = std::fs::File::open(&self.0)?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others can read it"));
        }
        let mut text = String::new();
        file.take(2 * RANDOM_BYTES as u64 + 1).read_to_string(&mut text)?;
        let token = text.trim_end();
        if token.len() != 2 * RANDOM_BYTES || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold a token"));
        }
        Ok(SecretString::from(token))
    }

    /// The token; a new one if there is none yet, or if others could have read it.
    pub fn read_or_create(&self) -> io::Result<SecretString> {
        self.read().or_else(|_| self.rotate())
    }

    /// Replaces the token. Whoever signed in with the old one is signed out.
    pub fn rotate(&self) -> io::Result<SecretString> {
        let token = random_token()?;
        private::replace(&self.0, format!("{}\n", token.expose_secret()).as_bytes())?;
        Ok(token)
    }
}

fn random_token() -> io::Result<SecretString> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(SecretString::from(super::sign_in::hex(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_token_is_made_once_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_state(folder.path());
        assert!(file.read().is_err());
        let first = file.read_or_create().unwrap();
        assert_eq!(first.expose_secret().len(), 64);
        assert_eq!(mode(file.path()), 0o600);
        let again = file.read_or_create().unwrap();
        assert_eq!(again.expose_secret(), first.expose_secret());
        let rotated = file.rotate().unwrap();
        assert_ne!(rotated.expose_secret(), first.expose_secret());
        assert_eq!(file.read().unwrap().expose_secret(), rotated.expose_secret());
        assert_eq!(mode(file.path()), 0o600);
    }

    #[test]
    fn a_token_that_others_could_read_or_that_is_damaged_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_state(folder.path());
        let seen = file.rotate().unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.read().is_err());
        let fresh = file.read_or_create().unwrap();
        assert_ne!(fresh.expose_secret(), seen.expose_secret());
        assert_eq!(mode(file.path()), 0o600);
        for content in ["", "\n", "guess\n", &"g".repeat(64), &"a".repeat(65)] {
            private::write(file.path(), content.as_bytes()).unwrap();
            assert!(file.read().is_err(), "{content:?}");
        }
    }
}
