//! heartbeat: a scheduled batch job that triages the work items of a tracker and analyses the
//! ones that need it, and leaves no process behind. This page describes the architecture.
//!
//! # Data flow
//!
//! ```text
//! schedule ─tick─▶ fetch ─items─▶ clean ─▶ dedupe ─plan─▶ triage ─verdicts─▶ locate ─▶ context ─▶ analyze ─findings─▶ store
//!                 (breaker)                (state)        one session                   ≤ N sessions
//!                                                             └──────── session: the supervisor ─────────┘
//! every step emits events ─▶ store (one ordered log) ─▶ fold ─▶ terminal · live.json · dashboard · report
//! ```
//!
//! [`run::perform`] has the same order.
//!
//! # The path of one item
//!
//! From `main` to the stored finding of a new item, with `heartbeat --once`, in call order. The
//! session of triage takes the same steps as that of the analysis.
//!
//! | file | functions | what happens |
//! |---|---|---|
//! | `cli/mod.rs` | `main` → `dispatch` → `once` | the command line is parsed |
//! | `app/running.rs` | `once` → `run_once` → `perform` | one run with its lock and its observers |
//! | `app/setting.rs` | `for_one_run`, `run_context` | everything is built from the configuration |
//! | `run/mod.rs` | `perform` → `work` | the stages, in order |
//! | `run/recover.rs` | `finish_interrupted` | what a crash left is finished |
//! | `run/sources.rs` | `read_all` | all sources are read concurrently |
//! | `run/read.rs` | `read_source` → `next_page` → `dedupe_and_store` | a page is fetched, cleaned, compared and stored |
//! | `fetch/tracker.rs` | `open` → `start` | the circuit breaker admits the read |
//! | `fetch/pages.rs` | `next` | page after page, read ahead |
//! | `fetch/ado/pages.rs` | `begin`, `changes` | the tracker is queried, its items are read |
//! | `dedupe/plan.rs` | `add` | the item is new: it is queued |
//! | `store/pages.rs` | `record_page` | the decision is stored with the cursor |
//! | `run/triage.rs` | `judge` → `ask_all` → `take_answer` | one session judges all new items |
//! | `run/locate.rs` | `order_files` → `ask` | one session orders the files found for the items to analyse |
//! | `run/analyse.rs` | `analyse_all` → `analyse` | code context, session, result |
//! | `context/code_bases.rs` | `context` | files are ranked and packed |
//! | `run/launch.rs` | `launch` → `wait_for_gates` → `ended` | gates, claim, session |
//! | `store/claims.rs` | `take` | item, attempt and budget are taken |
//! | `session/sessions.rs` | `perform` → `spec` | the agent's command, limits and confinement |
//! | `session/supervisor.rs` | `run` → `run_keeper` → `conclude` | a keeper, a row, the agent, the certificate |
//! | `session/live.rs` | `run` | the loop over output, timers and stop requests |
//! | `store/ledger.rs` | `register`, `close` | the row of the session is committed and closed |
//! | `run/deep_result.rs` | `result_of` | the finding is checked against the code |
//! | `store/results.rs` | `apply_deep` | the finding is stored; the item is done |
//! | `run/mod.rs` | `end_run` | the run's outcome is stored |
//!
//! # Layers
//!
//! A module may use the layers listed in its row, all of them below it. Modules of one layer do not
//! use each other, except where an arrow shows it. `tests/library/architecture.rs` checks this table
//! against every `use` in the sources.
//!
//! | layer | modules | may use | what it does |
//! |---|---|---|---|
//! | **commands** | [`cli`] | all below | parses the command line, prints, sets the exit code |
//! | **app** | [`app`] | all below | builds all parts from one configuration; daemon, `--once`, `--demo`, self-test |
//! | **fleet** | [`fleet`] | edges, state, ports, system, pure, data | sessions on other hosts (feature `fleet`) |
//! | **backtest** | [`backtest`] | readers, edges, system, pure, data | compares the ranking with past fixes |
//! | **readers** | [`web`], [`brief`] → [`report`] | state, system, pure, data | show what the store holds: dashboard, health, metrics, reports, terminal; findings as tasks for agents |
//! | **stages** | [`run`] | edges, state, ports, pure, data | one run, from fetch to record |
//! | **edges** | [`config`], [`fetch`], [`context`], [`simulate`], [`session`] → [`gateway`] | ports, system, pure, data | files, the tracker, the code base, agent processes, their way to the model provider; and simulators of them |
//! | **state** | [`store`] | ports, system, pure, data | SQLite: items, runs, sessions, findings, budget, the event log |
//! | **ports** | [`ports`] | data | interfaces of the state for edges: the session ledger, the stored state of sources |
//! | **system** | [`clock`], [`exec`], [`outbound`], [`private`], [`process`] | data | the operating system: time, helper commands, private files, processes; messages to webhooks and monitors |
//! | **pure** | [`schedule`], [`breaker`], [`clean`], [`dedupe`], [`fixes`], [`evidence`], [`suggest`], [`triage`], [`locate`], [`analyze`] → [`prompt`] | data | decisions and texts: no IO, no clock |
//! | **data** | [`event`], [`settings`] → [`model`] | nothing | plain data: items, verdicts, findings, events, configuration values |
//!
//! [`clean`] and the data of texts in [`model`] come from the crate `visible_text` (`crates/visible-text`), which
//! cleans one text and knows nothing of the job. What indexes, ranks and packs for [`context`] is the crate
//! `code_context` (`crates/code-context`); [`exec`] asks it for its `git` processes, which are helpers too.
//!
//! What contains, confines and ends one agent process (the keeper, its walls, its sweep, the marks of its
//! processes) is the crate `supervisor` (`crates/supervisor`); [`process`] and [`private`] are its modules, and
//! [`session`] decides with it what to start and what an end means.
//!
//! The store implements the ports for `fetch` and `session`, so none of the three depends on another.
//! `.clippy.toml` bans processes, clocks, the environment and exits outside their modules. Only
//! [`process`] of the supervisor has `unsafe` code, each block with its reason.
//!
//! # Invariants
//!
//! Each holds at all times, across ticks, processes, crashes and restarts.
//!
//! - **I1** Live sessions ≤ `max_live_sessions`, counted from rows of `heartbeat_active_sessions`
//!   that are committed before the agent starts, never from a loop counter. Held by
//!   `the_incident_cannot_happen_again`, `the_ledger_refuses_one_more_than_allowed`.
//! - **I2** Sessions started ≤ the sum over unique (item, fingerprint) of the allowed attempts, plus
//!   triage and locate. The attempt is counted in the transaction that claims the item. Held by
//!   `whatever_happens_nothing_is_lost_and_nothing_is_paid_for_too_often`.
//! - **I3** After a shutdown, a kill or a crash of heartbeat, no process that a session started is
//!   alive: a keeper around each agent sweeps until the kernel reports no child. Held by
//!   `the_selftest_finds_nothing_alive`, `heartbeat_killed_after_the_start_leaves_nothing`,
//!   `heartbeat_and_keeper_killed_leave_nothing_after_a_restart`.
//! - **I4** An item counts as processed only when its validated result is stored, in the same
//!   transaction. Held by `a_run_killed_at_any_point_ends_like_one_that_was_not`.
//! - **I5** No changed item is lost: the decisions on a page are stored together with the cursor
//!   that they allow to move. Held by
//!   `whatever_happens_nothing_is_lost_and_nothing_is_paid_for_too_often`,
//!   `killed_thirty_times_every_item_ends_once_or_waits_visibly`.
//! - **I6** Spent + reserved worst case ≤ each budget, checked in the claiming transaction. Held by
//!   `a_budget_counts_worst_cases_until_the_real_cost_is_known`.
//! - **I7** `--dry-run` starts no session and changes no byte of state: it is the same code on a
//!   copy of the state. Held by `a_dry_run_shows_decisions_and_prompts_and_changes_no_byte`,
//!   `a_dry_run_starts_no_process`.
//! - **I8** Every live session has a liveness event every interval, by a timer, never gated on
//!   output. Held by `ten_silent_minutes_have_no_gap`, `quiet_and_busy_stages_beat_at_every_interval`.
//! - **I9** No secret in a log, a prompt, an argument list, a report or the environment of a child
//!   that does not need it. The tracker's credential never reaches the agent, and the provider's
//!   key does not reach a session behind the gateway. Held by
//!   `no_process_of_a_session_knows_the_providers_key`, `the_trackers_credential_is_nowhere`,
//!   `a_finding_that_holds_a_credential_shows_it_nowhere`.
//! - **I10** Never two runs at once on one state. Held by
//!   `of_two_simultaneous_runs_one_runs_and_the_other_reports_why_not`.
//! - **I11** What is not the item's fault (provider, tracker, machine, configuration, a person)
//!   costs it no attempt. Held by `an_outage_of_everything_leaves_the_queue_as_it_was`,
//!   `a_provider_limit_in_triage_counts_for_nobody_and_ends_the_run`,
//!   `a_provider_that_accepts_and_never_answers_counts_no_attempt_and_no_cost`,
//!   `a_machine_that_can_start_nothing_costs_no_item_its_attempts`,
//!   `what_a_person_stopped_is_left_to_people_and_costs_no_attempt`,
//!   `a_broken_agent_program_is_nobodys_fault_and_comes_back_by_itself`,
//!   `a_brown_out_parks_nobody`, `a_bad_week_parks_nothing_and_ends_by_itself`,
//!   `a_bad_year_loses_nothing_blames_nobody_and_books_what_was_served`,
//!   `killed_again_and_again_with_the_real_cli_nothing_is_lost_and_hardly_anything_assumed`.
//! - **I12** Waiting work does not block the triage of new work. Held by
//!   `an_item_is_triaged_as_soon_as_those_ahead_of_it_are`,
//!   `an_item_that_always_fails_is_parked_after_three_attempts_and_blocks_nobody`,
//!   `an_urgent_newcomer_does_not_wait_behind_the_backlog_nor_starve_it`,
//!   `with_twenty_thousand_waiting_nobody_starves_in_five_hundred_runs`,
//!   `one_poisonous_item_is_isolated_and_everybody_else_is_judged`.
//! - **I13** heartbeat signals only processes that one of its sessions started, verified by pid,
//!   start time and boot. Held by `reused_pids_are_never_killed`.
//! - **I14** Text that a person would not see in the tracker does not reach a prompt unmarked.
//!   Held by `every_case_shows_what_a_browser_shows`,
//!   `what_a_browser_does_not_paint_hardly_ever_comes_out_unmarked`.
//! - **I15** A finding is published once, or given up visibly: its comment is stored in the same
//!   transaction. Held by
//!   `a_comment_that_was_not_taken_is_delivered_by_a_later_run_and_does_not_requeue_the_item`,
//!   `an_undeliverable_comment_is_given_up_and_reported`,
//!   `a_finding_is_written_once_and_our_own_write_does_not_requeue_the_item`,
//!   `a_finding_that_a_crash_held_up_is_checked_and_written_back_like_any_other`.
//! - **I16** What is shown as confirmed was checked against the analysed commit; what was not is never
//!   first and never written back unasked. Held by
//!   `an_invented_finding_is_unproven_and_not_written_back_unless_asked_for`,
//!   `the_commit_counts_and_not_the_folder_as_it_is_by_then`,
//!   `only_a_test_that_fails_without_the_change_and_passes_with_it_is_a_proof`.
//! - **I21** No other program damages the state by reading or copying it, and one that takes it away
//!   does not make heartbeat start over. The database file is opened by SQLite alone; what was spent
//!   and finished is also beside it, for the person who starts over. Held by
//!   `programs_beside_the_running_service_leave_the_state_whole`,
//!   `a_lost_database_is_refused_and_a_new_one_knows_what_was_spent_and_finished`,
//!   `a_state_that_is_taken_away_is_an_alarm_and_no_fresh_start_and_its_return_is_noticed`.
//! - **I18** Money, sessions and what is left are the same in every place that shows them: they come
//!   from one function over the store. Held by
//!   `every_place_shows_the_same_figures_whatever_happened`.
//!
//! # Decisions
//!
//! - The database is the only source of truth. The terminal, `events.ndjson`, `live.json`, `status`
//!   and the dashboard are folds over its event log.
//! - A session's output is stored when its row is closed, before it is used. After a crash in
//!   between, the next run applies the output that was already paid for.
//! - The answer of the locate step is not stored: after a crash its question is asked once more, which
//!   costs less than the machinery to keep it.
//! - An attempt counts only if the agent had a working program, provider and machine ([`breaker::blame`]).
//!   What the end does not say itself, other sessions of the same model or one probe decide.
//! - A crash of heartbeat, a lost host and a process that the machine killed cost no attempt. An item
//!   that causes them is told by what ran when: from the sixth crash in a row at which it was running
//!   (the third end by the machine) it counts, and a crash without it begins the count anew. What was
//!   used until then is booked, by the last figure of the gateway, not the worst case.
//! - A triage session that one item can have spoiled is divided until that item is alone; only it is
//!   set aside. Three failures of one kind without a success are nobody's: the stage stops.
//! - A session starts only if its time limit fits into the remaining time of the run.
//! - No global state except two registries of child processes, no `unwrap` outside tests, no
//!   free-text failure: every end of a session is an [`model::Outcome`].

pub mod model;
pub mod settings;
pub mod event;

pub mod schedule;
pub mod breaker;
pub mod clean;
pub mod dedupe;
pub mod fixes;
pub mod evidence;
pub mod prompt;
pub mod suggest;
pub mod triage;
pub mod locate;
pub mod analyze;

pub mod clock;
pub mod exec;
pub mod outbound;
pub mod private;
pub mod process;

pub mod ports;
pub mod store;
pub mod config;
pub mod fetch;
pub mod gateway;
pub mod context;
pub mod session;
pub mod simulate;

pub mod run;
pub mod fleet;
pub mod backtest;
pub mod brief;
pub mod report;
pub mod web;
pub mod app;
pub mod cli;
