//! The values that labels can have.

use std::fmt::Write as _;

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};

use crate::domain::{message::Kind, work::Reason};

/// A closed set of label values, with the text of each.
macro_rules! labels {
    ($(#[$doc:meta])* $set:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set {
            $($(#[$value_doc])* $value,)+
        }

        impl $set {
            /// All values.
            pub const ALL: &[Self] = &[$(Self::$value),+];

            /// The text of the value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            /// The value of that text.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.name() == name)
            }
        }

        impl EncodeLabelValue for $set {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
                encoder.write_str(self.name())
            }
        }
    };
}

/// Why an update was queued; the reasons of the queue, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trigger(pub(super) Reason);

impl Trigger {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Reason::ALL.into_iter().map(Self)
    }
}

impl std::hash::Hash for Trigger {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.bit().hash(state);
    }
}

impl EncodeLabelValue for Trigger {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        encoder.write_str(self.0.name())
    }
}

labels! {
    /// What became of a batch.
    BatchOutcome {
        /// The provider has it.
        Submitted = "submitted",
        /// It was refused, or never came back.
        Lost = "lost",
    }
}

labels! {
    /// Why a message that was inserted by SQL was refused.
    InboxRefusal {
        /// The agent's id is none.
        Agent = "agent",
        /// It can't be read.
        Message = "message",
        /// Its client id was used for another one.
        ClientId = "client_id",
        /// It alone is too big for the window, and the agent wants that refused.
        Overflow = "overflow",
        /// It pins more than fits.
        Pins = "pins",
        /// The database refuses it.
        Database = "database",
    }
}

labels! {
    /// What became of a question for a batch.
    QuestionOutcome {
        /// It waits.
        Deferred = "deferred",
        /// Its answer is used.
        Answered = "answered",
        /// It has none, and is asked directly.
        Failed = "failed",
        /// Its answer came too late.
        Late = "late",
        /// It was asked directly before it was sent.
        Withdrawn = "withdrawn",
    }
}

labels! {
    /// How far an open batch is.
    BatchStage {
        /// Written down; the provider may not know it.
        Intent = "intent",
        /// The provider works on it.
        Submitted = "submitted",
    }
}

labels! {
    /// Where a question without an answer is.
    QuestionStage {
        /// In no batch yet.
        Waiting = "waiting",
        /// In an open batch.
        Out = "out",
    }
}

labels! {
    /// What the likeness of two speakers has begun to call for.
    Convergence {
        /// Somebody should know.
        Warn = "warn",
        /// The conversation should end.
        Stop = "stop",
    }
}

labels! {
    /// Whose tokenizer counts, as far as it matters to how well.
    CountProvider {
        /// `OpenAI`
        OpenAi = "openai",
        /// Anthropic
        Anthropic = "anthropic",
        /// Google
        Google = "google",
        /// A server of one's own.
        Local = "local",
        /// Any other.
        Other = "other",
    }
}

labels! {
    /// How an update ended.
    UpdateOutcome {
        /// It was committed.
        Completed = "completed",
        /// It wasn't; it is tried again, or parked.
        Failed = "failed",
        /// Somebody else had done the work.
        Superseded = "superseded",
    }
}

labels! {
    /// How far an update had to go to fit the summary's ceiling.
    UpdatePath {
        /// New items were appended.
        Append = "append",
        /// Items of the newest section were merged.
        Merge = "merge",
        /// Everything was compacted.
        Full = "full",
        /// It ended before that was known.
        None = "none",
    }
}

labels! {
    /// Why an update failed.
    FailureReason {
        /// The provider limits the rate.
        ProviderRateLimited = "provider_rate_limited",
        /// The provider has too much to do.
        ProviderOverloaded = "provider_overloaded",
        /// The provider took too long.
        ProviderTimeout = "provider_timeout",
        /// The provider refuses the key or the account.
        ProviderAuth = "provider_auth",
        /// The provider refuses the request.
        ProviderInvalidRequest = "provider_invalid_request",
        /// The input was too long for the model.
        ProviderContextLength = "provider_context_length",
        /// The provider failed.
        ProviderServer = "provider_server",
        /// The provider couldn't be reached.
        ProviderNetwork = "provider_network",
        /// The model declined.
        ProviderRefusal = "provider_refusal",
        /// The answer was unusable.
        BadOutput = "bad_output",
        /// The database failed.
        Db = "db",
        /// The lease was lost.
        LeaseLost = "lease_lost",
        /// The daemon was stopped.
        Shutdown = "shutdown",
        /// Anything else: a defect of recapd.
        Internal = "internal",
    }
}

labels! {
    /// Why an update is given back without having failed.
    PostponeReason {
        /// As many calls are under way as may be.
        Places = "places",
        /// The limits of the key are used up.
        Rate = "rate",
        /// The provider rests after its failures.
        Circuit = "circuit",
        /// A limit of spending is used up.
        Spend = "spend",
    }
}

labels! {
    /// What happened to items of a summary.
    ItemAction {
        /// New.
        Added = "added",
        /// Joined with others.
        Merged = "merged",
        /// Shown by a shorter text.
        Condensed = "condensed",
        /// Moved to an older section.
        Moved = "moved",
        /// Left the summary.
        Dropped = "dropped",
    }
}

labels! {
    /// By which way a summary was read.
    ReadVia {
        /// HTTP.
        Http = "http",
        /// Model context protocol.
        Mcp = "mcp",
        /// A hook of an agent.
        Hook = "hook",
        /// The command line.
        Cli = "cli",
    }
}

