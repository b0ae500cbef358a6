//! `heartbeat selftest`: misbehaving agents against the real supervisor, on this machine.
//!
//! An independent observer decides whether anything survived: a pipe that every process of a
//! misbehaving agent holds open.

mod attacks;
mod connections;
pub mod promises;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use self::attacks::AttackRow;
use self::promises::PromiseRow;
use super::Context;
use super::error::CommandError;
use super::exit::Code;
use crate::app::selftest::{Rig, SessionShape};
use crate::event::{Event, LiveVerdict};
use crate::model::SessionId;
use crate::session::confinement::Strength;
use crate::session::containment::{self, Tier};
use crate::session::in_force::{InForce, Walls};
use crate::session::{SessionSpec, StopHandle, become_outer_reaper};
use crate::settings::Containment;
use crate::simulate::hostile::Misbehaviour;

#[derive(Debug, Clone, Args)]
pub struct SelftestArgs {
    /// Set from the global `--json`.
    #[arg(skip)]
    pub json: bool,
    /// Containment to test: the strongest that this machine supports, or the weakest one on Linux
    #[arg(long, default_value = "auto")]
    pub tier: TierChoice,
    /// Pass although this kernel lacks Landlock, so that agents reach what their user can
    #[arg(long)]
    pub without_landlock: bool,
    /// Only try what the walls around an agent promise
    #[arg(long, conflicts_with = "only")]
    pub walls: bool,
    /// Run only these scenarios
    #[arg(long, value_name = "NAME")]
    pub only: Vec<Misbehaviour>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TierChoice {
    /// The strongest that this machine supports
    Auto,
    /// No namespaces, no control groups
    Subreaper,
}

impl From<TierChoice> for Containment {
    fn from(choice: TierChoice) -> Self {
        match choice {
            TierChoice::Auto => Self::Auto,
            TierChoice::Subreaper => Self::Subreaper,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What the agent did.
    pub scenario: String,
    /// It ran confined like a real agent; if not, to show what its keeper does.
    pub confined: bool,
    /// As reported by the supervisor.
    pub outcome: String,
    /// In order, without repetitions.
    pub verdicts: Vec<LiveVerdict>,
    /// Processes that the agent started, including itself.
    pub processes: u64,
    /// Processes left, according to the observer.
    pub survivors: u32,
    /// From spawn until the process tree is certified empty.
    pub milliseconds: u64,
}

/// The report for `--json`.
#[derive(Debug, Serialize)]
struct SelftestReport {
    /// Such as `pidns+cgroup+landlock`.
    containment: String,
    user: u32,
    /// What holds each kind of session, by subject.
    in_force: BTreeMap<&'static str, InForce>,
    scenarios: Vec<Row>,
    /// Every promise of `SECURITY.md`, tried with and without confinement.
    promises: Vec<PromiseRow>,
    attacks: Vec<AttackRow>,
    processes: u64,
    survivors: u32,
    /// Nothing survived, and every promise that applies is in force.
    held: bool,
}

/// In the order of the report.
fn scenarios() -> impl Iterator<Item = Misbehaviour> {
    use Misbehaviour::{Attacks, ForksAndExits, MemoryHog, Mix, Searchers, Sleeper};
    // Variants of others, and what other parts of this test start.
    let is_one = |kind: &Misbehaviour| {
        !matches!(kind, ForksAndExits | Searchers | MemoryHog | Mix | Attacks | Sleeper)
    };
    Misbehaviour::value_variants().iter().copied().filter(is_one)
}

/// Runs all scenarios in `folder` with `program` as keeper and agent; true if nothing survived.
pub async fn run(
    args: &SelftestArgs,
    program: &Path,
    folder: &Path,
    out: &mut dyn Write,
) -> io::Result<bool> {
    become_outer_reaper()?;
    let (tier, walls) = containment::survey(program, args.tier.into()).await?;
    let strength = Strength::of_this_machine();
    let shapes = SessionShape::ALL
        .map(|shape| (shape, InForce::of(Some(&shape.confinement()), strength, tier, walls)));
    let rig = Rig::new(program, folder, args.tier.into())?;
    if !args.json {
        head(out, tier, &shapes)?;
    }
    let mut report = SelftestReport {
        containment: format!("{tier}{}", Strength::of_this_machine()),
        user: nix::unistd::getuid().as_raw(),
        in_force: shapes.iter().map(|(shape, held)| (shape.name(), held.clone())).collect(),
        scenarios: Vec::new(),
        promises: Vec::new(),
        attacks: Vec::new(),
        processes: 0,
        survivors: 0,
        held: false,
    };
    for misbehaviour in scenarios() {
        if args.walls || (!args.only.is_empty() && !args.only.contains(&misbehaviour)) {
            continue;
        }
        let row = scenario(&rig, misbehaviour).await?;
        if !args.json {
            line(out, &row)?;
            out.flush()?;
        }
        report.scenarios.push(row);
    }
    if args.only.is_empty() {
        let accepted = promises::is_accepted(args.without_landlock);
        report.promises = promises::run(&rig, &shapes, accepted).await?;
    }
    if args.only.is_empty() && !args.walls {
        report.attacks = attacks::run(&rig, walls).await?;
        report.promises.extend(observed(&report, walls));
    }
    report.conclude();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        print_promises(out, &report)?;
        print_attacks(out, &report)?;
    }
    out.flush()?;
    Ok(report.held)
}

/// The promises that no single call breaks: they are tried by whole sessions.
fn observed(report: &SelftestReport, walls: Walls) -> Vec<PromiseRow> {
    let row = |promise, attack: &str, confined: String, claimed, held| PromiseRow {
        promise,
        session: "of every kind",
        attack: attack.to_owned(),
        unconfined: "not tried".to_owned(),
        confined,
        claimed,
        held,
        shown: true,
    };
    let left = || report.scenarios.iter().map(|row| row.survivors);
    let left = left().chain(report.attacks.iter().map(|row| row.survivors)).sum::<u32>();
    let mut rows = vec![row(
        promises::OUTLIVE,
        "every scenario and attack",
        format!("{left} processes left"),
        true,
        left == 0,
    )];
    let limits = [
        (promises::TASKS, attacks::FORK_BOMB, walls.tasks),
        (promises::MEMORY, attacks::MUCH_MEMORY, walls.memory),
    ];
    for (promise, attack, is_limited) in limits {
        let tried = report.attacks.iter().find(|row| row.attack == attack);
        rows.extend(tried.map(|tried| {
            let held = is_limited && tried.held;
            row(promise, attack, tried.happened.clone(), is_limited, held)
        }));
    }
    rows
}

impl Context {
    pub(super) async fn selftest(&self, mut args: SelftestArgs) -> Result<Code, CommandError> {
        args.json = self.global.json;
        let program = std::env::current_exe()
            .map_err(CommandError::io("cannot locate the heartbeat executable"))?;
        let folder = crate::app::TemporaryFolder::new("selftest")
            .map_err(CommandError::io("cannot create a temporary folder"))?;
        let clean = run(&args, &program, folder.path(), &mut std::io::stdout().lock())
            .await
            .map_err(CommandError::io("cannot run the self-test"))?;
        Ok(if clean { Code::Done } else { Code::Unexpected })
    }
}

impl SelftestReport {
    fn conclude(&mut self) {
        self.processes = self.scenarios.iter().map(|row| row.processes).sum();
        let of_scenarios = self.scenarios.iter().map(|row| row.survivors);
        self.survivors = of_scenarios.chain(self.attacks.iter().map(|row| row.survivors)).sum();
        let all_held = self.attacks.iter().all(|row| row.held)
            && self.promises.iter().all(|row| row.held || !row.claimed);
        self.held = self.survivors == 0 && all_held;
    }
}

/// What does not hold is printed with what happened; the rest as numbers. `--json` has every row.
fn print_promises(out: &mut dyn Write, report: &SelftestReport) -> io::Result<()> {
    if !report.promises.is_empty() {
        writeln!(out, "\n{:<72} {:>9} {:>5} {:>9}", "promise", "attempts", "held", "possible")?;
    }
    for promise in promises::PROMISES {
        let rows: Vec<&PromiseRow> =
            report.promises.iter().filter(|row| row.promise == promise).collect();
        if rows.is_empty() {
            continue;
        }
        let held = rows.iter().filter(|row| row.held).count();
        let open = rows.iter().filter(|row| !row.held && !row.claimed).count();
        let shown: String = promise.chars().take(72).collect();
        writeln!(out, "{shown:<72} {:>9} {held:>5} {open:>9}", rows.len())?;
        for row in rows.iter().filter(|row| !row.held) {
            let mark = if row.claimed { "NOT IN FORCE" } else { "possible" };
            let PromiseRow { attack, session, confined, .. } = row;
            writeln!(out, "  {mark}: {attack}, {session}: {confined}")?;
        }
    }
    Ok(())
}

fn print_attacks(out: &mut dyn Write, report: &SelftestReport) -> io::Result<()> {
    if !report.attacks.is_empty() {
        writeln!(out, "\n{:<48} {:<6} what happened", "attack", "held")?;
    }
    for row in &report.attacks {
        let held = if row.held { "yes" } else { "NO" };
        writeln!(out, "{:<48} {held:<6} {}", row.attack, row.happened)?;
    }
    let (processes, survivors) = (report.processes, report.survivors);
    writeln!(out, "\n{processes} processes started, {survivors} survived.")
}

async fn scenario(rig: &Rig, misbehaviour: Misbehaviour) -> io::Result<Row> {
    let mut spec = rig.spec(misbehaviour, 11, 31);
    shorten(&mut spec, misbehaviour);
    // These two show what happens to a keeper that is lost, which a confined agent cannot reach.
    let confined = !matches!(misbehaviour, Misbehaviour::KillsKeeper | Misbehaviour::StopsKeeper);
    if confined {
        rig.confine(&mut spec);
    }
    let session = spec.session.id;
    let observed = rig
        .observe(spec, &StopHandle::new())
        .await
        .map_err(|error| io::Error::other(error.to_string()))?;
    let name = misbehaviour.to_possible_value();
    Ok(Row {
        scenario: name.map_or_else(String::new, |name| name.get_name().to_owned()),
        confined,
        outcome: observed.end.outcome.to_string(),
        verdicts: verdicts(rig, session),
        processes: observed.births,
        survivors: observed.survivors,
        milliseconds: u64::try_from(observed.end.duration.as_millis()).unwrap_or(u64::MAX),
    })
}

/// Limits under which each scenario shows its effect quickly.
fn shorten(spec: &mut SessionSpec, misbehaviour: Misbehaviour) {
    let limits = &mut spec.limits;
    limits.liveness = Duration::from_millis(100);
    limits.hard = Duration::from_millis(1_500);
    match misbehaviour {
        Misbehaviour::HangBeforeInit => limits.init = Duration::from_millis(500),
        Misbehaviour::PingOnly | Misbehaviour::StuckTool => {
            limits.stall = Duration::from_millis(600);
            limits.hard = Duration::from_secs(10);
        }
        Misbehaviour::BusyQuiet => limits.stall = Duration::from_millis(400),
        Misbehaviour::OutputFlood => limits.hard = Duration::from_secs(30),
        Misbehaviour::ManyChildren => limits.max_processes = 24,
        _ => {}
    }
}

fn verdicts(rig: &Rig, session: SessionId) -> Vec<LiveVerdict> {
    let mut seen: Vec<LiveVerdict> = Vec::new();
    for event in rig.events.events() {
        if let Event::SessionLiveness { session: of, liveness } = event
            && of == session
            && seen.last() != Some(&liveness.verdict)
        {
            seen.push(liveness.verdict);
        }
    }
    seen
}

fn head(out: &mut dyn Write, tier: Tier, shapes: &[(SessionShape, InForce)]) -> io::Result<()> {
    let strength = Strength::of_this_machine();
    writeln!(out, "containment: {tier}{strength}")?;
    writeln!(out, "  {}\n  {}\n", tier.explanation(), strength.explanation())?;
    for (shape, held) in shapes {
        writeln!(out, "a session {}:", shape.name())?;
        for (subject, what) in held.rows() {
            writeln!(out, "  {subject:<13} {what}")?;
        }
    }
    writeln!(out)?;
    writeln!(
        out,
        "{:<24} {:<26} {:>9} {:>9} {:>7}  verdicts",
        "scenario", "outcome", "processes", "survivors", "ms"
    )
}

fn line(out: &mut dyn Write, row: &Row) -> io::Result<()> {
    let verdicts: Vec<String> = row
        .verdicts
        .iter()
        .map(|verdict| {
            serde_json::to_value(verdict)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default()
        })
        .collect();
    writeln!(
        out,
        "{:<24} {:<26} {:>9} {:>9} {:>7}  {}",
        row.scenario,
        row.outcome,
        row.processes,
        row.survivors,
        row.milliseconds,
        verdicts.join(" > ")
    )
}
