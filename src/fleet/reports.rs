//! What the hosts reported of one session, and the events made of it: where it runs, its steps, its
//! liveness, and the silence of its host.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::liveness::liveness_without_figures;
use super::order::Beat;
use crate::event::{Event, LiveVerdict, Liveness};
use crate::model::SessionId;

/// Steps that one report may add; more than a host can make between two heartbeats.
const MAX_NEW_STEPS: u32 = 100;

pub(super) struct HostReports {
    session: SessionId,
    pub(super) since: Instant,
    pub(super) beats: u64,
    /// A host that was not heard for longer missed more than two heartbeats.
    longest_silence: Duration,
    last: Option<Beat>,
    /// Server time of the last heartbeat, and when it was noticed here.
    heard: Option<(Timestamp, Instant)>,
    /// The emitted steps by kind; `None` until the first report of a session that an earlier process
    /// followed, which has emitted those before.
    steps: Option<BTreeMap<String, u32>>,
    spawn_emitted: bool,
    model_emitted: bool,
    silence_emitted: bool,
    /// After an emitted silence.
    heard_again: bool,
}

/// The connection to the server, without which a silent host is no news.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerContact {
    /// Since when the server is unreachable.
    pub(super) cut_off: Option<Instant>,
    /// Since when it is reachable.
    pub(super) reached: Instant,
}

impl HostReports {
    pub(super) fn new(session: SessionId, longest_silence: Duration) -> Self {
        Self {
            session,
            since: Instant::now(),
            beats: 0,
            longest_silence,
            last: None,
            heard: None,
            steps: None,
            spawn_emitted: false,
            model_emitted: false,
            silence_emitted: false,
            heard_again: false,
        }
    }

    /// The session starts now: no step of it was emitted before.
    pub(super) fn expect_first_steps(&mut self) {
        self.steps = Some(BTreeMap::new());
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.last.as_ref().map(|last| last.host.as_str())
    }

    pub(super) fn has_spawned(&self) -> bool {
        self.spawn_emitted
    }

    /// When its host was last heard.
    pub(super) fn heard_at(&self) -> Option<Instant> {
        self.heard.map(|(_, at)| at)
    }

    /// Notes the server's time of the last heartbeat.
    pub(super) fn note_heartbeat(&mut self, at: Timestamp) {
        if self.heard.is_none_or(|(known, _)| known != at) {
            self.heard = Some((at, Instant::now()));
            self.heard_again = self.silence_emitted;
        }
    }

    /// Takes a report. Returns its events, and whether a liveness event is due because of it.
    pub(super) fn take(&mut self, beat: Beat) -> (Vec<Event>, bool) {
        let session = self.session;
        let mut events = Vec::new();
        if let Some(pid) = beat.pid.filter(|_| !self.spawn_emitted) {
            self.spawn_emitted = true;
            events.push(Event::SessionSpawned { session, pid, host: Some(beat.host.clone()) });
        }
        if let Some(model) = beat.model.clone().filter(|_| !self.model_emitted) {
            self.model_emitted = true;
            let version = beat.build.clone();
            events.push(Event::SessionInitialised { session, model, version });
        }
        let is_due = !events.is_empty()
            || std::mem::take(&mut self.heard_again)
            || self
                .last
                .as_ref()
                .is_none_or(|last| last.host != beat.host || last.liveness != beat.liveness);
        events.extend(self.new_steps(&beat));
        self.last = Some(beat);
        (events, is_due)
    }

    fn new_steps(&mut self, beat: &Beat) -> Vec<Event> {
        let session = self.session;
        let Some(known) = &mut self.steps else {
            self.steps = Some(beat.steps.clone());
            return Vec::new();
        };
        let mut events = Vec::new();
        for (what, count) in &beat.steps {
            let known = known.entry(what.clone()).or_default();
            let new = count.saturating_sub(*known).min(MAX_NEW_STEPS);
            *known = (*known).max(*count);
            events.extend((0..new).map(|_| {
                let what = what.clone();
                Event::SessionProgressed { session, what }
            }));
        }
        events
    }

    /// Whether its host, or the server, became silent since the last liveness event.
    pub(super) fn became_silent(&self, contact: ServerContact) -> bool {
        !self.silence_emitted && self.silence(contact).is_some()
    }

