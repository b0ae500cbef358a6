//! heartbeat: a scheduled batch job that triages Azure DevOps work items and analyses the ones
//! that deserve it, with nothing left running behind it. This page is the architecture.
//!
//! # The way of the data
//!
//! ```text
//! schedule ─tick─▶ fetch ─items─▶ clean ─▶ dedupe ─plan─▶ triage ─verdicts─▶ context ─▶ analyze ─findings─▶ store
//!                 (breaker)                (state)        one session                   ≤ N sessions
//!                                                             └────────── session: the supervisor ─────────┘
//! every step emits events ─▶ store (one ordered log) ─▶ fold ─▶ terminal · live.json · dashboard · report
//! ```
//!
//! [`run::perform`] reads top to bottom like that line. The modules below stand in its order.
//!
//! # Rooms, and who may touch what
//!
//! | room | what lives there | touches |
//! |---|---|---|
//! | [`model`], [`event`] | the words: plain data; the closed list of what can happen, and its fold | nothing |
//! | [`clock`] | the one place that reads the time | clock |
//! | [`config`] | values, layered loading that names the place of every problem, reload, credentials | files |
//! | [`schedule`] | cron → ticks: overlap, catch-up, jitter, daylight saving (pure), and the waker | clock |
//! | [`fetch`] | `Source`; breaker and retry (pure); `ado`, the Azure DevOps client | network |
//! | [`clean`] | HTML, Markdown and test steps → compact, safe text (pure) | nothing |
//! | [`dedupe`] | items × known state → decisions with reasons, the line, retries (pure) | nothing |
//! | [`prompt`], [`triage`], [`analyze`] | what is asked, how it is fenced, how the answer is checked (pure) | nothing |
//! | [`context`] | which files matter for an item: scan, index, rank, pack | files, git |
//! | [`session`] | the supervisor: machine and verdicts (pure), keeper, liveness, orphans, the agent's CLI | processes |
//! | [`store`] | SQLite, migrations, the journal, the run lock | SQLite |
//! | [`report`] | what people see of a run: folds, reports, digests, and the edges that show them | terminal, files, webhook |
//! | [`web`] | dashboard, health, metrics and live events on loopback | HTTP |
//! | [`run`] | the way itself, over the seams in `run::edges` | nothing by itself |
//! | [`simulate`] | stand-ins for tracker and agent, for `--demo`, `selftest` and tests | network, processes |
//! | [`exec`] | short helper commands, bounded | processes |
//! | [`private`] | folders and files for their owner only | files |
//! | [`app`], [`cli`] | the composition root and the command line: the only ones that name concrete edges | everything |
//!
//! Direction: words ← pure rooms ← edges ← [`run`] ← [`app`] ← [`cli`]. A pure room does no IO
//! and reads no clock; an edge does not know another edge. `tests/library/architecture.rs` holds the rule,
//! `.clippy.toml` bans processes, clocks, the environment and exits outside their rooms, and
//! `unsafe` stands only in `session::keeper`, each block with its reason.
//!
//! # Invariants
//!
//! Each holds at every instant, across ticks, processes, crashes and restarts.
//!
//! - **I1** Live sessions ≤ `max_live_sessions`: counted from rows of `heartbeat_active_sessions`,
//!   committed before the agent starts ([`session::Ledger`]), never from a loop counter.
//! - **I2** Sessions started ≤ Σ over unique (item, fingerprint) of its allowed attempts, plus
//!   triage: the attempt is counted in the transaction that claims the item ([`store::Claim`]). It
//!   is given back only for what is no item's doing (our shutdown, a person, the provider, the
//!   machine, the configuration), and each of these also closes the gate. No session starts whose
//!   own time limit does not fit into what is left of the run.
//! - **I3** After shutdown, after a kill and after a crash of heartbeat itself no process that a
//!   session ever started is alive: a keeper around each agent sweeps until the kernel says that
//!   nothing is left ([`session::keeper`]).
//! - **I4** An item counts as processed only when its validated result is stored, in the same
//!   transaction ([`store::DeepResult`]).
//! - **I5** No changed item is lost: the decisions on a page are stored together with the cursor
//!   that they allow to move ([`store::PageRecord`]).
//! - **I6** Spent + reserved worst case ≤ each budget, checked in the claiming transaction.
//! - **I7** `--dry-run` starts no session and changes no byte of state: it is the same code on a
//!   copy ([`store::scratch_copy`]).
//! - **I8** Every live session has a liveness event every interval, by a timer, never gated on
//!   output.
//! - **I9** No secret in a log, a prompt, an argument list, a report or the environment of a child
//!   that does not need it; the tracker's credential never reaches the agent.
//! - **I10** Never two runs at once on one state ([`store::RunLock`]).
//!
//! What is absent on purpose: no global state but two registries of child processes; no `unwrap`
//! outside tests; no free-text failure (every end is an [`model::Outcome`]); no second source of
//! truth beside the database: the ndjson file, the terminal and `status` are folds over its log.
//!
//! # Where this differs from its sketch
//!
//! - A session's output is stored when its row is closed, before it is used. A crash in between
//!   costs nothing: the next run applies what was paid for.
//! - `--dry-run` runs on a copy of the state instead of guarding each write.
//! - An attempt that ended with a crash of heartbeat counts: otherwise an item that brings the
//!   machine down would be tried for ever.

pub mod model;
pub mod settings;
pub mod event;
pub mod ports;
pub mod clock;
pub mod config;
pub mod schedule;
pub mod fetch;
pub mod clean;
pub mod dedupe;
pub mod prompt;
pub mod triage;
pub mod context;
pub mod analyze;
pub mod session;
pub mod store;
pub mod report;
pub mod web;
pub mod run;
pub mod simulate;
pub mod exec;
pub mod process;
pub mod private;
pub mod app;
pub mod cli;
