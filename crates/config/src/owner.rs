//! The name under which a daemon holds leases.

use super::Config;

/// The name of a daemon that is alone on its database. It is the same after a restart, wherever the daemon listens.
const ALONE: &str = "recapd";
/// Files with the machine's name on Linux. A hardened service may see only the second one.
const HOST_NAMES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

impl Config {
    /// Returns the name under which this daemon holds leases. It is the same after a restart, and unique on its database.
    pub fn owner(&self) -> String {
        if !self.database.is_postgres() {
            return ALONE.to_owned();
        }
        if !self.queue.owner.is_empty() {
            return self.queue.owner.clone();
        }
        format!("{}/{}", host_name(), self.http.listen)
    }
}

fn host_name() -> String {
    let names = HOST_NAMES.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let mut names = names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    names.next().unwrap_or_else(|| ALONE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_on_a_shared_database_has_a_unique_name() {
        let mut config = Config::default();
        assert_eq!(config.owner(), "recapd");
        config.queue.owner = "left".to_owned();
        assert_eq!(config.owner(), "recapd", "a daemon that is alone has a fixed name");
        config.database.url = "postgres://recapd@db/recapd".to_owned();
        assert_eq!(config.owner(), "left");
        config.queue.owner.clear();
        let owner = config.owner();
        let (host, listen) = owner.split_once('/').unwrap();
        assert!(!host.is_empty());
        assert_eq!(listen, config.http.listen.to_string());
        config.queue.owner = "o".repeat(129);
        let found = config.validate();
        assert_eq!(found[0].keys, ["queue.owner"]);
    }
}
