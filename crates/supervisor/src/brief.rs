//! A short command of an agent's program: a question of `doctor`, the trial of its sandbox, the
//! step that unpacks it. It runs under a keeper, contained and confined like a session, since a
//! program that works unconfined may still fail in every session.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};

use super::confinement::Confinement;
use super::keeper::launch::{self, Keeper, Receiver};
use super::keeper::protocol::{Exit, FromKeeper, Order, ToKeeper};
use super::mark;
use crate::Containment;
use crate::folder::FolderWatch;
use crate::private::beneath;
use crate::process;
use crate::{SessionId, milliseconds};

/// Longer output is cut off.
const MAX_OUTPUT: u64 = 1 << 20;
/// From the end of the program to the certificate that nothing of it is left.
const END_WITHIN: Duration = Duration::from_secs(15);
/// Between two measurements of what a program has written.
const MEASURE_EVERY: Duration = Duration::from_millis(500);

/// What to run. The folder of `input` must be closed to the program.
#[derive(Debug)]
pub struct Brief {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// A folder for the empty file that becomes standard input.
    pub folder: PathBuf,
    pub confinement: Confinement,
    pub timeout: Duration,
    /// `None`: what it writes is not watched.
    pub room: Option<Room>,
}

/// What a program may take on disk.
#[derive(Debug)]
pub struct Room {
    pub folder: PathBuf,
    pub max_bytes: u64,
    pub max_entries: u64,
}

impl Room {
    /// Returns once the folder has more, or what is below `keeper` holds more that was removed.
    async fn is_used_up(room: Option<&Self>, keeper: u32) {
        let Some(room) = room else { return std::future::pending().await };
        let watch = FolderWatch::of(room.max_bytes, room.max_entries);
        let held = || process::nameless_files(process::descendants(keeper).iter().map(|s| s.pid));
        while !watch.is_over(&room.folder, held().on_disk / 1024) {
            tokio::time::sleep(MEASURE_EVERY).await;
        }
    }
}

/// Starts programs like sessions.
#[derive(Debug, Clone)]
pub struct Briefly {
    /// The binary that is started as keeper.
    pub keeper: PathBuf,
    pub containment: Containment,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BriefEnd {
    Code(i32),
    Signal(i32),
    TimedOut,
    /// It wrote more than it may.
    NoRoom,
}

#[derive(Debug, thiserror::Error)]
pub enum BriefError {
    #[error("it cannot be started: {0}")]
    NotStarted(String),
    #[error("it did not finish within {0:?}")]
    TimedOut(Duration),
    #[error("it failed ({status}): {complaint}")]
    Failed { status: String, complaint: String },
}

impl Briefly {
    /// Runs it to its end; returns its standard output if it succeeded.
    pub async fn run(&self, brief: &Brief) -> Result<String, BriefError> {
        let (out, complaint, end) = self.follow_to_end(brief).await?;
        let failed = |status: String, complaint| Err(BriefError::Failed { status, complaint });
        match end {
            _ if out.cut => failed("too much output".to_owned(), out.text),
            BriefEnd::Code(0) => Ok(out.text),
            BriefEnd::Code(code) => failed(format!("exit status {code}"), complaint.last_line()),
            BriefEnd::Signal(signal) => failed(format!("signal {signal}"), complaint.last_line()),
            BriefEnd::TimedOut | BriefEnd::NoRoom => Err(BriefError::TimedOut(brief.timeout)),
        }
    }

    /// Runs it to its end, whatever that is; returns the first part of its standard output too.
    pub async fn watch(&self, brief: &Brief) -> Result<(String, BriefEnd), BriefError> {
        self.follow_to_end(brief).await.map(|(out, _, end)| (out.text, end))
    }

