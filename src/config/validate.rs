//! Checks bounds, and values that must fit together.

use std::net::SocketAddr;
use std::time::Duration;

use super::error::{ConfigError, Origin, Problem};
use super::load::Layered;
use super::{agents, credential_files, keys, list, source};
use crate::model::{Field, Stage, Usd};
use crate::schedule::{Schedule, ScheduleError};
use crate::settings::{AgentKind, Config, RouteSettings, WatchedField};

/// Variables that make an agent trust the repository that it reads.
const UNSAFE: [&str; 1] = ["COPILOT_ALLOW_ALL"];

/// The problems of a configuration whose values are well formed one by one.
pub(super) fn contradictions(config: &Config, layered: &Layered) -> Vec<Problem> {
    let mut checker = ConfigChecker { layered, problems: Vec::new() };
    source::check(&mut checker, config);
    credential_files::check(&mut checker, config);
    schedule(&mut checker, config);
    agent(&mut checker, config);
    sessions(&mut checker, config);
    limits(&mut checker, config);
    repository(&mut checker, config);
    ranking(&mut checker, config);
    suggest(&mut checker, config);
    money(&mut checker, config);
    super::rules::check(&mut checker, config);
    http(&mut checker, config);
    fleet(&mut checker, config);
    check_log_and_report(&mut checker, config);
    variables(&mut checker, config);
    checker.problems
}

pub(super) struct ConfigChecker<'a> {
    layered: &'a Layered,
    problems: Vec<Problem>,
}

impl ConfigChecker<'_> {
    /// Rejects one value, unless it is already rejected.
    pub(super) fn require(&mut self, holds: bool, key: &str, allowed: &str) {
        let key = self.written_as(key);
        if !holds && !self.layered.refused.contains(&key) {
            let (place, value) = (self.place(&key), self.value(&key));
            let allowed = allowed.into();
            self.report_once(Problem::WrongValue { place, key, value, allowed });
        }
    }

    /// Rejects two values that conflict, unless one of them is already rejected. The message points
    /// at the value that is not a default.
    pub(super) fn require_consistent(&mut self, holds: bool, pair: [&str; 2], reason: &str) {
        let pair = pair.map(|key| self.written_as(key));
        if holds || pair.iter().any(|key| self.layered.refused.contains(key)) {
            return;
        }
        let [key, other] = match [self.place(&pair[0]), self.place(&pair[1])] {
            [Origin::Default, place] if place != Origin::Default => [&pair[1], &pair[0]],
            _ => [&pair[0], &pair[1]],
        };
        self.report_once(Problem::Contradiction {
            place: self.place(key),
            key: key.clone(),
            value: self.value(key),
            others: format!("{other} = {} ({})", self.value(other), self.place(other)),
            reason: reason.into(),
        });
    }

    /// Whether a value of this entry is already rejected.
    pub(super) fn has_refused(&self, section: &str) -> bool {
        let of_entry = |key: &String| key.strip_prefix(section).is_some_and(|k| k.starts_with('.'));
        self.layered.refused.iter().any(of_entry)
    }

    /// Reports a problem once, even if several entries inherit the value.
    pub(super) fn report_once(&mut self, problem: Problem) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// The key as written: a list entry may inherit the value from its section.
    fn written_as(&self, key: &str) -> String {
        let section = list::documented(key);
        let inherited = self.layered.origins.get(key) == self.layered.origins.get(&section);
        if inherited { section } else { key.to_owned() }
    }

    pub(super) fn place(&self, key: &str) -> Origin {
        self.layered.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    pub(super) fn value(&self, key: &str) -> String {
        // A list entry as a whole is shown only by its position.
        let whole = || if key.contains('.') { String::new() } else { "{…}".to_owned() };
        keys::get(&self.layered.values, key).map_or_else(whole, |value| keys::shown(key, value))
    }
}

