//! Replaces the labels of forgotten marks with meaningless ones, because labels are content, too.
//!
//! A rewind finds its mark by the label, also in a replay. So a label is replaced wherever it occurs: in marks and rewinds of
//! every agent that shares the exchange, and in forks' records. If the forgotten exchange only rewinds to a label, and a mark
//! elsewhere has the same label, the label stays.

use std::collections::BTreeSet;

use crate::sql::{Connection, query, sql};

use super::{
    super::{super::StoreResult, fork::record},
    plan::ForgettingRow,
};
use recapd_core::domain::{
    agent::AgentId,
    lineage::Step,
    message::{Kind, Message, step_tombstone},
    time::Timestamp,
};

/// The beginning of a replaced label. The number of a message follows.
const REPLACED: &str = "forgotten-";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelReplacement {
    label: String,
    replacement: String,
}

/// A mark or a rewind with a label.
struct LabelRow {
    seq: i64,
    exchange: i64,
    kind: Kind,
    label: String,
}

/// Returns replacements for the labels that the messages to be forgotten use: marks and rewinds. A label that they only rewind to
/// stays if a mark elsewhere has it.
pub(super) async fn find(tx: &mut Connection, entry: &ForgettingRow) -> StoreResult<Vec<LabelReplacement>> {
    if !has_steps(tx, entry).await? {
        return Ok(Vec::new());
    }
    let all = load_labels(tx, &entry.source).await?;
    let is_in_entry = |step: &LabelRow| {
        step.exchange == entry.exchange && (entry.first_seq..=entry.last_seq).contains(&step.seq)
    };
    let is_mark = |step: &LabelRow| step.kind.name() == "mark";
    let elsewhere: BTreeSet<&str> = all
        .iter()
        .filter(|step| is_mark(step) && !is_in_entry(step))
        .map(|step| step.label.as_str())
        .collect();
    let mut found: Vec<LabelReplacement> = Vec::new();
    for step in all.iter().filter(|step| is_in_entry(step)) {
        let is_replaced = is_mark(step) || !elsewhere.contains(step.label.as_str());
        if is_replaced && found.iter().all(|replaced| replaced.label != step.label) {
            found.push(LabelReplacement {
                label: step.label.clone(),
                replacement: format!("{REPLACED}{}", step.seq),
            });
        }
    }
    Ok(found)
}

/// Returns true if there are marks or rewinds among these messages. Most exchanges have none.
async fn has_steps(tx: &mut Connection, entry: &ForgettingRow) -> StoreResult<bool> {
    let sql = sql!(
        "-- sql/forget.has_steps\nSELECT 1 FROM message_log WHERE agent_id = $1 AND seq BETWEEN $2 AND $3 \
               AND exchange = $4 AND kind IN ('mark', 'rewind') AND forgotten_at IS NULL LIMIT 1"
    );
    let query = query(sql)
        .bind(entry.source.as_str())
        .bind(entry.first_seq)
        .bind(entry.last_seq)
        .bind(entry.exchange);
    Ok(query.fetch_optional(tx).await?.is_some())
}

async fn load_labels(tx: &mut Connection, agent: &AgentId) -> StoreResult<Vec<LabelRow>> {
    let sql = sql!(
        "-- sql/forget.labelled\nSELECT seq, exchange, kind, payload FROM message_log WHERE agent_id = $1 \
               AND kind IN ('mark', 'rewind') AND forgotten_at IS NULL ORDER BY seq"
    );
    let mut labelled = Vec::new();
    for row in query(sql).bind(agent.as_str()).fetch_all(tx).await? {
        let (name, payload): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        let kind = Kind::from_name(&name);
        let message = Message { payload, ..Message::new(kind.clone(), Vec::new()) };
        let label = match Step::of(&message) {
            Some(Step::Mark(label) | Step::Rewind(label)) => label,
            _ => None,
        };
        if let Some(label) = label {
            labelled.push(LabelRow { seq: row.try_get(0)?, exchange: row.try_get(1)?, kind, label });
        }
    }
    Ok(labelled)
}

/// Replaces labels in one agent: in its messages, its marks and its fork record.
pub(super) async fn replace(
    tx: &mut Connection,
    agent: &AgentId,
    labels: &[LabelReplacement],
    now: Timestamp,
) -> StoreResult<()> {
    if labels.is_empty() {
        return Ok(());
    }
    let replacement_of = |label: &str| labels.iter().find(|replaced| replaced.label == label);
    let message = sql!(
        "-- sql/forget.replace_label\nUPDATE message_log SET payload = $3, format = 'native', salt = NULL, forgotten_at = $4 \
               WHERE agent_id = $1 AND seq = $2"
    );
    for step in load_labels(tx, agent).await? {
        let Some(replaced) = replacement_of(&step.label) else {
            continue;
        };
        query(message)
            .bind(agent.as_str())
            .bind(step.seq)
            .bind(step_tombstone(&step.kind, &replaced.replacement))
            .bind(now)
            .execute(&mut *tx)
            .await?;
    }
    let mark =
        sql!("-- sql/forget.replace_mark\nUPDATE marks SET label = $3 WHERE agent_id = $1 AND label = $2");
    for replaced in labels {
        query(mark)
            .bind(agent.as_str())
            .bind(replaced.label.as_str())
            .bind(replaced.replacement.as_str())
            .execute(&mut *tx)
            .await?;
    }
    if let Some(mut fork) = record::load_if_recorded(tx, agent).await? {
        for mark in &mut fork.marks {
            if let Some(replaced) = mark.label.as_deref().and_then(replacement_of) {
                mark.label = Some(replaced.replacement.clone());
            }
        }
        record::replace(tx, agent, &fork).await?;
    }
    Ok(())
}
