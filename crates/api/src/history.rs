//! Reads histories, for the command line and for HTTP.

use recapd_core::domain::{
    agent::AgentId,
    convergence::Rules,
    exchange::Exchange,
    history::{HistoryExchange, HistoryLine, HistorySummary, HistoryView},
    legs::settle,
    number::i64_or_max,
    redaction::Redactor,
    text::{cut, first_line, one_line},
    time::Timestamp,
    transcript::{Line, Transcript, TranscriptLimits, Voice},
    window::Budget,
};
use recapd_engine::ingest::convergence;
use recapd_store::{
    AgentRow, ExchangeQuery, Store, StoreError, StoreResult, StoredExchange,
    page::{PAGE_BYTES_MAX, PagedExchange, page},
};

/// How many exchanges of the window are shown by default.
pub const WINDOW_SHOWN: i64 = 20;
/// Limits how many exchanges of the window can be shown.
pub const WINDOW_SHOWN_MAX: i64 = 1_000;
/// How many archived exchanges are shown by default.
pub const ARCHIVE_SHOWN: i64 = 10;
/// Limits how many archived exchanges can be shown.
pub const ARCHIVE_SHOWN_MAX: i64 = 10_000;
/// Limits the line that shows a message, in characters.
const LINE_CHARS_MAX: usize = 160;
/// Limits the lines of one exchange. A longer exchange shows its first and last lines, and how many lie between.
const LINES_MAX: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryQuery {
    /// Shows this many archived exchanges, the newest.
    pub archived: i64,
    /// Shows this many exchanges of the window, the newest.
    pub window: i64,
    /// Shows only this exchange, with all its lines.
    pub only: Option<i64>,
    /// Shows a line for each message in the window. If an exchange is too big for a page, shows its first messages.
    pub lines: bool,
    /// Shows the tokens of each message. Also shows tool results, which have most of the tokens.
    pub tokens: bool,
    /// The summary's ceiling, shown beside the summary's size.
    pub summary_tokens_max: i64,
    /// How speakers are compared, if the conversation has several.
    pub convergence: Rules,
}

impl HistoryQuery {
    /// Asks for everything, within the limits.
    #[must_use]
    pub fn all(self) -> Self {
        Self { archived: ARCHIVE_SHOWN_MAX, window: WINDOW_SHOWN_MAX, ..self }
    }
}

impl Default for HistoryQuery {
    fn default() -> Self {
        Self {
            archived: ARCHIVE_SHOWN,
            window: WINDOW_SHOWN,
            only: None,
            lines: true,
            tokens: false,
            summary_tokens_max: 10_000,
            convergence: Rules::default(),
        }
    }
}

/// Reads the history of `agent`, with secrets redacted by `redactor`; `None` if there is no such agent.
///
/// # Errors
/// [`StoreError::UnknownExchange`] if `query.only` names an exchange that doesn't exist, and the store's errors.
pub async fn load(
    store: &dyn Store,
    agent: &AgentId,
    query: HistoryQuery,
    now: Timestamp,
    redactor: &Redactor,
) -> StoreResult<Option<HistoryView>> {
    let Some(row) = store.agent(agent).await? else {
        return Ok(None);
    };
    let boundary = row.ledger.first_exchange;
    let exchanges = exchanges(store, agent, boundary, query, redactor).await?;
    let archived_total = store.count_exchanges(agent, 1, boundary - 1).await?;
    let window_total = store.count_exchanges(agent, boundary, i64::MAX).await?;
    let newest = row.ledger.newest.as_ref();
    let has_speakers = newest.is_some_and(|newest| !newest.headline.speakers.is_empty());
    let convergence = if has_speakers { convergence(store, agent, &query.convergence).await? } else { None };
    let view = view(&row, exchanges, (archived_total, window_total), query, now);
    Ok(Some(HistoryView { convergence, ..view }))
}

/// Reads the exchanges that `query` asks for, oldest first.
async fn exchanges(
    store: &dyn Store,
    agent: &AgentId,
    boundary: i64,
    query: HistoryQuery,
    redactor: &Redactor,
) -> StoreResult<Vec<HistoryExchange>> {
    if let Some(number) = query.only {
        let one_exchange =
            ExchangeQuery { from: number, through: number, limit: 1, bytes_max: PAGE_BYTES_MAX };
        let mut found = read_pages(store, agent, one_exchange, query, redactor).await?;
        let rows = store.legs(agent, number).await?;
        settle(found.iter_mut().map(|exchange| &mut exchange.exchange), rows.last());
        return if found.is_empty() { Err(StoreError::UnknownExchange(number)) } else { Ok(found) };
    }
    let window = ExchangeQuery {
        from: boundary,
        through: i64::MAX,
        limit: query.window.min(WINDOW_SHOWN_MAX),
        bytes_max: if query.lines { PAGE_BYTES_MAX } else { 0 },
    };
    let archive = ExchangeQuery {
        from: 1,
        through: boundary - 1,
        limit: query.archived.min(ARCHIVE_SHOWN_MAX),
        bytes_max: 0,
    };
    let mut exchanges = read_pages(store, agent, archive, query, redactor).await?;
    exchanges.extend(read_pages(store, agent, window, query, redactor).await?);
    settle(exchanges.iter_mut().map(|exchange| &mut exchange.exchange), None);
    Ok(exchanges)
}

