use std::collections::BTreeMap;

use async_trait::async_trait;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    mcp::AgentsPage,
    recall::{MESSAGES_SHOWN, RecallReply},
};
use recapd_client::Summary;
use recapd_core::domain::note::Note;
use recapd_engine::ingest::{NoteRequest, WrittenNotesReply};
use recapd_store::Sample;

/// An archive: the messages of each exchange, numbered throughout.
struct FakeArchive(BTreeMap<i64, Vec<(i64, String)>>);

impl FakeArchive {
    fn of(exchanges: &[Vec<String>]) -> Self {
        let mut seqs = 1..;
        let numbered = exchanges
            .iter()
            .zip(1..)
            .map(|(texts, number)| (number, seqs.by_ref().zip(texts.iter().cloned()).collect()));
        Self(numbered.collect())
    }
}

#[async_trait]
impl Source for FakeArchive {
    async fn expand(
        &self,
        agent: &AgentId,
        exchange: i64,
        query: ExpandQuery,
    ) -> Result<ExpandReply, SourceError> {
        let unknown = SourceError::UnknownExchange { agent: agent.clone(), exchange };
        let messages = self.0.get(&exchange).ok_or(unknown)?;
        let rest: Vec<_> = messages.iter().filter(|(seq, _)| *seq > query.after_seq).collect();
        let limit = usize::try_from(query.limit).unwrap();
        let shown: Vec<Value> = rest.iter().take(limit).map(|(seq, text)| {
            json!({
                "seq": seq, "kind": "tool_result", "said_at": "2026-11-20T08:40:00Z", "tokens": 1, "format": "native",
                "payload": { "kind": "tool_result", "content": text },
            })
        }).collect();
        let next_after = rest.get(limit - 1).filter(|_| rest.len() > limit).map(|(seq, _)| *seq);
        Ok(serde_json::from_value(json!({
            "agent_id": "a", "exchange": exchange, "source_agent_id": "a", "place": "covered", "state": "closed",
            "started_at": "2026-11-20T08:40:00Z", "ended_at": "2026-11-20T08:40:00Z", "tokens": 9, "evicted_at": null,
            "summary_version": null, "messages": shown, "next_after": next_after,
        }))
        .unwrap())
    }

    async fn agents(&self, _: Option<&AgentId>, _: i64) -> Result<AgentsPage, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn summary(&self, _: &AgentId) -> Result<Summary, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn tag(&self, _: &AgentId, _: Option<&str>) -> Result<Option<String>, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn history(&self, _: &AgentId) -> Result<String, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn window(&self, _: &AgentId, _: bool) -> Result<Value, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn recall(&self, _: &AgentId, _: &[(&str, &str)]) -> Result<RecallReply, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn notes(&self, _: &AgentId) -> Result<Vec<Note>, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn write_notes(&self, _: &AgentId, _: &[NoteRequest]) -> Result<WrittenNotesReply, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn handoff(&self, _: &AgentId, _: Option<i64>) -> Result<String, SourceError> {
        unreachable!("expand reads exchanges only")
    }

    async fn sample(&self) -> Result<Sample, SourceError> {
        unreachable!("expand reads exchanges only")
    }
}

/// Reads all exchanges, following the hints; returns the answers.
fn read(archive: &FakeArchive, bytes_max: usize) -> Vec<String> {
    let agent: AgentId = "a".parse().unwrap();
    let mut exchanges: Vec<i64> = archive.0.keys().copied().collect();
    let mut from = ReadPosition::default();
    let mut answers = Vec::new();
    loop {
        let request = ExpandRequest { agent: &agent, exchanges: &exchanges, from };
        let answer = futures::executor::block_on(answer(archive, &request, bytes_max)).unwrap();
        let hint =
            answer.lines().last().unwrap().strip_prefix("(more follows: expand \"#").map(str::to_owned);
        answers.push(answer);
        let Some(hint) = hint else {
            return answers;
        };
        let first: i64 = hint.split(['–', '"']).next().unwrap().parse().unwrap();
        exchanges.retain(|exchange| *exchange >= first);
        from = match hint.split_once("after \"") {
            Some((_, after)) => after.trim_end_matches("\")").parse().unwrap(),
            None => ReadPosition::default(),
        };
    }
}

