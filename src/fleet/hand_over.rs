//! How an order gets to a host: the coordinator offers a session without its content, the host that
//! takes the offer asks for the order with its signature, and the coordinator gives it to that host
//! alone, once.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::engine::{Cover, Ended, Engine, EngineError, Start, Taken, What};
use super::keys::{Asked, PublicKey};
use super::order::{Claim, Letter, Offer, Order, Report, Task, ensure_coordinator};
use super::sessions::{AGAIN, Coordinator};
use super::worker::Worker;
use super::{claim_queue, queue_of};
use crate::model::SessionId;
use crate::settings::Fleet;

/// How long a host waits for its order.
const CLAIM: Duration = Duration::from_secs(15);
/// How long an order may be carried out after it was handed over.
const VALID: SignedDuration = SignedDuration::from_mins(1);

/// Why a host has no order.
#[derive(Debug)]
pub(super) enum NoOrder {
    /// Nobody answered; nothing is wrong with this host.
    Unanswered(String),
    /// The coordinator does not give it to this host, or this host does not trust it.
    Refused(String),
}

impl Worker {
    /// A task that the coordinator has signed; an error tells why it is not trusted.
    pub(super) fn verified(&self, taken: &Taken) -> Result<Task, String> {
        let read = Engine::read_signed(What::Task, &taken.id, &taken.input);
        let (signer, task) = read.map_err(|error| format!("cannot read the order: {error}"))?;
        ensure_coordinator(&signer, &self.config.fleet.coordinator)
            .map_err(|refusal| refusal.to_string())?;
        Ok(task)
    }

    /// Asks the coordinator for the order of a session that was offered to this host.
    pub(super) async fn claim(&self, taken: &Taken, offer: &Offer) -> Result<Letter, NoOrder> {
        let since = Instant::now();
        let refused = |error: &dyn std::fmt::Display| NoOrder::Refused(error.to_string());
        let unanswered = |error: EngineError| NoOrder::Unanswered(error.to_string());
        let (asked, reply_to) = Asked::new().map_err(|error| refused(&error))?;
        let (session, host) = (offer.session, self.host.clone());
        // The server expects the first heartbeat within the timeout.
        let limit = CLAIM.min(Duration::from_millis(offer.heartbeat_timeout_ms / 2));
        let id = format!("{}/claim/{}", taken.id, uuid::Uuid::now_v7().simple());
        let start = Start {
            id: &id,
            queue: &claim_queue(&self.config.fleet.pool, session),
            task: &Task::Claim(Claim { session, host, reply_to }),
            wait: limit,
            limit,
            heartbeat_timeout: None,
            again: false,
        };
        self.engine.start(start).await.map_err(unanswered)?;
        let answer = async {
            loop {
                if let Some(ended) = self.engine.wait_for(&id).await? {
                    return Ok::<_, EngineError>(ended);
                }
            }
        };
        let answer = tokio::time::timeout(limit, answer).await;
        let reply = match answer.unwrap_or(Ok(Ended::NotTaken)).map_err(unanswered)? {
            Ended::Completed(reply) => reply,
            Ended::Returned(why) => {
                let read = Engine::read_signed::<String>(What::Result, &id, &why);
                let (signer, why) = read.map_err(|error| refused(&error))?;
                let trusted = ensure_coordinator(&signer, &self.config.fleet.coordinator);
                trusted.map_err(|refusal| refused(&refusal))?;
                return Err(NoOrder::Refused(why));
            }
            Ended::NotTaken | Ended::Lost(_) => {
                let why = format!("the coordinator gave no order within {} s", limit.as_secs());
                return Err(NoOrder::Unanswered(why));
            }
        };
        let (signer, letter): (_, Letter) =
            Engine::open_reply(asked, &id, &reply).map_err(|error| refused(&error))?;
        let now = taken.at.unwrap_or_else(|| self.clock.now());
        let waited = SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX);
        let now = now.saturating_add(waited).unwrap_or(Timestamp::MAX);
        let coordinators = &self.config.fleet.coordinator;
        let trusted = letter.ensure_for(&signer, coordinators, (&self.host, session, now));
        trusted.map_err(|refusal| refused(&refusal))?;
        Ok(letter)
    }
}