/// Reads `wanted` page by page, newest first. Holds the messages of only one page at a time, because little of each is
/// shown.
async fn read_pages(
    store: &dyn Store,
    agent: &AgentId,
    mut exchange_query: ExchangeQuery,
    query: HistoryQuery,
    redactor: &Redactor,
) -> StoreResult<Vec<HistoryExchange>> {
    let mut pages: Vec<Vec<HistoryExchange>> = Vec::new();
    while exchange_query.limit > 0 && exchange_query.from <= exchange_query.through {
        let page = page(store, agent, exchange_query).await?;
        let Some(oldest) = page.first() else { break };
        exchange_query.through = oldest.stored.exchange.exchange - 1;
        exchange_query.limit -= i64_or_max(page.len());
        let page = page.into_iter().map(|paged| history_exchange(agent, paged, query, redactor));
        pages.push(page.collect());
    }
    Ok(pages.into_iter().rev().flatten().collect())
}

fn view(
    row: &AgentRow,
    exchanges: Vec<HistoryExchange>,
    (archived_total, window_total): (i64, i64),
    query: HistoryQuery,
    now: Timestamp,
) -> HistoryView {
    let ledger = &row.ledger;
    HistoryView {
        agent: row.agent.clone(),
        budget: Budget::new(row.budget_tokens, 1.0),
        summary: (row.version > 0).then_some(HistorySummary {
            version: row.version,
            tokens: row.summary_tokens,
            max_tokens: query.summary_tokens_max,
        }),
        first_exchange: ledger.first_exchange,
        summarized_through: ledger.summarized_through,
        window_tokens: ledger.window_tokens(),
        archived_total,
        window_total,
        exchanges,
        convergence: None,
        now: row.as_of.unwrap_or(now),
    }
}

fn history_exchange(
    agent: &AgentId,
    paged: PagedExchange,
    query: HistoryQuery,
    redactor: &Redactor,
) -> HistoryExchange {
    let stored = paged.stored;
    let lines = lines(&stored, query.tokens, redactor);
    let mut lines = if query.only.is_none() { fold(lines) } else { lines };
    let number = stored.exchange.exchange;
    lines.extend(paged.next_after.map(|after| HistoryLine {
        voice: Voice::Call,
        text: format!("… more: GET /v1/agents/{agent}/exchanges/{number}?after={after}"),
        tokens: None,
    }));
    HistoryExchange {
        exchange: Exchange {
            // Redacted again with today's rules: when the headline was stored, the rules may have been older.
            headline: stored.exchange.headline.redacted(redactor),
            ..stored.exchange
        },
        evicted_at: stored.evicted_at,
        summary_version: stored.summary_version,
        lines,
    }
}

/// Returns the lines of an exchange. Leaves out tool results, because the calls say what the results are about. With
/// `has_tokens`, shows tool results, too, and each message's tokens at its first line.
fn lines(stored: &StoredExchange, has_tokens: bool, redactor: &Redactor) -> Vec<HistoryLine> {
    let limits = TranscriptLimits { said_chars_max: 4 * LINE_CHARS_MAX, tool_chars_max: 4 * LINE_CHARS_MAX };
    // Text that a program adds to the user's request is left out, too, unless the exchange has no title.
    let has_title = !stored.exchange.headline.title.is_empty();
    let is_shown = |voice| match voice {
        Voice::Result | Voice::FailedResult => has_tokens,
        Voice::Program => has_tokens || !has_title,
        Voice::User | Voice::Assistant | Voice::Call => true,
    };
    let mut lines = Vec::new();
    for stored_message in &stored.messages {
        let message = std::slice::from_ref(&stored_message.message);
        let transcript = Transcript::new(&stored.exchange, message, limits, redactor);
        let shown_lines = transcript.lines.iter().filter(|line| is_shown(line.voice));
        let mut tokens = has_tokens.then_some(stored_message.tokens);
        lines.extend(shown_lines.map(|line| HistoryLine {
            voice: line.voice,
            text: shorten(line),
            tokens: tokens.take(),
        }));
    }
    lines
}

fn shorten(line: &Line) -> String {
    match line.voice {
        Voice::Call => cut(&format!("{} {}", line.label, one_line(&line.text)), LINE_CHARS_MAX),
        _ => first_line(&line.text, LINE_CHARS_MAX),
    }
}

/// Keeps the first and the last lines if there are more than [`LINES_MAX`].
fn fold(mut lines: Vec<HistoryLine>) -> Vec<HistoryLine> {
    if lines.len() <= LINES_MAX {
        return lines;
    }
    let tail = lines.split_off(lines.len() - LINES_MAX / 2);
    let left_out = lines.len() - LINES_MAX / 2;
    lines.truncate(LINES_MAX / 2);
    lines.push(HistoryLine { voice: Voice::Call, text: format!("… {left_out} more"), tokens: None });
    lines.extend(tail);
    lines
}
