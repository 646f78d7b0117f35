//! Restores a history from a journal: writes the messages' rows unchanged, and derives the exchanges and the boundary from them.
//! A step (a clear, mark, rewind, pin or unpin) takes effect at its position, as in an append.

use crate::sql::{Connection, Value, insert, query, sql};

use super::super::{
    super::{
        StoreError, StoreResult,
        archive::{AgentOrigin, ArchiveError, ReadRecord, Restore, RestoreOutcome},
        seal::{self, Chain, MessageRow},
    },
    agent,
    append::{NewSession, write},
    fork, hold, lineage, queue,
    seal::seal_next,
    session,
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::{Exchange, PREAMBLE},
    journal::{Head, ImportState, JournalError, MarkRecord, SessionRecord, add_recorded},
    ledger::{CutPoint, Eviction, Ledger},
    lineage::Step,
    message::is_tombstone,
    number::i64_or_max,
    settings::AgentSettings,
    time::Timestamp,
    work::Reason,
};

#[derive(Default)]
struct RestoreRows {
    exchanges: Vec<Exchange>,
    /// The preamble of a session that was cleared.
    preamble: Option<Exchange>,
    sessions: Vec<NewSession>,
    eviction: Option<Eviction>,
}

/// Restores messages; see [`super::Archive::restore`]. After an inner error, the caller commits a transaction in which this
/// request has changed nothing. An outer error undoes the whole transaction.
pub(super) async fn restore(
    tx: &mut Connection,
    request: Restore,
) -> StoreResult<Result<RestoreOutcome, ArchiveError>> {
    query(sql!("-- sql/archive.begin\nSAVEPOINT restore")).execute(&mut *tx).await?;
    let outcome = restore_all(tx, &request).await;
    if let Err(ArchiveError::Store(error)) = outcome {
        return Err(error);
    }
    if outcome.is_err() {
        query(sql!("-- sql/archive.undo\nROLLBACK TO restore")).execute(&mut *tx).await?;
    }
    query(sql!("-- sql/archive.end\nRELEASE restore")).execute(tx).await?;
    Ok(outcome)
}

async fn restore_all(tx: &mut Connection, request: &Restore) -> Result<RestoreOutcome, ArchiveError> {
    let mut found = agent::load(tx, &request.agent).await?;
    let is_new = found.is_none();
    if is_new {
        create_agent(tx, request).await?;
        found = agent::load(tx, &request.agent).await?;
    } else if let Some(origin) = &request.origin {
        compare_forks(tx, &request.agent, origin).await?;
    }
    let (mut ledger, mut chain) = found.map(|row| (row.ledger, row.chain)).unwrap_or_default();
    let known_count = request.records.partition_point(|recorded| recorded.record.seq <= ledger.last_seq);
    let (known_records, fresh) = request.records.split_at(known_count);
    compare_messages(tx, &request.agent, known_records).await??;
    for part in fresh.split_inclusive(|recorded| recorded.step.is_some()) {
        restore_part(tx, request, part, (&mut ledger, &mut chain)).await?;
    }
    let is_written = is_new || !fresh.is_empty();
    let state = compare_with_head(tx, request, &ledger, is_written).await?;
    let due = request.head.as_ref().filter(|_| state == ImportState::Due);
    if let Some(head) = due {
        apply_head(tx, head, &mut ledger, request.now).await?;
    }
    if (is_written || due.is_some()) && ledger.pending_numbers() > 0 {
        wake(tx, &request.agent, request.now).await?;
    }
    Ok(RestoreOutcome {
        accepted: i64_or_max(fresh.len()),
        duplicates: i64_or_max(known_records.len()),
        last_seq: ledger.last_seq,
        lacks_head: state == ImportState::Open,
    })
}

/// Compares the agent with the request's head, if it has one.
async fn compare_with_head(
    tx: &mut Connection,
    request: &Restore,
    ledger: &Ledger,
    is_written: bool,
) -> StoreResult<ImportState> {
    let Some(head) = &request.head else {
        return Ok(ImportState::Settled);
    };
    if is_written && head.last_seq == ledger.last_seq {
        return Ok(ImportState::Due);
    }
    let existing = super::head(tx, &request.agent, None).await?;
    Ok(existing.map_or(ImportState::Open, |existing| head.compare(&existing, request.through_seq())))
}

