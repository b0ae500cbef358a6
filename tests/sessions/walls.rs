//! One-way folders: what a confined agent leaves behind is neither followed nor waited for nor
//! executed by an unconfined process. The agents are shell scripts, confined like the real ones.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use heartbeat::app::selftest::Rig;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::model::{Outcome, RunId, SessionEnd, SessionId, SessionRef, Stage};
use heartbeat::prompt::Rendered;
use heartbeat::session::confinement::Strength;
use heartbeat::session::{Job, Sessions, StopHandle, SupervisedSessions};
use heartbeat::settings::{AgentAuth, AgentKind, Config, Containment, Environment};
use serde_json::json;
use uuid::Uuid;

const HEARTBEAT: &str = env!("CARGO_BIN_EXE_heartbeat");

/// A world with a user's home, a state and an agent of our own.
struct World {
    folder: tempfile::TempDir,
    kind: AgentKind,
    containment: Containment,
}

impl World {
    fn new(kind: AgentKind, containment: Containment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home/.ssh", "home/.claude", "state", "agent"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder, kind, containment }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn agent(&self, script: &str) -> PathBuf {
        let path = self.path("agent/agent.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn sessions(&self, script: &str, change: impl FnOnce(&mut Config)) -> SupervisedSessions {
        self.sessions_in(script, "state", change)
    }

    fn sessions_in(
        &self,
        script: &str,
        state: &str,
        change: impl FnOnce(&mut Config),
    ) -> SupervisedSessions {
        let command = vec![self.agent(script).display().to_string()];
        let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
        config.agent.kind = self.kind;
        config.agent.command.clone_from(&command);
        config.codex.command.clone_from(&command);
        config.copilot.command = command;
        config.timeouts.liveness = Duration::from_millis(500);
        change(&mut config);
        let rig = Rig::new(Path::new(HEARTBEAT), self.folder.path(), self.containment).unwrap();
        let home = self.path("home").display().to_string();
        let environment = Environment::new([("PATH", "/usr/bin:/bin"), ("HOME", home.as_str())]);
        let config = Arc::new(config);
        SupervisedSessions::new(rig.supervisor, &config, &environment, &self.path(state))
    }

    async fn triage(&self, sessions: &SupervisedSessions) -> SessionEnd {
        self.perform(sessions, Stage::Triage, None).await
    }

    async fn perform(
        &self,
        sessions: &SupervisedSessions,
        stage: Stage,
        repository: Option<PathBuf>,
    ) -> SessionEnd {
        self.perform_beside(sessions, stage, repository, Vec::new()).await
    }

    async fn perform_beside(
        &self,
        sessions: &SupervisedSessions,
        stage: Stage,
        repository: Option<PathBuf>,
        beside: Vec<PathBuf>,
    ) -> SessionEnd {
        let (id, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
        let schema = json!({ "type": "object", "required": ["items"],
            "properties": { "items": { "type": "array", "items": { "type": "string" } } } });
        let job = Job {
            session: SessionRef { id, run, stage, item: None, attempt: 1 },
            prompt: Rendered { system: "Judge.".into(), user: "These items.".into(), schema },
            repository,
            beside,
            triage: None,
            analyze: None,
            attached: None,
            examiner: None,
        };
        let ending = sessions.perform(job, StopHandle::new().signal());
        let end = tokio::time::timeout(Duration::from_secs(60), ending).await;
        let end = end.expect("the session never ended").unwrap();
        assert_eq!(end.survivors, 0, "{end:?}");
        end
    }
}

const TIERS: [Containment; 2] = [Containment::Auto, Containment::Subreaper];

/// Lines of a Codex session that answers with `text`.
fn codex_says(text: &str) -> String {
    format!(
        r#"echo '{{"type":"thread.started","thread_id":"t"}}'
echo '{{"type":"turn.started"}}'
echo '{{"type":"item.completed","item":{{"id":"1","type":"agent_message","text":"{text}"}}}}'
echo '{{"type":"turn.completed","usage":{{"input_tokens":9,"cached_input_tokens":0,"output_tokens":3}}}}'"#
    )
}

/// The first agent puts something in the way of the second question: a link to a file of the user,
/// or a pipe that nobody reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_question_is_written_over_nothing_of_the_first_agent() {
    let traps = [
        r#"ln -sf "$VICTIM" "$own/$name""#,
        r#"rm -f "$own/$name"; mkfifo "$own/$name""#,
        r#"rm -rf "$own/$name"; mkdir "$own/$name"; touch "$own/$name/x""#,
    ];
    for containment in TIERS {
        for trap in traps {
            let world = World::new(AgentKind::Codex, containment);
            let victim = world.path("home/.ssh/authorized_keys");
            std::fs::write(&victim, "the user's own key\n").unwrap();
            let script = format!(
                r#"cat > "$TMPDIR/asked"
VICTIM={victim}
own=$(dirname "$CODEX_HOME")
if grep -q 'An earlier answer' "$TMPDIR/asked"; then
{good}
exit 0
fi
for name in .prompt system-prompt.md schema.json models.json home tmp codex empty 1 2; do
{trap}
done 2>/dev/null
{bad}"#,
                victim = victim.display(),
                good = codex_says(r#"{\"items\":[\"asked twice\"]}"#),
                bad = codex_says("ssh-rsa AAAA the agents own key"),
            );
            let sessions = world.sessions(&script, |_| {});
            let end = world.triage(&sessions).await;
            let kept = std::fs::read_to_string(&victim).unwrap();
            assert_eq!(kept, "the user's own key\n", "{containment:?}: {trap}");
            assert_eq!(end.outcome, Outcome::Completed, "{containment:?} {trap}: {end:?}");
            assert_eq!(end.output.unwrap()["items"][0], "asked twice", "{trap}");
        }
    }
}

fn claude_says(output: &str) -> String {
    format!(
        r#"echo '{{"type":"system","subtype":"init","session_id":"s","tools":[],"model":"m"}}'
echo '{{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"","structured_output":{output},"total_cost_usd":0.01,"num_turns":1,"usage":{{"input_tokens":9,"output_tokens":3}}}}'"#
    )
}

fn login(token: &str, expires: u64) -> String {
    let oauth = json!({ "accessToken": token, "refreshToken": format!("{token}-refresh"),
        "expiresAt": expires, "scopes": ["user:inference"], "subscriptionType": "max" });
    json!({ "claudeAiOauth": oauth }).to_string()
}

/// Of the user's folder a session gets the credential and nothing else, and only a credential comes
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_lends_its_credential_and_takes_nothing_else_back() {
    let (old, new) = (login("old", 2_000_000_000_000), login("new", 2_000_000_100_000));
    let other_plan = new.replace("max", "other");
    let cases = [
        ("nothing".to_owned(), ":".to_owned(), &old),
        ("a renewed login".to_owned(), format!("printf %s '{new}' > $L"), &new),
        ("an older login".to_owned(), format!("printf %s '{}' > $L", login("x", 5)), &old),
        ("another account".to_owned(), format!("printf %s '{other_plan}' > $L"), &old),
        ("no login".to_owned(), "echo '{}' > $L".to_owned(), &old),
        ("endless".to_owned(), "rm -f $L; ln -s /dev/zero $L".to_owned(), &old),
        ("a pipe".to_owned(), "rm -f $L; mkfifo $L".to_owned(), &old),
        ("a large file".to_owned(), "head -c 9000000 /dev/zero > $L".to_owned(), &old),
    ];
    for containment in TIERS {
        for (name, act, expected) in &cases {
            let world = World::new(AgentKind::Claude, containment);
            let user = world.path("home/.claude");
            std::fs::write(user.join(".credentials.json"), &old).unwrap();
            std::fs::write(user.join("settings.json"), "{}").unwrap();
            let script = format!(
                r#"cat > /dev/null
L="$CLAUDE_CONFIG_DIR/.credentials.json"
grep -q '"old"' "$L" || exit 9
for f in {user}/settings.json {user}/CLAUDE.md "$CLAUDE_CONFIG_DIR/settings.json"; do
echo '{{"hooks":1}}' > "$f"; done 2>/dev/null
cat {user}/settings.json 2>/dev/null && exit 8
{act}
{says}"#,
                user = user.display(),
                says = claude_says(r#"{"items":[]}"#),
            );
            let sessions = world.sessions(&script, |config| config.agent.auth = AgentAuth::Login);
            let end = world.triage(&sessions).await;
            assert_eq!(end.outcome, Outcome::Completed, "{containment:?} {name}: {end:?}");
            let kept = std::fs::read_to_string(user.join(".credentials.json")).unwrap();
            assert_eq!(&&kept, expected, "{containment:?} {name}");
            assert_eq!(std::fs::read_to_string(user.join("settings.json")).unwrap(), "{}");
            let mut names: Vec<_> = std::fs::read_dir(&user)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [".credentials.json", "settings.json"], "{containment:?} {name}");
        }
    }
}

/// The program's cache is filled by a step of its own, before any text of a tracker is there, and
/// no session can write it, not even the first.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_writes_the_program_cache_that_others_execute() {
    for containment in TIERS {
        let world = World::new(AgentKind::Copilot, containment);
        let script = r#"cache="$XDG_CACHE_HOME/copilot/pkg/linux/1.0"
if [ "$1" = --version ]; then mkdir -p "$cache"; echo good > "$cache/program"
echo "GitHub Copilot CLI 1.0.102."; exit 0; fi
cat > /dev/null
{ echo evil > "$cache/program"; echo evil > "$XDG_CACHE_HOME/more"; rm -rf "$cache"; } 2>/dev/null
cat "$cache/program" > /dev/null || exit 7
exit 0"#;
        let sessions = world.sessions(script, |_| {});
        world.triage(&sessions).await;
        let cache = world.path("state/agents/copilot-cache");
        let program = cache.join("copilot/pkg/linux/1.0/program");
        assert_eq!(std::fs::read_to_string(program).unwrap(), "good\n", "{containment:?}");
        assert!(!cache.join("more").exists(), "{containment:?}");
    }
}

/// In a namespace a session finds only what it may access, and nothing but its own folder is
/// writable, not even the times of a file. For Codex, whose sandbox makes mounts that rules for files
/// would forbid, this is the only wall of its files.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_namespace_finds_only_what_it_may_access() {
    for kind in [AgentKind::Codex, AgentKind::Claude] {
        for state in ["state", "repository/state"] {
            finds_only_its_own(kind, state).await;
        }
    }
}

