mod beneath;
mod documents;
mod pinned;

use proptest::prelude::*;

use super::*;
use crate::{
    domain::{
        neutralize::neutralize_document,
        summary::{
            calendar::{Calendar, RunningSession},
            fixtures::{any_item, item},
            item::Importance,
            reading::name_and_span,
            render::{FOOTER, document},
            section::{Form, Section},
        },
        time::{DAY_MS, HOUR_MS, MINUTE_MS},
    },
    tokenizer::BytesCounter,
};

const AS_OF: Timestamp = Timestamp(1_767_600_000_000);

fn policy(max_tokens: i64) -> SummaryPolicy {
    SummaryPolicy { max_tokens, ..SummaryPolicy::default() }
}

/// Returns the policy with ageing that drops items older than two weeks.
fn dropping(policy: SummaryPolicy) -> SummaryPolicy {
    SummaryPolicy {
        ageing: Ageing::Age {
            session_ms: DAY_MS,
            yesterday_ms: 7 * DAY_MS,
            week_ms: 14 * DAY_MS,
            drops_older: true,
        },
        ..policy
    }
}

/// Returns `count` items, one every `step_ms`, the last one now.
fn history(count: i64, step_ms: i64) -> Vec<Item> {
    (1..=count).map(|n| item(n, AS_OF.plus_ms((n - count) * step_ms))).collect()
}

fn compose_bytes(items: &[Item], policy: &SummaryPolicy) -> Composition {
    compose(items, AS_OF, policy, &BytesCounter)
}