labels! {
    /// What a reader of a summary got.
    ReadResult {
        /// The summary.
        Hit = "hit",
        /// Nothing new.
        NotModified = "not_modified",
        /// There is none yet.
        Empty = "empty",
        /// The last copy; the database is down.
        Stale = "stale",
        /// Nothing; the database is down.
        Unavailable = "unavailable",
    }
}

labels! {
    /// What a look at the queue brought.
    ClaimResult {
        /// Work.
        Found = "found",
        /// Nothing is due.
        Empty = "empty",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    /// The guard that kept an update from being applied a second time.
    Fence {
        /// The lease is somebody else's.
        Lease = "lease",
        /// The summary has another version by now.
        Version = "version",
        /// A watermark moved.
        Watermark = "watermark",
        /// Exchanges were set aside.
        Exchanges = "exchanges",
        /// A row of the inbox was taken by somebody else.
        Inbox = "inbox",
    }
}

labels! {
    /// How grave an event is that was logged.
    LogLevel {
        /// Something is wrong, and goes on all the same.
        Warn = "warn",
        /// Something failed.
        Error = "error",
        /// Somebody has to act.
        Alert = "alert",
    }
}

labels! {
    /// What became of a span of a trace.
    SpanOutcome {
        /// The collector took it.
        Sent = "sent",
        /// The collector didn't, or there was no place to wait in.
        Lost = "lost",
    }
}

labels! {
    /// What a connection of the pool is doing.
    ConnectionState {
        /// Waits.
        Idle = "idle",
        /// Works.
        InUse = "in_use",
    }
}

labels! {
    /// In which state a queue row is.
    QueueState {
        /// Can be claimed.
        Ready = "ready",
        /// Waits for its time.
        Scheduled = "scheduled",
        /// Is claimed.
        Running = "running",
        /// Has failed too often.
        Parked = "parked",
    }
}

labels! {
    /// How the renewal of a lease ended.
    RenewalResult {
        /// Renewed.
        Renewed = "renewed",
        /// The lease belonged to somebody else by then.
        Lost = "lost",
        /// The database failed.
        Failed = "failed",
    }
}

labels! {
    /// Whose message it is.
    Role {
        /// Instructions.
        System = "system",
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
        /// The model, calling tools.
        ToolCall = "tool_call",
        /// A tool.
        ToolResult = "tool_result",
        /// Nobody's: metadata.
        Metadata = "metadata",
    }
}

impl CountProvider {
    /// The provider of that name.
    pub fn of(provider: &str) -> Self {
        match provider {
            "gemini" => Self::Google,
            "ollama" | "llama.cpp" | "vllm" => Self::Local,
            name => Self::from_name(name).unwrap_or(Self::Other),
        }
    }
}

impl From<&Kind> for Role {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::System => Self::System,
            Kind::User => Self::User,
            Kind::Assistant => Self::Assistant,
            Kind::ToolCall => Self::ToolCall,
            Kind::ToolResult => Self::ToolResult,
            Kind::Metadata(_) => Self::Metadata,
        }
    }
}

labels! {
    /// What an agent is doing.
    AgentState {
        /// Had messages of late.
        Active = "active",
        /// Had none.
        Idle = "idle",
        /// Its updates wait for the next day, because a limit of spending is used up.
        Paused = "paused",
        /// Its queue row is parked.
        Parked = "parked",
    }
}

labels! {
    /// How a call to a model ended.
    RequestOutcome {
        /// With an answer.
        Success = "success",
        /// Without.
        Error = "error",
    }
}

labels! {
    /// What went wrong in a call to a model.
    ProviderErrorClass {
        /// Too many calls.
        RateLimited = "rate_limited",
        /// Too much to do.
        Overloaded = "overloaded",
        /// Took too long.
        Timeout = "timeout",
        /// Key or account refused.
        Auth = "auth",
        /// Request refused.
        InvalidRequest = "invalid_request",
        /// Input too long.
        ContextLength = "context_length",
        /// The provider failed.
        Server = "server",
        /// Not reached.
        Network = "network",
        /// Declined.
        Refusal = "refusal",
        /// An answer that is of no use.
        BadOutput = "bad_output",
    }
}

impl ProviderErrorClass {
    /// The class of a failure of an update, if a provider caused it.
    pub fn from_reason(reason: FailureReason) -> Option<Self> {
        let name = reason.name();
        Self::from_name(name.strip_prefix("provider_").unwrap_or(name))
    }
}

labels! {
    /// Which tokens a provider bills. The sets are disjoint, so that their sum is the bill.
    TokenType {
        /// Read, at the full price.
        Input = "input",
        /// Read from the provider's cache.
        CacheRead = "cache_read",
        /// Written to the provider's cache.
        CacheWrite = "cache_write",
        /// Written by the model.
        Output = "output",
    }
}

labels! {
    /// What went wrong in the database.
    DbErrorClass {
        /// Locked by another for too long.
        Busy = "busy",
        /// A constraint was violated: a defect.
        Constraint = "constraint",
        /// What was read makes no sense.
        Corrupt = "corrupt",
        /// The disk is full.
        Full = "full",
        /// Reading or writing failed, or the connection.
        Io = "io",
        /// Anything else.
        Other = "other",
    }
}

labels! {
    /// How a run of a cron job ended.
    RunOutcome {
        /// Done.
        Completed = "completed",
        /// Not done.
        Failed = "failed",
    }
}

labels! {
    /// The method of an HTTP request.
    Method {
        /// GET
        Get = "GET",
        /// HEAD
        Head = "HEAD",
        /// POST
        Post = "POST",
        /// PUT
        Put = "PUT",
        /// PATCH
        Patch = "PATCH",
        /// DELETE
        Delete = "DELETE",
        /// Any other.
        Other = "other",
    }
}
