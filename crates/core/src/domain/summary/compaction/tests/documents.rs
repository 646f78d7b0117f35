//! Snapshots of whole documents, for people to read.

use super::*;
use crate::domain::summary::item::{ExchangeRange, Origin};

/// Friday 13 March, a quarter to seven in the morning.
fn now() -> Timestamp {
    at("2026-03-13T06:45")
}

fn at(minute: &str) -> Timestamp {
    Timestamp::parse(&format!("{minute}:00Z")).unwrap()
}

/// Makes an item about the exchanges `first` to `last` that began and ended at these minutes.
fn told(
    (first, last): (i64, i64),
    (from, to): (&str, &str),
    importance: Importance,
    [text, brief, gist]: [&str; 3],
) -> Item {
    Item {
        item: first,
        ranges: vec![ExchangeRange { first, last }],
        started_at: at(from),
        ended_at: at(to),
        source_tokens: (last - first + 1) * 1_200,
        importance,
        text: text.to_owned(),
        brief: brief.to_owned(),
        gist: gist.to_owned(),
        origin: Origin::Model,
        provisional: false,
        pinned: false,
    }
}

/// This morning in a harbour's booking office.
fn this_morning() -> Vec<Item> {
    let digest = Item {
        origin: Origin::Digest,
        provisional: true,
        ..told(
            (101, 101),
            ("2026-03-13T06:31", "2026-03-13T06:40"),
            Importance::Debugging,
            ["“Is berth 4 free on Sunday?” → berths(4)"; 3],
        )
    };
    vec![
        told(
            (98, 98),
            ("2026-03-13T05:29", "2026-03-13T05:41"),
            Importance::Feature,
            [
                "Rebuilt the tide table from the gauge's own file:\n1,204 rows read, none refused\nheights in centimetres, as the pilots asked\nsrc/tides/table.rs, with a test for the leap second",
                "Rebuilt the tide table from the gauge's file; 1,204 rows, heights in centimetres",
                "Rebuilt the tide table",
            ],
        ),
        told(
            (99, 100),
            ("2026-03-13T06:02", "2026-03-13T06:25"),
            Importance::Decision,
            [
                "Decided that a booking without a draught is refused: Marit's cutter touched ground last year",
                "A booking without a draught is refused",
                "No booking without a draught",
            ],
        ),
        digest,
    ]
}

fn the_days_before() -> Vec<Item> {
    let one = |numbers, times, importance, text: &'static str, brief: &'static str, gist: &'static str| {
        told(numbers, times, importance, [text, brief, gist])
    };
    vec![
        one(
            (80, 83),
            ("2026-03-09T09:00", "2026-03-09T10:10"),
            Importance::Feature,
            "Berths are drawn to scale in the plan; the crane's reach is a dashed line",
            "Berths are drawn to scale in the plan",
            "Plan drawn to scale",
        ),
        one(
            (84, 84),
            ("2026-03-12T14:00", "2026-03-12T14:20"),
            Importance::Fix,
            "Fixed fees for boats of exactly twelve metres, which paid nothing (fees.rs, off by one)",
            "Boats of exactly twelve metres paid nothing; fixed",
            "Fixed the fee at twelve metres",
        ),
        one(
            (85, 91),
            ("2026-03-12T22:50", "2026-03-13T00:20"),
            Importance::Debugging,
            "Looked for lost bookings in the night's log: the modem restarts at midnight, nothing is lost",
            "The night's lost bookings were none: the modem restarts at midnight",
            "No bookings were lost",
        ),
    ]
}

/// The week before, and the winter.
fn long_ago() -> Vec<Item> {
    vec![
        told(
            (40, 62),
            ("2026-03-02T08:00", "2026-03-02T17:30"),
            Importance::Decision,
            [
                "Moved all bookings into one table; the old files stay readable until the season ends, as the auditor demands",
                "Moved all bookings into one table; old files stay until the season ends",
                "All bookings in one table",
            ],
        ),
        told(
            (63, 79),
            ("2026-03-05T08:00", "2026-03-06T16:00"),
            Importance::Feature,
            [
                "Skippers get a letter the evening before they are due, in their own language",
                "Skippers get a letter the evening before",
                "Letters to skippers",
            ],
        ),
        told(
            (1, 12),
            ("2025-12-29T08:00", "2025-12-30T12:00"),
            Importance::Decision,
            [
                "Sanne runs the office and signs every price; no price is changed without her",
                "Sanne signs every price",
                "Sanne signs prices",
            ],
        ),
        told(
            (13, 39),
            ("2026-01-20T08:00", "2026-01-21T12:00"),
            Importance::Trivial,
            [
                "Tried three colours for the buoys in the plan and kept the first",
                "Tried colours for the buoys",
                "Colours of buoys",
            ],
        ),
    ]
}