fn repository(checker: &mut ConfigChecker<'_>, config: &Config) {
    let name = &config.repository.branch;
    // Nothing that git could take for an option or for two references.
    let is_plain = !name.starts_with(['-', '+', '/'])
        && !name.contains("..")
        && !name.contains(|c: char| c.is_whitespace() || c.is_control() || ":~^?*[\\".contains(c));
    checker.require(is_plain, "repository.ref", "write a branch or a tag, such as main");
    positive(checker, config.repository.fetch_timeout, "repository.fetch_timeout");
    let own = config.source_list.iter().chain([&config.source]).map(|source| &source.routes);
    for (routes, key) in own
        .map(|routes| (routes, "source.routes"))
        .chain([(&config.repository.routes, "repository.routes")])
    {
        let why = routes.iter().find_map(RouteSettings::contradiction);
        checker.require(why.is_none(), key, why.as_deref().unwrap_or_default());
        checker.require_consistent(
            !config.fleet.is_on() || routes.iter().all(|route| route.also.is_empty()),
            [key, "fleet.address"],
            "a host of a fleet gets one code base for a session: run the items of routes with `also` \
             by a heartbeat without [fleet], or leave `also` out",
        );
        checker.require_consistent(
            config.agent_of(Stage::Deep) != AgentKind::Copilot
                || routes.iter().all(|route| route.also.is_empty()),
            [key, if config.analyze.agent.is_some() { "analyze.agent" } else { "agent.kind" }],
            "Copilot trusts the agents and skills in every further folder that it may read: use another \
             agent for analyses, or leave `also` out",
        );
    }
}

fn suggest(checker: &mut ConfigChecker<'_>, config: &Config) {
    let suggest = &config.suggest;
    checker.require(
        (0.5..=1.0).contains(&suggest.min_precision),
        "suggest.min_precision",
        "a share of right suggestions from 0.5 to 1.0",
    );
    checker.require(
        !suggest.write.contains(&Field::Type),
        "suggest.write",
        "\"area\", \"priority\", \"severity\", \"tags\" or \"owner\"; a type is only shown",
    );
    let watched = |field: &Field| {
        config.dedupe.watch.iter().any(|watched| {
            matches!(
                (field, watched),
                (Field::Area, WatchedField::AreaPath)
                    | (Field::Priority, WatchedField::Priority)
                    | (Field::Severity, WatchedField::Severity)
                    | (Field::Tags, WatchedField::Tags)
                    | (Field::Owner, WatchedField::AssignedTo)
            )
        })
    };
    checker.require_consistent(
        !suggest.write.iter().any(watched),
        ["suggest.write", "dedupe.watch"],
        "a field that heartbeat writes must not make its items work again",
    );
}

fn schedule(checker: &mut ConfigChecker<'_>, config: &Config) {
    let schedule = &config.schedule;
    let parsed = Schedule::parse(&schedule.cron, &schedule.timezone);
    match &parsed {
        Ok(parsed) => checker.require_consistent(
            schedule.jitter < parsed.interval_hint(),
            ["schedule.jitter", "schedule.cron"],
            "the delay must be shorter than the time between two runs",
        ),
        Err(error @ ScheduleError::UnknownTimezone { .. }) => {
            checker.require(false, "schedule.timezone", &error.to_string());
            // Reported now, so that a wrong cron does not need a second attempt.
            if let Err(error) = Schedule::parse(&schedule.cron, "UTC") {
                checker.require(false, "schedule.cron", &error.to_string());
            }
        }
        Err(error) => checker.require(false, "schedule.cron", &error.to_string()),
    }
}

fn agent(checker: &mut ConfigChecker<'_>, config: &Config) {
    let agent = &config.agent;
    checker.require(
        agent.command.first().is_some_and(|program| !program.trim().is_empty()),
        "agent.command",
        "put the agent's program first, such as [\"claude\"]",
    );
    checker.require(
        agent.pass_env.iter().all(|name| is_variable_name(name)),
        "agent.pass_env",
        "write names of variables, not their values",
    );
    let refused: Vec<&str> =
        agent.pass_env.iter().map(String::as_str).filter(|n| UNSAFE.contains(n)).collect();
    checker.require(
        refused.is_empty(),
        "agent.pass_env",
        &format!(
            "remove {}: with it, an agent runs code that a repository contains",
            refused.join(" and ")
        ),
    );
    for (model, price) in &agent.price {
        checker.require(
            price.is_sound(),
            "agent.price",
            &format!("the price of {model:?} must be US dollars per million tokens, above zero"),
        );
    }
    agents::other_agents(checker, config);
    let reason = "the tracker's credential is never passed to the agent";
    for (n, source) in config.sources().iter().enumerate() {
        let tracker = format!("{}.token_env", config.source_section(n));
        let leaks = |name: &str| !name.is_empty() && name == source.token_env;
        for kind in AgentKind::ALL {
            let key = format!("{}.credential_env", kind.section());
            checker.require_consistent(
                !leaks(config.credential_env_of(kind)),
                [&key, &tracker],
                reason,
            );
        }
        let passed = agent.pass_env.iter().any(|name| leaks(name));
        checker.require_consistent(!passed, ["agent.pass_env", &tracker], reason);
    }
}

