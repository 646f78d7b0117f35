//! What a request passes through before its handler: the connection, the frame around all routes, the guard and the
//! limits.

pub(super) mod access;
pub(super) mod audit;
pub(super) mod connection;
pub(super) mod fast_path;
pub(super) mod frame;
pub(super) mod memory;
pub(super) mod observe;
pub(super) mod rate;
