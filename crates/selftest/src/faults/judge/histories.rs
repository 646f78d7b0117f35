//! Checks that the stored data is possible, given the acknowledged requests and those of unknown outcome.

use std::collections::{BTreeSet, HashMap};

use super::{
    super::{
        findings::Promise,
        ledger::{Door, History, RequestFate, Step, Turn, Utterance},
    },
    Breach,
    stored::{AgentRecord, Message},
};

/// Kinds of messages that don't come from writers, but from steps.
const STEPS: [&str; 5] = ["clear", "mark", "rewind", "pin", "unpin"];

/// Exchanges that were to be forgotten, by the owning agent's request or that of an agent that shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Forgettings {
    pub(super) done: BTreeSet<i64>,
    /// Of unknown outcome.
    pub(super) ambiguous: BTreeSet<i64>,
}

/// The breaches of one agent, and the markers that must not be found anywhere.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) breaches: Vec<Breach>,
    pub(super) forgotten: Vec<String>,
    pub(super) turns: u64,
    pub(super) tombstones: u64,
}

/// Compares an agent's messages with its history.
pub(super) fn check(
    agent: &str,
    history: &History,
    stored: &AgentRecord,
    forgettings: &Forgettings,
) -> Verdict {
    let mut bench = Bench::new(agent, stored);
    for turn in &history.turns {
        bench.turn(turn);
    }
    bench.order(history);
    bench.rewinds(history);
    bench.steps(history);
    bench.forgettings(forgettings);
    bench.strangers();
    let tombstones = stored.messages.iter().filter(|message| message.is_forgotten);
    bench.verdict.tombstones = tombstones.count() as u64;
    bench.verdict
}

/// The state of one agent's check.
struct Bench<'a> {
    agent: &'a str,
    stored: &'a AgentRecord,
    by_payload: HashMap<&'a str, Vec<usize>>,
    by_id: HashMap<&'a str, usize>,
    /// For each message: true if a turn accounts for it.
    is_known: Vec<bool>,
    /// The first message of each turn; `None` if the turn is forgotten or missing.
    places: Vec<Option<i64>>,
    /// Missing messages without an id: those acknowledged must have tombstones …
    unnamed: u64,
    /// … and these may.
    unnamed_maybe: u64,
    verdict: Verdict,
}

impl<'a> Bench<'a> {
    fn new(agent: &'a str, stored: &'a AgentRecord) -> Self {
        let mut by_payload: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut by_id = HashMap::new();
        for (place, message) in stored.messages.iter().enumerate() {
            if !message.is_forgotten {
                by_payload.entry(&message.payload).or_default().push(place);
            }
            if let Some(id) = &message.client_id {
                by_id.insert(id.as_str(), place);
            }
        }
        Self {
            agent,
            stored,
            by_payload,
            by_id,
            is_known: vec![false; stored.messages.len()],
            places: Vec::new(),
            unnamed: 0,
            unnamed_maybe: 0,
            verdict: Verdict::default(),
        }
    }

    fn breach(&mut self, promise: Promise, breach: &str) {
        let breach = format!("{}: {breach}", self.agent);
        self.verdict.breaches.push((promise, breach));
    }

    /// Checks that a turn's messages are all stored once, or none of them.
    fn turn(&mut self, turn: &Turn) {
        let said = turn.voice.turn(turn.number);
        let found: Vec<Option<usize>> = said.iter().map(|said| self.find(turn, said)).collect();
        let there = found.iter().flatten().count();
        let name = format!("turn {} by {}", turn.number, turn.voice.door.name());
        let is_named = said.iter().all(|said| said.id.is_some());
        if !is_named && there < said.len() {
            let times = (said.len() - there) as u64;
            match turn.fate {
                RequestFate::Acknowledged => self.unnamed += times,
                RequestFate::Ambiguous | RequestFate::Refused => self.unnamed_maybe += times,
            }
            // The count of tombstones shows whether they are forgotten.
            self.verdict.forgotten.extend(missing(&said, &found).map(|said| said.marker.clone()));
        } else if turn.fate == RequestFate::Acknowledged && there < said.len() {
            let missing = said.len() - there;
            self.breach(
                Promise::Kept,
                &format!("{missing} messages of {name} are missing, though it was acknowledged"),
            );
        } else if there > 0 && there < said.len() {
            self.breach(Promise::Other, &format!("{there} messages of {name} are there, not all"));
        }
        if turn.fate == RequestFate::Refused && there > 0 {
            self.breach(Promise::Other, &format!("{name} was refused, and is there"));
        }
        self.verdict.turns += u64::from(there == said.len());
        let first = found.first().copied().flatten();
        self.places.push(first.and_then(|place| Some(self.stored.messages.get(place)?.seq)));
    }

