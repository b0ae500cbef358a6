//! The agent's command line program: there, new enough, and with a login that fits its mode.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{Check, Patient};
use crate::app::resolve_program;
use crate::config::AgentAuth;
use crate::exec::{self, HelperCommand};

/// The version that this heartbeat's knowledge of the program was measured on.
const MEASURED: [u32; 3] = [2, 1, 325];
/// What a session asks for and the program's help names; older programs lack some of it.
const FLAGS: [&str; 9] = [
    "--output-format",
    "--json-schema",
    "--tools",
    "--setting-sources",
    "--strict-mcp-config",
    "--permission-mode",
    "--session-id",
    "--no-session-persistence",
    "--max-budget-usd",
];
/// What our own stand-in says of itself.
const STAND_IN: &str = "heartbeat simulate agent";

const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

pub(super) async fn checks(patient: &Patient) -> Vec<Check> {
    let command = &patient.config.agent.command;
    let program = resolve_program(&command[0], &patient.environment);
    if !program.is_absolute() || !program.is_file() {
        let found = format!("{:?} is not found", command[0]);
        let fix = format!(
            "install it ({INSTALL}), or set agent.command to its full path; a service has another \
             PATH than a terminal"
        );
        let skipped = Check::skipped("agent login", "there is no agent");
        return vec![Check::failed("agent", found, fix), skipped];
    }
    vec![version(patient, &program).await, login(patient)]
}

async fn version(patient: &Patient, program: &Path) -> Check {
    let told = match ask(patient, program, "--version").await {
        Ok(text) => text,
        Err(why) => {
            let fix = format!(
                "run `{} --version` by hand; reinstall it with {INSTALL}",
                program.display()
            );
            return Check::failed("agent", why, fix);
        }
    };
    let said = told.lines().next().unwrap_or_default().trim().to_owned();
    let Some(found) = parse(&said) else {
        let fix = "agent.command must name the Claude Code CLI";
        return Check::failed("agent", format!("{} says {said:?}", program.display()), fix);
    };
    let place = format!("{} {said}", program.display());
    if said.contains(STAND_IN) {
        return Check::ok("agent", place);
    }
    let help = ask(patient, program, "--help").await.unwrap_or_default();
    let bare = (patient.config.agent.auth == AgentAuth::ApiKey).then_some("--bare");
    let missing: Vec<&str> =
        FLAGS.into_iter().chain(bare).filter(|flag| !help.contains(flag)).collect();
    if !missing.is_empty() {
        let found = format!("{place} is too old: it does not know {}", missing.join(", "));
        return Check::failed("agent", found, format!("update it: {INSTALL}@latest"));
    }
    if found < MEASURED {
        let [major, minor, patch] = MEASURED;
        return Check::warning(
            "agent",
            format!(
                "{place} is older than {major}.{minor}.{patch}, which heartbeat was measured on"
            ),
            format!("update it: {INSTALL}@latest"),
        );
    }
    Check::ok("agent", place)
}

/// One of the program's answers, with the least of an environment.
async fn ask(patient: &Patient, program: &Path, question: &str) -> Result<String, String> {
    let mut args: Vec<OsString> =
        patient.config.agent.command[1..].iter().map(OsString::from).collect();
    args.push(question.into());
    let mut env: Vec<(OsString, OsString)> = ["PATH", "HOME", "LANG"]
        .iter()
        .filter_map(|name| Some((name.into(), patient.environment.raw(name)?.into())))
        .collect();
    let quiet = ["DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"];
    env.extend(quiet.iter().map(|name| (name.into(), "1".into())));
    let command = HelperCommand {
        program: program.into(),
        args,
        cwd: "/".into(),
        env,
        timeout: Duration::from_secs(30),
        max_output: 1 << 20,
    };
    let output = exec::run(&command).await.map_err(|error| error.to_string())?;
    let stdout = output.success(&command).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// `2.1.325 (Claude Code)` as numbers.
fn parse(text: &str) -> Option<[u32; 3]> {
    let word =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next().flatten().unwrap_or(0)])
}

/// Is there a credential, of the kind that the mode takes?
fn login(patient: &Patient) -> Check {
    let agent = &patient.config.agent;
    let variable = agent.credential_env.as_str();
    let is_set = !variable.is_empty()
        && patient.environment.raw(variable).is_some_and(|value| !value.is_empty());
    let name = "agent login";
    match agent.auth {
        AgentAuth::ApiKey if variable == "CLAUDE_CODE_OAUTH_TOKEN" => Check::failed(
            name,
            "CLAUDE_CODE_OAUTH_TOKEN is a subscription's token, which the lean mode does not take",
            "set agent.auth = \"login\", or use an API key",
        ),
        AgentAuth::ApiKey if is_set => Check::ok(name, format!("the variable {variable} is set")),
        AgentAuth::ApiKey => Check::failed(
            name,
            format!("not logged in: agent.auth is \"api-key\" and {variable} is not set"),
            format!(
                "export {variable} (a service: in its environment file), or set agent.auth = \
                 \"login\" to use a subscription"
            ),
        ),
        AgentAuth::Login if is_set && variable != "ANTHROPIC_API_KEY" => {
            Check::ok(name, format!("the variable {variable} is set"))
        }
        AgentAuth::Login => login_folder(patient),
    }
}

fn login_folder(patient: &Patient) -> Check {
    let (name, environment) = ("agent login", &patient.environment);
    let folder = environment
        .raw("CLAUDE_CONFIG_DIR")
        .map(std::path::PathBuf::from)
        .or_else(|| Some(environment.home()?.join(".claude")));
    let Some(folder) = folder else {
        return Check::failed(name, "HOME is not set, so there is no login", "set HOME");
    };
    let file = folder.join(".credentials.json");
    if file.is_file() {
        return Check::ok(name, format!("logged in, by {}", file.display()));
    }
    let found = format!("not logged in: {} is not there", file.display());
    let fix = "run `claude` once as this user and use /login, or make a token with `claude \
               setup-token` and name its variable in agent.credential_env";
    if cfg!(target_os = "macos") {
        // There the login may be in the keychain, which is not ours to open.
        return Check::warning(name, found, fix);
    }
    Check::failed(name, found, fix)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("2.1.325 (Claude Code)"), Some([2, 1, 325]));
        assert_eq!(parse("claude 2.10.0-beta.1"), Some([2, 10, 0]));
        assert!(parse("1.0.99 (Claude Code)") < parse("2.1.325 (Claude Code)"));
        assert_eq!(parse("command not found"), None);
    }
}