fn composed(items: &[Item], policy: &SummaryPolicy) -> Composition {
    compose(items, now(), policy, &BytesCounter)
}

fn all() -> Vec<Item> {
    [this_morning(), the_days_before(), long_ago()].concat()
}

#[test]
fn of_one_morning() {
    let document = composed(&this_morning(), &SummaryPolicy::default()).document;
    insta::assert_snapshot!(document, @r"
    ## Previously in This Session (13 March 2026, 05:29–06:40)
    - Rebuilt the tide table from the gauge's own file: (05:29, #98)
      - 1,204 rows read, none refused
      - heights in centimetres, as the pilots asked
      - src/tides/table.rs, with a test for the leap second
    - Decided that a booking without a draught is refused: Marit's cutter touched ground last year (06:02, #99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (06:31, #101) (not yet condensed)

    *Older history is archived: look up any #n with recall.*
    ");
}

#[test]
fn of_several_days() {
    let items = [this_morning(), the_days_before()].concat();
    let document = composed(&items, &SummaryPolicy::default()).document;
    insta::assert_snapshot!(document, @r"
    ## Previously in This Session (12–13 March 2026)
    ### Thu 12 March
    - Fixed fees for boats of exactly twelve metres, which paid nothing (fees.rs, off by one) (14:00, #84)
    - Looked for lost bookings in the night's log: the modem restarts at midnight, nothing is lost (22:50 to 13 March, #85–#91)
    ### Fri 13 March
    - Rebuilt the tide table from the gauge's own file: (05:29, #98)
      - 1,204 rows read, none refused
      - heights in centimetres, as the pilots asked
      - src/tides/table.rs, with a test for the leap second
    - Decided that a booking without a draught is refused: Marit's cutter touched ground last year (06:02, #99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (06:31, #101) (not yet condensed)

    ## Yesterday (9 March 2026)
    - Berths are drawn to scale in the plan; the crane's reach is a dashed line (#80–#83)

    *Older history is archived: look up any #n with recall.*
    ");
}

#[test]
fn of_a_winter() {
    let document = composed(&all(), &SummaryPolicy::default()).document;
    insta::assert_snapshot!(document, @r"
    ## Previously in This Session (12–13 March 2026)
    ### Thu 12 March
    - Fixed fees for boats of exactly twelve metres, which paid nothing (fees.rs, off by one) (14:00, #84)
    - Looked for lost bookings in the night's log: the modem restarts at midnight, nothing is lost (22:50 to 13 March, #85–#91)
    ### Fri 13 March
    - Rebuilt the tide table from the gauge's own file: (05:29, #98)
      - 1,204 rows read, none refused
      - heights in centimetres, as the pilots asked
      - src/tides/table.rs, with a test for the leap second
    - Decided that a booking without a draught is refused: Marit's cutter touched ground last year (06:02, #99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (06:31, #101) (not yet condensed)

    ## Yesterday (5–9 March 2026)
    - Skippers get a letter the evening before they are due, in their own language (5–6 March, #63–#79)
    - Berths are drawn to scale in the plan; the crane's reach is a dashed line (Mon 9 March, #80–#83)

    ## This Week (2 March 2026)
    - Moved all bookings into one table; the old files stay readable until the season ends, as the auditor demands (#40–#62)

    ## Earlier (29 December 2025 – 21 January 2026)
    - Sanne runs the office and signs every price; no price is changed without her (29–30 December 2025, #1–#12)
    - Tried three colours for the buoys in the plan and kept the first (20–21 January 2026, #13–#39)

    *Older history is archived: look up any #n with recall.*
    ");
}

#[test]
fn of_a_winter_with_little_room() {
    let whole = composed(&all(), &SummaryPolicy::default());
    let less = composed(&all(), &policy(whole.tokens));
    assert_eq!((less.path, less.shown_items.len()), (Path::Merge, 10));
    insta::assert_snapshot!(less.document, @r"
    ## Previously in This Session (12–13 March 2026)
    ### Thu 12 March
    - Fixed fees for boats of exactly twelve metres, which paid nothing (fees.rs, off by one) (14:00, #84)
    - The night's lost bookings were none: the modem restarts at midnight (22:50 to 13 March, #85–#91)
    ### Fri 13 March
    - Rebuilt the tide table from the gauge's own file: (05:29, #98)
      - 1,204 rows read, none refused
      - heights in centimetres, as the pilots asked
      - src/tides/table.rs, with a test for the leap second
    - Decided that a booking without a draught is refused: Marit's cutter touched ground last year (06:02, #99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (06:31, #101) (not yet condensed)

    ## Yesterday (5–9 March 2026)
    - Letters to skippers (5–6 March, #63–#79)
    - Plan drawn to scale (Mon 9 March, #80–#83)

    ## This Week (2 March 2026)
    - All bookings in one table (#40–#62)

    ## Earlier (29 December 2025 – 21 January 2026)
    - Sanne signs every price (29–30 December 2025, #1–#12)
    - Colours of buoys (20–21 January 2026, #13–#39)

    *Older history is archived: look up any #n with recall.*
    ");
    let least = composed(&all(), &policy(whole.tokens * 45 / 100));
    assert_eq!(least.path, Path::Full);
    insta::assert_snapshot!(least.document, @r"
    ## Previously in This Session (12–13 March 2026)
    ### Thu 12 March
    - Fixed the fee at twelve metres (#84)
    ### Fri 13 March
    - Rebuilt the tide table from the gauge's own file: (#98)
      - 1,204 rows read, none refused …
    - No booking without a draught (#99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (#101) (not yet condensed)

    ## This Week (2 March 2026)
    - All bookings in one table (#40–#62)

    ## Earlier (29–30 December 2025)
    - Sanne signs prices (#1–#12)

    *Older history is archived: look up any #n with recall.*
    ");
}

/// Seed 003: three sections, numbered lines, "(timestamp, ~tokens)", "(~tokens)", "(day, ~tokens)".
#[test]
fn in_the_seeds_style() {
    let policy = SummaryPolicy { style: Style::Seed, ..dropping(SummaryPolicy::default()) };
    insta::assert_snapshot!(composed(&all(), &policy).document, @r"
    ## Previously in This Session
    1. Fixed fees for boats of exactly twelve metres, which paid nothing (fees.rs, off by one) (2026-03-12 14:00, ~1k tokens)
    2. Looked for lost bookings in the night's log: the modem restarts at midnight, nothing is lost (2026-03-12 22:50–2026-03-13 00:20, ~8k tokens)
    3. Rebuilt the tide table from the gauge's own file: (2026-03-13 05:29, ~1k tokens)
       - 1,204 rows read, none refused
       - heights in centimetres, as the pilots asked
       - src/tides/table.rs, with a test for the leap second
    4. Decided that a booking without a draught is refused: Marit's cutter touched ground last year (2026-03-13 06:02, ~2k tokens)
    5. “Is berth 4 free on Sunday?” → berths(4) (2026-03-13 06:31, ~1k tokens) (not yet condensed)

    ## Yesterday
    1. Skippers get a letter the evening before they are due, in their own language (~20k tokens)
    2. Berths are drawn to scale in the plan; the crane's reach is a dashed line (~5k tokens)

    ## This Week
    1. Moved all bookings into one table; the old files stay readable until the season ends, as the auditor demands (Mon, ~28k tokens)

    *Older history is archived: look up any #n with recall.*
    ");
}

/// Composed at the moment at which a file without times was read.
#[test]
fn of_a_conversation_without_times() {
    let mut items = this_morning();
    for item in &mut items {
        (item.started_at, item.ended_at) = (now(), now());
    }
    insta::assert_snapshot!(composed(&items, &SummaryPolicy::default()).document, @r"
    ## Previously in This Session
    - Rebuilt the tide table from the gauge's own file: (#98)
      - 1,204 rows read, none refused
      - heights in centimetres, as the pilots asked
      - src/tides/table.rs, with a test for the leap second
    - Decided that a booking without a draught is refused: Marit's cutter touched ground last year (#99–#100)
    - “Is berth 4 free on Sunday?” → berths(4) (#101) (not yet condensed)

    *Older history is archived: look up any #n with recall.*
    ");
    let little = composed(&items, &policy(120));
    assert!(little.path == Path::Full && !little.document.contains("March"), "{}", little.document);
    let seed = SummaryPolicy { style: Style::Seed, ..SummaryPolicy::default() };
    let document = composed(&items, &seed).document;
    assert!(document.contains("file: (~1k tokens)"), "{document}");
}

#[test]
fn a_long_text_loses_whole_points() {
    let points: Vec<String> = (1..=30)
        .map(|n| format!("Point {n} of what was found in the harbour master's books of {}", 1_900 + n))
        .collect();
    let mut long = this_morning().remove(0);
    long.source_tokens = 40_000;
    long.text = points.join("\n");
    let composed = composed(&[long], &policy(600));
    assert_eq!((composed.path, composed.shown_items[0].form), (Path::Full, Form::Text));
    let shown = composed.shown_items[0].points;
    let (left, omitted): (Vec<usize>, Vec<usize>) = (0..30).partition(|place| shown.has(*place));
    assert!((10..30).contains(&left.len()) && left[0] == 0, "{left:?}");
    assert!((430..480).contains(&composed.tokens), "{}", composed.tokens);
    let stands = |place: &usize| composed.document.contains(&points[*place]);
    assert!(left.iter().all(stands), "{}", composed.document);
    assert!(!omitted.iter().any(stands), "{}", composed.document);
    let end = format!("{} …\n", points[left[left.len() - 1]]);
    assert!(composed.document.contains(&end), "{}", composed.document);
}
