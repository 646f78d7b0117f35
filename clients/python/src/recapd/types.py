"""Answers and bodies, generated from the OpenAPI document by scripts/generate-clients."""

from __future__ import annotations

from typing import TypedDict, Any, Literal, NotRequired, TypeAlias



class AgeBody(TypedDict):
    """
    The body of a request to age summaries.
    """

    dry_run: NotRequired[bool]


AgentId: TypeAlias = str


class AgentPause(TypedDict):
    """
    Whether an operator has paused an agent's updates.
    """

    agent_id: AgentId
    paused: bool


Alternation: TypeAlias = Literal['ack', 'merge', 'keep']


AuditKind: TypeAlias = Literal['append', 'change', 'refusal', 'sign_in']


class CalibrationFigures(TypedDict):
    """
    Figures of a calibration.
    """

    average_permille: int
    guard_permille: int
    model: str
    provider: str
    samples: int


class CompactReply(TypedDict):
    """
    A text that replaces a conversation.
    """

    agent_id: AgentId
    first_exchange: int
    first_kept: NotRequired[int | None]
    summary_version: int
    text: str
    tokens: int
    unquoted: int


class ConvergenceComponents(TypedDict):
    """
    How alike two speakers are in five ways, each from 0 to 1. As weights: how much each way counts in the score.
    """

    content: float
    length: float
    punctuation: float
    sentences: float
    structure: float


ConvergenceState: TypeAlias = Literal['ok', 'warn', 'stop']


ConvergenceTrend: TypeAlias = Literal['insufficient_data', 'increasing', 'decreasing', 'stable', 'fluctuating']


ConversationMode: TypeAlias = Literal['talk', 'choose-names', 'meditation']


class ConversationReply(TypedDict):
    """
    The result of storing a conversation.
    """

    accepted: int
    agent_id: AgentId
    compacted: bool
    rewound: bool


Cursor: TypeAlias = str


class Deletion(TypedDict):
    """
    The reply to the deletion of an agent.
    """

    agent_id: AgentId
    journal_removed: bool
    messages: int
    scrubbed: bool


class Elision(TypedDict):
    """
    What was left out of a tool result.
    """

    chars: int
    exchange: int
    seq: NotRequired[int | None]


class EmptyBody(TypedDict):
    """
    The body of a request without parameters.
    """


ExchangePlace: TypeAlias = Literal['preamble', 'window', 'pending', 'covered', 'set_aside']


class ExchangeRange(TypedDict):
    """
    The exchanges `first` to `last`, both included.
    """

    first: int
    last: int


ExchangeState: TypeAlias = Literal['open', 'closed', 'interrupted']


class FactChange(TypedDict):
    """
    A change of a fact. At least one field is needed; `closed` must be the only one.
    """

    closed: NotRequired[bool]
    pinned: NotRequired[bool]
    text: NotRequired[str]


FactKind: TypeAlias = Literal['goal', 'demand', 'decision', 'state', 'open', 'dead_end', 'person']


class ForgetBody(TypedDict):
    """
    The body of a request to forget exchanges or one message.
    """

    exchanges: NotRequired[list[int] | None]
    message: NotRequired[int | None]


class ForkBody(TypedDict):
    """
    The body of a request to fork.
    """

    child: AgentId


class ForkOutcome(TypedDict):
    """
    The reply to a fork.
    """

    agent_id: AgentId
    exchanges: int
    fork_exchange: NotRequired[int | None]
    items: int
    parent_agent_id: AgentId


class HistoryBoundary(TypedDict):
    after_exchange: NotRequired[int | None]
    first_exchange: int
    tokens_visible: int


class HistoryLine(TypedDict):
    text: str
    tokens: NotRequired[int | None]
    voice: str


class HistorySummary(TypedDict):
    """
    The key figures of the newest summary.
    """

    max_tokens: int
    tokens: int
    version: int


class HistoryWindow(TypedDict):
    fill_ratio: NotRequired[float | None]
    tokens: int


Importance: TypeAlias = Literal['trivial', 'debugging', 'fix', 'feature', 'constraint', 'decision']


