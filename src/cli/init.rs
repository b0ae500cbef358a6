//! `heartbeat init`: writes a commented configuration.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;

use super::confirm::confirm;
use super::error::CommandError;
use super::init_checks::{
    OFF, check_address, check_agent, check_budget, check_cron, check_dashboard, check_first_run,
    check_zone,
};
use super::init_sources::{NamedSource, also, entries};
pub use super::init_written::Written;
use super::init_written::{still_to_set, trackers};
use crate::config::{FlagValue, render_init};
use crate::report::moment::local_zone_name;

#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Tracker: ado, github or jira
    #[arg(long, value_parser = ["ado", "github", "jira"])]
    pub kind: Option<String>,
    /// URL of the organisation, such as `https://dev.azure.com/contoso`
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Project to watch
    #[arg(long)]
    pub project: Option<String>,
    /// Another project, with the URL of its tracker; may be repeated. If the URL does not show the
    /// kind of tracker, put it in front, such as `jira:https://tracker.contoso.com`
    #[arg(long, num_args = 2, value_names = ["URL", "PROJECT"], action = clap::ArgAction::Append)]
    pub also: Vec<String>,
    /// Code base to analyse
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Cron expression of the schedule
    #[arg(long)]
    pub cron: Option<String>,
    /// IANA time zone of the schedule
    #[arg(long)]
    pub timezone: Option<String>,
    /// What the first scheduled run does with existing items
    #[arg(long, value_parser = ["ask", "baseline", "process"], value_name = "WHAT")]
    pub first_run: Option<String>,
    /// Address of the dashboard, such as 127.0.0.1:7979; "off" for none
    #[arg(long, value_name = "ADDRESS")]
    pub dashboard: Option<String>,
    /// Agent: claude, codex or copilot
    #[arg(long, value_parser = ["claude", "codex", "copilot"], value_name = "KIND")]
    pub agent: Option<String>,
    /// Model for triage and analyses, for agents other than Claude
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Maximum cost per day, in US dollars
    #[arg(long, value_name = "USD")]
    pub budget: Option<String>,
    /// Print the file instead of writing it
    #[arg(long)]
    pub print: bool,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

/// Default of `budget.per_run`, in US dollars.
const PER_RUN: f64 = 5.0;

/// Questions are asked only if no answer was given as a flag.
pub fn should_prompt(args: &InitArgs) -> bool {
    !args.print
        && args.kind.is_none()
        && args.base_url.is_none()
        && args.project.is_none()
        && args.also.is_empty()
        && args.repository.is_none()
        && args.cron.is_none()
        && args.timezone.is_none()
        && args.first_run.is_none()
        && args.dashboard.is_none()
        && args.agent.is_none()
        && args.model.is_none()
        && args.budget.is_none()
}

/// Asks for the required values. An empty answer takes the default, or leaves the key to be set
/// later; the end of input skips the rest.
pub fn ask(
    args: &InitArgs,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<InitArgs, CommandError> {
    let mut prompter = Prompter { input, output };
    let any = |_: &str| Ok(());
    let mut args = args.clone();
    args.base_url = prompter.question(
        "URL of the tracker, such as https://dev.azure.com/contoso, https://api.github.com or \
         https://contoso.atlassian.net",
        "",
        check_address,
    )?;
    args.project = prompter.question(first_source(&args).question(), "", any)?;
    let check_folder = |answer: &str| match Path::new(answer).is_dir() {
        true => Ok(()),
        false => Err(format!("{answer} is not a folder")),
    };
    let repository = prompter.question("Folder of the code base to analyse", ".", check_folder)?;
    args.repository = repository.map(|path| {
        let path = PathBuf::from(path);
        path.canonicalize().unwrap_or(path)
    });
    args.cron = prompter.question("Schedule, as a cron expression", "*/30 * * * *", check_cron)?;
    let zone = local_zone_name();
    args.timezone = prompter.question("Time zone of the schedule", &zone, check_zone)?;
    args.first_run = prompter.question(
        "Items that already exist: \"baseline\" marks them as seen, \"process\" analyses them, \
         \"ask\" stops the first scheduled run and reports what they would cost",
        "baseline",
        check_first_run,
    )?;
    args.dashboard = prompter.question(
        "Dashboard on this machine, as an address; \"off\" for none",
        "127.0.0.1:7979",
        check_dashboard,
    )?;
    args.budget = prompter.question("Maximum cost per day, in US dollars", "20", check_budget)?;
    args.agent = prompter.question(
        "Agent: \"claude\" (Claude Code), \"codex\" (OpenAI, Azure OpenAI) or \"copilot\" (GitHub)",
        "claude",
        check_agent,
    )?;
    if args.agent.as_deref().is_some_and(|agent| agent != "claude") {
        args.model = prompter.question("Model for triage and analyses", "", any)?;
    }
    args.also = prompter.more_sources()?;
    Ok(args)
}

/// Flags are validated like answers.
fn check(args: &InitArgs) -> Result<(), CommandError> {
    type Check = fn(&str) -> Result<(), String>;
    let given: [(&str, &Option<String>, Check); 5] = [
        ("--base-url", &args.base_url, check_address),
        ("--cron", &args.cron, check_cron),
        ("--timezone", &args.timezone, check_zone),
        ("--dashboard", &args.dashboard, check_dashboard),
        ("--budget", &args.budget, check_budget),
    ];
    for (flag, value, check) in given {
        if let Some(value) = value {
            check(value).map_err(|why| CommandError::Usage(format!("{flag} {value:?}: {why}")))?;
        }
    }
    Ok(())
}

struct Prompter<'a, I, O> {
    input: &'a mut I,
    output: &'a mut O,
}

