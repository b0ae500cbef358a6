//! After a run: builds the patches of findings and runs their tests, if the configuration has
//! commands for that.
//!
//! The commands come from the configuration and the code from a model, so they run like an agent:
//! under a keeper, confined to a private copy of the code base that is removed afterwards, without
//! network, with limits for time, memory and processes. Each variant of the code has a copy of its
//! own, and nothing outside of the confinement reads or writes a copy in which a command has run.
//!
//! A finding is reproduced if the test that its patch brings fails without the rest of the patch and
//! passes with it, each time of `MIN_ROUNDS` to `MAX_ROUNDS` in an order that it cannot know.
//! Both copies are built alike and have names that say nothing. A test that fails or passes by chance
//! gives that picture once in 65,536 times, and once in 256 if it is too slow for all rounds. Everything else is a lower rung, with the reason.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::SignedDuration;

use super::Setting;
use crate::context::tree::BorrowedTree;
use crate::context::{CommitCode, Kind, Language, code_bases_of};
use crate::evidence::halves::{Halves, halves};
use crate::evidence::patch::{self, Outcome};
use crate::evidence::{occurs_in, stays_inside};
use crate::model::{AnalysedCode, Finding, Rung, Step};
use crate::private::{self, beneath};
use crate::session::brief::{Brief, BriefEnd, Briefly, Room};
use crate::session::confinement::{Confinement, Strength};
use crate::settings::VerifiedCodeBase;
use crate::store::{Journal, Store, StoreError, UnverifiedFinding};

/// Older findings are not verified any more.
const NOT_OLDER: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Characters of a command's last output that are kept.
const TAIL: usize = 600;
/// Bounds of a code base without a git history, which is copied file by file.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: u64 = 64 << 20;
/// Rounds with and without the change, unless a slow test uses up the time of one command before.
const MAX_ROUNDS: usize = 8;
const MIN_ROUNDS: usize = 4;
/// Files and folders that all copies of one verification may have together.
const MAX_ENTRIES: u64 = 2_000_000;
/// The shell that runs the configured commands.
const SHELL: &str = "/bin/sh";
/// Landlock's first version that restricts TCP.
const WITH_PORTS: u32 = 4;

/// Verifies what is waiting; returns how many findings were.
pub async fn verify_findings(setting: &Setting, store: &Store) -> Result<usize, StoreError> {
    let since = setting.clock.now().checked_sub(NOT_OLDER).unwrap_or(jiff::Timestamp::MIN);
    let has_commands = |one: &VerifiedCodeBase| !(one.build.is_empty() && one.test.is_empty());
    if !all_commands(setting).iter().any(has_commands) {
        return Ok(0);
    }
    // The runs of a daemon may end faster than builds do; the one that is at it goes on.
    let Ok(_one_at_a_time) = setting.verifying.try_lock() else { return Ok(0) };
    let briefly = match setting.briefly() {
        Ok(briefly) => briefly,
        Err(error) => {
            tracing::error!(%error, "cannot locate the heartbeat executable; nothing is verified");
            return Ok(0);
        }
    };
    let journal = Journal::open(store.clone(), setting.clock.clone(), None)?;
    let gate = setting.machine_gate(&journal);
    let mut count = 0;
    for waiting in store.findings().unverified(since).await? {
        let code_base = match only_code_base(&waiting.finding) {
            Ok(code_base) => code_base,
            Err(why) => {
                let step = not_built(setting, why);
                if journal.findings().begin_verification(waiting.session).await? {
                    journal.findings().end_verification(waiting.session, vec![step]).await?;
                }
                continue;
            }
        };
        let commands = commands_for(setting, &waiting, code_base.as_ref()).filter(has_commands);
        let Some(commands) = commands else { continue };
        let applies = waiting.finding.rung() >= Some(Rung::Applies);
        // A busy machine is for sessions; the next run goes on here.
        if crate::session::Gate::admit(&gate).await.is_err() {
            break;
        }
        if !applies || !journal.findings().begin_verification(waiting.session).await? {
            continue;
        }
        let steps = climb(setting, &briefly, &waiting, &commands, code_base).await;
        journal.findings().end_verification(waiting.session, steps).await?;
        count += 1;
    }
    Ok(count)
}

