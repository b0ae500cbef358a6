//! A rig that runs misbehaving agents against the real supervisor: for the self-test and for tests.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use uuid::Uuid;

use super::{EventRecorder, FolderLedger, HostileAgent};
use crate::clock::Clock;
use crate::model::{RunId, SessionEnd, SessionId, SessionRef, Stage};
use crate::ports::LedgerError;
use crate::session::agent::Task;
use crate::session::confinement::{Allowed, Confinement};
use crate::session::{SessionLimits, SessionSpec, StopHandle, Supervisor, SupervisorSettings};
use crate::settings::Containment;
use crate::simulate::hostile::Misbehaviour;
use crate::simulate::hostile::oracle::Oracle;

/// A supervisor with its own folder.
pub struct Rig {
    /// The binary that is keeper and agent.
    pub program: PathBuf,
    pub folder: PathBuf,
    pub ledger: Arc<FolderLedger>,
    pub events: Arc<EventRecorder>,
    pub supervisor: Supervisor,
}

/// The port of a gateway that is not there: these agents ask no model.
const NO_GATEWAY: u16 = 9;

/// How sessions are confined, by what their agents need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionShape {
    /// The usual one.
    BehindGateway,
    /// The agent connects itself.
    OwnLogin,
    /// The agent makes a sandbox for its commands.
    OwnSandbox,
}

impl SessionShape {
    pub const ALL: [Self; 3] = [Self::BehindGateway, Self::OwnLogin, Self::OwnSandbox];

    pub const fn name(self) -> &'static str {
        match self {
            Self::BehindGateway => "behind the gateway",
            Self::OwnLogin => "with a login of its own",
            Self::OwnSandbox => "with its own sandbox (an analysis by Codex)",
        }
    }

    /// What it needs of a confinement.
    pub fn confinement(self) -> Confinement {
        Confinement {
            only_gateway: self != Self::OwnLogin,
            makes_own_sandbox: self == Self::OwnSandbox,
            ..Confinement::default()
        }
    }
}

/// How one session went, according to the supervisor and to the observer.
#[derive(Debug)]
pub struct Observed {
    /// As reported by the supervisor.
    pub end: SessionEnd,
    /// Processes left, according to the observer.
    pub survivors: u32,
    /// Processes started, according to the observer.
    pub births: u64,
}

impl Rig {
    /// A rig in `folder`, with `program` as keeper and agent.
    pub fn new(program: &Path, folder: &Path, containment: Containment) -> io::Result<Self> {
        let mut settings = SupervisorSettings::new(program.to_owned(), containment, 3);
        settings.check_every = Duration::from_millis(200);
        Self::with_settings(folder, settings)
    }

    pub fn with_settings(folder: &Path, settings: SupervisorSettings) -> io::Result<Self> {
        let ledger = Arc::new(FolderLedger::open(&folder.join("ledger"))?);
        let events = Arc::new(EventRecorder::default());
        Ok(Self {
            program: settings.keeper_program.clone(),
            folder: folder.to_owned(),
            ledger: Arc::clone(&ledger),
            events: Arc::clone(&events),
            supervisor: Supervisor::new(settings, ledger, events, Clock::system()),
        })
    }

    /// A session of this misbehaviour, with limits short enough for a test.
    pub fn spec(&self, misbehaviour: Misbehaviour, seed: u64, count: u32) -> SessionSpec {
        let session = SessionId(Uuid::now_v7());
        let name = misbehaviour
            .to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned());
        let args = [
            "simulate",
            "agent",
            "--misbehave",
            &name,
            "--seed",
            &seed.to_string(),
            "--count",
            &count.to_string(),
            "--canary",
        ];
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.push(self.canary(session).into_os_string());
        let scratch = self.folder.join(format!("scratch-{session}"));
        SessionSpec {
            examiner: None,
            task: Box::new(Task::silent(session, Stage::Deep, scratch.clone())),
            price: None,
            gateway: None,
            worst_case: crate::model::Usd::ZERO,
            session: SessionRef {
                id: session,
                run: RunId(Uuid::now_v7()),
                stage: Stage::Deep,
                item: None,
                attempt: 1,
            },
            program: self.program.clone(),
            args,
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: self.folder.clone(),
            stdin: b"a prompt".to_vec(),
            scratch,
            confinement: None,
            limits: limits(),
        }
    }

    /// A session that tries these attacks, each as `kind:target`, in its own folder.
    pub fn attack(&self, attacks: &[String]) -> SessionSpec {
        let mut spec = self.spec(Misbehaviour::Attacks, 1, 1);
        for attack in attacks {
            spec.args.extend(["--attack".into(), attack.into()]);
        }
        spec.cwd = spec.scratch.clone();
        spec
    }

    /// Confines a session like that of an agent behind the gateway: to its own folder.
    pub fn confine(&self, spec: &mut SessionSpec) {
        self.confine_as(SessionShape::BehindGateway, spec);
    }

    pub fn confine_as(&self, shape: SessionShape, spec: &mut SessionSpec) {
        let allowed = Allowed::default();
        let needs = Confinement::for_program(&spec.program, &spec.env, &[]);
        let mut made = needs.with(&spec.scratch, &spec.cwd, &self.folder, &allowed);
        if shape != SessionShape::OwnLogin {
            made = made.behind_gateway(NO_GATEWAY, &allowed);
        }
        made.makes_own_sandbox = shape == SessionShape::OwnSandbox;
        // The observer's pipe, which no real agent has.
        made.devices.push(self.canary(spec.session.id));
        spec.confinement = Some(made);
    }

    /// The observer's pipe for a session.
    pub fn canary(&self, session: SessionId) -> PathBuf {
        self.folder.join(format!("canary-{session}"))
    }

    pub fn oracle(&self, session: SessionId) -> io::Result<Oracle> {
        Oracle::new(&self.canary(session))
    }

    /// Runs a session to its end, then asks the observer.
    pub async fn observe(
        &self,
        spec: SessionSpec,
        stop: &StopHandle,
    ) -> Result<Observed, LedgerError> {
        let mut oracle = self.oracle(spec.session.id).map_err(LedgerError::store)?;
        let end = self.supervisor.run(spec, &HostileAgent, stop.signal()).await?;
        // Reading the open files of a dying process may lag by a moment; the pipe itself does not.
        let survivors = oracle.survivors();
        Ok(Observed { end, survivors, births: oracle.births() })
    }
}

/// Limits that end a misbehaving agent soon.
pub fn limits() -> SessionLimits {
    SessionLimits {
        init: Duration::from_secs(5),
        hard: Duration::from_secs(3),
        stall: Duration::from_secs(30),
        grace: Duration::from_millis(300),
        drain: Duration::from_millis(300),
        liveness: Duration::from_millis(200),
        max_processes: 400,
        max_memory: 4 << 30,
        max_line: 1 << 20,
        max_reads: None,
        max_turns: None,
        max_tool_calls: None,
        nice: 0,
    }
}