class ItemChange(TypedDict):
    """
    A change of an item. At least one of these fields is needed.
    """

    brief: NotRequired[str]
    gist: NotRequired[str]
    importance: NotRequired[Importance]
    pinned: NotRequired[bool]
    text: NotRequired[str]


ItemOrigin: TypeAlias = Literal['model', 'offline', 'digest', 'edited']


class Legs(TypedDict):
    """
    The legs of an exchange, as seen from the requested one.
    """

    count: int
    first: int
    last: int
    next: NotRequired[int | None]
    previous: NotRequired[int | None]


class LegsLeft(TypedDict):
    """
    Legs of an exchange that remain after others were forgotten.
    """

    exchange: int
    legs: list[int]


class MarkBody(TypedDict):
    """
    The body of a request to set a mark.
    """

    label: NotRequired[str | None]


class Message(TypedDict):
    """
    A message in recapd's own format or a provider's. At least one of `kind`, `role` and `type` says what it is. recapd
    stores it verbatim, with all of its fields.
    """

    content: NotRequired[Any]
    id: NotRequired[str | None]
    kind: NotRequired[str | None]
    role: NotRequired[str | None]


class MessageBatch(TypedDict):
    """
    A batch of messages, with the provider's usage report.
    """

    messages: list[Message]
    usage: NotRequired[Any]


MessageFormat: TypeAlias = Literal['native', 'openai', 'openai-responses', 'anthropic', 'gemini', 'claude-code', 'codex', 'pidgin', 'aider']


Messages: TypeAlias = list[Message] | MessageBatch | Message


class Moved(TypedDict):
    from_exchange: int
    through_exchange: int
    tokens: int


class NewFact(TypedDict):
    """
    A fact to add.
    """

    kind: FactKind
    text: str


class NewestExchange(TypedDict):
    """
    The newest exchange of an agent, or its newest leg.
    """

    continues: NotRequired[int | None]
    exchange: int
    state: ExchangeState


class NoteBody(TypedDict):
    """
    The body of a request to write a note.
    """

    append: NotRequired[bool]
    replaces: NotRequired[int | None]
    text: str


NoteName: TypeAlias = str


OnOverflow: TypeAlias = Literal['evict', 'refuse', 'end']


class PinBody(TypedDict):
    """
    The body of a request to pin or unpin.
    """

    seq: int


class Pinned(TypedDict):
    """
    The result of a pin or an unpin.
    """

    first_exchange: int
    pinned: bool
    seq: int


Preset: TypeAlias = Literal['none', 'request-limit', 'long-memory', 'dialogue', 'chat']


class ProblemFinding1(TypedDict):
    """
    A JSON pointer into the body (RFC 6901).
    """

    pointer: str


class ProblemFinding2(TypedDict):
    """
    A line of the body; the first is 1.
    """

    line: int


class ProblemFinding3(TypedDict):
    """
    A query parameter.
    """

    parameter: str


class ProblemFinding4(TypedDict):
    """
    One thing that is wrong with a request.
    """

    detail: str


class ProblemFinding5(ProblemFinding1, ProblemFinding4):
    """
    One thing that is wrong with a request.
    """


class ProblemFinding6(ProblemFinding2, ProblemFinding4):
    """
    One thing that is wrong with a request.
    """


class ProblemFinding7(ProblemFinding3, ProblemFinding4):
    """
    One thing that is wrong with a request.
    """


ProblemFinding: TypeAlias = ProblemFinding5 | ProblemFinding6 | ProblemFinding7
"""
One thing that is wrong with a request.
"""


class ProblemPlace1(TypedDict):
    """
    A JSON pointer into the body (RFC 6901).
    """

    pointer: str


class ProblemPlace2(TypedDict):
    """
    A line of the body; the first is 1.
    """

    line: int


class ProblemPlace3(TypedDict):
    """
    A query parameter.
    """

    parameter: str


ProblemPlace: TypeAlias = ProblemPlace1 | ProblemPlace2 | ProblemPlace3


ProjectId: TypeAlias = str


class ProxyTraffic(TypedDict):
    """
    What the proxy did for an agent.
    """

    answer_bytes: NotRequired[int]
    answering_ms: NotRequired[int]
    compactions_answered: NotRequired[int]
    compactions_forwarded: NotRequired[int]
    failed_open: NotRequired[int]
    request_bytes: NotRequired[int]
    requests: NotRequired[int]
    saved_input_tokens: NotRequired[int]
    unstored: NotRequired[int]
    window_steps: NotRequired[int]