    /// The place of a message or its tombstone.
    fn find(&mut self, turn: &Turn, said: &Utterance) -> Option<usize> {
        let payload = said.payload.to_string();
        let places = self.by_payload.get(payload.as_str()).cloned().unwrap_or_default();
        if places.len() > 1 {
            let times = places.len();
            self.breach(Promise::Once, &format!("`{}` is stored {times} times", said.marker));
        }
        let place = match (places.first(), &said.id) {
            (Some(place), _) => *place,
            (None, Some(id)) => *self.by_id.get(id.as_str())?,
            (None, None) => return None,
        };
        let message = self.stored.messages.get(place)?;
        let by_sql = turn.voice.door == Door::Sql;
        let (is_forgotten, is_same) = (message.is_forgotten, message.payload.contains(&said.marker));
        if is_forgotten {
            self.verdict.forgotten.push(said.marker.clone());
        } else if places.is_empty() && !(by_sql && is_same) {
            self.breach(Promise::Kept, &format!("`{}` is stored with another text", said.marker));
        }
        if let Some(is_known) = self.is_known.get_mut(place) {
            *is_known = true;
        }
        Some(place)
    }

    /// Checks that a writer's turns are stored in the order of their acknowledgements.
    fn order(&mut self, history: &History) {
        let mut last: HashMap<String, (i64, u64)> = HashMap::new();
        let mut wrong = Vec::new();
        for (turn, place) in history.turns.iter().zip(&self.places) {
            let (RequestFate::Acknowledged, Some(seq)) = (turn.fate, *place) else {
                continue;
            };
            let door = turn.voice.door.name().to_owned();
            if let Some((before, number)) = last.insert(door.clone(), (seq, turn.number))
                && before > seq
            {
                wrong.push(format!("turn {} by {door} stands before turn {number}", turn.number));
            }
        }
        for wrong in wrong {
            self.breach(Promise::Other, &wrong);
        }
    }

    /// Messages from before a rewind and after its mark are set aside; messages after the last rewind aren't.
    fn rewinds(&mut self, history: &History) {
        let rewinds: Vec<_> = history
            .steps
            .iter()
            .filter_map(|asked| match asked.step {
                Step::Rewind(exchange) if asked.fate != RequestFate::Refused => Some((exchange, asked)),
                _ => None,
            })
            .collect();
        let has_ambiguous = rewinds.iter().any(|(_, asked)| asked.fate == RequestFate::Ambiguous);
        let mut wrong = Vec::new();
        for (turn, place) in history.turns.iter().zip(&self.places) {
            let (RequestFate::Acknowledged, Some(seq)) = (turn.fate, *place) else {
                continue;
            };
            let Some((exchange, is_set_aside)) = self.state(seq) else {
                continue;
            };
            let name = format!("turn {} by {}", turn.number, turn.voice.door.name());
            // An insert is acknowledged before it becomes a message.
            let is_by_sql = turn.voice.door == Door::Sql;
            let undone = rewinds.iter().find(|(to, asked)| {
                asked.fate == RequestFate::Acknowledged
                    && turn.span.is_before(asked.span)
                    && exchange > *to
                    && !is_by_sql
            });
            if let Some((to, _)) = undone
                && !is_set_aside
            {
                wrong.push(format!("{name} isn't set aside after a rewind to {to}"));
            }
            let is_after_all = rewinds.iter().all(|(_, asked)| asked.span.is_before(turn.span));
            if is_set_aside && is_after_all && !has_ambiguous {
                wrong.push(format!("{name} is set aside, though nothing was rewound after it"));
            }
        }
        for wrong in wrong {
            self.breach(Promise::Other, &wrong);
        }
    }

    /// The exchange of a message, and whether it is set aside.
    fn state(&self, seq: i64) -> Option<(i64, bool)> {
        let mut exchanges = self.stored.exchanges.iter();
        let holds = exchanges.find(|exchange| {
            exchange.source == self.agent && (exchange.first_seq..=exchange.last_seq).contains(&seq)
        })?;
        Some((holds.number, holds.is_set_aside))
    }

