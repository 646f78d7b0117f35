//! Bodies: their formats, and the limits on each body and on all bodies held at once.
//!
//! A body takes room as it arrives, and keeps it until its messages are stored. If there is no room, the request is refused
//! at once: bodies that wait for each other would never be complete. The beginning of each body needs no room, so that
//! short bodies always get through, and a body that is announced but doesn't arrive takes none. One token, or one address
//! without one, has at most half of the room.

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
        request::message_body::{VALUES_MAX, values},
        response::problem::{
            BODY_TOO_LARGE, BODY_TOO_SLOW, INVALID_BODY, Problem, TOO_MANY_BODIES, UNSUPPORTED_BODY,
        },
    },
};
use recapd_platform::threads;

/// The bytes of memory per byte of a body while its messages are read.
const MADE_OF_A_BYTE: usize = 3;
/// The bytes of memory per JSON value, however short. A message of three values has parts, a row, and counts.
const MADE_OF_A_VALUE: usize = 400;
/// The room for bodies per byte of the longest one. Half of it is for one client, and holds that longest body.
const ROOM_PER_BYTE: usize = SHARE_OF * MADE_OF_A_BYTE;
/// How many bytes of each body need no room. A connection reads as many ahead.
const FREE_BYTES: usize = 64 * 1_024;
/// How many values of each body need no room.
const FREE_VALUES: usize = 500;
/// The longest body without messages. Some are parsed into a tree of values, which takes many times their bytes.
const SHORT: Limit = Limit {
    bytes: 256 * 1_024,
    cure: "only messages may be longer",
};

/// Longer bodies are parsed on another thread, since that takes some milliseconds.
const PARSE_INLINE_BYTES_MAX: usize = 256 * 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Document,
    /// One JSON document on each line.
    Lines,
}

/// The longest body, and what to do about a longer one.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    cure: &'static str,
}

/// Makes the room for bodies of at most `bytes_max`.
pub(crate) fn room(bytes_max: usize) -> Arc<Quota> {
    Quota::new(bytes_max.saturating_mul(ROOM_PER_BYTE))
}

/// The room that a body takes until this is dropped; `None` for no body.
pub(crate) type BodyShare = Option<QuotaShare>;

/// A body. Whoever keeps messages read from it must keep its share, too.
#[derive(Default)]
pub(crate) struct BufferedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) share: BodyShare,
}

impl BufferedBody {
    /// Begins a body of which nothing has arrived yet.
    fn begun(room: &Arc<Quota>, holder: &Holder) -> Result<Self, Problem> {
        Ok(Self {
            bytes: Vec::new(),
            share: Some(room.take(holder, 0).map_err(no_room)?),
        })
    }

    /// Appends `chunk`, unless the body gets too long or there is no room for it.
    fn and(mut self, chunk: &[u8], limit: Limit) -> Result<Self, Problem> {
        let before = self.bytes.len();
        let after = before + chunk.len();
        if after > limit.bytes {
            return Err(too_large(limit));
        }
        let more = after.saturating_sub(FREE_BYTES) - before.saturating_sub(FREE_BYTES);
        if let Some(share) = &mut self.share {
            share.grow(MADE_OF_A_BYTE * more).map_err(no_room)?;
        }
        self.bytes.extend_from_slice(chunk);
        Ok(self)
    }

    /// Parses the bytes. Keeps the share meanwhile, even if the request is cancelled.
    pub(crate) async fn parsed<T: Send + 'static>(
        self,
        parse: impl FnOnce(Vec<u8>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<(T, BodyShare), Problem> {
        let Self { bytes, mut share } = self;
        let is_short = bytes.len() <= PARSE_INLINE_BYTES_MAX;
        let parse = move || {
            // A body of too many values is refused by `parse` before it is taken apart.
            let many = values(&bytes).min(VALUES_MAX).saturating_sub(FREE_VALUES);
            if let Some(share) = &mut share {
                share.grow_within(MADE_OF_A_VALUE * many).map_err(no_room)?;
            }
            parse(bytes).map(|parsed| (parsed, share))
        };
        if is_short {
            return parse();
        }
        threads::computed("reading messages", parse).await?
    }
}

pub(crate) async fn read(app: &App, request: Request) -> Result<(BodyFormat, BufferedBody), Problem> {
    let (parts, body) = request.into_parts();
    let writing = writing(&parts.headers)?;
    let limit = Limit {
        bytes: app.settings.body_bytes_max,
        cure: "send the messages in several requests, in order, or raise http.body_bytes_max",
    };
    Ok((writing, arrived(app, &parts, body, limit).await?))
}

pub(crate) async fn read_short(app: &App, request: Request) -> Result<BufferedBody, Problem> {
    let (parts, body) = request.into_parts();
    writing(&parts.headers)?;
    short(app, &parts, body).await
}

/// Reads a body without messages, of any format.
pub(crate) async fn short(app: &App, parts: &Parts, body: Body) -> Result<BufferedBody, Problem> {
    let bytes = SHORT.bytes.min(app.settings.body_bytes_max);
    arrived(app, parts, body, Limit { bytes, ..SHORT }).await
}

async fn arrived(app: &App, parts: &Parts, body: Body, limit: Limit) -> Result<BufferedBody, Problem> {
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes: usize| bytes > app.settings.body_bytes_max) {
        return Err(too_large(limit));
    }
    let time = app.settings.request_timeout() / 2;
    let mut held = BufferedBody::begun(&app.bodies, &access::holder(&parts.extensions));
    let gathering = tokio::time::timeout(time, gather(app, body, limit, &mut held)).await;
    let gathered = gathering.unwrap_or_else(|_| Err(too_slow(time)));
    // A body that was refused while being read is refused for that reason, whatever becomes of the rest.
    held.and_then(|held| gathered.map(|()| held))
}

