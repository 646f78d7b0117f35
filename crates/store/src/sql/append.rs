//! Appends messages in one transaction: numbers the messages, assigns them to exchanges, moves the boundary and wakes the queue.
//! The ledger decides which exchange a message belongs to and what is evicted.
//!
//! A step (a clear, mark, rewind, pin, unpin or note) takes effect at its position: the messages up to and including the step's
//! message are written, then the step is applied, then the next messages follow.

pub(super) mod boundary;
pub(super) mod write;

use std::collections::{HashMap, HashSet};

use crate::sql::{Connection, pending, query, sql};

use super::{
    super::{
        AgentRow, AppendOutcome, AppendRequest, PreparedMessage, RequestKey, StepOutcome, StoreError,
        StoreResult, StoredAt, seal::Chain,
    },
    agent, lineage, queue,
};
use crate::record::other_id;
use recapd_core::{
    domain::{
        agent::AgentId,
        exchange::{Exchange, LedgerEntry, PREAMBLE},
        ledger::{Eviction, Ledger},
        lineage::{self as steps, Step},
        message::{Format, is_tombstone},
        number::i64_or_max,
        time::Timestamp,
        work::Reason,
    },
    formats,
};

/// What is to be written for a part of the messages, besides the ledger with the newest exchange.
#[derive(Default)]
struct AppendRows {
    messages: Vec<StoredAt>,
    /// Exchanges that these messages completed. Their running totals ascend.
    exchanges: Vec<Exchange>,
    sessions: Vec<NewSession>,
    evictions: Vec<Eviction>,
    preamble: Option<Exchange>,
    /// The session that ended because its newest leg alone exceeds the budget.
    session_ended: Option<i64>,
}

