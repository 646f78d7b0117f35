//! Reads bodies: checks their formats, and limits each body and all bodies in memory together.
//!
//! A body takes room as it arrives, and keeps the room until its messages are stored. If there is no room, the request
//! is refused at once, because bodies that wait for each other would never be complete. The beginning of each body
//! needs no room. So short bodies always get through, and a body that is announced but doesn't arrive takes no room.
//! One token, or one address without a token, gets at most half of the room.

use std::{mem, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
        request::Parts,
    },
};
use futures::StreamExt as _;

use crate::{
    access::quota::{Holder, Lack, Quota, QuotaShare, SHARE_OF},
    http::{
        App,
        edge::access,
        request::message_body::{BodyFormat, VALUES_MAX, values},
        response::problem::{
            BODY_TOO_LARGE, BODY_TOO_SLOW, INVALID_BODY, Problem, TOO_MANY_BODIES, UNSUPPORTED_BODY,
        },
    },
};
use recapd_platform::threads;

/// Bytes of memory per byte of a body while its messages are read.
const MEMORY_PER_BYTE: usize = 3;
/// Bytes of memory per JSON value, however short. A message of three values has parts, a row, and token counts.
const MEMORY_PER_VALUE: usize = 400;
/// Bytes of room for bodies per byte of the longest allowed body. One client can use half of the room, so it can send
/// that body.
const ROOM_PER_BYTE: usize = SHARE_OF * MEMORY_PER_BYTE;
/// This many bytes of each body need no room, because a connection may read as many ahead anyway.
const FREE_BYTES: usize = 64 * 1_024;
/// This many values of each body need no room.
const FREE_VALUES: usize = 500;
/// The longest body of a route that takes no messages. Some of these routes parse the body into a tree of values, which
/// takes many times its bytes.
const SHORT: Limit =
    Limit { bytes: 256 * 1_024, cure: "shorten it; only bodies with messages may be longer" };

/// Longer bodies are parsed in another thread, because that takes milliseconds.
const PARSE_INLINE_BYTES_MAX: usize = 256 * 1_024;

/// The longest body, and what to do about a longer one.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    cure: &'static str,
}

/// Returns the pool of room for bodies, each of at most `bytes_max`.
pub(crate) fn room(bytes_max: usize) -> Arc<Quota> {
    Quota::new(bytes_max.saturating_mul(ROOM_PER_BYTE))
}

/// The room that a body takes until the share is dropped; `None` if there is no body.
pub(crate) type BodyShare = Option<QuotaShare>;

/// A body in memory. A caller that keeps messages from it must also keep its share of the memory.
#[derive(Default)]
pub(crate) struct BufferedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) share: BodyShare,
}

impl BufferedBody {
    /// Returns an empty body, before anything has arrived.
    fn new(room: &Arc<Quota>, holder: &Holder) -> Result<Self, Problem> {
        Ok(Self { bytes: Vec::new(), share: Some(room.take(holder, 0).map_err(no_room_problem)?) })
    }

