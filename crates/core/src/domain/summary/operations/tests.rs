use proptest::prelude::*;

use super::*;
use crate::{
    domain::{
        summary::{
            compaction::compose,
            fixtures::{any_item, any_text, item},
            item::{ExchangeRange, Origin},
            section::{Ageing, Form},
            source::seed_source,
        },
        time::HOUR_MS,
    },
    tokenizer::BytesCounter,
};

const AS_OF: Timestamp = Timestamp(1_767_600_000_000);

fn policy(max_tokens: i64) -> SummaryPolicy {
    SummaryPolicy { max_tokens, ..SummaryPolicy::default() }
}

fn rules(policy: &SummaryPolicy) -> Rules<'_> {
    Rules { as_of: AS_OF, policy, counter: &BytesCounter, fixed: &[], tokens_max: 100_000 }
}

fn wording(text: &str) -> Wording {
    Wording { text: text.to_owned(), brief: text.to_owned(), gist: text.to_owned() }
}

fn merge(items: &[i64], text: &str) -> Merge {
    Merge { items: items.to_vec(), wording: wording(text) }
}

fn shorten(item: i64, text: &str) -> Shorten {
    Shorten { item, wording: wording(text) }
}

fn merging(merge: Merge) -> Operations {
    Operations { merge: vec![merge], ..Operations::default() }
}

/// Returns `count` items of this hour, too many for the policy.
fn crowd(count: i64) -> Vec<Item> {
    (1..=count).map(|n| item(n, AS_OF.plus_ms(n - count))).collect()
}

/// Carries out `operations` on nine items, together with a merge of the last four that saves enough tokens.
fn carry_out(operations: Operations) -> CarriedOut {
    let (items, policy) = (crowd(9), policy(100));
    let question = Question::about(&items, Path::Full, rules(&policy)).unwrap();
    let mut operations = operations;
    operations.merge.push(merge(&[6, 7, 8, 9], "Fixed four bugs"));
    question.carry_out(&operations).unwrap()
}

/// The items of seed 003, "Merging Related Items", and one more.
fn jwt_items() -> [Item; 4] {
    let jwt = |n: i64, day: &str, tokens: i64, importance, text: &str| Item {
        source_tokens: tokens,
        importance,
        text: text.to_owned(),
        brief: text.to_owned(),
        gist: text.to_owned(),
        ..item(n, Timestamp::parse(day).unwrap())
    };
    let (fix, feature) = (Importance::Fix, Importance::Feature);
    [
        jwt(1, "2026-01-05T10:00:00Z", 8_000, feature, "Added JWT authentication"),
        jwt(2, "2026-01-05T15:00:00Z", 3_000, fix, "Fixed JWT token expiration bug"),
        jwt(4, "2026-01-06T10:00:00Z", 6_000, feature, "Added JWT refresh token support"),
        jwt(3, "2026-01-06T08:00:00Z", 500, fix, "Fixed a typo in the documentation of the parser"),
    ]
}

