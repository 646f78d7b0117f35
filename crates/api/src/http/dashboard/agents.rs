//! Serves the pages about agents.

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Redirect, Response},
};

use super::{
    super::{
        App, SharedApp,
        edge::access::{CallerExtension, see},
        request::{
            extract::{Agent, AgentNumber, Parameters, agent_id, invalid},
            page,
        },
        response::problem::Problem,
        routes::{
            agents::{existing_agent, rows},
            context::ContextSource,
            recall::{ExchangePath, unknown_exchange},
            versions::existing_version,
        },
    },
    FramedPage, html_response,
};
use crate::{
    context::ContextQuery,
    dashboard::{
        AgentLine, AgentList, AgentScreen, Archive, COLUMN_EXCHANGES_MAX, Diff, ExchangePage, Search,
        VersionList, agent_screen, agents_page, archive_page, diff_page, exchange_page, landmark_positions,
        proxy_page, request_page, search_page, versions_page,
    },
    recall::{self, ArchiveQuestion},
};
use recapd_core::domain::{
    agent::AgentId,
    exchange::FIRST_EXCHANGE,
    legs::{Legs, settle},
    spend::SpendTotal,
};
use recapd_core::formats::outgoing::RequestFormat;
use recapd_platform::threads;
use recapd_store::{
    AgentRow, ExchangeQuery, MessageRange, MessageScope, StoreResult, StoredExchange, VersionQuery,
};

const MESSAGES_SHOWN: i64 = 100;
/// No further message is read once all payloads together have this many bytes.
const MESSAGES_BYTES_MAX: usize = 2_000_000;
const EXCHANGES_SHOWN: i64 = 200;

pub(super) async fn list(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["limit", "cursor"])?;
    let limit = page::limit(&parameters)?;
    let after = page::plain_cursor(&parameters)?;
    let found = rows(&app, &caller, after.as_ref(), limit + 1).await?;
    let (rows, next) = page::cut(found, limit, |row| row.agent.clone());
    let list = AgentList {
        lines: lines(&app, rows).await?,
        after,
        next,
        summary_tokens_max: app.settings.summary_tokens_max,
    };
    Ok(html_response(agents_page(&frame, &list)))
}

/// Adds to each agent what was spent on it today.
async fn lines(app: &App, rows: Vec<AgentRow>) -> StoreResult<Vec<AgentLine>> {
    let names: Vec<AgentId> = rows.iter().map(|row| row.agent.clone()).collect();
    let spent = app.parts.operator.spent_today(&names).await?;
    let line = |(row, spent): (AgentRow, SpendTotal)| AgentLine {
        spent,
        limits: app.settings.spend_agent.override_with(&row.settings),
        row,
    };
    Ok(rows.into_iter().zip(spent).map(line).collect())
}

/// Redirects to the page of the agent with this name.
pub(super) async fn find(
    State(app): State<SharedApp>,
    Extension(caller): CallerExtension,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["agent"])?;
    let agent = agent_id(parameters.text("agent").unwrap_or_default().trim())?;
    see(&app, &caller, &agent).await?;
    existing_agent(&app, &agent).await?;
    Ok(Redirect::to(&format!("/ui/agents/{agent}")).into_response())
}

/// Reads exchanges without their messages.
async fn exchanges(
    app: &App,
    agent: &AgentId,
    from: i64,
    through: i64,
    limit: i64,
) -> StoreResult<Vec<StoredExchange>> {
    if through < from {
        return Ok(Vec::new());
    }
    let query = ExchangeQuery { from, through, limit, bytes_max: 0 };
    app.parts.store.exchanges(agent, query).await
}

pub(super) async fn now(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let row = existing_agent(&app, &agent).await?;
    let (boundary, through) = (row.ledger.first_exchange, row.ledger.summarized_through);
    let positions = landmark_positions(row.ledger.tokens_through());
    let (from, limit) = (boundary.max(FIRST_EXCHANGE), COLUMN_EXCHANGES_MAX);
    let mut window = exchanges(&app, &agent, from, i64::MAX, limit).await?;
    settle(window.iter_mut().map(|stored| &mut stored.exchange), None);
    let screen = AgentScreen {
        landmarks: app.parts.store.landmarks(&agent, &positions).await?,
        window,
        pending: exchanges(&app, &agent, through + 1, boundary - 1, limit).await?,
        summary: app.parts.store.summary(&agent).await?,
        summary_tokens_max: app.settings.summary_tokens_max,
        queued: app.parts.operator.row(&agent).await?,
        circuits: app.parts.metrics.provider.circuits(),
        row,
    };
    Ok(html_response(agent_screen(&frame, &screen)))
}

/// Shows the request that the agent's next model call would send.
pub(super) async fn request(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["format"])?;
    let name = parameters.text("format").unwrap_or(RequestFormat::Anthropic.name());
    let format = RequestFormat::from_name(name).ok_or_else(|| {
        invalid("format", &format!("can't be `{name}`"), "choose one of the page's formats")
    })?;
    let query = ContextQuery {
        format,
        budget_tokens: None,
        alternation: None,
        summary_max_tokens: None,
        keeps_open_thinking: false,
    };
    let ContextSource { material, defaults, counter, share } = ContextSource::of(&app, &agent, None).await?;
    let page = move || (request_page(&frame, &material.build(query, defaults, counter.as_ref())), share);
    let (page, share) = threads::computed("building a context", page).await?;
    Ok(share.until_sent(html_response(page)).await)
}