    /// Appends `chunk`. Fails if the body gets too long, or if bodies have no memory left.
    fn append(mut self, chunk: &[u8], limit: Limit) -> Result<Self, Problem> {
        let old_len = self.bytes.len();
        let new_len = old_len + chunk.len();
        if new_len > limit.bytes {
            return Err(too_large_problem(limit));
        }
        let more = new_len.saturating_sub(FREE_BYTES) - old_len.saturating_sub(FREE_BYTES);
        if let Some(share) = &mut self.share {
            share.grow(MEMORY_PER_BYTE * more).map_err(no_room_problem)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(self)
    }

    /// Parses the body. Keeps its share until that is done, even if the request is cancelled.
    pub(crate) async fn parse<T: Send + 'static>(
        self,
        parse: impl FnOnce(Vec<u8>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, BodyShare), Problem> {
        let Self { bytes, mut share } = self;
        let is_short = bytes.len() <= PARSE_INLINE_BYTES_MAX;
        let parse = move || {
            // `parse` refuses a body of too many values before it builds any.
            let value_count = values(&bytes).min(VALUES_MAX).saturating_sub(FREE_VALUES);
            if let Some(share) = &mut share {
                share.grow_within(MEMORY_PER_VALUE * value_count).map_err(no_room_problem)?;
            }
            parse(bytes).map(|parsed| (parsed, share))
        };
        if is_short {
            return parse();
        }
        threads::computed("reading messages", parse).await?
    }
}

/// Reads the body of a request with messages.
pub(crate) async fn read(app: &App, request: Request) -> Result<(BodyFormat, BufferedBody), Problem> {
    let (parts, body) = request.into_parts();
    let format = body_format(&parts.headers)?;
    let limit = Limit {
        bytes: app.settings.body_bytes_max,
        cure: "send the messages in several requests, in order, or raise http.body_bytes_max",
    };
    Ok((format, read_body(app, &parts, body, limit).await?))
}

/// Reads the body of a request without messages. The body must be declared as JSON.
pub(crate) async fn read_short(app: &App, request: Request) -> Result<BufferedBody, Problem> {
    let (parts, body) = request.into_parts();
    body_format(&parts.headers)?;
    read_short_parts(app, &parts, body).await
}

/// Reads a body without messages, in any format.
pub(crate) async fn read_short_parts(app: &App, parts: &Parts, body: Body) -> Result<BufferedBody, Problem> {
    let bytes = SHORT.bytes.min(app.settings.body_bytes_max);
    read_body(app, parts, body, Limit { bytes, ..SHORT }).await
}

async fn read_body(app: &App, parts: &Parts, body: Body, limit: Limit) -> Result<BufferedBody, Problem> {
    let declared_bytes =
        parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared_bytes.is_some_and(|bytes: usize| bytes > app.settings.body_bytes_max) {
        return Err(too_large_problem(limit));
    }
    let time = app.settings.request_timeout() / 2;
    let mut buffered = BufferedBody::new(&app.bodies, &access::holder(&parts.extensions));
    let gathering = tokio::time::timeout(time, gather(app, body, limit, &mut buffered)).await;
    let outcome = gathering.unwrap_or_else(|_| Err(too_slow_problem(time)));
    // If both failed, `buffered` failed first, and the client learns about the first problem.
    buffered.and_then(|buffered| outcome.map(|()| buffered))
}

/// Reads all of `body` into `buffered`. Discards what doesn't fit, because a client doesn't look for an answer while it
/// sends.
async fn gather(
    app: &App,
    body: Body,
    limit: Limit,
    buffered: &mut Result<BufferedBody, Problem>,
) -> Result<(), Problem> {
    let (mut chunks, mut bytes) = (body.into_data_stream(), 0);
    while bytes <= app.settings.body_bytes_max
        && let Some(chunk) = chunks.next().await
    {
        let chunk = chunk.map_err(|_| {
            Problem::new(INVALID_BODY, "the connection broke off in the middle of the body")
                .hint("send it again")
        })?;
        bytes += chunk.len();
        let previous = mem::replace(buffered, Ok(BufferedBody::default()));
        *buffered = previous.and_then(|buffered| buffered.append(&chunk, limit));
    }
    Ok(())
}

/// Returns the declared format of a body. A foreign web page can send bodies of undeclared types without a preflight
/// request, so these are refused.
fn body_format(headers: &HeaderMap) -> Result<BodyFormat, Problem> {
    let value = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let encoding = value(CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        let detail = format!("the body is encoded as `{encoding}`");
        return Err(Problem::new(UNSUPPORTED_BODY, detail).hint("send it unencoded"));
    }
    let declared = value(CONTENT_TYPE).unwrap_or_default();
    let kind = declared.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" | "application/merge-patch+json" => Ok(BodyFormat::Document),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(BodyFormat::Lines),
        _ => {
            let detail = if declared.is_empty() {
                "the body has no content type".to_owned()
            } else {
                format!("the body is `{declared}`")
            };
            let hint = "send header `content-type: application/json`, or application/x-ndjson for lines";
            Err(Problem::new(UNSUPPORTED_BODY, detail).hint(hint))
        }
    }
}

