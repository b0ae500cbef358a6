//! The dashboard's own token: a file in the state folder that only its owner can read. Reading it
//! is enough to sign in.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use crate::private;

/// Name of the file in the state folder.
pub const FILE: &str = "dashboard-token";
/// Random bytes in a token; the file has two hexadecimal digits for each.
const RANDOM_BYTES: usize = 32;

const NOT_A_FILE: &str =
    "it is not a regular file; remove it, then run `heartbeat dashboard --rotate`";

#[derive(Debug, Clone)]
pub struct TokenFile(PathBuf);

impl TokenFile {
    pub fn in_state(folder: &Path) -> Self {
        Self(folder.join(FILE))
    }

    /// The token that may only read.
    pub fn of_readers(folder: &Path) -> Self {
        Self::named(folder, "dashboard-reader-token")
    }

    pub fn named(folder: &Path, name: &str) -> Self {
        Self(folder.join(name))
    }

    /// The state folder.
    pub fn folder(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new(""))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The token. Fails if others can read the file or its content is not a token.
    pub fn read(&self) -> io::Result<SecretString> {
        let file = private::open_regular(&self.0).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => io::Error::new(error.kind(), NOT_A_FILE),
            _ => error,
        })?;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is readable by others",
            ));
        }
        let mut text = String::new();
        file.take(2 * RANDOM_BYTES as u64 + 1).read_to_string(&mut text)?;
        let token = text.trim_end();
        if token.len() != 2 * RANDOM_BYTES || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not hold a token"));
        }
        Ok(SecretString::from(token))
    }

    /// The token; creates a new one if there is none, or if others could have read it. A pipe, a
    /// link or a folder in its place is an error.
    pub fn read_or_create(&self) -> io::Result<SecretString> {
        self.read().or_else(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Err(error),
            _ => self.rotate(),
        })
    }

    /// Replaces the token and so signs out every browser.
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
    fn a_pipe_or_a_link_in_place_of_the_token_is_an_error_and_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_state(folder.path());
        let token = file.rotate().unwrap();
        let moved = folder.path().join("moved");
        std::fs::rename(file.path(), &moved).unwrap();
        let make: [&dyn Fn(); 2] =
            [&|| std::os::unix::fs::symlink(&moved, file.path()).unwrap(), &|| {
                nix::unistd::mkfifo(file.path(), nix::sys::stat::Mode::S_IRWXU).unwrap();
            }];
        for make in make {
            make();
            for read in [file.read(), file.read_or_create()] {
                let error = read.unwrap_err().to_string();
                assert!(error.contains("not a regular file; remove it"), "{error}");
            }
            assert_ne!(file.rotate().unwrap().expose_secret(), token.expose_secret());
            assert!(file.read().is_ok());
            std::fs::remove_file(file.path()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(moved).unwrap().trim_end(), token.expose_secret());
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
