use proptest::prelude::*;

use super::*;

const EMPTY: ContinuationPlan =
    ContinuationPlan { step: None, is_new: Vec::new(), copies: Vec::new(), marks: Vec::new() };

fn request(hash: u64) -> ContentUnit {
    ContentUnit { hash, kind: UnitKind::Request }
}

fn other(hash: u64) -> ContentUnit {
    ContentUnit { hash, kind: UnitKind::Other }
}

fn summary(hash: u64) -> ContentUnit {
    ContentUnit { hash, kind: UnitKind::Summary }
}

/// A store that carries out plans.
#[derive(Default)]
struct Archive {
    conversation: StoredConversation,
    exchange: i64,
    stored: Vec<u64>,
}

impl Archive {
    fn send(
        &mut self,
        sent: &[ContentUnit],
        extent: SentExtent,
    ) -> Result<ContinuationPlan, AnotherConversation> {
        let plan = self.conversation.plan(sent, extent)?;
        self.conversation.push(plan.step.as_ref(), &[], self.exchange);
        for (at, &unit) in sent.iter().enumerate() {
            if let Some(mark) = &plan.marks[at] {
                self.conversation.push(Some(&Step::Mark(Some(mark.clone()))), &[], self.exchange);
            }
            if plan.is_new[at] {
                self.exchange += i64::from(unit.kind != UnitKind::Other || self.exchange == 0);
                self.stored.push(unit.hash);
                let copies = if unit.kind == UnitKind::Summary { &plan.copies[..] } else { &[] };
                self.conversation.push(None, &[&[unit], copies].concat(), self.exchange);
            }
        }
        Ok(plan)
    }

    fn line(&self) -> Vec<u64> {
        self.conversation.units.iter().map(|stored| stored.unit.hash).collect()
    }
}

#[test]
fn a_longer_conversation_appends_its_end() {
    let mut archive = Archive::default();
    archive.send(&[request(1)], SentExtent::Whole).unwrap();
    archive.send(&[other(2)], SentExtent::End).unwrap();
    let sent = [request(1), other(2), request(3)];
    let plan = archive.send(&sent, SentExtent::Whole).unwrap();
    assert_eq!(plan.is_new, [false, false, true]);
    assert_eq!(plan.marks[2], Some(mark_label(2, request(3))));
    assert_eq!(archive.line(), [1, 2, 3]);
    // The same request again stores nothing.
    let plan = archive.send(&sent, SentExtent::Whole).unwrap();
    assert_eq!(plan.is_new, [false; 3]);
}

#[test]
fn an_edited_request_rewinds_to_before_it() {
    let mut archive = Archive::default();
    let sent = [request(1), other(2), request(3), other(4), request(5)];
    archive.send(&sent, SentExtent::Whole).unwrap();
    let plan = archive.send(&[request(1), other(2), request(30)], SentExtent::Whole).unwrap();
    assert_eq!(plan.step, Some(Step::Rewind(Some(mark_label(2, request(3))))));
    assert_eq!(archive.line(), [1, 2, 30]);
    // What was taken back can be said again.
    archive.send(&[request(1), other(2), request(3)], SentExtent::Whole).unwrap();
    assert_eq!(archive.line(), [1, 2, 3]);
    assert_eq!(archive.stored, [1, 2, 3, 4, 5, 30, 3]);
}

#[test]
fn an_answer_that_differs_in_the_copy_rewinds_nothing() {
    let mut archive = Archive::default();
    archive.send(&[request(1), other(2), other(3)], SentExtent::Whole).unwrap();
    let plan = archive.send(&[request(1), other(20), other(3), request(4)], SentExtent::Whole).unwrap();
    assert_eq!((plan.step, plan.is_new), (None, vec![false, true, false, true]));
}