async fn create(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> Result<(), ArchiveError> {
    if agent::create(tx, agent, now).await? {
        return Ok(());
    }
    Err(StoreError::AgentExists(agent.clone()).into())
}

async fn create_agent(tx: &mut Connection, request: &Restore) -> Result<(), ArchiveError> {
    let agent = &request.agent;
    let Some(origin) = &request.origin else {
        return create(tx, agent, request.now).await;
    };
    if let Err(error) = serde_json::from_str::<AgentSettings>(origin.settings.get()) {
        return Err(JournalError::Settings(error.to_string()).into());
    }
    match &origin.fork {
        Some(fork) => fork::record::restore(tx, agent, fork, request.now).await?,
        None => create(tx, agent, request.now).await?,
    }
    let sql = sql!(
        "-- sql/archive.origin\nUPDATE agents SET project_id = $2, settings = $3{::json}, created_at = $4 \
               WHERE agent_id = $1"
    );
    query(sql)
        .bind(agent.as_str())
        .bind(origin.project.as_deref())
        .bind(origin.settings.get())
        .bind(origin.created_at)
        .execute(tx)
        .await
        .map_err(StoreError::from)?;
    Ok(())
}

/// Fails if an existing agent began with another fork record than the journal's agent.
async fn compare_forks(
    tx: &mut Connection,
    agent: &AgentId,
    origin: &AgentOrigin,
) -> Result<(), ArchiveError> {
    let recorded = fork::record::load(tx, agent).await?;
    if recorded == origin.fork {
        return Ok(());
    }
    Err(JournalError::OtherFork.into())
}

async fn compare_messages(
    tx: &mut Connection,
    agent: &AgentId,
    records: &[ReadRecord],
) -> StoreResult<Result<(), JournalError>> {
    let sql =
        sql!("-- sql/archive.compare\nSELECT payload = $3 FROM message_log WHERE agent_id = $1 AND seq = $2");
    for ReadRecord { record, .. } in records {
        let row = query(sql)
            .bind(agent.as_str())
            .bind(record.seq)
            .bind(record.payload.as_str())
            .fetch_optional(&mut *tx)
            .await?;
        let is_same = row.map(|row| row.try_get::<bool>(0)).transpose()?;
        if is_same != Some(true) {
            return Ok(Err(JournalError::Differs { seq: record.seq }));
        }
    }
    Ok(Ok(()))
}

/// Writes messages and applies the step among them. Only the last message may be a step.
async fn restore_part(
    tx: &mut Connection,
    request: &Restore,
    part: &[ReadRecord],
    (ledger, chain): (&mut Ledger, &mut Chain),
) -> Result<(), ArchiveError> {
    let mut placed = place_all(ledger, part)?;
    let step = part.last().and_then(|last| Some((&last.record, last.step.as_ref()?)));
    if let Some((record, Step::Clear)) = step {
        close_session(&mut placed, ledger, record.said_at);
    }
    write_rows(tx, &request.agent, part, &placed, (ledger, chain)).await?;
    match step {
        None => {}
        Some((_, Step::Clear)) => drop(lineage::clear(tx, &request.agent, ledger).await?),
        Some((record, Step::Mark(label))) => {
            drop(lineage::mark(tx, &request.agent, ledger, label.clone(), record.exchange).await?);
        }
        Some((record, Step::Rewind(label))) => {
            let covered_through = ledger.summarized_through;
            lineage::go_back(tx, &request.agent, ledger, label.as_deref(), record.said_at).await?;
            if ledger.summarized_through < covered_through {
                return Err(JournalError::Summarised { seq: record.seq }.into());
            }
            // Readers get a held document during a rebuild. It may be about exchanges that are now set aside.
            hold::release(tx, &request.agent, 0, true).await?;
            lineage::void_lease(tx, &request.agent, request.now).await?;
        }
        Some((_, Step::Pin(seq))) => drop(lineage::pins::pin(tx, &request.agent, *seq).await?),
        Some((_, Step::Unpin(seq))) => drop(lineage::pins::unpin(tx, &request.agent, *seq).await?),
        Some((record, Step::Note(change))) => {
            let position = lineage::notes::NotePosition {
                seq: record.seq,
                exchange: record.exchange,
                at: record.said_at,
            };
            lineage::notes::write(tx, &request.agent, change, position).await?;
        }
    }
    Ok(write_state(tx, request, &placed, (ledger, chain)).await?)
}

/// Assigns the messages to exchanges as the journal says, in the ledger only. Returns what is to be written.
fn place_all(ledger: &mut Ledger, part: &[ReadRecord]) -> Result<RestoreRows, JournalError> {
    let mut placed = RestoreRows::default();
    for ReadRecord { record, entry, .. } in part {
        let (session, is_first) = (ledger.session, ledger.last_seq == 0);
        let silent_since = ledger.newest.as_ref().map(|newest| newest.last_at);
        placed.exchanges.extend(add_recorded(ledger, record, entry)?);
        if is_first || ledger.session > session {
            let previous_end = silent_since.map(|since| (since, "idle"));
            placed.sessions.push(NewSession {
                first_exchange: ledger.last_exchange + i64::from(record.exchange == PREAMBLE),
                ..NewSession::empty(ledger, entry.at, previous_end)
            });
        }
    }
    Ok(placed)
}

fn close_session(placed: &mut RestoreRows, ledger: &mut Ledger, at: Timestamp) {
    placed.preamble.clone_from(&ledger.preamble);
    placed.exchanges.extend(ledger.newest.clone());
    placed.eviction = ledger.clear(at);
    let opened = NewSession::empty(ledger, at, Some((at, "clear")));
    placed.sessions.push(opened);
}

/// Returns an error if the head's boundary is at or before the last summarised exchange, or more than one after the last
/// exchange.
fn check_boundary(head: &Head, ledger: &Ledger) -> Option<JournalError> {
    let first_exchange = head.first_exchange;
    let fits =
        (ledger.summarized_through.max(0) + 1..=ledger.last_exchange.max(0) + 1).contains(&first_exchange);
    (!fits).then_some(JournalError::WrongBoundary { first_exchange })
}

async fn write_rows(
    tx: &mut Connection,
    agent: &AgentId,
    part: &[ReadRecord],
    placed: &RestoreRows,
    (ledger, chain): (&Ledger, &mut Chain),
) -> StoreResult<()> {
    for run in write::runs(part) {
        insert_messages(tx, agent, run, chain).await?;
    }
    for ReadRecord { record, .. } in part.iter().filter(|recorded| recorded.important) {
        let position = (record.seq, record.exchange, record.session);
        lineage::pins::note_important(tx, agent, position).await?;
    }
    let preamble: Vec<&Exchange> = placed.preamble.iter().chain(&ledger.preamble).collect();
    write::upsert_exchanges(tx, agent, "preamble", &preamble).await?;
    let exchanges: Vec<&Exchange> = placed.exchanges.iter().chain(&ledger.newest).collect();
    write::upsert_exchanges(tx, agent, "exchange", &exchanges).await?;
    write::open_sessions(tx, agent, &placed.sessions).await
}

/// Writes the ledger without a budget, because no append applied a budget to these messages. Only the head after them states the
/// boundary.
async fn write_state(
    tx: &mut Connection,
    request: &Restore,
    placed: &RestoreRows,
    (ledger, chain): (&Ledger, &Chain),
) -> StoreResult<()> {
    write::write_evictions(tx, &request.agent, placed.eviction.as_slice()).await?;
    let sql = sql!(
        "-- sql/archive.agent\nUPDATE agents SET updated_at = $2, last_seq = $3, last_exchange = $4, \
               newest_exchange = $5, session = $6, first_exchange = $7, tokens_before_window = $8, \
               preamble_exchange = $9, last_eviction = last_eviction + $10, budget_tokens = 0, max_messages = 0, \
               pending_since = CASE WHEN $11 THEN coalesce(pending_since, $2) END, chain = $12, chained_through = $13 \
               WHERE agent_id = $1"
    );
    query(sql)
        .bind(request.agent.as_str())
        .bind(request.now)
        .bind(ledger.last_seq)
        .bind(ledger.last_exchange)
        .bind(ledger.newest.as_ref().map(|newest| newest.exchange))
        .bind(ledger.session)
        .bind(ledger.first_exchange)
        .bind(ledger.tokens_before_window)
        .bind(ledger.preamble.as_ref().map(|preamble| preamble.exchange))
        .bind(i64::from(placed.eviction.is_some()))
        .bind(ledger.pending_numbers() > 0)
        .bind(chain.link.as_deref())
        .bind(chain.through)
        .execute(tx)
        .await?;
    Ok(())
}

async fn insert_messages(
    tx: &mut Connection,
    agent: &AgentId,
    run: &[ReadRecord],
    chain: &mut Chain,
) -> StoreResult<()> {
    let head = sql!(
        "-- sql/archive.messages\n{noting}INSERT INTO message_log (agent_id, seq, exchange, kind, speaker, format, payload, \
                tokens, count_method, client_id, said_at, received_at, forgotten_at, salt, seal)"
    );
    let rows = run.iter().map(|recorded| row(agent, recorded, chain));
    insert(head, rows.collect::<StoreResult<_>>()?, sql!("")).execute(tx).await?;
    Ok(())
}

fn row<'r>(
    agent: &'r AgentId,
    ReadRecord { record, speaker, .. }: &'r ReadRecord,
    chain: &mut Chain,
) -> StoreResult<Vec<Value<'r>>> {
    let sealed = seal_next(
        chain,
        &MessageRow {
            agent,
            seq: record.seq,
            exchange: record.exchange,
            kind: &record.kind,
            speaker: speaker.as_deref(),
            format: record.format.name(),
            payload: &record.payload,
            tokens: record.tokens,
            count_method: &record.count_method,
            client_id: record.client_id.as_deref(),
            said_at: record.said_at,
            received_at: record.received_at,
        },
    )?;
    let (salt, seal) = sealed.map(|sealed| (sealed.salt, sealed.seal)).unzip();
    Ok(vec![
        agent.as_str().into(),
        record.seq.into(),
        record.exchange.into(),
        record.kind.as_str().into(),
        speaker.as_deref().into(),
        record.format.name().into(),
        record.payload.as_str().into(),
        record.tokens.into(),
        record.count_method.as_str().into(),
        record.client_id.as_deref().into(),
        record.said_at.into(),
        record.received_at.into(),
        // A tombstone doesn't hold the time of the forgetting, so the time of its receipt is used.
        is_tombstone(&record.payload).then_some(record.received_at).into(),
        salt.into(),
        seal.into(),
    ])
}

