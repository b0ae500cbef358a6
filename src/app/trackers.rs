//! Builds the configured sources as trackers to read from and write to.

use std::sync::Arc;

use super::publisher::TrackerPublisher;
use super::secrets::SettingSecrets;
use super::{ConfiguredCredential, Setting};
use crate::fetch::{Connection, Credential, FetchError, Guarded, Source, Unusable, connect};
use crate::run::{Publisher, Tracker};
use crate::settings::{self, Config, Environment};
use crate::store::Journal;

/// In the order of the sources. Nothing is read yet.
pub(super) fn credentials(config: &Config, environment: &Environment) -> Vec<Arc<dyn Credential>> {
    let one = |source| -> Arc<dyn Credential> {
        Arc::new(ConfiguredCredential::new(source, config, environment))
    };
    config.sources().iter().map(one).collect()
}

/// One tracker per configured source. An unusable one reports an error when it is read, and does
/// not stop the others.
pub(super) fn trackers(setting: &Setting, journal: &Journal) -> Arc<[Tracker]> {
    let sources = setting.config.sources().iter().zip(&setting.credentials);
    let one = |(source, credential): (&settings::Source, &Arc<dyn Credential>)| {
        let name = source.name.clone();
        match build(setting, source, credential, journal) {
            Ok((source, publisher)) => Tracker { name, source, publisher },
            Err(error) => Tracker { name, source: Arc::new(Unusable(error)), publisher: None },
        }
    };
    sources.map(one).collect()
}

type Built = (Arc<dyn Source>, Option<Arc<dyn Publisher>>);

/// The tracker behind its breaker, and its publisher if write-back is configured.
fn build(
    setting: &Setting,
    source: &settings::Source,
    credential: &Arc<dyn Credential>,
    journal: &Journal,
) -> Result<Built, FetchError> {
    let (clock, memory) = (setting.clock.clone(), Arc::new(journal.clone()));
    let connection = Connection {
        turns: setting.turns.clone(),
        ..Connection::new(Arc::clone(credential), clock.clone(), memory)
    };
    let tracker = connect(source, connection)?;
    let publisher = setting.config.may_write_back(source).then(|| {
        let (tracker, secrets) = (Arc::clone(&tracker), SettingSecrets::new(setting));
        let publisher = TrackerPublisher::new(tracker, &source.write_back_tag, secrets);
        Arc::new(publisher) as Arc<dyn Publisher>
    });
    let (notebook, sink) = (tracker.notebook(), Arc::new(journal.clone()));
    Ok((Arc::new(Guarded::new(tracker, notebook, clock, sink)), publisher))
}