#[test]
fn a_hosts_summary_begins_a_session_and_is_stored_once() {
    let mut archive = Archive::default();
    archive.send(&[request(1), other(2), request(3)], SentExtent::Whole).unwrap();
    let plan = archive.send(&[summary(9), request(4)], SentExtent::Whole).unwrap();
    assert_eq!(plan.step, Some(Step::Clear));
    let plan = archive.send(&[summary(9), request(4), other(5)], SentExtent::Whole).unwrap();
    assert_eq!((plan.step, plan.is_new), (None, vec![false, false, true]));
    assert_eq!(archive.line(), [9, 4, 5]);
}

#[test]
fn what_a_host_copies_behind_its_summary_is_not_stored_again() {
    let mut archive = Archive::default();
    archive.send(&[request(1), other(2), request(3), other(4)], SentExtent::Whole).unwrap();
    let sent = [summary(9), request(3), other(4), request(5)];
    let plan = archive.send(&sent, SentExtent::Whole).unwrap();
    assert_eq!((plan.is_new, plan.copies.len()), (vec![true, false, false, true], 2));
    let plan = archive.send(&sent, SentExtent::Whole).unwrap();
    assert_eq!(plan.is_new, [false; 4]);
}

#[test]
fn another_conversation_is_told_apart() {
    let mut archive = Archive::default();
    archive.send(&[request(1), other(2)], SentExtent::Whole).unwrap();
    assert_eq!(archive.send(&[request(7)], SentExtent::Whole), Err(AnotherConversation));
    assert_eq!(archive.send(&[], SentExtent::Whole), Ok(EMPTY));
}

#[test]
fn lines_of_a_transcript_repeat_what_a_proxy_stored() {
    let lines = |units: &[&[u64]]| units.iter().map(|line| line.to_vec()).collect::<Vec<_>>();
    let stored = [1, 2, 3, 4];
    for (said, expected) in [
        // All is stored, as one message or as several; results of parallel calls stand in another order.
        (lines(&[&[1], &[2], &[3], &[4]]), vec![true; 4]),
        (lines(&[&[1], &[2, 4], &[3]]), vec![true; 3]),
        // The transcript is behind, or ahead.
        (lines(&[&[3]]), vec![true]),
        (lines(&[&[3], &[4], &[], &[5]]), vec![true, true, false, false]),
        // The proxy missed the first one.
        (lines(&[&[9], &[4]]), vec![false, true]),
        // The same words in a turn that the proxy has not seen.
        (lines(&[&[1], &[9]]), vec![false; 2]),
        (lines(&[&[5], &[6]]), vec![false; 2]),
        (lines(&[]), vec![]),
    ] {
        assert_eq!(find_repeated(&stored, &said), expected, "{said:?}");
    }
    assert_eq!(find_repeated(&[], &lines(&[&[1]])), [false]);
}

proptest! {
    /// Whatever is edited, the line ends as the conversation that was sent last, and no unit is stored twice on a line.
    #[test]
    fn the_line_follows_the_conversation(edits in prop::collection::vec((0..12_usize, 1..4_usize, any::<bool>()), 1..20)) {
        let (mut archive, mut talk, mut next) = (Archive::default(), vec![request(1)], 2);
        archive.send(&talk, SentExtent::Whole).unwrap();
        for (keep, rounds, takes_back) in edits {
            if takes_back {
                // Whole exchanges are taken back, never the first one.
                let requests = (1..talk.len()).filter(|&at| talk[at].kind == UnitKind::Request);
                if let Some(at) = requests.collect::<Vec<_>>().get(keep) {
                    talk.truncate(*at);
                }
            }
            for _ in 0..rounds {
                talk.extend([request(next), other(next + 1)]);
                next += 2;
            }
            archive.send(&talk, SentExtent::Whole).unwrap();
            let sent: Vec<u64> = talk.iter().map(|unit| unit.hash).collect();
            prop_assert_eq!(archive.line(), sent);
        }
        let mut once = archive.stored.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), archive.stored.len());
    }
}