/// A program named by a link, an interpreter behind another, a code base behind a linked folder or at
/// the top of the file system: all are found.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_a_namespace_finds_what_is_named_by_links() {
    for kind in [AgentKind::Codex, AgentKind::Claude] {
        let mut places = vec![tempfile::tempdir().unwrap()];
        // Only root may write there.
        places.extend(tempfile::tempdir_in("/"));
        for place in &places {
            let world = World::new(kind, Containment::Auto);
            std::fs::write(place.path().join("code.rs"), "fn main() {}").unwrap();
            let shortcut = world.path("home/shortcut");
            std::os::unix::fs::symlink(place.path(), &shortcut).unwrap();
            let bin = world.path("home/bin");
            std::fs::create_dir(&bin).unwrap();
            let script = format!(
                "if [ \"$1\" = sandbox ]; then echo sandboxed; exit 0; fi\ncat > /dev/null\n\
                 cat code.rs > /dev/null || exit 7\n{}",
                match kind {
                    AgentKind::Codex => codex_says(r#"{\"items\":[]}"#),
                    _ => claude_says(r#"{"items":[]}"#),
                }
            );
            std::os::unix::fs::symlink(world.agent(&script), bin.join("agent")).unwrap();
            let named = bin.join("agent").display().to_string();
            for repository in [place.path().to_owned(), shortcut] {
                let sessions = world.sessions(&script, |config| {
                    config.agent.command = vec![named.clone()];
                    config.codex.command = vec![named.clone()];
                });
                let end = world.perform(&sessions, Stage::Deep, Some(repository.clone())).await;
                let said = end.stderr_tail.raw();
                let shown = repository.display();
                assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {shown}: {end:?} {said}");
            }
        }
    }
}

/// An item over two code bases: its session reads both, writes neither, and finds nothing else, in
/// every tier. The agents' own walls are told of the second folder too.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_over_two_code_bases_reads_both_and_nothing_else() {
    let full = Strength::of_this_machine() == Strength::Full;
    let auto = heartbeat::session::containment::detect(Path::new(HEARTBEAT), Containment::Auto);
    let namespaces = auto.await.unwrap().has_namespace();
    for kind in [AgentKind::Claude, AgentKind::Codex] {
        for containment in TIERS {
            // Codex has rules for files only in a namespace: it makes its own sandbox.
            let in_namespace = namespaces && containment == Containment::Auto;
            if !in_namespace && (!full || kind == AgentKind::Codex) {
                println!("skipped: no walls of files for {kind:?} in {containment:?} here");
                continue;
            }
            reads_both_and_nothing_else(kind, containment).await;
        }
    }
}

