//! Commands for operators: kill, report, doctor, service, the breakers.

use std::sync::Arc;

use super::args::KillArgs;
use super::confirm::confirm;
use super::doctor::{self, Diagnosis, DoctorInput};
use super::error::CommandError;
use super::exit::Code;
use super::report::ReportArgs;
use super::service::{Facts, ServiceCommand};
use super::{Context, kill, report, service, write_out};
use crate::app;
use crate::breaker::provider::ProviderRecord;
use crate::config::credential::source_credential;
use crate::config::load;
use crate::event::Sink;
use crate::fetch::{Notebook, close_breaker};
use crate::model::{SessionId, SessionRef};
use crate::private;
use crate::run::RunError;
use crate::settings::{AgentKind, Config, HeldSecrets};
use crate::store::{Journal, Store};

impl Context {
    /// Ends one session or all of them, whichever process runs them.
    pub(super) async fn kill(&self, args: &KillArgs) -> Result<Code, CommandError> {
        let (store, config) = self.needed_state()?;
        let live = store.sessions().active().await?;
        let live: Vec<SessionRef> = live.into_iter().map(|session| session.session).collect();
        let Some(session) = &args.session else {
            return self.kill_all(&store, &live, args, &config).await;
        };
        self.learn_names(&store).await?;
        let names = self.names.get().cloned().unwrap_or_default();
        let id = kill::find(&live, &names, session)?;
        let mut killed =
            kill::kill(&store, &self.clock, &[id], (&config, &self.environment)).await?;
        let killed = killed.remove(0)?;
        self.print(&killed, kill::render)?;
        Ok(if killed.gone { Code::Done } else { Code::Unexpected })
    }

    async fn kill_all(
        &self,
        store: &Store,
        live: &[SessionRef],
        args: &KillArgs,
        config: &Config,
    ) -> Result<Code, CommandError> {
        let ids: Vec<SessionId> = live.iter().map(|session| session.id).collect();
        let question = format!("End {} live session(s) and all their processes?", ids.len());
        if !ids.is_empty() && !confirm(&question, args.yes)? {
            return Ok(Code::Done);
        }
        let ended = kill::kill(store, &self.clock, &ids, (config, &self.environment)).await?;
        let (mut killed, mut failed): (Vec<kill::Killed>, _) = (Vec::new(), None);
        for end in ended {
            match end {
                Ok(session) => killed.push(session),
                // Already ended in the meantime.
                Err(CommandError::NotFound(_)) => {}
                Err(error) => failed = Some(error),
            }
        }
        if failed.is_none() || !killed.is_empty() {
            self.print(&killed, |killed| match killed.is_empty() {
                true => "no live sessions\n".to_owned(),
                false => killed.iter().map(kill::render).collect(),
            })?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        Ok(if killed.iter().all(|session| session.gone) { Code::Done } else { Code::Unexpected })
    }

    /// Closes the breaker of one source or of all.
    pub(super) async fn retry_source(&self, name: Option<&str>) -> Result<(), CommandError> {
        let (reading, config) = self.needed_state()?;
        let sources = config.sources().iter().map(|source| source.name.as_str());
        let names: Vec<&str> = sources.filter(|known| name.is_none_or(|n| n == *known)).collect();
        if let (Some(name), true) = (name, names.is_empty()) {
            let known: Vec<&str> = config.sources().iter().map(|s| s.name.as_str()).collect();
            return Err(CommandError::NotFound(format!(
                "there is no source {name:?}; the configuration has {}",
                known.join(", ")
            )));
        }
        let store = Store::open(reading.folder())?;
        let journal = Arc::new(Journal::open(store, self.clock.clone(), None)?);
        for name in &names {
            let notebook = Notebook::new(Arc::clone(&journal) as _, *name);
            let sink = Arc::clone(&journal) as Arc<dyn Sink>;
            close_breaker(notebook, self.clock.clone(), sink).await.map_err(RunError::Fetch)?;
        }
        journal.flush().await?;
        for name in names {
            self.print(&serde_json::json!({ "source": name, "breaker": "closed" }), |_| {
                format!(
                    "the circuit breaker of source {name:?} is closed; the next run reads the \
                     source\n"
                )
            })?;
        }
        Ok(())
    }

    /// Closes the model provider's breaker and lifts its limits.
    pub(super) async fn retry_provider(&self) -> Result<(), CommandError> {
        let (reading, _) = self.needed_state()?;
        let store = Store::open(reading.folder())?;
        let journal = Journal::open(store, self.clock.clone(), None)?;
        for agent in AgentKind::ALL {
            journal.provider().update(agent, ProviderRecord::close).await?;
        }
        self.print(&serde_json::json!({ "provider": "closed" }), |_| {
            "the model provider's circuit breaker is closed and its limits are lifted; the next run \
             starts sessions again\n"
                .to_owned()
        })
    }

    pub(super) async fn report(&self, args: &ReportArgs) -> Result<Code, CommandError> {
        self.list(async |store, config| {
            let (now, json) = (self.clock.now(), self.global.json);
            let secrets = self.secrets(&config).await;
            let text = report::text(args, &store, &config, &secrets, now, json).await?;
            match &args.out {
                None => write_out(&text),
                Some(file) => private::replace(file, text.as_bytes())
                    .map_err(CommandError::io(format!("cannot write {}", file.display()))),
            }
        })
        .await
    }

    /// The secrets to remove from a report. Token commands are not run: findings were cleaned when
    /// they were stored.
    pub(super) async fn secrets(&self, config: &Config) -> HeldSecrets {
        let mut trackers = Vec::new();
        for source in config.sources().iter().filter(|source| source.token_command.is_empty()) {
            trackers.extend(source_credential(source, config, &self.environment).await.ok());
        }
        HeldSecrets::of(config, &self.environment, trackers)
    }

    pub(super) async fn doctor(&self, live: bool) -> Result<Code, CommandError> {
        let request = app::load_request(&self.global.overrides(), &self.environment)?;
        let diagnosis = match load(&request) {
            Err(error) => Diagnosis::of_broken_config(&error),
            Ok(loaded) => {
                let state = app::state_folder(&loaded.config, &self.environment);
                doctor::diagnose(&DoctorInput {
                    state: state.map_err(|error| error.to_string()),
                    config: loaded.config,
                    config_file: loaded.file,
                    environment: self.environment.clone(),
                    clock: self.clock.clone(),
                    cwd: request.cwd,
                    live,
                })
                .await
            }
        };
        self.print(&diagnosis, |diagnosis| doctor::render(diagnosis, self.paint()))?;
        Ok(if diagnosis.healthy { Code::Done } else { Code::Unexpected })
    }

    /// Prints, installs or removes the service definition.
    pub(super) fn service(&self, command: &ServiceCommand) -> Result<Code, CommandError> {
        let loaded = self.load()?;
        let state = app::state_folder(&loaded.config, &self.environment)?;
        let state = std::fs::canonicalize(&state).unwrap_or(state);
        let (file, given) = (loaded.file.as_deref(), self.global.overrides());
        let facts = Facts::gather(&loaded.config, file, &given, &state, &self.environment)?;
        write_out(&service::run(command, &facts, &self.environment)?)?;
        Ok(Code::Done)
    }
}