fn sessions(checker: &mut ConfigChecker<'_>, config: &Config) {
    let (triage, analyze, timeouts) = (&config.triage, &config.analyze, &config.timeouts);
    for (duration, key) in [
        (triage.timeout, "triage.timeout"),
        (analyze.timeout, "analyze.timeout"),
        (timeouts.init, "timeouts.init"),
        (timeouts.stall, "timeouts.stall"),
        (timeouts.liveness, "timeouts.liveness"),
    ] {
        positive(checker, duration, key);
    }
    for (count, key) in [
        (triage.max_turns, "triage.max_turns"),
        (triage.max_prompt_tokens, "triage.max_prompt_tokens"),
        (triage.max_item_tokens, "triage.max_item_tokens"),
        (analyze.max_turns, "analyze.max_turns"),
        (analyze.max_item_tokens, "analyze.max_item_tokens"),
    ] {
        checker.require(count >= 1, key, "write 1 or more");
    }
    for (model, key) in [(&triage.model, "triage.model"), (&analyze.model, "analyze.model")] {
        checker.require(!model.trim().is_empty(), key, "write a model's name, such as \"sonnet\"");
    }
    checker.require_consistent(
        triage.max_item_tokens <= triage.max_prompt_tokens,
        ["triage.max_item_tokens", "triage.max_prompt_tokens"],
        "one item would not fit into the prompt; lower max_item_tokens or raise max_prompt_tokens",
    );
    checker.require_consistent(
        timeouts.stall <= analyze.timeout,
        ["timeouts.stall", "analyze.timeout"],
        "a hung session would not be detected before its timeout; make timeouts.stall shorter",
    );
    for (hard, key) in [(triage.timeout, "triage.timeout"), (analyze.timeout, "analyze.timeout")] {
        checker.require_consistent(
            timeouts.init <= hard,
            ["timeouts.init", key],
            "the wait for the first line must be shorter than the session's timeout",
        );
    }
    checker.require_consistent(
        timeouts.liveness <= timeouts.stall,
        ["timeouts.liveness", "timeouts.stall"],
        "the liveness interval must be shorter than the stall time",
    );
}

fn limits(checker: &mut ConfigChecker<'_>, config: &Config) {
    let limits = &config.limits;
    for (count, key) in [
        (limits.max_live_sessions, "limits.max_live_sessions"),
        (limits.max_items_per_run, "limits.max_items_per_run"),
        (limits.max_attempts, "limits.max_attempts"),
        (limits.max_processes, "limits.max_processes"),
    ] {
        checker.require(count >= 1, key, "write 1 or more");
    }
    checker.require(limits.max_memory > 0, "limits.max_memory", "write a size above zero");
    for (load, key) in [
        (limits.max_load_per_core, "limits.max_load_per_core"),
        (limits.unhealthy_load_per_core, "limits.unhealthy_load_per_core"),
    ] {
        checker.require(load.is_finite() && load > 0.0, key, "write a number above zero");
    }
    checker.require(
        (0.0..=100.0).contains(&limits.max_memory_pressure),
        "limits.max_memory_pressure",
        "write a percentage from 0 to 100",
    );
    checker.require((0..=19).contains(&limits.nice), "limits.nice", "write 0 to 19");
    checker.require_consistent(
        limits.run_deadline.is_none_or(|deadline| deadline >= config.shortest_run()),
        ["limits.run_deadline", "analyze.timeout"],
        "a run needs time for one triage, one analysis and about a minute; make the deadline \
         longer or the session timeouts shorter",
    );
    positive(checker, config.state.keep_events, "state.keep_events");
}

