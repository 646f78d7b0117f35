//! Matches results with calls: by id with the latest open calls, otherwise by name and order. Puts each result after its call, and
//! completes pairs that lack one half.

use std::{collections::HashMap, ops::Range};

use super::{
    MISSING_RESULT, Passes, Piece, Reason, Turn,
    draft::{Draft, Visibility, is_result},
    passes::Pass,
};
use crate::domain::message::{Part, Role};

/// The parts of a draft that make one result: the result and the images after it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResultSpan {
    draft: usize,
    parts: Range<usize>,
}

struct CallPosition {
    draft: usize,
    part: usize,
    /// Calls with the same number belong to one batch: only texts of the model stand between them.
    batch: usize,
    result: Option<ResultSpan>,
}

struct Pairs<'d, 'a> {
    drafts: &'d [Draft<'a>],
    calls: Vec<CallPosition>,
    /// The calls without a result, by id.
    open: HashMap<&'d str, Vec<usize>>,
    /// For each draft, how many calls come before it: the index of its first call, if it has one. At the end, the number of all calls.
    first_call: Vec<usize>,
    /// The tool names of visible calls with results, by the calls' ids.
    tool_names: HashMap<&'d str, &'d str>,
    passes: Passes,
}

/// How much of a message of results was moved to its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MovedShare {
    Nothing,
    Some,
    Whole,
}

