//! Watermarks, totals and coverage, computed anew from rows.

use super::{
    super::findings::Promise,
    Breach,
    stored::{AgentRecord, Exchange, Reach},
};

pub(super) fn check(agent: &str, stored: &AgentRecord) -> Vec<Breach> {
    let mut breaches = [numbers(agent, stored), watermarks(agent, stored)].concat();
    for exchange in stored.exchanges.iter().filter(|exchange| !exchange.is_preamble) {
        breaches.extend(exchange_state(agent, stored, exchange));
    }
    breaches.extend(totals(agent, stored));
    let inbox = stored.left_in_inbox;
    if inbox > 0 {
        let breach = format!("{agent}: {inbox} messages are left in the inbox");
        breaches.push((Promise::Drained, breach));
    }
    breaches
}

/// Messages and versions are numbered without gaps, and each message is in the exchange that it names.
fn numbers(agent: &str, stored: &AgentRecord) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let expected = (stored.fork_seq + 1..).zip(&stored.messages);
    if let Some((seq, message)) = expected.into_iter().find(|(seq, message)| *seq != message.seq) {
        let breach = format!("{agent}: message {} stands where {seq} should", message.seq);
        breaches.push((Promise::Kept, breach));
    }
    let last = stored.messages.last().map_or(stored.fork_seq, |message| message.seq);
    if last != stored.last_seq {
        let breach = format!("{agent}: the last message is {last}, {} is noted", stored.last_seq);
        breaches.push((Promise::Kept, breach));
    }
    let own = |number: i64| {
        let exchanges = &stored.exchanges;
        let place = exchanges.binary_search_by_key(&number, |exchange| exchange.number);
        let exchange = exchanges.get(place.ok()?)?;
        (exchange.source == agent).then_some(exchange)
    };
    let strays = stored.messages.iter().filter(|message| {
        own(message.exchange)
            .is_none_or(|exchange| !(exchange.first_seq..=exchange.last_seq).contains(&message.seq))
    });
    if let Some(stray) = strays.into_iter().next() {
        let breach = format!("{agent}: message {} is outside of exchange {}", stray.seq, stray.exchange);
        breaches.push((Promise::Other, breach));
    }
    let through = stored.versions.len();
    let is_chain = stored.versions.iter().copied().eq((1..).take(through));
    if !is_chain || stored.version.unwrap_or_default() != stored.versions.last().copied().unwrap_or_default()
    {
        let breach =
            format!("{agent}: versions are {:?}, the document has {:?}", stored.versions, stored.version);
        breaches.push((Promise::Once, breach));
    }
    breaches
}

fn live(stored: &AgentRecord) -> impl Iterator<Item = &Exchange> {
    let exchanges = stored.exchanges.iter();
    exchanges.filter(|exchange| !exchange.is_set_aside && !exchange.is_preamble)
}

fn watermarks(agent: &str, stored: &AgentRecord) -> Vec<Breach> {
    let mut breaches = Vec::new();
    if stored.summarized_through >= stored.first_exchange {
        let breach = format!(
            "{agent}: the summary reaches {}, into the window from {}",
            stored.summarized_through, stored.first_exchange
        );
        breaches.push((Promise::Once, breach));
    }
    let between = stored.summarized_through + 1..stored.first_exchange;
    let has_pending = live(stored).any(|exchange| between.contains(&exchange.number));
    if has_pending && !stored.is_pending {
        let breach = format!("{agent}: exchanges in {between:?} are pending, but pending_since is unset");
        breaches.push((Promise::Drained, breach));
    }
    breaches
}

