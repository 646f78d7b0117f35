//! The ledger's invariants, over random messages and budgets, compared with the simplest possible bookkeeping.

use proptest::prelude::*;

use super::*;
use crate::domain::{message::Metadata, round::ResponsePart, time::MINUTE_MS};

#[derive(Clone, Debug)]
enum LedgerEvent {
    Said(LedgerEntry),
    Cleared,
}

fn entry(kind: Kind, tokens: i64, minutes: i64) -> LedgerEntry {
    LedgerEntry {
        is_request: kind == Kind::User,
        kind,
        interrupts: false,
        tokens,
        at: Timestamp(minutes * MINUTE_MS),
        line: String::new(),
        tools: Vec::new(),
        failures: 0,
        speaker: None,
        response: ResponsePart::default(),
    }
}

/// Sessions end after a silence of `idle_gap_ms`; no exchange is cut.
fn idle_after(idle_gap_ms: i64) -> Segmentation {
    Segmentation { idle_gap_ms, leg_tokens: 0 }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => Just(Kind::User),
        4 => Just(Kind::Assistant),
        3 => Just(Kind::ToolCall),
        3 => Just(Kind::ToolResult),
        1 => Just(Kind::System),
        1 => Just(Kind::Metadata(Metadata::Mark)),
        1 => Just(Kind::Metadata(Metadata::Interrupted)),
    ]
}

/// Messages of all kinds and sizes, with times that go back and forth, and occasional clears.
fn event_lists() -> impl Strategy<Value = Vec<LedgerEvent>> {
    let said = (kinds(), 0_i64..120, 0_i64..3_000, prop::bool::weighted(0.05));
    let event = prop_oneof![
        30 => said.prop_map(|(kind, tokens, minutes, interrupts)| {
            let tokens = if kind.is_conversation() { tokens } else { 0 };
            LedgerEvent::Said(LedgerEntry { interrupts, ..entry(kind, tokens, minutes) })
        }),
        1 => Just(LedgerEvent::Cleared),
    ];
    prop::collection::vec(event, 0..120)
}

fn budgets() -> impl Strategy<Value = Budget> {
    (0_i64..500, 0.0_f64..=1.0, 0_i64..200).prop_map(|(tokens, low_water, leg_tokens)| {
        Budget::new(tokens, low_water).with_leg_tokens(leg_tokens)
    })
}

/// Every row and eviction of a ledger, of which the ledger itself keeps only the newest.
#[derive(Default)]
struct FullLedger {
    preambles: Vec<Exchange>,
    exchanges: Vec<Exchange>,
    placed: Vec<i64>,
    evictions: Vec<Eviction>,
}

impl FullLedger {
    fn keep(&mut self, ledger: &Ledger, appended: &AppendEffect) {
        self.placed.push(appended.exchange);
        assert_eq!(usize::try_from(appended.seq), Ok(self.placed.len()));
        let kept = [(&mut self.preambles, &ledger.preamble), (&mut self.exchanges, &ledger.newest)];
        for (all, latest) in kept {
            if let Some(latest) = latest {
                all.retain(|kept| kept.exchange != latest.exchange);
                all.push(latest.clone());
            }
        }
    }

    /// The cut as the design defines it: the first exchange with at least that many tokens before it.
    fn cut(&self, overflow: Overflow) -> Option<CutPoint> {
        let far_enough = |kept: &&Exchange| kept.tokens_before >= overflow.tokens_before_min;
        self.exchanges
            .iter()
            .find(far_enough)
            .map(|kept| CutPoint { exchange: kept.exchange, tokens_before: kept.tokens_before })
    }
}

