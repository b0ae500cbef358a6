//! `heartbeat service`: prints, installs or removes the service definition for systemd and launchd.
//! It starts nothing; it prints the commands that do.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use minijinja::context;
use minijinja::syntax::SyntaxConfig;

use super::error::CommandError;
use crate::app::Overrides;
use crate::private;
use crate::session::containment::OWN_SUBGROUP;
use crate::settings::{Config, Environment};

const UNIT: &str = "heartbeat.service";
const LABEL: &str = "local.heartbeat";

#[derive(Debug, Clone, Subcommand)]
pub enum ServiceCommand {
    /// Print the service definition
    Print(ServiceArgs),
    /// Write the definition where the service manager looks for it
    Install(InstallArgs),
    /// Remove the definition
    Uninstall(ServiceArgs),
}

#[derive(Debug, Clone, Copy, Args)]
#[group(skip)]
pub struct ServiceArgs {
    /// For systemd (the default on Linux)
    #[arg(long, conflicts_with = "launchd")]
    pub systemd: bool,
    /// For launchd (the default on macOS)
    #[arg(long)]
    pub launchd: bool,
    /// For this user (the default)
    #[arg(long, conflicts_with = "system")]
    pub user: bool,
    /// For the whole machine (the default for root)
    #[arg(long)]
    pub system: bool,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    User,
    System,
}

impl ServiceArgs {
    fn manager(self) -> Manager {
        match (self.systemd, self.launchd) {
            (true, _) => Manager::Systemd,
            (_, true) => Manager::Launchd,
            _ if cfg!(target_os = "macos") => Manager::Launchd,
            _ => Manager::Systemd,
        }
    }

    fn reach(self) -> Reach {
        match (self.user, self.system) {
            (true, _) => Reach::User,
            (_, true) => Reach::System,
            _ if nix::unistd::Uid::effective().is_root() => Reach::System,
            _ => Reach::User,
        }
    }
}

/// Values of this machine for the definition.
#[derive(Debug, Clone)]
pub struct Facts {
    pub program: PathBuf,
    pub config_file: PathBuf,
    /// The configuration file and all other given overrides.
    pub arguments: Vec<String>,
    pub state: PathBuf,
    /// Folders outside the state that heartbeat may write to.
    pub writes: Vec<PathBuf>,
    /// `PATH`, so that the agent is found.
    pub path: String,
    /// User of a system-wide service.
    pub user: String,
    pub home: PathBuf,
    /// Maximum time of a graceful stop, in seconds.
    pub stop_seconds: u64,
    /// Limit of tasks for all sessions together.
    pub tasks: u32,
}

impl Facts {
    pub fn gather(
        config: &Config,
        config_file: Option<&Path>,
        given: &Overrides,
        state: &Path,
        environment: &Environment,
    ) -> Result<Self, CommandError> {
        let program = std::env::current_exe()
            .map_err(CommandError::io("cannot locate the heartbeat executable"))?;
        let config_file = config_file.map(std::path::absolute).transpose();
        let config_file = config_file.map_err(CommandError::io(
            "cannot determine the working \
                                                                directory",
        ))?;
        let home = environment.home().unwrap_or_else(|| "/root".into());
        let default = home.join(".config/heartbeat").join(crate::config::FILE_NAME);
        let (sessions, each) = (config.limits.max_live_sessions, config.limits.max_processes);
        let config_file = config_file.unwrap_or(default);
        Ok(Self {
            program,
            arguments: arguments(&config_file, given, state),
            config_file,
            state: state.to_path_buf(),
            writes: writes(config, state),
            path: environment.text("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin").to_owned(),
            user: nix::unistd::User::from_uid(nix::unistd::Uid::effective())
                .ok()
                .flatten()
                .map_or_else(|| "heartbeat".into(), |user| user.name),
            home,
            // Grace, sweep, the last report, and a margin.
            stop_seconds: config.timeouts.grace.as_secs() + 60,
            // Threads count as well; heartbeat has few of its own.
            tasks: sessions.saturating_mul(each).saturating_mul(4).saturating_add(128),
        })
    }

    /// What the service starts.
    fn command(&self) -> impl Iterator<Item = String> {
        let program = self.program.display().to_string();
        std::iter::once(program).chain(self.arguments.iter().cloned())
    }
}

/// The service gets the same overrides as this command line.
fn arguments(config_file: &Path, given: &Overrides, state: &Path) -> Vec<String> {
    let mut arguments = vec!["--config".to_owned(), config_file.display().to_string()];
    if given.state_dir.is_some() {
        arguments.extend(["--state-dir".to_owned(), state.display().to_string()]);
    }
    for pair in &given.set {
        arguments.extend(["--set".to_owned(), pair.clone()]);
    }
    arguments
}

