use std::sync::Arc;

use super::*;
use crate::domain::tokens::TokenCounter;

const WINDOW: WindowView = WindowView { first_exchange: 1, summarized_through: 0 };

fn said(tokens: i64) -> Observation {
    Observation { tokens, ..Observation::default() }
}

fn answer(tokens: i64) -> Observation {
    Observation { is_answer: true, ..said(tokens) }
}

fn usage(prompt_tokens: i64) -> ReportedUsage {
    ReportedUsage { prompt_tokens, ..ReportedUsage::default() }
}

fn reported(tokens: i64, usage: ReportedUsage) -> Observation {
    Observation { usage: Some(usage), ..answer(tokens) }
}

fn report(usage: ReportedUsage) -> Observation {
    Observation { is_metadata: true, usage: Some(usage), ..Observation::default() }
}

fn pairs(samples: &[CalibrationSample]) -> Vec<(i64, i64)> {
    samples.iter().map(|sample| (sample.estimated_tokens, sample.reported_tokens)).collect()
}

fn watched(messages: &[Observation]) -> Vec<(i64, i64)> {
    pairs(&Observer::default().samples_of(messages, WINDOW, false))
}

/// Both prompts include system and tools of 5,000 tokens; the messages between them are the sample.
#[test]
fn a_prompt_is_compared_with_the_one_before() {
    let messages =
        [said(100), reported(500, usage(5_110)), said(1_000), reported(50, usage(6_790)), said(10)];
    assert_eq!(watched(&messages), [(1_500, 1_680)]);
    // The samples don't depend on the number of appends.
    let mut observer = Observer::default();
    let one_by_one = messages.chunks(1).flat_map(|message| observer.samples_of(message, WINDOW, false));
    assert_eq!(pairs(&one_by_one.collect::<Vec<_>>()), [(1_500, 1_680)]);
}

#[test]
fn the_output_is_about_the_answer_without_its_thinking() {
    let output = |output, thinking| ReportedUsage {
        output_tokens: Some(output),
        thinking_tokens: thinking,
        ..usage(10)
    };
    assert_eq!(watched(&[reported(500, output(900, Some(300))), said(1)]), [(500, 600)]);
    // The share of thinking is unknown.
    assert_eq!(watched(&[reported(500, output(900, None)), said(1)]), []);
    let shown = Observation { is_opaque: true, ..reported(500, output(900, Some(300))) };
    assert_eq!(watched(&[shown, said(1)]), []);
}

#[test]
fn an_answer_in_pieces_is_one_answer() {
    let piece = |tokens, output| {
        let usage = ReportedUsage {
            response_id: Some("msg_1".to_owned()),
            output_tokens: Some(output),
            thinking_tokens: Some(0),
            ..usage(10)
        };
        reported(tokens, usage)
    };
    let pieces = [piece(200, 1), piece(100, 1), piece(300, 660), said(5)];
    assert_eq!(watched(&pieces), [(600, 660)]);
    // Two messages without a report, and then the report in a message of its own.
    let own_message = ReportedUsage { output_tokens: Some(330), thinking_tokens: Some(0), ..usage(10) };
    assert_eq!(watched(&[answer(100), answer(200), report(own_message)]), [(300, 330)]);
}

#[test]
fn thinking_and_images_spoil_the_next_difference() {
    let opaque = |seen: Observation| Observation { is_opaque: true, ..seen };
    for blur in [opaque(answer(500)), opaque(said(500))] {
        let messages = [
            reported(10, usage(1_000)),
            blur,
            said(500),
            reported(10, usage(2_000)),
            said(500),
            reported(10, usage(2_600)),
            said(1),
        ];
        // The second difference is usable again.
        assert_eq!(watched(&messages), [(510, 600)]);
    }
}

#[test]
fn prompts_before_and_after_a_moved_window_or_a_reset_are_not_compared() {
    let turn = |prompt| [said(500), reported(10, usage(prompt)), said(1)];
    let moved = WindowView { first_exchange: 3, ..WINDOW };
    for (window, has_reset) in [(moved, false), (WINDOW, true)] {
        let mut observer = Observer::default();
        assert_eq!(pairs(&observer.samples_of(&turn(1_000), WINDOW, false)), []);
        assert_eq!(pairs(&observer.samples_of(&turn(1_600), window, has_reset)), []);
        assert_eq!(pairs(&observer.samples_of(&turn(1_400), window, false)), []);
        assert_eq!(pairs(&observer.samples_of(&turn(2_000), window, false)), [(511, 600)]);
    }
}

#[test]
fn a_report_without_an_answer_gives_no_sample() {
    assert_eq!(watched(&[report(usage(5)), said(500), report(usage(700)), said(1)]), []);
}

#[test]
fn a_report_is_about_the_model_it_names() {
    let names = [
        (None, "claude-opus-5", true),
        (Some("claude-opus-5"), "claude-opus-5", true),
        (Some("anthropic/claude-opus-5"), "claude-opus-5", true),
        (Some("claude-opus-4-5-20251101"), "claude-opus-4-5", true),
        (Some("claude-opus-4-5"), "claude-opus-4-5@20251101", true),
        (Some("gpt-5-2025-08-07"), "openai/gpt-5", true),
        (Some("claude-sonnet-4-5-latest"), "claude-sonnet-4-5", true),
        (Some("claude-opus-4-7"), "claude-opus-4", false),
        (Some("gpt-5-mini"), "gpt-5", false),
        (Some("claude-haiku-4-5"), "claude-opus-5", false),
    ];
    for (reported, model, expected) in names {
        let usage = ReportedUsage { model: reported.map(str::to_owned), ..usage(1) };
        assert_eq!(usage.is_about(model), expected, "{reported:?} {model}");
    }
}

struct Characters {
    is_exact: bool,
}

impl TokenCounter for Characters {
    fn count(&self, text: &str) -> i64 {
        i64::try_from(text.chars().count()).unwrap()
    }

    fn method(&self) -> &'static str {
        "characters"
    }

    fn is_exact(&self) -> bool {
        self.is_exact
    }
}

#[test]
fn a_guard_scales_estimates_and_names_its_factor() {
    let mut calibration = Calibration::default();
    let guarded = |is_exact, calibration: &Calibration| {
        let permille = calibration.guard_permille(Reporter(1));
        GuardedCounter::over(Arc::new(Characters { is_exact }), permille)
    };
    assert_eq!(guarded(false, &calibration).method(), "characters");
    let learn = |calibration: &mut Calibration, reported_tokens| {
        let sample = CalibrationSample { estimated_tokens: 1_000, reported_tokens };
        calibration.learn(ReportedSample { reporter: Reporter(1), sample })
    };
    learn(&mut calibration, 1_111);
    let counter = guarded(false, &calibration);
    assert_eq!(counter.method(), "characters×1.12");
    let text = "x".repeat(1_000);
    assert_eq!((counter.count(&text), counter.without_guard(1_120)), (1_120, 1_000));
    // An exact counter stays exact, whatever providers report.
    let exact = guarded(true, &calibration);
    assert_eq!((exact.method(), exact.count(&text)), ("characters", 1_000));
    // Enough lower samples lower the guard.
    for _ in 0..SAMPLES_MAX {
        learn(&mut calibration, 905);
    }
    assert_eq!(guarded(false, &calibration).method(), "characters×0.91");
}
