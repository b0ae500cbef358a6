//! `heartbeat init`: writes a commented configuration.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;

use super::confirm::confirm;
use super::error::CommandError;
use super::init_checks::{
    OFF, check_address, check_agent, check_budget, check_cron, check_dashboard, check_first_run,
    check_given, check_zone,
};
pub use super::init_names::TrackerNames;
use super::init_sources::{NamedSource, also, entries};
pub use super::init_written::Written;
use super::init_written::{still_to_set, trackers};
use crate::config::{FlagValue, render_init, resolve_path};
use crate::report::moment::local_zone_name;
use crate::settings::Environment;

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
    /// Only items of these types, separated by commas, such as Bug,Task
    #[arg(long, value_name = "TYPES")]
    pub types: Option<String>,
    /// Only items in these areas and below them, separated by commas, such as 'Parcel\Web'
    #[arg(long, value_name = "AREAS")]
    pub areas: Option<String>,
    /// Only items in these states, separated by commas, such as New,Active
    #[arg(long, value_name = "STATES")]
    pub states: Option<String>,
    /// Only items with one of these tags or labels, separated by commas
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
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
    /// What the first scheduled run does with existing items [default: baseline]
    #[arg(long, value_parser = ["ask", "baseline", "process"], value_name = "WHAT")]
    pub first_run: Option<String>,
    /// Address of the dashboard; "off" for none [default: 127.0.0.1:7979]
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

/// What is written unless a flag or an answer says otherwise: a service that runs unattended and can
/// be looked at. The defaults of the keys themselves would abort its first scheduled run.
const FIRST_RUN: &str = "baseline";
const DASHBOARD: &str = "127.0.0.1:7979";

