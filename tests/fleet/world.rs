//! The test environment: a server, a tracker, a coordinator and hosts, each a process, and ways to
//! observe them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use heartbeat::fleet::keys::Keys;
use nix::sys::signal::Signal;
use support::conformance::ScriptedAgent;
use support::{eventually, git};

use crate::hosts::Hosts;

pub const HEARTBEAT: &str = env!("CARGO_BIN_EXE_heartbeat");
/// Heartbeat timeout in these tests.
pub const LEASE: Duration = Duration::from_secs(8);
/// Between SIGINT and SIGKILL.
pub const GRACE: Duration = Duration::from_secs(1);

/// The server's program; prints that the test is skipped if it is not installed.
pub fn server_program() -> Option<PathBuf> {
    let program = std::env::var_os("HEARTBEAT_TEST_TEMPORAL").map(PathBuf::from);
    if program.is_none() {
        println!("SKIPPED: the fleet's server is not installed; tests/run installs it");
    }
    program
}

/// A process that is killed with the test.
pub struct Process(Option<Child>);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits for its end; returns the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.0.as_mut().unwrap().wait().unwrap().code()
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Kills it, like a power cut.
    pub fn kill(&mut self) {
        let child = self.0.as_mut().unwrap();
        child.kill().ok();
        child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

pub struct World {
    folder: tempfile::TempDir,
    program: PathBuf,
    /// Additional arguments of the server.
    server_words: Vec<&'static str>,
    port: u16,
    server: Option<Process>,
    _tracker: Process,
    tracker: String,
    pub agent: ScriptedAgent,
    /// Separate networks; `None`: everything is on loopback.
    pub hosts: Option<Hosts>,
}

/// The public half of a key, which is made if there is none.
pub fn public(key: &Path) -> String {
    Keys::read_or_make(key).unwrap().public().to_string()
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl World {
    /// A server and a tracker with this many items; no host yet. `None` if the server is not
    /// installed.
    pub fn new(items: usize) -> Option<Self> {
        Self::made(items, None, Vec::new())
    }

    /// The same with additional arguments of the server.
    pub fn with_server(items: usize, words: &[&'static str]) -> Option<Self> {
        Self::made(items, None, words.to_vec())
    }

    /// The same with a network between server, coordinator and hosts. `None` if that is not
    /// possible here.
    pub fn with_network(items: usize) -> Option<Self> {
        server_program()?;
        let hosts = Hosts::up()?;
        Self::made(items, Some(hosts), Vec::new())
    }

    fn made(items: usize, hosts: Option<Hosts>, server_words: Vec<&'static str>) -> Option<Self> {
        let program = server_program()?;
        let folder = tempfile::tempdir().unwrap();
        let code = folder.path().join("shop");
        std::fs::create_dir_all(code.join("src")).unwrap();
        std::fs::write(code.join("src/cart.rs"), "pub fn total() -> u32 { 0 }\n").unwrap();
        git(&code, &["init", "-q", "-b", "main"]);
        git(&code, &["add", "."]);
        git(&code, &["commit", "-qm", "first"]);
        let agent = ScriptedAgent::write(&folder.path().join("agent"), Path::new(HEARTBEAT));
        let (tracker_process, tracker) = start_tracker(items, hosts.as_ref());
        let mut world = Self {
            port: free_port(),
            folder,
            program,
            server_words,
            server: None,
            _tracker: tracker_process,
            tracker,
            agent,
            hosts,
        };
        world.start_server();
        Some(world)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The coordinator's key.
    pub fn key(&self) -> PathBuf {
        self.path().join("key")
    }

    /// The key of a host; whatever is not named like a worker is a coordinator.
    pub fn key_of(&self, host: &str) -> PathBuf {
        if host.starts_with('w') { self.path().join(format!("key-{host}")) } else { self.key() }
    }

    /// The workers that the coordinator knows.
    pub fn workers(&self) -> BTreeMap<String, String> {
        let hosts = ["w0", "w1", "w2", "w3"];
        hosts.map(|host| (host.to_owned(), public(&self.key_of(host)))).into()
    }

    pub fn address(&self) -> String {
        let server = if self.hosts.is_some() { "10.77.0.2" } else { "127.0.0.1" };
        format!("http://{server}:{}", self.port)
    }

    pub fn server_database(&self) -> PathBuf {
        self.path().join("server.db")
    }

    pub fn start_server(&mut self) {
        let log = File::create(self.path().join("server.log")).unwrap();
        // With one of several addresses it would look for itself on another.
        let all = if self.hosts.is_some() { "0.0.0.0" } else { "127.0.0.1" };
        let mut command = on_host(self.hosts.as_ref(), "srv", &self.program);
        command
            .args(["server", "start-dev", "--headless", "--ip", all, "--log-level", "error"])
            .args(&self.server_words)
            .args(["--port", &self.port.to_string(), "--db-filename"])
            .arg(self.server_database())
            .env("HOME", self.path())
            .stdout(Stdio::null())
            .stderr(log);
        self.server = Some(Process::start(&mut command));
        self.wait_for_server();
    }

    pub fn wait_for_server(&self) {
        let pid = self.server.as_ref().unwrap().pid();
        let end = format!(":{:04X}", self.port);
        let listens = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.len() > 3 && words[1].ends_with(&end) && words[3] == "0A"
        };
        eventually("the server's port", || {
            ["tcp", "tcp6"].iter().any(|kind| {
                let sockets = std::fs::read_to_string(format!("/proc/{pid}/net/{kind}"));
                sockets.is_ok_and(|sockets| sockets.lines().any(listens))
            })
        });
    }

    pub fn kill_server(&mut self) {
        self.server.take().unwrap().kill();
    }

    fn common(&self, host: &str) -> String {
        format!(
            "[fleet]\naddress = {:?}\nkey_file = {:?}\nhost = {host:?}\nlease = \"{}s\"\n\
             coordinator = [{:?}]\nworkers = {}\n\
             mirrors = [{{ name = \"shop\", path = {:?} }}]\n\
             [agent]\ncommand = {:?}\nwrite_paths = [{:?}]\nread_paths = [{:?}]\n\
             [timeouts]\ngrace = \"{}s\"\nliveness = \"1s\"\n[log]\nlevel = \"info\"\n",
            self.address(),
            self.key_of(host).display().to_string(),
            LEASE.as_secs(),
            public(&self.key()),
            toml::Value::try_from(self.workers()).unwrap(),
            self.path().join("shop").display().to_string(),
            self.agent.command(),
            self.agent.folder.display().to_string(),
            HEARTBEAT,
            GRACE.as_secs(),
        )
    }

    fn limits(&self, live: u32, host: &str) -> String {
        format!(
            "[limits]\nmax_live_sessions = {live}\nmax_live_sessions_per_machine = 100\n\
             slots_dir = {:?}\nmax_load_per_core = 1000.0\nmin_free_memory = \"0\"\n\
             max_memory_pressure = 100.0\nadmission_wait = \"15s\"\nmax_deep_per_run = 200\n\
             max_items_per_run = 500\n",
            self.path().join(format!("slots-{host}")).display().to_string(),
        )
    }

    /// Writes a configuration; returns its path.
    pub fn config(&self, host: &str, live: u32, more: &str) -> PathBuf {
        let path = self.path().join(format!("{host}.toml"));
        let text = format!("{}{}{more}", self.common(host), self.limits(live, host));
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The coordinator's configuration, with the tracker.
    pub fn coordinator_config(&self, host: &str, cap: u32) -> PathBuf {
        let more = format!(
            "[source]\nbase_url = {:?}\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
             token_env = \"TRACKER_TOKEN\"\n[repository]\npath = {:?}\n\
             [budget]\nper_run = 500.0\nper_day = 500.0\n[dedupe]\nretry_delay = \"1s\"\n",
            self.tracker,
            self.path().join("shop").display().to_string(),
        );
        self.config(host, cap, &more)
    }

    pub fn command(&self, config: &Path, state: &str, args: &[&str]) -> Command {
        let place = if state.starts_with('w') { state } else { "co" };
        let mut command = on_host(self.hosts.as_ref(), place, Path::new(HEARTBEAT));
        let path = self.path().join(format!("{state}.log"));
        let log = File::options().create(true).append(true).open(path).unwrap();
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TRACKER_TOKEN", "t")
            .env("ANTHROPIC_API_KEY", "test-key-of-the-agent")
            .current_dir(self.path())
            .args(args)
            .arg("--config")
            .arg(config)
            .arg("--state-dir")
            .arg(self.path().join(state))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command
    }

    /// A host with this many slots.
    pub fn worker(&self, host: &str, slots: u32) -> Process {
        let config = self.config(host, slots, "");
        Process::start(&mut self.command(&config, host, &["worker"]))
    }

    /// With further lines of `[fleet]`.
    pub fn worker_with(&self, host: &str, slots: u32, more: &str) -> Process {
        let config = self.config(host, slots, "");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replacen("[fleet]\n", &format!("[fleet]\n{more}"), 1))
            .unwrap();
        Process::start(&mut self.command(&config, host, &["worker"]))
    }

    /// The same, once it waits for work.
    pub fn ready_worker(&self, host: &str, slots: u32) -> Process {
        let worker = self.worker(host, slots);
        eventually("the worker's start", || self.said(host).contains("worker waits for sessions"));
        worker
    }

    pub fn once(&self, cap: u32) -> Process {
        let config = self.coordinator_config("coordinator", cap);
        Process::start(&mut self.command(&config, "coordinator", &["--once", "--quiet", "--json"]))
    }

    /// The output so far of the process with this state.
    pub fn said(&self, state: &str) -> String {
        std::fs::read_to_string(self.path().join(format!("{state}.log"))).unwrap_or_default()
    }

    pub fn database(&self, state: &str) -> rusqlite::Connection {
        let path = self.path().join(state).join("heartbeat.db");
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    /// A figure of the coordinator's state; 0 while there is none.
    pub fn figure(&self, sql: &str) -> i64 {
        if !self.path().join("coordinator/heartbeat.db").exists() {
            return 0;
        }
        self.database("coordinator").query_row(sql, [], |row| row.get(0)).unwrap_or(0)
    }

    /// Deep sessions whose agents run, by the word of their hosts.
    pub fn deep_sessions_under_way(&self) -> i64 {
        self.figure(
            "SELECT count(*) FROM heartbeat_active_sessions AS row WHERE stage = 'deep' AND EXISTS
             (SELECT 1 FROM events WHERE event = 'session_spawned' AND session = row.session)",
        )
    }

    /// Agents that run now, on all hosts.
    pub fn live_agents(&self) -> usize {
        let mark = format!("{}/agent.sh", self.agent.folder.display());
        processes_with(&mark).len()
    }

    /// Every process of a session on any host: agents and keepers.
    pub fn session_processes(&self) -> Vec<u32> {
        processes_with(&format!("{}/", self.path().display()))
            .into_iter()
            .filter(|pid| {
                let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                words.contains("agent.sh")
                    || words.contains("simulate agent")
                    || words.contains("sleep 1000")
            })
            .collect()
    }

    /// Runs the coordinator until nothing is left to do; returns the number of runs.
    pub fn run_until_done(&self, cap: u32, most: usize) -> usize {
        for run in 1..=most {
            self.once(cap).wait();
            if self.figure(OPEN_ITEMS) == 0 {
                return run;
            }
        }
        let hosts = ["w0", "w1", "w2"].map(|host| tail(&self.said(host)));
        panic!("still open after {most} runs; the hosts said:\n{}", hosts.join("\n"));
    }

    /// What must hold when everything is done: nothing lost, nothing applied twice, no more starts
    /// than attempts allow, budgets respected, nothing left running.
    pub fn assert_whole(&self, watch: &Watch, cap: u32) {
        self.assert_done();
        assert!(watch.most_rows() <= i64::from(cap), "{} rows with cap {cap}", watch.most_rows());
        assert!(watch.most_agents() <= i64::from(cap), "{} agents", watch.most_agents());
        assert_eq!(watch.over_budget(), 0, "spent + reserved beyond the budget");
    }

    /// The same without what only continuous sampling can tell.
    pub fn assert_done(&self) {
        let findings = self.figure("SELECT count(*) FROM findings");
        let twice = self.figure(
            "SELECT count(*) FROM (SELECT 1 FROM findings GROUP BY key, fingerprint HAVING count(*) > 1)",
        );
        let deep = self.figure(
            "SELECT count(*) FROM heartbeat_state WHERE json_extract(verdict, '$.needs_deep_analysis')",
        );
        assert_eq!(findings, deep, "every item that needs a finding has one");
        assert_eq!(twice, 0, "applied twice");
        assert_eq!(self.figure("SELECT count(*) FROM heartbeat_active_sessions"), 0);
        let attempts = self.figure("SELECT count(*) FROM attempts") + self.figure(TRIAGE_SESSIONS);
        let starts = i64::try_from(self.agent.starts()).unwrap();
        assert!(starts <= attempts, "{starts} starts for {attempts} attempts");
        eventually("every session's end", || self.session_processes().is_empty());
    }
}

/// Items that still have to be processed.
pub const OPEN_ITEMS: &str =
    "SELECT count(*) FROM heartbeat_state WHERE phase IN ('pending', 'claimed', 'waiting')";
const TRIAGE_SESSIONS: &str = "SELECT count(*) FROM sessions WHERE stage = 'triage'";

pub fn tail(text: &str) -> String {
    let from = text.len().saturating_sub(4_000);
    text.get(from..).unwrap_or(text).to_owned()
}

fn processes_with(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let first = words.split(|byte| *byte == 0).take(2).map(String::from_utf8_lossy);
        if pid != std::process::id() && first.into_iter().any(|word| word.contains(mark)) {
            found.push(pid);
        }
    }
    found
}

fn on_host(hosts: Option<&Hosts>, host: &str, program: &Path) -> Command {
    hosts.map_or_else(|| Command::new(program), |hosts| hosts.command(host, program))
}

fn start_tracker(items: usize, hosts: Option<&Hosts>) -> (Process, String) {
    use std::io::BufRead as _;
    let mut command = on_host(hosts, "co", Path::new(HEARTBEAT));
    command.args(["simulate", "ado", "--port", "0", "--items", &items.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = Process::start(&mut command);
    let stdout = process.0.as_mut().unwrap().stdout.take().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(stdout).read_line(&mut line).unwrap();
    (process, line.trim().to_owned())
}

/// Samples rows, agents and budgets until it is dropped.
pub struct Watch {
    seen: Arc<Seen>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    over: AtomicBool,
    rows: AtomicI64,
    agents: AtomicI64,
    over_budget: AtomicI64,
}

impl Watch {
    pub fn over(world: &World) -> Self {
        let seen = Arc::new(Seen::default());
        let (path, agent) = (world.path().to_owned(), world.agent.clone());
        let looker = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let database = path.join("coordinator/heartbeat.db");
            let mark = format!("{}/agent.sh", agent.folder.display());
            while !looker.over.load(Ordering::SeqCst) {
                looker.agents.fetch_max(agents(&mark), Ordering::SeqCst);
                if let Some((rows, over)) = look(&database) {
                    looker.rows.fetch_max(rows, Ordering::SeqCst);
                    looker.over_budget.fetch_max(over, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_millis(25));
            }
        });
        Self { seen, thread: Some(thread) }
    }

    pub fn most_rows(&self) -> i64 {
        self.seen.rows.load(Ordering::SeqCst)
    }

    pub fn most_agents(&self) -> i64 {
        self.seen.agents.load(Ordering::SeqCst)
    }

    pub fn over_budget(&self) -> i64 {
        self.seen.over_budget.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Number of agents by session: the script and its parts count once. Scanning all processes takes a
/// while, in which one session may end and the next begin: only processes that are still alive
/// afterwards existed at the same time.
fn agents(mark: &str) -> i64 {
    let session = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let at = words.iter().position(|word| word == "--session-id")?;
        Some(words.get(at + 1)?.to_string())
    };
    let found: Vec<(u32, String)> =
        processes_with(mark).into_iter().filter_map(|pid| Some((pid, session(&pid)?))).collect();
    let still = found.into_iter().filter(|(pid, id)| session(pid).as_ref() == Some(id));
    let sessions: std::collections::BTreeSet<String> = still.map(|(_, id)| id).collect();
    i64::try_from(sessions.len()).unwrap()
}

fn look(database: &Path) -> Option<(i64, i64)> {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = rusqlite::Connection::open_with_flags(database, flags).ok()?;
    let one = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).ok();
    let rows = one("SELECT count(*) FROM heartbeat_active_sessions")?;
    // In millionths of a dollar; unsettled amounts are reserved in full.
    let spent = one("SELECT coalesce(sum(coalesce(spent, reserved)), 0) FROM budget")?;
    Some((rows, i64::from(spent > 500_000_000)))
}
