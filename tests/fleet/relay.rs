//! A relay between a process and the server: blocks everything, changes the server's data, or adds
//! TLS.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio_rustls::TlsAcceptor;

use crate::world::World;

/// A relay that needs no privileges.
pub struct Relay {
    pub address: String,
    cut: Arc<AtomicBool>,
}

/// Bytes that the server sends, and their replacement; both of the same length.
pub type Change = Option<(&'static [u8], &'static [u8])>;

impl Relay {
    pub fn to(server: &str) -> Self {
        Self::changing(server, None)
    }

    /// The same, with some of the server's bytes replaced.
    pub fn changing(server: &str, change: Change) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (cut, server) = (Arc::new(AtomicBool::new(false)), server.replace("http://", ""));
        let held = Arc::clone(&cut);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(&server) else { continue };
                let pairs = [
                    (from.try_clone().unwrap(), to.try_clone().unwrap(), None),
                    (to, from, change),
                ];
                for (from, to, change) in pairs {
                    let held = Arc::clone(&held);
                    std::thread::spawn(move || pass_on(from, to, &held, change));
                }
            }
        });
        Self { address, cut }
    }

    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, held: &AtomicBool, change: Change) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut buffer = [0; 16 * 1024];
    loop {
        if held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                while held.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                if let Some((said, heard)) = change {
                    replace(&mut buffer[..read], said, heard);
                }
                if to.write_all(&buffer[..read]).is_err() {
                    break;
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => break,
        }
    }
    to.shutdown(std::net::Shutdown::Both).ok();
}

fn replace(text: &mut [u8], said: &[u8], heard: &[u8]) {
    assert_eq!(said.len(), heard.len());
    while let Some(at) = text.windows(said.len()).position(|window| window == said) {
        text[at..at + said.len()].copy_from_slice(heard);
    }
}

/// Makes a worker or coordinator use another address of the server.
pub fn behind(world: &World, address: &str, config: &Path) {
    let text = std::fs::read_to_string(config).unwrap();
    assert!(text.contains(&world.address()));
    std::fs::write(config, text.replace(&world.address(), address)).unwrap();
}

/// The certificate of a server with TLS, and whether it requires client certificates.
pub struct Tls<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
    /// The authority of accepted clients; `None` accepts everyone.
    pub clients: Option<&'a Path>,
}

/// Puts the server behind TLS while the runtime exists. Returns its address, with `https`.
pub async fn with_tls(server: &str, tls: Tls<'_>) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match tls.clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
            let known = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(known.build().unwrap())
        }
    };
    let certificate = CertificateDer::from_pem_file(tls.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(tls.key).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let server = server.replace("http://", "");
    tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            tokio::spawn(async move {
                let mut from = acceptor.accept(from).await.ok()?;
                let mut to = tokio::net::TcpStream::connect(server).await.ok()?;
                tokio::io::copy_bidirectional(&mut from, &mut to).await.ok()
            });
        }
    });
    address
}
