//! Finds where a conversation can be cut in two.

use std::{borrow::Borrow, collections::HashSet};

use super::{PairEnd, SentMessage};
use crate::domain::{
    continuation::{Beginning, ContentUnit, beginnings},
    message::Kind,
};

/// The parts of a message that matter for a cut.
#[derive(Clone, Debug, Default)]
pub struct MessageOutline {
    /// The units of all blocks, in order.
    pub units: Vec<ContentUnit>,
    /// Who says it; `None` if it has only texts of the host.
    pub author: Option<Kind>,
    /// The sides of tool calls in it, in order.
    pub pairs: Vec<PairEnd>,
}

impl From<&SentMessage> for MessageOutline {
    fn from(sent: &SentMessage) -> Self {
        Self {
            units: sent.units().collect(),
            author: sent.author().cloned(),
            pairs: sent.pairs().to_vec(),
        }
    }
}

/// Returns the index of the first message after the beginning `before`. Returns `None` if the conversation begins differently, if nothing
/// would be left, or if the cut would separate a message's parts, or a call and its result.
pub fn cut(messages: &[impl Borrow<MessageOutline>], before: Beginning) -> Option<usize> {
    let units = messages.iter().flat_map(|message| message.borrow().units.iter());
    let last = before.units.checked_sub(1)?;
    if beginnings(0, units.copied()).nth(last)? != before.hash {
        return None;
    }
    let (mut units, mut at) = (0, 0);
    while units < before.units {
        units += messages[at].borrow().units.len();
        at += 1;
    }
    let kept = &messages[at..];
    let is_left = kept.iter().any(|message| !message.borrow().units.is_empty());
    (units == before.units && is_left && have_their_calls(kept)).then_some(at)
}

/// Returns true if the messages have the call of each of their results.
fn have_their_calls(messages: &[impl Borrow<MessageOutline>]) -> bool {
    let mut calls = HashSet::new();
    let mut is_first = true;
    messages.iter().map(Borrow::borrow).all(|message| {
        // A result without an id belongs to the message before.
        let has_message_before = !is_first;
        is_first &= message.units.is_empty();
        message.pairs.iter().all(|pair| match pair {
            PairEnd::Call(id) => {
                calls.insert(*id);
                true
            }
            PairEnd::Result(Some(id)) => calls.contains(id),
            PairEnd::Result(None) => has_message_before,
        })
    })
}
