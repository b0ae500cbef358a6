//! The key of one process of a fleet. What it signs, everybody can check; what only one other process
//! may read is sealed with a key that both agree on for that one message, so that a host that was
//! taken over can neither order sessions nor read what was given to another host.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{self, ED25519, Ed25519KeyPair, KeyPair as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::seal::{Seal, SealError};
use crate::model::SessionId;

const PUBLIC: usize = 32;
const SIGNATURE: usize = 64;

/// Why a key cannot be used, or a message not be trusted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read or write [fleet] key_file {0}: {1}")]
    File(String, String),
    #[error(
        "[fleet] key_file {0} contains no usable key: remove it and heartbeat makes a new one, or \
         write 32 random bytes as base64 on one line (`openssl rand -base64 32`), different on \
         every host; more lines are older keys"
    )]
    NotAKey(String),
    #[error("[fleet] key_file {0} can be read by other users: chmod 600 {0}")]
    OpenToOthers(String),
    #[error("{0:?} is no public key: copy the line that `heartbeat worker --public-key` prints")]
    NotAPublicKey(String),
    #[error("its signature is wrong: it was modified in transit or belongs to another execution")]
    Signature,
}

/// The public half of a process's key, as written in the configuration of others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; PUBLIC]);

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::str::FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| KeyError::NotAPublicKey(text.to_owned()))
    }
}

/// The keys of this process: the first one signs and seals, older ones still open.
#[derive(Clone)]
pub struct Keys {
    signer: Arc<Ed25519KeyPair>,
    secrets: Vec<hmac::Key>,
    own: Arc<Seal>,
}

impl Keys {
    /// Reads the key file; makes one if there is none.
    pub fn read_or_make(path: &Path) -> Result<Self, KeyError> {
        let shown = path.display().to_string();
        let failed = |error: std::io::Error| KeyError::File(shown.clone(), error.to_string());
        let private = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).clone();
        match private.open(path) {
            Ok(mut file) => {
                let mut seed = [0; 32];
                SystemRandom::new().fill(&mut seed).map_err(|_| {
                    KeyError::File(shown.clone(), "the system has no random numbers".to_owned())
                })?;
                writeln!(file, "{}", STANDARD.encode(seed)).map_err(failed)?;
                file.sync_all().map_err(failed)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        if std::fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
            return Err(KeyError::OpenToOthers(shown));
        }
        Self::parse(&text).ok_or(KeyError::NotAKey(shown))
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Option<Vec<_>> = lines
            .map(|line| {
                let seed: [u8; 32] = STANDARD.decode(line).ok()?.try_into().ok()?;
                Some(hmac::Key::new(hmac::HMAC_SHA256, &seed))
            })
            .collect();
        let secrets = secrets.filter(|secrets| !secrets.is_empty())?;
        let seed = derived(secrets.first()?, "sign");
        let signer = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        let own = Seal::new(secrets.iter().map(|secret| derived(secret, "own")));
        Some(Self { signer: Arc::new(signer), secrets, own: Arc::new(own) })
    }

    pub fn public(&self) -> PublicKey {
        let bytes = self.signer.public_key().as_ref();
        PublicKey(bytes.try_into().unwrap_or([0; PUBLIC]))
    }

    /// For messages of this process to itself, or to its successor.
    pub fn own(&self) -> &Seal {
        &self.own
    }

    /// The coordinator's seals for one session on one host, which gets the first of them with its
    /// order. They are derived, so that a restarted coordinator has them again.
    pub fn of_session(&self, session: SessionId, host: &str) -> (SessionKey, Seal) {
        let label = format!("session {session} on {host}");
        let all: Vec<_> = self.secrets.iter().map(|secret| derived(secret, &label)).collect();
        let first = SessionKey(STANDARD.encode(all.first().copied().unwrap_or_default()));
        (first, Seal::new(all))
    }

    /// Signs data for one purpose.
    pub fn sign(&self, purpose: &str, data: &[u8]) -> Vec<u8> {
        let signed = self.signer.sign(&to_sign(purpose, data));
        [self.public().0.as_slice(), signed.as_ref(), data].concat()
    }

    /// Answers a request so that only its sender can read it.
    pub fn reply(
        &self,
        purpose: &str,
        to: &ReplyTo,
        value: &impl Serialize,
    ) -> Result<Vec<u8>, SealError> {
        let random = SystemRandom::new();
        let private = EphemeralPrivateKey::generate(&X25519, &random);
        let private = private.map_err(|_| SealError::Broken)?;
        let public = private.compute_public_key().map_err(|_| SealError::Broken)?;
        let theirs = STANDARD.decode(&to.0).map_err(|_| SealError::Broken)?;
        let seal = agreed(private, &theirs, [&theirs, public.as_ref()])?;
        let data = [public.as_ref(), &seal.seal(purpose, value)?.1].concat();
        Ok(self.sign(purpose, &data))
    }
}

/// Who signed data for this purpose, and the data.
pub fn signer_of<'a>(purpose: &str, signed: &'a [u8]) -> Result<(PublicKey, &'a [u8]), KeyError> {
    let (public, rest) = signed.split_at_checked(PUBLIC).ok_or(KeyError::Signature)?;
    let (signature, data) = rest.split_at_checked(SIGNATURE).ok_or(KeyError::Signature)?;
    signature::UnparsedPublicKey::new(&ED25519, public)
        .verify(&to_sign(purpose, data), signature)
        .map_err(|_| KeyError::Signature)?;
    Ok((PublicKey(public.try_into().map_err(|_| KeyError::Signature)?), data))
}