fn all_commands(setting: &Setting) -> Vec<VerifiedCodeBase> {
    let verify = &setting.config.verify;
    let path = setting.config.repository.path.clone();
    let own = VerifiedCodeBase { path, build: verify.build.clone(), test: verify.test.clone() };
    verify.code_bases.iter().cloned().chain([own]).collect()
}

/// Of a finding over several code bases, the one that its patch changes.
fn only_code_base(finding: &Finding) -> Result<Option<AnalysedCode>, &'static str> {
    let Some(proof) = finding.proof.as_ref().filter(|proof| !proof.code_bases.is_empty()) else {
        return Ok(None);
    };
    let whole = patch::parse(&finding.patch).unwrap_or_default();
    let mut all = whole.files.iter().map(|file| Some(proof.code_base_of(file.path())?.0));
    let first = all.next().flatten();
    match first.filter(|first| all.all(|one| one == Some(*first))) {
        Some(one) => Ok(Some(one.clone())),
        None => Err("the patch changes several code bases, which are not built together"),
    }
}

fn not_built(setting: &Setting, why: &str) -> Step {
    let (at, note) = (setting.clock.now(), why.to_owned());
    Step { rung: Rung::Builds, reached: false, at, commit: None, note }
}

fn commands_for(
    setting: &Setting,
    finding: &UnverifiedFinding,
    code_base: Option<&AnalysedCode>,
) -> Option<VerifiedCodeBase> {
    let (source, area) = (finding.key.source(), [finding.area.as_str()]);
    let roots = code_bases_of(&setting.config, source, &area, &finding.item_type);
    let name = code_base.map_or("", |code_base| &code_base.name);
    let root = roots.into_iter().find(|root| root.name == name)?.root;
    all_commands(setting).into_iter().find(|commands| commands.path == root)
}

/// The steps above `applies`, as far as there are commands for them.
async fn climb(
    setting: &Setting,
    briefly: &Briefly,
    waiting: &UnverifiedFinding,
    commands: &VerifiedCodeBase,
    code_base: Option<AnalysedCode>,
) -> Vec<Step> {
    let proof = waiting.finding.proof.as_ref();
    let commit = match &code_base {
        Some(code_base) => code_base.commit.clone(),
        None => proof.and_then(|proof| proof.commit()).map(str::to_owned),
    };
    // What a crash left is in the way of a new attempt and nowhere else.
    let place = setting.state.join("verify").join(waiting.session.to_string());
    drop(private::remove_folder(&place));
    let ladder = Ladder {
        briefly: briefly.clone(),
        repository: setting.code.latest(&commands.path),
        commit: commit.clone(),
        code_base,
        place: place.clone(),
        commands,
        timeout: setting.config.verify.timeout,
        max_disk: setting.config.verify.max_disk,
        path: setting.environment.raw("PATH").map(OsString::from).unwrap_or_default(),
        readable: setting.config.agent.read_paths.clone(),
    };
    let climbed = ladder.climb(&waiting.finding).await;
    if let Err(error) = private::remove_folder(&place)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %place.display(), %error, "could not remove a copy of the code base");
    }
    let at = setting.clock.now();
    let step = |(rung, reached, note): (Rung, bool, String)| Step {
        rung,
        reached,
        at,
        commit: commit.clone(),
        note,
    };
    climbed.into_iter().map(step).collect()
}

/// How one finding is verified.
pub struct Ladder<'a> {
    pub briefly: Briefly,
    pub repository: PathBuf,
    /// `None`: the folder as it is.
    pub commit: Option<String>,
    /// Paths of the patch begin with its name.
    pub code_base: Option<AnalysedCode>,
    /// A private folder of its own.
    pub place: PathBuf,
    pub commands: &'a VerifiedCodeBase,
    pub timeout: Duration,
    /// Bytes that all copies may have together.
    pub max_disk: u64,
    /// The search path.
    pub path: OsString,
    /// What commands may read and execute besides the system: toolchains.
    pub readable: Vec<PathBuf>,
}

/// A rung, whether it was reached, and why not.
type Rungs = Vec<(Rung, bool, String)>;

/// How a command ended.
enum CommandEnd {
    /// With its output.
    Passed(String),
    /// With its status and output.
    Failed(i32, String),
    /// It says nothing about the code.
    NoAnswer(String),
}

