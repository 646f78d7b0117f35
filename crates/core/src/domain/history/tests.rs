use proptest::prelude::*;

use super::*;
use crate::domain::{
    exchange::Headline,
    summary::fixtures::{any_text, exchange},
    text::ascii,
    time::{HOUR_MS, MINUTE_MS},
};

const NOW: Timestamp = Timestamp(1_767_600_000_000);

fn shown(n: i64, title: &str, age_ms: i64, tokens: i64, lines: &[(Voice, &str)]) -> HistoryExchange {
    let mut row = exchange(n, NOW.plus_ms(-age_ms));
    row.last_at = row.opened_at;
    row.tokens = tokens;
    row.headline = Headline { title: title.to_owned(), ..Headline::default() };
    HistoryExchange {
        exchange: row,
        evicted_at: None,
        summary_version: None,
        lines: lines
            .iter()
            .map(|&(voice, text)| HistoryLine { voice, text: text.to_owned(), tokens: None })
            .collect(),
    }
}

/// Seed 000's example, with the numbers of a longer history.
fn example() -> HistoryView {
    let mut exchanges = vec![
        shown(38, "Implement auth", 3 * HOUR_MS, 4_200, &[]),
        shown(39, "Add tests", 2 * HOUR_MS, 3_800, &[]),
        shown(
            40,
            "Refactor errors",
            HOUR_MS,
            8_500,
            &[
                (Voice::User, "Refactor error handling to use Result<T>"),
                (Voice::Call, "file_read src/errors.h"),
                (Voice::Call, "file_edit src/errors.c"),
                (Voice::Assistant, "Refactored to Result<T> pattern"),
            ],
        ),
        shown(
            41,
            "Update docs",
            30 * MINUTE_MS,
            5_200,
            &[
                (Voice::User, "Document the new error handling"),
                (Voice::Call, "file_write docs/errors.md"),
                (Voice::Assistant, "Documentation updated"),
            ],
        ),
        shown(42, "Add logging", 0, 2_100, &[(Voice::User, "Add structured logging")]),
    ];
    exchanges[0].evicted_at = Some(NOW.plus_ms(-2 * HOUR_MS));
    exchanges[0].summary_version = Some(16);
    exchanges[4].exchange.state = ExchangeState::Open;
    HistoryView {
        agent: "ikigai-main".parse().unwrap(),
        budget: Budget::new(90_000, 0.8),
        summary: Some(HistorySummary { version: 17, tokens: 7_800, max_tokens: 10_000 }),
        first_exchange: 40,
        summarized_through: 38,
        window_tokens: 15_800,
        exchanges,
        archived_total: 39,
        window_total: 3,
        convergence: None,
        now: NOW,
    }
}

/// The example, in which the exchanges after #`first` are its later legs.
fn in_legs(first: i64) -> HistoryView {
    let mut view = example();
    for shown in view.exchanges.iter_mut().filter(|shown| shown.exchange.exchange > first) {
        shown.lines.clear();
        shown.exchange.headline = Headline {
            answer: format!("Step {} is done", shown.exchange.exchange),
            continues: Some(first),
            leg_from: Some(shown.exchange.exchange),
            ..Headline::default()
        };
    }
    view
}

