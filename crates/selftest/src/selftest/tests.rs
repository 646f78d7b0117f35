//! The self-test can fail: without any one of the builder's repairs, it does. And it can be stopped.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{
    findings::{TrialFindings, WindowPromise},
    plan::{Conversation, Plan, TrialSize},
    planting::plant_unsigned_thinking,
    progress::{ProgressError, TrialProgress},
    runner::run,
    window::{fill, fill_with},
    work::WorkFindings as _,
};
use recapd_core::{
    domain::{
        context::{Pass, Passes},
        message::{Format, Message},
        tokens::Characters,
    },
    formats,
};

/// A message in short form: `u hello`, `a hello`, `c id`, `r id text`, `t thought`.
fn message(line: &str) -> Message {
    let (kind, rest) = line.split_once(' ').unwrap();
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let json = match kind {
        "u" => serde_json::json!({"role": "user", "content": rest}),
        "a" => serde_json::json!({"role": "assistant", "content": rest}),
        "t" => serde_json::json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": rest, "signature": "c2lnbmVk"}, {"type": "text", "text": "said"}]}),
        "c" => serde_json::json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": first, "name": "read", "input": {}}]}),
        _ => serde_json::json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": first, "content": second}]}),
    };
    formats::parse(Format::Anthropic, &json.to_string()).unwrap()
}

fn conversation(name: &str, script: &str) -> Conversation {
    let messages = script.split(" | ").map(message).collect();
    Conversation::new(name.to_owned(), messages, &Characters)
}

/// For each repair, a conversation that needs it, and the judge's finding without it.
const IRREGULAR: [(Pass, &str, &str); 7] = [
    (Pass::MissingResults, "u Read it. | c 1 | u Well? | a Not yet. | u And now?", "call_unanswered"),
    (Pass::OrphanResults, "u Hello. | r 9 what nobody asked for | a Hm. | u Go on.", "result_orphan"),
    (
        Pass::ResultOrder,
        "u Read both. | c 1 | c 2 | r 2 two | u Well? | r 1 one | a Both read. | u Good.",
        "call_unanswered",
    ),
    (
        Pass::FirstTurn,
        "a Hello, how can I help? | u Tell me a story. | a Once upon a time. | u And then?",
        "it doesn't begin with the user",
    ),
    (Pass::Alternation, "u Hello. | u Are you there? | a Yes. | u Good.", "of the same role"),
    (
        Pass::Thinking,
        "u First. | t a long thought about it | u Second. | t another thought, as long | u Third.",
        "thinking is sent although",
    ),
    (
        Pass::Fitting,
        "u a question of some length | a an answer of some length | u another long question | u and a third one",
        "tokens in 2 exchanges",
    ),
];

const EXTENT: TrialSize = TrialSize { budgets: 12, looks: 4, seed: 7 };

fn plan(extent: TrialSize) -> Plan {
    let conversations = IRREGULAR.map(|(pass, script, _)| conversation(&format!("{pass:?}"), script));
    Plan::new(conversations.into(), extent, Arc::new(Characters))
}

fn found(script: &str, passes: Passes) -> TrialFindings {
    let plan = Plan::new(vec![conversation("it", script)], EXTENT, Arc::new(Characters));
    let mut findings = TrialFindings::default();
    for window in 0..EXTENT.budgets {
        let conversation = &plan.conversations[0];
        let trial = plan.trial(conversation, window);
        fill_with(conversation, &trial, &plan.counter, passes, &mut findings);
    }
    findings
}

#[test]
fn without_any_one_repair_the_judge_finds_a_breach() {
    for (pass, script, says) in IRREGULAR {
        let whole = found(script, Passes::ALL);
        assert!(whole.is_clean() && whole.requests > 100, "{pass:?}: {whole:#?}");
        let broken = found(script, Passes::without(pass));
        let mut told = broken.told.iter();
        assert!(told.any(|told| told.breach.contains(says)), "{pass:?}: {broken:#?}");
        assert!(!broken.is_clean());
    }
}

#[test]
fn unsigned_thinking_is_in_no_request() {
    let said = conversation("it", "u First. | a Yes. | u Second. | c 1 | r 1 done | a Done. | u Third.");
    let planted = plant_unsigned_thinking(said.messages);
    assert_eq!(planted.len(), 7 + 3);
    let conversation = Conversation::new("it".to_owned(), planted, &Characters);
    let plan = Plan::new(vec![conversation], EXTENT, Arc::new(Characters));
    let found = run(&plan, TrialProgress::begin(&plan), 1, &|_| ()).unwrap();
    assert!(found.is_clean() && found.requests > 100, "{found:#?}");
}

#[test]
fn every_repair_is_tried() {
    let tried = IRREGULAR.map(|(pass, ..)| pass);
    assert_eq!(tried, Pass::ALL);
}