QueueState: TypeAlias = Literal['ready', 'running', 'scheduled', 'paused', 'parked']


QueueWait: TypeAlias = Literal['batching', 'provider', 'backoff', 'batch', 'limit', 'operator']


class ReplacementReply(TypedDict):
    """
    What replaces the evicted part of a conversation.
    """

    agent_id: AgentId
    anchor: NotRequired[str | None]
    first_exchange: int
    hash: str
    summary_version: int
    tag: str
    text: NotRequired[str | None]
    units: int


RequestFormat: TypeAlias = Literal['anthropic', 'openai', 'openai-responses', 'gemini']


class RevisionOutcome(TypedDict):
    """
    The reply to a rollback or a rebuild, over HTTP and on the command line.
    """

    agent_id: AgentId
    covers_through: int
    items_edited_removed: int
    items_removed: int
    items_restored: int
    uncovered_exchanges: int
    version: int


class RewindBody(TypedDict):
    """
    The body of a request to rewind.
    """

    to: NotRequired[str | None]


class RollbackBody(TypedDict):
    """
    The body of a request to roll back.
    """

    version: int


RunOutcome: TypeAlias = Literal['completed', 'failed', 'superseded', 'postponed']


class SessionEnded(TypedDict):
    """
    The result of ending a session.
    """

    queued: bool
    session: int


SettingSource: TypeAlias = Literal['agent', 'preset', 'configuration']


class ShownPin(TypedDict):
    """
    A message that stays in view.
    """

    exchange: int
    in_window: bool
    kind: str
    pinned: bool
    seq: int
    title: str
    tokens: int


SpendLimit: TypeAlias = Literal['calls', 'tokens', 'usd', 'agent_calls', 'agent_tokens', 'agent_usd', 'price']


class SpendLimits(TypedDict):
    """
    Daily spending limits; 0 means no limit.
    """

    calls: int
    cost_microusd: int
    tokens: int


class SpendTotal(TypedDict):
    """
    What was spent.
    """

    calls: int
    cost_microusd: int
    tokens: int
    unpriced_calls: int


class SteppedFigures(TypedDict):
    """
    The figures of a step. Each kind of step has some of them.
    """

    label: NotRequired[str | None]
    marked_exchange: NotRequired[int | None]
    session: NotRequired[int | None]
    set_aside: NotRequired[int | None]
    version: NotRequired[int | None]


class SummaryFigures(TypedDict):
    covers_through: int
    pending_exchanges: int
    version: int


class SummarySection(TypedDict):
    """
    A section of a document.
    """

    content: str
    span: NotRequired[str | None]
    title: str


SummaryView: TypeAlias = Literal['full', 'brief']


Switch: TypeAlias = Literal['1', 'true', '', '0', 'false']


Timestamp: TypeAlias = str


VersionKind: TypeAlias = Literal['update', 'rewind', 'rollback', 'rebuild', 'edit', 'forget']


class WindowFigures(TypedDict):
    """
    The window after the append. Without a budget (0), `fill_ratio` and `tokens_until_eviction` are null.
    """

    budget_tokens: int
    fill_ratio: NotRequired[float | None]
    tokens: int
    tokens_until_eviction: NotRequired[int | None]


class WrittenNote(TypedDict):
    """
    The version that a change of a note wrote.
    """

    bytes: int
    deleted: bool
    name: NoteName
    version: int


class WrittenNotes(TypedDict):
    """
    The result of changes of notes.
    """

    agent_id: AgentId
    notes: list[WrittenNote]


class AgeingDue(TypedDict):
    """
    A document with an item that is too old for its section.
    """

    agent_id: AgentId
    due_at: Timestamp


class AgentFigures(TypedDict):
    """
    The figures of an agent. HTTP and the command line use the same fields.
    """

    agent_id: AgentId
    budget_tokens: int
    covers_through: int
    exchanges: int
    first_exchange: int
    messages: int
    newest: NotRequired[NewestExchange | None]
    pending_exchanges: int
    pending_since: NotRequired[Timestamp | None]
    project_id: NotRequired[str | None]
    summary_tokens: int
    updated_at: Timestamp
    version: int
    window_tokens: int


