//! A server with a certificate of a private authority.
//!
//! The key in `tests/data/ado/tls` was made for this test; its authority's key was deleted.

use std::path::PathBuf;
use std::sync::Arc;

use heartbeat::model::FailureClass as Class;
use heartbeat::simulate::ado::SimulatorOptions;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::canned::{Canned, json};
use super::setup::{Setup, everything, read_all};

pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/ado/tls").join(name)
}

pub fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_authority_is_trusted_when_it_is_named_and_reported_when_it_is_not() {
    let rows = r#"{"asOf":"2026-11-16T12:00:00Z","workItems":[]}"#;
    let canned = Canned::start_with(Arc::new(move |_| json(rows)), Some(acceptor())).await;
    let mut setup = Setup::new(SimulatorOptions { items: 0, ..SimulatorOptions::default() }).await;
    setup.config.base_url.clone_from(&canned.base_url);
    let error = read_all(&setup.source(), everything()).await.unwrap_err();
    assert_eq!(error.class, Class::Config, "{error}");
    assert!(error.message.contains("source.ca_file"), "{error}");
    assert!(canned.requests.lock().unwrap().is_empty(), "no credential was sent");

    setup.config.ca_file = file("authority.pem");
    assert!(read_all(&setup.source(), everything()).await.unwrap().is_empty());
    assert_eq!(canned.requests.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_file_that_cannot_be_used_is_refused_by_name() {
    let mut setup = Setup::new(SimulatorOptions { items: 0, ..SimulatorOptions::default() }).await;
    for (name, part) in
        [("nothing.pem", "cannot be read"), ("../SOURCE.md", "contains no certificate")]
    {
        setup.config.ca_file = file(name);
        let memory = Arc::clone(&setup.memory) as Arc<dyn heartbeat::ports::SourceMemory>;
        let credential = super::setup::credential();
        let connection = heartbeat::fetch::Connection::new(credential, setup.clock.clone(), memory);
        let error = heartbeat::fetch::connect(&setup.config, connection).err().unwrap();
        assert_eq!(error.class, Class::Config);
        assert!(error.message.contains(part) && error.message.contains(name), "{error}");
    }
}
