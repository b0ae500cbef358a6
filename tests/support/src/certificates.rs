//! Certificates of a private authority, created by `openssl` for one test.

#![expect(clippy::disallowed_methods, reason = "certificates are made by a program of the machine")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority in its own folder.
pub struct Authority {
    folder: PathBuf,
}

/// A certificate and its key.
pub struct Certificate {
    pub file: PathBuf,
    pub key: PathBuf,
}

const SETTINGS: &str = "[ca]\ndefault_ca = own\n[own]\ndatabase = ./index.txt\nserial = ./serial\n\
    new_certs_dir = .\ndefault_md = sha256\npolicy = names\ncopy_extensions = copy\n\
    unique_subject = no\n[names]\ncommonName = supplied\n";
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

impl Authority {
    /// `None` if `openssl` is not installed.
    pub fn new(folder: &Path) -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            println!("SKIPPED: certificates are made by openssl, which is not installed");
            return None;
        }
        std::fs::create_dir_all(folder).expect("openssl and its files");
        std::fs::write(folder.join("settings"), SETTINGS).expect("openssl and its files");
        std::fs::write(folder.join("index.txt"), "").expect("openssl and its files");
        std::fs::write(folder.join("serial"), "01\n").expect("openssl and its files");
        let own = Self { folder: folder.to_owned() };
        own.openssl(
            &["req", "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tests"],
            &NEW_KEY,
        );
        Some(own)
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// For a name, until a date such as `20991231`.
    pub fn issue(&self, name: &str, until: &str) -> Certificate {
        let file = |end: &str| format!("{name}-{until}.{end}");
        let (key, request, made) = (file("key"), file("csr"), file("pem"));
        let subject = format!("/CN={name}");
        let names = format!("subjectAltName=DNS:{name}");
        let asked = ["req", "-new", "-keyout", &key, "-out", &request, "-subj", &subject];
        self.openssl(&asked, &[&NEW_KEY[..], &["-addext", &names]].concat());
        let until = format!("{until}000000Z");
        let how = [
            "ca", "-batch", "-config", "settings", "-notext", "-cert", "ca.pem", "-keyfile",
            "ca.key",
        ];
        let what =
            ["-in", &request, "-out", &made, "-startdate", "20200101000000Z", "-enddate", &until];
        self.openssl(&how, &what);
        Certificate { file: self.folder.join(made), key: self.folder.join(key) }
    }

    fn openssl(&self, words: &[&str], more: &[&str]) {
        let mut command = Command::new("openssl");
        let made = command
            .args(words)
            .args(more)
            .current_dir(&self.folder)
            .output()
            .expect("openssl and its files");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}
