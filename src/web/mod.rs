//! The HTTP interface: dashboard, health, metrics and live events, on loopback by default.
//!
//! Everything shown is gathered in one place, [`facts`], from the state and the log; [`health`] and
//! [`metrics`] are pure functions of it. The [`hub`] follows the log by its numbers, so that events
//! of this process, of a `--once` beside it and of an earlier life are one story, and a browser that
//! was away goes on where it stopped. Answers are rendered once and shared by all who ask.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the dashboard |
//! | `/health` | healthy, degraded or unhealthy (503) with reasons, see [`health`] |
//! | `/livez`, `/readyz` | does the loop turn; can the state be used |
//! | `/metrics` | Prometheus, see [`metrics::FAMILIES`] |
//! | `/heartbeat/metrics` | active and recent sessions, sums, runs, last and next run, as JSON |
//! | `/events` | what happens, as server-sent events; goes on after `Last-Event-ID` |
//! | `/api/state`, `/api/runs`, `/api/sessions`, `/api/findings`, `/api/items`, `/api/items/KEY`, `/api/figures` | the dashboard's data |
//! | `/api/runs/ID`, `/api/sessions/ID` | one run with its items and log, one session with its life |
//! | `/api/report?run=ID`, `?days=7`, `&format=html\|md\|json` | a report as a file |
//! | `POST /api/run`, `/api/pause`, `/api/resume`, `/api/sessions/ID/stop`, `/api/retry`, `/api/retry/KEY`, `/api/feedback/KEY` | actions |
//!
//! [`guard`] decides which requests are answered: everything but [`guard::OPEN`] needs sign-in, see
//! [`sign_in`]; a foreign `Host` or `Origin` is refused. The state's own token is in a private file,
//! see [`token`].

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
pub mod hub;
pub mod metrics;
mod page;
pub mod places;
mod run_page;
mod server;
mod session_page;
pub mod sign_in;
mod snapshot;
mod sse;
pub mod token;

pub use actions::{ActionError, Actions};
pub use hub::Hub;
pub use server::{Server, ServerError, ServerOptions, Token, bind, surface};
