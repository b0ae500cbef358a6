//! Commands that read a state, or change something in it.

use std::path::{Path, PathBuf};

use super::error::CommandError;
use super::exit::Code;
use super::{Context, say_error, show, status};
use crate::app;
use crate::config::{ConfigError, load, load_partial};
use crate::report::names::Names;
use crate::settings::Config;
use crate::store::{RunLock, Store};

enum FoundState {
    /// A state, and the configuration to read it with.
    Here(Store, Box<Config>),
    /// No state in this folder.
    Nothing(PathBuf),
}

fn nothing_in(folder: &Path) -> String {
    format!(
        "No run has used the state in {} yet. Start with `heartbeat --dry-run`.",
        folder.display()
    )
}

impl Context {
    pub(super) async fn status(&self) -> Result<Code, CommandError> {
        self.list(async |store, config| {
            let now = self.clock.now();
            let most = if self.global.json { u32::MAX } else { status::MAX_ITEMS };
            let status = status::status(&store, &config, now, most).await?;
            self.print(&status, |status| status::render(status, now, self.paint()))
        })
        .await
    }

    pub(super) async fn runs(&self, limit: u32) -> Result<Code, CommandError> {
        self.list(async |store, _| {
            let runs = store.runs().newest(limit).await?;
            let held = RunLock::look(store.folder(), &self.clock)?.is_some();
            self.print(&runs, |runs| show::render_runs(runs, held))
        })
        .await
    }

    pub(super) async fn sessions(&self, limit: u32) -> Result<Code, CommandError> {
        self.list(async |store, _| {
            let sessions = store.sessions().newest(limit).await?;
            let held = RunLock::look(store.folder(), &self.clock)?.is_some();
            self.print(&sessions, |sessions| show::render_sessions(sessions, held))
        })
        .await
    }

    pub(super) async fn show(&self, item: &str) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        self.learn_names(&store).await?;
        let history = show::item_history(&store, &config, item).await?;
        self.print(&history, |history| show::render_item_history(history, self.paint()))?;
        Ok(Code::Done)
    }

    /// For commands that read a state: an invalid configuration file must not hide it, so they use
    /// every part of the file that can be read.
    pub(super) fn load_for_reading(&self) -> Result<(Config, Option<ConfigError>), CommandError> {
        let request = app::load_request(&self.global.overrides(), &self.environment)?;
        match load(&request) {
            Ok(loaded) => Ok((loaded.config, None)),
            Err(fault) => match load_partial(&request) {
                Some(config) => Ok((config, Some(fault))),
                None => Err(CommandError::StateUnknown(fault)),
            },
        }
    }

    /// The same for a question that can be answered before the first run: an empty state that is
    /// removed with the folder.
    pub(super) fn state_or_empty(
        &self,
    ) -> Result<(Store, Config, Option<app::TemporaryFolder>), CommandError> {
        let (config, _) = self.load_for_reading()?;
        let folder = app::state_folder(&config, &self.environment)?;
        if let Some(store) = Store::open_for_reading(&folder)? {
            return Ok((store, config, None));
        }
        let folder = app::TemporaryFolder::new("why")
            .map_err(CommandError::io("cannot create a temporary folder"))?;
        Ok((Store::open(folder.path())?, config, Some(folder)))
    }

    /// The state for reading, if there is one, and the configuration.
    fn state(&self) -> Result<FoundState, CommandError> {
        let (config, fault) = self.load_for_reading()?;
        if let Some(fault) = fault {
            say_error(&fault.into());
        }
        let folder = app::state_folder(&config, &self.environment)?;
        match Store::open_for_reading(&folder)? {
            Some(store) => Ok(FoundState::Here(store, Box::new(config))),
            None => Ok(FoundState::Nothing(folder)),
        }
    }

    /// What is printed from now on has the names that people use.
    pub(super) async fn learn_names(&self, store: &Store) -> Result<(), CommandError> {
        let names = Names::read(store).await?;
        self.names.get_or_init(|| names);
        Ok(())
    }

    /// For commands that need an existing state.
    pub(super) fn needed_state(&self) -> Result<(Store, Config), CommandError> {
        match self.state()? {
            FoundState::Here(store, config) => Ok((store, *config)),
            FoundState::Nothing(folder) => Err(CommandError::NotFound(nothing_in(&folder))),
        }
    }

    /// For commands that only list: an unused state is not an error.
    pub(super) async fn list(
        &self,
        show: impl AsyncFnOnce(Store, Config) -> Result<(), CommandError>,
    ) -> Result<Code, CommandError> {
        match self.state()? {
            FoundState::Here(store, config) => {
                self.learn_names(&store).await?;
                show(store, *config).await?;
            }
            FoundState::Nothing(folder) => {
                self.print(&serde_json::Value::Null, |_| format!("{}\n", nothing_in(&folder)))?;
            }
        }
        Ok(Code::Done)
    }
}