impl Ladder<'_> {
    pub async fn climb(&self, finding: &Finding) -> Rungs {
        if !has_walls() {
            let why = "commands are not run, because this machine cannot confine them".to_owned();
            return vec![(Rung::Builds, false, why)];
        }
        match self.steps(finding).await {
            Ok(rungs) => rungs,
            Err(why) => vec![(Rung::Builds, false, why)],
        }
    }

    async fn steps(&self, finding: &Finding) -> Result<Rungs, String> {
        let halves = self.halves(finding).await?;
        let mut rungs = Rungs::new();
        let after = self.copy(&halves.whole).await?;
        if let Err(why) = self.build(&after).await {
            let base = self.copy(&Outcome::new()).await?;
            let note = match self.build(&base).await {
                Ok(()) => format!("the build failed: {why}"),
                Err(why) => {
                    format!("the code base does not build here without the patch: {why}")
                }
            };
            return Ok(vec![(Rung::Builds, false, note)]);
        }
        if !self.commands.build.is_empty() {
            rungs.push((Rung::Builds, true, String::new()));
        }
        if self.commands.test.is_empty() {
            return Ok(rungs);
        }
        let (reached, note) = match self.reproduce(finding, &halves, &after).await {
            Ok(note) => (true, note),
            Err(why) => (false, why),
        };
        if self.commands.build.is_empty() && reached {
            rungs.push((Rung::Builds, true, "no build command; its test runs".to_owned()));
        }
        rungs.push((Rung::Reproduced, reached, note));
        Ok(rungs)
    }

    async fn halves(&self, finding: &Finding) -> Result<Halves, String> {
        let (repository, commit) = (self.repository.clone(), self.commit.clone());
        let mut whole = patch::parse(&finding.patch).map_err(|error| error.to_string())?;
        if let Some(code_base) = &self.code_base {
            for path in whole.files.iter_mut().flat_map(|file| [&mut file.old, &mut file.new]) {
                *path = path.as_deref().and_then(|path| code_base.own(path)).map(str::to_owned);
            }
        }
        let divided = tokio::task::spawn_blocking(move || {
            let code = CommitCode::new(&repository, commit.as_deref(), None);
            halves(&whole, is_test, &code).map_err(|error| error.to_string())
        });
        divided.await.unwrap_or_else(|_| Err("reading the patch panicked (a bug)".to_owned()))
    }

    async fn build(&self, copy: &Copy) -> Result<(), String> {
        if self.commands.build.is_empty() {
            return Ok(());
        }
        match self.run(copy, &self.commands.build).await {
            CommandEnd::Passed(_) => Ok(()),
            CommandEnd::Failed(code, output) => Err(failure(code, &output)),
            CommandEnd::NoAnswer(why) => Err(why),
        }
    }

    /// Whether the test of a patch shows that its change is needed, and how often it did.
    async fn reproduce(
        &self,
        finding: &Finding,
        halves: &Halves,
        after: &Copy,
    ) -> Result<String, String> {
        if let Some(why) = cannot_show(finding, halves) {
            return Err(why.to_owned());
        }
        let before = self.copy(&halves.tests).await?;
        // A test that needs what a build leaves has to find it in both.
        self.build(&before).await.map_err(|why| {
            format!("with its test alone the code base does not build, so it shows nothing: {why}")
        })?;
        let name = finding.patch_test.as_str();
        let began = Instant::now();
        let mut ended = [None, None];
        let mut rounds = 0;
        while rounds < MIN_ROUNDS || (rounds < MAX_ROUNDS && began.elapsed() < self.timeout) {
            let mut round = [(&before, false), (after, true)];
            // The first two rounds catch what goes by turns, whatever chance says.
            if rounds == 1 || (rounds > 1 && chance()) {
                round.reverse();
            }
            for (copy, passes) in round {
                ended[usize::from(passes)] = Some(self.test(name, copy, passes).await?);
            }
            rounds += 1;
        }
        if let [Some(failed), Some(passed)] = &ended {
            if !self.is_about(name, passed, after).await {
                return Err(
                    "the test command does and prints the same for a test that is not there"
                        .to_owned(),
                );
            }
            if !self.is_about(name, failed, &before).await {
                let why = "without the change its test cannot even be loaded, so it shows no fault";
                return Err(why.to_owned());
            }
        }
        Ok(format!("failed without the change and passed with it, {rounds} times each"))
    }

    /// Runs a test that is expected to pass or to fail; returns how it did.
    async fn test(&self, name: &str, copy: &Copy, passes: bool) -> Result<CommandEnd, String> {
        let command = self.commands.test.replace("{test}", &quoted(name));
        match (self.run(copy, &command).await, passes) {
            (ended @ CommandEnd::Passed(_), true) | (ended @ CommandEnd::Failed(..), false) => {
                Ok(ended)
            }
            (CommandEnd::Passed(_), false) => {
                Err("its test passes without the change too".to_owned())
            }
            (CommandEnd::Failed(code, output), true) => {
                Err(format!("its test fails with the change: {}", failure(code, &output)))
            }
            (CommandEnd::NoAnswer(why), _) => Err(format!("its test could not be run: {why}")),
        }
    }

    /// Whether the end of a test is about that test. Many runners are content if no test has the name,
    /// and all fail if the tests cannot be loaded: a name that no test has must end otherwise, or with
    /// another output.
    async fn is_about(&self, name: &str, ended: &CommandEnd, copy: &Copy) -> bool {
        let none = format!("{name}{}", random_name());
        let command = self.commands.test.replace("{test}", &quoted(&none));
        let differs = |output: &str, of_none: &str| {
            let of_none = of_none.replace(bare_name(&none), bare_name(name));
            lasting_lines(output) != lasting_lines(&of_none)
        };
        match (ended, self.run(copy, &command).await) {
            (CommandEnd::Passed(output), CommandEnd::Passed(of_none)) => differs(output, &of_none),
            (CommandEnd::Failed(code, output), CommandEnd::Failed(other, of_none)) => {
                *code != other || differs(output, &of_none)
            }
            _ => true,
        }
    }

    /// A private copy of the code base with changed files.
    async fn copy(&self, outcome: &Outcome) -> Result<Copy, String> {
        let (repository, place) = (self.repository.clone(), self.place.clone());
        let (commit, outcome) = (self.commit.clone(), outcome.clone());
        let made = tokio::task::spawn_blocking(move || {
            private::create_folder(&place).map_err(|error| error.to_string())?;
            let copy = lay_out(&repository, commit.as_deref(), &place, &random_name())?;
            write(&copy.code, &outcome)
                .map_err(|error| format!("cannot write the patch: {error}"))?;
            Ok(copy)
        });
        made.await.unwrap_or_else(|_| Err("copying the code base panicked (a bug)".to_owned()))
    }

    async fn run(&self, copy: &Copy, command: &str) -> CommandEnd {
        let env: Vec<(OsString, OsString)> = [
            ("PATH", self.path.clone()),
            ("HOME", copy.own.join("home").into()),
            ("TMPDIR", copy.own.join("tmp").into()),
            ("LANG", "C.UTF-8".into()),
            ("CI", "true".into()),
        ]
        .map(|(name, value)| (OsString::from(name), value))
        .into();
        let mut confinement = Confinement::for_program(Path::new(SHELL), &env, &[]);
        confinement.execute.extend(self.readable.iter().cloned());
        // A build runs what it has built.
        confinement.execute.extend([copy.top.clone(), copy.own.clone()]);
        confinement.write = vec![copy.top.clone(), copy.own.clone()];
        confinement.ports.clear();
        confinement.only_gateway = true;
        confinement.changes_modes = true;
        let brief = Brief {
            program: SHELL.into(),
            args: vec!["-c".into(), format!("{{ {command}\n}} 2>&1").into()],
            env,
            cwd: copy.code.clone(),
            folder: copy.inputs.clone(),
            confinement,
            timeout: self.timeout,
            room: Some(Room {
                folder: self.place.clone(),
                max_bytes: self.max_disk,
                max_entries: MAX_ENTRIES,
            }),
        };
        let (output, end) = match self.briefly.watch(&brief).await {
            Ok(watched) => watched,
            Err(error) => return CommandEnd::NoAnswer(error.to_string()),
        };
        match end {
            BriefEnd::Code(0) => CommandEnd::Passed(output),
            // The shell found no such program, or may not run it.
            BriefEnd::Code(code @ (126 | 127)) => CommandEnd::NoAnswer(failure(code, &output)),
            BriefEnd::Code(code) => CommandEnd::Failed(code, output),
            BriefEnd::Signal(signal) => {
                CommandEnd::NoAnswer(format!("signal {signal}: {}", tail(&output)))
            }
            BriefEnd::TimedOut => {
                CommandEnd::NoAnswer(format!("it took longer than {:?}", self.timeout))
            }
            BriefEnd::NoRoom => {
                let most = self.max_disk >> 20;
                CommandEnd::NoAnswer(format!(
                    "the copies take more than verify.max_disk ({most} MiB)"
                ))
            }
        }
    }
}

