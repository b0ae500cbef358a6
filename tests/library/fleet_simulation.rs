//! A day of 200 hosts and 10,000 items, simulated event by event with the program's own rules for
//! leases, retries and the provider; hosts crash and are disconnected, the server is down for a
//! while, the provider states a limit and has an outage. Gives figures for what a single machine
//! cannot test.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use heartbeat::breaker::provider::{ProviderAdmission, ProviderRecord, Report, Request};
use heartbeat::dedupe::{RetryPolicy, next_attempt};
use heartbeat::fleet::lease::{Lease, LeaseTimes};
use heartbeat::model::{FailureKind, Outcome};
use jiff::Timestamp;

const HOSTS: usize = 200;
const ITEMS: usize = 10_000;
const SLOTS: u32 = 2;
const CAP: usize = 160;
const DAY: u64 = 24 * 3_600_000;
const MINUTE: u64 = 60_000;
const GRACE: Duration = Duration::from_secs(10);
/// In cents.
const WORST: u64 = 50;
const BUDGET: u64 = 450_000;

/// Deterministic for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }

    /// Around `mean`, with a long tail.
    fn spread(&mut self, mean: u64) -> u64 {
        let (a, b) = (self.below(mean), self.below(mean));
        a / 2 + b / 2 + if self.below(10) == 0 { self.below(mean * 4) } else { mean / 4 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Arrives(usize),
    Ends(u64),
    /// A lost session's row is closed, after the heartbeat timeout and the host's silence.
    GivenUp(u64),
    HostCrashes(usize),
    HostIsCut(usize),
    HostIsBack(usize),
    ServerDown(u64),
    ServerUp,
    Look,
}

struct Session {
    item: usize,
    host: usize,
    /// When its agent is certainly gone, if its host was lost.
    gone_at: Option<u64>,
    outcome: Outcome,
    cost: u64,
}

struct Host {
    live: u32,
    reachable: bool,
    done: u32,
}

struct Fleet {
    now: u64,
    dice: Dice,
    events: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    numbers: u64,
    queue: VecDeque<usize>,
    waiting_since: Vec<u64>,
    attempts: Vec<u32>,
    finished: Vec<u32>,
    parked: usize,
    sessions: BTreeMap<u64, Session>,
    hosts: Vec<Host>,
    provider: ProviderRecord,
    server_up: bool,
    spent: u64,
    waits: Vec<u64>,
    starts: u64,
    lost: u64,
    most_rows: usize,
    most_agents: usize,
    held_by_provider: u64,
    refused_by_budget: u64,
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let host = || Host { live: 0, reachable: true, done: 0 };
        let mut fleet = Self {
            now: 0,
            dice: Dice(seed | 1),
            events: BinaryHeap::new(),
            numbers: 0,
            queue: VecDeque::new(),
            waiting_since: vec![0; ITEMS],
            attempts: vec![0; ITEMS],
            finished: vec![0; ITEMS],
            parked: 0,
            sessions: BTreeMap::new(),
            hosts: (0..HOSTS).map(|_| host()).collect(),
            provider: ProviderRecord::default(),
            server_up: true,
            spent: 0,
            waits: Vec::new(),
            starts: 0,
            lost: 0,
            most_rows: 0,
            most_agents: 0,
            held_by_provider: 0,
            refused_by_budget: 0,
        };
        for item in 0..ITEMS {
            // Two thirds of a day's items come in the eight working hours.
            let at = match fleet.dice.below(3) {
                0 => fleet.dice.below(DAY),
                _ => DAY / 3 + fleet.dice.below(DAY / 3),
            };
            fleet.at(at, Happens::Arrives(item));
        }
        for host in 0..HOSTS {
            let (crash, cut) = (fleet.dice.below(DAY), fleet.dice.below(DAY));
            fleet.at(crash, Happens::HostCrashes(host));
            fleet.at(cut, Happens::HostIsCut(host));
        }
        fleet.at(10 * 60 * MINUTE, Happens::ServerDown(6 * MINUTE));
        for minute in 0..36 * 60 {
            fleet.at(minute * MINUTE, Happens::Look);
        }
        fleet
    }

    fn at(&mut self, time: u64, what: Happens) {
        self.numbers += 1;
        self.events.push(Reverse((time, self.numbers, what)));
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_millisecond(i64::try_from(self.now).unwrap()).unwrap()
    }

    fn run(&mut self) {
        while let Some(Reverse((time, _, what))) = self.events.pop() {
            self.now = time;
            self.happens(what);
            self.start_what_fits();
            self.check();
        }
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Arrives(item) => {
                self.waiting_since[item] = self.now;
                self.queue.push_back(item);
            }
            Happens::Ends(id) => self.ends(id),
            Happens::GivenUp(id) => self.given_up(id),
            Happens::HostCrashes(host) => {
                self.lose(host, true);
                let back = self.now + 5 * MINUTE + self.dice.below(30 * MINUTE);
                self.at(back, Happens::HostIsBack(host));
            }
            Happens::HostIsCut(host) => {
                let length = self.dice.below(4 * MINUTE);
                let back = self.now + length;
                self.hosts[host].reachable = false;
                if length > 95_000 {
                    self.lose(host, false);
                }
                self.at(back, Happens::HostIsBack(host));
            }
            Happens::HostIsBack(host) => self.hosts[host].reachable = true,
            Happens::ServerDown(length) => {
                self.server_up = false;
                let up = self.now + length;
                self.at(up, Happens::ServerUp);
            }
            Happens::ServerUp => self.server_up = true,
            Happens::Look => {}
        }
    }

    /// By the program's own lease: the agents of a lost host are gone before the server gives up.
    fn lose(&mut self, host: usize, crashed: bool) {
        self.hosts[host].reachable = false;
        let times = LeaseTimes::new(Duration::from_secs(120), GRACE);
        let mine: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, s)| s.host == host && s.gone_at.is_none())
            .map(|(id, _)| *id)
            .collect();
        for id in mine {
            let sent = self.now.saturating_sub(self.dice.below(5_000));
            let answered = sent + self.dice.below(800);
            let lease = Lease::begin(&times, sent);
            let over = sent + u64::try_from(times.lease.as_millis()).unwrap();
            assert!(lease.left(over).is_none() && lease.left(over - 1).is_some());
            let grace = u64::try_from(GRACE.as_millis()).unwrap();
            let gone = if crashed { self.now } else { over + grace };
            let timeout = u64::try_from(times.heartbeat_timeout.as_millis()).unwrap();
            assert!(
                gone < answered + timeout,
                "a tree that outlives the server's heartbeat timeout"
            );
            let given_up = (answered + timeout).max(self.now) + self.dice.below(25_000);
            if let Some(session) = self.sessions.get_mut(&id) {
                session.gone_at = Some(gone);
                session.outcome = Outcome::Orphaned;
                session.cost = WORST;
            }
            self.lost += 1;
            self.at(given_up, Happens::GivenUp(id));
        }
    }

    fn ends(&mut self, id: u64) {
        // A lost session has no end event.
        if self.sessions.get(&id).is_some_and(|session| session.gone_at.is_none()) {
            self.close(id);
        }
    }

    fn given_up(&mut self, id: u64) {
        self.close(id);
    }

    fn close(&mut self, id: u64) {
        let Some(session) = self.sessions.remove(&id) else { return };
        let host = &mut self.hosts[session.host];
        host.live = host.live.saturating_sub(1);
        host.done += 1;
        self.spent += session.cost;
        let (now, outcome) = (self.timestamp(), session.outcome.clone());
        let until = matches!(outcome, Outcome::ProviderLimit { .. }).then(|| {
            Timestamp::from_millisecond(i64::try_from(13 * 60 * MINUTE).unwrap()).unwrap()
        });
        let reason = outcome.to_string();
        let (outcome_seen, credential, model, item) = (&outcome, None, "m", None);
        let report = Report { outcome: outcome_seen, until, now, credential, reason, model, item };
        self.provider.note(report);
        let item = session.item;
        match outcome {
            Outcome::Completed => self.finished[item] += 1,
            Outcome::ProviderLimit { .. } | Outcome::AgentError { .. } => {
                // It stays queued for the next run.
                self.attempts[item] -= 1;
                self.at(self.now + 30 * MINUTE, Happens::Arrives(item));
            }
            _ => {
                let policy = RetryPolicy { max_attempts: 3, first_delay: Duration::from_secs(900) };
                match next_attempt(now, self.attempts[item], policy, 0.5) {
                    Some(at) => {
                        let at = u64::try_from(at.as_millisecond()).unwrap();
                        self.at(at, Happens::Arrives(item));
                    }
                    None => self.parked += 1,
                }
            }
        }
    }

    fn reserved(&self) -> u64 {
        self.spent + self.sessions.len() as u64 * WORST
    }

    fn start_what_fits(&mut self) {
        while self.sessions.len() < CAP && self.server_up && !self.queue.is_empty() {
            let (now, credential) = (self.timestamp(), None);
            let request = Request { now, credential, model: "m", by_hand: false };
            match self.provider.admit(request) {
                ProviderAdmission::Go => {}
                ProviderAdmission::Probe => {
                    let outcome = self.fate(self.now);
                    let outcome = if outcome == (Outcome::Signal { signal: 9 }) {
                        Outcome::Completed
                    } else {
                        outcome
                    };
                    let (now, reason) = (self.timestamp(), String::new());
                    self.provider.note(Report {
                        outcome: &outcome,
                        until: None,
                        now,
                        credential: None,
                        reason,
                        model: "m",
                        item: None,
                    });
                    continue;
                }
                ProviderAdmission::Refused(_) => {
                    self.held_by_provider += 1;
                    return;
                }
            }
            if self.reserved() + WORST > BUDGET {
                self.refused_by_budget += 1;
                return;
            }
            let free: Vec<usize> = (0..HOSTS)
                .filter(|host| self.hosts[*host].reachable && self.hosts[*host].live < SLOTS)
                .collect();
            if free.is_empty() {
                return;
            }
            let host = free[usize::try_from(self.dice.below(free.len() as u64)).unwrap()];
            let Some(item) = self.queue.pop_front() else { return };
            self.start(item, host);
        }
    }

    /// The outcome of a session that begins now.
    fn fate(&mut self, at: u64) -> Outcome {
        match at / MINUTE {
            // The account's limit from noon to one o'clock.
            720..780 => Outcome::ProviderLimit { why: FailureKind::UsageLimit },
            // Half an hour of errors.
            900..930 => Outcome::AgentError { why: FailureKind::ApiError },
            _ if self.dice.below(50) == 0 => Outcome::Signal { signal: 9 },
            _ => Outcome::Completed,
        }
    }

    fn start(&mut self, item: usize, host: usize) {
        self.numbers += 1;
        let id = self.numbers;
        self.attempts[item] += 1;
        self.starts += 1;
        self.waits.push(self.now - self.waiting_since[item]);
        self.hosts[host].live += 1;
        let outcome = self.fate(self.now);
        let works = matches!(outcome, Outcome::Completed | Outcome::Signal { .. });
        let lasts = if works { self.dice.spread(8 * MINUTE) } else { 3_000 };
        let cost = if works { 20 + self.dice.below(WORST - 20) } else { 0 };
        let session = Session { item, host, gone_at: None, outcome, cost };
        self.sessions.insert(id, session);
        self.at(self.now + lasts, Happens::Ends(id));
    }

    /// Must hold after every event.
    fn check(&mut self) {
        let agents =
            self.sessions.values().filter(|s| s.gone_at.is_none_or(|gone| gone > self.now)).count();
        self.most_agents = self.most_agents.max(agents);
        self.most_rows = self.most_rows.max(self.sessions.len());
        assert!(agents <= self.sessions.len() && self.sessions.len() <= CAP, "the cap");
        assert!(self.reserved() <= BUDGET, "spent and reserved beyond the budget");
        assert!(self.hosts.iter().all(|host| host.live <= SLOTS), "a host's own share");
    }

    fn wait(&self, share: usize) -> u64 {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[(waits.len() - 1) * share / 100] / 1_000
    }
}

