//! Tests of `heartbeat init`.

use std::path::Path;

use toml::Value;

use super::init::{InitArgs, ask, check_absent, check_repository, run, should_prompt};
use crate::config::FlagValue;
use crate::settings::Environment;

fn no_answers() -> InitArgs {
    InitArgs {
        kind: None,
        base_url: None,
        project: None,
        types: None,
        areas: None,
        states: None,
        tags: None,
        also: Vec::new(),
        repository: None,
        cron: None,
        timezone: None,
        first_run: None,
        dashboard: None,
        agent: None,
        model: None,
        budget: None,
        print: false,
        force: false,
    }
}

fn file_of(args: &InitArgs) -> String {
    let args = InitArgs { print: true, ..args.clone() };
    run(&args, &[], Path::new("/nowhere")).unwrap().text.unwrap()
}

fn talk(words: &str) -> (InitArgs, String) {
    let mut said = Vec::new();
    let nobody = |_: &_| Err("nobody is there".to_owned());
    let args = ask(&no_answers(), &mut words.as_bytes(), &mut said, nobody).unwrap();
    (args, String::from_utf8(said).unwrap())
}

#[test]
fn good_answers_make_a_file_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let words = format!(
        "https://dev.azure.com/contoso\nParcel\n{}\n0 7 * * 1-5\nEurope/Berlin\n",
        folder.path().display()
    );
    let (args, _) = talk(&words);
    let text = file_of(&args);
    let config: crate::settings::Config = toml::from_str(&text).unwrap();
    assert_eq!(config.source.project, "Parcel");
    assert_eq!(config.schedule.timezone, "Europe/Berlin");
    assert_eq!(config.repository.path, folder.path().canonicalize().unwrap());
}

#[test]
fn the_first_run_the_dashboard_and_the_budget_are_asked_for() {
    let (args, said) = talk("https://x\nP\n.\n\nUTC\nall\nprocess\nyes\noff\nmuch\n3.5\n");
    let config: crate::settings::Config = toml::from_str(&file_of(&args)).unwrap();
    assert_eq!(config.schedule.first_run, crate::settings::FirstRun::Process);
    assert_eq!(config.http.listen, "");
    let limits = (config.budget.per_day.dollars(), config.budget.per_run.dollars());
    assert_eq!(limits, (3.5, 3.5), "a run cannot spend more than a day");
    for part in ["write baseline, process or ask", "write an address", "write an amount"] {
        assert!(said.contains(part), "{said}");
    }
    let (other, said) = talk("https://x\nP\n.\n\nUTC\n\noff\n\ngemini\ncopilot\ngpt-5.6-sol\n");
    assert!(said.contains("write claude, codex or copilot"), "{said}");
    let config: crate::settings::Config = toml::from_str(&file_of(&other)).unwrap();
    assert_eq!(config.agent.kind, crate::settings::AgentKind::Copilot);
    assert_eq!((&*config.triage.model, &*config.analyze.model), ("gpt-5.6-sol", "gpt-5.6-sol"));
    let (usual, _) = talk("https://x\nP\n.\n\nUTC\n\n\n\n");
    let config: crate::settings::Config = toml::from_str(&file_of(&usual)).unwrap();
    assert_eq!(config.http.listen, "127.0.0.1:7979");
    assert_eq!(config.schedule.first_run, crate::settings::FirstRun::Baseline);
}

/// The keys' own defaults would abort a service's first run every half hour, without a dashboard to
/// see it on.
#[test]
fn flags_alone_lead_to_a_service_that_runs_and_can_be_looked_at() {
    let flags = InitArgs {
        base_url: Some("https://dev.azure.com/contoso".into()),
        project: Some("Parcel".into()),
        ..no_answers()
    };
    let config: crate::settings::Config = toml::from_str(&file_of(&flags)).unwrap();
    assert_eq!(config.schedule.first_run, crate::settings::FirstRun::Baseline);
    assert_eq!(config.http.listen, "127.0.0.1:7979");
    let other = InitArgs { first_run: Some("ask".into()), dashboard: Some("off".into()), ..flags };
    let config: crate::settings::Config = toml::from_str(&file_of(&other)).unwrap();
    assert_eq!(config.schedule.first_run, crate::settings::FirstRun::Ask);
    assert_eq!(config.http.listen, "");
}