/// Applies the events and checks the ledger after each.
fn replay(events: &[LedgerEvent], budget: Budget, gap_ms: i64) -> (Ledger, FullLedger) {
    let (mut ledger, mut kept) = (Ledger::default(), FullLedger::default());
    for event in events {
        let before = ledger.clone();
        let evicted = match event {
            LedgerEvent::Cleared => ledger.clear(Timestamp(0)),
            LedgerEvent::Said(entry) => {
                let rules = Segmentation { leg_tokens: budget.leg_tokens(), ..idle_after(gap_ms) };
                let appended = ledger.append(entry, rules);
                check_leg(&before, &ledger, &appended, rules.leg_tokens);
                kept.keep(&ledger, &appended);
                assert!(ledger.session - before.session == i64::from(appended.new_session));
                ledger.overflow(budget).and_then(|overflow| ledger.evict_to(kept.cut(overflow), entry.at))
            }
        };
        check_boundary(&before, &ledger, evicted, &kept);
        if matches!(event, LedgerEvent::Said(_)) {
            check_fit(&ledger, budget, evicted, &kept);
        }
        kept.evictions.extend(evicted);
    }
    (ledger, kept)
}

/// A leg begins only where the model answers and the leg before is full; continuations name their exchange.
fn check_leg(before: &Ledger, ledger: &Ledger, appended: &AppendEffect, leg_tokens: i64) {
    let (Some(newest), Some(left)) = (&ledger.newest, &before.newest) else {
        return assert!(!appended.begins_leg);
    };
    let is_full = leg_tokens > 0 && left.leg_tokens() >= leg_tokens;
    assert!(is_full || !appended.begins_leg);
    let is_newest = newest.exchange == appended.exchange;
    assert_eq!(newest.is_later_leg() && is_newest && newest.first_seq == appended.seq, appended.begins_leg);
    if appended.begins_leg {
        assert_eq!(newest.first_leg(), left.first_leg());
        assert_eq!((newest.session, newest.leg_tokens()), (left.session, newest.tokens));
    }
}

fn check_boundary(before: &Ledger, ledger: &Ledger, evicted: Option<Eviction>, kept: &FullLedger) {
    match evicted {
        None => assert_eq!(ledger.first_exchange, before.first_exchange),
        Some(eviction) => {
            assert!(ledger.first_exchange > before.first_exchange);
            assert_eq!(
                (eviction.from_exchange, eviction.through_exchange),
                (before.first_exchange, ledger.first_exchange - 1)
            );
        }
    }
    let left = kept.exchanges.iter().filter(|e| e.exchange < ledger.first_exchange);
    assert_eq!(left.map(|e| e.tokens).sum::<i64>(), ledger.tokens_before_window);
    assert!(ledger.summarized_through < ledger.first_exchange);
}

fn check_fit(ledger: &Ledger, budget: Budget, evicted: Option<Eviction>, kept: &FullLedger) {
    let in_window: Vec<&Exchange> =
        kept.exchanges.iter().filter(|e| e.exchange >= ledger.first_exchange).collect();
    let tokens = in_window.iter().map(|e| e.tokens).sum::<i64>() + ledger.preamble_tokens();
    assert_eq!(tokens, ledger.window_tokens());
    assert_eq!(budget.is_exceeded_by(tokens), ledger.is_over_budget(budget));
    assert!(in_window.len() <= 1 || !ledger.is_over_budget(budget), "{tokens} of {budget:?}");
    if evicted.is_some() && in_window.len() > 1 {
        // Down to the low water, but no further.
        assert!(tokens <= budget.low_water_tokens());
        let last_left = kept.exchanges.iter().rfind(|e| e.exchange < ledger.first_exchange && e.tokens > 0);
        assert!(tokens + last_left.map_or(0, |e| e.tokens) > budget.low_water_tokens());
    }
}

