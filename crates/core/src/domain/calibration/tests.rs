use proptest::prelude::*;

use super::*;

fn sample(estimated_tokens: i64, reported_tokens: i64) -> CalibrationSample {
    CalibrationSample { estimated_tokens, reported_tokens }
}

const ONE: Reporter = Reporter(1);

fn of_one(sample: CalibrationSample) -> ReportedSample {
    ReportedSample { reporter: ONE, sample }
}

fn learned(samples: impl IntoIterator<Item = CalibrationSample>) -> Calibration {
    let mut calibration = Calibration::default();
    for sample in samples {
        assert!(calibration.learn(of_one(sample)), "{sample:?}");
    }
    calibration
}

/// Learns from many agents that each report the same, as often as samples of one agent are kept.
fn learned_by(agents: std::ops::Range<u64>, reported_tokens: i64) -> Calibration {
    let mut calibration = Calibration::default();
    for agent in agents {
        for _ in 0..SAMPLES_PER_AGENT_MAX {
            calibration
                .learn(ReportedSample { reporter: Reporter(agent), sample: sample(1_000, reported_tokens) });
        }
    }
    calibration
}

#[test]
fn a_calibration_without_samples_changes_no_estimate() {
    let calibration = Calibration::default();
    assert_eq!((calibration.scale_by_guard(12_345), calibration.scale_by_average(12_345)), (12_345, 12_345));
    assert_eq!(calibration.scale_by_guard(i64::MAX), i64::MAX);
}

#[test]
fn a_few_samples_raise_the_guard_and_do_not_lower_it() {
    let low = || std::iter::repeat_n(sample(1_000, 800), SAMPLES_MIN);
    assert_eq!(learned(low().take(SAMPLES_MIN - 1)).guard_permille(ONE), 1_000);
    assert_eq!(learned(low()).guard_permille(ONE), 800);
    assert_eq!(learned([sample(1_000, 1_300)]).guard_permille(ONE), 1_300);
    assert_eq!(learned(low().take(3)).scale_by_average(1_000), 800);
}

#[test]
fn one_agent_cannot_set_the_guard_of_another() {
    for reported_tokens in [510, 1_990] {
        let liar = ReportedSample { reporter: Reporter(99), sample: sample(1_000, reported_tokens) };
        let mut calibration = Calibration::default();
        for _ in 0..10_000 {
            calibration.learn(liar);
        }
        assert_eq!(calibration.sample_count(), SAMPLES_PER_AGENT_MAX);
        assert_eq!(calibration.guard_permille(ONE), 1_000, "no other agent has reported");
        let mut calibration = learned_by(1..10, 1_100);
        for _ in 0..10_000 {
            calibration.learn(liar);
        }
        assert_eq!(calibration.guard_permille(Reporter(50)), 1_100);
        assert_eq!(calibration.guard_permille(ONE), 1_100);
        assert_eq!(calibration.guard_permille(Reporter(99)), reported_tokens);
    }
}

#[test]
fn only_many_agents_lower_the_guard_of_another() {
    let new = Reporter(50);
    let guard = |agents| learned_by(0..agents, 800).guard_permille(new);
    assert_eq!((guard(1), guard(7), guard(8)), (1_000, 1_000, 800));
    let raised = |agents| learned_by(0..agents, 1_200).guard_permille(new);
    assert_eq!((raised(2), raised(3)), (1_000, 1_200));
    // A few samples of its own only raise it.
    let mut calibration = learned_by(0..8, 800);
    calibration.learn(ReportedSample { reporter: new, sample: sample(1_000, 700) });
    assert_eq!(calibration.guard_permille(new), 1_000);
}

#[test]
fn implausible_samples_are_not_learned() {
    let mut calibrations = Calibrations::default();
    for (estimated, reported) in [(0, 0), (199, 300), (300, 199), (-500, 500), (1_000, 2_001), (2_001, 1_000)]
    {
        let sample = sample(estimated, reported);
        assert!(!Calibration::default().learn(of_one(sample)), "{sample:?}");
        assert!(!calibrations.learn("openai", "gpt-5", of_one(sample)), "{sample:?}");
    }
    assert!(calibrations.is_empty());
}

