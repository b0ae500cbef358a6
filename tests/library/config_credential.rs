//! Credentials from variables, files and commands, and the errors without one.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use heartbeat::config::DEFAULT_TOML;
use heartbeat::config::credential::{http_token, source_credential};
use heartbeat::settings::{Config, Environment};
use secrecy::ExposeSecret;

fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    change(&mut config);
    config
}

fn environment(more: &[(&str, &str)]) -> Environment {
    Environment::new([("PATH", "/usr/bin:/bin")].iter().chain(more).copied())
}

async fn fetch(config: &Config, variables: &[(&str, &str)]) -> Result<String, String> {
    match source_credential(&config.source, config, &environment(variables)).await {
        Ok(secret) => Ok(secret.expose_secret().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

struct TokenFile(tempfile::TempDir);

impl TokenFile {
    fn new(content: &str, mode: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        Self(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("token")
    }
}

fn says(result: Result<String, String>, parts: &[&str]) {
    let error = result.unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[tokio::test]
async fn the_first_source_that_is_set_wins() {
    let file = TokenFile::new("from-file\n", 0o600);
    let all = config(|c| {
        c.source.token_file = file.path();
        c.source.token_command = vec!["echo".into(), "from-command".into()];
    });
    let variable = [("AZURE_DEVOPS_PAT", " from-variable \n")];
    assert_eq!(fetch(&all, &variable).await.unwrap(), "from-variable");
    assert_eq!(fetch(&all, &[]).await.unwrap(), "from-file");
    assert_eq!(fetch(&all, &[("AZURE_DEVOPS_PAT", "")]).await.unwrap(), "from-file");
    let command = config(|c| c.source.token_command = all.source.token_command.clone());
    assert_eq!(fetch(&command, &[]).await.unwrap(), "from-command");
}

#[tokio::test]
async fn a_missing_variable_says_its_name_and_the_way_out() {
    let plain = config(|_| {});
    says(fetch(&plain, &[]).await, &["source.token_env", "AZURE_DEVOPS_PAT", "not set"]);
    says(fetch(&plain, &[("AZURE_DEVOPS_PAT", "")]).await, &["AZURE_DEVOPS_PAT", "empty"]);
    says(fetch(&plain, &[("AZURE_DEVOPS_PAT", " \n")]).await, &["AZURE_DEVOPS_PAT", "empty"]);
    let words = fetch(&plain, &[("AZURE_DEVOPS_PAT", "hunter2 hunter3")]).await;
    assert!(!words.clone().unwrap_err().contains("hunter"));
    says(words, &["whitespace"]);
    says(fetch(&config(|c| c.source.token_env.clear()), &[]).await, &["token_command", "set one"]);
}

#[tokio::test]
async fn a_file_that_others_can_read_is_refused() {
    for mode in [0o644, 0o640, 0o604, 0o620] {
        let file = TokenFile::new("hunter2", mode);
        let error = fetch(&config(|c| c.source.token_file = file.path()), &[]).await;
        assert!(!error.clone().unwrap_err().contains("hunter2"));
        says(error, &[&format!("mode {mode:o}"), &format!("chmod 600 {}", file.path().display())]);
    }
    let empty = TokenFile::new("\n", 0o400);
    says(fetch(&config(|c| c.source.token_file = empty.path()), &[]).await, &["token is empty"]);
    let gone = config(|c| c.source.token_file = "/no/such/token".into());
    says(fetch(&gone, &[]).await, &["source.token_file /no/such/token", "No such file"]);
    let folder = config(|c| c.source.token_file = "/".into());
    says(fetch(&folder, &[]).await, &["not a regular file"]);
}

#[tokio::test]
async fn a_command_that_fails_is_quoted() {
    let shell = |script: &str| {
        config(|c| c.source.token_command = vec!["sh".into(), "-c".into(), script.into()])
    };
    let failed = fetch(&shell("echo 'please run az login' >&2; exit 1"), &[]).await;
    says(failed, &["source.token_command", "please run az login", "exit status: 1"]);
    let chatty = fetch(&shell("echo bad token: sk-ant-0123456789abcdef >&2; exit 1"), &[]).await;
    assert!(!chatty.clone().unwrap_err().contains("0123456789"));
    says(chatty, &["looks like a credential and is not shown"]);
    says(fetch(&shell("true"), &[]).await, &["output of source.token_command is empty"]);
    let missing = config(|c| c.source.token_command = vec!["/no/such/command".into()]);
    says(fetch(&missing, &[]).await, &["/no/such/command", "cannot start"]);
}

#[tokio::test]
async fn a_command_sees_the_users_environment_without_our_secrets() {
    let script = "echo \"$VAULT_ADDR-$ANTHROPIC_API_KEY-$HEARTBEAT_LOG__LEVEL\"";
    let shell = config(|c| c.source.token_command = vec!["sh".into(), "-c".into(), script.into()]);
    let variables =
        [("VAULT_ADDR", "here"), ("ANTHROPIC_API_KEY", "key"), ("HEARTBEAT_LOG__LEVEL", "info")];
    assert_eq!(fetch(&shell, &variables).await.unwrap(), "here--");
}

#[test]
fn the_http_token_comes_from_its_variable() {
    let named = config(|c| c.http.token_env = "DASHBOARD".into());
    let token = http_token(&named, &environment(&[("DASHBOARD", "x1")])).unwrap().unwrap();
    assert_eq!(token.expose_secret(), "x1");
    let error = http_token(&named, &environment(&[])).unwrap_err().to_string();
    assert!(error.contains("http.token_env") && error.contains("DASHBOARD"), "{error}");
    assert!(http_token(&config(|_| {}), &environment(&[])).unwrap().is_none());
}