/// Applies what the messages don't contain: ends of sessions, the boundary, the evictions and the marks.
async fn apply_head(
    tx: &mut Connection,
    head: &Head,
    ledger: &mut Ledger,
    now: Timestamp,
) -> Result<(), ArchiveError> {
    if let Some(error) = check_boundary(head, ledger) {
        return Err(error.into());
    }
    replace_sessions(tx, head).await?;
    replace_evictions(tx, head).await?;
    replace_marks(tx, head).await?;
    let cut = boundary(tx, head, ledger).await?;
    ledger.first_exchange = cut.exchange;
    ledger.tokens_before_window = cut.tokens_before;
    let session = head.sessions.last().map_or(ledger.session, |last| last.session);
    let sql = sql!(
        "-- sql/archive.seal\nUPDATE agents SET project_id = $2, settings = $3{::json}, created_at = $4, as_of = $5, \
               session = $6, first_exchange = $7, tokens_before_window = $8, budget_tokens = $9, \
               last_eviction = $10, pending_since = $11, max_messages = $12 WHERE agent_id = $1"
    );
    query(sql)
        .bind(head.agent_id.as_str())
        .bind(head.project.as_deref())
        .bind(head.settings.get())
        .bind(head.created_at)
        .bind(head.as_of)
        .bind(session)
        .bind(cut.exchange)
        .bind(cut.tokens_before)
        .bind(head.budget_tokens)
        .bind(inherited_evictions(head).saturating_add(i64_or_max(head.evictions.len())))
        .bind((ledger.pending_numbers() > 0).then_some(now))
        .bind(head.max_messages)
        .execute(tx)
        .await
        .map_err(StoreError::from)?;
    Ok(())
}

