//! `?view=brief`, `?max_tokens=` and `?max_chars=`: less of a summary, for readers that have no room for it.

use std::sync::Arc;

use super::{
    SharedApp,
    extract::{Parameters, invalid},
    problem::Problem,
};
use crate::{
    domain::{
        agent::AgentId,
        summary::brief::{Limits, Order, excerpt},
    },
    snapshot::Snapshot,
};

/// The parameters' names.
pub(super) const VIEW: &str = "view";
pub(super) const MAX_TOKENS: &str = "max_tokens";
pub(super) const MAX_CHARS: &str = "max_chars";
/// The largest limits that can be asked for: far more than a document has.
const TOKENS_MAX: i64 = 1_000_000;
const CHARS_MAX: i64 = 10_000_000;

/// How much of a summary is wanted, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    order: Order,
    limits: Limits,
}

/// A part of a summary.
pub(super) struct Excerpt {
    pub(super) text: String,
    pub(super) tokens: i64,
}

impl Wanted {
    /// What the parameters ask for; none if that is all of it.
    pub(super) fn read(parameters: &Parameters) -> Result<Option<Self>, Problem> {
        let is_brief = match parameters.text(VIEW) {
            None | Some("full") => false,
            Some("brief") => true,
            Some(other) => {
                return Err(invalid(
                    VIEW,
                    &format!("can't be `{other}`"),
                    "give brief or full",
                ));
            }
        };
        let tokens_max = parameters.integer(MAX_TOKENS, 1..=TOKENS_MAX)?;
        let chars_max = parameters
            .integer(MAX_CHARS, 1..=CHARS_MAX)?
            .map(|chars| usize::try_from(chars).unwrap_or(usize::MAX));
        if !is_brief && tokens_max.is_none() && chars_max.is_none() {
            return Ok(None);
        }
        let (order, most) = if is_brief {
            (Order::NewestFirst, Limits::BRIEF)
        } else {
            let most = Limits {
                chars_max: usize::MAX,
                tokens_max: i64::MAX,
            };
            (Order::Document, most)
        };
        let limits = Limits {
            chars_max: chars_max.map_or(most.chars_max, |chars| chars.min(most.chars_max)),
            tokens_max: tokens_max.map_or(most.tokens_max, |tokens| tokens.min(most.tokens_max)),
        };
        Ok(Some(Self { order, limits }))
    }

    /// That much of `snapshot`, made on another thread: counting a full document takes some milliseconds.
    pub(super) async fn of(
        self,
        app: &SharedApp,
        agent: &AgentId,
        snapshot: Arc<Snapshot>,
    ) -> Result<Excerpt, Problem> {
        let counter = Arc::clone(app.parts.snapshots.counter());
        let closing = closing(agent);
        let cutting = tokio::task::spawn_blocking(move || {
            let text = excerpt(
                &snapshot.markdown,
                &closing,
                self.order,
                self.limits,
                counter.as_ref(),
            );
            let tokens = counter.count(&text);
            Excerpt { text, tokens }
        });
        cutting.await.map_err(|error| {
            tracing::error!(%error, "http.excerpt_panicked");
            Problem::internal()
        })
    }
}

/// The line that says where the whole is.
fn closing(agent: &AgentId) -> String {
    format!("*Shortened. The full summary: `recapd summary {agent}` or GET /v1/agents/{agent}/summary.*")
}