fn ranking(checker: &mut ConfigChecker<'_>, config: &Config) {
    let ranking = &config.ranking;
    for (names, key) in
        [(&ranking.prefer, "ranking.prefer"), (&ranking.set_aside, "ranking.set_aside")]
    {
        let is_extension = |name: &String| {
            let name = name.trim_start_matches(['*', '.']);
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "+-_#".contains(c))
        };
        let allowed = "write extensions of files, such as [\"sql\", \"js\"]";
        checker.require(names.iter().all(is_extension), key, allowed);
    }
    let both = ranking.prefer.iter().any(|name| ranking.set_aside.contains(name));
    checker.require_consistent(
        !both,
        ["ranking.prefer", "ranking.set_aside"],
        "a language cannot be both preferred and set aside",
    );
}

fn money(checker: &mut ConfigChecker<'_>, config: &Config) {
    let (triage, analyze, budget) = (&config.triage, &config.analyze, &config.budget);
    for (amount, key) in [
        (triage.max_cost, "triage.max_cost"),
        (analyze.max_cost, "analyze.max_cost"),
        (budget.per_run, "budget.per_run"),
        (budget.per_day, "budget.per_day"),
    ] {
        checker.require(amount > Usd::ZERO, key, "write an amount of US dollars above zero");
    }
    for (cost, key) in
        [(triage.max_cost, "triage.max_cost"), (analyze.max_cost, "analyze.max_cost")]
    {
        checker.require_consistent(
            cost <= budget.per_run,
            [key, "budget.per_run"],
            "no session could ever start; raise the run's budget or lower the session's maximum \
             cost",
        );
    }
    let no_limit_or = |cap: Usd, least: Usd| cap == Usd::ZERO || cap >= least;
    checker.require_consistent(
        no_limit_or(budget.per_month, budget.per_run),
        ["budget.per_month", "budget.per_run"],
        "the budget of a run must not exceed the budget of a month; 0 means no limit",
    );
    for (n, source) in config.sources().iter().enumerate() {
        for (cap, name) in [
            (source.budget_per_day, "budget_per_day"),
            (source.budget_per_month, "budget_per_month"),
        ] {
            checker.require_consistent(
                no_limit_or(cap, analyze.max_cost),
                [&format!("{}.{name}", config.source_section(n)), "analyze.max_cost"],
                "no analysis of this source could ever start; raise it, or write 0 for no limit",
            );
        }
    }
    checker.require_consistent(
        budget.per_run <= budget.per_day,
        ["budget.per_run", "budget.per_day"],
        "the budget of a run must not exceed the budget of a day",
    );
}

fn http(checker: &mut ConfigChecker<'_>, config: &Config) {
    let http = &config.http;
    positive(checker, http.min_interval, "http.min_interval");
    checker.require_consistent(
        http.hooks_env.is_empty() || !http.listen.is_empty(),
        ["http.hooks_env", "http.listen"],
        "events of trackers need an address to arrive at; set http.listen",
    );
    if http.listen.is_empty() {
        return;
    }
    match http.listen.parse::<SocketAddr>() {
        Ok(address) => checker.require_consistent(
            address.ip().is_loopback() || !http.token_env.is_empty(),
            ["http.listen", "http.token_env"],
            "an address that others can reach needs a token; listen on 127.0.0.1, or name the \
             token's variable",
        ),
        Err(_) => checker.require(
            false,
            "http.listen",
            "write an address and a port, such as 127.0.0.1:7878",
        ),
    }
}