/// Folders of reports, the log and session slots, unless they are below the state.
fn writes(config: &Config, state: &Path) -> Vec<PathBuf> {
    let log = config.log.file.parent().unwrap_or(Path::new(""));
    [config.report.dir.as_path(), config.limits.slots_dir.as_path(), log]
        .into_iter()
        .filter(|folder| !folder.as_os_str().is_empty() && !folder.starts_with(state))
        .map(Path::to_path_buf)
        .collect()
}

/// Runs the command and returns its output.
pub fn run(
    command: &ServiceCommand,
    facts: &Facts,
    environment: &Environment,
) -> Result<String, CommandError> {
    match command {
        ServiceCommand::Print(args) => describe(*args, facts),
        ServiceCommand::Install(args) => install(*args, facts, environment),
        ServiceCommand::Uninstall(args) => uninstall(*args, environment),
    }
}

fn describe(args: ServiceArgs, facts: &Facts) -> Result<String, CommandError> {
    match args.manager() {
        Manager::Systemd => systemd(facts, args.reach()),
        Manager::Launchd => launchd(facts, args.reach()),
    }
}

fn install(
    args: InstallArgs,
    facts: &Facts,
    environment: &Environment,
) -> Result<String, CommandError> {
    let file = place(args.service, environment)?;
    if file.exists() && !args.force {
        return Err(CommandError::Usage(format!(
            "{} already exists; review it, or overwrite it with --force",
            file.display()
        )));
    }
    if !facts.config_file.exists() {
        return Err(CommandError::Usage(format!(
            "the service would read {}, which does not exist; create it with `heartbeat init`, or \
             pass --config",
            facts.config_file.display()
        )));
    }
    let failed = || CommandError::io(format!("cannot write {}", file.display()));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed())?;
    }
    // systemd starts no service whose `ReadWritePaths` do not exist.
    for folder in std::iter::once(&facts.state).chain(&facts.writes) {
        let failed = CommandError::io(format!("cannot create {}", folder.display()));
        private::create_folder(folder).map_err(failed)?;
    }
    std::fs::write(&file, describe(args.service, facts)?).map_err(failed())?;
    Ok(format!("Wrote {}.\n{}", file.display(), next_steps(args.service, facts, &file)))
}

fn uninstall(args: ServiceArgs, environment: &Environment) -> Result<String, CommandError> {
    let file = place(args, environment)?;
    std::fs::remove_file(&file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            CommandError::NotFound(format!("{} does not exist", file.display()))
        }
        _ => CommandError::io(format!("cannot remove {}", file.display()))(error),
    })?;
    forget_enabling(&file);
    let user = if args.reach() == Reach::User { " --user" } else { "" };
    let after = match args.manager() {
        Manager::Systemd => format!("systemctl{user} stop {UNIT}; systemctl{user} daemon-reload"),
        Manager::Launchd => format!("launchctl bootout {}/{LABEL}", domain(args)),
    };
    Ok(format!("Removed {}.\nIf it is still running: {after}\n", file.display()))
}

/// Removes the links that `systemctl enable` created; without the unit they are broken.
fn forget_enabling(unit: &Path) {
    let Some(folder) = unit.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return;
    };
    for entry in folder.flatten() {
        let link = entry.path().join(UNIT);
        if entry.file_name().to_string_lossy().ends_with(".wants") && link.is_symlink() {
            // `systemctl` reports what could not be removed when it is reloaded.
            std::fs::remove_file(link).ok();
        }
    }
}

fn place(args: ServiceArgs, environment: &Environment) -> Result<PathBuf, CommandError> {
    let home = || {
        environment
            .home()
            .ok_or_else(|| CommandError::Usage("HOME is not set; use --system".into()))
    };
    Ok(match (args.manager(), args.reach()) {
        (Manager::Systemd, Reach::System) => Path::new("/etc/systemd/system").join(UNIT),
        (Manager::Systemd, Reach::User) => {
            let config = environment.config_home();
            config.map_or_else(home, Ok)?.join("systemd/user").join(UNIT)
        }
        (Manager::Launchd, Reach::System) => {
            Path::new("/Library/LaunchDaemons").join(format!("{LABEL}.plist"))
        }
        (Manager::Launchd, Reach::User) => {
            home()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist"))
        }
    })
}

