//! Draws the history map: all live exchanges of an agent from left to right. The width of each shows its tokens.

use maud::{Markup, html};

use super::text::{exchange_path, tokens};
use recapd_core::domain::{agent::AgentId, ledger::CutPoint};
use recapd_store::{AgentRow, ExchangePlace};

/// A map has at most this many segments, besides those that begin at a watermark. If there are more exchanges, a
/// segment stands for several neighbours.
const SEGMENTS_MAX: i64 = 100;
const WIDTH: i64 = 10_000;

/// Returns where segments begin, in tokens, in a history of `total_tokens`.
pub fn landmark_positions(total_tokens: i64) -> Vec<i64> {
    let position = |number: i64| total_tokens.saturating_mul(number) / SEGMENTS_MAX;
    (0..SEGMENTS_MAX).map(position).collect()
}

/// Neighbouring exchanges: the first, the last, and the history's tokens before and after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    first: i64,
    last: i64,
    begins: i64,
    ends: i64,
}

/// Divides the history at the landmarks.
fn segments(row: &AgentRow, landmarks: &[CutPoint]) -> Vec<Segment> {
    let ledger = &row.ledger;
    let nexts = landmarks.iter().skip(1).map(|next| (next.exchange, next.tokens_before));
    let end = (ledger.last_exchange + 1, ledger.tokens_through());
    let found = landmarks.iter().zip(nexts.chain([end]));
    let segments = found.map(|(cut, (next, ends))| Segment {
        first: cut.exchange,
        last: next - 1,
        begins: cut.tokens_before,
        ends,
    });
    segments.filter(|segment| segment.ends > segment.begins).collect()
}

/// The tokens of the exchanges that the summary covers, and of those that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HistoryTokens {
    pub(super) covered: i64,
    pub(super) pending: i64,
}

impl HistoryTokens {
    pub(super) fn of(row: &AgentRow, landmarks: &[CutPoint]) -> Self {
        let (ledger, total_tokens) = (&row.ledger, row.ledger.tokens_through());
        let first_after = |exchange: i64| landmarks.iter().find(|cut| cut.exchange > exchange);
        let covered = first_after(ledger.summarized_through).map_or(total_tokens, |cut| cut.tokens_before);
        let evicted = ledger.tokens_before_window.max(covered);
        Self { covered, pending: evicted - covered }
    }
}

/// Draws the map. Its segments are links, but the tab key skips them: the lists below the map have the same links.
pub(super) fn map(agent: &AgentId, row: &AgentRow, landmarks: &[CutPoint]) -> Markup {
    let total_tokens = row.ledger.tokens_through().max(1);
    let x = |tokens: i64| tokens.saturating_mul(WIDTH) / total_tokens;
    let label = format!("The history by tokens, oldest first: {} tokens", tokens(total_tokens));
    html! {
        svg.map viewBox=(format!("0 0 {WIDTH} 10")) preserveAspectRatio="none" role="group" aria-label=(label) {
            rect.m-covered x="0" y="0" width=(WIDTH) height="10" {}
            @for segment in segments(row, landmarks) {
                @let class = place_class(ExchangePlace::of(segment.first, &row.ledger));
                a href=(exchange_path(agent, segment.first)) tabindex="-1" aria-label=(name(&segment)) {
                    title { (name(&segment)) ", " (tokens(segment.ends - segment.begins)) " tokens" }
                    rect.(class) data-n=(segment.first) data-to=(segment.last) x=(x(segment.begins)) width=(x(segment.ends) - x(segment.begins)) height="10" {}
                }
            }
        }
    }
}

fn name(segment: &Segment) -> String {
    numbers(segment.first, segment.last)
}

/// Formats a range of exchanges: `#12`, `#12–#14`.
pub(super) fn numbers(first: i64, last: i64) -> String {
    if first >= last { format!("#{first}") } else { format!("#{first}–#{last}") }
}

fn place_class(place: ExchangePlace) -> &'static str {
    match place {
        ExchangePlace::Preamble | ExchangePlace::Window => "m-window",
        ExchangePlace::Pending => "m-pending",
        ExchangePlace::Covered | ExchangePlace::SetAside => "m-covered",
    }
}
