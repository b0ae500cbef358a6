//! A simulator's HTTP server on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connection::{CuttableListener, Switch};

/// A bound address that is not served yet: the simulator needs it for links in its responses.
pub struct BoundAddress {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl BoundAddress {
    /// Binds on loopback; port 0 picks a free one.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Serves within the current runtime. Handlers find a [`Switch`] for their connection.
    pub fn serve(self, router: Router) -> Serving {
        let service = router.into_make_service_with_connect_info::<Switch>();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let serve = axum::serve(CuttableListener(self.listener), service);
            tokio::select! {
                result = serve => result,
                () = stopped.cancelled() => Ok(()),
            }
        });
        Serving { address: self.address, stop, task: Some(task) }
    }
}

/// Stops when it is dropped.
#[derive(Debug)]
pub struct Serving {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Cancelled when the server stops.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until the server ends on its own, which happens only on failure.
    pub async fn ended(&mut self) -> io::Result<()> {
        match self.task.take() {
            Some(task) => task.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }

    /// Stops it and waits for the end.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // The result does not matter after the stop.
        let _ended = self.ended().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