#[test]
fn legs_stand_below_a_heading() {
    insta::assert_snapshot!(render_text(&in_legs(39), 78), @r"
    recapd history ikigai-main               budget 90k · summary v17, 7.8k of 10k

      ARCHIVE · not sent to the model                         2 of 39 shown, --all
      #38    Implement auth           3h ago   4.2k   summarised since v16
      #39    Add tests                2h ago   3.8k   waiting for the next summary

    ──────── the model sees from here · 15.8k of 90k tokens · 18% ────────────────

      WINDOW
      #40–#42  three legs of exchange #39
        #40  Step 40 is done          1h ago   8.5k
        #41  Step 41 is done         30m ago   5.2k
        #42  Step 42 is done             now   2.1k   open
    ");
    // Here no exchange is hidden between archive and window, so all legs of the exchange are known.
    let mut view = in_legs(38);
    view.first_exchange = 43;
    (view.archived_total, view.window_total) = (42, 0);
    insta::assert_snapshot!(render_text(&view, 78), @r"
    recapd history ikigai-main               budget 90k · summary v17, 7.8k of 10k

      ARCHIVE · not sent to the model                         5 of 42 shown, --all
      #38–#42  one exchange in five legs
        #38  Implement auth           3h ago   4.2k   summarised since v16
        #39  Step 39 is done          2h ago   3.8k   waiting for the next summary
        #40  Step 40 is done          1h ago   8.5k   waiting for the next summary
        #41  Step 41 is done         30m ago   5.2k   waiting for the next summary
        #42  Step 42 is done             now   2.1k   waiting for the next summary

    ──────── the model sees from here · 15.8k of 90k tokens · 18% ────────────────

      WINDOW
      (empty)
    ");
    view.exchanges.drain(..3);
    view.exchanges.truncate(1);
    insta::assert_snapshot!(render_text(&view, 78), @r"
    recapd history ikigai-main               budget 90k · summary v17, 7.8k of 10k

      ARCHIVE · not sent to the model                         1 of 42 shown, --all
      #41  continues #38: Step 41…   30m ago   5.2k   waiting for the next summary

    ──────── the model sees from here · 15.8k of 90k tokens · 18% ────────────────

      WINDOW
      (empty)
    ");
}

#[test]
fn an_exchange_with_possible_hidden_legs_is_not_called_whole() {
    let mut view = in_legs(38);
    view.exchanges[4].exchange.headline.continues = None;
    view.first_exchange = 42;
    // The window has more rows than are shown, perhaps with legs of #38.
    view.window_total = 9;
    let text = render_text(&view, 78);
    assert!(text.contains("#38–#41  four legs of exchange #38"), "{text}");
    view.window_total = 1;
    let text = render_text(&view, 78);
    assert!(text.contains("#38–#41  one exchange in four legs"), "{text}");
}

#[test]
fn json_has_the_exchange_that_a_leg_continues() {
    let view = serde_json::to_value(in_legs(39)).unwrap();
    let continues: Vec<_> =
        view["exchanges"].as_array().unwrap().iter().map(|one| one["continues"].as_i64()).collect();
    assert_eq!(continues, [None, None, Some(39), Some(39), Some(39)]);
    assert!(view["exchanges"][0].get("continues").is_none(), "{view}");
}

#[test]
fn a_history_shows_archive_rule_and_window() {
    insta::assert_snapshot!(render_text(&example(), 78), @r"
    recapd history ikigai-main               budget 90k · summary v17, 7.8k of 10k

      ARCHIVE · not sent to the model                         2 of 39 shown, --all
      #38  Implement auth        3h ago   4.2k   summarised since v16
      #39  Add tests             2h ago   3.8k   waiting for the next summary

    ──────── the model sees from here · 15.8k of 90k tokens · 18% ────────────────

      WINDOW
      #40  Refactor errors       1h ago   8.5k
           ├─ user       Refactor error handling to use Result<T>
           ├─ tool       file_read src/errors.h
           ├─ tool       file_edit src/errors.c
           └─ assistant  Refactored to Result<T> pattern
      #41  Update docs          30m ago   5.2k
           ├─ user       Document the new error handling
           ├─ tool       file_write docs/errors.md
           └─ assistant  Documentation updated
      #42  Add logging              now   2.1k   open
           └─ user       Add structured logging
    ");
}

#[test]
fn a_history_in_ascii_names_the_states_of_exchanges() {
    let mut view = example();
    view.exchanges.drain(2..4);
    view.exchanges[0].exchange.set_aside_at = Some(NOW);
    view.exchanges[1].exchange.headline.title =
        "Añadir pruebas \u{1b}[31mand a title that is far too long".to_owned();
    view.exchanges[2].exchange.state = ExchangeState::Interrupted;
    (view.first_exchange, view.window_tokens, view.summary) = (42, 91_000, None);
    (view.archived_total, view.window_total) = (2, 1);
    insta::assert_snapshot!(ascii(&render_text(&view, 70)), @r"
    recapd history ikigai-main                 budget 90k - no summary yet

      ARCHIVE - not sent to the model
      #38  Implement auth     3h ago   4.2k   set aside
      #39  A?adir pruebas~    2h ago   3.8k   waiting for the next summary

    -------- the model sees from here - 91k of 90k tokens - 101% ---------

      WINDOW
      #42  Add logging           now   2.1k   interrupted, over budget
           `- user       Add structured logging
    ");
}

#[test]
fn there_is_no_rule_before_an_eviction_and_no_share_without_a_budget() {
    let mut view = example();
    view.exchanges.drain(..4);
    (view.first_exchange, view.archived_total, view.budget) = (1, 0, Budget::unlimited());
    view.window_total = 1;
    insta::assert_snapshot!(render_text(&view, 78), @r"
    recapd history ikigai-main                no budget · summary v17, 7.8k of 10k

      WINDOW
      #42  Add logging              now   2.1k   open
           └─ user       Add structured logging
    ");
    assert_eq!(
        (view.after_exchange(), view.fill_ratio(), rule(&view, 50).as_str()),
        (None, None, "──────── the model sees from here · 15.8k tokens ─")
    );
}

#[test]
fn serializes_for_programs() {
    let mut view = example();
    view.exchanges.drain(2..4);
    view.exchanges[1].lines = view.exchanges.remove(2).lines;
    view.budget = Budget::new(31_600, 0.8);
    insta::assert_snapshot!(serde_json::to_string_pretty(&view).unwrap(), @r#"
    {
      "agent_id": "ikigai-main",
      "budget_tokens": 31600,
      "summary": {
        "version": 17,
        "tokens": 7800,
        "max_tokens": 10000
      },
      "window": {
        "tokens": 15800,
        "fill_ratio": 0.5
      },
      "boundary": {
        "first_exchange": 40,
        "after_exchange": 39,
        "tokens_visible": 15800
      },
      "archived_total": 39,
      "window_total": 3,
      "exchanges": [
        {
          "n": 38,
          "title": "Implement auth",
          "state": "archived",
          "waiting": false,
          "over_budget": false,
          "tokens": 4200,
          "started_at": "2026-01-05T05:00:00Z",
          "ended_at": "2026-01-05T05:00:00Z",
          "evicted_at": "2026-01-05T06:00:00Z",
          "summary_version": 16,
          "messages": []
        },
        {
          "n": 39,
          "title": "Add tests",
          "state": "archived",
          "waiting": true,
          "over_budget": false,
          "tokens": 3800,
          "started_at": "2026-01-05T06:00:00Z",
          "ended_at": "2026-01-05T06:00:00Z",
          "evicted_at": null,
          "summary_version": null,
          "messages": [
            {
              "voice": "user",
              "text": "Add structured logging"
            }
          ]
        }
      ]
    }
    "#);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_text_breaks_a_line_and_the_rule_has_its_place(
        texts in prop::collection::vec((any_text(), any_text()), 1..8), boundary in 1_i64..9, width in 0_usize..160,
    ) {
        let exchanges: Vec<HistoryExchange> = (1..)
            .zip(&texts)
            .map(|(n, (title, said))| shown(n, title, 0, 10, &[(Voice::User, said)]))
            .collect();
        let count = exchanges.len();
        let archived = exchanges.iter().filter(|shown| shown.exchange.exchange < boundary).count();
        let mut view = example();
        view.exchanges = exchanges;
        (view.first_exchange, view.archived_total) = (boundary, i64::try_from(archived).unwrap());
        view.window_total = i64::try_from(count - archived).unwrap();
        let text = render_text(&view, width);
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        prop_assert!(ascii(&text).is_ascii());
        let lines: Vec<&str> = text.lines().collect();
        let rule = lines.iter().position(|line| line.contains("the model sees from here"));
        let window_rows = usize::from(archived == count);
        let archive_rows = if archived == 0 { 0 } else { 4 };
        prop_assert_eq!(lines.len(), 2 + archive_rows + 1 + window_rows + 2 * count);
        prop_assert_eq!(rule, (archived > 0).then_some(2 + 1 + 2 * archived + 1));
        if let Some(rule) = rule {
            prop_assert!(lines[rule - 1].is_empty() && lines[rule + 1].is_empty());
        }
    }
}
