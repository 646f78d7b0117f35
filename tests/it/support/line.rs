//! A proxy to a server that falls silent on request, like a firewall that drops packets: no connection is closed, and
//! no data passes.

use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::postgres::Database;

pub(crate) struct Line {
    port: u16,
    silence: CancellationToken,
    _connections: TaskTracker,
}

impl Line {
    /// A proxy to the server of `database`.
    pub(crate) async fn to(database: &Database) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let options: PgConnectOptions = database.url().parse().unwrap();
        let server = (options.get_host().to_owned(), options.get_port());
        let (silence, connections) = (CancellationToken::new(), TaskTracker::new());
        let (until, passing) = (silence.clone(), connections.clone());
        connections.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                passing.spawn(pass_on(near, server.clone(), until.clone()));
            }
        });
        Self { port, silence, _connections: connections }
    }

    /// Returns `url` with the proxy's address.
    pub(crate) fn instead_of(&self, url: &str) -> String {
        let options: PgConnectOptions = url.parse().unwrap();
        let options = options.host("127.0.0.1").port(self.port);
        options.to_url_lossy().into()
    }

    /// Stops all data from now on, on existing and new connections.
    pub(crate) fn fall_silent(&self) {
        self.silence.cancel();
    }
}

async fn pass_on(mut near: TcpStream, server: (String, u16), silence: CancellationToken) {
    let pass = async {
        let far = TcpStream::connect((server.0.as_str(), server.1)).await;
        tokio::io::copy_bidirectional(&mut near, &mut far.unwrap()).await
    };
    tokio::pin!(pass);
    tokio::select! {
        biased;
        // Both connections stay open.
        () = silence.cancelled() => std::future::pending().await,
        _ = &mut pass => {}
    }
}