    /// Who is silent, as evidence.
    fn silence(&self, contact: ServerContact) -> Option<String> {
        let host = self.host()?;
        let is_long = |since: &Instant| since.elapsed() > self.longest_silence;
        if let Some(since) = contact.cut_off {
            return Some(since).filter(is_long).map(|since| {
                let seconds = since.elapsed().as_secs();
                format!("{host}: no answer from the fleet's server for {seconds} s")
            });
        }
        let since = Some(self.heard_at()?.max(contact.reached)).filter(is_long)?;
        Some(format!("no heartbeat from {host} for {} s", since.elapsed().as_secs()))
    }

    /// The next liveness event, whether or not there are figures.
    pub(super) fn liveness(&mut self, contact: ServerContact) -> Event {
        self.beats += 1;
        let silence = self.silence(contact);
        self.silence_emitted = silence.is_some();
        let measured = self.last.as_ref().and_then(|last| last.liveness.clone());
        let (verdict, evidence) = match (&self.last, silence) {
            (_, Some(silence)) => (LiveVerdict::Suspect, silence),
            (None, None) => {
                let waited = self.since.elapsed().as_secs();
                (LiveVerdict::Starting, format!("waiting for a host for {waited} s"))
            }
            (Some(Beat { host, model, .. }), None) => match (&measured, model) {
                (Some(found), _) => (found.verdict, format!("{host}: {}", found.evidence)),
                (None, Some(_)) => (LiveVerdict::Working, format!("{host}: not measured yet")),
                (None, None) => (LiveVerdict::Starting, format!("{host}: starting")),
            },
        };
        let (beat, session) = (self.beats, self.session);
        let liveness = match measured {
            Some(figures) => Liveness { beat, verdict, evidence, ..figures },
            None => Liveness {
                // Its agent, until the host has counted.
                processes: u32::from(self.spawn_emitted),
                ..liveness_without_figures(beat, verdict, evidence, self.since.elapsed())
            },
        };
        Event::SessionLiveness { session, liveness }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact() -> ServerContact {
        ServerContact { cut_off: None, reached: Instant::now() }
    }

    fn shown(reports: &mut HostReports, contact: ServerContact) -> (LiveVerdict, String, u32) {
        let Event::SessionLiveness { liveness, .. } = reports.liveness(contact) else { panic!() };
        (liveness.verdict, liveness.evidence, liveness.processes)
    }

    fn beat(steps: u32) -> Beat {
        let steps = BTreeMap::from([("content".to_owned(), steps)]);
        let model = Some("m".to_owned());
        Beat { host: "south".to_owned(), pid: Some(7), model, steps, ..Beat::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_agent_is_not_starting_and_a_silent_host_is_named() {
        let mut reports = HostReports::new(SessionId(uuid::Uuid::nil()), Duration::from_secs(15));
        reports.expect_first_steps();
        let contact = contact();
        let waiting = (LiveVerdict::Starting, "waiting for a host for 0 s".to_owned(), 0);
        assert_eq!(shown(&mut reports, contact), waiting);
        reports.note_heartbeat(Timestamp::UNIX_EPOCH);
        assert_eq!(reports.take(beat(2)).0.len(), 4, "spawned, initialised, two steps");
        let running = (LiveVerdict::Working, "south: not measured yet".to_owned(), 1);
        assert_eq!(shown(&mut reports, contact), running);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert!(reports.became_silent(contact));
        let silent = (LiveVerdict::Suspect, "no heartbeat from south for 40 s".to_owned(), 1);
        assert_eq!(shown(&mut reports, contact), silent);
        assert!(!reports.became_silent(contact), "emitted");
        let cut_off = ServerContact { cut_off: Some(Instant::now()), ..contact };
        assert_eq!(shown(&mut reports, cut_off), running, "the server is silent, not the host");
    }

    #[test]
    fn steps_are_emitted_once_also_after_a_restart_of_the_coordinator() {
        let mut reports = HostReports::new(SessionId(uuid::Uuid::nil()), Duration::ZERO);
        reports.take(beat(5));
        let (events, _) = reports.take(beat(7));
        assert_eq!(events.len(), 2, "five were emitted by the process before");
    }
}