/// Reads all of `body` into `held`. What can't be held is read and thrown away, since a client doesn't look for an answer while it sends.
async fn gather(
    app: &App,
    body: Body,
    limit: Limit,
    held: &mut Result<BufferedBody, Problem>,
) -> Result<(), Problem> {
    let (mut chunks, mut bytes) = (body.into_data_stream(), 0);
    while bytes <= app.settings.body_bytes_max
        && let Some(chunk) = chunks.next().await
    {
        let chunk =
            chunk.map_err(|_| Problem::new(INVALID_BODY, "the body broke off").hint("send it again"))?;
        bytes += chunk.len();
        let before = mem::replace(held, Ok(BufferedBody::default()));
        *held = before.and_then(|held| held.and(&chunk, limit));
    }
    Ok(())
}

/// Returns the format of a body. It must be declared: a foreign web page can send any other type without asking first.
fn writing(headers: &HeaderMap) -> Result<BodyFormat, Problem> {
    let value = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let encoding = value(CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        let detail = format!("the body is encoded as `{encoding}`");
        return Err(Problem::new(UNSUPPORTED_BODY, detail).hint("send it as it is"));
    }
    let given = value(CONTENT_TYPE).unwrap_or_default();
    let kind = given
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "application/json" | "application/merge-patch+json" => Ok(BodyFormat::Document),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(BodyFormat::Lines),
        _ => {
            let detail = if given.is_empty() {
                "the body has no content type".to_owned()
            } else {
                format!("the body is `{given}`")
            };
            let hint = "send header `content-type: application/json`, or application/x-ndjson for lines";
            Err(Problem::new(UNSUPPORTED_BODY, detail).hint(hint))
        }
    }
}

fn too_large(limit: Limit) -> Problem {
    let detail = format!("the body is longer than {} bytes", limit.bytes);
    Problem::new(BODY_TOO_LARGE, detail).hint(limit.cure)
}

fn too_slow(time: Duration) -> Problem {
    let detail = format!("the body didn't arrive within {} ms", time.as_millis());
    Problem::new(BODY_TOO_SLOW, detail)
        .hint("send fewer messages at once, or raise http.request_timeout_ms (a body has half of it)")
}

fn no_room(lack: Lack) -> Problem {
    let detail = match lack {
        Lack::All => "other long bodies take all the room that there is for them; nothing was changed",
        Lack::Share => {
            "long bodies of this token, or of this address, take half of the room that there is for all; nothing was changed"
        }
    };
    Problem::new(TOO_MANY_BODIES, detail).hint(format!(
        "send it again after `retry-after`, or in parts: a body of up to {FREE_BYTES} bytes is always taken"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit {
        bytes: 4 * FREE_BYTES,
        cure: "",
    };
    /// The room that the second `FREE_BYTES` of a body take.
    const TAKEN: usize = MADE_OF_A_BYTE * FREE_BYTES;

    fn begun(room: &Arc<Quota>, of: &str) -> BufferedBody {
        BufferedBody::begun(room, &Holder::of(None, of)).ok().unwrap()
    }

    fn more(held: BufferedBody) -> Result<BufferedBody, Problem> {
        held.and(&vec![b'x'; FREE_BYTES], LIMIT)
    }

    #[test]
    fn a_body_takes_room_beyond_its_beginning_and_returns_it() {
        let room = Quota::new(2 * TAKEN);
        let one = more(begun(&room, "a")).ok().unwrap();
        assert_eq!(room.left(), 2 * TAKEN);
        let one = more(one).ok().unwrap();
        assert_eq!((one.bytes.len(), room.left()), (2 * FREE_BYTES, TAKEN));
        // Half of the room is for others.
        let again = more(begun(&room, "a")).ok().unwrap();
        assert!(more(again).err().unwrap().may_pass());
        let other = more(more(begun(&room, "b")).ok().unwrap()).ok().unwrap();
        assert_eq!(room.left(), 0);
        // The beginning needs no room, and a refused body keeps none.
        let third = more(begun(&room, "c")).ok().unwrap();
        assert!(more(third).err().unwrap().may_pass());
        let BufferedBody { bytes, share } = one;
        drop(bytes);
        assert_eq!(room.left(), 0);
        drop((share, other));
        assert_eq!(room.left(), 2 * TAKEN);
    }

    #[test]
    fn a_body_that_is_too_long_keeps_no_room() {
        let room = Quota::new(8 * TAKEN);
        let mut long = begun(&room, "a");
        for _ in 0..4 {
            long = more(long).ok().unwrap();
        }
        assert_eq!(room.left(), 5 * TAKEN);
        assert!(!more(long).err().unwrap().may_pass());
        assert_eq!(room.left(), 8 * TAKEN);
    }

    #[tokio::test]
    async fn very_many_short_values_take_room_too() {
        let room = Quota::new(2_000 * MADE_OF_A_VALUE);
        let held = |values: usize| BufferedBody {
            bytes: format!("[{}]", "1,".repeat(values)).into_bytes(),
            ..begun(&room, "a")
        };
        let parsed = held(FREE_VALUES + 600).parsed(Ok).await;
        let (_, share) = parsed.ok().unwrap();
        let other = held(FREE_VALUES + 600).parsed(Ok).await;
        assert!(other.err().unwrap().may_pass());
        assert!(held(FREE_VALUES - 1).parsed(Ok).await.is_ok());
        drop(share);
        // A body that would take more than its share gets through alone.
        assert!(held(FREE_VALUES + 5_000).parsed(Ok).await.is_ok());
        assert_eq!(room.left(), 2_000 * MADE_OF_A_VALUE);
    }
}
