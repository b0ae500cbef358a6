//! Data stored by the server: compressed and encrypted, so that only the two processes it is for can
//! read it, and bound to its execution, so that it is useless elsewhere. Their keys: see `keys`.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use super::keys::KeyError;

/// Upper bound of uncompressed data.
const MAX_UNPACKED: u64 = 64 << 20;

/// Why something could not be sealed or opened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SealError {
    #[error("it is encrypted with a key ({0}) that this process does not have")]
    OtherKey(String),
    #[error("it was modified in transit or belongs to another session")]
    Broken,
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("this version cannot read its format: {0}")]
    Form(String),
}

/// Keys for messages between two processes: the first one seals, all of them open.
pub struct Seal {
    keys: Vec<(String, LessSafeKey)>,
    random: SystemRandom,
}

impl Seal {
    /// Without a key it seals and opens nothing.
    pub fn new(keys: impl IntoIterator<Item = [u8; 32]>) -> Self {
        let keys = keys.into_iter().filter_map(|bytes| key(&bytes)).collect();
        Self { keys, random: SystemRandom::new() }
    }

    /// The id of the sealing key; it reveals nothing about the key.
    pub fn key_id(&self) -> &str {
        self.keys.first().map_or("", |(id, _)| id)
    }

    /// Compresses and seals a value for one purpose, such as the end of one session.
    pub fn seal(
        &self,
        purpose: &str,
        value: &impl Serialize,
    ) -> Result<(String, Vec<u8>), SealError> {
        let form = |error: &dyn std::fmt::Display| SealError::Form(error.to_string());
        let plain = serde_json::to_vec(value).map_err(|error| form(&error))?;
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&plain).map_err(|error| form(&error))?;
        let mut data = packer.finish().map_err(|error| form(&error))?;
        let Some((id, key)) = self.keys.first() else { return Err(SealError::Broken) };
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| SealError::Broken)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::from(purpose.as_bytes()), &mut data)
            .map_err(|_| SealError::Broken)?;
        let mut sealed = nonce.to_vec();
        sealed.append(&mut data);
        Ok((id.clone(), sealed))
    }

    /// Opens a value that was sealed for the same purpose.
    pub fn open<T: DeserializeOwned>(
        &self,
        purpose: &str,
        key_id: &str,
        sealed: &[u8],
    ) -> Result<T, SealError> {
        let found = self.keys.iter().find(|(id, _)| id == key_id);
        let (_, key) = found.ok_or_else(|| SealError::OtherKey(key_id.to_owned()))?;
        let (nonce, data) = sealed.split_at_checked(NONCE_LEN).ok_or(SealError::Broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Broken)?;
        let mut data = data.to_vec();
        let packed = key
            .open_in_place(nonce, Aad::from(purpose.as_bytes()), &mut data)
            .map_err(|_| SealError::Broken)?;
        let mut plain = Vec::new();
        let mut unpacker = GzDecoder::new(&*packed).take(MAX_UNPACKED);
        unpacker.read_to_end(&mut plain).map_err(|_| SealError::Broken)?;
        serde_json::from_slice(&plain).map_err(|error| SealError::Form(error.to_string()))
    }
}

fn key(bytes: &[u8; 32]) -> Option<(String, LessSafeKey)> {
    let key = UnboundKey::new(&AES_256_GCM, bytes).ok()?;
    let digest = Sha256::digest([b"heartbeat key ", bytes.as_slice()].concat());
    let id = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    Some((id, LessSafeKey::new(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_opens_and_only_for_the_same_purpose() {
        let seal = Seal::new([[1; 32]]);
        let text = "Checkout fails on the 3rd retry".repeat(40);
        let (id, sealed) = seal.seal("end hb/a/1", &text).unwrap();
        assert!(!String::from_utf8_lossy(&sealed).contains("Checkout"));
        assert_eq!(seal.open::<String>("end hb/a/1", &id, &sealed).unwrap(), text);
        let moved = seal.open::<String>("end hb/a/2", &id, &sealed);
        assert!(matches!(moved, Err(SealError::Broken)), "an end of another session");
        let other = Seal::new([[2; 32]]);
        assert!(matches!(other.open::<String>("x", &id, &sealed), Err(SealError::OtherKey(_))));
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(seal.open::<String>("end hb/a/1", &id, &damaged).is_err());
        }
        for short in 0..NONCE_LEN + 4 {
            assert!(seal.open::<String>("end hb/a/1", &id, &sealed[..short]).is_err());
        }
        let (_, twice) = seal.seal("end hb/a/1", &text).unwrap();
        assert_ne!(sealed, twice);
    }

    #[test]
    fn a_new_key_seals_while_the_old_one_still_opens() {
        let old = Seal::new([[1; 32]]);
        let both = Seal::new([[2; 32], [1; 32]]);
        let (id, sealed) = old.seal("p", &7).unwrap();
        assert_eq!(both.open::<u32>("p", &id, &sealed).unwrap(), 7);
        assert_ne!(both.key_id(), old.key_id());
    }
}
