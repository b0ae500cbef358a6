//! What single values cannot show: bounds, and values that do not fit together.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::error::{ConfigError, Origin, Problem};
use super::keys;
use super::load::Layered;
use crate::model::Usd;
use crate::schedule::{Schedule, ScheduleError};
use crate::settings::Config;

/// Everything that is wrong with a configuration whose values are each well formed.
pub(super) fn contradictions(config: &Config, layered: &Layered) -> Vec<Problem> {
    let mut rules = Rules { layered, problems: Vec::new() };
    source(&mut rules, config);
    schedule(&mut rules, config);
    agent(&mut rules, config);
    sessions(&mut rules, config);
    limits(&mut rules, config);
    money(&mut rules, config);
    http(&mut rules, config);
    check_log_and_report(&mut rules, config);
    rules.problems
}

struct Rules<'a> {
    layered: &'a Layered,
    problems: Vec<Problem>,
}

impl Rules<'_> {
    /// Refuses one value by itself, unless it was already refused.
    fn require(&mut self, holds: bool, key: &str, allowed: &str) {
        if !holds && !self.layered.refused.contains(key) {
            self.problems.push(Problem::WrongValue {
                place: self.place(key),
                key: key.into(),
                value: self.value(key),
                allowed: allowed.into(),
            });
        }
    }

    /// Refuses two values together, unless one of them was already refused. The message is placed
    /// at the value that is not a default.
    fn agree(&mut self, holds: bool, pair: [&str; 2], reason: &str) {
        let refused: BTreeSet<&str> = self.layered.refused.iter().map(String::as_str).collect();
        if holds || pair.iter().any(|key| refused.contains(key)) {
            return;
        }
        let [key, other] = match pair.map(|key| self.place(key)) {
            [Origin::Default, place] if place != Origin::Default => [pair[1], pair[0]],
            _ => pair,
        };
        self.problems.push(Problem::Contradiction {
            place: self.place(key),
            key: key.into(),
            value: self.value(key),
            others: format!("{other} = {} ({})", self.value(other), self.place(other)),
            reason: reason.into(),
        });
    }

    fn place(&self, key: &str) -> Origin {
        self.layered.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    fn value(&self, key: &str) -> String {
        keys::get(&self.layered.values, key).map(ToString::to_string).unwrap_or_default()
    }
}

fn source(rules: &mut Rules<'_>, config: &Config) {
    let source = &config.source;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    rules.require(
        !source.name.is_empty() && source.name.chars().all(plain),
        "source.name",
        "write a short name of letters, digits, `-`, `_` and `.`",
    );
    rules.require(
        source.base_url.is_empty() || is_collection_address(&source.base_url),
        "source.base_url",
        "write an http or https address without query, such as https://dev.azure.com/contoso",
    );
    rules.agree(
        source.saved_query.is_empty()
            || source.where_clause.is_empty()
            || rules.place("source.where") == Origin::Default,
        ["source.saved_query", "source.where"],
        "a run uses one query; keep one of them and set the other to \"\"",
    );
    rules.agree(
        !source.saved_query.is_empty() || !source.where_clause.trim().is_empty(),
        ["source.where", "source.saved_query"],
        "a run needs a query; set one of them",
    );
    rules.require((1..=200).contains(&source.page_size), "source.page_size", "write 1 to 200");
    positive(rules, source.look_back, "source.look_back");
    positive(rules, source.request_timeout, "source.request_timeout");
    rules.require(source.max_body > 0, "source.max_body", "write a size above zero");
    rules.require(
        is_variable_name_or_empty(&source.token_env),
        "source.token_env",
        "write the name of a variable, not its value",
    );
    rules.require(
        !source.write_back || is_tag(&source.write_back_tag),
        "source.write_back_tag",
        "write one tag without `,` and `;`",
    );
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
    let tracker = config.source.token_env.as_str();
    let leaks = |name: &str| !tracker.is_empty() && name == tracker;
    let reason = "the tracker's credential is never passed to the agent";
    rules.agree(
        !leaks(&agent.credential_env),
        ["agent.credential_env", "source.token_env"],
        reason,
    );
    rules.agree(
        !agent.pass_env.iter().any(|name| leaks(name)),
        ["agent.pass_env", "source.token_env"],
        reason,
    );
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

fn positive(rules: &mut Rules<'_>, duration: Duration, key: &str) {
    rules.require(!duration.is_zero(), key, "write a duration above zero, such as 10m");
}

fn is_collection_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !rest.contains(|c: char| c.is_whitespace() || matches!(c, '?' | '#'))
    })
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_variable_name_or_empty(name: &str) -> bool {
    name.is_empty() || is_variable_name(name)
}

fn is_tag(tag: &str) -> bool {
    !tag.trim().is_empty() && !tag.contains([',', ';'])
}

impl Config {
    /// What a run cannot do without, beyond what every command needs.
    pub fn require_for_run(&self) -> Result<(), ConfigError> {
        let source = &self.source;
        let no_credential = source.token_env.is_empty()
            && source.token_file.as_os_str().is_empty()
            && source.token_command.is_empty();
        let needed = [
            (
                source.base_url.is_empty(),
                "source.base_url",
                "write the address of the organisation, such as https://dev.azure.com/contoso, or \
                 try `--demo`",
            ),
            (source.project.is_empty(), "source.project", "write the project's name"),
            (no_credential, "source.token_env", "set token_env, token_file or token_command"),
            (
                self.repository.path.as_os_str().is_empty(),
                "repository.path",
                "write the folder of the code base that analyses read",
            ),
        ];
        ConfigError::check(
            needed
                .into_iter()
                .filter(|(missing, ..)| *missing)
                .map(|(_, key, reason)| Problem::Needed { key, reason })
                .collect(),
        )
    }
}