/// Questions are asked only if no answer was given as a flag.
pub fn should_prompt(args: &InitArgs) -> bool {
    !args.print
        && args.kind.is_none()
        && args.base_url.is_none()
        && args.project.is_none()
        && args.types.is_none()
        && args.areas.is_none()
        && args.states.is_none()
        && args.tags.is_none()
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
/// later; the end of input skips the rest. `look` finds out what a tracker has, or why nobody knows.
pub fn ask(
    args: &InitArgs,
    input: &mut impl BufRead,
    output: &mut impl Write,
    look: impl FnOnce(&NamedSource) -> Result<TrackerNames, String>,
) -> Result<InitArgs, CommandError> {
    let mut prompter = Prompter { input, output };
    let any = |_: &str| Ok(());
    let mut args = args.clone();
    let address = prompter.question(
        "URL of the tracker, such as https://dev.azure.com/contoso, https://api.github.com or \
         https://contoso.atlassian.net",
        "",
        check_address,
    )?;
    let first = NamedSource { base_url: address, ..first_source(&args) };
    let first = prompter.project(first)?;
    // A saved query or a search is in the page's address only.
    let is_chosen = first.saved_query.is_some() || first.condition.is_some();
    args.base_url = if is_chosen { first.page.clone() } else { first.base_url };
    args.project = first.project;
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
        FIRST_RUN,
        check_first_run,
    )?;
    args.dashboard = prompter.question(
        "Dashboard on this machine, as an address; \"off\" for none",
        DASHBOARD,
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
    let names = prompter.names(&args, look)?;
    for (answer, which, here) in [
        (&mut args.types, "types of items, as the tracker names them, ", names.types()),
        (&mut args.states, "states ", names.states()),
        (&mut args.areas, "areas (Jira: components, GitHub: area labels) ", names.areas()),
        (&mut args.tags, "tags or labels ", names.tags()),
    ] {
        let there_are = if here.is_empty() { here } else { format!(" (there are: {here})") };
        let question =
            format!("Only these {which}separated by commas; empty for the usual ones{there_are}",);
        *answer = prompter.question(&question, "", any)?;
    }
    Ok(args)
}

/// Flags are validated like answers.
fn check(args: &InitArgs) -> Result<(), CommandError> {
    type Check = fn(&str) -> Result<(), String>;
    let given: [(&str, &Option<String>, Check); 6] = [
        ("--base-url", &args.base_url, check_address),
        ("--project", &args.project, check_given),
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
            let source = self.project(NamedSource::at(&address, None).unwrap_or_default())?;
            more.extend([source.address(), source.project.unwrap_or_default()]);
        }
        Ok(more)
    }

    /// What the tracker has, for the questions about it.
    fn names(
        &mut self,
        args: &InitArgs,
        look: impl FnOnce(&NamedSource) -> Result<TrackerNames, String>,
    ) -> Result<TrackerNames, CommandError> {
        let failed = || CommandError::io("cannot use the terminal");
        let (sources, _) = sources(args)?;
        let Some(first) = sources.first().filter(|first| first.project.is_some()) else {
            return Ok(TrackerNames::default());
        };
        writeln!(self.output, "Reading some items, to show what there is …").map_err(failed())?;
        let found = look(first);
        let told = match &found {
            Ok(names) => format!("{} items that changed lately were read", names.items),
            Err(why) => format!("what there is cannot be shown: {why}"),
        };
        writeln!(self.output, "  {told}").map_err(failed())?;
        Ok(found.unwrap_or_default())
    }

    /// Asks for the project, unless the address names it.
    fn project(&mut self, source: NamedSource) -> Result<NamedSource, CommandError> {
        let failed = || CommandError::io("cannot use the terminal");
        let (mut source, note) = source.resolve().map_err(CommandError::Usage)?;
        if let Some(note) = note {
            writeln!(self.output, "  {note}").map_err(failed())?;
        }
        while source.project.is_none() {
            let Some(answer) = self.answer(source.question(), "")? else { break };
            if answer.is_empty() && !source.needs_project() {
                break;
            }
            match source.check_project(&answer) {
                Ok(()) => source.project = Some(answer),
                Err(why) => writeln!(self.output, "  {why}").map_err(failed())?,
            }
        }
        Ok(source)
    }

    /// Repeats the question until the answer is valid.
    fn question(
        &mut self,
        words: &str,
        default: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Option<String>, CommandError> {
        let failed = || CommandError::io("cannot use the terminal");
        loop {
            let answer = self.answer(words, default)?.unwrap_or_default();
            if answer.is_empty() {
                return Ok(None);
            }
            match check(&answer) {
                Ok(()) => return Ok(Some(answer)),
                Err(why) => writeln!(self.output, "  {why}").map_err(failed())?,
            }
        }
    }

    /// One answer, or the default; `None` at the end of input.
    fn answer(&mut self, words: &str, default: &str) -> Result<Option<String>, CommandError> {
        let failed = || CommandError::io("cannot use the terminal");
        let hint = if default.is_empty() { String::new() } else { format!(" [{default}]") };
        write!(self.output, "{words}{hint}: ").map_err(failed())?;
        self.output.flush().map_err(failed())?;
        let mut line = String::new();
        let read = self.input.read_line(&mut line).map_err(failed())?;
        let answer = if line.trim().is_empty() { default } else { line.trim() };
        Ok((read > 0).then(|| answer.to_owned()))
    }
}

pub fn agrees(question: &str) -> Result<bool, CommandError> {
    confirm(question, false)
}

/// Writes the file to `path`, or only renders it. `more` are the keys given by `--set`.
pub fn run(args: &InitArgs, more: &[FlagValue], path: &Path) -> Result<Written, CommandError> {
    check(args)?;
    check_absent(args, path)?;
    let (sources, notes) = sources(args)?;
    let mut answers = answers(args, &sources);
    answers.extend(more.iter().map(|flag| (flag.key.clone(), flag.value.clone())));
    name_source(&mut answers);
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
        let text = Some(text);
        return Ok(Written { file: None, still_to_set, tracker, credential, text, notes });
    }
    // It names commands that heartbeat runs.
    let mut open = crate::private::options();
    open.write(true).truncate(true);
    if args.force {
        open.create(true)
    } else {
        open.create_new(true)
    };
    let opened = crate::private::open_regular_with(&mut open, path);
    let mut file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => exists(path),
        _ => CommandError::io(format!("cannot write {}", path.display()))(error),
    })?;
    file.write_all(text.as_bytes())
        .map_err(CommandError::io(format!("cannot write {}", path.display())))?;
    let file = Some(path.to_owned());
    Ok(Written { file, still_to_set, tracker, credential, text: None, notes })
}