impl<I: BufRead, O: Write> Prompter<'_, I, O> {
    /// Asks for further sources until the answer is empty: the values of `--also`.
    fn more_sources(&mut self) -> Result<Vec<String>, CommandError> {
        let mut more = Vec::new();
        let is_source = |answer: &str| NamedSource::at(answer, None).map(drop);
        while let Some(address) =
            self.question("URL of a tracker to watch as well; empty for none", "", is_source)?
        {
            let source = NamedSource::at(&address, None).unwrap_or_default();
            let project = self.question(source.question(), "", |_| Ok(()))?;
            more.extend([address, project.unwrap_or_default()]);
        }
        Ok(more)
    }

    /// Repeats the question until the answer is valid.
    fn question(
        &mut self,
        words: &str,
        default: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Option<String>, CommandError> {
        let failed = || CommandError::io("cannot use the terminal");
        let hint = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        loop {
            write!(self.output, "{words}{hint}: ").map_err(failed())?;
            self.output.flush().map_err(failed())?;
            let mut line = String::new();
            let read = self.input.read_line(&mut line).map_err(failed())?;
            let answer = if line.trim().is_empty() { default } else { line.trim() };
            if answer.is_empty() || read == 0 {
                return Ok(None);
            }
            match check(answer) {
                Ok(()) => return Ok(Some(answer.to_owned())),
                Err(why) => writeln!(self.output, "  {why}").map_err(failed())?,
            }
        }
    }
}

pub fn agrees(question: &str) -> Result<bool, CommandError> {
    confirm(question, false)
}

/// Writes the file to `path`, or only renders it. `more` are the keys given by `--set`.
pub fn run(args: &InitArgs, more: &[FlagValue], path: &Path) -> Result<Written, CommandError> {
    check(args)?;
    let sources = sources(args)?;
    let mut answers = answers(args, &sources);
    answers.extend(more.iter().map(|flag| (flag.key.clone(), flag.value.clone())));
    let mut text = render_init(&answers)?;
    let still_to_set = still_to_set(&answers, &sources);
    if sources.len() > 1 {
        text.push_str(&entries(&sources));
    }
    let credential = match args.agent.as_deref() {
        Some("codex") => "OPENAI_API_KEY",
        Some("copilot") => "COPILOT_GITHUB_TOKEN",
        _ => "ANTHROPIC_API_KEY",
    };
    let tracker = trackers(&answers, &sources);
    if args.print {
        return Ok(Written { file: None, still_to_set, tracker, credential, text: Some(text) });
    }
    let mut open = std::fs::OpenOptions::new();
    open.write(true).truncate(true);
    if args.force {
        open.create(true)
    } else {
        open.create_new(true)
    };
    let mut file = open.open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => CommandError::Usage(format!(
            "{} already exists; edit it, or overwrite it with --force",
            path.display()
        )),
        _ => CommandError::io(format!("cannot write {}", path.display()))(error),
    })?;
    file.write_all(text.as_bytes())
        .map_err(CommandError::io(format!("cannot write {}", path.display())))?;
    Ok(Written { file: Some(path.to_owned()), still_to_set, tracker, credential, text: None })
}

fn first_source(args: &InitArgs) -> NamedSource {
    let InitArgs { kind, base_url, project, .. } = args.clone();
    NamedSource { kind, base_url, project }
}

/// The source from the flags, and those from `--also`.
fn sources(args: &InitArgs) -> Result<Vec<NamedSource>, CommandError> {
    let more = also(&args.also)?;
    let first = first_source(args);
    let named = more.is_empty() || first != NamedSource::default();
    Ok(Some(first).filter(|_| named).into_iter().chain(more).collect())
}

fn answers(args: &InitArgs, sources: &[NamedSource]) -> Vec<(String, Value)> {
    let text = |key: &str, value: &Option<String>| {
        value.clone().map(|value| (key.to_owned(), Value::String(value)))
    };
    let amount = |text: &String| text.parse::<f64>().unwrap_or(PER_RUN);
    let dollars = |key: &str, value: Option<&String>| {
        value.map(|value| (key.to_owned(), Value::Float(amount(value))))
    };
    let repository = args.repository.as_ref().map(|path| path.to_string_lossy().into_owned());
    let only = if let [only] = sources { only.keys() } else { Vec::new() };
    let only = only.into_iter().map(|(key, value)| (format!("source.{key}"), Value::from(value)));
    let rest = [
        text("repository.path", &repository),
        text("schedule.cron", &args.cron),
        text("schedule.timezone", &args.timezone),
        text("schedule.first_run", &args.first_run),
        text("agent.kind", &args.agent),
        text("triage.model", &args.model),
        text("analyze.model", &args.model),
        text("http.listen", &args.dashboard.clone().filter(|address| address != OFF)),
        dollars("budget.per_day", args.budget.as_ref()),
        // A run may not cost more than a day.
        dollars("budget.per_run", args.budget.as_ref().filter(|day| amount(day) < PER_RUN)),
    ];
    only.chain(rest.into_iter().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_answers() -> InitArgs {
        InitArgs {
            kind: None,
            base_url: None,
            project: None,
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
        let args = ask(&no_answers(), &mut words.as_bytes(), &mut said).unwrap();
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
        let (args, said) =
            talk("contoso\nhttps://x\n\n/no/such/folder\n.\nevery day\n\nMars/Base\n");
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
    fn flags_are_not_asked_for() {
        assert!(should_prompt(&no_answers()));
        assert!(!should_prompt(&InitArgs { project: Some("P".into()), ..no_answers() }));
        assert!(!should_prompt(&InitArgs { print: true, ..no_answers() }));
    }
}
