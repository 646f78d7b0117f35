//! Reads from a request's headers and body what kind of request it is.
//!
//! Invariant: reading delays a request by at most the limit. The only exception is a request with a capsule, which no
//! provider could read.

use std::time::Duration;

use bytes::Bytes;
use hyper::{HeaderMap, header::CONTENT_ENCODING};
use tokio::time::timeout;

use crate::{
    answer::{self, CapsuleKey, Compaction},
    compression::unpack,
    dialect::{Dialect, EndpointKind},
    session::Session,
};
use recapd_platform::threads;

/// Longer bodies are read in another thread.
const SHORT_BYTES_MAX: usize = 64 << 10;

/// What was read from a request.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The body without compression.
    pub(crate) plain: Bytes,
    pub(crate) session: Session,
    pub(crate) compaction: Option<Compaction>,
    /// The body with its capsules replaced; `None` if it has none.
    pub(crate) expanded: Option<Bytes>,
}

/// Why a request couldn't be read. It is forwarded nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadingFailure {
    /// Its compression is unknown or broken.
    Compressed,
    /// Reading panicked.
    Panicked,
}

/// A request that isn't read yet.
#[derive(Clone, Debug)]
pub(crate) struct Unread {
    pub(crate) dialect: Dialect,
    pub(crate) endpoint: EndpointKind,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) key: CapsuleKey,
}

impl Unread {
    /// Reads the request. If that takes longer than `limit`, returns what its headers say.
    pub(crate) async fn read(self, limit: Duration) -> Result<Reading, ReadingFailure> {
        let panicked = |_| ReadingFailure::Panicked;
        if self.body.len() <= SHORT_BYTES_MAX {
            return threads::computed_here("reading a request", || self.reading()).map_err(panicked)?;
        }
        let by_headers = Reading {
            plain: self.body.clone(),
            session: Session::by_headers(self.dialect, &self.headers),
            compaction: None,
            expanded: None,
        };
        let is_unlimited = answer::may_hold_capsules(&self.body);
        let reading = threads::computed("reading a request", move || self.reading());
        if is_unlimited {
            return reading.await.map_err(panicked)?;
        }
        match timeout(limit, reading).await {
            Ok(reading) => reading.map_err(panicked)?,
            Err(_) => Ok(by_headers),
        }
    }

    fn reading(&self) -> Result<Reading, ReadingFailure> {
        let plain =
            unpack(self.headers.get(CONTENT_ENCODING), &self.body).ok_or(ReadingFailure::Compressed)?;
        let session = Session::of(self.dialect, &self.headers, &plain);
        Ok(Reading {
            compaction: answer::compaction(self.dialect, self.endpoint, session.class, &plain),
            expanded: answer::expand_capsules(self.dialect, &plain, &self.key).map(Bytes::from),
            session,
            plain,
        })
    }
}