#[test]
fn an_address_of_github_makes_a_file_for_it() {
    for (address, github) in [
        ("https://api.github.com", true),
        ("https://code.contoso.com/api/v3", true),
        ("https://contoso.ghe.com", true),
        ("https://dev.azure.com/contoso", false),
    ] {
        let (args, said) = talk(&format!("{address}\ncontoso/shop\n.\n\nUTC\n\n\n\n"));
        assert_eq!(said.contains("owner/repository"), github, "{said}");
        let config: crate::settings::Config = toml::from_str(&file_of(&args)).unwrap();
        let is_github = config.source.kind == crate::settings::SourceKind::Github;
        assert_eq!(is_github, github, "{address}");
        assert_eq!(config.source.token_env == "GITHUB_TOKEN", github);
        assert_eq!(config.source.where_clause.is_empty(), github);
    }
}

#[test]
fn an_address_of_jira_makes_a_file_for_it() {
    for address in ["https://contoso.atlassian.net", "https://contoso.com/jira"] {
        let (args, said) = talk(&format!("{address}\nSHOP\n.\n\nUTC\n\n\n\n"));
        assert!(said.contains("such as SHOP"), "{said}");
        let config: crate::settings::Config = toml::from_str(&file_of(&args)).unwrap();
        assert_eq!(config.source.kind, crate::settings::SourceKind::Jira);
        assert_eq!(config.source.token_env, "JIRA_TOKEN");
        assert_eq!(config.source.where_clause, "statusCategory != Done");
    }
}

#[test]
fn further_sources_are_asked_for_and_make_a_file_that_loads() {
    let words = "https://dev.azure.com/contoso\nShop\n.\n\nUTC\n\n\n\n\n\
                 nonsense\nhttps://api.github.com\ncontoso/shop\n\
                 jira:https://tracker.contoso.com\nSHOP\n\n";
    let (args, said) = talk(words);
    for part in ["as owner/repository", "such as SHOP", "a URL starts with https://"] {
        assert!(said.contains(part), "{said}");
    }
    let written = run(&InitArgs { print: true, ..args }, &[], Path::new("/nowhere")).unwrap();
    assert_eq!(written.tracker, "AZURE_DEVOPS_PAT, GITHUB_TOKEN, JIRA_TOKEN");
    assert_eq!(written.still_to_set, Vec::<String>::new());
    let text = written.text.unwrap();
    assert_eq!(text.matches("[[sources]]\nname").count(), 3, "{text}");
    // The same by flags.
    let also =
        ["https://api.github.com", "contoso/shop", "jira:https://tracker.contoso.com", "SHOP"];
    let flags = InitArgs {
        base_url: Some("https://dev.azure.com/contoso".into()),
        project: Some("Shop".into()),
        also: also.map(str::to_owned).to_vec(),
        ..no_answers()
    };
    let entries = |text: &str| text.split_once("\n# The sources.").unwrap().1.to_owned();
    assert_eq!(entries(&file_of(&flags)), entries(&text));
    assert!(!should_prompt(&flags));
}

#[test]
fn a_bad_answer_is_asked_again_with_the_reason() {
    let (args, said) = talk("contoso\nhttps://x\n\n/no/such/folder\n.\nevery day\n\nMars/Base\n");
    assert_eq!(args.base_url.as_deref(), Some("https://x"));
    assert_eq!((args.project, args.timezone), (None, None));
    assert_eq!(args.cron.as_deref(), Some("*/30 * * * *"));
    assert!(said.contains("a URL starts with https://"), "{said}");
    assert!(said.contains("/no/such/folder is not a folder"), "{said}");
    assert!(said.contains("Mars/Base"), "{said}");
}

