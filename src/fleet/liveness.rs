//! Liveness events of a session whose figures this process does not have.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::sessions::Coordinator;
use crate::event::{Event, LiveVerdict, Liveness, Sink as _};
use crate::model::{SessionId, milliseconds};

/// Liveness events while the end of a session is being determined.
pub(super) struct LivenessReporter {
    pub(super) shared: Arc<Coordinator>,
    pub(super) session: SessionId,
    pub(super) host: Option<String>,
    pub(super) since: Instant,
    pub(super) beats: u64,
}

impl LivenessReporter {
    pub(super) async fn report_forever(mut self) -> Infallible {
        let every = self.shared.config.timeouts.liveness;
        loop {
            tokio::time::sleep(every).await;
            self.beats += 1;
            let host = self.host.as_deref().unwrap_or("its host");
            let evidence = format!("{host}: asking how it ended");
            let liveness = liveness_without_figures(
                self.beats,
                LiveVerdict::Suspect,
                evidence,
                self.since.elapsed(),
            );
            self.shared.journal.emit(Event::SessionLiveness { session: self.session, liveness });
        }
    }
}

/// A liveness event without the host's own figures.
pub(super) fn liveness_without_figures(
    beat: u64,
    verdict: LiveVerdict,
    evidence: String,
    since: Duration,
) -> Liveness {
    Liveness {
        beat,
        verdict,
        evidence,
        elapsed_ms: milliseconds(since),
        deadline_in_ms: 0,
        since_progress_ms: 0,
        since_output_ms: 0,
        stdout_bytes: 0,
        lines: 0,
        open_tool: None,
        processes: 0,
        new_processes: 0,
        cpu_leader_ms: 0,
        cpu_tools_ms: 0,
        rss_kib: 0,
    }
}
