//! A hostile agent behind the gateway: it reaches the gateway's port and nothing else, and it holds
//! no key. The same agent without a gateway shows that each attempt means something.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use heartbeat::app::selftest::Rig;
use heartbeat::config::DEFAULT_TOML;
use heartbeat::event::Event;
use heartbeat::model::{RunId, SessionId, SessionRef, Stage};
use heartbeat::prompt::Rendered;
use heartbeat::session::confinement::Strength;
use heartbeat::session::{Job, Sessions, StopHandle, SupervisedSessions};
use heartbeat::settings::{Config, Containment, Environment};
use serde_json::json;
use uuid::Uuid;

const KEY: &str = "sk-ant-key-of-the-provider-0123456789";

const HOSTILE: &str = r#"
try() { if (exec 3<>"$2") 2>/dev/null; then echo "$1:reached" >&2; else echo "$1:closed" >&2; fi; }
env | grep -E '^(ANTHROPIC|HTTPS)' >&2
door=${ANTHROPIC_BASE_URL#http://}
try door "/dev/tcp/${door/://}"
try tcp /dev/tcp/127.0.0.1/$OTHER_TCP
try https /dev/tcp/127.0.0.1/443
try udp /dev/udp/127.0.0.1/$OTHER_UDP
try names /dev/udp/127.0.0.1/53
try udp6 /dev/udp/::1/53
"#;

/// What the agent wrote, and the tier of its row.
async fn attack(credential: &str, containment: Containment) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let heartbeat = Path::new(env!("CARGO_BIN_EXE_heartbeat"));
    let script = folder.path().join("hostile.sh");
    std::fs::write(&script, HOSTILE).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let provider = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = |address: std::net::SocketAddr| address.port().to_string();
    let mut config: Config = toml::from_str(DEFAULT_TOML).unwrap();
    config.agent.command = vec!["/bin/bash".into(), script.display().to_string()];
    config.agent.credential_env = credential.to_owned();
    config.agent.pass_env =
        ["ANTHROPIC_BASE_URL", "HTTPS_PROXY", "OTHER_TCP", "OTHER_UDP"].map(str::to_owned).to_vec();
    let (tcp_port, udp_port) = (port(tcp.local_addr().unwrap()), port(udp.local_addr().unwrap()));
    let base = format!("http://{}", provider.local_addr().unwrap());
    let environment = Environment::new([
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/nonexistent"),
        (credential, KEY),
        ("ANTHROPIC_BASE_URL", &base),
        ("HTTPS_PROXY", "http://user:password@127.0.0.1:9/"),
        ("OTHER_TCP", &tcp_port),
        ("OTHER_UDP", &udp_port),
    ]);
    let rig = Rig::new(heartbeat, folder.path(), containment).unwrap();
    let (config, state) = (Arc::new(config), folder.path().join("state"));
    std::fs::create_dir(&state).unwrap();
    let sessions = SupervisedSessions::new(rig.supervisor, &config, &environment, &state);
    let (id, run) = (SessionId(Uuid::now_v7()), RunId(Uuid::now_v7()));
    let schema = json!({ "type": "object" });
    let job = Job {
        session: SessionRef { id, run, stage: Stage::Triage, item: None, attempt: 1 },
        prompt: Rendered { system: "Judge.".into(), user: "These.".into(), schema },
        repository: None,
        beside: Vec::new(),
        triage: None,
        analyze: None,
        attached: None,
        examiner: None,
    };
    let end = sessions.perform(job, StopHandle::new().signal()).await.unwrap();
    let tier = rig.events.events().iter().find_map(|event| match event {
        Event::SessionRegistered { tier, .. } => Some(tier.clone()),
        _ => None,
    });
    (end.stderr_tail.raw().clone(), tier.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_agent_behind_the_gateway_reaches_the_gateway_and_nothing_else() {
    if Strength::of_this_machine() != Strength::Full {
        println!("skipped: this kernel cannot confine an agent fully");
        return;
    }
    for containment in [Containment::Auto, Containment::Subreaper] {
        for credential in ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"] {
            let (said, tier) = attack(credential, containment).await;
            assert!(said.contains("door:reached"), "{said}");
            assert_eq!(said.matches(":closed").count(), 5, "{said}");
            assert!(!said.contains(KEY) && !said.contains("password"), "{said}");
            assert!(said.contains(&format!("{credential}=session-")), "{said}");
            assert!(tier.ends_with("+gateway+landlock"), "{tier}");
        }
        // A name that the CLI does not know: no gateway, and the row does not claim one.
        let (said, tier) = attack("ANTHROPIC_OTHER_KEY", containment).await;
        assert!(said.contains("udp:reached") && said.contains(KEY), "{said}");
        assert!(!tier.contains("gateway"), "{tier}");
    }
}
