//! Puts results next to their calls. Tools answer in any order, and many formats name the tool only in the call.

use super::{Line, Voice};

/// A result may match this many of the newest open calls.
const OPEN_CALLS_MAX: usize = 256;

/// A line, and the id that links a result to its call.
pub(super) struct LinkedLine<'a> {
    pub(super) line: Line,
    pub(super) id: Option<&'a str>,
}

struct OpenCall<'a> {
    /// The index of its line.
    index: usize,
    id: Option<&'a str>,
    /// Calls with the same number belong to one batch: only texts of the model stand between them.
    batch: usize,
}

/// Moves each result right after its call and labels it with the tool's name. Everything else keeps its order. Leaves out successful
/// results without text.
pub(super) fn side_by_side(lines: Vec<LinkedLine<'_>>) -> Vec<Line> {
    let calls = calls_of(&lines);
    let mut lines: Vec<Option<Line>> = lines.into_iter().map(|linked| Some(linked.line)).collect();
    let mut results = vec![None; lines.len()];
    for (index, call) in calls.iter().enumerate() {
        let Some(call) = *call else { continue };
        let Some(mut result) = lines.get_mut(index).and_then(Option::take) else {
            continue;
        };
        if let Some(Some(line)) = lines.get(call)
            && result.label.is_empty()
        {
            result.label.clone_from(&line.label);
        }
        if let Some(slot) = results.get_mut(call) {
            *slot = Some(result);
        }
    }
    let pairs = lines.into_iter().zip(results);
    let lines = pairs.flat_map(|(line, result)| [line, result]).flatten();
    lines
        .filter(|line| matches!(line.voice, Voice::Call | Voice::FailedResult) || !line.text.is_empty())
        .collect()
}

fn calls_of(lines: &[LinkedLine<'_>]) -> Vec<Option<usize>> {
    let mut open_calls: Vec<OpenCall<'_>> = Vec::new();
    let (mut batch, mut is_batch_over) = (0, true);
    let mut calls = Vec::with_capacity(lines.len());
    for (index, linked) in lines.iter().enumerate() {
        let mut call = None;
        match linked.line.voice {
            // A call by which the model speaks has the id of a call.
            voice if voice == Voice::Call || voice == Voice::Assistant && linked.id.is_some() => {
                batch += usize::from(is_batch_over);
                is_batch_over = false;
                open_calls.push(OpenCall { index, id: linked.id, batch });
                if open_calls.len() > OPEN_CALLS_MAX {
                    open_calls.remove(0);
                }
            }
            Voice::Result | Voice::FailedResult => {
                is_batch_over = true;
                let found = by_id(&open_calls, linked.id).or_else(|| by_name(&open_calls, lines, linked));
                call = found.map(|found| open_calls.remove(found).index);
            }
            Voice::User | Voice::Program => is_batch_over = true,
            Voice::Assistant | Voice::Call => {}
        }
        calls.push(call);
    }
    calls
}

/// Returns the first open call of that id, in the latest batch that has one, since ids may repeat.
fn by_id(open: &[OpenCall<'_>], id: Option<&str>) -> Option<usize> {
    let id = id?;
    let newest = open.iter().rfind(|call| call.id == Some(id))?.batch;
    open.iter().position(|call| call.id == Some(id) && call.batch == newest)
}

/// Returns the first open call of that tool, in the latest batch that has one. A result that names no tool matches any tool. A result
/// with an id matches only a call without one. So an interrupted call doesn't get the result of a later call.
fn by_name(open: &[OpenCall<'_>], lines: &[LinkedLine<'_>], result: &LinkedLine<'_>) -> Option<usize> {
    let name = &result.line.label;
    let fits = |call: &OpenCall<'_>| {
        let is_tool = |linked: &LinkedLine<'_>| name.is_empty() || linked.line.label == *name;
        !(result.id.is_some() && call.id.is_some()) && lines.get(call.index).is_some_and(is_tool)
    };
    let newest = open.iter().rfind(|call| fits(call))?.batch;
    open.iter().position(|call| call.batch == newest && fits(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Timestamp;

    fn shown(lines: &[(Voice, &'static str, &str, &str)]) -> Vec<String> {
        let linked = lines.iter().map(|&(voice, id, label, text)| LinkedLine {
            id: Some(id).filter(|id| !id.is_empty()),
            line: Line { voice, label: label.to_owned(), text: text.to_owned(), at: Timestamp(0) },
        });
        let lines = side_by_side(linked.collect());
        lines.iter().map(|line| format!("{} {}", line.label, line.text)).collect()
    }

    #[test]
    fn results_in_another_order_are_moved_to_their_calls() {
        let lines = [
            (Voice::User, "", "", "look at both"),
            (Voice::Call, "a", "fetch", "one"),
            (Voice::Call, "b", "fetch", "two"),
            (Voice::FailedResult, "b", "", ""),
            (Voice::Result, "a", "", "fine"),
            (Voice::Assistant, "", "", "done"),
        ];
        assert_eq!(
            shown(&lines),
            [" look at both", "fetch one", "fetch fine", "fetch two", "fetch ", " done"]
        );
    }

    #[test]
    fn without_ids_the_oldest_call_of_the_tool_is_answered() {
        let lines = [
            (Voice::Call, "", "read", "a"),
            (Voice::Call, "", "edit", "b"),
            (Voice::Call, "", "read", "c"),
            (Voice::Result, "", "edit", "2"),
            (Voice::Result, "", "", "1"),
            (Voice::Result, "", "read", "3"),
        ];
        assert_eq!(shown(&lines), ["read a", "read 1", "edit b", "edit 2", "read c", "read 3"]);
    }

    #[test]
    fn without_ids_an_interrupted_call_gets_no_later_result() {
        let lines = [
            (Voice::Call, "", "read", "lost"),
            (Voice::User, "", "", "again"),
            (Voice::Call, "", "read", "a"),
            (Voice::Call, "", "read", "b"),
            (Voice::Result, "", "read", "1"),
            (Voice::Result, "", "read", "2"),
        ];
        assert_eq!(shown(&lines), ["read lost", " again", "read a", "read 1", "read b", "read 2"]);
    }

    #[test]
    fn a_repeated_id_means_the_latest_call() {
        let lines = [
            (Voice::Call, "1", "read", "lost"),
            (Voice::User, "", "", "again"),
            (Voice::Call, "1", "read", "a"),
            (Voice::Call, "1", "read", "b"),
            (Voice::Result, "1", "", "of a"),
            (Voice::Result, "1", "", "of b"),
            (Voice::Result, "9", "", "of nobody"),
        ];
        assert_eq!(
            shown(&lines),
            ["read lost", " again", "read a", "read of a", "read b", "read of b", " of nobody"]
        );
    }
}
