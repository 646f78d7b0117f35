//! `GET /v1/events`, `GET /v1/agents/{id}/events`: changes as they happen (server-sent events).
//!
//! ```text
//! notices ──► due agents ──► read state: visible? ──► difference ([`state`]) ──► events
//! ```
//!
//! A notice only names an agent. Several notices cause one read of its state. A missed notice does no harm: the next
//! read finds the change. A subscription stores no events, only the last state that it reported of each agent. It reads
//! the state of the next agent only after the client has received all earlier events.

mod state;
mod watch;

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension,
    extract::{FromRequestParts, State as Shared},
    http::{HeaderMap, HeaderName, HeaderValue, Uri, header::CACHE_CONTROL, request::Parts},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures::stream;
use serde_json::json;
use tokio::{
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until},
};

use self::{
    state::{EventState, NamedEvent, Position, events_between, first_event},
    watch::{MissedChanges, Watch},
};
use super::agents::existing_agent;
use crate::{
    access::{
        Caller,
        quota::{Holder, Lack, QuotaShare},
        session::SessionKey,
    },
    http::{
        SharedApp,
        edge::access::{self, CallerExtension},
        openapi::{answers, parameters::AgentPath},
        request::extract::{Agent, Parameters},
        response::problem::{Problem, TOO_MANY_SUBSCRIBERS},
    },
};
use recapd_core::domain::agent::AgentId;
use recapd_platform::notice::Change;
use recapd_store::StoreResult;
use recapd_telemetry::metrics::SubscriberGuard;

/// At this interval a stream checks the token and reads its agent's state again, because other daemons don't announce
/// every change.
const TICK: Duration = Duration::from_secs(2);
/// A comment keeps the connection open after each of this many ticks: every 14 s.
const TICKS_PER_BEAT: u32 = 7;
/// The event that tells a page that something changed. The page then fetches the differences.
const CHANGED: &str = "changed";
/// The event that tells a page, at each tick, that the daemon still runs.
const BEAT: &str = "beat";
/// A client waits this long before it reconnects.
const RETRY: Duration = Duration::from_secs(3);
/// A stream waits this long to merge further changes into one read of the state.
const GATHER: Duration = Duration::from_millis(200);
/// A subscription to all agents remembers at most this many states. Then it forgets them all, and each agent's next
/// event is `agent.changed`.
const KNOWN_MAX: usize = 10_000;
/// The longest subscription that can be requested: a day.
const FOR_SECONDS_MAX: u64 = 86_400;

const LAST_EVENT_ID: &str = "last-event-id";
/// Makes nginx pass each event on at once.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Streams the events of an agent.
///
/// The stream begins with `agent.changed`. With `Last-Event-ID` it begins with all changes after that id. Then it sends
/// changes as they happen: `turn.appended`, `window.evicted`, `window.returned`, `summary.updated`, `update.failed`,
/// `queue.changed`, and at the end `agent.deleted`. The data of each event is JSON. Several changes of a kind may be
/// sent as one event. Every 14 seconds, a comment line keeps the connection open.
#[utoipa::path(
    get, path = "/v1/agents/{id}/events", operation_id = "watch_agent", tag = "events",
    params(AgentPath,
        ("for" = Option<String>, Query, pattern = "^[0-9]{1,5}s?$", example = "60s", description = "Ends the stream after this many seconds, at most 86,400."),
        ("last-event-id" = Option<String>, Header, description = "The `id` of the last event received.")),
    responses((status = 200, description = "The events, until the client disconnects or the daemon stops.", content((String = "text/event-stream"))),
        answers::OfAgent),
)]
pub(crate) async fn of_agent(
    Shared(app): Shared<SharedApp>,
    subscriber: Subscriber,
    Agent(agent): Agent,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Problem> {
    let ends_at = ends_at(&uri)?;
    // Subscribes before the first read, so that no change in between is missed.
    let changes = app.parts.operator.moves();
    existing_agent(&app, &agent).await?;
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let last_reported = last.map(|position: Position| (agent.clone(), position));
    let subscription = Subscription {
        last_reported: last_reported.into_iter().collect(),
        watch: Watch::one(agent),
        ..Subscription::new(app, subscriber, changes, ends_at)?
    };
    Ok(subscription.into_response())
}

/// Streams the events of all agents that the caller may see.
///
/// Sends the events of `/v1/agents/{id}/events` for all agents, without ids. The first event of each agent is
/// `agent.changed`. If another daemon appends or claims, this stream shows it only with the next eviction or version. A
/// client that reads too slowly gets `lagged`, and the stream ends.
#[utoipa::path(
    get, path = "/v1/events", operation_id = "watch_all", tag = "events",
    params(("for" = Option<String>, Query, pattern = "^[0-9]{1,5}s?$", example = "60s", description = "Ends the stream after this many seconds, at most 86,400.")),
    responses((status = 200, description = "The events, until the client disconnects or the daemon stops.", content((String = "text/event-stream"))),
        answers::Always),
)]
pub(crate) async fn of_all(
    Shared(app): Shared<SharedApp>,
    subscriber: Subscriber,
    uri: Uri,
) -> Result<Response, Problem> {
    let ends_at = ends_at(&uri)?;
    let changes = app.parts.operator.moves();
    Ok(Subscription::new(app, subscriber, changes, ends_at)?.into_response())
}