async fn wake(tx: &mut Connection, agent: &AgentId, now: Timestamp) -> StoreResult<()> {
    let wake = queue::Wake::at_once(Reason::Eviction, now);
    queue::enqueue(tx, agent, wake).await?;
    Ok(())
}

async fn replace_sessions(tx: &mut Connection, head: &Head) -> StoreResult<()> {
    query(sql!("-- sql/archive.forget_sessions\nDELETE FROM sessions WHERE agent_id = $1"))
        .bind(head.agent_id.as_str())
        .execute(&mut *tx)
        .await?;
    write_sessions(tx, &head.agent_id, &head.sessions).await
}

pub(crate) async fn write_sessions(
    tx: &mut Connection,
    agent: &AgentId,
    sessions: &[SessionRecord],
) -> StoreResult<()> {
    for record in sessions {
        session::open(tx, agent, record.session, record.first_exchange, record.opened_at).await?;
        if let (Some(ended_at), Some(reason)) = (record.ended_at, &record.end_reason) {
            session::end(tx, agent, record.session, ended_at, reason).await?;
        }
    }
    Ok(())
}

fn inherited_evictions(head: &Head) -> i64 {
    head.fork.as_ref().map_or(0, |fork| fork.last_eviction)
}

async fn replace_evictions(tx: &mut Connection, head: &Head) -> StoreResult<()> {
    query(sql!("-- sql/archive.forget_evictions\nDELETE FROM evictions WHERE agent_id = $1"))
        .bind(head.agent_id.as_str())
        .execute(&mut *tx)
        .await?;
    let sql = sql!(
        "-- sql/archive.eviction\nINSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, \
               tokens, evicted_at, digest, version) VALUES ($1, $2, $3, $4, $5, $6, $7, \
               (SELECT s.version FROM summaries s WHERE s.agent_id = $1))"
    );
    for (number, record) in (inherited_evictions(head) + 1..).zip(&head.evictions) {
        query(sql)
            .bind(head.agent_id.as_str())
            .bind(number)
            .bind(record.from_exchange)
            .bind(record.through_exchange)
            .bind(record.tokens)
            .bind(record.evicted_at)
            .bind(seal::of_eviction(&Eviction {
                from_exchange: record.from_exchange,
                through_exchange: record.through_exchange,
                tokens: record.tokens,
                at: record.evicted_at,
            }))
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

async fn replace_marks(tx: &mut Connection, head: &Head) -> StoreResult<()> {
    query(sql!("-- sql/archive.forget_marks\nDELETE FROM marks WHERE agent_id = $1"))
        .bind(head.agent_id.as_str())
        .execute(&mut *tx)
        .await?;
    write_marks(tx, &head.agent_id, &head.marks).await
}

pub(crate) async fn write_marks(
    tx: &mut Connection,
    agent: &AgentId,
    marks: &[MarkRecord],
) -> StoreResult<()> {
    let sql = sql!(
        "-- sql/archive.mark\nINSERT INTO marks (agent_id, mark, label, exchange, first_exchange, \
               tokens_before_window) VALUES ($1, $2, $3, $4, $5, $6)"
    );
    for record in marks {
        query(sql)
            .bind(agent.as_str())
            .bind(record.mark)
            .bind(record.label.as_deref())
            .bind(record.exchange)
            .bind(record.first_exchange)
            .bind(record.tokens_before_window)
            .execute(&mut *tx)
            .await?;
    }
    Ok(())
}

/// Returns the head's boundary with its running total, which is that of the first live exchange at or after the boundary. Without
/// such an exchange the window is empty, and the total is that of all exchanges.
async fn boundary(tx: &mut Connection, head: &Head, ledger: &Ledger) -> StoreResult<CutPoint> {
    let sql = sql!(
        "-- sql/archive.boundary\nSELECT min(tokens_before) FROM exchange_log WHERE agent_id = $1 \
               AND exchange >= $2 AND set_aside_at IS NULL AND role = 'exchange'"
    );
    let row = query(sql).bind(head.agent_id.as_str()).bind(head.first_exchange).fetch_one(tx).await?;
    let first_live: Option<i64> = row.try_get(0)?;
    Ok(CutPoint {
        exchange: head.first_exchange,
        tokens_before: first_live.unwrap_or_else(|| ledger.tokens_through()),
    })
}
