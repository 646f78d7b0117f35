//! The only places where time, randomness, threads, signals and the network enter recapd.

pub mod background;
pub mod clock;
pub mod crontab;
pub mod files;
pub mod http_client;
pub mod lifecycle;
pub mod notice;
pub mod randomness;
pub mod threads;

/// The program's name, as other programs see it.
pub const PROGRAM: &str = "recapd";