    /// Checks that there are as many steps as were acknowledged, and at most as many more as have an unknown outcome.
    fn steps(&mut self, history: &History) {
        for kind in ["mark", "rewind", "clear"] {
            let of = |fate: RequestFate| {
                let steps = history.steps.iter();
                steps.filter(|asked| asked.step.name() == kind && asked.fate == fate).count()
            };
            let (done, maybe) = (of(RequestFate::Acknowledged), of(RequestFate::Ambiguous));
            let found = self.stored.messages.iter().filter(|message| message.kind == kind).count();
            if !(done..=done + maybe).contains(&found) {
                let promise = if found < done { Promise::Kept } else { Promise::Once };
                self.breach(
                    promise,
                    &format!("{found} steps {kind}, {done} were acknowledged, {maybe} may be more"),
                );
            }
        }
    }

    /// Checks that exactly the requested messages are forgotten.
    fn forgettings(&mut self, forgettings: &Forgettings) {
        let mut wrong = Vec::new();
        for message in self.stored.messages.iter().filter(|message| !is_step(message)) {
            let is_done = forgettings.done.contains(&message.exchange);
            if is_done && !message.is_forgotten {
                wrong.push(format!(
                    "message {} of exchange {} isn't forgotten",
                    message.seq, message.exchange
                ));
            }
            if message.is_forgotten && !is_done && !forgettings.ambiguous.contains(&message.exchange) {
                wrong.push(format!("message {} is forgotten, and nobody asked for it", message.seq));
            }
        }
        for wrong in wrong {
            self.breach(Promise::Kept, &wrong);
        }
    }

    /// Every message without a turn is a step, or the tombstone of a message without an id.
    fn strangers(&mut self) {
        let rest = self.stored.messages.iter().zip(&self.is_known);
        let rest: Vec<&Message> = rest
            .filter_map(|(message, is_known)| (!is_known && !is_step(message)).then_some(message))
            .collect();
        let tombstones = rest.iter().filter(|message| message.is_forgotten).count() as u64;
        let strangers: Vec<&&Message> = rest.iter().filter(|message| !message.is_forgotten).collect();
        if let Some(first) = strangers.first() {
            let breach = format!("{} messages that nobody said: {} …", strangers.len(), first.payload);
            self.breach(Promise::Once, &breach);
        }
        if tombstones < self.unnamed {
            let missing = self.unnamed - tombstones;
            self.breach(
                Promise::Kept,
                &format!("{missing} messages are missing, though their turns were acknowledged"),
            );
        }
        if tombstones > self.unnamed + self.unnamed_maybe {
            let breach =
                format!("{tombstones} tombstones for {} messages", self.unnamed + self.unnamed_maybe);
            self.breach(Promise::Once, &breach);
        }
    }
}

fn is_step(message: &Message) -> bool {
    STEPS.contains(&message.kind.as_str())
}

