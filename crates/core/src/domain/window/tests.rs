//! The window compared with the seeds: their named examples, and their algorithm as oracle.

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{
        message::{Format, Kind},
        tokens::{Characters, MESSAGE_OVERHEAD_TOKENS},
    },
    formats,
};

fn native(kind: &str, text: &str) -> Message {
    let payload = if kind == "tool_call" {
        serde_json::json!({"kind": kind, "content": text, "name": "t", "arguments": {}})
    } else {
        serde_json::json!({"kind": kind, "content": text})
    };
    formats::parse(Format::Native, &payload.to_string()).unwrap()
}

fn costing(kind: &str, tokens: i64) -> Message {
    let overhead = count_message(&Characters, &native(kind, ""));
    assert!(tokens >= overhead, "a {kind} costs {overhead} at least");
    native(kind, &"x".repeat(usize::try_from(tokens - overhead).unwrap()))
}

/// The seeds' window, which keeps the newest exchange whole, however long it is.
fn window(budget_tokens: i64) -> Window {
    Window::new(Budget::new(budget_tokens, 1.0).with_leg_tokens(0), Arc::new(Characters))
}

/// Pushes messages of these kinds and costs. Returns the evicted exchanges: number and message count.
fn push(window: &mut Window, messages: &[(&str, i64)]) -> Vec<(i64, usize)> {
    let mut left = Vec::new();
    for (kind, tokens) in messages {
        left.extend(window.push(costing(kind, *tokens), Timestamp(0)));
    }
    left.iter().map(|held| (held.exchange.exchange, held.messages.len())).collect()
}

fn kinds(window: &Window) -> Vec<&str> {
    window.messages().map(|message| message.kind.name()).collect()
}

/// The lecture's conversation, seed 004: of six requested messages the window has the four of the newest exchange.
#[test]
fn seed_004_the_newest_messages_are_cut_at_a_safe_boundary() {
    let said = [
        "user",
        "tool_call",
        "tool_result",
        "tool_call",
        "tool_result",
        "tool_call",
        "tool_result",
        "assistant",
        "user",
        "tool_call",
        "tool_result",
        "assistant",
    ];
    for (max_messages, kept) in [(0, 12), (12, 12), (11, 4), (6, 4), (4, 4), (1, 4)] {
        let budget = Budget::unlimited().with_max_messages(max_messages);
        let mut window = Window::new(budget, Arc::new(Characters));
        push(&mut window, &[("system", 20), ("usage", 0)]);
        push(&mut window, &said.map(|kind| (kind, 20)));
        let of_exchanges: usize = window.exchanges().map(|held| held.messages.len()).sum();
        assert_eq!(of_exchanges, kept, "{max_messages}");
        assert!(!window.is_over_budget());
    }
}

#[test]
fn the_tighter_limit_decides() {
    for (budget_tokens, max_messages, first) in
        [(1_000, 4, 4), (60, 4, 5), (100, 4, 4), (0, 1, 5), (60, 0, 5)]
    {
        let budget = Budget::new(budget_tokens, 1.0).with_max_messages(max_messages);
        let mut window = Window::new(budget, Arc::new(Characters));
        for _ in 0..5 {
            push(&mut window, &[("user", 20), ("assistant", 20)]);
        }
        let held = window.exchanges().next().map(|held| held.exchange.exchange);
        assert_eq!(held, Some(first), "{budget:?}");
    }
}

#[test]
fn an_exchange_too_big_by_itself_is_kept_refused_or_ends_the_session() {
    let outcomes = |on_overflow: OnOverflow| {
        let mut window = window(50).on_overflow(on_overflow);
        let tokens =
            [("user", 20), ("assistant", 20), ("user", 20), ("assistant", 40), ("usage", 0), ("user", 20)];
        let lines = tokens.map(|(kind, tokens)| {
            let message = if tokens == 0 { native(kind, "") } else { costing(kind, tokens) };
            match window.try_push(message, Timestamp(0)) {
                Ok(PushOutcome { session_ended: Some(session), .. }) => format!("ends {session}"),
                Ok(_) => format!("{}{}", window.tokens(), if window.is_over_budget() { "!" } else { "" }),
                Err(error) => format!("refuses {} > {}", error.tokens, error.budget_tokens),
            }
        });
        lines.join(", ")
    };
    assert_eq!(outcomes(OnOverflow::Evict), "20, 40, 20, 60!, 60!, 20");
    assert_eq!(outcomes(OnOverflow::End), "20, 40, 20, ends 1, 60!, 20");
    assert_eq!(outcomes(OnOverflow::Refuse), "20, 40, 20, refuses 60 > 50, 20, 40");
}