/// Whether a process may answer as this host; an error tells what to write. A name that ends with
/// `*` stands for hosts that come and go and share one key.
pub(super) fn ensure_worker(fleet: &Fleet, host: &str, signer: &PublicKey) -> Result<(), String> {
    let signed_by = signer.to_string();
    let group = fleet.workers.iter().find(|(name, key)| {
        name.strip_suffix('*').is_some_and(|start| host.starts_with(start)) && **key == signed_by
    });
    match fleet.workers.get(host).or(group.map(|(_, key)| key)) {
        Some(known) if *known == signed_by => Ok(()),
        Some(_) => Err(format!(
            "the coordinator knows host {host} by another key: if the host has a new one, write \
             {host} = \"{signer}\" in [fleet.workers] of the coordinator; if not, somebody else \
             uses its name"
        )),
        None => Err(format!(
            "the coordinator does not know host {host}: write {host} = \"{signer}\" in \
             [fleet.workers] of the coordinator, if this is a host of the fleet"
        )),
    }
}

/// Asks a host how a session ended; `None` without an answer by then. An error means that the server
/// did not accept the request or was unreachable afterwards, or that the answer is not by this host.
pub(super) async fn ask_host(
    engine: &Engine,
    fleet: &Fleet,
    host: &str,
    (id, session): (&str, SessionId),
    by: Instant,
) -> Result<Option<Report>, EngineError> {
    let (asked, reply_to) = Asked::new()?;
    let left = by.saturating_duration_since(Instant::now()).max(AGAIN);
    let start = Start {
        id,
        queue: &queue_of(&fleet.pool, host),
        task: &Task::Report { session, reply_to },
        wait: left,
        limit: left,
        heartbeat_timeout: None,
        again: false,
    };
    engine.start(start).await?;
    let answer = async {
        loop {
            match engine.wait_for(id).await? {
                None => {}
                Some(Ended::Completed(reply)) => {
                    let (signer, report) = Engine::open_reply(asked, id, &reply)?;
                    ensure_worker(fleet, host, &signer).map_err(EngineError::Untrusted)?;
                    return Ok(Some(report));
                }
                Some(Ended::Returned(why)) => {
                    let (signer, why) = Engine::read_signed(What::Result, id, &why)?;
                    ensure_worker(fleet, host, &signer).map_err(EngineError::Untrusted)?;
                    return Err(EngineError::Untrusted(why));
                }
                Some(_) => return Ok(None),
            }
        }
    };
    tokio::time::timeout_at(by.max(Instant::now() + AGAIN), answer).await.unwrap_or(Ok(None))
}

impl Coordinator {
    /// The host that asks for the order of a session, with its request.
    pub(super) fn claimant(&self, session: SessionId, taken: &Taken) -> Result<Claim, String> {
        let read = Engine::read_signed(What::Task, &taken.id, &taken.input);
        let (signer, task) = read.map_err(|error| error.to_string())?;
        let Task::Claim(claim) = task else { return Err("it asks for no order".to_owned()) };
        if claim.session != session {
            return Err("it asks for the order of another session".to_owned());
        }
        ensure_worker(&self.config.fleet, &claim.host, &signer)?;
        Ok(claim)
    }

    /// Whether one of the fleet's hosts has this key.
    pub(super) fn ensure_any_worker(&self, signer: &PublicKey) -> Result<(), EngineError> {
        let text = signer.to_string();
        match self.config.fleet.workers.values().any(|known| *known == text) {
            true => Ok(()),
            false => Err(EngineError::Untrusted(format!(
                "a host returned it whose public key ({signer}) is not in [fleet.workers]: add the \
                 host there, or find out who uses this server"
            ))),
        }
    }

    /// Gives an order to the host that asked for it. False if the host no longer waits.
    pub(super) async fn hand_over(
        &self,
        order: Order,
        claim: &Claim,
        taken: &Taken,
    ) -> Result<bool, EngineError> {
        let (key, _) = self.engine.keys().of_session(order.session.id, &claim.host);
        let at = taken.at.unwrap_or_else(|| self.journal.clock().now());
        let expires_at = at.saturating_add(VALID).unwrap_or(Timestamp::MAX);
        let letter = Letter { order, host: claim.host.clone(), expires_at, key };
        let cover = Cover::Reply(&claim.reply_to);
        self.engine.complete(&taken.id, &taken.token, &cover, &letter).await
    }

    /// Tells a process why it gets no order.
    pub(super) async fn refuse_claim(&self, taken: &Taken, why: &str) {
        let told = self.engine.return_task(&taken.id, &taken.token, &Cover::Signed, why).await;
        if let Err(error) = told {
            tracing::debug!(id = taken.id, %error, "could not tell a host why it gets no order");
        }
    }
}
