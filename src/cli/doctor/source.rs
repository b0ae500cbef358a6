//! Checks the tracker: credential, address, project, query, breaker, clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;

use super::{DoctorCheck, DoctorInput};
use crate::app::ConfiguredCredential;
use crate::config::credential::source_credential;
use crate::fetch::retry::RetryPolicy;
use crate::fetch::{Connection, FetchError, InMemory, connect};
use crate::model::{BreakerState, FailureClass, SourceRecord};
use crate::report::moment::date_time;
use crate::settings::{Source, SourceKind};
use crate::store::Store;

/// Maximum wait for a response.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);
/// A person is waiting: a temporary failure is retried once, soon.
const TWICE: RetryPolicy =
    RetryPolicy { tries: 2, base: Duration::from_millis(200), cap: Duration::from_millis(500) };
/// A larger difference makes changes look older or newer than they are.
const SKEW_TOLD: SignedDuration = SignedDuration::from_secs(60);

/// With several sources, each check names its source.
pub(super) async fn checks(input: &DoctorInput) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let sources = input.config.sources();
    for source in sources {
        let mut own = of_source(input, source).await;
        if sources.len() > 1 {
            own.iter_mut()
                .for_each(|check| check.found = format!("{}: {}", source.name, check.found));
        }
        checks.extend(own);
    }
    checks
}

async fn of_source(input: &DoctorInput, source: &Source) -> Vec<DoctorCheck> {
    if source.kind == SourceKind::File {
        return ask(input, source).await;
    }
    if source.base_url.is_empty() || source.project.is_empty() {
        let skipped = |name| DoctorCheck::skipped(name, "needs a valid configuration");
        return ["credential", "source", "project", "query"].map(skipped).into();
    }
    let secret = source_credential(source, &input.config, &input.environment).await;
    let mut checks = Vec::new();
    match secret {
        Err(error) => {
            let fix = match source.kind {
                SourceKind::Ado => {
                    "create a personal access token with the scope Work Items (Read) and store it \
                     where the configuration points"
                }
                SourceKind::Github => {
                    "create a fine-grained token with Issues: read for the repositories (write to \
                     write back) and store it where the configuration points"
                }
                SourceKind::Jira | SourceKind::File => {
                    "create an API token (Cloud, with source.user set to its e-mail address) or a \
                     personal access token (Data Center) and store it where the configuration points"
                }
            };
            checks.push(DoctorCheck::failed("credential", error.to_string(), fix));
            checks.push(DoctorCheck::skipped("source", "needs a credential"));
        }
        Ok(_) => {
            checks.push(DoctorCheck::ok("credential", "found"));
            checks.extend(ask(input, source).await);
        }
    }
    checks.push(breaker(input, source).await);
    checks.push(skew(input, source).await);
    checks
}

