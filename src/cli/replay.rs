//! `heartbeat replay`: runs a recorded session again with the agent that is installed now. The
//! gateway answers from the recording, so no provider is asked and nothing is paid; the state is not
//! changed.

use std::ffi::OsStr;
use std::sync::Arc;

use clap::Args;
use serde::Serialize;

use super::Context;
use super::error::CommandError;
use super::exit::Code;
use crate::app::selftest::Rig;
use crate::app::{self, TemporaryFolder};
use crate::model::{Outcome, RunId, SessionId, SessionRef, Stage};
use crate::prompt::Rendered;
use crate::session::recording::{Recording, recorded};
use crate::session::{Job, Sessions as _, StopHandle, SupervisedSessions, become_outer_reaper};
use crate::settings::{Config, Environment};

#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// The session, or the beginning of its id; `heartbeat sessions` lists them
    pub session: String,
}

/// How the replay went.
#[derive(Debug, Serialize)]
struct Replayed {
    session: SessionId,
    /// Outcome and answer are those of the recording.
    same: bool,
    recorded: Outcome,
    outcome: Outcome,
    /// Answers in the recording.
    answers: usize,
    output: Option<serde_json::Value>,
}

impl Context {
    pub(super) async fn replay(&self, args: &ReplayArgs) -> Result<Code, CommandError> {
        let config = self.load()?.config;
        let state = app::state_folder(&config, &self.environment)?;
        let session = find(&args.session, &recorded(&state))?;
        let recording = Recording::read(&state, session)
            .map_err(|error| CommandError::NotFound(error.to_string()))?;
        become_outer_reaper().map_err(CommandError::io("cannot watch over the agent"))?;
        let replayed = run(recording, config, &self.environment).await?;
        let same = replayed.same;
        self.print(&replayed, render)?;
        Ok(if same { Code::Done } else { Code::Unexpected })
    }
}

fn find(
    wanted: &str,
    known: &std::collections::BTreeSet<SessionId>,
) -> Result<SessionId, CommandError> {
    let is_it = |id: &&SessionId| id.to_string().starts_with(wanted) || id.short() == wanted;
    let mut found = known.iter().filter(is_it);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(*one),
        (Some(_), Some(_)) => {
            Err(CommandError::Usage(format!("several recorded sessions begin with {wanted}")))
        }
        (None, _) => Err(CommandError::NotFound(format!(
            "session {wanted} has no recording; [record] sessions = true keeps them, for sessions \
             behind the gateway ({} are kept)",
            known.len()
        ))),
    }
}

async fn run(
    recording: Recording,
    mut config: Config,
    environment: &Environment,
) -> Result<Replayed, CommandError> {
    let (stage, kind) = (recording.stage, recording.agent);
    match stage {
        Stage::Triage | Stage::Locate => {
            config.triage.agent = Some(kind);
            config.triage.model.clone_from(&recording.model);
        }
        Stage::Deep => {
            config.analyze.agent = Some(kind);
            config.analyze.model.clone_from(&recording.model);
        }
    }
    config.record.sessions = false;
    // The gateway needs no key here; without one there would be no gateway.
    let name = config.credential_env_of(kind).to_owned();
    let missing = !name.is_empty() && environment.raw(&name).is_none_or(OsStr::is_empty);
    let environment = match missing {
        true => {
            let stand_in = (name.as_str(), OsStr::new("not-needed-for-a-replay"));
            Environment::new(environment.iter().chain([stand_in]))
        }
        false => environment.clone(),
    };
    let failed = |what: &'static str| CommandError::io(what);
    let folder = TemporaryFolder::new("replay").map_err(failed("cannot create a folder"))?;
    let program = std::env::current_exe().map_err(failed("cannot locate heartbeat"))?;
    let rig = Rig::new(&program, folder.path(), config.state.containment)
        .map_err(failed("cannot create a folder"))?;
    let own = folder.path().join("state");
    crate::private::create_folder(&own).map_err(failed("cannot create a folder"))?;
    let answers = recording.exchanges.len();
    let sessions = SupervisedSessions::new(rig.supervisor, &Arc::new(config), &environment, &own)
        .playing(recording.exchanges.clone());
    let job = job_of(&recording);
    let end = sessions.perform(job, StopHandle::new().signal()).await;
    let end = end.map_err(|error| CommandError::NotFound(error.to_string()))?;
    let same = end.outcome == recording.outcome && end.output == recording.output;
    Ok(Replayed {
        session: recording.session,
        same,
        recorded: recording.outcome,
        outcome: end.outcome,
        answers,
        output: end.output,
    })
}

fn job_of(recording: &Recording) -> Job {
    Job {
        session: SessionRef {
            id: SessionId(uuid::Uuid::now_v7()),
            run: RunId(uuid::Uuid::now_v7()),
            stage: recording.stage,
            item: None,
            attempt: 1,
        },
        prompt: Rendered {
            system: recording.system_prompt.clone(),
            user: recording.prompt.clone(),
            schema: recording.schema.clone(),
        },
        repository: recording.repository.clone().filter(|path| path.is_dir()),
        beside: recording.beside.iter().filter(|path| path.is_dir()).cloned().collect(),
        examiner: None,
        triage: None,
        analyze: None,
        attached: None,
    }
}

fn render(replayed: &Replayed) -> String {
    let Replayed { session, same, recorded, outcome, answers, .. } = replayed;
    let result = if *same { "the same result" } else { "ANOTHER RESULT" };
    format!(
        "session {}: {result}\n  recorded: {recorded}, {answers} answers of the provider\n  now:      \
         {outcome}\n",
        session.short()
    )
}
