//! What single values cannot show: bounds, and values that do not fit together.

use std::net::SocketAddr;
use std::time::Duration;

use super::error::{ConfigError, Origin, Problem};
use super::load::Layered;
use super::{agents, keys, list, source};
use crate::model::Usd;
use crate::schedule::{Schedule, ScheduleError};
use crate::settings::{AgentKind, Config};

/// Variables that make an agent trust the repository it reads.
const UNSAFE: [&str; 1] = ["COPILOT_ALLOW_ALL"];

/// Everything that is wrong with a configuration whose values are each well formed.
pub(super) fn contradictions(config: &Config, layered: &Layered) -> Vec<Problem> {
    let mut rules = Rules { layered, problems: Vec::new() };
    source::check(&mut rules, config);
    schedule(&mut rules, config);
    agent(&mut rules, config);
    sessions(&mut rules, config);
    limits(&mut rules, config);
    money(&mut rules, config);
    super::rules::check(&mut rules, config);
    http(&mut rules, config);
    fleet(&mut rules, config);
    check_log_and_report(&mut rules, config);
    rules.problems
}

pub(super) struct Rules<'a> {
    layered: &'a Layered,
    problems: Vec<Problem>,
}

impl Rules<'_> {
    /// Refuses one value by itself, unless it was already refused.
    pub(super) fn require(&mut self, holds: bool, key: &str, allowed: &str) {
        let key = self.written_as(key);
        if !holds && !self.layered.refused.contains(&key) {
            let (place, value) = (self.place(&key), self.value(&key));
            let allowed = allowed.into();
            self.tell(Problem::WrongValue { place, key, value, allowed });
        }
    }

    /// Refuses two values together, unless one of them was already refused. The message is placed
    /// at the value that is not a default.
    pub(super) fn agree(&mut self, holds: bool, pair: [&str; 2], reason: &str) {
        let pair = pair.map(|key| self.written_as(key));
        if holds || pair.iter().any(|key| self.layered.refused.contains(key)) {
            return;
        }
        let [key, other] = match [self.place(&pair[0]), self.place(&pair[1])] {
            [Origin::Default, place] if place != Origin::Default => [&pair[1], &pair[0]],
            _ => [&pair[0], &pair[1]],
        };
        self.tell(Problem::Contradiction {
            place: self.place(key),
            key: key.clone(),
            value: self.value(key),
            others: format!("{other} = {} ({})", self.value(other), self.place(other)),
            reason: reason.into(),
        });
    }

    /// Whether a value of this entry was refused already.
    pub(super) fn has_refused(&self, section: &str) -> bool {
        let of_entry = |key: &String| key.strip_prefix(section).is_some_and(|k| k.starts_with('.'));
        self.layered.refused.iter().any(of_entry)
    }

    /// What several entries inherit is told once.
    pub(super) fn tell(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The key where the value was written: an entry of a list may have it from its section.
    fn written_as(&self, key: &str) -> String {
        let section = list::documented(key);
        let inherited = self.layered.origins.get(key) == self.layered.origins.get(&section);
        if inherited { section } else { key.to_owned() }
    }

    pub(super) fn place(&self, key: &str) -> Origin {
        self.layered.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    pub(super) fn value(&self, key: &str) -> String {
        // Of an entry of a list as a whole only its place is told.
        let whole = || if key.contains('.') { String::new() } else { "{…}".to_owned() };
        keys::get(&self.layered.values, key).map_or_else(whole, ToString::to_string)
    }
}

fn schedule(rules: &mut Rules<'_>, config: &Config) {
    let schedule = &config.schedule;
    let parsed = Schedule::parse(&schedule.cron, &schedule.timezone);
    match &parsed {
        Ok(parsed) => rules.agree(
            schedule.jitter < parsed.interval_hint(),
            ["schedule.jitter", "schedule.cron"],
            "the delay must be shorter than the time between two runs",
        ),
        Err(error @ ScheduleError::UnknownTimezone { .. }) => {
            rules.require(false, "schedule.timezone", &error.to_string());
            // A cron that is wrong as well should not wait for the next attempt.
            if let Err(error) = Schedule::parse(&schedule.cron, "UTC") {
                rules.require(false, "schedule.cron", &error.to_string());
            }
        }
        Err(error) => rules.require(false, "schedule.cron", &error.to_string()),
    }
}

fn agent(rules: &mut Rules<'_>, config: &Config) {
    let agent = &config.agent;
    rules.require(
        agent.command.first().is_some_and(|program| !program.trim().is_empty()),
        "agent.command",
        "write the agent's program first, such as [\"claude\"]",
    );
    rules.require(
        is_variable_name_or_empty(&agent.credential_env),
        "agent.credential_env",
        "write the name of a variable, not its value",
    );
    rules.require(
        agent.pass_env.iter().all(|name| is_variable_name(name)),
        "agent.pass_env",
        "write names of variables, not their values",
    );
    let refused: Vec<&str> =
        agent.pass_env.iter().map(String::as_str).filter(|n| UNSAFE.contains(n)).collect();
    rules.require(
        refused.is_empty(),
        "agent.pass_env",
        &format!(
            "take out {}: with it an agent runs what a repository brings",
            refused.join(" and ")
        ),
    );
    for (model, price) in &agent.price {
        rules.require(
            price.is_sound(),
            "agent.price",
            &format!("the price of {model:?} must be US dollars per million tokens, above zero"),
        );
    }
    agents::other_agents(rules, config);
    let reason = "the tracker's credential is never passed to the agent";
    for (n, source) in config.sources().iter().enumerate() {
        let tracker = format!("{}.token_env", config.source_section(n));
        let leaks = |name: &str| !name.is_empty() && name == source.token_env;
        for kind in AgentKind::ALL {
            let key = format!("{}.credential_env", kind.section());
            rules.agree(!leaks(config.credential_env_of(kind)), [&key, &tracker], reason);
        }
        let passed = agent.pass_env.iter().any(|name| leaks(name));
        rules.agree(!passed, ["agent.pass_env", &tracker], reason);
    }
}

fn sessions(rules: &mut Rules<'_>, config: &Config) {
    let (triage, analyze, timeouts) = (&config.triage, &config.analyze, &config.timeouts);
    for (duration, key) in [
        (triage.timeout, "triage.timeout"),
        (analyze.timeout, "analyze.timeout"),
        (timeouts.init, "timeouts.init"),
        (timeouts.stall, "timeouts.stall"),
        (timeouts.liveness, "timeouts.liveness"),
    ] {
        positive(rules, duration, key);
    }
    for (count, key) in [
        (triage.max_turns, "triage.max_turns"),
        (triage.max_prompt_tokens, "triage.max_prompt_tokens"),
        (triage.max_item_tokens, "triage.max_item_tokens"),
        (analyze.max_turns, "analyze.max_turns"),
        (analyze.max_item_tokens, "analyze.max_item_tokens"),
    ] {
        rules.require(count >= 1, key, "write 1 or more");
    }
    for (model, key) in [(&triage.model, "triage.model"), (&analyze.model, "analyze.model")] {
        rules.require(!model.trim().is_empty(), key, "write a model's name, such as \"sonnet\"");
    }
    rules.agree(
        triage.max_item_tokens <= triage.max_prompt_tokens,
        ["triage.max_item_tokens", "triage.max_prompt_tokens"],
        "one item would not fit into the prompt",
    );
    rules.agree(
        timeouts.stall <= analyze.timeout,
        ["timeouts.stall", "analyze.timeout"],
        "a hung session would not be detected before its timeout; make the stall shorter",
    );
    for (hard, key) in [(triage.timeout, "triage.timeout"), (analyze.timeout, "analyze.timeout")] {
        rules.agree(
            timeouts.init <= hard,
            ["timeouts.init", key],
            "the wait for the first line must be shorter than the session's timeout",
        );
    }
    rules.agree(
        timeouts.liveness <= timeouts.stall,
        ["timeouts.liveness", "timeouts.stall"],
        "the liveness interval must be shorter than the stall time",
    );
}

fn limits(rules: &mut Rules<'_>, config: &Config) {
    let limits = &config.limits;
    for (count, key) in [
        (limits.max_live_sessions, "limits.max_live_sessions"),
        (limits.max_items_per_run, "limits.max_items_per_run"),
        (limits.max_attempts, "limits.max_attempts"),
        (limits.max_processes, "limits.max_processes"),
    ] {
        rules.require(count >= 1, key, "write 1 or more");
    }
    rules.require(limits.max_memory > 0, "limits.max_memory", "write a size above zero");
    for (load, key) in [
        (limits.max_load_per_core, "limits.max_load_per_core"),
        (limits.unhealthy_load_per_core, "limits.unhealthy_load_per_core"),
    ] {
        rules.require(load.is_finite() && load > 0.0, key, "write a number above zero");
    }
    rules.require(
        (0.0..=100.0).contains(&limits.max_memory_pressure),
        "limits.max_memory_pressure",
        "write a percentage from 0 to 100",
    );
    rules.require((0..=19).contains(&limits.nice), "limits.nice", "write 0 to 19");
    rules.agree(
        limits.run_deadline.is_none_or(|deadline| deadline >= config.shortest_run()),
        ["limits.run_deadline", "analyze.timeout"],
        "a run needs time for one triage, one analysis and about a minute; make the deadline \
         longer or the session timeouts shorter",
    );
    positive(rules, config.state.keep_events, "state.keep_events");
}

fn money(rules: &mut Rules<'_>, config: &Config) {
    let (triage, analyze, budget) = (&config.triage, &config.analyze, &config.budget);
    for (amount, key) in [
        (triage.max_cost, "triage.max_cost"),
        (analyze.max_cost, "analyze.max_cost"),
        (budget.per_run, "budget.per_run"),
        (budget.per_day, "budget.per_day"),
    ] {
        rules.require(amount > Usd::ZERO, key, "write an amount of US dollars above zero");
    }
    for (cost, key) in
        [(triage.max_cost, "triage.max_cost"), (analyze.max_cost, "analyze.max_cost")]
    {
        rules.agree(
            cost <= budget.per_run,
            [key, "budget.per_run"],
            "no session could ever start; raise the run's budget or lower the session's maximum \
             maximum",
        );
    }
    let no_limit_or = |cap: Usd, least: Usd| cap == Usd::ZERO || cap >= least;
    rules.agree(
        no_limit_or(budget.per_month, budget.per_run),
        ["budget.per_month", "budget.per_run"],
        "the budget of a run must not exceed the budget of a month; 0 sets none",
    );
    for (n, source) in config.sources().iter().enumerate() {
        for (cap, name) in [
            (source.budget_per_day, "budget_per_day"),
            (source.budget_per_month, "budget_per_month"),
        ] {
            rules.agree(
                no_limit_or(cap, analyze.max_cost),
                [&format!("{}.{name}", config.source_section(n)), "analyze.max_cost"],
                "no analysis of this source could ever start; raise it, or write 0 for no limit",
            );
        }
    }
    rules.agree(
        budget.per_run <= budget.per_day,
        ["budget.per_run", "budget.per_day"],
        "the budget of a run must not exceed the budget of a day",
    );
}

fn http(rules: &mut Rules<'_>, config: &Config) {
    let http = &config.http;
    rules.require(
        is_variable_name_or_empty(&http.token_env),
        "http.token_env",
        "write the name of a variable, not its value",
    );
    if http.listen.is_empty() {
        return;
    }
    match http.listen.parse::<SocketAddr>() {
        Ok(address) => rules.agree(
            address.ip().is_loopback() || !http.token_env.is_empty(),
            ["http.listen", "http.token_env"],
            "an address that others can reach needs a token; listen on 127.0.0.1, or name the \
             token's variable",
        ),
        Err(_) => rules.require(
            false,
            "http.listen",
            "write an address and a port, such as 127.0.0.1:7878",
        ),
    }
}

/// Only what is used is judged: without an address there is no fleet.
fn fleet(rules: &mut Rules<'_>, config: &Config) {
    let fleet = &config.fleet;
    let plain = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let name = "write a short name of letters, digits, `-`, `_` and `.`";
    rules.require(!fleet.pool.is_empty() && plain(&fleet.pool), "fleet.pool", name);
    rules.require(plain(&fleet.host), "fleet.host", name);
    rules.require(
        is_variable_name_or_empty(&fleet.api_key_env),
        "fleet.api_key_env",
        "write the name of a variable, not its value",
    );
    rules.require(
        fleet.mirrors.iter().all(|mirror| !mirror.name.is_empty() && plain(&mirror.name)),
        "fleet.mirrors",
        "give every mirror a name of letters, digits, `-`, `_` and `.`",
    );
    if !fleet.is_on() {
        return;
    }
    rules.require(!fleet.namespace.is_empty(), "fleet.namespace", "write the namespace's name");
    rules.require(
        !fleet.key_file.as_os_str().is_empty(),
        "fleet.key_file",
        "write the file with the fleet's key (`openssl rand -base64 32`), the same on every host",
    );
    rules.require(
        fleet.lease >= Duration::from_secs(5),
        "fleet.lease",
        "write 5s or more; a minute or more is usual",
    );
    rules.agree(
        fleet.lease / 2 > config.timeouts.grace,
        ["fleet.lease", "timeouts.grace"],
        "a host needs the grace to end its sessions before the server gives them up; the lease \
         must be more than twice the grace",
    );
    rules.agree(
        fleet.tls_cert_file.as_os_str().is_empty() == fleet.tls_key_file.as_os_str().is_empty(),
        ["fleet.tls_cert_file", "fleet.tls_key_file"],
        "a certificate needs its key; set both or none",
    );
}

fn check_log_and_report(rules: &mut Rules<'_>, config: &Config) {
    rules.require(
        config.log.max_size >= 64 * 1024,
        "log.max_size",
        "write a size of 64 KiB or more",
    );
    rules.require(config.log.keep <= 1000, "log.keep", "write 0 to 1000");
    rules.require(
        is_variable_name_or_empty(&config.report.webhook_env),
        "report.webhook_env",
        "write the name of a variable, not its value",
    );
    rules.require(
        config.report.dir.as_os_str().is_empty() || !config.report.formats.is_empty(),
        "report.formats",
        "write at least one of \"md\", \"html\" and \"json\"",
    );
}

pub(super) fn positive(rules: &mut Rules<'_>, duration: Duration, key: &str) {
    rules.require(!duration.is_zero(), key, "write a duration above zero, such as 10m");
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(super) fn is_variable_name_or_empty(name: &str) -> bool {
    name.is_empty() || is_variable_name(name)
}

impl Config {
    /// What a run cannot do without, beyond what every command needs.
    pub fn require_for_run(&self) -> Result<(), ConfigError> {
        let repository = (
            self.repository.path.as_os_str().is_empty() && self.needs_default_code_base(),
            "repository.path".to_owned(),
            "write the folder of the code base that analyses read",
        );
        let needed = source::needed(self).into_iter().chain([repository]);
        ConfigError::check(
            needed
                .filter(|(missing, ..)| *missing)
                .map(|(_, key, reason)| Problem::Needed { key, reason })
                .collect(),
        )
    }
}
