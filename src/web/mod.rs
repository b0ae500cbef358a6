//! The HTTP interface: dashboard, health, metrics and live events, on loopback by default.
//!
//! Everything shown is gathered in one place, [`facts`], from the state and the log; [`health`] and
//! [`metrics`] are pure functions of it. The [`hub`] follows the log by its numbers, so that events
//! of this process, of a `--once` beside it and of an earlier life are one story, and a browser that
//! was away goes on where it stopped. Answers are rendered once and shared by all who ask.
//!
//! Who may ask is decided in [`guard`]: a foreign `Host` or `Origin` is refused, actions are POST
//! requests with a token, and an address that others can reach asks for the token with everything.

mod actions;
mod answer;
mod api;
pub mod connection;
pub mod facts;
pub mod guard;
pub mod health;
pub mod hub;
pub mod metrics;
mod page;
mod server;
mod snapshot;
mod sse;

pub use actions::{ActionError, Actions};
pub use hub::Hub;
pub use server::{Server, ServerError, ServerOptions, Token, bind};
