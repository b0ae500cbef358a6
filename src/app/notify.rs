//! Notifies the service manager: ready, alive, stopping. Does nothing without one.
//!
//! The protocol is one text datagram to the socket in `NOTIFY_SOCKET`. The watchdog is notified
//! only after the loop ran and the state was written, never by a separate timer.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::time::Instant;

use crate::settings::Environment;

#[derive(Debug)]
pub struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    fed: Option<Instant>,
    status: String,
}

impl Notifier {
    /// Reads the service manager's variables.
    pub fn from_environment(environment: &Environment) -> Self {
        let to = environment.raw("NOTIFY_SOCKET").and_then(|name| match open(name) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, "cannot use NOTIFY_SOCKET; the service manager is not \
                                        notified");
                None
            }
        });
        let watchdog = watchdog(environment, std::process::id()).filter(|_| to.is_some());
        Self { to, watchdog, fed: None, status: String::new() }
    }

    pub fn ready(&mut self) {
        self.say(&format!("READY=1\nMAINPID={}", std::process::id()));
        self.fed = Some(Instant::now());
    }

    pub fn stopping(&mut self) {
        self.say("STOPPING=1\nSTATUS=stopping");
    }

    /// The service's status text. The same text is not sent twice.
    pub fn status(&mut self, text: &str) {
        if self.status != text {
            text.clone_into(&mut self.status);
            self.say(&format!("STATUS={}", text.replace('\n', " ")));
        }
    }

    /// Whether the watchdog must be notified now.
    pub fn is_due(&self) -> bool {
        match (self.every(), self.fed) {
            (Some(every), Some(fed)) => fed.elapsed() >= every,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Call after the loop ran and the state was written.
    pub fn alive(&mut self) {
        self.say("WATCHDOG=1");
        self.fed = Some(Instant::now());
    }

    /// The longest sleep that still notifies the watchdog in time.
    pub fn cap_sleep(&self, wanted: Duration) -> Duration {
        self.every().map_or(wanted, |every| wanted.min(every))
    }

    /// A third of what the manager allows, so one late iteration does not trip the watchdog.
    fn every(&self) -> Option<Duration> {
        self.watchdog.map(|allowed| allowed / 3)
    }

    fn say(&self, text: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(text.as_bytes(), address)
        {
            tracing::debug!(%error, "could not notify the service manager");
        }
    }
}

/// A path, or a name that begins with `@` for an abstract socket on Linux.
fn open(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let bytes = name.as_bytes();
    let address = match bytes.first() {
        Some(b'/') => SocketAddr::from_pathname(name)?,
        Some(b'@') => abstract_address(&bytes[1..])?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "NOTIFY_SOCKET is neither a path nor an abstract name that begins with @",
            ));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "abstract socket names exist only on Linux"))
}

/// The watchdog's timeout, if it applies to this process.
fn watchdog(environment: &Environment, own_pid: u32) -> Option<Duration> {
    let micros: u64 = environment.text("WATCHDOG_USEC")?.parse().ok()?;
    let meant = environment.text("WATCHDOG_PID").is_none_or(|pid| pid.parse() == Ok(own_pid));
    (meant && micros > 0).then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(manager: &UnixDatagram) -> String {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn the_manager_hears_everything_and_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let environment = Environment::new([
            ("NOTIFY_SOCKET", path.to_str().unwrap()),
            ("WATCHDOG_USEC", "3000000"),
        ]);
        let mut notifier = Notifier::from_environment(&environment);
        notifier.ready();
        assert_eq!(heard(&manager), format!("READY=1\nMAINPID={}", std::process::id()));
        assert!(!notifier.is_due());
        assert_eq!(notifier.cap_sleep(Duration::from_secs(30)), Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(notifier.is_due());
        notifier.alive();
        assert_eq!(heard(&manager), "WATCHDOG=1");
        notifier.status("idle\nEVIL=1");
        notifier.status("idle\nEVIL=1");
        assert_eq!(heard(&manager), "STATUS=idle EVIL=1");
        notifier.stopping();
        assert_eq!(heard(&manager), "STOPPING=1\nSTATUS=stopping");
        assert!(manager.recv(&mut [0; 8]).is_err(), "something was said twice");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_abstract_name_is_found() {
        use std::os::linux::net::SocketAddrExt;
        let name = format!("heartbeat-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let environment = Environment::new([("NOTIFY_SOCKET", format!("@{name}"))]);
        Notifier::from_environment(&environment).status("here");
        assert_eq!(heard(&manager), "STATUS=here");
    }

    #[test]
    fn a_watchdog_for_another_process_is_not_ours() {
        let environment =
            |pid: &str| Environment::new([("WATCHDOG_USEC", "1000000"), ("WATCHDOG_PID", pid)]);
        assert_eq!(watchdog(&environment("42"), 42), Some(Duration::from_secs(1)));
        assert_eq!(watchdog(&environment("41"), 42), None);
    }

    #[test]
    fn without_a_manager_nothing_happens() {
        let mut notifier = Notifier::from_environment(&Environment::default());
        notifier.ready();
        notifier.stopping();
        assert!(!notifier.is_due());
        assert_eq!(notifier.cap_sleep(Duration::from_secs(7)), Duration::from_secs(7));
    }
}