proptest! {
    #[test]
    fn a_raised_budget_takes_back_the_exchanges_that_fit(
        events in event_lists(), budget in budgets(), raised in budgets(), covered in 0_i64..20,
    ) {
        let (mut ledger, kept) = replay(&events, budget, 0);
        ledger.summarized_through = covered.min(ledger.first_exchange - 1);
        let before = ledger.clone();
        let cut = ledger.room(raised).and_then(|room| {
            kept.exchanges.iter().find(|e| e.tokens_before >= room.tokens_before_min && e.exchange > before.summarized_through)
        });
        let cut = cut.map(|e| CutPoint { exchange: e.exchange, tokens_before: e.tokens_before });
        match cut.and_then(|cut| ledger.take_back(cut)) {
            None => prop_assert_eq!(&ledger, &before),
            Some(back) => {
                prop_assert!(ledger.summarized_through < ledger.first_exchange);
                prop_assert_eq!((back.from_exchange, back.through_exchange), (ledger.first_exchange, before.first_exchange - 1));
                prop_assert_eq!(back.tokens, ledger.window_tokens() - before.window_tokens());
                prop_assert!(raised.budget_tokens() == 0 || ledger.window_tokens() <= raised.low_water_tokens());
                prop_assert_eq!(ledger.overflow(raised), None);
            }
        }
    }

    #[test]
    fn the_window_fits_and_the_boundary_only_moves_forward(
        events in event_lists(), budget in budgets(), gap_minutes in 0_i64..2_000,
    ) {
        let (ledger, kept) = replay(&events, budget, gap_minutes * MINUTE_MS);
        let clears = events.iter().filter(|event| matches!(event, LedgerEvent::Cleared)).count();
        prop_assert!(budget.budget_tokens() > 0 || kept.evictions.len() <= clears);
        // Evictions are contiguous and add up.
        let mut next = FIRST_EXCHANGE;
        for eviction in &kept.evictions {
            prop_assert_eq!(eviction.from_exchange, next);
            next = eviction.through_exchange + 1;
        }
        prop_assert_eq!(next, ledger.first_exchange);
        let evicted: i64 = kept.evictions.iter().map(|eviction| eviction.tokens).sum();
        prop_assert_eq!(evicted, ledger.tokens_before_window);
    }

    #[test]
    fn each_message_is_in_exactly_one_exchange_and_totals_are_right(events in event_lists(), budget in budgets()) {
        let (ledger, kept) = replay(&events, budget, 0);
        let said: Vec<&LedgerEntry> = events
            .iter()
            .filter_map(|event| match event { LedgerEvent::Said(entry) => Some(entry), LedgerEvent::Cleared => None })
            .collect();
        let mut total = 0;
        let mut next_seq = 1;
        let mut all: Vec<(bool, &Exchange)> = kept.preambles.iter().map(|preamble| (true, preamble)).collect();
        all.extend(kept.exchanges.iter().map(|exchange| (false, exchange)));
        all.sort_by_key(|(_, exchange)| exchange.exchange);
        // Number 0 is missing only if the agent has no leading messages.
        let first_number = all.first().map_or(0, |(_, exchange)| exchange.exchange.min(1));
        for (number, (is_preamble, exchange)) in (first_number..).zip(all) {
            prop_assert_eq!((exchange.exchange, exchange.first_seq), (number, next_seq));
            prop_assert_eq!(exchange.tokens_before, if is_preamble { 0 } else { total });
            let messages: Vec<&LedgerEntry> = (exchange.first_seq..=exchange.last_seq)
                .map(|seq| said[usize::try_from(seq).unwrap() - 1])
                .collect();
            prop_assert_eq!(exchange.tokens, messages.iter().map(|entry| entry.tokens).sum::<i64>());
            prop_assert_eq!(Some(exchange.opened_at), messages.iter().map(|entry| entry.at).min());
            let (first, more) = messages.split_first().unwrap();
            let said = more.iter().filter(|entry| entry.kind.is_conversation());
            let last_at = said.map(|entry| entry.at).fold(first.at, Timestamp::max);
            prop_assert_eq!(exchange.last_at, last_at);
            // Only the first message may be one that opens an exchange.
            let opens = |entry: &&&LedgerEntry| entry.kind == Kind::User && !entry.interrupts;
            prop_assert!(messages.iter().skip(1).find(opens).is_none());
            next_seq = exchange.last_seq + 1;
            total = if is_preamble { total } else { exchange.tokens_through() };
        }
        prop_assert_eq!(next_seq, ledger.last_seq + 1);
        for (entry, exchange) in said.iter().zip(&kept.placed) {
            let is_preamble = kept.preambles.iter().any(|preamble| preamble.exchange == *exchange);
            prop_assert!(entry.kind != Kind::User || entry.interrupts || !is_preamble);
        }
    }

    #[test]
    fn only_silences_start_sessions(minutes in prop::collection::vec(0_i64..200, 1..40), gap in 1_i64..100) {
        let mut ledger = Ledger::default();
        let mut last: Option<i64> = None;
        let mut sessions = 1;
        for minute in minutes {
            ledger.append(&entry(Kind::User, 1, minute), idle_after(gap * MINUTE_MS));
            sessions += i64::from(last.is_some_and(|last| minute - last > gap));
            prop_assert_eq!(ledger.session, sessions);
            last = Some(minute);
        }
    }
}