#[test]
fn a_budget_is_above_another_if_one_limit_is() {
    let budget = |tokens, messages| Budget::new(tokens, 1.0).with_max_messages(messages);
    for (after, before, is_above) in [
        (budget(10, 0), budget(10, 0), false),
        (budget(11, 0), budget(10, 0), true),
        (budget(0, 0), budget(10, 0), true),
        (budget(10, 0), budget(0, 0), false),
        (budget(10, 6), budget(10, 5), true),
        (budget(10, 0), budget(10, 5), true),
        (budget(10, 5), budget(10, 0), false),
        (budget(9, 6), budget(10, 5), true),
    ] {
        assert_eq!(after.is_above(before), is_above, "{after:?} {before:?}");
        assert!(!after.at_most(before).is_above(before), "{after:?} {before:?}");
    }
}

#[test]
fn seed_000_a_simple_exchange_leaves_whole() {
    let mut window = window(3_000);
    assert_eq!(push(&mut window, &[("user", 100), ("assistant", 2_000)]), []);
    assert_eq!(push(&mut window, &[("user", 1_000)]), [(1, 2)]);
    assert_eq!((kinds(&window), window.tokens()), (vec!["user"], 1_000));
}

#[test]
fn seed_000_a_tool_call_is_never_separated_from_its_result() {
    let mut window = window(5_000);
    let exchange_2 = [("user", 50), ("tool_call", 50), ("tool_result", 4_000), ("assistant", 400)];
    push(&mut window, &exchange_2);
    assert_eq!(push(&mut window, &[("user", 501)]), [(1, 4)]);
    assert_eq!(kinds(&window), ["user"]);
}

#[test]
fn seed_000_multiple_tool_calls_leave_together() {
    let mut window = window(9_000);
    let step = [("tool_call", 50), ("tool_result", 1_900)];
    let mut exchange_3 = vec![("user", 50)];
    exchange_3.extend(step.iter().cycle().take(8));
    exchange_3.push(("assistant", 50));
    assert_eq!(push(&mut window, &exchange_3), []);
    assert_eq!(window.messages().count(), 10);
    // All ten messages leave with the exchange.
    assert_eq!(push(&mut window, &[("user", 1_200), ("tool_call", 100)]), [(1, 10)]);
    assert_eq!(kinds(&window), ["user", "tool_call"]);
}

#[test]
fn seed_000_no_window_begins_with_half_an_exchange() {
    let mut window = window(20_000);
    for _ in 140..150 {
        push(&mut window, &[("user", 100), ("tool_call", 2_000), ("tool_result", 5_000), ("assistant", 900)]);
        assert_eq!(kinds(&window).first(), Some(&"user"));
        assert_eq!(kinds(&window).len() % 4, 0);
    }
    assert_eq!(window.tokens(), 16_000);
}

#[test]
fn seed_000_the_oldest_leave_until_under_budget() {
    let mut window = window(90);
    let left = push(&mut window, &[("user", 42), ("user", 38), ("user", 10), ("user", 52)]);
    // 142 tokens: evicting the first exchange isn't enough, evicting two is.
    assert_eq!((left, window.tokens()), (vec![(1, 1), (2, 1)], 62));
}

#[test]
fn seed_001_zero_disables() {
    let mut window = window(0);
    for _ in 0..200 {
        assert_eq!(push(&mut window, &[("user", 1_000), ("assistant", 1_000)]), []);
    }
    assert_eq!((window.tokens(), window.is_over_budget()), (400_000, false));
}

#[test]
fn seed_001_keeps_the_newest_turn_even_over_budget() {
    let mut window = window(100);
    assert_eq!(push(&mut window, &[("user", 60), ("assistant", 5_000), ("tool_result", 5_000)]), []);
    assert!(window.is_over_budget());
    assert_eq!(push(&mut window, &[("user", 4_000)]), [(1, 3)]);
    assert_eq!((window.messages().count(), window.is_over_budget()), (1, true));
    assert_eq!(push(&mut window, &[("user", 50)]), [(2, 1)]);
    assert!(!window.is_over_budget());
}

#[test]
fn seed_001_the_budget_is_a_ceiling_not_a_target() {
    let mut window = window(100);
    assert_eq!(push(&mut window, &[("user", 60), ("user", 40)]), [], "exactly the budget is fine");
    assert_eq!(push(&mut window, &[("user", 4)]), [(1, 1)]);
    assert_eq!(window.tokens(), 44, "well under it is fine, too");
}

#[test]
fn seed_001_metadata_kinds_are_free_and_leave_with_their_turn() {
    let mut window = window(30);
    let metadata = ["usage", "mark", "rewind", "agent_killed", "command", "fork"];
    window.push(costing("user", 20), Timestamp(0));
    for kind in metadata {
        window.push(native(kind, "a very long text that costs nothing at all"), Timestamp(0));
    }
    assert_eq!(window.tokens(), 20);
    assert_eq!(push(&mut window, &[("user", 20)]), [(1, 7)]);
}