class AgentPage(TypedDict):
    """
    A page of agents, ordered by id.
    """

    agents: list[AgentFigures]
    next_cursor: NotRequired[Cursor | None]


class AgentSettings(TypedDict):
    """
    The settings that one agent can override.
    """

    alternation: NotRequired[Alternation | None]
    anchor: NotRequired[bool | None]
    budget_tokens: NotRequired[int | None]
    calls_per_day: NotRequired[int | None]
    context_max_tokens: NotRequired[int | None]
    human_tag: NotRequired[str | None]
    leg_tokens: NotRequired[int | None]
    low_water: NotRequired[float | None]
    max_messages: NotRequired[int | None]
    mode: NotRequired[ConversationMode | None]
    model: NotRequired[str | None]
    on_overflow: NotRequired[OnOverflow | None]
    output_reserve_tokens: NotRequired[int | None]
    participants: NotRequired[str | None]
    preset: NotRequired[Preset | None]
    provider: NotRequired[str | None]
    system_reserve_tokens: NotRequired[int | None]
    time_zone: NotRequired[str | None]
    tokens_per_day: NotRequired[int | None]
    usd_per_day: NotRequired[float | None]


class AuditEvent(TypedDict):
    """
    One audited request.
    """

    agent_id: NotRequired[AgentId | None]
    at: Timestamp
    kind: AuditKind
    method: str
    outcome: str
    peer: str
    request_id: str
    route: str
    status: int
    token: NotRequired[str | None]


class AuditRow(AuditEvent):
    """
    A stored event.
    """

    event: int


class BatchFigures(TypedDict):
    """
    Figures about batches.
    """

    intents: int
    oldest_at: NotRequired[Timestamp | None]
    out: int
    submitted: int
    waiting: int


class Circuit(TypedDict):
    """
    The state of a provider's circuit breaker, as `status` shows it.
    """

    model: str
    open_until: NotRequired[Timestamp | None]
    provider: str
    why: NotRequired[str | None]


Context = TypedDict(
    'Context',
    {
        'agent_id': AgentId,
        'as': NotRequired[str | None],
        'body': Any,
        'copied': list[int],
        'elided': list[Elision],
        'first_exchange': int,
        'format': RequestFormat,
        'left_out': list[int],
        'limit_tokens': NotRequired[int | None],
        'notes': list[str],
        'over_budget': bool,
        'summary_version': int,
        'tokens': int,
    },
)


class ConvergenceScore(TypedDict):
    """
    How alike two speakers are after a turn.
    """

    components: ConvergenceComponents
    score: float
    state: ConvergenceState
    trend: ConvergenceTrend


class Excerpt(TypedDict):
    """
    A piece of a message.
    """

    kind: str
    said_at: Timestamp
    seq: int
    text: str


class Fact(TypedDict):
    """
    A fact and its history.
    """

    added_version: int
    closed_by_exchange: NotRequired[int | None]
    closed_version: NotRequired[int | None]
    exchange: int
    fact: int
    kind: FactKind
    pinned: bool
    replaced_by: NotRequired[int | None]
    since: Timestamp
    speaker: NotRequired[str]
    text: str
    voice: NotRequired[str | None]


class FactPage(TypedDict):
    """
    A page of facts, ordered by number.
    """

    facts: list[Fact]
    next_cursor: NotRequired[Cursor | None]


class Forgotten(TypedDict):
    """
    The reply to a request to forget, over HTTP and on the command line.
    """

    agents: list[AgentId]
    exchanges: list[int]
    items: int
    journals_left: list[AgentId]
    legs_left: NotRequired[list[LegsLeft]]
    messages: int
    scrubbed: bool
    versions: int


class FoundExchange(TypedDict):
    """
    An exchange that a search found.
    """

    continues: NotRequired[int | None]
    ended_at: Timestamp
    evicted_at: NotRequired[Timestamp | None]
    excerpts: list[Excerpt]
    exchange: int
    missing: list[str]
    place: ExchangePlace
    started_at: Timestamp
    summary_version: NotRequired[int | None]
    title: str
    tokens: int