pub(super) struct NewSession {
    pub(super) session: i64,
    pub(super) first_exchange: i64,
    pub(super) opened_at: Timestamp,
    /// When and why the previous session ended, if that isn't stored yet.
    pub(super) previous_end: Option<(Timestamp, &'static str)>,
}

impl NewSession {
    /// Creates the row of the ledger's session, which has no exchanges yet.
    pub(super) fn empty(
        ledger: &Ledger,
        opened_at: Timestamp,
        previous_end: Option<(Timestamp, &'static str)>,
    ) -> Self {
        Self { session: ledger.session, first_exchange: ledger.last_exchange + 1, opened_at, previous_end }
    }
}

/// See [`super::super::Store::append`]; with `steps_required`, [`super::super::Store::rewind`].
pub(super) async fn append(
    tx: &mut Connection,
    mut request: AppendRequest,
    steps_required: bool,
) -> StoreResult<AppendOutcome> {
    let row = agent::load_or_create(tx, &request.agent, request.now).await?;
    let budget_before = row.kept_budget();
    let AgentRow { created_at, version, mut chain, mut ledger, settings, .. } = row;
    if let Some(key) = &request.key {
        store_key(tx, &request.agent, key, request.now).await?;
    }
    // From here on the agent's own settings override the configured ones.
    let in_force = settings.expanded(&request.rules.basis);
    request.rules.budget = in_force.budget(request.rules.budget);
    request.rules.on_overflow = in_force.on_overflow.unwrap_or(request.rules.on_overflow);
    request.rules.context = in_force.context_options(request.rules.context);
    let budget = request.rules.budget;
    let fresh = without_duplicates(tx, &request).await?;
    let returned = if !fresh.is_empty() && budget.is_above(budget_before) {
        boundary::take_back(tx, &request.agent, budget, &mut ledger).await?
    } else {
        None
    };
    let is_step = |&(index, _): &(usize, bool)| step_at(&request, index).is_some();
    let (mut stored, mut evictions, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    let mut session_ended = None;
    for part in fresh.split_inclusive(is_step) {
        let mut rows = place_all(tx, &request, part, &mut ledger).await?;
        let outcome = write_part(tx, &request, part, &mut rows, (&mut ledger, &mut chain)).await?;
        if steps_required {
            outcome.iter().try_for_each(check_target)?;
        }
        stored.extend(rows.messages);
        evictions.extend(rows.evictions);
        outcomes.extend(outcome);
        session_ended = rows.session_ended.or(session_ended);
    }
    let is_clear = |step: &StepOutcome| matches!(step, StepOutcome::Cleared { .. });
    let has_closed = session_ended.is_some() || outcomes.iter().any(is_clear);
    let enqueued = wake(tx, &request, &ledger, (&evictions, &outcomes), has_closed).await?;
    let accepted = i64_or_max(fresh.len());
    Ok(AppendOutcome {
        accepted,
        stored,
        duplicates: i64_or_max(request.messages.len()) - accepted,
        exchange: ledger.newest.as_ref().map_or(PREAMBLE, |newest| newest.exchange),
        first_exchange: ledger.first_exchange,
        summarized_through: ledger.summarized_through,
        version: version_after(version, &outcomes),
        window_tokens: ledger.window_tokens(),
        returned,
        evictions,
        steps: outcomes,
        settings,
        budget,
        session_ended,
        enqueued,
        created_at,
    })
}

/// Fails if the target of a step doesn't exist.
fn check_target(step: &StepOutcome) -> StoreResult<()> {
    match step {
        StepOutcome::Ignored { label } => Err(StoreError::UnknownMark(label.clone())),
        StepOutcome::NoNote { name } => Err(StoreError::UnknownNote(name.clone())),
        StepOutcome::NotThere { seq } => Err(StoreError::UnknownMessage(*seq)),
        _ => Ok(()),
    }
}

/// Returns the summary's version after `steps`; it was `before`. A rewind may write a version.
fn version_after(before: i64, steps: &[StepOutcome]) -> i64 {
    let version = steps.iter().rev().find_map(|step| match step {
        StepOutcome::Rewound { version, .. } => *version,
        _ => None,
    });
    version.unwrap_or(before)
}

/// Stores the idempotency key of a request. Fails if a different request has used the key. The key doesn't keep a repeated
/// request from storing its messages twice: their ids do ([`without_duplicates`]).
async fn store_key(
    tx: &mut Connection,
    agent: &AgentId,
    key: &RequestKey,
    now: Timestamp,
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/append.keep_key\nINSERT INTO idempotency_keys (agent_id, key, digest, used_at) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (agent_id, key) DO UPDATE SET used_at = excluded.used_at RETURNING digest"
    );
    let digest: String = query(sql)
        .bind(agent.as_str())
        .bind(key.key.as_str())
        .bind(key.digest.as_str())
        .bind(now)
        .fetch_one(tx)
        .await?
        .try_get(0)?;
    if digest == key.digest { Ok(()) } else { Err(StoreError::KeyReused(key.key.clone())) }
}

fn step_at(request: &AppendRequest, index: usize) -> Option<Step> {
    Step::of(&request.messages.get(index)?.message)
}

/// Writes the placed messages. If the last message of `part` is a step, also applies it and returns its effect.
async fn write_part(
    tx: &mut Connection,
    request: &AppendRequest,
    part: &[(usize, bool)],
    rows: &mut AppendRows,
    (ledger, chain): (&mut Ledger, &mut Chain),
) -> StoreResult<Option<StepOutcome>> {
    let last = part.last().and_then(|&(index, _)| request.messages.get(index));
    let step = last.and_then(|last| Some((Step::of(&last.message)?, last.entry.at)));
    if let Some((Step::Clear, at)) = step {
        close_session(rows, ledger, at);
    }
    write::rows(tx, request, rows, (ledger, chain)).await?;
    let outcome = match step {
        None => None,
        Some((Step::Clear, _)) => Some(lineage::clear(tx, &request.agent, ledger).await?),
        Some((Step::Mark(label), _)) => {
            let exchange = rows.messages.last().map_or(PREAMBLE, |last| last.exchange);
            Some(lineage::mark(tx, &request.agent, ledger, label, exchange).await?)
        }
        Some((Step::Rewind(label), at)) => {
            let outcome = lineage::rewind(tx, request, ledger, label, at).await?;
            // The mark's exchange may have grown after the mark, or the budget may have shrunk. All rows are written by now.
            let eviction = boundary::evict(tx, request, &[], ledger, at).await?;
            rows.evictions.extend(eviction);
            Some(outcome)
        }
        Some((Step::Pin(seq), _)) => Some(lineage::pins::pin_within(tx, request, seq).await?),
        Some((Step::Unpin(seq), _)) => Some(lineage::pins::unpin(tx, &request.agent, seq).await?),
        Some((Step::Note(change), at)) => {
            let last = rows.messages.last();
            let position = lineage::notes::NotePosition {
                seq: last.map_or(0, |last| last.seq),
                exchange: last.map_or(PREAMBLE, |last| last.exchange),
                at,
            };
            Some(lineage::notes::write_within(tx, request, &change, position).await?)
        }
    };
    write::state(tx, request, rows, (ledger, chain)).await?;
    Ok(outcome)
}

/// Closes the running session and opens an empty one. The closed session's exchanges are written as they are.
fn close_session(rows: &mut AppendRows, ledger: &mut Ledger, at: Timestamp) {
    rows.exchanges.extend(ledger.newest.clone());
    rows.evictions.extend(ledger.clear(at));
    let opened = NewSession::empty(ledger, at, Some((at, "clear")));
    rows.sessions.push(opened);
}

/// Deduplicates the request's messages: a message that is stored already under its client id is a duplicate, so a message that is
/// sent twice is stored once (idempotent). Returns the positions of the new messages, each with whether it keeps its client id.
async fn without_duplicates(tx: &mut Connection, request: &AppendRequest) -> StoreResult<Vec<(usize, bool)>> {
    let messages = request.messages.iter();
    let ids: Vec<&str> = messages.filter_map(|prepared| prepared.message.client_id.as_deref()).collect();
    let mut payloads = stored_payloads(tx, &request.agent, &ids).await?;
    let mut fresh = Vec::with_capacity(request.messages.len());
    for (index, PreparedMessage { message, .. }) in request.messages.iter().enumerate() {
        let Some(id) = &message.client_id else {
            fresh.push((index, true));
            continue;
        };
        match payloads.get(id) {
            None => {
                payloads.insert(id.clone(), message.payload.clone());
                fresh.push((index, true));
            }
            Some(payload) if formats::is_same(payload, &message.payload) || is_tombstone(payload) => {}
            // A Claude Code session that was resumed or forked copies earlier lines under its own name.
            Some(payload)
                if message.format == Format::ClaudeCode
                    && formats::is_copied_line(payload, &message.payload) => {}
            // A transcript may hold a different message under the same id. No message may be lost, so it is stored under another
            // id.
            Some(_) if request.replayed => fresh.push((index, false)),
            Some(_) => return Err(StoreError::ClientIdReused(id.clone())),
        }
    }
    without_stored_replacements(tx, request, fresh, payloads).await
}

/// Removes from `fresh` the messages that are stored already under their replacement ids. `payloads` holds the payloads that are
/// stored under the original ids.
async fn without_stored_replacements(
    tx: &mut Connection,
    request: &AppendRequest,
    fresh: Vec<(usize, bool)>,
    payloads: HashMap<String, String>,
) -> StoreResult<Vec<(usize, bool)>> {
    let replacement_ids: HashMap<usize, String> = fresh
        .iter()
        .filter(|(_, keeps_id)| !keeps_id)
        .filter_map(|&(index, _)| Some((index, other_id(&request.messages.get(index)?.message)?)))
        .collect();
    if replacement_ids.is_empty() {
        return Ok(fresh);
    }
    let ids: Vec<&str> = replacement_ids.values().map(String::as_str).collect();
    let stored = stored_payloads(tx, &request.agent, &ids).await?;
    let mut used_ids: HashSet<String> = payloads.into_keys().chain(stored.into_keys()).collect();
    let is_new = |&(index, _): &(usize, bool)| {
        replacement_ids.get(&index).is_none_or(|id| used_ids.insert(id.clone()))
    };
    Ok(fresh.into_iter().filter(is_new).collect())
}

/// Returns the payloads stored under these client ids.
pub(super) async fn stored_payloads(
    tx: &mut Connection,
    agent: &AgentId,
    ids: &[&str],
) -> StoreResult<HashMap<String, String>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = sql!(
        "-- sql/append.known_payloads\nSELECT client_id, payload FROM message_log \
               WHERE agent_id = $1 AND client_id IN (SELECT value FROM {each_text}($2{::jsonb}))"
    );
    let found =
        query(sql).bind(agent.as_str()).bind(serde_json::json!(ids).to_string()).fetch_all(tx).await?;
    Ok(found.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()?)
}

/// Assigns the messages to exchanges, and evicts what is over budget, in the ledger only. Returns what is to be written.
async fn place_all(
    tx: &mut Connection,
    request: &AppendRequest,
    fresh: &[(usize, bool)],
    ledger: &mut Ledger,
) -> StoreResult<AppendRows> {
    let mut rows = AppendRows::default();
    for &(index, keeps_id) in fresh {
        let Some(PreparedMessage { entry, .. }) = request.messages.get(index) else {
            continue;
        };
        if ledger.last_seq == 0 {
            rows.sessions.push(NewSession::empty(ledger, entry.at, None));
        }
        let appended = ledger.append(entry, request.rules.segmentation());
        let preamble = ledger.preamble.as_ref();
        let preamble = preamble.filter(|preamble| preamble.exchange == appended.exchange);
        rows.messages.push(StoredAt {
            index,
            seq: appended.seq,
            exchange: appended.exchange,
            session: preamble.or(ledger.newest.as_ref()).map_or(ledger.session, |exchange| exchange.session),
            begins_leg: appended.begins_leg,
            keeps_id,
        });
        if let Some(preamble) = preamble {
            rows.preamble = Some(preamble.clone());
        }
        if appended.new_session {
            let previous_end = appended.completed.as_ref().map(|row| (row.last_at, "idle"));
            rows.sessions.push(NewSession {
                first_exchange: appended.exchange,
                ..NewSession::empty(ledger, entry.at, previous_end)
            });
        }
        rows.exchanges.extend(appended.completed);
        let eviction = boundary::evict(tx, request, &rows.exchanges, ledger, entry.at).await?;
        rows.evictions.extend(eviction);
        check_overflow(request, &mut rows, ledger, entry)?;
    }
    Ok(rows)
}

/// Applies the settings for a leg that alone exceeds the budget. They may ask for an error, which undoes the whole append, or for
/// the end of the session.
fn check_overflow(
    request: &AppendRequest,
    rows: &mut AppendRows,
    ledger: &mut Ledger,
    entry: &LedgerEntry,
) -> StoreResult<()> {
    let rules = &request.rules;
    let Some(ended) = ledger.check_overflow(entry, rules.budget, rules.on_overflow)? else {
        return Ok(());
    };
    rows.session_ended = Some(ended);
    let opened = NewSession::empty(ledger, entry.at, Some((entry.at, "end")));
    rows.sessions.push(opened);
    Ok(())
}

/// Wakes the queue if there is work: exchanges left the window, a session with pending exchanges ended, or a rewind wrote digests
/// that a model will condense.
pub(super) async fn wake(
    tx: &mut Connection,
    request: &AppendRequest,
    ledger: &Ledger,
    (evictions, steps): (&[Eviction], &[StepOutcome]),
    has_closed: bool,
) -> StoreResult<Option<super::EnqueueOutcome>> {
    let rules = &request.rules;
    let has_rewritten =
        steps.iter().any(|step| matches!(step, StepOutcome::Rewound { version: Some(_), .. }));
    let is_urgent = has_closed && ledger.pending_numbers() > 0;
    if evictions.is_empty() && !is_urgent && !has_rewritten {
        return Ok(None);
    }
    let is_full = ledger.pending_numbers() >= rules.batch_exchanges
        && pending::has_tokens(tx, &request.agent, ledger.summarized_through, rules.batch_tokens_min).await?;
    let mut messages = request.messages.iter().map(|prepared| &prepared.message);
    let is_resumable = messages.any(steps::is_resumable);
    let wake = queue::Wake {
        reason: match (is_urgent, is_resumable) {
            (true, false) => Reason::SessionEnd,
            (true, true) => Reason::SessionPause,
            (false, _) => Reason::Eviction,
        },
        delay_ms: match (is_urgent, is_full) {
            (true, _) if !is_resumable => 0,
            (_, true) => rules.debounce_ms,
            (_, false) => rules.max_wait_ms,
        },
        revive_after_ms: if is_urgent { 0 } else { rules.revive_after_ms },
        now: request.now,
    };
    Ok(Some(queue::enqueue(tx, &request.agent, wake).await?))
}
