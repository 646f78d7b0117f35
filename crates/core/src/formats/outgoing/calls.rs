//! Decides the ids of calls and the names of tools in a request. Replaces a missing, repeated or invalid id or name, in the call and in
//! its result. The same turns always get the same replacements.

use std::{
    collections::{HashMap, HashSet},
    slice,
};

use super::{
    RequestFormat,
    spelling::{SpelledNames, Spelling},
};
use crate::domain::{
    context::Turn,
    message::{Part, Role},
};

/// The id and the tool name of a call and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) id: String,
    pub(super) tool: String,
}

/// The names of a turn's calls or results, taken one by one in their order.
pub(super) struct TurnCalls<'n>(slice::Iter<'n, Names>);

impl<'n> TurnCalls<'n> {
    pub(super) fn new(names: &'n [Names]) -> Self {
        Self(names.iter())
    }

    pub(super) fn next(&mut self) -> Names {
        self.0.next().cloned().unwrap_or_default()
    }
}

/// Returns a call's arguments as OpenAI requires them: JSON text that isn't empty.
pub(super) fn arguments_text(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

/// Returns the names of each turn's calls; for a turn of results, those of the turn before.
pub(super) fn names(target: RequestFormat, turns: &[Turn<'_>]) -> Vec<Vec<Names>> {
    let tool_names = turns.iter().flat_map(Turn::parts).filter_map(|part| match part {
        Part::ToolCall { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let tools = SpelledNames::new(Spelling::tool(target), tool_names);
    let mut ids = AssignedIds::new(Spelling::id(target));
    let mut all: Vec<Vec<Names>> = Vec::with_capacity(turns.len());
    for turn in turns {
        let names = if turn.role == Role::Tool {
            all.last().cloned().unwrap_or_default()
        } else {
            let calls = turn.parts().filter_map(|part| match part {
                Part::ToolCall { id, name, .. } => Some((id.as_deref().unwrap_or_default(), name)),
                _ => None,
            });
            let names = calls.map(|(id, name)| Names { id: ids.unique(id), tool: tools.of(name) });
            names.collect()
        };
        all.push(names);
    }
    all
}

/// The ids of the calls of a request, each given once.
struct AssignedIds {
    spelling: Spelling,
    ids: HashSet<String>,
    /// How often each id was requested.
    repeats: HashMap<String, u64>,
}

impl AssignedIds {
    fn new(spelling: Spelling) -> Self {
        Self { spelling, ids: HashSet::new(), repeats: HashMap::new() }
    }

    /// Returns `id` as the target accepts it, with a number if another call has it already.
    fn unique(&mut self, id: &str) -> String {
        let base = self.spelling.of(if id.is_empty() { "call" } else { id });
        let repeats = self.repeats.entry(base.clone()).or_default();
        loop {
            *repeats += 1;
            let id = match *repeats {
                1 => base.clone(),
                number => self.spelling.of(&format!("{base}_{number}")),
            };
            if self.ids.insert(id.clone()) {
                return id;
            }
        }
    }
}
