//! `heartbeat init`: a commented configuration to start from.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;

use super::error::CommandError;
use crate::config::{FlagValue, render_init};
use crate::schedule::Schedule;

/// Arguments of `heartbeat init`.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// URL of the organisation, such as `https://dev.azure.com/contoso`
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Project to watch
    #[arg(long)]
    pub project: Option<String>,
    /// Code base to analyse
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
    /// Cron expression of the schedule
    #[arg(long)]
    pub cron: Option<String>,
    /// IANA time zone of the schedule
    #[arg(long)]
    pub timezone: Option<String>,
    /// Print the file instead of writing it
    #[arg(long)]
    pub print: bool,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

/// Questions are asked only when no answer was passed as a flag.
pub fn wants_to_be_asked(args: &InitArgs) -> bool {
    !args.print
        && args.base_url.is_none()
        && args.project.is_none()
        && args.repository.is_none()
        && args.cron.is_none()
        && args.timezone.is_none()
}

/// Asks for what the file needs. An empty answer takes the default, or leaves the key to be filled
/// in later; the end of the input leaves the rest.
pub fn ask(
    args: &InitArgs,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<InitArgs, CommandError> {
    let mut asking = Asking { input, output };
    let any = |_: &str| Ok(());
    let mut args = args.clone();
    args.base_url = asking.question(
        "URL of the organisation, such as https://dev.azure.com/contoso",
        "",
        check_address,
    )?;
    args.project = asking.question("Project to watch", "", any)?;
    let repository = asking.question("Folder of the code base to analyse", ".", |answer| {
        match Path::new(answer).is_dir() {
            true => Ok(()),
            false => Err(format!("{answer} is not a folder")),
        }
    })?;
    args.repository = repository.map(|path| {
        let path = PathBuf::from(path);
        path.canonicalize().unwrap_or(path)
    });
    args.cron = asking.question("Schedule, as a cron expression", "*/30 * * * *", check_cron)?;
    args.timezone = asking.question("Time zone of the schedule", "UTC", check_zone)?;
    Ok(args)
}

fn check_address(answer: &str) -> Result<(), String> {
    match answer.starts_with("https://") || answer.starts_with("http://") {
        true => Ok(()),
        false => Err("a URL starts with https://".into()),
    }
}

fn check_cron(answer: &str) -> Result<(), String> {
    Schedule::parse(answer, "UTC").map(drop).map_err(|error| error.to_string())
}

fn check_zone(answer: &str) -> Result<(), String> {
    Schedule::parse("0 0 * * *", answer).map(drop).map_err(|error| error.to_string())
}

/// Flags are validated like answers.
fn check(args: &InitArgs) -> Result<(), CommandError> {
    type Check = fn(&str) -> Result<(), String>;
    let given: [(&str, &Option<String>, Check); 3] = [
        ("--base-url", &args.base_url, check_address),
        ("--cron", &args.cron, check_cron),
        ("--timezone", &args.timezone, check_zone),
    ];
    for (flag, value, check) in given {
        if let Some(value) = value {
            check(value).map_err(|why| CommandError::Usage(format!("{flag} {value:?}: {why}")))?;
        }
    }
    Ok(())
}

struct Asking<'a, I, O> {
    input: &'a mut I,
    output: &'a mut O,
}

impl<I: BufRead, O: Write> Asking<'_, I, O> {
    /// Asks until the answer is good.
    fn question(
        &mut self,
        words: &str,
        default: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Option<String>, CommandError> {
        let failed = || CommandError::io("cannot talk to the terminal");
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

/// Writes the file to `path`, or prints it. `more` are keys given by `--set`. Returns the command's
/// output.
pub fn run(args: &InitArgs, more: &[FlagValue], path: &Path) -> Result<String, CommandError> {
    check(args)?;
    let mut answers = answers(args);
    answers.extend(more.iter().map(|flag| (flag.key.clone(), flag.value.clone())));
    let text = render_init(&answers)?;
    if args.print {
        return Ok(text);
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
    Ok(format!(
        "Wrote {}.\nNext: {}export AZURE_DEVOPS_PAT and ANTHROPIC_API_KEY,\ncheck the setup with \
         `heartbeat doctor`, preview a run with `heartbeat --dry-run`, and start with `heartbeat --once`.\n",
        path.display(),
        still_to_set(&answers)
    ))
}

/// Required keys that were not given.
fn still_to_set(answers: &[(String, Value)]) -> String {
    let given = |key: &str| answers.iter().any(|(answered, _)| answered == key);
    let missing: Vec<&str> = ["source.base_url", "source.project", "repository.path"]
        .into_iter()
        .filter(|key| !given(key))
        .collect();
    if missing.is_empty() { String::new() } else { format!("set {} in it, ", missing.join(", ")) }
}

fn answers(args: &InitArgs) -> Vec<(String, Value)> {
    let text = |key: &str, value: &Option<String>| {
        value.clone().map(|value| (key.to_owned(), Value::String(value)))
    };
    let repository = args.repository.as_ref().map(|path| path.to_string_lossy().into_owned());
    [
        text("source.base_url", &args.base_url),
        text("source.project", &args.project),
        text("repository.path", &repository),
        text("schedule.cron", &args.cron),
        text("schedule.timezone", &args.timezone),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_answers() -> InitArgs {
        InitArgs {
            base_url: None,
            project: None,
            repository: None,
            cron: None,
            timezone: None,
            print: false,
            force: false,
        }
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
        let text = render_init(&answers(&args)).unwrap();
        let config: crate::settings::Config = toml::from_str(&text).unwrap();
        assert_eq!(config.source.project, "Parcel");
        assert_eq!(config.schedule.timezone, "Europe/Berlin");
        assert_eq!(config.repository.path, folder.path().canonicalize().unwrap());
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
        assert!(text.contains("max_live_sessions = 2"), "{text}");
    }

    #[test]
    fn what_is_still_to_do_leaves_out_what_is_done() {
        let given = ("source.project".to_owned(), Value::from("P"));
        assert_eq!(still_to_set(&[given]), "set source.base_url, repository.path in it, ");
    }

    #[test]
    fn flags_are_not_asked_for() {
        assert!(wants_to_be_asked(&no_answers()));
        assert!(!wants_to_be_asked(&InitArgs { project: Some("P".into()), ..no_answers() }));
        assert!(!wants_to_be_asked(&InitArgs { print: true, ..no_answers() }));
    }
}
