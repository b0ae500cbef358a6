//! Loads a configuration from real files: layers, locations, suggestions, and all problems at once.

use std::path::{Path, PathBuf};

use heartbeat::config::{
    self, ConfigError, FlagValue, LoadRequest, Loaded, Origin, Reload, Reloader, render_init, show,
};
use heartbeat::settings::{Config, Environment};
use proptest::prelude::*;
use toml::Value;

/// A folder with a home and a working directory, and the start options.
pub struct Place {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
    flags: Vec<FlagValue>,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["work", "home/.config/heartbeat"] {
            std::fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        Self { folder, variables: Vec::new(), flags: Vec::new() }
    }

    pub fn with_file(text: &str) -> Self {
        let place = Self::new();
        place.write("work/heartbeat.toml", text);
        place
    }

    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn flag(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.flags.push(FlagValue { key: key.into(), value: value.into(), flag: "--test".into() });
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn request(&self) -> LoadRequest {
        let home = ("HOME".to_owned(), self.path("home").display().to_string());
        LoadRequest {
            discover: heartbeat::config::Discover::UsualPlaces,
            explicit: None,
            environment: Environment::new(self.variables.iter().cloned().chain([home])),
            cwd: self.path("work"),
            flags: self.flags.clone(),
        }
    }

    pub fn load(&self) -> Result<Loaded, ConfigError> {
        config::load(&self.request())
    }

    /// The problems, with the folder's name removed.
    fn problems(&self) -> Vec<String> {
        let here = format!("{}/", self.folder.path().display());
        let error = self.load().expect_err("this configuration is wrong");
        error.problems.iter().map(|p| p.to_string().replace(&here, "")).collect()
    }

    pub fn problem(&self) -> String {
        let problems = self.problems();
        assert_eq!(problems.len(), 1, "{problems:#?}");
        problems.into_iter().next().unwrap()
    }
}

pub fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn without_a_file_the_defaults_are_in_force() {
    let loaded = Place::new().load().unwrap();
    assert_eq!(loaded.file, None);
    assert!(loaded.origins.values().all(|origin| *origin == Origin::Default));
    assert_eq!(loaded.config, toml::from_str(config::DEFAULT_TOML).unwrap());
}

#[test]
fn the_file_is_found_in_order() {
    let place = Place::new().set("HEARTBEAT_CONFIG", "../by-variable.toml");
    let name = |source: &str| format!("[source]\nname = \"{source}\"\n");
    place.write("by-flag.toml", &name("flag"));
    place.write("by-variable.toml", &name("variable"));
    place.write("work/heartbeat.toml", &name("here"));
    place.write("home/.config/heartbeat/heartbeat.toml", &name("home"));

    let mut request = place.request();
    request.explicit = Some("../by-flag.toml".into());
    assert_eq!(config::load(&request).unwrap().config.source.name, "flag");
    request.explicit = None;
    assert_eq!(config::load(&request).unwrap().config.source.name, "variable");
    let place = Place { variables: Vec::new(), ..place };
    assert_eq!(place.load().unwrap().config.source.name, "here");
    std::fs::remove_file(place.path("work/heartbeat.toml")).unwrap();
    assert_eq!(place.load().unwrap().config.source.name, "home");
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let place = Place::with_file("[limits]\nmax_live_sessions = 5\nnice = 1\nmax_attempts = 7\n")
        .set("HEARTBEAT_LIMITS__MAX_LIVE_SESSIONS", "6")
        .set("HEARTBEAT_LIMITS__NICE", "2")
        .flag("limits.max_live_sessions", 7);
    let loaded = place.load().unwrap();
    let limits = &loaded.config.limits;
    assert_eq!((limits.max_live_sessions, limits.nice, limits.max_attempts), (7, 2, 7));
    let origin = |key: &str| loaded.origins[key].to_string();
    assert_eq!(origin("limits.max_live_sessions"), "flag --test");
    assert_eq!(origin("limits.nice"), "environment variable HEARTBEAT_LIMITS__NICE");
    assert!(origin("limits.max_attempts").ends_with("work/heartbeat.toml:4:16"));
    assert_eq!(origin("limits.max_processes"), "built-in default");
}

#[test]
fn variables_are_read_by_the_type_of_the_key() {
    let loaded = Place::new()
        .set("HEARTBEAT_SOURCE__WRITE_BACK", "true")
        .set("HEARTBEAT_BUDGET__PER_RUN", "7")
        .set("HEARTBEAT_AGENT__PASS_ENV", "HTTPS_PROXY, NO_PROXY")
        .set("HEARTBEAT_AGENT__COMMAND", "[\"claude\", \"--debug,x\"]")
        .set("HEARTBEAT_REPOSITORY__ROUTES", "[{ area = \"A\", path = \"/a\" }]")
        .set("HEARTBEAT_TRIAGE__TIMEOUT", "3m")
        .set("HEARTBEAT_SERVICE_HOST", "10.0.0.1")
        .set("HEARTBEAT_PORT_80_TCP", "tcp://10.0.0.1:80")
        .load()
        .unwrap();
    assert!(loaded.config.source.write_back);
    assert_eq!(loaded.config.budget.per_run.dollars(), 7.0);
    assert_eq!(loaded.config.agent.pass_env, ["HTTPS_PROXY", "NO_PROXY"]);
    assert_eq!(loaded.config.agent.command, ["claude", "--debug,x"]);
    assert_eq!(loaded.config.repository.routes[0].path, Path::new("/a"));
    assert_eq!(loaded.config.triage.timeout.as_secs(), 180);
}

#[test]
fn relative_paths_start_at_the_file_that_names_them() {
    let place = Place::with_file(
        "[repository]\npath = \"code\"\n[agent]\ncommand = [\"./agent\", \"./x\"]\n[state]\ndir = \"~/s\"\n",
    )
    .set("HEARTBEAT_PROMPTS__DEEP_USER", "deep.txt");
    let mut request = place.request();
    request.explicit = Some(place.path("work/heartbeat.toml"));
    request.cwd = "/elsewhere".into();
    let config = config::load(&request).unwrap().config;
    assert_eq!(config.repository.path, place.path("work/code"));
    assert_eq!(config.agent.command, [place.path("work/./agent").to_str().unwrap(), "./x"]);
    assert_eq!(config.state.dir, place.path("home/s"));
    assert_eq!(config.prompts.deep_user, Path::new("/elsewhere/deep.txt"));
    assert_eq!(config.source.token_file, Path::new(""));
}

#[test]
fn every_problem_is_reported_at_once_with_its_place() {
    let place = Place::with_file(concat!(
        "[souce]\n",
        "name = \"x\"\n",
        "[limits]\n",
        "max_sessions = 3\n",
        "nice = \"high\"\n",
        "max_live_sessions = 0\n",
        "[source]\n",
        "auth = \"patt\"\n",
        "look_back = \"10 parsecs\"\n",
        "comments = -1\n",
    ))
    .set("HEARTBEAT_BUDGET__PER_RUM", "1")
    .set("HEARTBEAT_LOG_LEVEL", "debug");
    let problems = place.problems();
    let expected: [&[&str]; 9] = [
        &["work/heartbeat.toml:1:2", "unknown section `[souce]`", "did you mean `source`?"],
        &[
            "work/heartbeat.toml:4:1",
            "unknown key `limits.max_sessions`",
            "`limits.max_live_sessions`?",
        ],
        &["work/heartbeat.toml:5:8", "limits.nice = \"high\"", "a whole number, such as 10"],
        &["work/heartbeat.toml:6:21", "limits.max_live_sessions = 0", "1 or more"],
        &["work/heartbeat.toml:8:8", "\"pat\" or \"bearer\" or \"app\"", "did you mean `pat`?"],
        &["work/heartbeat.toml:9:13", "source.look_back = \"10 parsecs\"", "90s, 10m, 2h or 7d"],
        &["work/heartbeat.toml:10:12", "source.comments = -1", "from 0 to 4294967295"],
        &["HEARTBEAT_BUDGET__PER_RUM", "did you mean `HEARTBEAT_BUDGET__PER_RUN`?"],
        &["HEARTBEAT_LOG_LEVEL", "did you mean `HEARTBEAT_LOG__LEVEL`?"],
    ];
    for (problem, parts) in problems.iter().zip(expected) {
        contains(problem, parts);
    }
    assert_eq!(problems.len(), 9, "{problems:#?}");
}

#[test]
fn a_key_above_the_first_section_is_reported_with_its_section() {
    contains(&Place::with_file("cron = \"* * * * *\"\n").problem(), &["`schedule.cron`?", ":1:1"]);
    contains(
        &Place::with_file("[log]\ncron = \"x\"\n").problem(),
        &["`log.cron`", "`schedule.cron`?"],
    );
    contains(&Place::with_file("log = 3\n").problem(), &["`log` is a section", ":1:1"]);
}

#[test]
fn files_that_cannot_be_read_say_why() {
    let place = Place::new().set("HEARTBEAT_CONFIG", "gone.toml");
    contains(&place.problem(), &["work/gone.toml", "$HEARTBEAT_CONFIG", "heartbeat init"]);
    let place = Place::new().set("HEARTBEAT_CONFIG", ".");
    contains(&place.problem(), &["it is a folder"]);
    let place = Place::new();
    std::fs::write(place.path("work/heartbeat.toml"), b"[log]\n# \xff\n").unwrap();
    contains(&place.problem(), &["line 2 is not UTF-8"]);
    let place = Place::with_file(&"#\n".repeat(1 << 20));
    contains(&place.problem(), &["2097152 bytes", "not a configuration"]);
    let place = Place::with_file("[log\nlevel = \"info\"\n[source]\nname = = 3\n");
    let problems = place.problems();
    contains(&problems[0], &["work/heartbeat.toml:1:5", "invalid TOML"]);
    assert!(problems.iter().any(|problem| problem.contains(":4:")), "{problems:#?}");
    let place = Place::with_file("[log]\nlevel = \"info\"\nlevel = \"debug\"\n");
    contains(&place.problem(), &["heartbeat.toml:3:1", "duplicate key"]);
    // The parser of values refuses what the syntax allows: one problem, not one per section.
    let place = Place::with_file(
        "[log]\nlevel = \"info\"\n[limits]\nmax_deep_per_run = 99999999999999999999\n",
    );
    let problems = place.problems();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    contains(&problems[0], &["heartbeat.toml:4:20"]);
}

#[test]
fn an_unreadable_file_is_an_error_and_not_skipped() {
    let place = Place::new();
    // A link to itself cannot be opened, not even by root.
    let file = place.path("work/heartbeat.toml");
    std::os::unix::fs::symlink(&file, &file).unwrap();
    place.write("home/.config/heartbeat/heartbeat.toml", "");
    contains(
        &place.problem(),
        &["work/heartbeat.toml", "cannot read the file", "make it readable"],
    );
}

#[test]
fn values_that_do_not_fit_together_are_refused() {
    let cases: [(&str, &[&str]); 15] = [
        ("[analyze]\nmax_cost = 6.5\n", &["analyze.max_cost = 6.5", "budget.per_run = 5.0 (built"]),
        ("[budget]\nper_run = 0.3\n", &["budget.per_run = 0.3", "analyze.max_cost = 0.5 (built"]),
        (
            "[budget]\nper_run = 30\n",
            &["budget.per_day = 20.0", "must not exceed the budget of a day"],
        ),
        ("[budget]\nper_day = nan\n", &["budget.per_day = nan", "above zero"]),
        ("[timeouts]\nstall = \"11m\"\n", &["timeouts.stall = \"11m\"", "analyze.timeout"]),
        ("[timeouts]\ninit = \"6m\"\n", &["timeouts.init", "triage.timeout = \"5m\""]),
        (
            "[source]\nsaved_query = \"Shared Queries/x\"\nwhere = \"[a] = 1\"\n",
            &["source.saved_query", "source.where", "keep one of them"],
        ),
        ("[schedule]\ncron = \"0 0 30 2 *\"\n", &["schedule.cron", "never fires", ":2:8"]),
        ("[schedule]\ncron = \"every day\"\n", &["schedule.cron", "five fields"]),
        ("[schedule]\ntimezone = \"Berlin\"\n", &["did you mean `Europe/Berlin`?"]),
        ("[schedule]\njitter = \"30m\"\n", &["schedule.jitter", "schedule.cron"]),
        ("[http]\nlisten = \"0.0.0.0:80\"\n", &["http.listen", "needs a token"]),
        ("[agent]\npass_env = [\"AZURE_DEVOPS_PAT\"]\n", &["agent.pass_env", "never passed"]),
        ("[agent]\ncommand = []\n", &["agent.command = []", "the agent's program first"]),
        (
            "[limits]\nrun_deadline = \"1m\"\n",
            &["limits.run_deadline", "conflicts with analyze.timeout"],
        ),
    ];
    for (file, parts) in cases {
        let problems = Place::with_file(file).problems();
        contains(&problems.join("\n"), parts);
        contains(&problems.join("\n"), &["work/heartbeat.toml:"]);
    }
}

#[test]
fn the_default_condition_gives_way_to_a_saved_query() {
    let place = Place::with_file("[source]\nsaved_query = \"Shared Queries/x\"\n");
    assert!(place.load().is_ok());
}

#[test]
fn a_key_of_another_kind_of_tracker_is_refused_where_it_is_written() {
    for (kind, key, value, meant) in [
        ("github", "team", "\"Web\"", "kind = \"ado\""),
        ("github", "saved_query", "\"x\"", "kind = \"ado\" or \"jira\""),
        ("ado", "user", "\"ann@contoso.com\"", "kind = \"jira\""),
        ("jira", "area_labels", "[\"area/\"]", "kind = \"github\""),
        ("jira", "path", "\"items.jsonl\"", "kind = \"file\""),
    ] {
        let text = format!("[source]\nkind = {kind:?}\nwhere = \"\"\n{key} = {value}\n");
        let problems = Place::with_file(&text).problems().join("\n");
        contains(&problems, &["heartbeat.toml:4:", &format!("source.{key}"), meant, "remove it"]);
    }
    // An entry of the list is refused for what it says itself, not for what it inherits.
    let shared =
        "[source]\nuser = \"ann@contoso.com\"\n[[sources]]\nname = \"gh\"\nkind = \"github\"\n";
    let text = format!("{shared}project = \"a/b\"\nteam = \"Web\"\n");
    let problems = Place::with_file(&text).problems().join("\n");
    contains(&problems, &["heartbeat.toml:7:", "team"]);
    assert!(!problems.contains("is for kind = \"jira\""), "{problems}");
}

#[test]
fn secrets_are_refused_and_never_repeated() {
    let token = "abcdefghijklm234567nopqrstuvwxyzabcdefghijklm2345672";
    let files = [
        format!("[source]\ntoken_env = \"{token}\"\n"),
        format!("[source]\n# pat: {token}\n"),
        format!("[source]\ntoken = \"{token}\"\n"),
        format!("[source]\nauth = \"{token}\"\n"),
        format!("[source]\nname = = \"{token}\"\n"),
    ];
    for file in files {
        let text = Place::with_file(&file).problems().join("\n");
        contains(&text, &["an Azure DevOps token", "heartbeat.toml:2:"]);
        assert!(!text.contains(token), "{text}");
    }
    let text = Place::new().set("HEARTBEAT_SOURCE__TOKEN_ENV", token).problem();
    contains(&text, &["HEARTBEAT_SOURCE__TOKEN_ENV", "an Azure DevOps token"]);
    assert!(!text.contains(token));
    contains(&Place::with_file("[source]\npassword = \"x\"\n").problem(), &["token_file"]);
}

/// No known kind of credential, and no name of a variable.
#[test]
fn a_value_that_is_not_the_name_of_a_variable_is_never_repeated() {
    let secret = "q8Zr+tt0/k3Wm-9fLx";
    let agent = "[agent]\nkind = \"codex\"\n[triage]\nmodel = \"m\"\n[analyze]\nmodel = \"m\"\n";
    let files = [
        ("source.token_env", format!("[source]\ntoken_env = \"{secret}\"\n")),
        ("source.token_env", format!("[source]\ntoken_env = [\"{secret}\"]\n")),
        ("sources[1].token_env", format!("[[sources]]\nname = \"a\"\ntoken_env = \"{secret}\"\n")),
        ("agent.credential_env", format!("[agent]\ncredential_env = \"{secret}\"\n")),
        ("agent.pass_env", format!("[agent]\npass_env = [\"HOME\", \"{secret}\"]\n")),
        ("codex.credential_env", format!("{agent}[codex]\ncredential_env = \"{secret}\"\n")),
        ("report.webhook_env", format!("[report]\nwebhook_env = \"{secret}\"\n")),
        ("http.token_env", format!("[http]\ntoken_env = \"{secret}\"\n")),
        ("fleet.api_key_env", format!("[fleet]\napi_key_env = \"{secret}\"\n")),
    ];
    for (key, file) in files {
        let text = Place::with_file(&file).problems().join("\n");
        contains(&text, &[key, "characters, not shown", "heartbeat.toml:"]);
        assert!(!text.contains(secret), "{text}");
    }
    let text = Place::new().set("HEARTBEAT_HTTP__TOKEN_ENV", secret).problem();
    contains(&text, &["http.token_env", "(18 characters, not shown)", "the name of a variable"]);
    assert!(!text.contains(secret), "{text}");
}

#[test]
fn a_file_with_a_credential_is_outside_every_code_base() {
    let place = Place::new();
    for folder in ["code/sub", "web", "safe"] {
        std::fs::create_dir_all(place.path(folder)).unwrap();
    }
    place.write("safe/pat", "x");
    place.write("code/sub/pat", "x");
    std::os::unix::fs::symlink(place.path("code"), place.path("link")).unwrap();
    std::os::unix::fs::symlink(place.path("code/sub/pat"), place.path("safe/link")).unwrap();
    let with = |file: &str| {
        let routes = "routes = [{ area = \"A\", path = \"../web\" }]";
        place.write(
            "work/heartbeat.toml",
            &format!("[repository]\npath = \"../code\"\n{routes}\n[source]\n{file}\n"),
        );
    };
    for file in ["code/sub/pat", "safe/link", "link/sub/pat", "safe/../code/new", "web/pat"] {
        with(&format!("token_file = \"../{file}\""));
        let text = place.problem();
        contains(&text, &["source.token_file", "inside the code base", "move the file out of it"]);
    }
    for file in ["safe/pat", "codes/pat", "missing/pat"] {
        with(&format!("token_file = \"../{file}\""));
        assert!(place.load().is_ok(), "{file}");
    }
    with("repository = \"../safe\"\ntoken_file = \"../safe/pat\"");
    contains(&place.problem(), &["source.token_file", "inside the code base"]);
}

#[test]
fn only_a_run_needs_a_source() {
    let needs = Place::new().load().unwrap().config.require_for_run().unwrap_err().to_string();
    contains(&needs, &["source.base_url", "--demo", "source.project", "repository.path"]);
    let place = Place::with_file(
        "[source]\nbase_url = \"https://dev.azure.com/contoso\"\nproject = \"x\"\n[repository]\npath = \".\"\n",
    );
    assert_eq!(place.load().unwrap().config.require_for_run(), Ok(()));
}

#[test]
fn a_broken_edit_keeps_the_last_good_configuration() {
    let place = Place::with_file("[log]\nlevel = \"warn\"\n");
    let reloader = Reloader::start(place.request()).unwrap();
    let first = reloader.current().clone();

    place.write("work/heartbeat.toml", "# a comment changes nothing\n[log]\nlevel = \"warn\"\n");
    assert!(matches!(reloader.look(), Ok(Reload::Unchanged)));
    for broken in ["[log]\nlevel = \"loud\"\n", "[log"] {
        place.write("work/heartbeat.toml", broken);
        assert!(reloader.look().is_err());
        assert_eq!(reloader.current().config, first.config);
    }
    std::fs::remove_file(place.path("work/heartbeat.toml")).unwrap();
    assert!(reloader.look().is_err(), "a deleted file must not bring back the defaults");

    place.write("work/heartbeat.toml", "[log]\nlevel = \"warn\"\n[http]\nlisten = \"[::1]:0\"\n");
    for _ in 0..2 {
        let Ok(Reload::Changed(changed)) = reloader.look() else { panic!("it has changed") };
        assert_eq!(changed.keys, ["http.listen"], "and stays so until it is kept");
        assert_eq!(changed.need_restart, ["http.listen"]);
        assert_eq!(reloader.current().config, first.config);
    }
}

#[test]
fn a_key_that_needs_a_restart_is_named_until_it_has_its_first_value_again() {
    let place = Place::with_file("[log]\nlevel = \"warn\"\n");
    let mut reloader = Reloader::start(place.request()).unwrap();
    let mut edit = |text: &str| {
        place.write("work/heartbeat.toml", text);
        let Ok(Reload::Changed(changed)) = reloader.look() else { panic!("it has changed") };
        reloader.keep(changed.loaded.clone());
        (changed.keys, changed.need_restart)
    };
    let both = ["log.level".to_owned()];
    assert_eq!(edit("[log]\nlevel = \"debug\"\n"), (both.to_vec(), both.to_vec()));
    let more = "[log]\nlevel = \"debug\"\n[limits]\nmax_deep_per_run = 3\n";
    assert_eq!(edit(more), (vec!["limits.max_deep_per_run".to_owned()], both.to_vec()));
    let keys = vec!["limits.max_deep_per_run".to_owned(), "log.level".to_owned()];
    assert_eq!(edit("[log]\nlevel = \"warn\"\n"), (keys, vec![]));
}

#[test]
fn every_key_is_listed_with_its_origin() {
    let place = Place::with_file("[log]\nlevel = \"warn\"\n");
    let listed = show::values(&place.load().unwrap());
    let defaults: toml::Table = config::DEFAULT_TOML.parse().unwrap();
    let keys: usize = defaults.values().map(|section| section.as_table().unwrap().len()).sum();
    assert_eq!(listed.len(), keys);
    let text = show::render(&listed, show::WithOrigin::Yes);
    contains(
        &text,
        &["log.level = \"warn\"  # ", "heartbeat.toml:2:9", "log.format = \"human\"  # built"],
    );
}

#[test]
fn the_written_file_loads_and_keeps_its_comments() {
    let answers = [
        ("source.base_url".to_owned(), Value::from("https://dev.azure.com/contoso")),
        ("source.text_fields".to_owned(), Value::from(vec!["System.Description"])),
        ("budget.per_day".to_owned(), Value::from(50.0)),
    ];
    let text = render_init(&answers).unwrap();
    let comments = |text: &str| text.lines().filter(|line| line.starts_with('#')).count();
    assert_eq!(comments(&text), comments(config::DEFAULT_TOML));
    let config = Place::with_file(&text).load().unwrap().config;
    assert_eq!(config.source.base_url, "https://dev.azure.com/contoso");
    assert_eq!(config.source.text_fields, ["System.Description"]);
    assert_eq!(config.budget.per_day.dollars(), 50.0);
    assert_eq!(render_init(&[]).unwrap(), config::DEFAULT_TOML);
    let wrong = render_init(&[("source.base".to_owned(), Value::from("x"))]).unwrap_err();
    contains(&wrong.to_string(), &["unknown key `source.base`", "did you mean `source.base_url`?"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_answer_survives_the_written_file(project in "\\PC{0,40}", team in "[\"'\\\\\n\r\t#=\\[\\]]{0,12}") {
        let answers = [
            ("source.project".to_owned(), Value::from(project.as_str())),
            ("source.team".to_owned(), Value::from(team.as_str())),
        ];
        let text = render_init(&answers).unwrap();
        let config: Config = toml::from_str(&text).unwrap();
        prop_assert_eq!(config.source.project, project);
        prop_assert_eq!(config.source.team, team);
    }

    #[test]
    fn no_file_makes_loading_panic(text in "(\\[[a-z.]{0,8}\\]?\n|[a-z]{1,6} ?= ?[\"0-9a-z\\[{.]{0,8}\n|\\PC{0,20}\n){0,8}") {
        let place = Place::with_file(&text);
        if let Err(error) = place.load() {
            prop_assert!(!error.problems.is_empty());
        }
    }
}

/// As `heartbeat config --schema` prints it.
#[test]
fn the_schema_for_editors_knows_every_key() {
    let schema = config::schema::schema();
    let defaults: toml::Table = config::DEFAULT_TOML.parse().unwrap();
    for (section, keys) in &defaults {
        for (key, value) in keys.as_table().unwrap() {
            let known = &schema["properties"][section]["properties"][key];
            let kind = match value {
                toml::Value::String(_) => "string",
                toml::Value::Integer(_) => "integer",
                toml::Value::Float(_) => "number",
                toml::Value::Boolean(_) => "boolean",
                toml::Value::Array(_) => "array",
                _ => "object",
            };
            assert_eq!(known["type"], kind, "{section}.{key}");
            if let (Some(choices), Some(text)) = (known["enum"].as_array(), value.as_str()) {
                assert!(
                    choices.iter().any(|choice| choice == text),
                    "{section}.{key}: {choices:?}"
                );
            }
        }
    }
    // Committed, so that an editor finds it by its address.
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/heartbeat.toml.schema.json");
    let text = format!("{schema:#}\n");
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test says so")]
    if std::env::var("HEARTBEAT_TEST_SCHEMAS").is_ok_and(|value| value == "write") {
        std::fs::write(file, &text).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    assert!(committed == text, "HEARTBEAT_TEST_SCHEMAS=write writes {file} anew");
    let of = |section: &str, key: &str| &schema["properties"][section]["properties"][key];
    assert_eq!(of("agent", "kind")["enum"], serde_json::json!(["claude", "codex", "copilot"]));
    assert!(of("order", "by")["items"]["enum"].as_array().unwrap().len() > 3);
    assert!(of("schedule", "cron")["description"].as_str().unwrap().starts_with("Five fields"));
    let rules = &schema["properties"]["rules"]["items"]["properties"];
    assert_eq!(rules["priority"]["items"]["type"], "integer");
}

/// A backslash in double quotes is an escape: what an area looks like in the file is not what it is.
#[test]
fn a_backslash_is_explained_where_it_would_become_a_riddle() {
    let problem = |text: &str| Place::with_file(text).load().unwrap_err().to_string();
    let torn = r#"[source]
where = "[System.AreaPath] UNDER 'Parcel\tracking'"
"#;
    for (text, key) in [
        (torn, "source.where"),
        ("[source]\nareas = [\"Parcel\\fast\"]\n", "source.areas"),
        ("[source]\nnot_tags = [\"a\\nb\"]\n", "source.not_tags"),
    ] {
        let said = problem(text);
        assert!(said.contains(key) && said.contains("single quotes"), "{said}");
    }
    let said = problem("[source]\nareas = [\"Parcel\\Rates\"]\n");
    assert!(said.contains("invalid TOML") && said.contains("single quotes"), "{said}");
    let right = "[source]\nareas = ['Parcel\\tracking']\nwhere = \"\"\"\n\t[A] = 'x'\n\"\"\"\n";
    assert_eq!(Place::with_file(right).load().unwrap().config.source.areas, [r"Parcel\tracking"]);
    let both = problem("[source]\nsaved_query = \"x\"\ntypes = [\"Bug\"]\n");
    assert!(both.contains("a saved query has its own conditions"), "{both}");
}
