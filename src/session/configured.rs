//! An agent as it is configured on this machine: its program, and what its sessions may access.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::agent::{Agent, AgentCommand, Task, kept_folder, of_kind};
use super::confinement::{Allowed, Confinement, program_folder};
use crate::gateway::Upstream;
use crate::process::program;
use crate::settings::{AgentKind, Config, Environment};

pub struct Configured {
    pub agent: Box<dyn Agent>,
    pub program: PathBuf,
    /// The program and arguments that precede ours.
    pub command: Vec<String>,
    pub config: Arc<Config>,
    /// The provider behind the gateway of its sessions; `None`: the agent connects itself.
    pub upstream: Option<Arc<Upstream>>,
    environment: Environment,
    state: PathBuf,
}

impl Configured {
    pub fn new(
        kind: AgentKind,
        config: Arc<Config>,
        environment: &Environment,
        state: &Path,
    ) -> Self {
        let command = config.command_of(kind).to_vec();
        let lookup = |name: &str| environment.raw(name).map(OsStr::to_owned);
        let agent = of_kind(kind, &config, &kept_folder(state), lookup);
        let upstream = agent.provider().and_then(|provider| match Upstream::new(provider) {
            Ok(upstream) => Some(Arc::new(upstream)),
            Err(why) => {
                tracing::warn!(%why, "no gateway to the model provider: the agent connects itself");
                None
            }
        });
        Self {
            agent,
            upstream,
            program: resolve_program(&command[0], environment),
            command,
            config,
            environment: environment.clone(),
            state: state.to_owned(),
        }
    }

    /// What the agent may access for this task.
    pub fn confinement(&self, task: &Task, started: &AgentCommand) -> Confinement {
        let more = &self.config.agent;
        let mut read = more.read_paths.clone();
        let private = self.private_folders(task);
        read.extend(named_files(&self.command, &private));
        let (write, ports) = (more.write_paths.clone(), more.connect_ports.clone());
        let allowed = Allowed { read, write, ports };
        let needs = Confinement::for_program(&self.program, &started.env, &private);
        let mut made = needs.with(&task.scratch, &task.cwd, &self.state, &allowed);
        for folder in &task.beside {
            made.add_without(folder, &self.state);
        }
        if let Some(door) = &task.door {
            made = made.behind_gateway(door.port, &allowed);
        }
        made.read.extend(task.attached.clone());
        self.agent.confine(task, &mut made);
        made
    }

    /// The user's home, the state, the configuration's folder, and the parents of code bases.
    fn private_folders(&self, task: &Task) -> Vec<PathBuf> {
        let (known, config) = (&self.environment, &self.config);
        let mut folders = vec![self.state.clone()];
        folders.extend(known.home());
        folders.extend(known.config_home().map(|home| home.join("heartbeat")));
        let file = known.raw("HEARTBEAT_CONFIG").map(Path::new);
        folders.extend(file.and_then(Path::parent).map(Path::to_owned));
        let has_file = |folder: &PathBuf| folder.join("heartbeat.toml").is_file();
        folders.extend(std::env::current_dir().ok().filter(has_file));
        let read = std::iter::once(&task.cwd).chain(&task.beside).cloned();
        let code_bases: Vec<PathBuf> = config.code_bases().into_iter().chain(read).collect();
        folders.extend(code_bases.iter().filter_map(|path| path.parent()).map(Path::to_owned));
        folders.retain(|folder| folder.is_absolute());
        folders
    }
}

/// Files that the agent's command names after its program, such as the script of an interpreter
/// (then with its folder, if that is a program folder).
fn named_files(command: &[String], private: &[PathBuf]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in command.iter().skip(1).map(PathBuf::from) {
        if !file.is_absolute() || !file.is_file() {
            continue;
        }
        let is_script =
            file.extension().is_some_and(|end| end == "js" || end == "mjs" || end == "py");
        files.extend(program_folder(&file, private).filter(|_| is_script));
        files.push(file);
    }
    files
}

/// The agent's executable: a path as it is, a name looked up in `PATH`. A name that is not found is
/// returned unchanged, and the session reports it as missing.
pub fn resolve_program(program: &str, environment: &Environment) -> PathBuf {
    let path = environment.raw("PATH").unwrap_or_default();
    program::find(program, path).unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_an_interpreter_does_not_open_a_private_folder() {
        let home = tempfile::tempdir().unwrap();
        let home = std::fs::canonicalize(home.path()).unwrap();
        let (tools, script) = (home.join("tools"), home.join("agent.js"));
        std::fs::create_dir(&tools).unwrap();
        for file in [&script, &tools.join("agent.js")] {
            std::fs::write(file, "").unwrap();
        }
        let named = |file: &Path| {
            let command = ["node".to_owned(), file.display().to_string()];
            named_files(&command, std::slice::from_ref(&home))
        };
        assert_eq!(named(&script), std::slice::from_ref(&script));
        assert_eq!(named(&tools.join("agent.js")), [tools.clone(), tools.join("agent.js")]);
    }
}
