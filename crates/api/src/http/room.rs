//! Limits the memory of answers that are made of payloads. Such an answer takes several times the bytes of its
//! payloads, and many clients may ask at once. An answer waits for its room before it reads anything, and keeps what it
//! needs until it is sent.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Bytes, to_bytes},
    response::{IntoResponse as _, Response},
};
use hyper::body::Body as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::response::problem::{Problem, TOO_MANY_ANSWERS};

/// A request waits this long for room.
const WAIT: Duration = Duration::from_secs(5);
/// A client that got no room should retry after this many seconds.
const RETRY_SECONDS: u32 = 2;

/// A limit on the bytes that all answers take at once.
pub(crate) struct Room {
    remaining: Arc<Semaphore>,
    bytes_max: usize,
}

impl Room {
    pub(crate) fn of(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(Semaphore::MAX_PERMITS);
        Self { remaining: Arc::new(Semaphore::new(bytes_max)), bytes_max }
    }

    /// Waits for room of `bytes` bytes; if the limit is lower, for all the room there is.
    ///
    /// # Errors
    /// If there isn't enough room within [`WAIT`].
    pub(crate) async fn for_answer(&self, bytes: usize) -> Result<RoomShare, Problem> {
        let taking = Arc::clone(&self.remaining).acquire_many_owned(self.permits(bytes));
        match timeout(WAIT, taking).await {
            Ok(Ok(permit)) => Ok(RoomShare(permit)),
            _ => Err(too_many_answers()),
        }
    }

    fn permits(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.min(self.bytes_max)).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(crate) fn bytes_left(&self) -> usize {
        self.remaining.available_permits()
    }
}

fn too_many_answers() -> Problem {
    let detail = "other long answers use all the memory that is reserved for long answers";
    Problem::new(TOO_MANY_ANSWERS, detail)
        .hint("retry after `retry-after`, or raise http.answers_bytes_max")
        .retry_after(RETRY_SECONDS)
}

/// The room of one answer. Returned when dropped.
pub(crate) struct RoomShare(OwnedSemaphorePermit);

impl RoomShare {
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        drop(self.0.split(self.0.num_permits().saturating_sub(bytes)));
    }

    /// Keeps room for the answer's bytes until they are sent.
    pub(crate) async fn until_sent(mut self, answer: Response) -> Response {
        if answer.body().size_hint().exact().is_none() {
            // An open stream: its events are short.
            return answer;
        }
        let (parts, body) = answer.into_parts();
        // The body is already in one piece, so `to_bytes` doesn't copy it.
        let Ok(bytes) = to_bytes(body, usize::MAX).await else {
            return Problem::internal().into_response();
        };
        self.shrink_to(bytes.len());
        let sent = RoomBytes { bytes, _share: self };
        Response::from_parts(parts, Bytes::from_owner(sent).into())
    }
}

struct RoomBytes {
    bytes: Bytes,
    _share: RoomShare,
}

impl AsRef<[u8]> for RoomBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_room_and_is_then_refused_with_a_retry_time() {
        let room = Room::of(1_000);
        let mut first = room.for_answer(5_000).await.ok().unwrap();
        assert_eq!(room.bytes_left(), 0, "more than there is, is all of it");
        let refused = room.for_answer(1).await.err().unwrap();
        assert!(refused.is_temporary());
        first.shrink_to(400);
        assert!(room.for_answer(600).await.is_ok());
        drop(first);
        assert!(room.for_answer(1_000).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_keeps_its_bytes_until_they_are_sent() {
        let room = Room::of(1_000);
        let share = room.for_answer(1_000).await.ok().unwrap();
        let answer = share.until_sent("four".into_response()).await;
        assert_eq!(room.bytes_left(), 996);
        assert_eq!(to_bytes(answer.into_body(), 4).await.unwrap(), "four");
        assert_eq!(room.bytes_left(), 1_000);
    }
}