/// Files, TCP and signals have to be restricted.
fn has_walls() -> bool {
    match Strength::of_this_machine() {
        Strength::Full => true,
        Strength::Partial(version) => version >= WITH_PORTS,
        Strength::Missing => false,
    }
}

/// Why the test of a patch shows nothing about its change.
fn cannot_show(finding: &Finding, halves: &Halves) -> Option<&'static str> {
    let name = bare_name(&finding.patch_test);
    let is_harmless = |path: &String| {
        let kind = Kind::of_path(path, Language::of_path(path).is_code());
        let is_prose = [".md", ".rst", ".adoc"].iter().any(|ending| path.ends_with(ending));
        (kind == Kind::Source && !is_recipe(path)) || (kind == Kind::Document && is_prose)
    };
    if finding.patch_test.is_empty() {
        Some("the patch names no test")
    } else if halves.tests.is_empty() {
        Some("the patch brings no test that can be told from its change")
    } else if halves.changed.is_empty() {
        Some("the patch changes nothing but tests")
    } else if !halves.added.iter().any(|line| occurs_in(name, line)) {
        Some("the patch does not bring a test of the name that it gives")
    } else if stands_for_several(&finding.patch_test, halves) {
        Some("the patch brings several tests of the name that it gives")
    } else if !halves.changed.iter().all(is_harmless) {
        Some("the patch also changes files that decide how tests are run")
    } else if halves.mixed.is_some() {
        Some("the patch changes a file with code for tests beside the code that it changes")
    } else {
        None
    }
}