fn ends_at(uri: &Uri) -> Result<Option<Instant>, Problem> {
    let parameters = Parameters::read(uri, &["for"])?;
    let seconds = parameters.seconds("for", FOR_SECONDS_MAX)?;
    Ok(seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)))
}

/// Who asks for events.
pub(crate) struct Subscriber {
    caller: Arc<Caller>,
    /// The session of a signed-in browser.
    session: Option<SessionKey>,
    holder: Holder,
    is_page: bool,
}

impl FromRequestParts<SharedApp> for Subscriber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let asking = CallerExtension::from_request_parts(parts, app).await;
        let Extension(caller) = asking.map_err(|_| Problem::internal())?;
        Ok(Self {
            caller,
            session: parts.extensions.get().cloned(),
            holder: access::holder(&parts.extensions),
            is_page: access::is_page(&parts.uri),
        })
    }
}

struct Subscription {
    app: SharedApp,
    caller: Arc<Caller>,
    /// The session of a signed-in browser.
    session: Option<SessionKey>,
    /// True for a page of the dashboard. A page only needs to know that something changed.
    is_page: bool,
    changes: Receiver<Change>,
    watch: Watch,
    /// The last reported state of each agent.
    last_reported: HashMap<AgentId, Position>,
    /// Events to send before another state is read.
    ready: VecDeque<Event>,
    ticks: Interval,
    ticks_since_beat: u32,
    ends_at: Option<Instant>,
    is_over: bool,
    _slot: QuotaShare,
    _counted: SubscriberGuard,
}