#[test]
fn flags_are_held_to_the_same_rules_and_end_up_in_the_file() {
    let path = Path::new("/nowhere");
    for (args, word) in [
        (InitArgs { base_url: Some("contoso".into()), ..no_answers() }, "--base-url"),
        (InitArgs { cron: Some("daily".into()), ..no_answers() }, "--cron"),
        (InitArgs { timezone: Some("Mars/X".into()), ..no_answers() }, "--timezone"),
    ] {
        let refused = run(&args, &[], path).unwrap_err().to_string();
        assert!(refused.contains(word), "{refused}");
    }
    let two = FlagValue {
        key: "limits.max_live_sessions".into(),
        value: Value::Integer(2),
        flag: "--set".into(),
    };
    let text = run(&InitArgs { print: true, ..no_answers() }, &[two], path).unwrap();
    assert!(text.render().contains("max_live_sessions = 2"), "{text:?}");
}

#[test]
fn all_four_filters_are_asked_for_and_end_up_in_the_file() {
    let words = "https://dev.azure.com/contoso\nP\n.\n\nUTC\n\n\n\n\n\n\
                 Bug, Task\nNew\nParcel\\Web\nurgent\n";
    let (args, said) = talk(words);
    assert!(said.contains("what there is cannot be shown: nobody is there"), "{said}");
    let config: crate::settings::Config = toml::from_str(&file_of(&args)).unwrap();
    let source = config.source;
    assert_eq!((source.types, source.states), (names(&["Bug", "Task"]), names(&["New"])));
    assert_eq!((source.areas, source.tags), (names(&["Parcel\\Web"]), names(&["urgent"])));
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn flags_are_not_asked_for() {
    assert!(should_prompt(&no_answers()));
    assert!(!should_prompt(&InitArgs { project: Some("P".into()), ..no_answers() }));
    assert!(!should_prompt(&InitArgs { print: true, ..no_answers() }));
}

fn github(address: &str, project: Option<&str>) -> InitArgs {
    InitArgs { base_url: Some(address.into()), project: project.map(str::to_owned), ..no_answers() }
}

#[test]
fn the_name_of_a_source_fits_its_kind() {
    for (address, project, name) in [
        ("https://api.github.com", "contoso/shop", "github"),
        ("https://contoso.atlassian.net", "SHOP", "jira"),
        ("https://dev.azure.com/contoso", "Shop", "ado"),
    ] {
        let text = file_of(&github(address, Some(project)));
        let config: crate::settings::Config = toml::from_str(&text).unwrap();
        assert_eq!(config.source.name, name, "{address}");
    }
    let named = FlagValue {
        key: "source.name".into(),
        value: Value::String("shop".into()),
        flag: "--set".into(),
    };
    let args = InitArgs { print: true, ..github("https://api.github.com", Some("contoso/shop")) };
    let text = run(&args, &[named], Path::new("/nowhere")).unwrap().text.unwrap();
    assert!(text.contains("\nname = \"shop\"\n"), "{text}");
}

#[test]
fn the_page_of_a_repository_becomes_the_address_of_the_api() {
    for (address, project, expected) in [
        ("https://github.com/contoso/shop", None, "contoso/shop"),
        ("https://www.github.com/contoso/shop.git", None, "contoso/shop"),
        ("https://GitHub.com/contoso/shop/issues?q=is%3Aopen", None, "contoso/shop"),
        ("https://api.github.com/repos/contoso/shop", None, "contoso/shop"),
        ("https://github.com/contoso/shop", Some("Contoso/Shop"), "Contoso/Shop"),
        ("https://github.com/contoso", Some("shop"), "contoso/shop"),
        ("https://github.com/orgs/contoso/repositories", None, "contoso"),
        ("https://github.com", Some("contoso/shop,contoso/cart"), "contoso/shop,contoso/cart"),
    ] {
        let text = file_of(&github(address, project));
        let config: crate::settings::Config = toml::from_str(&text).unwrap();
        let source = (config.source.base_url.as_str(), config.source.project.as_str());
        assert_eq!(source, ("https://api.github.com", expected), "{address}");
    }
    let other = run(
        &github("https://github.com/contoso/shop", Some("contoso/cart")),
        &[],
        Path::new("/nowhere"),
    );
    let refused = other.unwrap_err().to_string();
    assert!(refused.contains("contoso/shop") && refused.contains("contoso/cart"), "{refused}");
    // The address of another host says too little.
    for address in ["https://github.contoso.com/contoso/shop", "https://contoso.ghe.com/a/b"] {
        assert!(file_of(&github(address, Some("a/b"))).contains(address), "{address}");
    }
}

#[test]
fn the_page_of_a_repository_answers_the_question_for_the_project() {
    let words = "https://github.com/contoso/shop\n.\n\nUTC\n\n\n\n\n\
                 https://github.com/contoso/cart\n\n";
    let (args, said) = talk(words);
    assert!(!said.contains("as owner/repository"), "{said}");
    assert!(said.contains("https://api.github.com and project contoso/shop"), "{said}");
    assert_eq!(args.base_url.as_deref(), Some("https://api.github.com"));
    assert_eq!(args.project.as_deref(), Some("contoso/shop"));
    assert_eq!(args.also, ["https://api.github.com", "contoso/cart"]);
}

#[test]
fn github_needs_a_project() {
    let (args, said) = talk("https://api.github.com\n\n \nnot a/repo/sitory\ncontoso/shop\n");
    assert_eq!(args.project.as_deref(), Some("contoso/shop"));
    assert_eq!(said.matches("write owner/repository").count(), 3, "{said}");
    let also = ["https://api.github.com", " "].map(str::to_owned).to_vec();
    for args in [
        github("https://api.github.com", Some("")),
        github("https://github.com", Some(" ")),
        github("https://api.github.com", Some("a/b/c")),
        InitArgs { also, ..no_answers() },
    ] {
        let refused = run(&InitArgs { print: true, ..args }, &[], Path::new("/nowhere"));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("write owner/repository"), "{refused}");
    }
}

