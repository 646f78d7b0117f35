//! Ports that are a test's own, whether anybody listens there or not.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that nobody else is given as long as this is held. A process that is told so can listen there,
/// again and again; while none does, connections are refused.
pub(crate) struct Port {
    /// Bound and never listening: that much may be shared, and keeps the port from being taken for a free one.
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