pub(super) async fn archive(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["before"])?;
    let before = parameters.integer("before", 1..=i64::MAX)?;
    let row = existing_agent(&app, &agent).await?;
    let through = before.map_or(i64::MAX, |before| before - 1);
    let mut found = exchanges(&app, &agent, FIRST_EXCHANGE, through, EXCHANGES_SHOWN + 1).await?;
    let has_more = i64::try_from(found.len()).is_ok_and(|found| found > EXCHANGES_SHOWN);
    if has_more {
        found.remove(0);
    }
    let rows = match found.last().filter(|_| before.is_some()) {
        Some(last) => app.parts.store.legs(&agent, last.exchange.exchange).await?,
        None => Vec::new(),
    };
    settle(found.iter_mut().map(|stored| &mut stored.exchange), rows.last());
    let archive = Archive { row, exchanges: found, before, has_more };
    Ok(html_response(archive_page(&frame, &archive)))
}

pub(super) async fn exchange(
    State(app): State<SharedApp>,
    path: ExchangePath,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["after"])?;
    let ExchangePath { agent, exchange } = path;
    let range = MessageRange {
        after_seq: parameters.integer("after", 0..=i64::MAX)?.unwrap_or(0),
        messages_max: MESSAGES_SHOWN,
        bytes_max: MESSAGES_BYTES_MAX,
        is_current: false,
        scope: MessageScope::All,
    };
    existing_agent(&app, &agent).await?;
    let expanded = app.parts.store.expand(&agent, exchange, range).await?;
    let expanded = expanded.ok_or_else(|| unknown_exchange(&agent, exchange))?;
    let legs = Legs::of(&app.parts.store.legs(&agent, exchange).await?, exchange);
    let page = ExchangePage { agent, expanded, legs };
    Ok(html_response(exchange_page(&frame, &page)))
}

/// Shows one message verbatim, as plain text.
pub(super) async fn raw(
    State(app): State<SharedApp>,
    path: ExchangePath,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["after"])?;
    let ExchangePath { agent, exchange } = path;
    let range = MessageRange {
        after_seq: parameters.integer("after", 0..=i64::MAX)?.unwrap_or(0),
        messages_max: 1,
        bytes_max: MESSAGES_BYTES_MAX,
        is_current: false,
        scope: MessageScope::All,
    };
    existing_agent(&app, &agent).await?;
    let expanded = app.parts.store.expand(&agent, exchange, range).await?;
    let message = expanded.and_then(|expanded| expanded.messages.into_iter().next());
    let message = message.ok_or_else(|| unknown_exchange(&agent, exchange))?;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(([(CONTENT_TYPE, kind)], message.message.payload).into_response())
}

pub(super) async fn versions(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["cursor"])?;
    let limit = page::limit(&parameters)?;
    existing_agent(&app, &agent).await?;
    let query = VersionQuery { before: parameters.integer("cursor", 1..=i64::MAX)?, limit: limit + 1 };
    let found = app.parts.store.versions(&agent, query).await?;
    let (versions, next) = page::cut(found, limit, |figures| figures.version);
    let list = VersionList { agent, versions, next };
    Ok(html_response(versions_page(&frame, &list)))
}

pub(super) async fn version(
    State(app): State<SharedApp>,
    AgentNumber(agent, number): AgentNumber,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    let row = existing_agent(&app, &agent).await?;
    let diff = Diff {
        before: None,
        after: existing_version(app.parts.store.as_ref(), &agent, number).await?,
        current: row.version,
        summarized_through: row.ledger.summarized_through,
        agent,
    };
    Ok(html_response(diff_page(&frame, &diff)))
}

/// Shows what changed between two versions. The earlier version comes first, even if the URL names it last.
pub(super) async fn diff(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["from", "to"])?;
    let number = |name| {
        let number = parameters.integer(name, 1..=i64::MAX)?;
        number.ok_or_else(|| invalid(name, "is missing", "choose a version"))
    };
    let (first, second) = (number("from")?, number("to")?);
    let row = existing_agent(&app, &agent).await?;
    let store = app.parts.store.as_ref();
    let diff = Diff {
        before: Some(existing_version(store, &agent, first.min(second)).await?),
        after: existing_version(store, &agent, first.max(second)).await?,
        current: row.version,
        summarized_through: row.ledger.summarized_through,
        agent,
    };
    Ok(html_response(diff_page(&frame, &diff)))
}

/// Shows what the proxy did for the agent.
pub(super) async fn proxy(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    Parameters::read(&uri, &[])?;
    existing_agent(&app, &agent).await?;
    let totals = app.parts.operator.proxy_totals(&agent).await?;
    Ok(html_response(proxy_page(&frame, &agent, &totals)))
}

pub(super) async fn search(
    State(app): State<SharedApp>,
    Agent(agent): Agent,
    uri: Uri,
    FramedPage(frame): FramedPage,
) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["q"])?;
    existing_agent(&app, &agent).await?;
    let query = parameters.text("q").unwrap_or_default().trim().to_owned();
    let outcome = if query.is_empty() {
        None
    } else {
        let parameter = |name: &str| (name == "q").then_some(query.as_str());
        match ArchiveQuestion::read(parameter, app.parts.clock.now()) {
            Ok(question) => {
                let redactor = app.parts.snapshots.redactor();
                let store = app.parts.store.as_ref();
                let embedder = app.parts.embedder.as_deref();
                recall::search(store, &agent, &question, redactor, embedder).await?.map(Ok)
            }
            Err(error) => Some(Err(error.cure)),
        }
    };
    let search = Search { agent, query, outcome };
    Ok(html_response(search_page(&frame, &search)))
}