/// Sends real requests, without the breaker and without changing the state.
async fn ask(input: &DoctorInput, source: &Source) -> Vec<DoctorCheck> {
    let credential = ConfiguredCredential::new(source, &input.config, &input.environment);
    let credential = Arc::new(credential);
    let mut config = source.clone();
    config.request_timeout = config.request_timeout.min(PROBE_TIMEOUT);
    let connection = Connection {
        retry: TWICE,
        ..Connection::new(credential, input.clock.clone(), InMemory::shared())
    };
    let probe = match connect(&config, connection) {
        Ok(source) => source.probe().await,
        Err(error) => return vec![failed(source.kind, "source", &error)],
    };
    let parts: [(&'static str, Result<String, FetchError>); 3] = [
        ("source", probe.account.map(|name| signed_in(&config, &name))),
        ("project", probe.project.map(|name| format!("{name} exists"))),
        ("query", probe.matching.map(|n| format!("matches {n} items within the look-back"))),
    ];
    let is_empty = |found: &str| found.starts_with("matches 0 ");
    let mut checks = Vec::new();
    let mut stuck = false;
    for (name, part) in parts {
        checks.push(match part {
            _ if stuck => DoctorCheck::skipped(name, "an earlier check failed"),
            Ok(found) if name == "query" && is_empty(&found) => DoctorCheck::warning(
                name,
                found,
                format!(
                    "a run would have nothing to do: {}; `heartbeat why ITEM` says which condition \
                     leaves an item out",
                    conditions(source)
                ),
            ),
            Ok(found) => DoctorCheck::ok(name, found),
            Err(error) => {
                stuck = true;
                failed(source.kind, name, &error)
            }
        });
    }
    checks
}

fn signed_in(source: &Source, account: &str) -> String {
    match source.kind {
        SourceKind::File => account.to_owned(),
        _ => format!("signed in to {} as {account}", source.base_url),
    }
}

/// What an item must meet, for a person who wonders why none does.
fn conditions(source: &Source) -> String {
    if !source.saved_query.is_empty() {
        return format!("look at the saved query {} in the tracker", source.saved_query);
    }
    let since = crate::settings::human::format_duration(source.look_back);
    let parts = crate::fetch::filters::conditions(source);
    match parts.is_empty() {
        true => {
            format!("the project must have items that changed within source.look_back, {since}")
        }
        false => format!(
            "an item must have changed within source.look_back, {since}, and meet {}",
            parts.join(" and ")
        ),
    }
}

pub(super) fn failed(kind: SourceKind, name: &'static str, error: &FetchError) -> DoctorCheck {
    let fix = match kind {
        SourceKind::File => "correct source.path or the file itself, then try again",
        _ => fix_of(error.class),
    };
    DoctorCheck::failed(name, error.message.clone(), fix)
}

/// The message has what is particular to the tracker.
const fn fix_of(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Auth => {
            "renew the token with the rights named above; it has to belong to this organisation \
             (Jira Cloud needs source.user, Data Center needs it empty)"
        }
        FailureClass::Denied => "give the account of the token the rights named above",
        FailureClass::Config => "check source.base_url and source.project against the address bar",
        FailureClass::BadQuery | FailureClass::TooMany | FailureClass::TooSlow => {
            "try the condition in the tracker's query editor and correct source.where"
        }
        FailureClass::Version => "set source.api_version to a version that the server supports",
        FailureClass::Throttled => "wait until the account's rate limit resets",
        _ => "check the network, the proxy (HTTPS_PROXY) and source.ca_file, then try again",
    }
}

/// State left by earlier runs: an open breaker blocks the next run.
async fn breaker(input: &DoctorInput, source: &Source) -> DoctorCheck {
    let Some(remembered) = remembered(input, source).await else {
        return DoctorCheck::ok("breaker", "closed: no request yet");
    };
    let now = input.clock.now();
    let until = match remembered.breaker.state {
        BreakerState::Open { until, .. } if until > now => Some(until),
        _ => remembered.not_before.filter(|until| *until > now),
    };
    match until {
        None => DoctorCheck::ok("breaker", "closed"),
        Some(until) => DoctorCheck::warning(
            "breaker",
            format!("no request is sent before {}", date_time(until)),
            "once the cause is fixed, `heartbeat retry --source` closes it at once",
        ),
    }
}

async fn remembered(input: &DoctorInput, source: &Source) -> Option<SourceRecord> {
    let store = Store::open_for_reading(input.state.as_ref().ok()?).ok()??;
    let text = store.sources().memory(source.name.clone()).await.ok()??;
    serde_json::from_str(&text).ok()
}

/// Compares the two clocks by the `Date` of any response.
async fn skew(input: &DoctorInput, source: &Source) -> DoctorCheck {
    let Some(theirs) = their_time(&source.base_url).await else {
        return DoctorCheck::skipped("clock", "the server sent no date");
    };
    let off = input.clock.now().duration_since(theirs);
    if off.abs() <= SKEW_TOLD {
        return DoctorCheck::ok(
            "clock",
            format!("within {} s of the server's", off.abs().as_secs()),
        );
    }
    let (seconds, way) =
        (off.abs().as_secs(), if off.is_negative() { "behind" } else { "ahead of" });
    DoctorCheck::warning(
        "clock",
        format!("this machine's clock is {seconds} s {way} the server's"),
        "turn on time synchronisation (timedatectl set-ntp true), or raise source.overlap",
    )
}

async fn their_time(base_url: &str) -> Option<jiff::Timestamp> {
    // Fails if a provider is already installed, which is fine.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let url = reqwest::Url::parse(base_url).ok()?;
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PROBE_TIMEOUT);
    if url.host_str().is_some_and(|host| host == "localhost" || host.starts_with("127.")) {
        builder = builder.no_proxy();
    }
    let answer = builder.build().ok()?.get(url).send().await.ok()?;
    let date = answer.headers().get("date")?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(date).ok().map(|time| time.timestamp())
}
