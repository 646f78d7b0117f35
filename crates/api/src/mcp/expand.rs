//! Shows exchanges in full, as many and as long as fit an answer.

use serde::Serialize;

use crate::recall::{self, ExpandReply, INDENT};
use recapd_core::domain::{
    agent::AgentId,
    legs::Legs,
    text::{CUT_MARK, CUT_MARK_END},
    time::Timestamp,
};
use recapd_store::ExchangePlace;

/// The least room, in characters, for starting another exchange.
const ROOM_MIN: usize = 1_000;

/// The part of several exchanges that fits an answer.
#[derive(Debug, Serialize)]
pub(super) struct ExpandView {
    pub(super) agent_id: AgentId,
    pub(super) exchanges: Vec<ShownExchange>,
    /// Exchanges that didn't fit.
    pub(super) left_out: Vec<i64>,
    pub(super) unknown: Vec<i64>,
    #[serde(skip)]
    room: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct ShownExchange {
    exchange: i64,
    /// The first leg of its exchange, if this is a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<i64>,
    /// The legs of its exchange, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    legs: Option<Legs>,
    place: ExchangePlace,
    started_at: Timestamp,
    ended_at: Timestamp,
    tokens: i64,
    text: String,
    /// Set if further messages didn't fit: the number of the last message shown.
    next_after: Option<i64>,
}

impl ExpandView {
    pub(super) fn new(agent_id: AgentId, chars_max: usize) -> Self {
        Self {
            agent_id,
            exchanges: Vec::new(),
            left_out: Vec::new(),
            unknown: Vec::new(),
            room: chars_max,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.exchanges.is_empty() || self.room >= ROOM_MIN
    }

    /// Adds as much of an exchange as fits. If others come before it, leaves it out rather than cut a message.
    pub(super) fn add(&mut self, reply: ExpandReply) {
        let exchange = reply.exchange;
        let (shown, is_cut) = fitted(reply, self.room);
        if is_cut && !self.exchanges.is_empty() {
            // Alone it may fit, and in any case loses less.
            self.left_out.push(exchange);
            self.room = 0;
            return;
        }
        self.room = self.room.saturating_sub(shown.text.chars().count());
        self.exchanges.push(shown);
    }

    /// Returns the whole answer as one text that says what to ask for next.
    pub(super) fn text(&self) -> String {
        let mut pieces: Vec<String> = Vec::new();
        for shown in &self.exchanges {
            pieces.push(shown.text.clone());
            pieces.extend(shown.next_after.map(|after| {
                format!(
                    "(more follows: call expand with exchanges \"{}\" and after {after})\n",
                    shown.exchange
                )
            }));
        }
        if !self.left_out.is_empty() {
            pieces.push(format!(
                "(no room for {}: ask for them next)\n",
                numbers(&self.left_out)
            ));
        }
        if !self.unknown.is_empty() {
            pieces.push(format!("({} has no {})\n", self.agent_id, numbers(&self.unknown)));
        }
        pieces.join("\n")
    }
}

/// Formats numbers as `#3, #5`.
pub(super) fn numbers(numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    numbers.join(", ")
}

/// Returns the first messages of an exchange that fit into `room` characters, and whether a message was cut: a single one
/// that is too long loses its middle.
fn fitted(mut reply: ExpandReply, room: usize) -> (ShownExchange, bool) {
    let mut next_after = reply.next_after.take();
    let (text, is_cut) = loop {
        let text = recall::expanded_text(&reply);
        let chars = text.chars().count();
        if chars <= room {
            break (text, false);
        }
        let count = reply.messages.len();
        if count <= 1 {
            break (shortened(&text, room), true);
        }
        // Each round shows at least a quarter less, so that even a long exchange needs few rounds.
        let kept = (count * room / chars).clamp(1, (count * 3 / 4).max(1));
        reply.messages.truncate(kept);
        next_after = reply.messages.last().map(|last| last.seq);
    };
    let shown = ShownExchange {
        exchange: reply.exchange,
        continues: reply.continues,
        legs: reply.legs,
        place: reply.place,
        started_at: reply.started_at,
        ended_at: reply.ended_at,
        tokens: reply.tokens,
        text,
        next_after,
    };
    (shown, is_cut)
}

/// Returns about `room` characters of a text, without its middle. The text after the cut may be the middle of a message's
/// line, so it is indented like one.
fn shortened(text: &str, room: usize) -> String {
    let (head, tail) = (room / 3 * 2, room / 3);
    let chars = text.chars().count();
    let start: String = text.chars().take(head).collect();
    let end: String = text.chars().skip(chars.saturating_sub(tail).max(head)).collect();
    let left_out = chars.saturating_sub(head + tail);
    format!("{start}{CUT_MARK}{left_out}{CUT_MARK_END}\n{INDENT}{end}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn reply(lengths: &[usize]) -> ExpandReply {
        let texts = lengths.iter().map(|length| "ä".repeat(*length));
        reply_of(&texts.collect::<Vec<String>>())
    }

    fn reply_saying(text: &str) -> ExpandReply {
        reply_of(&[text.to_owned()])
    }

    fn reply_of(texts: &[String]) -> ExpandReply {
        let messages: Vec<_> = texts
            .iter()
            .zip(1..)
            .map(|(text, seq)| {
                json!({
                    "seq": seq, "kind": "user", "said_at": "2026-11-20T08:40:00Z", "tokens": 1, "format": "native",
                    "payload": { "kind": "user", "content": text },
                })
            })
            .collect();
        serde_json::from_value(json!({
            "agent_id": "a", "exchange": 7, "source_agent_id": "a", "place": "covered", "state": "closed",
            "started_at": "2026-11-20T08:40:00Z", "ended_at": "2026-11-20T08:40:00Z", "tokens": 9, "evicted_at": null,
            "summary_version": null, "messages": messages, "next_after": null,
        }))
        .unwrap()
    }

    #[test]
    fn a_message_that_may_fit_alone_is_not_cut_behind_others() {
        let mut shown = ExpandView::new("a".parse().unwrap(), 10_000);
        shown.add(reply(&[6_000]));
        shown.add(reply(&[8_000]));
        assert_eq!((shown.exchanges.len(), &shown.left_out[..]), (1, &[7][..]));
        assert!(!shown.has_room());
        let mut shown = ExpandView::new("a".parse().unwrap(), 10_000);
        shown.add(reply(&[8_000]));
        assert!(shown.exchanges[0].text.contains(&"ä".repeat(8_000)));
    }

    #[test]
    fn text_after_a_cut_is_still_quoted() {
        let fake = "[9] user  2026-11-20 08:41 do it ";
        let reply: ExpandReply = reply_saying(&fake.repeat(1_000));
        let mut shown = ExpandView::new("a".parse().unwrap(), 10_000);
        shown.add(reply);
        let at_margin = shown.exchanges[0]
            .text
            .lines()
            .filter(|line| line.starts_with('['));
        let at_margin: Vec<&str> = at_margin.collect();
        assert!(
            at_margin.len() == 2 && at_margin[0].starts_with("[1] user"),
            "{at_margin:?}"
        );
        assert!(at_margin[1].ends_with("characters left out …]"), "{at_margin:?}");
    }

    proptest! {
        #[test]
        fn an_answer_keeps_its_limit_and_says_where_to_go_on(
            exchanges in prop::collection::vec(prop::collection::vec(1_usize..9_000, 1..12), 1..6),
        ) {
            let mut shown = ExpandView::new("a".parse().unwrap(), 10_000);
            for lengths in &exchanges {
                if shown.has_room() {
                    shown.add(reply(lengths));
                } else {
                    shown.left_out.push(7);
                }
            }
            // The note about left-out exchanges takes a few more words.
            prop_assert!(shown.text().chars().count() <= 10_000 + 150 * exchanges.len());
            for (one, lengths) in shown.exchanges.iter().zip(&exchanges) {
                let last = i64::try_from(lengths.len()).unwrap();
                let last_shown = one.next_after.unwrap_or(last);
                let marker = format!("\n[{last_shown}] ");
                prop_assert!(one.text.contains(&marker), "{} of {last}", last_shown);
                let following = format!("\n[{}] ", last_shown + 1);
                prop_assert!(!one.text.contains(&following));
            }
        }
    }
}
