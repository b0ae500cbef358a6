//! Validates the sources, each and all together.

use super::error::{Origin, Problem};
use super::validate::{ConfigChecker, is_variable_name_or_empty, positive};
use crate::schedule::Schedule;
use crate::settings::{Config, Source, SourceAuth, SourceKind};

pub(super) fn check(checker: &mut ConfigChecker<'_>, config: &Config) {
    for (n, source) in config.sources().iter().enumerate() {
        one(checker, source, &config.source_section(n));
        let schedule = &source.schedule;
        checker.require(
            schedule.is_empty() || Schedule::parse(schedule, &config.schedule.timezone).is_ok(),
            &format!("{}.schedule", config.source_section(n)),
            "write a cron expression such as \"0 6 * * *\", or \"\" for every run",
        );
        different_names(checker, config, n);
    }
}

fn one(checker: &mut ConfigChecker<'_>, source: &Source, section: &str) {
    let key = |name: &str| format!("{section}.{name}");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    checker.require(
        !source.name.is_empty() && source.name.chars().all(plain),
        &key("name"),
        "write a short name of letters, digits, `-`, `_` and `.`",
    );
    checker.require(
        source.base_url.is_empty() || is_collection_address(&source.base_url),
        &key("base_url"),
        "write an http or https address without query, such as https://dev.azure.com/contoso",
    );
    let (query, saved) = (key("where"), key("saved_query"));
    checker.require_consistent(
        source.saved_query.is_empty()
            || source.where_clause.is_empty()
            || checker.place(&query) == Origin::Default,
        [&saved, &query],
        "a run uses one query; keep one of them and set the other to \"\"",
    );
    checker.require_consistent(
        source.kind != SourceKind::Ado
            || !source.saved_query.is_empty()
            || !source.where_clause.trim().is_empty(),
        [&query, &saved],
        "a run needs a query; set one of them",
    );
    filters(checker, source, section);
    checker.require_consistent(
        source.auth != SourceAuth::App
            || (source.kind == SourceKind::Github && !source.app_id.trim().is_empty()),
        [&key("auth"), &key("app_id")],
        "\"app\" is for kind = \"github\" and needs the client id or app id in app_id",
    );
    of_kind(checker, source, section);
    checker.require_consistent(
        source.kind != SourceKind::File || !source.write_back,
        [&key("write_back"), &key("kind")],
        "a file cannot be written to; set write_back = false",
    );
    checker.require((1..=200).contains(&source.page_size), &key("page_size"), "write 1 to 200");
    positive(checker, source.look_back, &key("look_back"));
    positive(checker, source.request_timeout, &key("request_timeout"));
    checker.require(source.max_body > 0, &key("max_body"), "write a size above zero");
    checker.require(
        is_variable_name_or_empty(&source.token_env),
        &key("token_env"),
        "write the name of a variable, not its value",
    );
    commands(checker, source, section);
    checker.require(
        !source.write_back || is_tag(&source.write_back_tag),
        &key("write_back_tag"),
        "write one tag without `,` and `;`",
    );
}

/// Keys that only some kinds of trackers have. Keys that all but a file have are not listed: a file
/// ignores them.
const OF_KIND: [(&str, &[SourceKind], &str); 10] = {
    use SourceKind::{Ado, File, Github, Jira};
    [
        ("path", &[File], "a code base is [repository] path"),
        ("team", &[Ado], "other trackers have no teams"),
        ("saved_query", &[Ado, Jira], "use where, or the filters areas, types, states and tags"),
        ("user", &[Jira], "other trackers need no name beside the token"),
        ("app_id", &[Github], "other trackers have no Apps"),
        ("area_labels", &[Github], "areas are the tracker's own area paths or components"),
        ("severity_labels", &[Github], "the tracker's own severity is used"),
        ("priority_labels", &[Github, Jira], "the tracker's own priority is used"),
        ("api_version", &[Ado, Github], "the version follows the kind of Jira"),
        ("text_fields", &[Ado, Jira, File], "an issue has one text"),
    ]
};

/// Refuses a key of another kind where it is written. What an entry inherits from `[source]` may
/// be meant for another entry, and a file that lists every key has those of other kinds with their
/// defaults.
fn of_kind(checker: &mut ConfigChecker<'_>, source: &Source, section: &str) {
    let written = toml::Table::try_from(source).unwrap_or_default();
    let default: toml::Table = toml::from_str(super::DEFAULT_TOML).unwrap_or_default();
    let default = default.get("source");
    for (name, kinds, instead) in OF_KIND {
        let is_default = default.and_then(|source| source.get(name)) == written.get(name);
        let key = format!("{section}.{name}");
        let place = checker.place(&key);
        let inherited = section != "source" && place == checker.place(&format!("source.{name}"));
        let names: Vec<String> =
            kinds.iter().map(|kind| format!("{:?}", kind.into_str())).collect();
        checker.require_consistent(
            kinds.contains(&source.kind) || inherited || is_default || place == Origin::Default,
            [&key, &format!("{section}.kind")],
            &format!("{name} is for kind = {}; remove it: {instead}", names.join(" or ")),
        );
    }
}