/// Whether a runner that selects by name would run several new tests, of which any may be the one that
/// fails: `def test_b` of two classes. A name with its class or file is exact.
fn stands_for_several(test: &str, halves: &Halves) -> bool {
    let name = bare_name(test);
    let begins = |line: &String| {
        let begin = line.trim_start().split(name).next().filter(|_| occurs_in(name, line))?;
        begin.starts_with(char::is_alphabetic).then(|| begin.to_owned())
    };
    let mut all: Vec<String> = halves.added.iter().filter_map(begins).collect();
    let before = all.len();
    all.sort_unstable();
    all.dedup();
    name == test.trim() && all.len() < before
}

/// The last part of `tests/a.py::test_b`, `Class.test_b` or `suite > rounds half up`.
fn bare_name(test: &str) -> &str {
    let last = test.rsplit(" > ").next().unwrap_or(test).trim();
    match last.contains(' ') {
        true => last,
        false => last.rsplit(['.', ':', '/', '>', '#']).next().unwrap_or(last),
    }
}

/// What a command prints each time: without words with figures, such as times, and in no order.
fn lasting_lines(output: &str) -> Vec<String> {
    let lasting = |line: &str| -> String {
        let words =
            line.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit()));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> =
        output.lines().map(lasting).filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    lines
}

/// Says nothing about what it names.
fn random_name() -> String {
    uuid::Uuid::now_v7().simple().to_string().split_off(20)
}

fn chance() -> bool {
    uuid::Uuid::now_v7().as_bytes()[15] & 1 == 0
}