class HistoryExchange(TypedDict):
    continues: NotRequired[int | None]
    ended_at: Timestamp
    evicted_at: NotRequired[Timestamp | None]
    messages: list[HistoryLine]
    n: int
    over_budget: bool
    started_at: Timestamp
    state: str
    summary_version: NotRequired[int | None]
    title: str
    tokens: int
    waiting: bool


class ItemFigures(TypedDict):
    """
    An item of the summary: what happened in some exchanges, in three lengths.
    """

    brief: str
    ended_at: Timestamp
    gist: str
    importance: Importance
    item: int
    origin: ItemOrigin
    pinned: bool
    provisional: bool
    ranges: list[ExchangeRange]
    source_tokens: int
    started_at: Timestamp
    text: str


class LastRun(TypedDict):
    """
    The newest update that asked a model.
    """

    at: Timestamp
    error_class: NotRequired[str | None]
    model: str
    provider: str


class MemberFigures(TypedDict):
    """
    An agent's contribution to a project's document.
    """

    agent_id: AgentId
    covers_through: int
    items: int
    pending_exchanges: int
    shown_items: int
    updated_at: Timestamp
    version: int


class Membership(TypedDict):
    """
    The project of an agent.
    """

    agent_id: AgentId
    project_id: NotRequired[ProjectId | None]


class NoteEdit(TypedDict):
    """
    A change of one note.
    """

    append: NotRequired[bool]
    name: NoteName
    replaces: NotRequired[int | None]
    text: str | None


class NoteEntry(TypedDict):
    """
    A note, without its text.
    """

    bytes: int
    created_at: Timestamp
    deleted: NotRequired[bool]
    name: NoteName
    text: NotRequired[str | None]
    title: str
    version: int
    written_at: Timestamp


class Notes(TypedDict):
    """
    An agent's notes, in order of their names.
    """

    agent_id: AgentId
    notes: list[NoteEntry]
    notes_max: int


class NotesBody(TypedDict):
    """
    The body of a request to change notes.
    """

    changes: list[NoteEdit]


class Pins(TypedDict):
    """
    An agent's pins, in order of their messages.
    """

    agent_id: AgentId
    has_more: bool
    max_tokens: int
    pins: list[ShownPin]


class Problem(TypedDict):
    """
    A problem (RFC 9457).
    """

    code: str
    detail: str
    errors: NotRequired[list[ProblemFinding]]
    hint: NotRequired[str | None]
    instance: str
    status: int
    title: str
    type: str


class ProjectFigures(TypedDict):
    agents: int
    project_id: ProjectId
    updated_at: Timestamp


class ProjectPage(TypedDict):
    """
    A page of projects, ordered by name.
    """

    next_cursor: NotRequired[Cursor | None]
    projects: list[ProjectFigures]


class ProjectSummary(TypedDict):
    """
    A project's summary as JSON.
    """

    agents: int
    content: str
    members: list[MemberFigures]
    project_id: ProjectId
    stale_since: NotRequired[Timestamp | None]
    tokens: int
    updated_at: Timestamp


class ProxyReport(TypedDict):
    """
    What a proxy counted for an agent since its report before.
    """

    report: str
    traffic: ProxyTraffic


class ProxyTotals(TypedDict):
    """
    What the proxies did for an agent, by their reports.
    """

    first_at: NotRequired[Timestamp | None]
    last_at: NotRequired[Timestamp | None]
    traffic: ProxyTraffic


class QueuePause(TypedDict):
    """
    The pause of all updates.
    """

    paused_since: NotRequired[Timestamp | None]


class QueueRow(TypedDict):
    """
    A row of the queue: an agent whose summary is to be looked at.
    """

    age_ms: int
    agent_id: AgentId
    attempts: int
    crashes: int
    last_error: NotRequired[str | None]
    leased_at: NotRequired[Timestamp | None]
    next_at: NotRequired[Timestamp | None]
    owner: NotRequired[str | None]
    parked_at: NotRequired[Timestamp | None]
    paused_for: NotRequired[str | None]
    priority: int
    queued_at: Timestamp
    reason: str
    state: QueueState
    waits_for: NotRequired[QueueWait | None]