#[test]
fn a_day_of_two_hundred_hosts_keeps_every_promise() {
    for seed in [7, 41, 2_026] {
        let mut fleet = Fleet::new(seed * 0x9E37_79B9);
        fleet.run();
        let finished = fleet.finished.iter().filter(|times| **times == 1).count();
        let twice = fleet.finished.iter().filter(|times| **times > 1).count();
        let done: Vec<u32> = fleet.hosts.iter().map(|host| host.done).collect();
        let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
        println!(
            "seed {seed}: {finished} finished, {} parked, {} starts, {} lost with their hosts, wait p50 {} s p95 {} s, \
             at most {} rows and {} agents of {CAP}, hosts did {least} to {most}, held {} times by the provider, \
             {} by the budget, ${} of ${}",
            fleet.parked,
            fleet.starts,
            fleet.lost,
            fleet.wait(50),
            fleet.wait(95),
            fleet.most_rows,
            fleet.most_agents,
            fleet.held_by_provider,
            fleet.refused_by_budget,
            fleet.spent / 100,
            BUDGET / 100
        );
        assert_eq!(twice, 0, "finished twice");
        assert!(fleet.sessions.is_empty(), "every row is closed");
        let left = fleet.queue.len();
        assert_eq!(finished + fleet.parked + left, ITEMS, "nothing is lost");
        assert!(left == 0 || fleet.refused_by_budget > 0, "only a budget leaves work: {left}");
        assert!(fleet.attempts.iter().all(|attempts| *attempts <= 3));
        assert!(fleet.lost > 50, "hosts were lost in the middle: {}", fleet.lost);
        assert!(fleet.held_by_provider > 0, "the provider held everybody");
        assert!(*most < least * 3, "no host is starved: {least} to {most}");
    }
}