/// Files that look like code and say how a project is built or tested.
fn is_recipe(path: &str) -> bool {
    const NAMES: [&str; 16] = [
        "makefile",
        "gnumakefile",
        "justfile",
        "rakefile",
        "gemfile",
        "dockerfile",
        "jenkinsfile",
        "build",
        "workspace",
        "build.rs",
        "setup.py",
        "conftest.py",
        "noxfile.py",
        "tasks.py",
        "meson.build",
        "cmakelists.txt",
    ];
    const ENDINGS: [&str; 6] = ["mk", "cmake", "gradle", "kts", "bazel", "bzl"];
    const SHELLS: [&str; 4] = ["sh", "bash", "ps1", "bat"];
    const STEPS: [&str; 6] = ["build", "test", "run", "ci", "check", "configure"];
    let name = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    // Settings of test runners and bundlers are written in the product's own language.
    let is_settings = name.contains(".config.") || name.contains(".conf.");
    let is_step = SHELLS.contains(&ending) && STEPS.iter().any(|step| name.starts_with(step));
    NAMES.contains(&name.as_str()) || ENDINGS.contains(&ending) || is_settings || is_step
}

fn is_test(path: &str) -> bool {
    Kind::of_path(path, Language::of_path(path).is_code()) == Kind::Test
}

/// One word of a shell command.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn failure(code: i32, output: &str) -> String {
    format!("exit status {code}: {}", tail(output))
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> =
        output.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let text = lines[lines.len().saturating_sub(8)..].join("\n");
    let from = text.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

/// A copy of the code base.
struct Copy {
    /// What commands may write.
    top: PathBuf,
    /// The code base in it.
    code: PathBuf,
    /// Home and temporary files of the commands.
    own: PathBuf,
    /// Closed to the commands: the files that become standard input.
    inputs: PathBuf,
}

fn lay_out(
    repository: &Path,
    commit: Option<&str>,
    place: &Path,
    name: &str,
) -> Result<Copy, String> {
    let failed = |error: io::Error| format!("cannot copy the code base: {error}");
    let own = place.join(format!("{name}.own"));
    for folder in [own.join("home"), own.join("tmp")] {
        private::create_folder(&folder).map_err(failed)?;
    }
    let top = place.join(name);
    let mut code = top.clone();
    match commit {
        Some(commit) => {
            let said = |error: crate::context::tree::TreeError| error.to_string();
            let tree = BorrowedTree::open(repository, place, name).map_err(said)?;
            tree.move_to(commit).map_err(said)?;
            code = top.join(BorrowedTree::prefix_of(repository).map_err(said)?);
            // Nothing of git is left for the commands, and git is not asked again.
            std::fs::remove_file(top.join(".git")).map_err(failed)?;
        }
        None => {
            private::create_folder(&top).map_err(failed)?;
            copy_files(repository, &top, &mut (0, 0)).map_err(failed)?;
        }
    }
    Ok(Copy { top, code, own, inputs: place.to_owned() })
}

/// Copies regular files; links and git's own data are left out.
fn copy_files(from: &Path, to: &Path, done: &mut (usize, u64)) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() && entry.file_name() != ".git" {
            private::create_folder(&target)?;
            copy_files(&entry.path(), &target, done)?;
        } else if kind.is_file() {
            done.0 += 1;
            done.1 += entry.metadata()?.len();
            if done.0 > MAX_FILES || done.1 > MAX_BYTES {
                return Err(io::Error::other("it has no git history and is too large to copy"));
            }
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Writes what a patch leaves. No command has run in this copy yet; the commit may have links, and
/// none is followed.
fn write(code: &Path, outcome: &Outcome) -> io::Result<()> {
    for (path, text) in outcome {
        if !stays_inside(path) {
            return Err(io::Error::other("it leaves the code base"));
        }
        let mut folder = code.to_owned();
        let (parents, _) = path.rsplit_once('/').unwrap_or_default();
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            folder.push(part);
            match std::fs::symlink_metadata(&folder) {
                Ok(about) if about.is_dir() => {}
                Ok(_) => return Err(io::Error::other(format!("{} is a link", folder.display()))),
                Err(_) => std::fs::create_dir(&folder)?,
            }
        }
        let file = code.join(path);
        let mode = std::fs::symlink_metadata(&file).ok().map(|about| about.permissions().mode());
        if mode.is_some() {
            std::fs::remove_file(&file)?;
        }
        if let Some(text) = text {
            beneath::create(code, Path::new(path), text.as_bytes())?;
            let mode = mode.unwrap_or(0o644) & 0o777;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