class RecallTime(TypedDict):
    """
    The time that a question names. Words such as `yesterday` are relative to `as_of`.
    """

    since: Timestamp
    until: Timestamp
    words: str


class Run(TypedDict):
    """
    One attempt to update a summary.
    """

    agent_id: AgentId
    attempt: int
    batched: bool
    cost_microusd: NotRequired[int | None]
    covers_after: NotRequired[int | None]
    covers_through: NotRequired[int | None]
    document_tokens: NotRequired[int | None]
    duration_ms: int
    error: NotRequired[str | None]
    error_class: NotRequired[str | None]
    exchanges: int
    finished_at: Timestamp
    input_tokens: int
    items_added: int
    items_dropped: int
    model: NotRequired[str | None]
    model_calls: int
    outcome: RunOutcome
    output_tokens: int
    path: NotRequired[str | None]
    provider: NotRequired[str | None]
    reason: str
    run: int
    started_at: Timestamp
    truncated: bool
    version: NotRequired[int | None]


class RunFigures(TypedDict):
    """
    Figures about the updates in a span of time.
    """

    completed: int
    exchanges: int
    failed: int
    input_tokens: int
    max_duration_ms: int
    mean_document_tokens: int
    mean_duration_ms: int
    output_tokens: int
    p95_duration_ms: NotRequired[int]
    postponed: NotRequired[int]
    spent: SpendTotal
    superseded: int
    truncated: int


class RunPage(TypedDict):
    """
    A page of runs, newest first.
    """

    next_cursor: NotRequired[Cursor | None]
    runs: list[Run]


class Sample(TypedDict):
    """
    Figures at one moment.
    """

    agents: int
    batches: NotRequired[BatchFigures]
    calibrations: NotRequired[list[CalibrationFigures]]
    completed: int
    documents: int
    documents_tokens: int
    failed: int
    input_tokens: int
    last_run: NotRequired[LastRun | None]
    mean_document_tokens: int
    mean_duration_ms: int
    model_calls: int
    oldest_pending_at: NotRequired[Timestamp | None]
    oldest_ready_at: NotRequired[Timestamp | None]
    output_tokens: int
    parked: int
    paused: NotRequired[int]
    paused_until: NotRequired[Timestamp | None]
    ready: int
    running: int
    scheduled: int
    stock_is_estimated: NotRequired[bool]
    today: NotRequired[SpendTotal]
    truncated: int


SettingInForce = TypedDict(
    'SettingInForce',
    {
        'from': SettingSource,
        'name': str,
        'value': Any,
    },
)


class ShownMessage(TypedDict):
    """
    A message, verbatim.
    """

    forgotten: NotRequired[bool]
    format: str
    kind: str
    payload: Any
    said_at: Timestamp
    seq: int
    speaker: NotRequired[str | None]
    tokens: int


class SpendPause(TypedDict):
    """
    A pause of an agent's updates until the next day.
    """

    limit: SpendLimit
    until: Timestamp


class Stats(TypedDict):
    """
    The figures of a span of time, and of the present.
    """

    agents: int
    documents: int
    documents_tokens: int
    parked: int
    ready: int
    running: int
    scheduled: int
    stock_is_estimated: bool
    updates: RunFigures
    window_hours: int


class Status(Sample):
    """
    The daemon's figures.
    """

    circuits: list[Circuit]
    spend_limits: SpendLimits
    started_at: Timestamp
    uptime_ms: int
    version: str
    window_hours: int


class StepOutcome(SteppedFigures):
    """
    The reply to a clear, a mark or a rewind.
    """

    covers_through: int
    exchange: int
    first_exchange: int
    window_tokens: int


class Summary(TypedDict):
    """
    The summary of an agent.
    """

    agent_id: AgentId
    content: str
    covers_through: int
    first_exchange: int
    hint: NotRequired[str | None]
    pending_exchanges: int
    pending_since: NotRequired[Timestamp | None]
    sections: list[SummarySection]
    stale_since: NotRequired[Timestamp | None]
    tokens: int
    truncated: bool
    updated_at: NotRequired[Timestamp | None]
    version: int


class VersionFigures(TypedDict):
    """
    A version of a document, without its text.
    """

    as_of: Timestamp
    covers_after: int
    covers_through: int
    created_at: Timestamp
    exchanges: int
    kind: VersionKind
    path: str
    purged_at: NotRequired[Timestamp | None]
    tokens: int
    version: int