#[test]
fn no_message_is_later_than_its_arrival() {
    let mut window = window(1_000);
    let time = |text: &str| Timestamp::parse(text).unwrap();
    let (past, now) = ("2026-11-20T08:40:00Z", time("2026-11-21T08:40:00Z"));
    for at in [past, "3026-11-20T08:40:00Z"] {
        let line = format!(r#"{{"kind":"user","content":"Hi","at":"{at}"}}"#);
        window.push(formats::parse(Format::Native, &line).unwrap(), now);
    }
    let said: Vec<_> = window.exchanges().map(|held| held.exchange.opened_at).collect();
    assert_eq!(said, [time(past), now]);
}

#[test]
fn a_clear_empties_the_window() {
    let mut window = window(100);
    push(&mut window, &[("system", 5), ("user", 20), ("assistant", 20)]);
    let left = window.push(native("clear", ""), Timestamp(0));
    assert_eq!(left.iter().map(|held| held.messages.len()).collect::<Vec<_>>(), [3]);
    assert_eq!((window.tokens(), window.messages().count()), (0, 0));
    push(&mut window, &[("system", 7), ("user", 20)]);
    assert_eq!((window.tokens(), window.messages().count()), (27, 2));
}

#[test]
fn seed_001_the_system_prompt_is_counted_and_stays() {
    let mut window = window(100);
    push(&mut window, &[("system", 50), ("user", 30)]);
    assert_eq!(push(&mut window, &[("user", 30)]), [(1, 1)]);
    assert_eq!((kinds(&window), window.tokens()), (vec!["system", "user"], 80));
}

#[test]
fn seed_001_an_assistant_message_costs_its_overhead_at_least() {
    let mut window = window(0);
    push(&mut window, &[("assistant", MESSAGE_OVERHEAD_TOKENS)]);
    assert_eq!(window.tokens(), MESSAGE_OVERHEAD_TOKENS);
}

/// Seed 004: a safe cut point is a user message that is not a tool result.
#[test]
fn seed_004_a_user_message_that_is_a_tool_result_opens_no_exchange() {
    let mut window = window(0);
    let lines = [
        r#"{"role":"user","content":"task"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"edit","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"edit","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"ok"},{"type":"text","text":"go on"}]}"#,
        r#"{"role":"assistant","content":"text"}"#,
        r#"{"role":"user","content":"next request"}"#,
    ];
    for line in lines {
        window.push(formats::parse(Format::Anthropic, line).unwrap(), Timestamp(0));
    }
    let held: Vec<usize> = window.exchanges().map(|held| held.messages.len()).collect();
    assert_eq!(held, [6, 1]);
}

/// Seed 000's algorithm, literally: detect the exchanges, add up, remove the oldest while there are too many tokens.
#[derive(Default)]
struct Seed {
    preamble_tokens: i64,
    exchanges: Vec<(i64, Vec<i64>)>,
    first: i64,
    seen: i64,
}

impl Seed {
    fn push(&mut self, kind: &str, tokens: i64, budget: Budget) {
        let is_leading = self.exchanges.is_empty() && self.seen == 0;
        if kind == "user" || (is_leading && !matches!(kind, "system" | "mark")) {
            self.seen += 1;
            self.exchanges.push((self.seen, Vec::new()));
        }
        match self.exchanges.last_mut() {
            Some((_, messages)) => messages.push(tokens),
            None => self.preamble_tokens += tokens,
        }
        if budget.is_exceeded_by(self.tokens()) {
            while self.tokens() > budget.low_water_tokens() && self.exchanges.len() > 1 {
                self.exchanges.remove(0);
            }
        }
        self.first = self.exchanges.first().map_or(1, |(number, _)| *number);
    }

    fn tokens(&self) -> i64 {
        self.preamble_tokens + self.exchanges.iter().flat_map(|(_, messages)| messages).sum::<i64>()
    }
}

proptest! {
    #[test]
    fn the_window_decides_as_seed_000_does(
        said in prop::collection::vec(
            (prop::sample::select(vec!["user", "user", "assistant", "tool_call", "tool_result", "system", "mark"]), 0_i64..80),
            0..80,
        ),
        budget_tokens in 0_i64..500,
        low_water in 0.0_f64..=1.0,
    ) {
        let budget = Budget::new(budget_tokens, low_water).with_leg_tokens(0);
        let (mut window, mut seed) = (Window::new(budget, Arc::new(Characters)), Seed::default());
        let mut left = Vec::new();
        for (kind, tokens) in said {
            let message = native(kind, &"x".repeat(usize::try_from(tokens).unwrap()));
            let tokens = count_message(&Characters, &message);
            left.extend(window.push(message, Timestamp(0)).into_iter().map(|held| held.exchange.exchange));
            seed.push(kind, tokens, budget);
            let held: Vec<(i64, usize)> =
                window.exchanges().map(|held| (held.exchange.exchange, held.messages.len())).collect();
            let expected: Vec<(i64, usize)> =
                seed.exchanges.iter().map(|(number, messages)| (*number, messages.len())).collect();
            prop_assert_eq!(held, expected);
            prop_assert_eq!(window.tokens(), seed.tokens());
            prop_assert_eq!(left.len(), usize::try_from(seed.first - 1).unwrap());
        }
        prop_assert!(left.iter().copied().eq(1..seed.first));
    }
}

#[test]
fn a_context_of_the_window_has_all_of_its_messages() {
    let mut window = window(100);
    push(&mut window, &[("system", 20), ("user", 20), ("assistant", 20), ("user", 30)]);
    let input = window.context_input();
    assert_eq!((input.preamble.len(), input.exchanges.len(), input.evicted), (1, 2, false));
    assert_eq!(input.preamble[0].tokens, Some(20));
    push(&mut window, &[("assistant", 15)]);
    let input = window.context_input();
    let [newest] = input.exchanges.as_slice() else {
        panic!("{} exchanges", input.exchanges.len());
    };
    assert_eq!((newest.exchange, input.evicted), (2, true));
    let found: Vec<(i64, &str, Option<i64>)> = newest
        .messages
        .iter()
        .map(|stored| (stored.seq, stored.message.kind.name(), stored.tokens))
        .collect();
    assert_eq!(found, [(4, "user", Some(30)), (5, "assistant", Some(15))]);
}

/// A request of 20 tokens and rounds of 100.
fn long_exchange(rounds: usize) -> Vec<(&'static str, i64)> {
    let work = [("tool_call", 30), ("tool_result", 70)].repeat(rounds);
    [vec![("user", 20)], work].concat()
}

#[test]
fn a_long_exchange_leaves_leg_by_leg_and_keeps_its_request() {
    let budget = Budget::new(1_000, 0.8).with_leg_tokens(300);
    let mut window = Window::new(budget, Arc::new(Characters));
    let left = push(&mut window, &long_exchange(40));
    assert_eq!(left[..3], [(1, 7), (2, 6), (3, 6)]);
    assert!(window.tokens() <= 1_000 && !window.is_over_budget());
    let input = window.context_input();
    let request = input.request.unwrap();
    assert_eq!((request.exchange, request.message.seq), (1, 1));
    assert_eq!(request.message.message.kind, Kind::User);
    let are_legs = |exchange: &SourceExchange<'_>| exchange.first_leg == 1 && exchange.is_open;
    assert!(input.exchanges.iter().all(are_legs));
    // The next exchange has another request.
    push(&mut window, &[("assistant", 20), ("user", 20)]);
    let input = window.context_input();
    assert_eq!(input.exchanges.last().map(|newest| newest.is_open), Some(true));
    let earlier = input.exchanges.iter().rev().skip(1);
    assert!({ earlier }.all(|exchange| !exchange.is_open));
}

#[test]
fn each_preset_behaves_like_its_origin_in_a_long_exchange() {
    use crate::domain::{
        preset::{Basis, Preset},
        settings::AgentSettings,
    };
    let run = |preset, rounds| {
        let settings =
            AgentSettings { preset: Some(preset), budget_tokens: Some(30_000), ..AgentSettings::default() };
        let settings = settings.expanded(&Basis::default());
        let budget = settings.budget(Budget::new(30_000, 0.8));
        let mut window =
            Window::new(budget, Arc::new(Characters)).on_overflow(settings.on_overflow.unwrap_or_default());
        let (mut left, mut ended) = (0, 0);
        for (kind, tokens) in long_exchange(rounds) {
            let pushed = window.try_push(costing(kind, tokens), Timestamp(0)).unwrap();
            left += pushed.evicted.len();
            ended += usize::from(pushed.session_ended.is_some());
        }
        (left > 0, ended, window.is_over_budget())
    };
    // Seeds 000 and 001: the newest exchange stays whole, however big, and is reported.
    assert_eq!(run(Preset::RequestLimit, 400), (false, 0, true));
    // Seed 002: it ends the session, once.
    assert_eq!(run(Preset::Dialogue, 400), (false, 1, true));
    // Seed 004: the newest exchange stays whole, however many messages it has.
    assert_eq!(run(Preset::Chat, 400), (false, 0, true));
    // Seed 003 doesn't define this: its legs leave.
    assert_eq!(run(Preset::LongMemory, 400), (true, 0, false));
    assert_eq!(run(Preset::None, 400), (true, 0, false));
}
