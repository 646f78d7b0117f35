//! Tests of the items beneath the section about facts.

use super::*;
use crate::domain::summary::{
    fact::FactKind,
    fixtures::{any_fact, fact},
};

#[test]
fn the_document_begins_with_the_facts() {
    let facts = [fact(1, FactKind::Goal)];
    let composed = compose_with(&facts, &history(1, 1), AS_OF, &policy(10_000), &BytesCounter);
    insta::assert_snapshot!(composed.document, @r"
    ## Where Things Stand
    - Goal (#1): fact 1

    ## Previously in This Session
    - Fixed bug 1 in the parser: a trailing comma was refused in src/parser.rs (#1)

    *Older history is archived: look up any #n with recall.*
    ");
    let alone = compose_with(&facts, &[], AS_OF, &policy(10_000), &BytesCounter);
    insta::assert_snapshot!(alone.document, @r"
    ## Where Things Stand
    - Goal (#1): fact 1

    *Older history is archived: look up any #n with recall.*
    ");
}

#[test]
fn items_give_way_to_facts_and_not_the_other_way_round() {
    let items = history(100, MINUTE_MS);
    let facts: Vec<Fact> = (1..=20).map(|n| fact(n, FactKind::Demand)).collect();
    let (without, with) = (
        compose_bytes(&items, &policy(2_000)),
        compose_with(&facts, &items, AS_OF, &policy(2_000), &BytesCounter),
    );
    assert_ne!(with.shown_items, without.shown_items);
    assert!(with.document.contains("fact 20") && with.tokens < policy(2_000).merge_tokens());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_whole_document_fits(
        facts in prop::collection::vec(any_fact(), 0..30),
        items in prop::collection::vec(any_item(AS_OF), 0..30),
        policy in any_policy(),
        is_superadditive in any::<bool>(),
    ) {
        let counter: &dyn TokenCounter = if is_superadditive { &Superadditive } else { &BytesCounter };
        let composed = compose_with(&facts, &items, AS_OF, &policy, counter);
        prop_assert_eq!(composed.tokens, counter.count(&composed.document));
        prop_assert!(composed.document.is_empty() || composed.tokens < policy.merge_tokens());
        prop_assert_eq!(&composed, &compose_with(&facts, &items, AS_OF, &policy, counter));
    }
}
