//! What is stored of an agent's answer.

use std::path::Path;
use std::sync::{Arc, Mutex};

use heartbeat::app::selftest::{FolderLedger, Rig};
use heartbeat::clock::Clock;
use heartbeat::model::{BoxFuture, SessionEnd, SessionId};
use heartbeat::ports::{Ledger, LedgerError, LedgerRow};
use heartbeat::session::{StopHandle, Supervisor, SupervisorSettings};
use heartbeat::settings::{Containment, HeldSecrets};
use secrecy::SecretString;

const PROGRAM: &str = env!("CARGO_BIN_EXE_heartbeat");

type Stored<'a> = BoxFuture<'a, Result<(), LedgerError>>;

/// Keeps the ends with which rows are closed.
struct KeepsEnds {
    rows: Arc<FolderLedger>,
    ends: Mutex<Vec<SessionEnd>>,
}

impl Ledger for KeepsEnds {
    fn register(&self, row: LedgerRow, max_live: u32) -> Stored<'_> {
        self.rows.register(row, max_live)
    }

    fn spawned(&self, session: SessionId, pid: u32) -> Stored<'_> {
        self.rows.spawned(session, pid)
    }

    fn close(&self, session: SessionId, end: SessionEnd) -> Stored<'_> {
        self.ends.lock().unwrap().push(end.clone());
        self.rows.close(session, end)
    }

    fn placed(&self, session: SessionId, host: String) -> Stored<'_> {
        self.rows.placed(session, host)
    }

    fn withdraw(&self, session: SessionId) -> Stored<'_> {
        self.rows.withdraw(session)
    }

    fn open_rows(&self) -> BoxFuture<'_, Result<Vec<LedgerRow>, LedgerError>> {
        self.rows.open_rows()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_in_an_answer_is_removed_before_the_row_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, vec![b'x'; 123_456]).unwrap();
    // The agent reports the size of a file that it read; here this text is the credential.
    let credential = "123456 bytes";
    for held in [HeldSecrets::default(), [SecretString::from(credential)].into_iter().collect()] {
        let is_held = held.are_in(credential);
        let mut rig = Rig::new(Path::new(PROGRAM), folder.path(), Containment::Auto).unwrap();
        let rows = Arc::clone(&rig.ledger);
        let ledger = Arc::new(KeepsEnds { rows, ends: Mutex::default() });
        let settings = SupervisorSettings::new(PROGRAM.into(), Containment::Auto, 3);
        let events = Arc::clone(&rig.events);
        rig.supervisor =
            Supervisor::new(settings, Arc::clone(&ledger) as _, events, Clock::system())
                .removing(Arc::new(held));
        let spec = rig.attack(&[format!("read:{}", file.display())]);
        let observed = rig.observe(spec, &StopHandle::new()).await.unwrap();
        let ends = ledger.ends.lock().unwrap();
        for end in [&observed.end, &ends[0]] {
            let output = end.output.as_ref().unwrap().to_string();
            assert!(output.contains("\"reached\":1"), "{output}");
            assert_eq!(output.contains(credential), !is_held, "{output}");
        }
    }
}
