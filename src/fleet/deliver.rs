//! How a session ended, reported by its host: delivered until the server accepts it, and on
//! request.

use std::sync::Arc;
use std::time::Duration;

use super::blame::{HostBlame, Token, blame};
use super::engine::{Cover, EngineError, Taken};
use super::order::{Done, Report, Task};
use super::queue_of;
use super::worker::{AGAIN, Worker};
use crate::model::{Outcome, SessionEnd};
use crate::store::UndeliveredEnd;

impl Worker {
    /// Answers requests about sessions of this host.
    pub(super) async fn answer_reports(self: Arc<Self>) {
        let name = queue_of(&self.config.fleet.pool, &self.host);
        let mut named = self.shared.named.subscribe();
        // Requests for another worker of this name are not ours. The sender lives as long as
        // the worker.
        while named.wait_for(|is_ours| *is_ours).await.is_ok() {
            match self.engine.poll(&name).await {
                Ok(Some(asked)) => self.answer(&asked).await,
                Ok(None) => {}
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    async fn answer(&self, asked: &Taken) {
        let (session, reply_to) = match self.verified(asked) {
            Ok(Task::Report { session, reply_to }) => (session, reply_to),
            Ok(_) => return self.refuse(asked, "it does not ask how a session ended").await,
            Err(why) => {
                tracing::error!(host = self.host, why, "refused a request about a session");
                return self.refuse(asked, &why).await;
            }
        };
        let end = self.journal.store().sessions().whole_end(session).await;
        let report = match end {
            Ok(Some(end)) => match blame(&end, self.config.fleet.account) {
                HostBlame::Session(end) => {
                    Report::Ended(Done { session, host: self.host.clone(), end: *end })
                }
                HostBlame::Host(why) => Report::NotStarted(why),
            },
            Ok(None) if self.live.ids().contains(&session) => Report::Running,
            _ => Report::Unknown,
        };
        let cover = Cover::Reply(&reply_to);
        if let Err(error) = self.engine.complete(&asked.id, &asked.token, &cover, &report).await {
            tracing::warn!(session_id = %session, %error, "could not report how a session ended");
        }
    }

    /// Delivers ends until the server accepts them, also those of an earlier process.
    pub(super) async fn deliver_ends(self: Arc<Self>) {
        loop {
            let waiting = self.journal.store().sessions().undelivered().await.unwrap_or_default();
            let mut failed = false;
            for one in waiting {
                failed |= self.deliver(&one).await.is_err();
            }
            let wait = if failed { AGAIN } else { Duration::from_mins(1) };
            drop(tokio::time::timeout(wait, self.shared.to_deliver.notified()).await);
            if failed {
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn deliver(&self, one: &UndeliveredEnd) -> Result<(), ()> {
        let Ok(Token { id, token, key }) = serde_json::from_slice(&one.token) else {
            return self.journal.sessions().delivered(one.session).await.map_err(drop);
        };
        let seal = key.map(|key| key.seal());
        let cover = seal.as_ref().map_or(Cover::Signed, Cover::Key);
        let result = match blame(&one.end, self.config.fleet.account) {
            HostBlame::Host(why) => self.engine.return_task(&id, &token, &cover, &why).await,
            HostBlame::Session(end) => {
                let done = Done { session: one.session, host: self.host.clone(), end: *end };
                match self.engine.complete(&id, &token, &cover, &done).await {
                    Err(EngineError::TooLarge(_)) => {
                        let end = SessionEnd {
                            usage: done.end.usage,
                            ..SessionEnd::empty(Outcome::OutputFlood)
                        };
                        self.engine.complete(&id, &token, &cover, &Done { end, ..done }).await
                    }
                    result => result,
                }
            }
        };
        match result {
            Ok(_) => self.journal.sessions().delivered(one.session).await.map_err(drop),
            Err(error) if error.may_pass() => {
                tracing::debug!(session_id = %one.session, %error, "result not delivered yet");
                Err(())
            }
            Err(error) => {
                tracing::error!(session_id = %one.session, %error, "the server rejected a session's result");
                self.journal.sessions().delivered(one.session).await.map_err(drop)
            }
        }
    }
}