#[test]
fn seed_000_one_user_message_one_exchange() {
    let mut ledger = Ledger::default();
    let kinds = [
        (Kind::User, Placement::Opens),
        (Kind::Assistant, Placement::Joins),
        (Kind::User, Placement::Opens),
        (Kind::ToolCall, Placement::Joins),
        (Kind::ToolResult, Placement::Joins),
        (Kind::Assistant, Placement::Joins),
        (Kind::User, Placement::Opens),
    ];
    for (kind, expected) in kinds {
        let entry = entry(kind, 1, 0);
        assert_eq!(ledger.place(&entry, 0), expected);
        ledger.append(&entry, Segmentation::default());
    }
    assert_eq!(ledger.last_exchange, 3);
}

#[test]
fn seed_000_an_interrupted_exchange_is_a_valid_boundary() {
    let mut ledger = Ledger::default();
    for kind in [Kind::User, Kind::ToolCall, Kind::ToolResult, Kind::User, Kind::Assistant] {
        ledger.append(&entry(kind, 10, 0), Segmentation::default());
    }
    let evicted = ledger.evict_to(None, Timestamp(0)).unwrap();
    assert_eq!((evicted.from_exchange, evicted.through_exchange, evicted.tokens), (1, 1, 30));
}

#[test]
fn seed_000_system_messages_within_an_exchange_stay_with_it() {
    let mut ledger = Ledger::default();
    for kind in [Kind::System, Kind::User, Kind::System, Kind::ToolCall, Kind::ToolResult, Kind::Assistant] {
        ledger.append(&entry(kind, 10, 0), Segmentation::default());
    }
    assert_eq!(ledger.preamble.as_ref().map(|preamble| preamble.last_seq), Some(1));
    assert_eq!(ledger.newest.as_ref().map(|newest| (newest.first_seq, newest.last_seq)), Some((2, 6)));
}

#[test]
fn an_interruption_opens_no_exchange() {
    let mut ledger = Ledger::default();
    ledger.append(&entry(Kind::User, 10, 0), Segmentation::default());
    let interrupt = LedgerEntry { interrupts: true, ..entry(Kind::User, 1, 0) };
    assert_eq!(ledger.append(&interrupt, Segmentation::default()).exchange, 1);
}

/// A program's text in the user's place belongs to the open exchange; before the first request it is an exchange of its own.
#[test]
fn a_programs_text_in_the_users_place_opens_no_exchange() {
    let mut ledger = Ledger::default();
    let programs = LedgerEntry { is_request: false, ..entry(Kind::User, 5, 0) };
    let request = entry(Kind::User, 10, 0);
    let said = [
        (&programs, 1),
        (&programs, 1),
        (&request, 2),
        (&programs, 2),
        (&entry(Kind::Assistant, 3, 0), 2),
        (&programs, 2),
        (&request, 3),
    ];
    for (entry, exchange) in said {
        assert_eq!(ledger.append(entry, Segmentation::default()).exchange, exchange);
    }
}

#[test]
fn late_messages_of_a_cleared_exchange_go_after_the_boundary() {
    let mut ledger = Ledger::default();
    ledger.append(&entry(Kind::User, 10, 0), Segmentation::default());
    ledger.append(&entry(Kind::ToolCall, 10, 0), Segmentation::default());
    assert_eq!(ledger.clear(Timestamp(0)).map(|left| left.tokens), Some(20));
    assert_eq!(ledger.clear(Timestamp(0)), None);
    assert_eq!(ledger.session, 3);
    assert_eq!((ledger.window_tokens(), ledger.pending_numbers()), (0, 1));
    for (kind, exchange) in [(Kind::ToolResult, 2), (Kind::Assistant, 2), (Kind::User, 3)] {
        assert_eq!(ledger.append(&entry(kind, 5, 0), Segmentation::default()).exchange, exchange);
    }
    assert_eq!(ledger.window_tokens(), 15);
}