fn domain(args: ServiceArgs) -> String {
    match args.reach() {
        Reach::System => "system".into(),
        Reach::User => format!("gui/{}", nix::unistd::Uid::current()),
    }
}

fn next_steps(args: ServiceArgs, facts: &Facts, file: &Path) -> String {
    let secrets = secrets_file(facts, args.reach());
    match (args.manager(), args.reach()) {
        (Manager::Systemd, reach) => {
            let user = if reach == Reach::User { " --user" } else { "" };
            let linger = match reach {
                Reach::User => format!("  loginctl enable-linger {}\n", facts.user),
                Reach::System => String::new(),
            };
            format!(
                "Put the credentials (AZURE_DEVOPS_PAT=…, GITHUB_TOKEN=… or JIRA_TOKEN=…, and that of the agent, such as ANTHROPIC_API_KEY=…) into {} (mode 600), \
                 then:\n  heartbeat doctor\n{linger}  systemctl{user} daemon-reload\n  \
                 systemctl{user} enable --now {UNIT}\n  journalctl{user} -u {UNIT} -f\n",
                secrets.display()
            )
        }
        (Manager::Launchd, _) => format!(
            "Set [source] token_file to a file with mode 600, then:\n  heartbeat doctor\n  \
             launchctl bootstrap {} {}\n",
            domain(args),
            file.display()
        ),
    }
}

fn secrets_file(facts: &Facts, reach: Reach) -> PathBuf {
    match reach {
        Reach::User => facts.home.join(".config/heartbeat/environment"),
        Reach::System => "/etc/heartbeat/environment".into(),
    }
}

/// Hardening options left out, and why: agents are contained by user and PID namespaces, which
/// RestrictNamespaces (it hides `clone3`) and PrivateUsers forbid and ProtectControlGroups would
/// weaken. ProtectKernelTunables, ProtectKernelLogs and ProtectProc cover parts of `/proc`, after
/// which the kernel refuses a `/proc` of its own to a namespace. The agents' runtime generates code,
/// which MemoryDenyWriteExecute forbids.
fn systemd(facts: &Facts, reach: Reach) -> Result<String, CommandError> {
    let all = |parts: &mut dyn Iterator<Item = String>| {
        parts.map(|part| quoted(&part)).collect::<Vec<_>>().join(" ")
    };
    let folders = std::iter::once(&facts.state).chain(&facts.writes);
    // Root needs some to map itself into the namespace of a session.
    let capabilities = match facts.user.as_str() {
        "root" => {
            "~CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_TIME CAP_SYS_BOOT CAP_SYSLOG CAP_BPF \
             CAP_PERFMON CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_WAKE_ALARM"
        }
        _ => "",
    };
    let values = context! {
        unit => UNIT,
        command => all(&mut facts.command()),
        path => facts.path.replace('%', "%%").replace('"', "\\\""),
        secrets => secrets_file(facts, reach).display().to_string(),
        stop => facts.stop_seconds,
        tasks => facts.tasks,
        subgroup => OWN_SUBGROUP,
        system => reach == Reach::System,
        user => facts.user.clone(),
        writes => all(&mut folders.map(|folder| folder.display().to_string())),
        capabilities,
    };
    filled(include_str!("heartbeat.service"), values)
}

fn filled(template: &str, values: minijinja::Value) -> Result<String, CommandError> {
    let fill = || {
        let mut templates = minijinja::Environment::new();
        let mut syntax = SyntaxConfig::builder();
        templates.set_syntax(syntax.trim_blocks(true).keep_trailing_newline(true).build()?);
        templates.render_str(template, values)
    };
    fill().map_err(|error: minijinja::Error| CommandError::Command(error.into()))
}

/// Quotes one argument of `ExecStart` or one folder of `ReadWritePaths`.
fn quoted(text: &str) -> String {
    let text = text.replace('%', "%%");
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '%' | '+');
    if text.chars().all(plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$"))
}

/// launchd ends only its own process; heartbeat ends its sessions, and finds orphans at its next
/// start.
fn launchd(facts: &Facts, reach: Reach) -> Result<String, CommandError> {
    let values = context! {
        label => LABEL,
        command => facts.command().map(|argument| xml(&argument)).collect::<Vec<_>>(),
        system => reach == Reach::System,
        user => xml(&facts.user),
        path => xml(&facts.path),
        stop => facts.stop_seconds,
        log => xml(&facts.state.join("heartbeat.log").display().to_string()),
    };
    filled(include_str!("heartbeat.plist"), values)
}

fn xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