/// Refuses to overwrite a file. Called before any question is asked.
pub fn check_absent(args: &InitArgs, path: &Path) -> Result<(), CommandError> {
    match args.print || args.force || path.symlink_metadata().is_err() {
        true => Ok(()),
        false => Err(exists(path)),
    }
}

fn exists(path: &Path) -> CommandError {
    CommandError::Usage(format!(
        "{} already exists; edit it, or overwrite it with --force",
        path.display()
    ))
}

/// Whether the code base exists, as the file at `path` would name it.
pub fn check_repository(
    args: &InitArgs,
    path: &Path,
    environment: &Environment,
) -> Result<(), CommandError> {
    let Some(repository) = &args.repository else { return Ok(()) };
    let base = path.parent().unwrap_or(Path::new(""));
    match resolve_path(&repository.to_string_lossy(), base, environment).is_dir() {
        true => Ok(()),
        false => Err(CommandError::Usage(format!(
            "--repository {repository:?} is not a folder; if it is one on another machine, use \
             --set repository.path=DIR"
        ))),
    }
}

/// The name of the source is its kind, unless it is given.
fn name_source(answers: &mut Vec<(String, Value)>) {
    let last = |key: &str| answers.iter().rev().find(|(answered, _)| answered == key);
    if let (Some((_, kind)), None) = (last("source.kind"), last("source.name")) {
        let kind = kind.clone();
        answers.push(("source.name".to_owned(), kind));
    }
}

fn first_source(args: &InitArgs) -> NamedSource {
    let InitArgs { kind, base_url, project, .. } = args.clone();
    NamedSource { kind, base_url, project, ..NamedSource::default() }
}

/// The source from the flags, those from `--also`, and what was understood differently.
fn sources(args: &InitArgs) -> Result<(Vec<NamedSource>, Vec<String>), CommandError> {
    let more = also(&args.also)?;
    let first = first_source(args);
    let named = more.is_empty() || first != NamedSource::default();
    let (mut sources, mut notes) = (Vec::new(), Vec::new());
    for source in Some(first).filter(|_| named).into_iter().chain(more) {
        let given = source.project.as_deref();
        given
            .map_or(Ok(()), |project| source.check_project(project))
            .map_err(CommandError::Usage)?;
        let (source, note) = source.resolve().map_err(CommandError::Usage)?;
        sources.push(source);
        notes.extend(note);
    }
    Ok((sources, notes))
}

fn answers(args: &InitArgs, sources: &[NamedSource]) -> Vec<(String, Value)> {
    let text = |key: &str, value: &Option<String>| {
        value.clone().map(|value| (key.to_owned(), Value::String(value)))
    };
    let amount = |text: &String| text.parse::<f64>().unwrap_or(PER_RUN);
    let dollars = |key: &str, value: Option<&String>| {
        value.map(|value| (key.to_owned(), Value::Float(amount(value))))
    };
    let or = |given: &Option<String>, usual: &str| {
        Some(given.clone().unwrap_or_else(|| usual.to_owned()))
    };
    let repository = args.repository.as_ref().map(|path| path.to_string_lossy().into_owned());
    let list = |key: &str, value: &Option<String>| {
        let names = value.as_ref()?.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<Value> = names.map(Value::from).collect();
        (!names.is_empty()).then(|| (key.to_owned(), Value::Array(names)))
    };
    let only = if let [only] = sources { only.keys() } else { Vec::new() };
    let only = only.into_iter().map(|(key, value)| (format!("source.{key}"), Value::from(value)));
    let rest = [
        list("source.types", &args.types),
        list("source.areas", &args.areas),
        list("source.states", &args.states),
        list("source.tags", &args.tags),
        text("repository.path", &repository),
        text("schedule.cron", &args.cron),
        text("schedule.timezone", &args.timezone),
        text("schedule.first_run", &or(&args.first_run, FIRST_RUN)),
        text("agent.kind", &args.agent),
        text("triage.model", &args.model),
        text("analyze.model", &args.model),
        text("http.listen", &or(&args.dashboard, DASHBOARD).filter(|address| address != OFF)),
        dollars("budget.per_day", args.budget.as_ref()),
        // A run may not cost more than a day.
        dollars("budget.per_run", args.budget.as_ref().filter(|day| amount(day) < PER_RUN)),
    ];
    only.chain(rest.into_iter().flatten()).collect()
}