#[test]
fn a_meter_gives_samples_of_growth_only() {
    let mut meter = Meter::default();
    // Each report includes instructions and tools of 5,000 tokens, no estimate does.
    let requests = [(1_000, 6_100), (2_000, 7_200), (2_050, 7_255), (900, 6_000), (1_900, 7_100)];
    let samples = requests.map(|(estimated, reported)| meter.add_request(sample(estimated, reported)));
    assert_eq!(samples, [None, Some(sample(1_000, 1_100)), None, None, Some(sample(1_000, 1_100))]);
}

#[test]
fn a_changed_tokenizer_is_learned_anew() {
    let mut calibration = learned(std::iter::repeat_n(sample(1_000, 1_500), 1_000));
    for _ in 0..SAMPLES_MAX {
        calibration.learn(of_one(sample(1_000, 1_100)));
    }
    assert_eq!((calibration.guard_permille(ONE), calibration.scale_by_average(1_000)), (1_100, 1_100));
}

#[test]
fn the_model_that_learned_least_recently_is_dropped() {
    let mut calibrations = Calibrations::default();
    for number in 0..MODELS_MAX {
        calibrations.learn("openai", &format!("model-{number}"), of_one(sample(1_000, 1_000)));
    }
    calibrations.learn("openai", "model-0", of_one(sample(1_000, 1_000)));
    calibrations.learn("anthropic", "claude-opus-5", of_one(sample(1_000, 1_000)));
    assert_eq!(calibrations.len(), MODELS_MAX);
    assert!(calibrations.of("openai", "model-0").is_some());
    assert!(calibrations.of("openai", "model-1").is_none());
    assert!(calibrations.of("anthropic", "claude-opus-5").is_some());
}

fn samples(
    permille: std::ops::RangeInclusive<i64>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<CalibrationSample>> {
    let one = (1_000_i64..50_000, permille)
        .prop_map(|(estimated, permille)| sample(estimated, estimated * permille / 1_000));
    prop::collection::vec(one, count)
}

proptest! {
    #[test]
    fn guard_and_average_lie_between_the_extremes(samples in samples(700..=1_900, 1..400)) {
        let calibration = learned(samples.iter().copied());
        let recent = &samples[samples.len().saturating_sub(SAMPLES_PER_AGENT_MAX)..];
        let ratios = || recent.iter().map(|sample| sample.permille());
        let (min, max) = (ratios().min().unwrap(), ratios().max().unwrap());
        let guard = calibration.guard_permille(ONE);
        prop_assert!((min..=max.max(1_000)).contains(&guard), "{min} {guard} {max}");
        prop_assert!((min..=max).contains(&calibration.average_permille()));
        // The guard covers all but one sample in twenty.
        let above = ratios().filter(|ratio| *ratio > guard).count();
        prop_assert!(above * 20 <= recent.len(), "{above} of {}", recent.len());
    }

    #[test]
    fn the_guard_is_below_the_estimate_only_when_the_samples_say_so(
        samples in samples(510..=1_500, 1..200), tokens in 0_i64..1_000_000,
    ) {
        let calibration = learned(samples.iter().copied());
        let recent = &samples[samples.len().saturating_sub(SAMPLES_PER_AGENT_MAX)..];
        let lower = recent.iter().filter(|sample| sample.permille() < 1_000).count();
        if scale(tokens, calibration.guard_permille(ONE)) < tokens {
            prop_assert!(recent.len() >= SAMPLES_MIN && lower * 100 >= recent.len() * 95, "{lower}");
        }
    }

    #[test]
    fn calibrations_are_bounded_and_survive_serialization(
        samples in samples(510..=2_000, 1..300), names in prop::collection::vec("[a-f]{1,2}", 1..300),
    ) {
        let mut calibrations = Calibrations::default();
        for (sample, name) in samples.iter().zip(&names) {
            prop_assert!(calibrations.learn("local", name, of_one(*sample)));
            prop_assert!(calibrations.len() <= MODELS_MAX);
            prop_assert!(calibrations.of("local", name).unwrap().sample_count() <= SAMPLES_MAX);
        }
        let written = serde_json::to_string(&calibrations).unwrap();
        prop_assert_eq!(serde_json::from_str::<Calibrations>(&written).unwrap(), calibrations);
    }
}
