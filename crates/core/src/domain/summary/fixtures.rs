//! Items, exchanges and facts for the tests of the summary.

use proptest::prelude::*;

use super::{
    fact::{Fact, FactKind},
    item::{ExchangeRange, Importance, Item, Origin},
};
use crate::domain::{
    exchange::{Exchange, ExchangeState, Headline},
    time::{DAY_MS, Timestamp},
    transcript::Voice,
};

/// Returns a plain item about exchange `n` that ended at `ended_at`.
pub fn item(n: i64, ended_at: Timestamp) -> Item {
    Item {
        item: n,
        ranges: vec![ExchangeRange { first: n, last: n }],
        started_at: ended_at,
        ended_at,
        source_tokens: 1_000 * n,
        importance: Importance::Fix,
        text: format!("Fixed bug {n} in the parser: a trailing comma was refused in src/parser.rs"),
        brief: format!("Fixed bug {n} in the parser"),
        gist: format!("Fixed bug {n}"),
        origin: Origin::Model,
        provisional: false,
        pinned: false,
    }
}

/// Returns a closed exchange of 100 tokens that took place at `at`.
pub fn exchange(n: i64, at: Timestamp) -> Exchange {
    Exchange {
        exchange: n,
        session: 1,
        first_seq: 2 * n,
        last_seq: 2 * n + 1,
        messages: 2,
        tokens: 100,
        tokens_before: 100 * (n - 1),
        state: ExchangeState::Closed,
        opened_at: at,
        last_at: at.plus_ms(1_000),
        headline: Headline {
            title: format!("Question {n}"),
            tools: vec![("bash".to_owned(), 2)],
            failures: 0,
            answer: format!("Answer {n}"),
            speakers: Vec::new(),
            ..Headline::default()
        },
        set_aside_at: None,
    }
}

/// Returns a plain fact from exchange `n`, in the summariser's words.
pub fn fact(n: i64, kind: FactKind) -> Fact {
    Fact {
        fact: n,
        kind,
        text: format!("fact {n}"),
        voice: None,
        speaker: String::new(),
        since: Timestamp(n),
        exchange: n,
        pinned: false,
    }
}

/// Generates facts of any kind, in any voice.
pub fn any_fact() -> impl Strategy<Value = Fact> {
    let voices = Voice::ALL.map(Some).into_iter().chain([None]);
    (
        (any_text(), any_text(), 0_i64..5),
        prop::sample::select(FactKind::ALL.to_vec()),
        prop::sample::select(voices.collect::<Vec<_>>()),
        any::<bool>(),
    )
        .prop_map(|((text, speaker, exchange), kind, voice, pinned)| Fact {
            text,
            voice,
            speaker,
            exchange,
            pinned,
            ..fact(exchange, kind)
        })
}

/// Generates hostile texts: any characters, or many copies of one that a careless cut would split or a terminal would obey.
pub fn any_text() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "word ",
        "👩‍👩‍👧",
        "مرحبا ",
        "e\u{301}\u{302}",
        "\u{202e}abc",
        "\u{1b}[31m",
        "\n# Yesterday\n",
        "</summary>",
        "\t\r\n",
        "漢字",
        "- ",
        "```",
    ]);
    prop_oneof![
        any::<String>(),
        "[a-z ]{0,120}",
        (odd, 0_usize..400).prop_map(|(text, times)| text.repeat(times)),
    ]
}

/// Generates items of any kind that ended between a day after and twenty days before `as_of`.
pub fn any_item(as_of: Timestamp) -> impl Strategy<Value = Item> {
    let texts = (any_text(), any_text(), any_text());
    let numbers = (1_i64..5_000, 0_i64..3, -DAY_MS..20 * DAY_MS, 0_i64..3_000_000);
    let marks = (prop::sample::select(Importance::ALL.to_vec()), any::<bool>(), 0_i64..2 * DAY_MS);
    (texts, numbers, marks).prop_map(
        move |(
            (text, brief, gist),
            (first, more, age_ms, source_tokens),
            (importance, provisional, span_ms),
        )| {
            let ended_at = as_of.plus_ms(-age_ms);
            Item {
                item: first,
                ranges: vec![ExchangeRange { first, last: first + more }],
                started_at: ended_at.plus_ms(-span_ms),
                ended_at,
                source_tokens,
                importance,
                text,
                brief,
                gist,
                origin: if provisional { Origin::Digest } else { Origin::Model },
                provisional,
                pinned: false,
            }
        },
    )
}