fn filters(checker: &mut ConfigChecker<'_>, source: &Source, section: &str) {
    let key = |name: &str| format!("{section}.{name}");
    for (name, names) in source.filters() {
        checker.require_consistent(
            names.is_empty() || source.saved_query.is_empty(),
            [&key(name), &key("saved_query")],
            "a saved query has its own conditions; write the filter into it, or use where",
        );
        checker.require(
            names.iter().all(|name| !name.trim().is_empty() && is_one_line(name)),
            &key(name),
            NOT_ONE_LINE,
        );
    }
    checker.require(!has_torn_text(&source.where_clause), &key("where"), NOT_ONE_LINE);
}

fn commands(checker: &mut ConfigChecker<'_>, source: &Source, section: &str) {
    let key = |name: &str| format!("{section}.{name}");
    checker.require_consistent(
        !source.commands || source.write_back,
        [&key("commands"), &key("write_back")],
        "a command is answered by a comment; set write_back = true",
    );
    checker.require_consistent(
        !source.commands || source.comments > 0,
        [&key("commands"), &key("comments")],
        "commands are read from the newest comments; set comments to 5 or so",
    );
}

/// Items are stored under the name of their source, so names must differ.
fn different_names(checker: &mut ConfigChecker<'_>, config: &Config, position: usize) {
    let sources = config.sources();
    let Some(source) = sources.get(position) else { return };
    let before = sources.iter().take(position);
    let same = before.enumerate().find(|(_, other)| other.name.eq_ignore_ascii_case(&source.name));
    if let Some((other, _)) = same {
        let [this, other] = [position, other].map(|n| config.source_section(n));
        let key = format!("{this}.name");
        let own = checker.place(&key);
        let place = if own == checker.place("source.name") { checker.place(&this) } else { own };
        checker.report_once(Problem::WrongValue {
            place,
            value: checker.value(&key),
            key,
            allowed: format!(
                "{other} has the same name, and the state identifies a source's items by its name; \
                 give each source a different name"
            ),
        });
    }
}

/// What a run requires: whether it is missing, its key, and what to write.
pub(super) fn needed(config: &Config) -> Vec<(bool, String, &'static str)> {
    let of = |(n, source): (usize, &Source)| {
        let section = config.source_section(n);
        let is_file = source.kind == SourceKind::File;
        [
            (
                is_file && source.path.as_os_str().is_empty(),
                format!("{section}.path"),
                "write the path of a file with one JSON object per item and line, or of a folder of \
                 such files",
            ),
            (
                !is_file && source.base_url.is_empty(),
                format!("{section}.base_url"),
                "write the address of the organisation, such as https://dev.azure.com/contoso, or \
                 try `--demo`",
            ),
            (
                !is_file && source.project.is_empty(),
                format!("{section}.project"),
                match source.kind {
                    SourceKind::Ado | SourceKind::File => "write the project's name",
                    SourceKind::Github => "write owner/repository, or the owner for all of them",
                    SourceKind::Jira => "write the key of the project, such as SHOP",
                },
            ),
            (
                !source.has_credential_location(),
                format!("{section}.token_env"),
                "set token_env, token_file or token_command",
            ),
        ]
    };
    config.sources().iter().enumerate().flat_map(of).collect()
}

pub(super) fn is_collection_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        let host = rest.split('/').next().unwrap_or_default();
        !host.is_empty() && !rest.contains(|c: char| c.is_whitespace() || matches!(c, '?' | '#'))
    })
}

const NOT_ONE_LINE: &str = "a text contains a tab or another control character: in \"double \
    quotes\" TOML reads \\t as a tab and \\b, \\f, \\n, \\r likewise; write the text in 'single \
    quotes', or double each backslash";

pub(super) fn is_one_line(text: &str) -> bool {
    !text.contains(char::is_control)
}

/// Whether a quoted text within a condition has a control character, which no name has.
fn has_torn_text(condition: &str) -> bool {
    let mut quote = None;
    for character in condition.chars() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (Some(_), character) if character.is_control() => return true,
            _ => {}
        }
    }
    false
}

fn is_tag(tag: &str) -> bool {
    !tag.trim().is_empty() && !tag.contains([',', ';'])
}
