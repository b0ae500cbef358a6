//! A simulator's server on loopback: it answers until nobody needs it any more.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connection::{CuttableListener, Switch};

/// An address that is taken and not served yet: a simulator names it in its answers.
pub struct Place {
    listener: TcpListener,
    pub address: SocketAddr,
}

impl Place {
    /// On loopback; port 0 is a free one.
    pub async fn take(port: u16) -> io::Result<Self> {
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

/// A server; it stops when it is dropped.
#[derive(Debug)]
pub struct Serving {
    pub address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Tells when it stops.
    pub fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until it ends by itself, which it does only when it fails.
    pub async fn ended(&mut self) -> io::Result<()> {
        match self.task.take() {
            Some(task) => task.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }

    /// Stops it and waits for that.
    pub async fn stop(mut self) {
        self.stop.cancel();
        // It ends by the line above; how does not matter any more.
        let _ended = self.ended().await;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