impl Subscription {
    fn new(
        app: SharedApp,
        subscriber: Subscriber,
        changes: Receiver<Change>,
        ends_at: Option<Instant>,
    ) -> Result<Self, Problem> {
        let Subscriber { caller, session, holder, is_page } = subscriber;
        let slot = app.subscribers.take(&holder, 1);
        let slot = slot.map_err(|lack| too_many(lack, app.settings.subscribers_max))?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            _counted: app.parts.metrics.service.subscribed(),
            app,
            caller,
            session,
            is_page,
            changes,
            watch: Watch::default(),
            last_reported: HashMap::new(),
            ready: VecDeque::from([Event::default().retry(RETRY).comment("recapd")]),
            ticks,
            ticks_since_beat: 0,
            ends_at,
            is_over: false,
            _slot: slot,
        })
    }

    fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut subscription| async move {
            let event = subscription.next().await?;
            Some((Ok::<_, Infallible>(event), subscription))
        });
        let mut response = Sse::new(events).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
        response
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            match self.watch.next() {
                Some(agent) => self.check(agent).await,
                None => self.wait().await,
            }
        }
    }

    /// Waits until there is a state to read or an event to send, or until the subscription ends.
    async fn wait(&mut self) {
        let stop = self.app.parts.stop.clone();
        let ends_at = self.ends_at;
        tokio::select! {
            () = stop.cancelled() => self.is_over = true,
            () = wait_until(ends_at) => self.is_over = true,
            change = self.changes.recv() => self.gather(change).await,
            _ = self.ticks.tick() => self.tick(),
        }
    }

    /// Takes a change, and the changes that follow shortly after it.
    async fn gather(&mut self, first: Result<Change, RecvError>) {
        match first {
            Ok(change) => self.note(Some(change)),
            Err(RecvError::Lagged(_)) => self.note(None),
            Err(RecvError::Closed) => self.is_over = true,
        }
        if self.is_page || self.watch.is_of_all() {
            sleep(GATHER).await;
        }
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.note(Some(change)),
                Err(TryRecvError::Lagged(_)) => self.note(None),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Records a change; `None` if changes were missed.
    fn note(&mut self, change: Option<Change>) {
        if let Err(MissedChanges) = self.watch.note(change) {
            self.ready.clear();
            self.ready.push_back(sse_event(&("lagged", json!({}))));
            self.is_over = true;
        }
    }

    fn tick(&mut self) {
        let access = &self.app.parts.access;
        if !access.is_still_valid(&self.caller, self.session.as_ref()) {
            self.is_over = true;
            return;
        }
        self.watch.recheck_all();
        if self.is_page {
            // The event has data, because browsers drop events without.
            self.ready.push_back(sse_event(&(BEAT, json!(null))));
            return;
        }
        self.ticks_since_beat += 1;
        if self.ticks_since_beat == TICKS_PER_BEAT {
            self.ticks_since_beat = 0;
            self.ready.push_back(Event::default().comment(""));
        }
    }

    async fn check(&mut self, agent: AgentId) {
        match self.read_state(&agent).await {
            Ok(AgentLookup::State(state)) => self.queue_events(agent, &state),
            Ok(AgentLookup::Hidden) => self.is_over |= !self.watch.is_of_all(),
            Ok(AgentLookup::Gone) => {
                let was_reported = self.last_reported.remove(&agent).is_some();
                if was_reported || !self.watch.is_of_all() {
                    self.ready.push_back(sse_event(&("agent.deleted", json!({ "agent_id": agent }))));
                }
                self.is_over |= !self.watch.is_of_all();
            }
            // The database doesn't answer: reads the state again later.
            Err(_) => self.watch.retry(agent),
        }
    }

    async fn read_state(&self, agent: &AgentId) -> StoreResult<AgentLookup> {
        let parts = &self.app.parts;
        if !parts.access.may_see(&self.caller, agent).await? {
            return Ok(AgentLookup::Hidden);
        }
        let Some(row) = parts.store.agent(agent).await? else {
            return Ok(AgentLookup::Gone);
        };
        let queue = parts.operator.row(agent).await?;
        Ok(AgentLookup::State(Box::new(EventState::new(row, queue))))
    }

    fn queue_events(&mut self, agent: AgentId, state: &EventState) {
        let events = match self.last_reported.get(&agent) {
            Some(last) => events_between(last, state),
            None => vec![first_event(state)],
        };
        let position = state.position();
        let events = if self.is_page {
            events.into_iter().take(1).map(|_| (CHANGED, json!(null))).collect()
        } else {
            events
        };
        // The last event carries the id for events of them.
        let last = events.len().saturating_sub(1);
        for (number, event) in events.iter().enumerate() {
            let event = sse_event(event);
            let is_last = number == last && !self.watch.is_of_all();
            self.ready.push_back(if is_last { event.id(position.to_string()) } else { event });
        }
        if self.last_reported.len() >= KNOWN_MAX && !self.last_reported.contains_key(&agent) {
            self.last_reported.clear();
        }
        self.last_reported.insert(agent, position);
    }
}

enum AgentLookup {
    State(Box<EventState>),
    /// The caller may not see the agent.
    Hidden,
    /// The agent doesn't exist, or no longer exists.
    Gone,
}

fn sse_event((name, data): &NamedEvent) -> Event {
    Event::default().event(name).data(data.to_string())
}

fn too_many(lack: Lack, subscribers_max: usize) -> Problem {
    let detail = match lack {
        Lack::All => format!("all {subscribers_max} event streams are in use"),
        Lack::Share => {
            format!(
                "this token (or address) already holds half of the {subscribers_max} event streams, which is its limit"
            )
        }
    };
    Problem::new(TOO_MANY_SUBSCRIBERS, detail)
        .hint("close event streams that you don't need, or raise http.subscribers_max")
}

/// Waits until `time`; without a time, forever.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
