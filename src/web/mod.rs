//! The HTTP interface: dashboard, health, metrics and live events, on loopback by default.
//!
//! Everything shown is collected in one place, [`facts`], from the state and the log; [`health`]
//! and [`metrics`] are pure functions of it. The [`hub`] follows the log by sequence number, so
//! events of this process, of a concurrent `--once` and of an earlier process are one stream, and a
//! browser that reconnects resumes where it stopped. Responses are rendered once and shared by all
//! clients.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the dashboard |
//! | `/health` | healthy, degraded or unhealthy (503) with reasons, see [`health`] |
//! | `/livez`, `/readyz` | whether the loop runs; whether the state can be used |
//! | `/metrics` | Prometheus, see [`metrics::FAMILIES`] |
//! | `/heartbeat/metrics` | active and recent sessions, totals, runs, last and next run, as JSON |
//! | `/events` | server-sent events; resumes after `Last-Event-ID` |
//! | `/api/state`, `/api/runs`, `/api/sessions`, `/api/findings`, `/api/items`, `/api/items/KEY`, `/api/figures` | the dashboard's data |
//! | `/api/runs/ID`, `/api/sessions/ID` | one run with its items and log, one session with its history |
//! | `/shared/LINK` | one finding for whoever has the link, until its date, see [`share`] |
//! | `/api/report?run=ID`, `?finding=ID`, `?days=7`, `&format=html\|md\|json` | a report as a file |
//! | `POST /api/run`, `/api/pause`, `/api/resume`, `/api/sessions/ID/stop`, `/api/retry`, `/api/retry/KEY`, `/api/feedback/KEY`, `/api/share/ID` | actions |
//!
//! `POST /hooks` is for trackers: it proves itself and starts a run early, see [`hooks`].
//!
//! [`guard`] decides which requests are answered: everything except [`guard::OPEN`] needs sign-in,
//! see [`sign_in`]; a foreign `Host` or `Origin` is rejected. The state's own token is in a private
//! file, see [`token`].

mod actions;
pub mod address;
mod answer;
pub mod budgets;
mod api;
mod commands;
pub mod connection;
mod details;
pub mod facts;
pub mod guard;
pub mod health;
pub mod hooks;
pub mod hub;
pub mod metrics;
mod page;
pub mod slots;
mod run_page;
mod server;
mod session_page;
pub mod share;
pub mod sign_in;
mod snapshot;
mod sse;
pub mod token;

pub use actions::{ActionError, Actions};
pub use hub::Hub;
pub use server::{Server, ServerError, ServerOptions, Token, bind, surface};