/// Unambiguous: a purpose contains no zero byte.
fn to_sign(purpose: &str, data: &[u8]) -> Vec<u8> {
    [b"heartbeat fleet\0".as_slice(), purpose.as_bytes(), b"\0", data].concat()
}

fn derived(secret: &hmac::Key, label: &str) -> [u8; 32] {
    hmac::sign(secret, label.as_bytes()).as_ref().try_into().unwrap_or_default()
}

/// The public key of one request, to which its answer is sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct ReplyTo(String);

/// The private half, which opens one answer.
pub struct Asked {
    private: EphemeralPrivateKey,
    public: Vec<u8>,
}

impl Asked {
    pub fn new() -> Result<(Self, ReplyTo), SealError> {
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
        let private = private.map_err(|_| SealError::Broken)?;
        let public = private.compute_public_key().map_err(|_| SealError::Broken)?;
        let public = public.as_ref().to_vec();
        let reply_to = ReplyTo(STANDARD.encode(&public));
        Ok((Self { private, public }, reply_to))
    }

    /// Opens the answer that was signed for this purpose, and tells by whom.
    pub fn open<T: DeserializeOwned>(
        self,
        purpose: &str,
        answer: &[u8],
    ) -> Result<(PublicKey, T), SealError> {
        let (signer, data) = signer_of(purpose, answer)?;
        let (theirs, sealed) = data.split_at_checked(PUBLIC).ok_or(SealError::Broken)?;
        let seal = agreed(self.private, theirs, [&self.public, theirs])?;
        let value = seal.open(purpose, seal.key_id(), sealed)?;
        Ok((signer, value))
    }
}

/// The key of one answer: from the secret that both sides compute and the public keys of both.
fn agreed(
    private: EphemeralPrivateKey,
    theirs: &[u8],
    publics: [&[u8]; 2],
) -> Result<Seal, SealError> {
    let label = [b"heartbeat fleet reply".as_slice(), publics[0], publics[1]].concat();
    let key = agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, theirs), |secret| {
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &label)
    });
    let key = key.map_err(|_| SealError::Broken)?;
    let bytes = key.as_ref().try_into().map_err(|_| SealError::Broken)?;
    Ok(Seal::new([bytes]))
}

/// The key of one session between the coordinator and one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct SessionKey(String);

impl SessionKey {
    pub fn seal(&self) -> Seal {
        let bytes = STANDARD.decode(&self.0).ok().and_then(|bytes| bytes.try_into().ok());
        Seal::new(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn keys(byte: u8) -> Keys {
        Keys::parse(&STANDARD.encode([byte; 32])).unwrap()
    }

    #[test]
    fn a_missing_key_is_made_for_its_owner_alone_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let made = Keys::read_or_make(&path).unwrap().public();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Keys::read_or_make(&path).unwrap().public(), made);
        assert_eq!(made.to_string().parse::<PublicKey>().unwrap(), made);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Keys::read_or_make(&path), Err(KeyError::OpenToOthers(_))));
    }

    #[test]
    fn a_key_file_that_is_no_use_says_what_to_write() {
        for text in ["", "abc", "AAAA", &"A".repeat(44)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("key");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            let error = Keys::read_or_make(&path).err().unwrap().to_string();
            assert!(error.contains("openssl rand -base64 32"), "{error}");
        }
    }

    #[test]
    fn a_signature_holds_for_its_purpose_and_its_bytes_only() {
        let signed = keys(1).sign("task hb/a/1", b"run it");
        let (signer, data) = signer_of("task hb/a/1", &signed).unwrap();
        assert_eq!((signer, data), (keys(1).public(), b"run it".as_slice()));
        assert!(signer_of("task hb/a/2", &signed).is_err(), "another execution");
        for at in 0..signed.len() {
            let mut damaged = signed.clone();
            damaged[at] ^= 1;
            assert!(signer_of("task hb/a/1", &damaged).is_err(), "byte {at}");
            assert!(signer_of("task hb/a/1", &signed[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn only_who_asked_can_read_the_answer_and_only_once() {
        let (asked, reply_to) = Asked::new().unwrap();
        let answer = keys(1).reply("result 1", &reply_to, &"the order").unwrap();
        let (other, _) = Asked::new().unwrap();
        assert!(other.open::<String>("result 1", &answer).is_err(), "another host");
        let (signer, text) = asked.open::<String>("result 1", &answer).unwrap();
        assert_eq!((signer, text.as_str()), (keys(1).public(), "the order"));
        let (late, to_late) = Asked::new().unwrap();
        assert_ne!(to_late, reply_to);
        assert!(late.open::<String>("result 1", &answer).is_err(), "an answer from before");
    }

    #[test]
    fn a_host_reads_its_own_sessions_and_no_other() {
        let coordinator = keys(1);
        let [first, second] = [7, 8].map(|n| SessionId(uuid::Uuid::from_u128(n)));
        let (key, seal) = coordinator.of_session(first, "north");
        let (id, sealed) = seal.seal("beat", &7).unwrap();
        assert_eq!(key.seal().open::<u32>("beat", &id, &sealed).unwrap(), 7);
        for (session, host) in [(second, "north"), (first, "south")] {
            let other = coordinator.of_session(session, host).0.seal();
            assert!(other.open::<u32>("beat", &id, &sealed).is_err(), "{session} {host}");
        }
        let lines = [2, 1].map(|byte| STANDARD.encode([byte; 32])).join("\n");
        let renewed = Keys::parse(&lines).unwrap();
        assert_eq!(
            renewed.of_session(first, "north").1.open::<u32>("beat", &id, &sealed).unwrap(),
            7
        );
    }
}