fn too_large_problem(limit: Limit) -> Problem {
    let detail = format!("the body is longer than {} bytes", limit.bytes);
    Problem::new(BODY_TOO_LARGE, detail).hint(limit.cure)
}

fn too_slow_problem(time: Duration) -> Problem {
    let detail = format!("the body didn't arrive within {} ms", time.as_millis());
    Problem::new(BODY_TOO_SLOW, detail)
        .hint("send fewer messages at once, or raise http.request_timeout_ms (half of it is for the body)")
}

fn no_room_problem(lack: Lack) -> Problem {
    let detail = match lack {
        Lack::All => "other long bodies use all the memory that is reserved for bodies; nothing was changed",
        Lack::Share => {
            "this token, or this address, already uses half of the memory that is reserved for bodies, which is its limit; nothing was changed"
        }
    };
    Problem::new(TOO_MANY_BODIES, detail).hint(format!(
        "retry after `retry-after`, or send parts: a body of up to {FREE_BYTES} bytes is always accepted"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { bytes: 4 * FREE_BYTES, cure: "" };
    /// The room that the second `FREE_BYTES` of a body take.
    const TAKEN: usize = MEMORY_PER_BYTE * FREE_BYTES;

    fn new_body(room: &Arc<Quota>, of: &str) -> BufferedBody {
        BufferedBody::new(room, &Holder::of(None, of)).ok().unwrap()
    }

    fn more(held: BufferedBody) -> Result<BufferedBody, Problem> {
        held.append(&vec![b'x'; FREE_BYTES], LIMIT)
    }

    #[test]
    fn a_body_takes_room_beyond_its_beginning_and_returns_it() {
        let room = Quota::new(2 * TAKEN);
        let one = more(new_body(&room, "a")).ok().unwrap();
        assert_eq!(room.left(), 2 * TAKEN);
        let one = more(one).ok().unwrap();
        assert_eq!((one.bytes.len(), room.left()), (2 * FREE_BYTES, TAKEN));
        // One holder gets at most half of the room.
        let again = more(new_body(&room, "a")).ok().unwrap();
        assert!(more(again).err().unwrap().is_temporary());
        let other = more(more(new_body(&room, "b")).ok().unwrap()).ok().unwrap();
        assert_eq!(room.left(), 0);
        // The beginning needs no room, and a refused body keeps none.
        let third = more(new_body(&room, "c")).ok().unwrap();
        assert!(more(third).err().unwrap().is_temporary());
        let BufferedBody { bytes, share } = one;
        drop(bytes);
        assert_eq!(room.left(), 0);
        drop((share, other));
        assert_eq!(room.left(), 2 * TAKEN);
    }

    #[test]
    fn a_body_that_is_too_long_keeps_no_room() {
        let room = Quota::new(8 * TAKEN);
        let mut long = new_body(&room, "a");
        for _ in 0..4 {
            long = more(long).ok().unwrap();
        }
        assert_eq!(room.left(), 5 * TAKEN);
        assert!(!more(long).err().unwrap().is_temporary());
        assert_eq!(room.left(), 8 * TAKEN);
    }

    #[tokio::test]
    async fn very_many_short_values_take_room_too() {
        let room = Quota::new(2_000 * MEMORY_PER_VALUE);
        let held = |values: usize| BufferedBody {
            bytes: format!("[{}]", "1,".repeat(values)).into_bytes(),
            ..new_body(&room, "a")
        };
        let parsed = held(FREE_VALUES + 600).parse(Ok).await;
        let (_, share) = parsed.ok().unwrap();
        let other = held(FREE_VALUES + 600).parse(Ok).await;
        assert!(other.err().unwrap().is_temporary());
        assert!(held(FREE_VALUES - 1).parse(Ok).await.is_ok());
        drop(share);
        // A body that would take more than its share gets through alone.
        assert!(held(FREE_VALUES + 5_000).parse(Ok).await.is_ok());
        assert_eq!(room.left(), 2_000 * MEMORY_PER_VALUE);
    }
}