/// Without an address there is no fleet, and the other keys are not checked.
fn fleet(checker: &mut ConfigChecker<'_>, config: &Config) {
    let fleet = &config.fleet;
    let plain = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let name = "write a short name of letters, digits, `-`, `_` and `.`";
    checker.require(!fleet.pool.is_empty() && plain(&fleet.pool), "fleet.pool", name);
    checker.require(plain(&fleet.host), "fleet.host", name);
    checker.require(
        fleet.mirrors.iter().all(|mirror| !mirror.name.is_empty() && plain(&mirror.name)),
        "fleet.mirrors",
        "give every mirror a name of letters, digits, `-`, `_` and `.`",
    );
    if !fleet.is_on() {
        return;
    }
    checker.require(!fleet.namespace.is_empty(), "fleet.namespace", "write the namespace's name");
    checker.require(
        !fleet.key_file.as_os_str().is_empty(),
        "fleet.key_file",
        "name a file for the key of this process; it is made at the first start",
    );
    let is_key = |text: &String| {
        use base64::Engine as _;
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        decoded.is_ok_and(|bytes| bytes.len() == 32)
    };
    let copy = "copy the public key as printed by `heartbeat worker --public-key`: 44 characters";
    checker.require(fleet.coordinator.iter().all(is_key), "fleet.coordinator", copy);
    checker.require(fleet.workers.values().all(is_key), "fleet.workers", copy);
    checker.require(
        fleet.workers.keys().all(|host| plain(host.strip_suffix('*').unwrap_or(host))),
        "fleet.workers",
        name,
    );
    checker.require(
        fleet.lease >= Duration::from_secs(5),
        "fleet.lease",
        "write 5s or more; a minute or more is usual",
    );
    checker.require_consistent(
        fleet.lease / 2 > config.timeouts.grace,
        ["fleet.lease", "timeouts.grace"],
        "a host needs the grace period to end its sessions before the lease expires; the lease \
         must be more than twice the grace",
    );
    checker.require_consistent(
        fleet.tls_cert_file.as_os_str().is_empty() == fleet.tls_key_file.as_os_str().is_empty(),
        ["fleet.tls_cert_file", "fleet.tls_key_file"],
        "a certificate needs its key; set both or none",
    );
}

fn check_log_and_report(checker: &mut ConfigChecker<'_>, config: &Config) {
    checker.require(
        config.log.max_size >= 64 * 1024,
        "log.max_size",
        "write a size of 64 KiB or more",
    );
    checker.require(config.log.keep <= 1000, "log.keep", "write 0 to 1000");
    let digest = &config.report.digest;
    checker.require(
        digest.is_empty() || Schedule::parse(digest, &config.schedule.timezone).is_ok(),
        "report.digest",
        "write a cron expression such as \"0 8 * * *\", or \"\" for none",
    );
    let public = &config.http.public_url;
    checker.require(
        public.is_empty() || source::is_collection_address(public),
        "http.public_url",
        "write an http or https address without query, such as https://heartbeat.contoso.test",
    );
    checker.require(
        config.report.dir.as_os_str().is_empty() || !config.report.formats.is_empty(),
        "report.formats",
        "write at least one of \"md\", \"html\" and \"json\"",
    );
}

/// Keys that hold the name of a variable, and never a secret.
fn variables(checker: &mut ConfigChecker<'_>, config: &Config) {
    for (name, key) in [
        (&config.agent.credential_env, "agent.credential_env"),
        (&config.codex.credential_env, "codex.credential_env"),
        (&config.copilot.credential_env, "copilot.credential_env"),
        (&config.http.token_env, "http.token_env"),
        (&config.http.hooks_env, "http.hooks_env"),
        (&config.fleet.api_key_env, "fleet.api_key_env"),
        (&config.report.webhook_env, "report.webhook_env"),
        (&config.monitor.ping_env, "monitor.ping_env"),
    ] {
        let is_name = is_variable_name_or_empty(name);
        checker.require(is_name, key, "write the name of a variable, not its value");
    }
}

pub(super) fn positive(checker: &mut ConfigChecker<'_>, duration: Duration, key: &str) {
    checker.require(!duration.is_zero(), key, "write a duration above zero, such as 10m");
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
    /// Checks what a run requires beyond other commands.
    pub fn require_for_run(&self) -> Result<(), ConfigError> {
        let repository = (
            self.repository.path.as_os_str().is_empty() && self.needs_default_code_base(),
            "repository.path".to_owned(),
            "write the path of the code base that analyses read",
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