#[test]
fn a_small_history_stands_in_full_whatever_its_age() {
    let items = [
        item(1, AS_OF.plus_ms(-90 * DAY_MS)),
        item(2, AS_OF.plus_ms(-8 * DAY_MS)),
        item(3, AS_OF.plus_ms(-2 * DAY_MS)),
        item(4, AS_OF.plus_ms(-HOUR_MS)),
    ];
    let composed = compose_bytes(&items, &SummaryPolicy::default());
    insta::assert_snapshot!(composed.document, @r"
    ## Previously in This Session (5 January 2026, 07:00)
    - Fixed bug 4 in the parser: a trailing comma was refused in src/parser.rs (#4)

    ## Yesterday (3 January 2026)
    - Fixed bug 3 in the parser: a trailing comma was refused in src/parser.rs (#3)

    ## This Week (28 December 2025)
    - Fixed bug 2 in the parser: a trailing comma was refused in src/parser.rs (#2)

    ## Earlier (7 October 2025)
    - Fixed bug 1 in the parser: a trailing comma was refused in src/parser.rs (#1)

    *Older history is archived: look up any #n with recall.*
    ");
    assert_eq!(composed.path, Path::Append);
    assert_eq!(composed.dropped, Vec::<usize>::new());
    assert!(!composed.truncated);
    assert_eq!(composed.next_change, Some(AS_OF.plus_ms(23 * HOUR_MS)));
    let dropping = compose_bytes(&items, &dropping(SummaryPolicy::default()));
    assert!(!dropping.document.contains("Earlier"), "{}", dropping.document);
    assert_eq!((dropping.dropped, dropping.aged), (vec![0], vec![0]));
    let nothing = compose_bytes(&[], &SummaryPolicy::default());
    assert_eq!((nothing.document.as_str(), nothing.tokens), ("", 0));
}

#[test]
fn a_blank_item_has_no_line() {
    let told = item(1, AS_OF.plus_ms(-HOUR_MS));
    let policy = SummaryPolicy::default();
    for text in ["(no text)", "(interrupted) (no text)", "(no text); (no text)"] {
        let blank = Item { source_tokens: 0, text: text.to_owned(), ..item(2, AS_OF) };
        let items = [told.clone(), blank];
        let composed = compose_bytes(&items, &policy);
        assert_eq!((composed.shown_items.len(), composed.aged), (1, vec![1]), "{text}");
        assert_eq!(composed.document, compose_bytes(&items[..1], &policy).document);
    }
}

#[test]
fn the_path_follows_the_size() {
    use Path::{Append, Full, Merge};
    let items = history(20, MINUTE_MS);
    let whole = compose_bytes(&items, &SummaryPolicy::default()).tokens;
    // The whole document is this many percent of the ceiling.
    let paths: Vec<Path> = [70, 77, 82, 90, 97, 150, 400]
        .map(|percent| compose_bytes(&items, &policy(whole * 100 / percent)).path)
        .into();
    assert_eq!(paths, [Append, Append, Merge, Merge, Full, Full, Full]);
}

#[test]
fn old_unimportant_items_shrink_first_and_only_as_needed() {
    let mut items = history(40, 6 * HOUR_MS);
    items[1].importance = Importance::Decision;
    items[30].importance = Importance::Trivial;
    let whole = compose_bytes(&items, &SummaryPolicy::default()).tokens;
    let policy = policy(whole * 100 / 88);
    let composed = compose_bytes(&items, &policy);
    assert_eq!(composed.path, Path::Merge);
    assert_eq!(composed.shown_items.len(), 40);
    let append = policy.append_tokens();
    assert!((append * 95 / 100..append).contains(&composed.tokens), "{} of {append}", composed.tokens);
    let form = |index| {
        let mut shown = composed.shown_items.iter();
        shown.find(|place| place.index == index).unwrap().form
    };
    assert_eq!((form(1), form(31), form(39)), (Form::Text, Form::Text, Form::Text));
    assert_ne!(form(30), Form::Text, "unimportant");
    assert_ne!(form(0), Form::Text, "old");
}

#[test]
fn a_full_document_loses_details_before_items_and_items_by_rank() {
    let mut items = history(60, 4 * HOUR_MS);
    for (index, item) in items.iter_mut().enumerate() {
        item.importance = Importance::ALL[index % 6];
    }
    let whole = compose_bytes(&items, &SummaryPolicy::default()).tokens;
    let shortened = compose_bytes(&items, &policy(whole / 2));
    assert_eq!((shortened.path, shortened.truncated), (Path::Full, false));
    assert_eq!(shortened.shown_items.len(), 60);
    let truncated = compose_bytes(&items, &policy(400));
    assert_eq!((truncated.truncated, truncated.truncated_tokens), (false, 0));
    assert!(!truncated.dropped.is_empty());
    assert_eq!(truncated.dropped.len() + truncated.shown_items.len(), 60);
    assert!(truncated.dropped.iter().all(|&index| items[index].importance < Importance::Constraint));
    let decisions_alone = compose_bytes(&items, &policy(200));
    assert!(decisions_alone.truncated && decisions_alone.truncated_tokens > 0);
    assert!(!decisions_alone.shown_items.is_empty());
    assert!(
        decisions_alone
            .shown_items
            .iter()
            .all(|place| items[place.index].importance >= Importance::Constraint)
    );
}

#[test]
fn without_ageing_the_whole_span_survives_in_shorter_forms() {
    let mut items = history(150, 3 * DAY_MS);
    for item in &mut items {
        item.text = "A detailed account of what was said and done. ".repeat(12);
    }
    let ageing_off = SummaryPolicy { ageing: Ageing::Off, ..SummaryPolicy::default() };
    let composed = compose_bytes(&items, &ageing_off);
    assert_eq!((composed.path, composed.truncated), (Path::Full, false));
    assert_eq!(composed.shown_items.len(), 150);
    assert!(composed.tokens > 9_000, "room is used: {}", composed.tokens);
    assert!(composed.shown_items.iter().all(|place| place.form < Form::Gist));
    assert_eq!(composed.next_change, None);
}

#[test]
fn without_ageing_importance_counts_and_recency_does_not() {
    let mut items = history(1_000, DAY_MS);
    for item in items.iter_mut().step_by(10) {
        item.importance = Importance::Feature;
    }
    let ageing_off = SummaryPolicy { ageing: Ageing::Off, ..SummaryPolicy::default() };
    let composed = compose_bytes(&items, &ageing_off);
    assert!(!composed.truncated && !composed.dropped.is_empty());
    let is_feature = |index: &&usize| items[**index].importance == Importance::Feature;
    assert_eq!(composed.dropped.iter().find(is_feature), None);
    assert_eq!(composed.shown_items[0].index, 0);
}

#[test]
fn a_full_document_shows_the_best_lines_and_lets_neighbours_share_a_day() {
    let mut items = history(60, 10 * MINUTE_MS);
    for (index, item) in items.iter_mut().enumerate() {
        item.gist = "It went on as it had gone on before".to_owned();
        if index % 10 == 3 {
            item.gist = format!("Moved invoice W{index}77 to account {index}41");
        }
        item.brief = item.gist.clone();
        item.text = item.gist.clone();
    }
    let composed = compose_bytes(&items, &policy(200));
    assert!(!composed.dropped.is_empty());
    for index in (3..60).step_by(10) {
        assert!(composed.document.contains(&items[index].gist), "{}", composed.document);
    }
    let days = composed.document.matches("### ").count();
    let lines = composed.document.matches("\n- ").count();
    assert!(days == 2 && lines < composed.shown_items.len(), "{}", composed.document);
}

#[test]
fn a_calendar_shows_the_times_of_its_zone() {
    let at = |text: &str| Timestamp::parse(text).unwrap();
    let items = [
        item(1, at("2026-03-28T22:30:00Z")),
        item(2, at("2026-03-28T23:30:00Z")),
        item(3, at("2026-03-29T22:30:00Z")),
    ];
    let ageing = Ageing::Calendar(Calendar {
        zone: Zone::parse("Europe/Berlin").unwrap(),
        session_ms: 0,
        days: 14,
        drops_older: false,
        idle_gap_ms: 0,
        session: None,
    });
    let policy = SummaryPolicy { ageing, ..SummaryPolicy::default() };
    // The night before, clocks went forward: the 29th began at 23:00 and the 30th at 22:00.
    let composed = compose(&items, at("2026-03-30T08:00:00Z"), &policy, &BytesCounter);
    insta::assert_snapshot!(composed.document, @r"
    ## Previously in This Session (30 March 2026, 00:30)
    - Fixed bug 3 in the parser: a trailing comma was refused in src/parser.rs (#3)

    ## Yesterday (29 March 2026)
    - Fixed bug 2 in the parser: a trailing comma was refused in src/parser.rs (#2)

    ## This Week (28 March 2026)
    - Fixed bug 1 in the parser: a trailing comma was refused in src/parser.rs (#1)

    *Older history is archived: look up any #n with recall.*
    ");
    assert_eq!(composed.next_change, Some(at("2026-03-30T22:00:00Z")));
}

#[cfg(feature = "tokenizer")]
#[test]
fn two_thousand_candidates_fit_exactly_counted() {
    let mut items = history(2_000, 10 * MINUTE_MS);
    for item in &mut items {
        item.text = item.text.repeat(4);
    }
    let counter = crate::tokenizer::ceiling_counter();
    for (ageing, expected) in [(Ageing::default(), 7_000..8_000), (Ageing::Off, 9_300..9_500)] {
        let policy = SummaryPolicy { ageing, ..SummaryPolicy::default() };
        let composed = compose(&items, AS_OF, &policy, counter.as_ref());
        assert_eq!(composed.tokens, counter.count(&composed.document));
        assert!(expected.contains(&composed.tokens), "{}", composed.tokens);
        assert!(!composed.dropped.is_empty());
    }
}

/// A counter by which a whole always has more tokens than its parts.
struct Superadditive;

impl TokenCounter for Superadditive {
    fn count(&self, text: &str) -> i64 {
        let bytes = i64::try_from(text.len()).unwrap();
        bytes / 4 + bytes * bytes / 40_000
    }

    fn method(&self) -> &'static str {
        "superadditive"
    }
}

#[test]
fn a_wrong_estimate_is_put_right() {
    let items = history(200, HOUR_MS);
    for max_tokens in [0, 1, 50, 100, 500, 3_000] {
        let composed = compose(&items, AS_OF, &policy(max_tokens), &Superadditive);
        assert!(composed.tokens <= max_tokens);
        assert_eq!(composed.shown_items.is_empty(), max_tokens < 100, "{max_tokens}");
    }
}

#[test]
fn items_go_only_from_a_full_document_however_wrong_the_estimate() {
    let mut items = history(40, HOUR_MS);
    for item in &mut items {
        // No shorter form saves anything.
        (item.brief, item.gist) = (item.text.clone(), item.text.clone());
    }
    let composed = |max_tokens| compose(&items, AS_OF, &policy(max_tokens), &Superadditive);
    for composed in (100..2_000).step_by(20).map(composed) {
        assert!(composed.dropped.is_empty() || composed.path == Path::Full);
    }
}

fn any_policy() -> impl Strategy<Value = SummaryPolicy> {
    let ageings =
        prop::sample::select(vec![Ageing::default(), dropping(SummaryPolicy::default()).ageing, Ageing::Off]);
    let styles = prop::sample::select(vec![Style::Plain, Style::Seed]);
    (0_i64..12_000, ageings, styles).prop_map(|(max_tokens, ageing, style)| SummaryPolicy {
        max_tokens,
        ageing,
        style,
        ..SummaryPolicy::default()
    })
}

fn check(items: &[Item], policy: &SummaryPolicy, counter: &dyn TokenCounter) -> Result<(), TestCaseError> {
    let composed = compose(items, AS_OF, policy, counter);
    prop_assert_eq!(composed.tokens, counter.count(&composed.document));
    prop_assert!(composed.tokens <= policy.merge_tokens());
    prop_assert_eq!(&composed.document, &document(items, &composed.shown_items));
    prop_assert_eq!(&compose(items, AS_OF, policy, counter), &composed);

    let mut accounted: Vec<usize> = composed.shown_items.iter().map(|place| place.index).collect();
    accounted.extend(&composed.dropped);
    accounted.sort_unstable();
    prop_assert_eq!(accounted, (0..items.len()).collect::<Vec<_>>());
    let aged_out = |index: usize| policy.ageing.section_of(&items[index], AS_OF).is_none();
    let aged: Vec<usize> = (0..items.len()).filter(|&index| aged_out(index)).collect();
    prop_assert_eq!(&composed.aged, &aged);
    let is_whole = composed.shown_items.iter().all(|place| place.form == Form::Text);
    prop_assert!(composed.path != Path::Append || is_whole);
    let cut: Vec<usize> = composed.dropped.iter().copied().filter(|&index| !aged_out(index)).collect();
    prop_assert!(cut.is_empty() || composed.path == Path::Full);
    prop_assert_eq!(composed.truncated, composed.truncated_tokens > 0);
    for place in &composed.shown_items {
        prop_assert_eq!(Some(place.section), policy.ageing.section_of(&items[place.index], AS_OF));
    }
    let lower_rank_remains =
        composed.shown_items.iter().any(|place| items[place.index].importance < Importance::Constraint);
    let high_rank_is_cut = cut.iter().any(|&index| items[index].importance >= Importance::Constraint);
    prop_assert!(!(lower_rank_remains && high_rank_is_cut));
    prop_assert_eq!(composed.truncated, high_rank_is_cut);

    prop_assert_eq!(&neutralize_document(&composed.document), &composed.document);
    for line in composed.document.lines() {
        let is_heading = line.starts_with("### ")
            || Section::ALL.iter().any(|section| {
                line.strip_prefix("## ").map(|heading| name_and_span(heading).0) == Some(section.heading())
            });
        let is_item = line.trim_start().starts_with("- ")
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<usize>().is_ok());
        prop_assert!(is_heading || is_item || line.is_empty() || line == FOOTER, "{}", line);
    }
    let survivors: Vec<Item> = composed.shown_items.iter().map(|place| items[place.index].clone()).collect();
    let again = compose(&survivors, AS_OF, policy, counter);
    prop_assert_eq!(again.dropped, Vec::<usize>::new());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn compositions_keep_their_promises_counted_in_bytes(
        items in prop::collection::vec(any_item(AS_OF), 0..120), policy in any_policy(),
    ) {
        check(&items, &policy, &BytesCounter)?;
    }

    #[test]
    fn the_order_of_the_items_does_not_matter(
        items in prop::collection::vec(any_item(AS_OF), 0..30), policy in any_policy(),
    ) {
        let reversed: Vec<Item> = items.iter().rev().cloned().collect();
        prop_assume!({
            let mut keys: Vec<_> = items.iter().map(|item| (item.ended_at, item.started_at, item.ranges[0])).collect();
            keys.sort_unstable();
            keys.windows(2).all(|pair| pair[0] != pair[1])
        });
        prop_assert_eq!(compose_bytes(&items, &policy).document, compose_bytes(&reversed, &policy).document);
    }

    #[test]
    fn the_clock_changes_the_sections_at_the_next_change_only(
        items in prop::collection::vec(any_item(AS_OF), 1..20), drops_older in any::<bool>(),
    ) {
        let policy = SummaryPolicy::default();
        let policy = if drops_older { dropping(policy) } else { policy };
        let sections = |as_of| -> Vec<(usize, Section)> {
            let composed = compose(&items, as_of, &policy, &BytesCounter);
            let mut shown: Vec<_> = composed.shown_items.iter().map(|place| (place.index, place.section)).collect();
            shown.sort_unstable();
            shown
        };
        let composed = compose_bytes(&items, &policy);
        prop_assume!(composed.dropped == composed.aged);
        let oldest = (!drops_older).then_some(Section::Earlier);
        match compose_bytes(&items, &policy).next_change {
            Some(change) => {
                prop_assert_eq!(sections(AS_OF), sections(change.plus_ms(-1)));
                prop_assert_ne!(sections(AS_OF), sections(change));
            }
            None => prop_assert!(sections(AS_OF).iter().all(|(_, section)| Some(*section) == oldest)),
        }
    }
}

/// Returns the document after the ageing job ran at each of these times.
fn aged_at(items: &[Item], looks: &[Timestamp], policy: &SummaryPolicy) -> String {
    let (mut items, mut due, mut document) = (items.to_vec(), Some(AS_OF), String::new());
    for look in looks {
        if due.is_none_or(|due| due > *look) {
            continue;
        }
        let composed = compose(&items, *look, policy, &BytesCounter);
        for index in composed.aged.iter().rev() {
            items.remove(*index);
        }
        (due, document) = (composed.next_change, composed.document);
    }
    document
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// A daemon that slept for days writes what it would have written day by day.
    #[test]
    fn the_document_does_not_depend_on_how_often_it_ages(
        items in prop::collection::vec(any_item(AS_OF), 1..40),
        mut waits_ms in prop::collection::vec(0_i64..16 * DAY_MS, 0..12),
        max_tokens in 100_i64..3_000,
        zone in prop::sample::select(vec!["", "UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"]),
        (opened_ms, silent_ms) in (0_i64..5 * DAY_MS, 0_i64..6 * HOUR_MS),
        drops_older in any::<bool>(),
    ) {
        let by_age = if drops_older { dropping(SummaryPolicy::default()).ageing } else { Ageing::default() };
        let ageing = Zone::parse(zone).map_or(by_age, |zone| Ageing::Calendar(Calendar {
            zone,
            session_ms: DAY_MS,
            days: 14,
            drops_older,
            idle_gap_ms: 4 * HOUR_MS,
            session: Some(RunningSession { opened_at: AS_OF.plus_ms(-opened_ms), last_at: AS_OF.plus_ms(-silent_ms) }),
        }));
        let policy = SummaryPolicy { ageing, ..policy(max_tokens) };
        waits_ms.sort_unstable();
        let last_ms = waits_ms.last().copied().unwrap_or_default();
        let often: Vec<Timestamp> =
            [0].iter().chain(&waits_ms).map(|wait_ms| AS_OF.plus_ms(*wait_ms)).collect();
        let once = [AS_OF, AS_OF.plus_ms(last_ms)];
        prop_assert_eq!(aged_at(&items, &often, &policy), aged_at(&items, &once, &policy));
    }
}

#[cfg(feature = "tokenizer")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn compositions_keep_their_promises_counted_in_o200k(
        items in prop::collection::vec(any_item(AS_OF), 0..120), policy in any_policy(),
    ) {
        check(&items, &policy, crate::tokenizer::ceiling_counter().as_ref())?;
    }
}
