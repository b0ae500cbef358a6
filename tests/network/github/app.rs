//! Signing in as a GitHub App.

use std::sync::Arc;

use heartbeat::fetch::{Connection, FixedCredential, connect};
use heartbeat::model::FailureClass;
use heartbeat::settings::SourceAuth;
use jiff::SignedDuration;
use ring::signature::{KeyPair as _, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use simulators::github::SimulatorOptions;

use super::setup::Setup;
use crate::fetch::setup::{QUICK, everything, ids, read_all};

/// A key made only for these tests.
const KEY: &str = include_str!("../../data/github/app_key.pem");

fn public_key() -> Vec<u8> {
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let key = match &key {
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        other => unreachable!("{other:?} is not an RSA key"),
    };
    key.unwrap().public_key().as_ref().to_vec()
}

async fn setup(token_lasts: SignedDuration) -> Setup {
    let app = Some(("Iv1.abc".to_owned(), public_key(), token_lasts));
    let options = SimulatorOptions {
        items: 40,
        app,
        token: Some("nobody has this one".into()),
        ..SimulatorOptions::default()
    };
    let mut setup = Setup::new(options).await;
    setup.config.auth = SourceAuth::App;
    setup.config.app_id = "Iv1.abc".into();
    setup.config.page_size = 10;
    setup
}

fn source(setup: &Setup, key: &str) -> heartbeat::fetch::Tracker {
    let key = FixedCredential::new(key.to_owned().into(), "a file of the test");
    let memory = Arc::clone(&setup.memory) as _;
    let connection = Connection::new(Arc::new(key), setup.clock.clone(), memory);
    connect(&setup.config, Connection { retry: QUICK, ..connection }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_serves_many_requests_and_is_renewed_before_it_ends() {
    let setup = setup(SignedDuration::from_mins(60)).await;
    let client = source(&setup, KEY);
    assert_eq!(ids(&read_all(&client, everything()).await.unwrap()).len(), 40);
    assert!(setup.simulator.requests_of("issues") > 3);
    assert_eq!(setup.simulator.tokens_given(), 1);
    // Four minutes are too few to begin a request.
    let setup = self::setup(SignedDuration::from_mins(4)).await;
    let client = source(&setup, KEY);
    assert_eq!(ids(&read_all(&client, everything()).await.unwrap()).len(), 40);
    assert!(setup.simulator.tokens_given() > 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_repositories_of_an_installation_are_read() {
    let mut setup = setup(SignedDuration::from_mins(60)).await;
    setup.config.project = "parcel".into();
    let found = ids(&read_all(&source(&setup, KEY), everything()).await.unwrap());
    assert_eq!(found.len(), 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_app_another_key_and_an_invalid_key_are_distinguished_from_the_tracker() {
    let mut setup = setup(SignedDuration::from_mins(60)).await;
    let class = async |setup: &Setup, key: &str| {
        let error = read_all(&source(setup, key), everything()).await.unwrap_err();
        assert!(error.message.contains("a file of the test"), "{error}");
        assert!(!error.message.contains("MII"), "{error}");
        error.class
    };
    assert_eq!(class(&setup, "ghp_no_key").await, FailureClass::Auth);
    setup.config.app_id = "Iv1.other".into();
    assert_eq!(class(&setup, KEY).await, FailureClass::Auth);
}