    async fn follow_to_end(
        &self,
        brief: &Brief,
    ) -> Result<(KeptOutput, KeptOutput, BriefEnd), BriefError> {
        let not_started = |error: &dyn std::fmt::Display| BriefError::NotStarted(error.to_string());
        let session = uuid::Uuid::now_v7();
        let order = order(brief, session).map_err(|error| not_started(&error))?;
        let launched = launch::launch(&self.keeper, session, self.containment, None).await;
        let mut keeper = launched.map_err(|error| not_started(&error))?;
        keeper.to.send(&ToKeeper::Go(Box::new(order))).await;
        // The keeper ends it at its limit; if it does not, dropping its socket does.
        let limit = brief.timeout + END_WITHIN;
        let Keeper { identity, to, from, stdout, stderr, .. } = &mut keeper;
        let mut has_room = true;
        let followed = tokio::time::timeout(limit, follow(from, stdout, stderr));
        tokio::pin!(followed);
        let over = loop {
            tokio::select! {
                over = &mut followed => break over,
                () = Room::is_used_up(brief.room.as_ref(), identity.pid), if has_room => {
                    has_room = false;
                    to.send(&ToKeeper::Kill).await;
                }
            }
        };
        let Ok((out, complaint, ended)) = over else {
            return Ok((KeptOutput::default(), KeptOutput::default(), BriefEnd::TimedOut));
        };
        let end = match ended? {
            _ if !has_room => BriefEnd::NoRoom,
            Some(Exit::Code(code)) => BriefEnd::Code(code),
            Some(Exit::Signal(signal)) => BriefEnd::Signal(signal),
            None => BriefEnd::TimedOut,
        };
        Ok((out, complaint, end))
    }
}

fn order(brief: &Brief, session: SessionId) -> io::Result<Order> {
    let name = format!(".input-{session}");
    beneath::create(&brief.folder, Path::new(&name), b"")?;
    Ok(Order {
        program: brief.program.clone().into_os_string(),
        args: brief.args.clone(),
        env: brief.env.clone(),
        cwd: brief.cwd.clone(),
        stdin: brief.folder.join(name),
        hard_ms: milliseconds(brief.timeout),
        grace_ms: 500,
        lease_ms: milliseconds(brief.timeout + END_WITHIN),
        nice: 0,
        mark: mark::limit(session),
        confinement: Some(brief.confinement.clone()),
        max_tasks: None,
        max_processes: 64,
        max_memory: 4 << 30,
    })
}

/// Output, complaints, and how it ended; `None`: it was ended at its limit.
type Followed = (KeptOutput, KeptOutput, Result<Option<Exit>, BriefError>);

async fn follow(
    from: &mut Receiver,
    stdout: &mut ChildStdout,
    stderr: &mut ChildStderr,
) -> Followed {
    let messages = async {
        let (mut ending, mut late) = (None, false);
        loop {
            match from.next().await {
                Some(FromKeeper::Exited(found)) => ending = Some(found),
                Some(FromKeeper::Stopping(_)) => late = true,
                Some(FromKeeper::NotStarted(failure)) => {
                    let why = io::Error::from_raw_os_error(failure.errno);
                    return Err(BriefError::NotStarted(format!("{:?}: {why}", failure.step)));
                }
                Some(FromKeeper::Swept { .. }) | None => {
                    return Ok(ending.filter(|_| !late));
                }
                Some(_) => {}
            }
        }
    };
    tokio::join!(read(stdout), read(stderr), messages)
}

#[derive(Default)]
struct KeptOutput {
    text: String,
    cut: bool,
}

impl KeptOutput {
    fn last_line(&self) -> String {
        let line = self.text.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or("no output").chars().take(400).collect()
    }
}

/// Reads to the end, so that a program that writes much is not held up; keeps the first part.
async fn read(from: &mut (impl AsyncRead + Unpin)) -> KeptOutput {
    let mut kept = Vec::new();
    (&mut *from).take(MAX_OUTPUT).read_to_end(&mut kept).await.ok();
    let rest = tokio::io::copy(from, &mut tokio::io::sink()).await.unwrap_or_default();
    KeptOutput { text: String::from_utf8_lossy(&kept).into_owned(), cut: rest > 0 }
}