async fn reads_both_and_nothing_else(kind: AgentKind, containment: Containment) {
    let world = World::new(kind, containment);
    for file in ["code/web/a.ts", "code/server/src/b.rs", "code/ledger/c.py", "code/token"] {
        std::fs::create_dir_all(world.path(file).parent().unwrap()).unwrap();
        std::fs::write(world.path(file), "fn main() {}").unwrap();
    }
    for secret in ["home/.ssh/id", "state/heartbeat.db"] {
        std::fs::write(world.path(secret), "secret").unwrap();
    }
    // A link in the second code base leads out of it.
    let way_out = world.path("code/server/way-out");
    std::os::unix::fs::symlink(world.path("code/ledger"), way_out).unwrap();
    let script = format!(
        r#"if [ "$1" = sandbox ]; then echo sandboxed; exit 0; fi
cat > /dev/null
reached=
cat a.ts {base}/code/web/a.ts {base}/code/server/src/b.rs > /dev/null || reached="$reached no-code"
ls {base}/code/server/src > /dev/null || reached="$reached no-list"
for f in home/.ssh/id state/heartbeat.db code/token code/ledger/c.py code/server/way-out/c.py \
  code/server/../ledger/c.py; do
  cat {base}/$f > /dev/null 2>&1 && reached="$reached read $f"; done
for f in code/web/x code/server/x code/server/src/x code/ledger/x; do
  (echo x > {base}/$f) 2>/dev/null && reached="$reached write $f"; done
(echo x > {base}/code/x) 2>/dev/null
(echo x >> {base}/code/server/src/b.rs) 2>/dev/null && reached="$reached append"
(rm -f {base}/code/server/src/b.rs) 2>/dev/null && [ ! -e {base}/code/server/src/b.rs ] &&
  reached="$reached remove"
echo "reached:$reached." >&2
case "$*" in *{base}/code/server*) echo "told." >&2;; esac
{says}"#,
        base = world.folder.path().display(),
        says = match kind {
            AgentKind::Codex => codex_says(r#"{\"items\":[]}"#),
            _ => claude_says(r#"{"items":[]}"#),
        },
    );
    let sessions = world.sessions(&script, |_| {});
    let (first, second) = (world.path("code/web"), world.path("code/server"));
    let end = world.perform_beside(&sessions, Stage::Deep, Some(first), vec![second]).await;
    let said = end.stderr_tail.raw();
    assert!(said.contains("reached:."), "{kind:?} {containment:?}: {end:?} {said}");
    assert!(said.contains("told."), "{kind:?} {containment:?}: {said}");
    // A folder above them is one of the namespace's own, gone with it.
    assert!(!world.path("code/x").exists(), "{kind:?} {containment:?}");
    let kept = std::fs::read_to_string(world.path("code/server/src/b.rs")).unwrap();
    assert_eq!(kept, "fn main() {}", "{kind:?} {containment:?}");
}

async fn finds_only_its_own(kind: AgentKind, state: &str) {
    let world = World::new(kind, Containment::Auto);
    let tier = heartbeat::session::containment::detect(Path::new(HEARTBEAT), Containment::Auto);
    if !tier.await.unwrap().has_namespace() {
        println!("skipped: no namespaces here");
        return;
    }
    let repository = world.path("repository");
    std::fs::create_dir_all(world.path(state)).unwrap();
    std::fs::create_dir_all(repository.join("src")).unwrap();
    for code in ["code.rs", "src/more.rs"] {
        std::fs::write(repository.join(code), "fn main() {}").unwrap();
    }
    let database = format!("{state}/heartbeat.db");
    for secret in ["home/.ssh/id", &database, "token"] {
        std::fs::write(world.path(secret), "secret").unwrap();
    }
    let script = format!(
        r#"if [ "$1" = sandbox ]; then echo sandboxed; exit 0; fi
cat > /dev/null
reached=
for f in {base}/home/.ssh/id {base}/{database} {base}/token /etc/shadow; do
  cat $f > /dev/null 2>&1 && reached="$reached read $f"; done
(echo x > {base}/{state}/x) 2>/dev/null
for f in {base}/home/x {base}/repository/x /etc/x /var/x /usr/x /root/x /home/x; do
  (echo x > $f) 2>/dev/null && reached="$reached write $f"; done
(chmod 644 {base}/repository/code.rs) 2>/dev/null && reached="$reached chmod"
(touch -d 2001-01-01 {base}/repository/code.rs) 2>/dev/null && reached="$reached touch"
cat {base}/repository/code.rs {base}/repository/src/more.rs > /dev/null || reached="$reached no-code"
echo x > "$HOME/own" || reached="$reached no-home"
echo x > "$TMPDIR/own" || reached="$reached no-tmp"
echo "reached:$reached." >&2
{says}"#,
        base = world.folder.path().display(),
        says = match kind {
            AgentKind::Codex => codex_says(r#"{\"items\":[]}"#),
            _ => claude_says(r#"{"items":[]}"#),
        },
    );
    let sessions = world.sessions_in(&script, state, |_| {});
    // Named by a link, which must not open more.
    let shortcut = world.path("shortcut");
    std::os::unix::fs::symlink(&repository, &shortcut).unwrap();
    let end = world.perform(&sessions, Stage::Deep, Some(shortcut)).await;
    let said = end.stderr_tail.raw();
    assert_eq!(end.outcome, Outcome::Completed, "{kind:?} {state}: {end:?} {said}");
    assert!(said.contains("reached:."), "{kind:?} {state}: {said}");
    assert!(!repository.join("x").exists() && !world.path(state).join("x").exists());
    let about = std::fs::metadata(repository.join("code.rs")).unwrap();
    assert!(about.modified().unwrap() > std::time::UNIX_EPOCH + Duration::from_secs(1_500_000_000));
}
