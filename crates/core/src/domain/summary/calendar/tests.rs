use proptest::prelude::*;

use super::*;
use crate::domain::time::{DAY_MS, HOUR_MS};

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn calendar(zone: &str) -> Calendar {
    Calendar {
        zone: Zone::parse(zone).unwrap(),
        session_ms: DAY_MS,
        days: 14,
        drops_older: true,
        idle_gap_ms: 4 * HOUR_MS,
        session: None,
    }
}

#[test]
fn sections_are_days_of_the_calendar() {
    use Section::{Earlier, Session, Week, Yesterday};
    let as_of = at("2026-03-12T09:00:00Z");
    for (ended_at, section) in [
        ("2026-03-13T09:00:00Z", Some(Session)),
        ("2026-03-12T00:00:00Z", Some(Session)),
        ("2026-03-11T09:00:01Z", Some(Session)),
        ("2026-03-11T09:00:00Z", Some(Yesterday)),
        ("2026-03-11T00:00:00Z", Some(Yesterday)),
        ("2026-03-10T23:59:59Z", Some(Week)),
        ("2026-03-05T12:00:00Z", Some(Week)),
        ("2026-02-27T00:00:00Z", Some(Week)),
        ("2026-02-26T23:59:59Z", None),
    ] {
        let actual = calendar("UTC").section_of(at(ended_at), as_of);
        assert_eq!(actual, section, "{ended_at}");
    }
    let keeping = Calendar { drops_older: false, ..calendar("UTC") };
    let old = at("2026-02-26T23:59:59Z");
    assert_eq!(keeping.section_of(old, as_of), Some(Earlier));
    assert_eq!(keeping.next_change(old, as_of), None);
    // In Los Angeles it is still the 11th, so the 10th is yesterday.
    let as_of = at("2026-03-12T06:00:00Z");
    let late = at("2026-03-11T05:00:00Z");
    assert_eq!(calendar("America/Los_Angeles").section_of(late, as_of), Some(Yesterday));
    assert_eq!(calendar("Asia/Tokyo").section_of(late, as_of), Some(Yesterday));
    let early = at("2026-03-10T14:00:00Z");
    assert_eq!(calendar("Asia/Tokyo").section_of(early, as_of), Some(Week));
}

#[test]
fn a_day_of_25_hours_is_one_day() {
    // In Berlin the clocks go back on the 25th: its first item is older than 24 hours on the same day.
    let calendar = calendar("Europe/Berlin");
    let first = at("2026-10-24T22:05:00Z");
    let midnight = at("2026-10-25T23:00:00Z");
    let section = |as_of| calendar.section_of(first, as_of);
    assert_eq!(section(midnight.plus_ms(-1)), Some(Section::Session));
    assert_eq!(section(midnight), Some(Section::Yesterday));
    assert_eq!(calendar.next_change(first, first), Some(midnight));
    assert_eq!(calendar.next_change(first, midnight), Some(at("2026-10-26T23:00:00Z")));
}

#[test]
fn the_running_session_stays_together_until_it_ends() {
    let mut calendar = calendar("Europe/Berlin");
    let (opened_at, last_at) = (at("2026-03-09T08:00:00Z"), at("2026-03-12T08:00:00Z"));
    calendar.session = Some(RunningSession { opened_at, last_at });
    let section = |calendar: &Calendar, ended_at, as_of| calendar.section_of(at(ended_at), as_of);
    let ends_at = at("2026-03-12T12:00:00Z");
    assert_eq!(section(&calendar, "2026-03-09T09:00:00Z", last_at), Some(Section::Session));
    assert_eq!(section(&calendar, "2026-03-09T07:00:00Z", last_at), Some(Section::Week));
    assert_eq!(section(&calendar, "2026-03-09T09:00:00Z", ends_at), Some(Section::Week));
    assert_eq!(calendar.next_change(at("2026-03-09T09:00:00Z"), last_at), Some(ends_at));
    calendar.idle_gap_ms = 0;
    assert_eq!(section(&calendar, "2026-03-09T09:00:00Z", ends_at), Some(Section::Session));
    assert_eq!(
        calendar.next_change(at("2026-03-09T09:00:00Z"), ends_at),
        Some(at("2026-03-22T23:00:00Z")),
        "a session without an end doesn't keep the item for ever"
    );
}

proptest! {
    #[test]
    fn the_section_changes_at_the_next_change_and_not_before(
        zone in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec()),
        ended_ms in 0_i64..2_000_000_000_000,
        age_ms in -DAY_MS..16 * DAY_MS,
        (session_ms, days) in (0_i64..40 * HOUR_MS, 0_i64..16),
        (opened_ms, silent_ms) in (-3 * DAY_MS..3 * DAY_MS, 0_i64..8 * HOUR_MS),
        later_permille in 0_i64..1_000,
        drops_older in any::<bool>(),
    ) {
        let (ended_at, as_of) = (Timestamp(ended_ms), Timestamp(ended_ms + age_ms));
        let session = RunningSession {
            opened_at: ended_at.plus_ms(opened_ms),
            last_at: as_of.plus_ms(-silent_ms),
        };
        let calendar = Calendar { session_ms, days, drops_older, session: Some(session), ..calendar(zone.name()) };
        let section = |at| calendar.section_of(ended_at, at);
        let Some(change) = calendar.next_change(ended_at, as_of) else {
            prop_assert_eq!(section(as_of), (!drops_older).then_some(Section::Earlier));
            return Ok(());
        };
        prop_assert!(change > as_of);
        let between = as_of.plus_ms(change.since_ms(as_of) * later_permille / 1_000);
        prop_assert_eq!(section(between), section(as_of));
        prop_assert_eq!(section(change.plus_ms(-1)), section(as_of));
        prop_assert_ne!(section(change), section(as_of));
    }
}