/// A live exchange up to the watermark is covered once and was evicted. No exchange after it is covered, and none that is
/// set aside.
fn exchange_state(agent: &str, stored: &AgentRecord, exchange: &Exchange) -> Vec<Breach> {
    let number = exchange.number;
    let times =
        |reaches: &[Reach]| reaches.iter().filter(|(first, last)| (*first..=*last).contains(&number)).count();
    let (covered, evicted) = (times(&stored.covered), times(&stored.evicted));
    let is_behind = !exchange.is_set_aside && number <= stored.summarized_through;
    let mut breaches = Vec::new();
    // Set-aside exchanges between live ones may be within an item's range.
    if !exchange.is_set_aside && covered != usize::from(is_behind) {
        let promise = if covered == 0 { Promise::Kept } else { Promise::Once };
        let breach = format!(
            "{agent}: exchange {number} is covered {covered} times, the summary reaches {}",
            stored.summarized_through
        );
        breaches.push((promise, breach));
    }
    if !exchange.is_set_aside && exchange.source == agent && number < stored.first_exchange && evicted == 0 {
        let breach = format!("{agent}: exchange {number} left the window, and no eviction tells of it");
        breaches.push((Promise::Other, breach));
    }
    breaches
}

/// The running total of each exchange is the sum of the live ones before it.
fn totals(agent: &str, stored: &AgentRecord) -> Vec<Breach> {
    let live: Vec<&Exchange> = live(stored).collect();
    let wrong = live.windows(2).find_map(|pair| match pair {
        [before, after] if before.tokens_before + before.tokens != after.tokens_before => Some(after),
        _ => None,
    });
    let mut breaches = Vec::new();
    if let Some(wrong) = wrong {
        let breach =
            format!("{agent}: {} tokens are noted before exchange {}", wrong.tokens_before, wrong.number);
        breaches.push((Promise::Other, breach));
    }
    let boundary = live.iter().find(|exchange| exchange.number >= stored.first_exchange);
    if let Some(boundary) = boundary
        && boundary.tokens_before != stored.tokens_before_window
    {
        let breach = format!(
            "{agent}: {} tokens are noted before the window, there are {}",
            stored.tokens_before_window, boundary.tokens_before
        );
        breaches.push((Promise::Other, breach));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::{super::stored::Message, *};

    type Damage = fn(&mut AgentRecord);

    /// Three exchanges of two messages: one covered, one pending, one in the window.
    fn sound() -> AgentRecord {
        let exchange = |number: i64| Exchange {
            number,
            source: "a".to_owned(),
            first_seq: 2 * number - 1,
            last_seq: 2 * number,
            tokens: 10,
            tokens_before: 10 * (number - 1),
            ..Exchange::default()
        };
        let message = |seq: i64| Message { seq, exchange: (seq + 1) / 2, ..Message::default() };
        AgentRecord {
            first_exchange: 3,
            summarized_through: 1,
            is_pending: true,
            tokens_before_window: 20,
            last_seq: 6,
            messages: (1..=6).map(message).collect(),
            exchanges: (1..=3).map(exchange).collect(),
            covered: vec![(1, 1)],
            evicted: vec![(1, 2)],
            versions: vec![1],
            version: Some(1),
            ..AgentRecord::default()
        }
    }

    #[test]
    fn sound_data_has_no_breaches() {
        assert_eq!(check("a", &sound()), []);
    }

    #[test]
    fn each_damage_is_named() {
        let damages: [(&str, Damage); 12] = [
            ("message 4 stands where 3", |stored| {
                drop(stored.messages.remove(2));
            }),
            ("the last message is 5", |stored| drop(stored.messages.pop())),
            ("message 6 is outside", |stored| stored.messages[5].exchange = 2),
            ("versions are [1, 3]", |stored| stored.versions.push(3)),
            ("versions are []", |stored| stored.versions.clear()),
            ("into the window", |stored| stored.first_exchange = 1),
            ("pending_since is unset", |stored| stored.is_pending = false),
            ("exchange 1 is covered 0 times", |stored| stored.covered.clear()),
            ("exchange 1 is covered 2 times", |stored| {
                stored.covered.push((1, 1));
            }),
            ("exchange 2 is covered 1 times", |stored| {
                stored.covered.push((2, 2));
            }),
            ("exchange 2 left the window", |stored| {
                stored.evicted = vec![(1, 1)];
            }),
            ("tokens are noted before exchange 3", |stored| {
                stored.exchanges[1].tokens = 9;
            }),
        ];
        for (named, damage) in damages {
            let mut stored = sound();
            damage(&mut stored);
            let breaches = check("a", &stored);
            assert!(breaches.iter().any(|(_, breach)| breach.contains(named)), "{named}: {breaches:?}");
        }
    }
}