#[test]
fn after_an_end_a_silence_starts_no_second_session() {
    let mut ledger = Ledger::default();
    ledger.append(&entry(Kind::User, 1, 0), idle_after(MINUTE_MS));
    ledger.session += 1;
    assert!(!ledger.append(&entry(Kind::User, 1, 500), idle_after(MINUTE_MS)).new_session);
    assert!(ledger.append(&entry(Kind::User, 1, 900), idle_after(MINUTE_MS)).new_session);
    assert_eq!(ledger.session, 3);
}

#[test]
fn leading_instructions_after_a_clear_are_the_new_preamble() {
    let mut ledger = Ledger::default();
    for kind in [Kind::System, Kind::User, Kind::Assistant] {
        ledger.append(&entry(kind, 10, 0), Segmentation::default());
    }
    let left = ledger.clear(Timestamp(0)).unwrap();
    assert_eq!((left.from_exchange, left.through_exchange, left.tokens), (1, 1, 20));
    assert_eq!((ledger.window_tokens(), ledger.preamble.clone()), (0, None));
    let placed: Vec<i64> = [Kind::System, Kind::System, Kind::User, Kind::System]
        .map(|kind| ledger.append(&entry(kind, 5, 0), Segmentation::default()).exchange)
        .to_vec();
    assert_eq!(placed, [2, 2, 3, 3]);
    assert_eq!((ledger.preamble_tokens(), ledger.window_tokens()), (10, 20));
    assert_eq!(ledger.newest.as_ref().map(|newest| newest.tokens_before), Some(20));
}

#[test]
fn after_a_rewind_messages_go_into_new_rows_after_the_mark() {
    let mut ledger = Ledger::default();
    for kind in [Kind::User, Kind::Assistant] {
        ledger.append(&entry(kind, 10, 0), Segmentation::default());
    }
    let (mark, held) = (ledger.mark(1), ledger.newest.clone());
    for kind in [Kind::User, Kind::User] {
        ledger.append(&entry(kind, 10, 0), Segmentation::default());
    }
    ledger.evict_to(None, Timestamp(0));
    ledger.summarized_through = 2;
    ledger.rewind(&mark, held);
    assert_eq!((ledger.first_exchange, ledger.summarized_through, ledger.window_tokens()), (1, 0, 20));
    // A message that would have joined the exchange opens a new row: rows stay contiguous.
    assert_eq!(ledger.append(&entry(Kind::Assistant, 7, 0), Segmentation::default()).exchange, 4);
    assert_eq!(ledger.append(&entry(Kind::User, 3, 0), Segmentation::default()).exchange, 5);
    assert_eq!(ledger.window_tokens(), 30);
}

/// After a fork or a rewind, a message that isn't the user's opens a row that continues the newest leg. So the earlier rows of that leg
/// aren't evicted either.
#[test]
fn all_rows_of_the_newest_leg_stay_in_the_window() {
    let budget = Budget::new(35, 1.0).with_max_messages(1);
    let mut ledger = Ledger::default();
    let [first, open] = [20, 10].map(|tokens| {
        ledger.append(&entry(Kind::User, tokens, 0), Segmentation::default());
        ledger.newest.clone().unwrap()
    });
    for (kind, tokens) in [(Kind::Metadata(Metadata::Mark), 0), (Kind::ToolResult, 30)] {
        // As if the message before were the parent's, or set aside.
        ledger.last_seq += 1;
        ledger.append(&entry(kind, tokens, 0), Segmentation::default());
        assert_eq!(ledger.floor(), Some(2));
    }
    let (overflow, cut) = (ledger.overflow(budget).unwrap(), CutPoint::before(&open));
    assert!(overflow.allows(cut) && !overflow.allows(CutPoint::before(&first)));
    let held = [&first, &open].map(WindowExchange::from);
    assert_eq!(ledger.message_overflow(budget, held.into_iter()), Some(cut));
    let left = ledger.evict_to(Some(cut), Timestamp(0)).unwrap();
    assert_eq!((left.through_exchange, ledger.window_tokens()), (1, 40));
    assert_eq!((ledger.overflow(budget), ledger.is_over_budget(budget)), (None, true));
    let refused = ledger.check_overflow(&entry(Kind::ToolResult, 30, 0), budget, OnOverflow::Refuse);
    assert_eq!(refused.map_err(|too_big| too_big.tokens), Err(40));
    // The user's next words are an exchange of their own.
    ledger.append(&entry(Kind::User, 1, 0), Segmentation::default());
    assert_eq!(ledger.floor(), Some(5));
}