#[test]
fn a_code_base_that_does_not_exist_and_a_file_that_does_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("code")).unwrap();
    let file = folder.path().join("heartbeat.toml");
    let home = Environment::new([("HOME", folder.path())]);
    for (repository, exists) in
        [("/nonexistent", false), ("~/code", true), ("code", true), ("~/x", false)]
    {
        let args = InitArgs { repository: Some(repository.into()), ..no_answers() };
        let checked = check_repository(&args, &file, &home);
        assert_eq!(checked.is_ok(), exists, "{repository}: {checked:?}");
    }
    check_absent(&no_answers(), &file).unwrap();
    std::fs::write(&file, "").unwrap();
    let refused = check_absent(&no_answers(), &file).unwrap_err().to_string();
    assert!(refused.contains("already exists") && refused.contains("--force"), "{refused}");
    check_absent(&InitArgs { force: true, ..no_answers() }, &file).unwrap();
    check_absent(&InitArgs { print: true, ..no_answers() }, &file).unwrap();
}

#[test]
fn force_does_not_write_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (target, link) = (folder.path().join("target"), folder.path().join("heartbeat.toml"));
    std::fs::write(&target, "kept").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let forced = InitArgs { force: true, ..no_answers() };
    let refused = run(&forced, &[], &link).unwrap_err().to_string();
    assert!(refused.contains("not a regular file"), "{refused}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    std::fs::remove_file(&link).unwrap();
    run(&forced, &[], &link).unwrap();
    run(&forced, &[], &link).unwrap();
    assert!(std::fs::read_to_string(&link).unwrap().contains("[source]"));
}
