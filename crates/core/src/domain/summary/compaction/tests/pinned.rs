//! Tests of pinned items: in full, before others, and not too many of them.

use super::*;

/// Returns three times the items of a full document; `pinned` selects the pinned ones.
fn full(pinned: impl Fn(usize) -> bool) -> Vec<Item> {
    let mut items = history(900, HOUR_MS / 4);
    for (place, item) in items.iter_mut().enumerate() {
        item.importance = Importance::Trivial;
        item.pinned = pinned(place);
    }
    items
}

fn form_of(composed: &Composition, index: usize) -> Option<Form> {
    let mut shown = composed.shown_items.iter();
    shown.find(|place| place.index == index).map(|place| place.form)
}

#[test]
fn a_pinned_item_stands_in_full_whatever_its_age_and_worth() {
    let mut items = full(|place| place < 3);
    for item in &mut items[..3] {
        item.ended_at = AS_OF.plus_ms(-40 * DAY_MS);
        item.started_at = item.ended_at;
    }
    let policy = dropping(SummaryPolicy::default());
    let composed = compose_bytes(&items, &policy);
    assert_eq!(composed.path, Path::Full);
    for index in 0..3 {
        assert_eq!(form_of(&composed, index), Some(Form::Text));
    }
    items[1].pinned = false;
    let composed = compose_bytes(&items, &policy);
    assert_eq!(form_of(&composed, 1), None, "without its pin it is too old");
}

#[test]
fn lines_are_shortened_around_it() {
    let mut items = history(290, MINUTE_MS);
    items[7].importance = Importance::Trivial;
    for pinned in [false, true] {
        items[7].pinned = pinned;
        let composed = compose_bytes(&items, &SummaryPolicy::default());
        assert_eq!(composed.path, Path::Merge);
        assert_eq!(form_of(&composed, 7) == Some(Form::Text), pinned);
    }
}

#[test]
fn pinned_items_get_a_quarter_of_the_room() {
    let policy = SummaryPolicy::default();
    let composed = compose_bytes(&full(|_| true), &policy);
    let long = composed.shown_items.iter().filter(|place| place.form == Form::Text).count();
    assert!(composed.tokens < policy.merge_tokens());
    assert!((20..450).contains(&long), "{long} stand in full");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pins_never_break_the_ceiling_nor_each_other(
        mut items in prop::collection::vec(any_item(AS_OF), 1..60),
        pinned in prop::collection::vec(any::<bool>(), 60),
        max_tokens in 0_i64..3_000,
    ) {
        for (item, pinned) in items.iter_mut().zip(pinned) {
            item.pinned = pinned;
        }
        let policy = policy(max_tokens);
        let composed = compose_bytes(&items, &policy);
        prop_assert!(composed.tokens < policy.merge_tokens() || composed.document.is_empty());
        let left: Vec<Item> = (0..items.len()).filter(|index| !composed.dropped.contains(index)).map(|index| items[index].clone()).collect();
        let again = compose_bytes(&left, &policy);
        prop_assert_eq!(again.dropped, Vec::<usize>::new());
    }
}