class VersionPage(TypedDict):
    """
    A page of versions, newest first.
    """

    next_cursor: NotRequired[Cursor | None]
    versions: list[VersionFigures]


class WindowExchange(TypedDict):
    """
    An exchange of the window.
    """

    continues: NotRequired[int | None]
    ended_at: Timestamp
    exchange: int
    messages: list[ShownMessage]
    next_after: NotRequired[int | None]
    started_at: Timestamp
    state: ExchangeState
    tokens: int


class Aged(TypedDict):
    """
    The reply to a run of the ageing job, over HTTP and on the command line.
    """

    dry_run: bool
    due: list[AgeingDue]
    has_more: bool
    queued: int


class Agent(AgentFigures):
    """
    An agent with its settings.
    """

    in_force: list[SettingInForce]
    paused: NotRequired[SpendPause | None]
    settings: AgentSettings


class AuditPage(TypedDict):
    """
    A page of the audit, newest first.
    """

    events: list[AuditRow]
    next_cursor: NotRequired[Cursor | None]


class Convergence(ConvergenceScore):
    """
    The convergence of the last two speakers at the end of a conversation.
    """

    speakers: list[str]


class EditedFact(Fact):
    """
    The reply to an operator's change of a fact.
    """

    version: int


class ExpandedExchange(TypedDict):
    agent_id: AgentId
    body: NotRequired[Any]
    continues: NotRequired[int | None]
    ended_at: Timestamp
    evicted_at: NotRequired[Timestamp | None]
    exchange: int
    legs: NotRequired[Legs | None]
    messages: list[ShownMessage]
    next_after: NotRequired[int | None]
    notes: NotRequired[list[str]]
    place: ExchangePlace
    source_agent_id: AgentId
    started_at: Timestamp
    state: ExchangeState
    summary_version: NotRequired[int | None]
    tokens: int


class History(TypedDict):
    agent_id: AgentId
    archived_total: int
    boundary: HistoryBoundary
    budget_tokens: int
    convergence: NotRequired[Convergence | None]
    exchanges: list[HistoryExchange]
    summary: NotRequired[HistorySummary | None]
    window: HistoryWindow
    window_total: int


class Item(ItemFigures):
    """
    An item as operators see it, over HTTP and on the command line.
    """

    added_version: int
    exchanges: str
    legs_of: NotRequired[int | None]
    shown: bool


class ItemPage(TypedDict):
    """
    A page of items, ordered by number.
    """

    items: list[Item]
    next_cursor: NotRequired[Cursor | None]


class Note(NoteEntry):
    """
    A note with its text and its versions.
    """

    agent_id: AgentId
    versions: list[NoteEntry]


class QueuePage(TypedDict):
    """
    A page of the queue, ordered by agent.
    """

    next_cursor: NotRequired[Cursor | None]
    paused_since: NotRequired[Timestamp | None]
    rows: list[QueueRow]


class Recall(TypedDict):
    """
    The results of a search, best first.
    """

    agent_id: AgentId
    found: list[FoundExchange]
    has_more: bool
    terms: list[str]
    time: NotRequired[RecallTime | None]
    unsearched_messages: int


class Version(VersionFigures):
    """
    A version with its text.
    """

    content: str


class Window(TypedDict):
    """
    Whole exchanges of the window, in order.
    """

    agent_id: AgentId
    budget_tokens: int
    exchanges: list[WindowExchange]
    first_exchange: int
    preamble: list[ShownMessage]
    preamble_next_after: NotRequired[int | None]
    tokens: int


class WindowPage(Window):
    """
    A page of the window.
    """

    next_cursor: NotRequired[Cursor | None]


class AppendReply(TypedDict):
    """
    The result of an append. HTTP and the command line use the same fields.
    """

    accepted: int
    convergence: NotRequired[Convergence | None]
    duplicates: int
    evicted: list[Moved]
    exchange: int
    returned: NotRequired[Moved | None]
    session_ended: NotRequired[int | None]
    summary: SummaryFigures
    window: WindowFigures


class EditedItem(Item):
    """
    The reply to an edit of an item.
    """

    version: int
