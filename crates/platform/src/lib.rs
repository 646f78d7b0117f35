//! Where time, randomness, threads, signals and the network enter recapd: one place each.

pub mod background;
pub mod clock;
pub mod crontab;
pub mod files;
pub mod http_client;
pub mod lifecycle;
pub mod notice;
pub mod randomness;
pub mod threads;

/// The name of the program, as it says it to others.
pub const PROGRAM: &str = "recapd";
