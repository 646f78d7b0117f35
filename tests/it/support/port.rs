//! Ports reserved for a test, whether anything listens there or not.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that isn't given to others while this is held. A process that is given it can listen there,
/// repeatedly; otherwise connections are refused.
pub(crate) struct Port {
    /// Bound, but never listening: others may bind it as well, and the system doesn't assign it as a free port.
    socket: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        Self { socket }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }
}