/// Makes turns in which every call is followed by its result. Completes pairs: a call without a result gets the result that none was
/// recorded; a result without a call becomes a text of the user that names the tool. Drops calls that the speaker doesn't see, with their
/// results.
pub(super) fn repair<'a>(drafts: &[Draft<'a>], passes: Passes) -> Vec<Turn<'a>> {
    let pairs = Pairs::find(drafts, passes);
    let mut moved_parts = vec![Vec::new(); drafts.len()];
    for span in pairs.calls.iter().filter_map(|call| call.result.as_ref()) {
        moved_parts[span.draft].push(span.parts.clone());
    }
    let mut shares = vec![MovedShare::Nothing; drafts.len()];
    let mut turns = Vec::with_capacity(drafts.len());
    let mut index = 0;
    while let Some(draft) = drafts.get(index) {
        if draft.visibility == Visibility::Hidden {
            index += 1;
        } else if draft.role == Role::Assistant {
            let end = pairs.turn_end(index);
            let pieces = drafts[index..end].iter().map(Draft::piece).collect();
            turns.push(Turn::new(Role::Assistant, draft.exchange, pieces));
            let results = pairs.results(index..end, &moved_parts, &mut shares);
            if !results.is_empty() {
                turns.push(Turn::new(Role::Tool, draft.exchange, results));
            }
            index = end;
        } else {
            if draft.role != Role::Tool {
                turns.push(Turn::new(draft.role, draft.exchange, vec![draft.piece()]));
            } else if passes.has(Pass::ResultOrder) {
                turns.extend(pairs.rest(draft, &moved_parts[index], shares[index]));
            } else {
                turns.push(Turn::new(Role::Tool, draft.exchange, vec![draft.piece()]));
            }
            index += 1;
        }
    }
    // A turn of thinking alone has no content for other providers.
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
            tool_names: HashMap::new(),
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
            self.calls.push(CallPosition { draft: index, part, batch, result: None });
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
                let caller = &drafts[self.calls[call].draft];
                if let Part::ToolCall { id: Some(id), name, .. } = &caller.parts[self.calls[call].part]
                    && caller.visibility == Visibility::Visible
                {
                    self.tool_names.insert(id, name);
                }
            }
        }
    }

    /// Returns the first open call with that id, in the latest batch that has one.
    fn by_id(&mut self, id: &str) -> Option<usize> {
        let calls = &self.calls;
        let open = self.open.get_mut(id)?;
        open.retain(|&call| calls[call].result.is_none());
        let batch = calls[*open.last()?].batch;
        let first = open.partition_point(|&call| calls[call].batch < batch);
        Some(open.remove(first))
    }

    /// Returns the first open call of that tool, in the exchange's latest batch that has one. A result with an id fits only a call
    /// without an id. So an interrupted call doesn't get the result of a later call.
    fn by_name(&self, result: usize, name: Option<&str>, has_id: bool) -> Option<usize> {
        let exchange = self.drafts[result].exchange;
        let (calls_before, drafts) = (self.first_call[result], self.drafts);
        let exchange_calls =
            (0..calls_before).rev().take_while(|&call| drafts[self.calls[call].draft].exchange == exchange);
        let fits = |&call: &usize| {
            let call = &self.calls[call];
            let Part::ToolCall { id, name: tool_name, .. } = &drafts[call.draft].parts[call.part] else {
                return false;
            };
            call.result.is_none()
                && !(has_id && id.is_some())
                && name.is_none_or(|name| name == tool_name.as_str())
        };
        let mut open = exchange_calls.filter(fits).peekable();
        let batch = self.calls[*open.peek()?].batch;
        open.take_while(|&call| self.calls[call].batch == batch).last()
    }

    /// Returns where the model's turn that begins at `start` ends. The turn includes calls right after a text of the model, texts while one
    /// of its calls waits for a result, and whatever follows a message that continues.
    fn turn_end(&self, start: usize) -> usize {
        let drafts = self.drafts;
        let joins = |&next: &usize| {
            let (draft, previous) = (&drafts[next], &drafts[next - 1]);
            draft.role == Role::Assistant
                && draft.visibility != Visibility::Hidden
                && draft.exchange == previous.exchange
                && (draft.has_calls() || previous.continues() || self.waits(start, next))
        };
        let mut later = (start + 1..drafts.len()).skip_while(joins);
        later.next().unwrap_or(drafts.len())
    }

    /// Returns true if a call in the drafts from `start` to `end` gets its result after `end`.
    fn waits(&self, start: usize, end: usize) -> bool {
        let calls = &self.calls[self.first_call[start]..self.first_call[end]];
        let mut results = calls.iter().filter_map(|call| call.result.as_ref());
        results.any(|result| result.draft > end)
    }

    /// Returns the results of the calls in `drafts`, in call order. A message that has only these results stays whole.
    fn results(
        &self,
        drafts: Range<usize>,
        moved_parts: &[Vec<Range<usize>>],
        shares: &mut [MovedShare],
    ) -> Vec<Piece<'a>> {
        let calls = &self.calls[self.first_call[drafts.start]..self.first_call[drafts.end]];
        let mut pieces = Vec::with_capacity(calls.len());
        let mut index = 0;
        while let Some(call) = calls.get(index) {
            let Some(span) = &call.result else {
                pieces.extend(self.missing_result(call));
                index += 1;
                continue;
            };
            if !self.passes.has(Pass::ResultOrder) {
                index += 1;
                continue;
            }
            let draft_spans = spans(self.drafts, span.draft);
            let in_turn = calls[index..].iter().map_while(|call| call.result.as_ref());
            if in_turn.take(draft_spans.len()).eq(&draft_spans)
                && moved_parts[span.draft].len() == draft_spans.len()
            {
                pieces.push(self.drafts[span.draft].piece());
                shares[span.draft] = MovedShare::Whole;
                index += draft_spans.len();
            } else {
                let draft = &self.drafts[span.draft];
                pieces.push(draft.piece_with(draft.parts[span.parts.clone()].to_vec()));
                shares[span.draft] = MovedShare::Some;
                index += 1;
            }
        }
        pieces
    }

    fn missing_result(&self, call: &CallPosition) -> Option<Piece<'a>> {
        let (id, name) = match &self.drafts[call.draft].parts[call.part] {
            Part::ToolCall { id, name, .. } => (id.clone(), Some(name.clone())),
            _ => (None, None),
        };
        let result = Part::ToolResult { call_id: id, name, text: MISSING_RESULT.to_owned(), is_error: true };
        let piece = Piece::synthetic(Reason::MissingResult, result);
        Some(piece).filter(|_| self.passes.has(Pass::MissingResults))
    }

    /// Returns the rest of a message of results after results moved to their calls. It becomes the user's turn. Of another speaker's
    /// message, all results are dropped, since the calls that the remaining ones answer are unknown. The other content stays if a result of
    /// the message moved.
    fn rest(&self, draft: &Draft<'a>, moved_parts: &[Range<usize>], share: MovedShare) -> Option<Turn<'a>> {
        let is_of_others = draft.visibility == Visibility::WithCalls;
        if share == MovedShare::Whole || (is_of_others && share == MovedShare::Nothing) {
            return None;
        }
        let becomes_text = self.passes.has(Pass::OrphanResults);
        let other_results = if is_of_others { ranges(&draft.parts) } else { Vec::new() };
        let stays =
            |index: &usize| !moved_parts.iter().chain(&other_results).any(|range| range.contains(index));
        let converted = |index: usize| {
            let part = &draft.parts[index];
            if becomes_text { self.as_text(part) } else { part.clone() }
        };
        let parts: Vec<Part> = (0..draft.parts.len()).filter(stays).map(converted).collect();
        let role = if becomes_text { Role::User } else { Role::Tool };
        (!parts.is_empty()).then(|| Turn::new(role, draft.exchange, vec![draft.piece_with(parts)]))
    }

    /// Turns a result without a call into a text.
    fn as_text(&self, part: &Part) -> Part {
        let Part::ToolResult { call_id, name, text, is_error } = part else {
            return part.clone();
        };
        let kind = if *is_error { "failed result" } else { "result" };
        let called_tool = call_id.as_deref().and_then(|id| self.tool_names.get(id).copied());
        let tool = name.as_deref().or(called_tool).unwrap_or("unknown");
        let why =
            if called_tool.is_some() { "whose call has another one" } else { "whose call is not in view" };
        Part::Text(format!("[{kind} of the tool {tool}, {why}]\n{text}"))
    }
}

fn spans(drafts: &[Draft<'_>], draft: usize) -> Vec<ResultSpan> {
    let ranges = ranges(&drafts[draft].parts);
    ranges.into_iter().map(|parts| ResultSpan { draft, parts }).collect()
}

/// Returns the ranges of parts that make a result: the result and the images after it.
fn ranges(parts: &[Part]) -> Vec<Range<usize>> {
    let result_range = |start: usize| {
        let images = parts[start + 1..].iter().take_while(|part| matches!(part, Part::Attachment { .. }));
        start..start + 1 + images.count()
    };
    let starts = (0..parts.len()).filter(|&index| is_result(&parts[index]));
    starts.map(result_range).collect()
}
