//! The kernel's events about writes to the database's log. Repeated events are merged until they are read.

#[cfg(target_os = "linux")]
pub(super) use linux::LogEvents;
#[cfg(not(target_os = "linux"))]
pub(super) use none::LogEvents;

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, path::Path};

    use futures::StreamExt as _;
    use inotify::{EventStream, Inotify, WatchMask};

    /// The size of the buffer for events, in bytes.
    const EVENTS_BYTES: usize = 4_096;

    /// See `inotify(7)`.
    pub(in super::super) struct LogEvents(EventStream<[u8; EVENTS_BYTES]>);

    impl LogEvents {
        pub(in super::super) fn listen(path: &Path) -> io::Result<Self> {
            let kernel = Inotify::init()?;
            kernel.watches().add(path, WatchMask::MODIFY)?;
            Ok(Self(kernel.into_event_stream([0; EVENTS_BYTES])?))
        }

        /// Waits for the next event.
        pub(in super::super) async fn next(&mut self) -> io::Result<()> {
            match self.0.next().await {
                Some(event) => event.map(drop),
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::{io, path::Path};

    /// Has no values, because other systems report no events.
    pub(in super::super) enum LogEvents {}

    impl LogEvents {
        pub(in super::super) fn listen(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) async fn next(&mut self) -> io::Result<()> {
            match *self {}
        }
    }
}
