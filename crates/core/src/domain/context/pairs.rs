//! Pairs of calls and results: matched by id with the nearest open call, else by name and order; put next to each
//! other; completed where one half is missing.

use std::{collections::HashMap, ops::Range};

use super::{
    MISSING_RESULT, Passes, Piece, Reason, Role, Turn,
    draft::{BatchObservation, Draft, is_result},
    passes::Pass,
};
use crate::domain::message::Part;

/// The parts of a draft that are one result: the result itself and the images that came with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResultSpan {
    draft: usize,
    parts: Range<usize>,
}

struct CallPosition {
    draft: usize,
    part: usize,
    /// Calls with the same number were made at once: nothing but the model's words lies between them.
    batch: usize,
    result: Option<ResultSpan>,
}

/// The calls of all drafts, in order, with the results found for them.
struct Pairs<'d, 'a> {
    drafts: &'d [Draft<'a>],
    calls: Vec<CallPosition>,
    /// The calls without a result, by id.
    open: HashMap<&'d str, Vec<usize>>,
    /// The index of each draft's first call.
    first_call: Vec<usize>,
    /// The tools of calls that are seen and have their results, by the calls' ids.
    answered: HashMap<&'d str, &'d str>,
    passes: Passes,
}

/// How much of a message of results was moved to its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MovedShare {
    /// None of it.
    Nothing,
    /// Some of its results.
    Some,
    /// All of it.
    Whole,
}

/// Makes turns in which every call is followed by its result. Halves of pairs are completed: a call gets a result that
/// says none was recorded, a result becomes a text of the user's that names the tool. Calls that the speaker doesn't
/// see are dropped with their results.
pub(super) fn repair<'a>(drafts: &[Draft<'a>], passes: Passes) -> Vec<Turn<'a>> {
    let pairs = Pairs::find(drafts, passes);
    let mut taken = vec![Vec::new(); drafts.len()];
    for span in pairs.calls.iter().filter_map(|call| call.result.as_ref()) {
        taken[span.draft].push(span.parts.clone());
    }
    let mut given = vec![MovedShare::Nothing; drafts.len()];
    let mut turns = Vec::with_capacity(drafts.len());
    let mut at = 0;
    while let Some(draft) = drafts.get(at) {
        if draft.sight == BatchObservation::Unseen {
            at += 1;
        } else if draft.role == Role::Assistant {
            let end = pairs.turn_end(at);
            let pieces = drafts[at..end].iter().map(Draft::piece).collect();
            turns.push(Turn::new(Role::Assistant, draft.exchange, pieces));
            let results = pairs.results(at..end, &taken, &mut given);
            if !results.is_empty() {
                turns.push(Turn::new(Role::Tool, draft.exchange, results));
            }
            at = end;
        } else {
            if draft.role != Role::Tool {
                turns.push(Turn::new(draft.role, draft.exchange, vec![draft.piece()]));
            } else if passes.has(Pass::ResultOrder) {
                turns.extend(pairs.rest(draft, &taken[at], given[at]));
            } else {
                turns.push(Turn::new(Role::Tool, draft.exchange, vec![draft.piece()]));
            }
            at += 1;
        }
    }
    // Thinking alone says nothing to a provider that didn't write it.
    let says_something = |turn: &Turn<'_>| turn.parts().any(|part| !matches!(part, Part::Thinking(_)));
    turns.retain(says_something);
    turns
}

