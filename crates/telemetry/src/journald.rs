//! Sends events directly to systemd's journal. Each field becomes a journal field, so that `journalctl AGENT_ID=coder` finds
//! events.
//!
//! The protocol is one datagram per event (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL>), with `NAME=value` lines. The length
//! precedes a value of several lines.

use std::{
    fmt, io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::priority;

pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
/// Limits the bytes of a value; the rest is cut off. A datagram holds about 200 KB.
const VALUE_BYTES_MAX: usize = 32_768;
/// Limits the bytes of a name, as the journal does.
const NAME_BYTES_MAX: usize = 64;

pub(super) struct Journald {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journald {
    /// Connects to the journal that listens at `path`.
    ///
    /// # Errors
    /// If no journal listens there.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.connect(path)?;
        Ok(Self { socket, path: path.to_owned() })
    }

    fn send(&self, datagram: &[u8]) {
        // A restarted journal listens at the same path. Events that the journal can't accept are lost, because logging never
        // waits.
        if self.socket.send(datagram).is_err() {
            self.socket.send_to(datagram, &self.path).ok();
        }
    }
}

impl<S: Subscriber> Layer<S> for Journald {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut datagram = Datagram::default();
        datagram.field("PRIORITY", &priority(metadata).to_string());
        datagram.field("SYSLOG_IDENTIFIER", "recapd");
        datagram.field("TARGET", metadata.target());
        event.record(&mut datagram);
        self.send(&datagram.0);
    }
}

/// One event in the journal's protocol.
#[derive(Default)]
struct Datagram(Vec<u8>);

impl Datagram {
    fn field(&mut self, name: &str, value: &str) {
        let value = recapd_core::domain::text::floor_cut(value, VALUE_BYTES_MAX);
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }
}

impl Visit for Datagram {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(&name(field.name()), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(&name(field.name()), &format!("{value:?}"));
    }
}

/// Returns the journal's name for a field: capitals, digits and underscores. A leading underscore is reserved for the journal.
fn name(field: &str) -> String {
    let capital = |character: char| match character.to_ascii_uppercase() {
        character if character.is_ascii_alphanumeric() => character,
        _ => '_',
    };
    let name: String = field.chars().map(capital).take(NAME_BYTES_MAX).collect();
    name.trim_start_matches(['_', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']).to_owned()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{Registry, layer::SubscriberExt as _};

    use super::{super::ALERT_TARGET, *};

    #[test]
    fn each_field_is_a_journal_field() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = UnixDatagram::bind(&path).unwrap();
        let subscriber = Registry::default().with(Journald::at(&path).unwrap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(agent_id = "coder", tokens = 5, agent.kind = ?"a", "window.evicted");
            tracing::error!(target: ALERT_TARGET, error = "two\nlines", "update.parked");
        });
        let received = || {
            let mut bytes = [0_u8; 4_096];
            let length = journal.recv(&mut bytes).unwrap();
            String::from_utf8(bytes[..length].to_vec()).unwrap()
        };
        insta::assert_snapshot!(received(), @r#"
        PRIORITY=6
        SYSLOG_IDENTIFIER=recapd
        TARGET=recapd_telemetry::journald::tests
        MESSAGE=window.evicted
        AGENT_ID=coder
        TOKENS=5
        AGENT_KIND="a"
        "#);
        let alert = received();
        assert!(alert.starts_with("PRIORITY=1\n"), "{alert}");
        assert!(alert.ends_with("ERROR\n\u{9}\0\0\0\0\0\0\0two\nlines\n"), "{alert:?}");
    }

    #[test]
    fn a_missing_journal_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Journald::at(&folder.path().join("none")).is_err());
    }
}