#[test]
fn jwt_items_of_monday_and_tuesday_become_one_of_17k_tokens() {
    let (items, policy) = (jwt_items(), policy(60));
    let rules = Rules { as_of: Timestamp::parse("2026-01-14T12:00:00Z").unwrap(), ..rules(&policy) };
    let question = Question::about(&items, Path::Full, rules).unwrap();
    insta::assert_snapshot!(question.lines().join("\n"), @r"
    This Week:
    1. feature, 2026-01-05: Added JWT authentication
    2. fix, 2026-01-05: Fixed JWT token expiration bug
    3. fix, 2026-01-06: Fixed a typo in the documentation of the parser
    4. feature, 2026-01-06: Added JWT refresh token support
    ");
    let operations = merging(merge(&[1, 2, 4], "Implemented JWT auth with refresh tokens"));
    let result = question.carry_out(&operations).unwrap();
    let [typo, jwt] = result.items.as_slice() else { panic!("{:?}", result.items) };
    assert_eq!(typo, &items[3]);
    assert_eq!(item_line(jwt, Form::Gist), "Implemented JWT auth with refresh tokens (#1–#2, #4)");
    assert_eq!(seed_source(jwt, Section::Week), "(Mon-Tue, ~17k tokens)");
    let written = (jwt.importance, jwt.origin, jwt.item, jwt.provisional);
    assert_eq!(written, (Importance::Feature, Origin::Model, 0, false));
    assert_eq!((result.replaced, result.merged), (vec![1, 2, 4], 3));
}

/// Seed 003, "Condensing Verbose Summaries".
#[test]
fn shortening_an_item_takes_only_the_shorter_texts() {
    let result = carry_out(Operations { shorten: vec![shorten(1, "Fixed parser")], ..Operations::default() });
    let shortened = result.items.last().unwrap();
    assert_eq!((shortened.text.as_str(), shortened.brief.as_str()), ("Fixed parser", "Fixed parser"));
    assert_eq!(shortened.gist, "Fixed bug 1", "the old headline is shorter");
    assert_eq!(
        (shortened.ranges.clone(), shortened.source_tokens),
        (vec![ExchangeRange { first: 1, last: 1 }], 1_000)
    );
    assert_eq!((result.replaced, result.condensed, result.refused), (vec![1, 6, 7, 8, 9], 1, vec![]));
}

#[test]
fn operations_that_break_a_rule_are_left_out() {
    use OperationFault::{Alone, Growth, Repeated, Unknown};
    let long = "word ".repeat(200);
    let cases: [(Operations, OperationFault); 7] = [
        (merging(merge(&[1, 99], "x")), Unknown),
        (merging(merge(&[0, 1], "x")), Unknown),
        (merging(merge(&[i64::MIN, 1], "x")), Unknown),
        (merging(merge(&[1, 1], "x")), Alone),
        (merging(merge(&[], "x")), Alone),
        (merging(merge(&[1, 2], &long)), Growth),
        (Operations { drop: vec![7], ..Operations::default() }, Repeated),
    ];
    for (operations, fault) in cases {
        let result = carry_out(operations.clone());
        assert_eq!(result.refused, [fault], "{operations:?}");
        assert_eq!((result.items.len(), result.replaced), (6, vec![6, 7, 8, 9]));
    }
    let result = carry_out(Operations { shorten: vec![shorten(2, &long)], ..Operations::default() });
    assert_eq!(result.refused, [Growth]);
}

/// A merge of many items into "Various work was done" would lose all that they say.
#[test]
fn a_merge_of_too_many_items_and_needless_operations_are_left_out() {
    use OperationFault::{Needless, TooMany};
    let (items, policy) = (crowd(30), policy(800));
    let question = Question::about(&items, Path::Full, rules(&policy)).unwrap();
    let all: Vec<i64> = (1..=30).collect();
    let refused = question.carry_out(&merging(merge(&all, "Various work was done"))).unwrap_err();
    assert_eq!((refused.saved_tokens, refused.refused), (0, vec![TooMany]));

    let tens = all.chunks(MERGED_MAX).map(|ten| merge(ten, "Fixed ten bugs"));
    let operations =
        Operations { merge: tens.collect(), shorten: vec![shorten(30, "Fixed one")], drop: Vec::new() };
    let result = question.carry_out(&operations).unwrap();
    assert_eq!((result.merged, result.condensed), (20, 0));
    assert_eq!(result.refused, [Needless, Needless], "two merges save enough");
}

#[test]
fn items_of_different_sections_or_far_apart_are_not_merged() {
    let policy = policy(60);
    let ageing_off = SummaryPolicy { ageing: Ageing::Off, ..policy };
    let across = [item(1, AS_OF.plus_ms(-30 * HOUR_MS)), item(2, AS_OF.plus_ms(-HOUR_MS)), item(3, AS_OF)];
    let apart = [item(1, AS_OF.plus_ms(-SPAN_MAX_MS - 1)), item(2, AS_OF), item(3, AS_OF)];
    for (items, policy, fault) in
        [(&across, policy, OperationFault::Sections), (&apart, ageing_off, OperationFault::Span)]
    {
        let question = Question::about(items, Path::Full, rules(&policy)).unwrap();
        let refused = question.carry_out(&merging(merge(&[1, 2], "Fixed"))).unwrap_err();
        assert_eq!((refused.saved_tokens, refused.refused), (0, vec![fault]));
    }
}

#[test]
fn decisions_are_dropped_last_and_needless_drops_are_left_out() {
    let mut items = crowd(6);
    items[0].importance = Importance::Decision;
    items[1].importance = Importance::Trivial;
    let all = Operations { drop: vec![1, 2, 3, 4, 5, 6], ..Operations::default() };
    let tight = policy(100);
    let question = Question::about(&items, Path::Full, rules(&tight)).unwrap();
    let some = Operations { drop: vec![1, 3, 4, 5], ..Operations::default() };
    let result = question.carry_out(&some).unwrap();
    assert_eq!(result.refused, [OperationFault::TooEarly], "two less important items remain");
    assert_eq!(result.items.len() + result.dropped.len(), 6);

    let roomy = policy(200);
    let question = Question::about(&items, Path::Full, rules(&roomy)).unwrap();
    let result = question.carry_out(&all).unwrap();
    assert_eq!(result.dropped[0].importance, Importance::Trivial);
    assert!(result.saved_tokens >= question.excess_tokens());
    assert!(result.dropped.iter().all(|item| item.importance < Importance::Constraint));
    assert!(
        result.refused.iter().all(|fault| *fault == OperationFault::Needless) && !result.refused.is_empty()
    );
}

#[test]
fn the_question_is_only_about_items_to_compact() {
    let mut items = crowd(6);
    items[1].provisional = true;
    items.push(item(7, AS_OF.plus_ms(-3 * 24 * HOUR_MS)));
    items.push(item(8, AS_OF.plus_ms(-20 * 24 * HOUR_MS)));
    let policy = policy(100);
    let rules = Rules { fixed: &[3], ..rules(&policy) };
    let labels = |path| {
        let question = Question::about(&items, path, rules)?;
        Some(question.item_indices.iter().map(|index| items[*index].item).collect::<Vec<_>>())
    };
    assert_eq!(labels(Path::Merge), Some(vec![1, 4, 5, 6]));
    assert_eq!(labels(Path::Full), Some(vec![8, 7, 1, 4, 5, 6]));
    assert_eq!(labels(Path::Append), None);
    let short = |tokens_max| Rules { tokens_max, ..rules };
    let oldest = Question::about(&items, Path::Full, short(50)).unwrap();
    assert_eq!(oldest.item_indices.len(), 2, "a question has its limits");
    assert!(Question::about(&items, Path::Full, short(25)).is_none());
}

/// A question is limited by tokens, since texts in Chinese or JSON have far fewer characters per token.
#[test]
fn a_question_keeps_its_limit_of_tokens() {
    let mut items = crowd(60);
    for item in &mut items {
        item.text = "修复了解析器中的错误".repeat(8);
    }
    let policy = policy(100);
    let rules = Rules { tokens_max: 2_000, ..rules(&policy) };
    let question = Question::about(&items, Path::Full, rules).unwrap();
    let tokens = BytesCounter.count(&question.lines().join("\n"));
    assert!((1_500..=2_000).contains(&tokens), "{tokens}");
}

#[test]
fn a_small_document_raises_no_question() {
    let items = crowd(6);
    assert!(Question::about(&items, Path::Full, rules(&policy(10_000))).is_none());
    assert!(Question::about(&[], Path::Full, rules(&policy(100))).is_none());
}

fn any_wording() -> impl Strategy<Value = Wording> {
    (any_text(), any_text(), any_text()).prop_map(|(text, brief, gist)| Wording { text, brief, gist })
}

fn any_operations() -> impl Strategy<Value = Operations> {
    let labels = prop_oneof![
        4 => prop::collection::vec(-1_i64..30, 0..6),
        1 => (1_i64..20).prop_map(|last| (1..=last).collect::<Vec<i64>>()),
    ];
    let merges = (labels, any_wording());
    let shortenings = (-1_i64..30, any_wording());
    (
        prop::collection::vec(merges.prop_map(|(items, wording)| Merge { items, wording }), 0..5),
        prop::collection::vec(shortenings.prop_map(|(item, wording)| Shorten { item, wording }), 0..5),
        prop::collection::vec(-1_i64..30, 0..20),
    )
        .prop_map(|(merge, shorten, drop)| Operations { merge, shorten, drop })
}

/// Returns the exchanges of `items`, each as often as it is covered.
fn covered<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<i64> {
    let ranges = items.flat_map(|item| item.ranges.iter());
    let mut covered: Vec<i64> = ranges.flat_map(|range| range.first..=range.last).collect();
    covered.sort_unstable();
    covered
}

proptest! {
    #[test]
    fn no_operation_loses_exchanges_or_grows_the_document(
        mut items in prop::collection::vec(any_item(AS_OF), 0..25),
        operations in any_operations(),
        max_tokens in 100_i64..2_000,
        ages in any::<bool>(),
    ) {
        for (number, item) in (1..).zip(&mut items) {
            item.item = number;
            item.ranges = vec![ExchangeRange { first: 3 * number, last: 3 * number + number % 3 }];
        }
        let ageing = if ages { Ageing::default() } else { Ageing::Off };
        let policy = SummaryPolicy { ageing, ..policy(max_tokens) };
        let fixed = [2, 5];
        let rules = Rules { fixed: &fixed, ..rules(&policy) };
        let path = compose(&items, AS_OF, &policy, &BytesCounter).path;
        let Some(question) = Question::about(&items, path, rules) else { return Ok(()) };
        let Ok(result) = question.carry_out(&operations) else { return Ok(()) };

        let after: Vec<&Item> = result.items.iter().chain(&result.dropped).collect();
        prop_assert_eq!(covered(items.iter()), covered(after.iter().copied()));
        let tokens = |items: &mut dyn Iterator<Item = &Item>| items.map(|item| item.source_tokens).sum::<i64>();
        prop_assert_eq!(tokens(&mut items.iter()), tokens(&mut after.iter().copied()));
        for item in items.iter().filter(|item| item.provisional || fixed.contains(&item.item)) {
            prop_assert!(result.items.contains(item));
        }
        let highest = |items: &mut dyn Iterator<Item = &Item>| items.map(|item| item.importance).max();
        prop_assert_eq!(highest(&mut items.iter()), highest(&mut after.iter().copied()));
        let drops_high = result.dropped.iter().any(is_kept_to_the_last);
        let keeps_lower = result.items.iter().any(|item| state_of(item, rules).is_some() && !is_kept_to_the_last(item));
        prop_assert!(!(drops_high && keeps_lower));

        let total = |items: &[Item]| -> i64 {
            items.iter().filter_map(|item| state_of(item, rules)).map(|state| state.tokens).sum()
        };
        prop_assert_eq!(total(&items) - total(&result.items), result.saved_tokens);
        prop_assert!(result.saved_tokens >= question.progress_tokens());
        for item in &result.items {
            prop_assert!(item.item != 0 || item.ended_at.since_ms(item.started_at) <= SPAN_MAX_MS + 2 * DAY_MS);
            let parts = items.iter().filter(|part| item.covers(part.ranges[0].first));
            prop_assert!(item.item != 0 || parts.count() <= MERGED_MAX);
        }
    }
}