fn missing<'s>(said: &'s [Utterance], found: &[Option<usize>]) -> impl Iterator<Item = &'s Utterance> {
    said.iter().zip(found.to_vec()).filter_map(|(said, found)| found.is_none().then_some(said))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            super::ledger::{Request, Span, Voice},
            stored::Exchange,
        },
        *,
    };
    use recapd_core::domain::number::i64_or_max;

    /// Three turns; the writer gave up on the second one.
    fn history(door: Door) -> History {
        let turn = |number: u64, fate: RequestFate| Turn {
            voice: Voice { agent: "a".to_owned(), door },
            number,
            fate,
            span: Span { begun: 10 * number, ended: 10 * number + 5 },
        };
        let fates = [RequestFate::Acknowledged, RequestFate::Ambiguous, RequestFate::Acknowledged];
        History {
            turns: (0..).zip(fates).map(|(number, fate)| turn(number, fate)).collect(),
            steps: Vec::new(),
        }
    }

    /// The stored data of these turns, each in an exchange of its own.
    fn stored(history: &History, turns: &[usize]) -> AgentRecord {
        let mut stored = AgentRecord::default();
        for (turn, exchange) in turns.iter().map(|turn| &history.turns[*turn]).zip(1..) {
            let first_seq = i64_or_max(stored.messages.len()) + 1;
            for (said, seq) in turn.voice.turn(turn.number).into_iter().zip(first_seq..) {
                stored.messages.push(Message {
                    seq,
                    exchange,
                    kind: "user".to_owned(),
                    client_id: said.id,
                    payload: said.payload.to_string(),
                    is_forgotten: false,
                });
            }
            stored.exchanges.push(Exchange {
                number: exchange,
                source: "a".to_owned(),
                first_seq,
                last_seq: i64_or_max(stored.messages.len()),
                ..Exchange::default()
            });
        }
        stored
    }

    fn breaches(history: &History, stored: &AgentRecord, forgettings: &Forgettings) -> String {
        let verdict = check("a", history, stored, forgettings);
        let breaches: Vec<String> = verdict.breaches.into_iter().map(|(_, breach)| breach).collect();
        breaches.join("; ")
    }

    fn bury(stored: &mut AgentRecord, exchange: i64) {
        for message in &mut stored.messages {
            if message.exchange == exchange {
                message.is_forgotten = true;
                message.payload = "{}".to_owned();
            }
        }
    }

    #[test]
    fn a_turn_of_unknown_outcome_may_be_stored_or_not() {
        for door in [Door::Ids, Door::Key, Door::Sql] {
            let history = history(door);
            for turns in [&[0, 1, 2][..], &[0, 2], &[0, 2, 1]] {
                let found = breaches(&history, &stored(&history, turns), &Forgettings::default());
                assert_eq!(found, "", "{door:?} {turns:?}");
            }
        }
    }

    #[test]
    fn impossible_data_is_a_breach() {
        let impossible: [(&[usize], &str); 3] =
            [(&[0, 1], "missing"), (&[0, 2, 2], "stored 2 times"), (&[2, 0], "stands before")];
        for door in [Door::Ids, Door::Key] {
            let history = history(door);
            for (turns, named) in impossible {
                let found = breaches(&history, &stored(&history, turns), &Forgettings::default());
                assert!(found.contains(named), "{door:?} {turns:?}: {found}");
            }
        }
        let history = history(Door::Ids);
        let mut torn = stored(&history, &[0, 1, 2]);
        torn.messages.remove(5);
        let found = breaches(&history, &torn, &Forgettings::default());
        assert!(found.contains("3 messages of turn 1 by ids are there, not all"), "{found}");
        let mut other = stored(&history, &[0, 2]);
        other.messages[0].payload = "{}".to_owned();
        let found = breaches(&history, &other, &Forgettings::default());
        assert!(found.contains("with another text"), "{found}");
    }

    #[test]
    fn only_requested_messages_may_be_forgotten() {
        for door in [Door::Ids, Door::Key] {
            let history = history(door);
            let mut buried = stored(&history, &[0, 2]);
            bury(&mut buried, 1);
            let done = Forgettings { done: [1].into(), ..Forgettings::default() };
            assert_eq!(breaches(&history, &buried, &done), "", "{door:?}");
            let verdict = check("a", &history, &buried, &done);
            assert!(verdict.forgotten.iter().any(|marker| marker.contains("-0-user")), "{door:?}");
            let found = breaches(&history, &buried, &Forgettings::default());
            assert!(found.contains("nobody asked for it"), "{found}");
            let found = breaches(&history, &stored(&history, &[0, 2]), &done);
            assert!(found.contains("isn't forgotten"), "{found}");
        }
    }

    #[test]
    fn a_rewind_sets_aside_only_messages_after_its_mark() {
        let mut history = history(Door::Ids);
        history.turns.remove(1);
        let rewind =
            |fate: RequestFate| Request { step: Step::Rewind(0), fate, span: Span { begun: 7, ended: 8 } };
        history.steps = vec![rewind(RequestFate::Acknowledged)];
        let sound = stored(&history, &[0, 1]);
        let rewound = |is_set_aside: [bool; 2]| {
            let mut stored = sound.clone();
            for (exchange, is_set_aside) in stored.exchanges.iter_mut().zip(is_set_aside) {
                exchange.is_set_aside = is_set_aside;
            }
            stored.messages.push(Message { seq: 9, kind: "rewind".to_owned(), ..Message::default() });
            stored
        };
        let nothing = Forgettings::default();
        assert_eq!(breaches(&history, &rewound([true, false]), &nothing), "");
        let found = breaches(&history, &rewound([false, true]), &nothing);
        assert!(found.contains("turn 0 by ids isn't set aside"), "{found}");
        assert!(found.contains("turn 2 by ids is set aside"), "{found}");
        let mut twice = rewound([true, false]);
        twice.messages.push(twice.messages[8].clone());
        assert!(breaches(&history, &twice, &nothing).contains("2 steps rewind"));
        history.steps = vec![rewind(RequestFate::Ambiguous)];
        assert_eq!(breaches(&history, &rewound([false, true]), &nothing), "");
    }
}