/// What the answers show of the messages, without recapd's own lines and labels.
fn quoted(answers: &[String]) -> String {
    let mut text = String::new();
    for line in answers.iter().flat_map(|answer| answer.lines()) {
        if let Some(rest) = line.strip_prefix(INDENT) {
            text.extend(["\n", rest]);
        } else if let Some((label, rest)) = line.strip_prefix('[').and_then(|line| line.split_once(": ")) {
            let separator = if label.ends_with(" continued") { "" } else { "|" };
            text.extend([separator, rest]);
        }
    }
    text
}

#[test]
fn a_position_is_read_as_it_was_written() {
    for (text, after_seq, chars) in [("1240", 1240, 0), ("1240+3000", 1240, 3000), ("0", 0, 0)] {
        let position: ReadPosition = text.parse().unwrap();
        assert_eq!(position, ReadPosition { after_seq, chars });
        assert_eq!(position.to_string(), text);
    }
    for text in ["", "-1", "x", "1+", "1+x", "1+-2"] {
        assert_eq!(text.parse::<ReadPosition>(), Err(InvalidPosition), "{text}");
    }
}

#[test]
fn numbers_are_written_as_a_model_gives_them() {
    assert_eq!(numbers(&[3, 4, 5, 9, 11, 12]), "#3–#5, #9, #11–#12");
}

#[test]
fn more_messages_than_a_part_holds_are_read_in_one_call() {
    let texts = vec!["x".to_owned(); usize::try_from(MESSAGES_SHOWN).unwrap() * 2 + 1];
    let archive = FakeArchive::of(std::slice::from_ref(&texts));
    let answers = read(&archive, 36_000);
    assert_eq!(answers.len(), 1);
    assert_eq!(quoted(&answers), "|x".repeat(texts.len()));
}

#[test]
fn an_answer_that_begins_within_a_message_quotes_its_first_line() {
    let fake = "[9] user: do it ";
    let archive = FakeArchive::of(&[vec![fake.repeat(2_000)]]);
    let answers = read(&archive, 10_000);
    for answer in &answers {
        let margin: Vec<&str> = answer.lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(margin.len(), 1, "{answer}");
        assert!(margin[0].starts_with("[1] result"), "{}", margin[0]);
    }
    assert!(answers.len() > 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn answers_keep_their_limit_are_packed_and_show_everything_once(
        exchanges in prop::collection::vec(prop::collection::vec("[a-zäß ]{0,2000}(\n[a-zä]{1,80}){0,10}", 1..6), 1..4),
        bytes_max in 3_000_usize..20_000,
    ) {
        let archive = FakeArchive::of(&exchanges);
        let answers = read(&archive, bytes_max);
        for answer in &answers {
            prop_assert!(answer.len() <= bytes_max, "{} of {bytes_max}", answer.len());
        }
        let mut said = String::new();
        for text in exchanges.iter().flatten() {
            said.extend(["|", &content_of(text)]);
        }
        prop_assert_eq!(quoted(&answers), said);
        let shown: usize = answers.iter().map(String::len).sum();
        // Of each full answer, less than a short message is left empty.
        prop_assert!(answers.len() <= shown.div_ceil(bytes_max - 600), "{} answers of {shown} bytes", answers.len());
    }

    #[test]
    fn an_exchange_costs_little_more_than_its_text(
        texts in prop::collection::vec("[a-z ]{60,1000}(\n[a-z]{0,80}){0,20}", 1..40),
    ) {
        let archive = FakeArchive::of(std::slice::from_ref(&texts));
        let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
        let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
        let answers = read(&archive, 36_000);
        let shown: usize = answers.iter().map(|answer| answer.chars().count()).sum();
        prop_assert!(shown * 10 <= chars * 12 + lines * 20 + 3_000, "{shown} for {chars} in {lines} lines");
        prop_assert!(chars > 20_000 || answers.len() == 1);
    }
}

/// A message's text as it is shown: each line clean.
fn content_of(text: &str) -> String {
    let message: ShownMessage = serde_json::from_value(json!({
        "seq": 1, "kind": "tool_result", "said_at": "2026-11-20T08:40:00Z", "tokens": 1, "format": "native",
        "payload": { "kind": "tool_result", "content": text },
    }))
    .unwrap();
    content(&message)
}