/// The exchanges of a script's messages: `u:a` is a user's message by a, `m:` a model's without a name, `c:` a call, `r:` a result.
fn exchanges_of(script: &str) -> String {
    let mut ledger = Ledger::default();
    let mut exchanges: Vec<String> = Vec::new();
    for word in script.split(' ') {
        let (kind, speaker) = word.split_once(':').unwrap();
        let kind = match kind {
            "u" => Kind::User,
            "m" => Kind::Assistant,
            "c" => Kind::ToolCall,
            _ => Kind::ToolResult,
        };
        let entry =
            LedgerEntry { speaker: (!speaker.is_empty()).then(|| speaker.to_owned()), ..entry(kind, 1, 0) };
        let exchange = usize::try_from(ledger.append(&entry, Segmentation::default()).exchange).unwrap();
        exchanges.resize(exchange.max(exchanges.len()), String::new());
        let words = &mut exchanges[exchange - 1];
        words.push_str(if words.is_empty() { "" } else { " " });
        words.push_str(word);
    }
    exchanges.join(" | ")
}

#[test]
fn an_exchange_has_one_turn_of_each_speaker_in_any_role() {
    for (script, expected) in [
        ("u:a m:b u:a m:b", "u:a m:b | u:a m:b"),
        ("m:a m:b m:a m:b", "m:a m:b | m:a m:b"),
        ("u:a u:b u:a u:b", "u:a u:b | u:a u:b"),
        // A human who steps in, or opens the conversation.
        ("u: m:a m:b m:a m:b", "u: m:a m:b | m:a m:b"),
        ("u: u:a m:b u:a", "u: | u:a m:b | u:a"),
        ("m:a u: m:b m:a", "m:a | u: m:b m:a"),
        // An exchange of three speakers has one message of each.
        ("m:a m:b m:c m:a m:b", "m:a m:b m:c | m:a m:b"),
        ("u:a u:b u:c u:a", "u:a u:b u:c | u:a"),
        // A speaker may say several things before another one answers.
        ("m:a m:a m:b m:b m:a", "m:a m:a m:b m:b | m:a"),
        // No exchange ends while a call waits.
        ("m:a m:b c:b m:a r: m:b m:a", "m:a m:b c:b m:a r: m:b | m:a"),
        // One model, and users who take turns with it.
        ("u:a m:x u:b m:x u:b m:x", "u:a m:x | u:b m:x | u:b m:x"),
        ("u: c:x r: m:x m:x u: m:x", "u: c:x r: m:x m:x | u: m:x"),
        ("u: u: m: m: m:", "u: | u: m: m: m:"),
    ] {
        assert_eq!(exchanges_of(script), expected, "{script}");
    }
}

#[test]
fn a_pair_of_models_has_a_title_and_an_answer() {
    for kind in [Kind::Assistant, Kind::User] {
        let mut ledger = Ledger::default();
        for (speaker, line) in [("a", "Rivers?"), ("b", "Water.")] {
            let entry = LedgerEntry {
                speaker: Some(speaker.to_owned()),
                line: line.to_owned(),
                ..entry(kind.clone(), 1, 0)
            };
            ledger.append(&entry, Segmentation::default());
        }
        assert_eq!(ledger.newest.unwrap().headline.digest(), "Rivers? → Water.");
    }
}