#[test]
fn a_window_that_loses_exchanges_is_found() {
    let mut findings = TrialFindings::default();
    for (promise, count) in [
        (WindowPromise::Whole, (0, 1, 0, 0)),
        (WindowPromise::Fits, (0, 1, 1, 0)),
        (WindowPromise::Newest, (0, 1, 1, 1)),
        (WindowPromise::Accepted, (1, 1, 1, 1)),
    ] {
        findings.break_promise(promise, || "broken".to_owned());
        let TrialFindings { refused, split, over_budget, newest_lost, .. } = findings;
        assert_eq!((refused, split, over_budget, newest_lost), count);
        assert!(!findings.is_clean());
    }
}

/// A size for which each conversation is several pieces of work.
const PIECES: TrialSize = TrialSize { budgets: 60_000, looks: 0, seed: 3 };

#[test]
fn the_work_can_be_stopped_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("progress.json");
    let extent = TrialSize { budgets: 30, ..EXTENT };
    let whole = run(&plan(extent), TrialProgress::begin(&plan(extent)), 1, &|_| ()).unwrap();
    // Some pieces, the last ones first, then the rest on two threads.
    let plan = plan(extent);
    let mut begun = TrialProgress::resume(&plan, &file).unwrap();
    for piece in [6, 2] {
        let mut findings = TrialFindings::default();
        let conversation = &plan.conversations[plan.pieces[piece].conversation];
        for window in plan.pieces[piece].windows.clone() {
            fill(conversation, &plan.trial(conversation, window), &plan.counter, &mut findings);
        }
        begun.finish(piece, findings).unwrap();
    }
    drop(begun);
    let done = AtomicU64::new(0);
    let resumed = TrialProgress::resume(&plan, &file).unwrap();
    assert!(resumed.is_done(6) && resumed.is_done(2) && !resumed.is_done(0));
    let windows = |windows| {
        done.fetch_add(windows, Ordering::Relaxed);
    };
    assert_eq!(run(&plan, resumed, 2, &windows).unwrap(), whole);
    assert_eq!(done.into_inner(), 5 * 30);
    // The work is complete: nothing is repeated, and the figures are the same.
    let again = TrialProgress::resume(&plan, &file).unwrap();
    assert_eq!(run(&plan, again, 1, &|_| panic!("tried again")).unwrap(), whole);
}

#[test]
fn described_breaches_do_not_depend_on_their_order() {
    let found = |piece: usize| {
        let mut findings = TrialFindings::default();
        for number in 0..9 {
            findings.break_promise(WindowPromise::Accepted, || format!("{piece}.{number}"));
        }
        findings.of_piece(piece)
    };
    let sum = |order: [usize; 4]| {
        let mut sum = TrialFindings::default();
        for piece in order {
            sum.add(found(piece));
        }
        sum
    };
    assert_eq!(sum([0, 1, 2, 3]), sum([3, 1, 0, 2]));
    assert_eq!((sum([3, 2, 1, 0]).refused, sum([3, 2, 1, 0]).told.len()), (36, 20));
}

#[test]
fn progress_of_another_plan_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("progress.json");
    let mut progress = TrialProgress::resume(&plan(EXTENT), &file).unwrap();
    progress.finish(0, TrialFindings::default()).unwrap();
    let before = std::fs::read(&file).unwrap();
    let other = plan(TrialSize { seed: 8, ..EXTENT });
    assert!(matches!(TrialProgress::resume(&other, &file), Err(ProgressError::OtherPlan { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::write(&file, "{}").unwrap();
    assert!(matches!(TrialProgress::resume(&other, &file), Err(ProgressError::Unreadable { .. })));
    let nowhere = folder.path().join("none/progress.json");
    let mut nowhere = TrialProgress::resume(&other, &nowhere).unwrap();
    assert!(matches!(nowhere.finish(0, TrialFindings::default()), Err(ProgressError::Io { .. })));
}

#[test]
fn windows_don_t_depend_on_each_other_and_budgets_are_of_every_size() {
    let (small, large) = (plan(EXTENT), plan(TrialSize { budgets: 500, ..EXTENT }));
    let (of_small, of_large) = (&small.conversations[2], &large.conversations[2]);
    assert_eq!(small.trial(of_small, 40), large.trial(of_large, 40));
    assert_ne!(small.trial(of_small, 40), small.trial(of_small, 41));
    let tokens: i64 = of_large.tokens.iter().sum();
    let budgets = (0..500).map(|window| large.trial(of_large, window).budget.budget_tokens());
    let budgets: Vec<i64> = budgets.collect();
    let few = tokens / 4;
    assert!(budgets.iter().any(|&budget| budget < few) && budgets.iter().any(|&budget| budget > tokens));
    let plan = plan(PIECES);
    let covered: usize = plan.pieces.iter().map(|piece| piece.windows.len()).sum();
    assert_eq!(covered as u64, plan.windows());
}
