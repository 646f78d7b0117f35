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
    /// The kind of the first block, which shows who wrote the message; `None` if the message has only texts of the host.
    pub author: Option<Kind>,
    /// The calls and results of the message, in order.
    pub pairs: Vec<PairEnd>,
}

impl From<&SentMessage> for MessageOutline {
    fn from(sent: &SentMessage) -> Self {
        Self { units: sent.units().collect(), author: sent.author().cloned(), pairs: sent.pairs().to_vec() }
    }
}

/// Returns the index of the first message after `beginning`. Returns `None` if the conversation begins differently, if no unit would
/// follow, or if the cut would separate a message's parts, or a call and its result.
pub fn cut(messages: &[impl Borrow<MessageOutline>], beginning: Beginning) -> Option<usize> {
    let units = messages.iter().flat_map(|message| message.borrow().units.iter());
    let last = beginning.units.checked_sub(1)?;
    if beginnings(0, units.copied()).nth(last)? != beginning.hash {
        return None;
    }
    let (mut units, mut index) = (0, 0);
    while units < beginning.units {
        units += messages[index].borrow().units.len();
        index += 1;
    }
    let rest = &messages[index..];
    let has_units = rest.iter().any(|message| !message.borrow().units.is_empty());
    (units == beginning.units && has_units && have_their_calls(rest)).then_some(index)
}

/// Returns true if the messages have the call of each of their results.
fn have_their_calls(messages: &[impl Borrow<MessageOutline>]) -> bool {
    let mut calls = HashSet::new();
    let mut has_message_before = false;
    messages.iter().map(Borrow::borrow).all(|message| {
        let have_calls = message.pairs.iter().all(|pair| match pair {
            PairEnd::Call(id) => {
                calls.insert(*id);
                true
            }
            PairEnd::Result(Some(id)) => calls.contains(id),
            // Such a result answers a call in the previous message.
            PairEnd::Result(None) => has_message_before,
        });
        has_message_before |= !message.units.is_empty();
        have_calls
    })
}
