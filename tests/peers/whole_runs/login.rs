//! A login on disk: sessions get the user's own folder of the agent for its credential, and nothing
//! else in it has any effect.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::world::{World, asked_about, is_triage};
use support::answers::{finding, verdicts};
use support::messages_api::Reply;

const MARK: &str = "INJECTED-BY-THE-USERS-FOLDER";

/// A folder as a user of the agent may have it: a login, and in every place where the agent looks
/// for something to run, a script that leaves a trace.
fn lent_folder(world: &World) -> PathBuf {
    let folder = world.folder.path().join(".claude");
    for below in ["agents", "commands", "skills/trap"] {
        std::fs::create_dir_all(folder.join(below)).unwrap();
    }
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let trap = |name: &str| trap(world, name).display().to_string();
    let hook = |name: &str| json!([{ "hooks": [{ "type": "command", "command": trap(name) }] }]);
    let settings = json!({
        "hooks": {
            "SessionStart": hook("session-start"), "UserPromptSubmit": hook("prompt"),
            "PreToolUse": hook("tool"), "Stop": hook("stop"), "SessionEnd": hook("end"),
        },
        "apiKeyHelper": trap("key"), "awsAuthRefresh": trap("aws"), "otelHeadersHelper": trap("otel"),
        "statusLine": { "type": "command", "command": trap("status") },
        "permissions": { "allow": ["Bash", "Write", "Read(/**)"], "defaultMode": "bypassPermissions" },
        "env": { "MARKED": MARK },
    });
    write("settings.json", &settings.to_string());
    write("settings.local.json", &settings.to_string());
    let server = json!({ "mcpServers": { "trap": { "command": trap("server"), "args": [] } } });
    write(".claude.json", &server.to_string());
    write("CLAUDE.md", MARK);
    write("agents/trap.md", &format!("---\nname: trap\ndescription: {MARK}\n---\n{MARK}"));
    write("commands/trap.md", MARK);
    write("skills/trap/SKILL.md", &format!("---\nname: trap\ndescription: {MARK}\n---\n{MARK}"));
    let login = json!({ "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-from-the-disk", "refreshToken": "sk-ant-ort01-x",
        "expiresAt": 4_000_000_000_000_u64, "scopes": ["user:inference"],
        "subscriptionType": "max",
    } });
    write(".credentials.json", &login.to_string());
    folder
}

/// A script that leaves a trace when it is run.
fn trap(world: &World, name: &str) -> PathBuf {
    let path = world.folder.path().join(format!("trap-{name}"));
    let trace = world.folder.path().join(format!("ran-{name}"));
    std::fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", trace.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn traces(world: &World) -> Vec<String> {
    let names = std::fs::read_dir(world.folder.path()).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("ran-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_credential_of_the_users_folder_is_used() {
    let world = World::new(|request| match is_triage(request) {
        true => Reply::structured(verdicts(asked_about(request), 1)),
        false if request.body["messages"].to_string().contains("tool_result") => {
            Reply::structured(finding(&["src/total.rs"]))
        }
        false => Reply::Tools(vec![("Read", json!({ "file_path": "src/total.rs" }))]),
    });
    let Some(world) = world.await else { return };
    let folder = lent_folder(&world);
    let claude = world.claude().display().to_string();
    world.configure_agent(&[&claude], "auth = \"login\"", "");
    let said = world.once().await;
    assert_eq!(said.code, Some(0), "{:#}\n{}", said.json, said.stderr);
    assert_eq!(said.json["summary"]["analysed"], 1);
    assert_eq!(traces(&world), Vec::<String>::new(), "something of the user's was run");
    let requests = world.api.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.header("authorization"), Some("Bearer sk-ant-oat01-from-the-disk"));
        assert!(!request.body.to_string().contains(MARK), "{:#}", request.body);
        let usual = ["Read", "DeferredToolPlaceholder", "StructuredOutput"];
        assert!(request.tools().iter().all(|tool| usual.contains(tool)), "{:?}", request.tools());
    }
    for file in files_below(&folder) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!text.contains("item=\""), "{} keeps a prompt", file.display());
        assert!(!text.contains("The total is rounded twice"), "{} keeps an answer", file.display());
    }

    // The same folder with the agent's usual flags: the traps are real. The key helper is called
    // first, and without its key nothing else begins.
    by_hand(&world, &folder).await;
    assert_eq!(traces(&world), ["ran-key"]);
    let settings = std::fs::read(folder.join("settings.json")).unwrap();
    let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
    let only_hooks = json!({ "hooks": settings["hooks"] }).to_string();
    std::fs::write(folder.join("settings.json"), only_hooks).unwrap();
    by_hand(&world, &folder).await;
    for trace in ["ran-session-start", "ran-prompt"] {
        assert!(traces(&world).iter().any(|ran| ran == trace), "{:?}", traces(&world));
    }
}

/// `claude -p` as a user would start it.
async fn by_hand(world: &World, folder: &Path) {
    let mut agent = tokio::process::Command::new(world.claude())
        .args(["-p", "--max-turns", "1"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", world.folder.path())
        .env("CLAUDE_CONFIG_DIR", folder)
        .env("ANTHROPIC_BASE_URL", world.api.url())
        .env("CLAUDE_CODE_MAX_RETRIES", "0")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .current_dir(world.code())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    agent.stdin.take().unwrap().write_all(b"hello").await.unwrap();
    let patience = std::time::Duration::from_secs(60);
    tokio::time::timeout(patience, agent.wait()).await.unwrap().unwrap();
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}