impl<'d, 'a> Pairs<'d, 'a> {
    fn find(drafts: &'d [Draft<'a>], passes: Passes) -> Self {
        let mut pairs = Self {
            drafts,
            calls: Vec::new(),
            open: HashMap::new(),
            first_call: Vec::with_capacity(drafts.len() + 1),
            answered: HashMap::new(),
            passes,
        };
        let mut batch = 0;
        for (index, draft) in drafts.iter().enumerate() {
            pairs.first_call.push(pairs.calls.len());
            if draft.role == Role::Assistant {
                pairs.take_calls(index, batch);
            } else {
                batch = index;
            }
            if draft.role == Role::Tool {
                pairs.take_results(index);
            }
        }
        pairs.first_call.push(pairs.calls.len());
        pairs
    }

    fn take_calls(&mut self, index: usize, batch: usize) {
        let drafts = self.drafts;
        for (part, call) in drafts[index].parts.iter().enumerate() {
            let Part::ToolCall { id, .. } = call else { continue };
            if let Some(id) = id {
                self.open.entry(id).or_default().push(self.calls.len());
            }
            self.calls.push(CallPosition {
                draft: index,
                part,
                batch,
                result: None,
            });
        }
    }

    fn take_results(&mut self, index: usize) {
        let drafts = self.drafts;
        for span in spans(drafts, index) {
            let Part::ToolResult { call_id, name, .. } = &drafts[index].parts[span.parts.start] else {
                continue;
            };
            let by_id = call_id.as_deref().and_then(|id| self.by_id(id));
            let call = by_id.or_else(|| self.by_name(index, name.as_deref(), call_id.is_some()));
            if let Some(call) = call {
                self.calls[call].result = Some(span);
                let made = &drafts[self.calls[call].draft];
                if let Part::ToolCall {
                    id: Some(id), name, ..
                } = &made.parts[self.calls[call].part]
                    && made.sight == BatchObservation::Seen
                {
                    self.answered.insert(id, name);
                }
            }
        }
    }

    /// Among the calls made last, the first open one with that id.
    fn by_id(&mut self, id: &str) -> Option<usize> {
        let calls = &self.calls;
        let open = self.open.get_mut(id)?;
        open.retain(|&call| calls[call].result.is_none());
        let batch = calls[*open.last()?].batch;
        let first = open.partition_point(|&call| calls[call].batch < batch);
        Some(open.remove(first))
    }

    /// Among the calls of the exchange made last, the first open one with that tool name; if the result has an id, only a call
    /// without one. One that was interrupted gets no result of a later call.
    fn by_name(&self, result: usize, name: Option<&str>, has_id: bool) -> Option<usize> {
        let exchange = self.drafts[result].exchange;
        let (made, drafts) = (self.first_call[result], self.drafts);
        let of_exchange = (0..made)
            .rev()
            .take_while(|&call| drafts[self.calls[call].draft].exchange == exchange);
        let fits = |&call: &usize| {
            let call = &self.calls[call];
            let Part::ToolCall { id, name: called, .. } = &drafts[call.draft].parts[call.part] else {
                return false;
            };
            call.result.is_none()
                && !(has_id && id.is_some())
                && name.is_none_or(|name| name == called.as_str())
        };
        let mut open = of_exchange.filter(fits).peekable();
        let batch = self.calls[*open.peek()?].batch;
        open.take_while(|&call| self.calls[call].batch == batch).last()
    }

    /// Where the model's turn that begins at `at` ends: calls join what the model said right before them, and so does
    /// what it said while a call of the turn was waiting for its result, and what follows a message that goes on.
    fn turn_end(&self, at: usize) -> usize {
        let drafts = self.drafts;
        let joins = |&next: &usize| {
            let (draft, before) = (&drafts[next], &drafts[next - 1]);
            draft.role == Role::Assistant
                && draft.sight != BatchObservation::Unseen
                && draft.exchange == before.exchange
                && (draft.has_calls() || before.goes_on() || self.waits(at, next))
        };
        let mut later = (at + 1..drafts.len()).skip_while(joins);
        later.next().unwrap_or(drafts.len())
    }

    /// Whether a call in the drafts from `at` to `end` has its result after `end`.
    fn waits(&self, at: usize, end: usize) -> bool {
        let calls = &self.calls[self.first_call[at]..self.first_call[end]];
        let mut results = calls.iter().filter_map(|call| call.result.as_ref());
        results.any(|result| result.draft > end)
    }

    /// The results of the calls in `drafts`, in call order. A message that holds only these stays whole.
    fn results(
        &self,
        drafts: Range<usize>,
        taken: &[Vec<Range<usize>>],
        given: &mut [MovedShare],
    ) -> Vec<Piece<'a>> {
        let calls = &self.calls[self.first_call[drafts.start]..self.first_call[drafts.end]];
        let mut pieces = Vec::with_capacity(calls.len());
        let mut at = 0;
        while let Some(call) = calls.get(at) {
            let Some(span) = &call.result else {
                pieces.extend(self.missing(call));
                at += 1;
                continue;
            };
            if !self.passes.has(Pass::ResultOrder) {
                at += 1;
                continue;
            }
            let whole = spans(self.drafts, span.draft);
            let in_turn = calls[at..].iter().map_while(|call| call.result.as_ref());
            if in_turn.take(whole.len()).eq(&whole) && taken[span.draft].len() == whole.len() {
                pieces.push(self.drafts[span.draft].piece());
                given[span.draft] = MovedShare::Whole;
                at += whole.len();
            } else {
                let draft = &self.drafts[span.draft];
                pieces.push(draft.share(draft.parts[span.parts.clone()].to_vec()));
                given[span.draft] = MovedShare::Some;
                at += 1;
            }
        }
        pieces
    }

    fn missing(&self, call: &CallPosition) -> Option<Piece<'a>> {
        let (id, name) = match &self.drafts[call.draft].parts[call.part] {
            Part::ToolCall { id, name, .. } => (id.clone(), Some(name.clone())),
            _ => (None, None),
        };
        let result = Part::ToolResult {
            call_id: id,
            name,
            text: MISSING_RESULT.to_owned(),
            is_error: true,
        };
        let piece = Piece::synthetic(Reason::MissingResult, result);
        Some(piece).filter(|_| self.passes.has(Pass::MissingResults))
    }

    /// What stays of a message of results when those with a call have gone to it: the user says it. Of another's results only
    /// what came along with one that is seen: nobody knows who called for the others.
    fn rest(&self, draft: &Draft<'a>, taken: &[Range<usize>], given: MovedShare) -> Option<Turn<'a>> {
        let is_others = draft.sight == BatchObservation::WithCalls;
        if given == MovedShare::Whole || (is_others && given == MovedShare::Nothing) {
            return None;
        }
        let is_told = self.passes.has(Pass::OrphanResults);
        let others = if is_others {
            ranges(&draft.parts)
        } else {
            Vec::new()
        };
        let stays = |at: &usize| !taken.iter().chain(&others).any(|range| range.contains(at));
        let told = |at: usize| {
            let part = &draft.parts[at];
            if is_told { self.as_said(part) } else { part.clone() }
        };
        let parts: Vec<Part> = (0..draft.parts.len()).filter(stays).map(told).collect();
        let role = if is_told { Role::User } else { Role::Tool };
        (!parts.is_empty()).then(|| Turn::new(role, draft.exchange, vec![draft.share(parts)]))
    }

    /// A result without a call of its own, as something that the user says.
    fn as_said(&self, part: &Part) -> Part {
        let Part::ToolResult {
            call_id,
            name,
            text,
            is_error,
        } = part
        else {
            return part.clone();
        };
        let what = if *is_error { "failed result" } else { "result" };
        let answered = call_id.as_deref().and_then(|id| self.answered.get(id).copied());
        let tool = name.as_deref().or(answered).unwrap_or("unknown");
        let why = if answered.is_some() {
            "whose call has another one"
        } else {
            "whose call is not in view"
        };
        Part::Text(format!("[{what} of the tool {tool}, {why}]\n{text}"))
    }
}

/// The results in a draft.
fn spans(drafts: &[Draft<'_>], draft: usize) -> Vec<ResultSpan> {
    let ranges = ranges(&drafts[draft].parts);
    ranges
        .into_iter()
        .map(|parts| ResultSpan { draft, parts })
        .collect()
}

/// The ranges of the results, each with the images that came with it.
fn ranges(parts: &[Part]) -> Vec<Range<usize>> {
    let of_result = |start: usize| {
        let images = parts[start + 1..]
            .iter()
            .take_while(|part| matches!(part, Part::Attachment { .. }));
        start..start + 1 + images.count()
    };
    let starts = (0..parts.len()).filter(|&at| is_result(&parts[at]));
    starts.map(of_result).collect()
}
