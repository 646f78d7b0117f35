//! Reads the material of an update: which exchanges are worth asking a model about, and when the material ages.

use recapd_core::domain::{exchange::Exchange, time::Timestamp, transcript::Transcript};
use recapd_store::{Material, RunRecord, StoredExchange};

/// Returns the time for which an update of `material` ages items.
pub(super) fn as_of(material: &Material, run: &RunRecord) -> Timestamp {
    material.as_of.unwrap_or(run.started_at)
}

/// Returns true if ageing now changes the document.
pub(super) fn is_due(material: &Material, run: &RunRecord) -> bool {
    material.next_ageing_at.is_some_and(|at| at <= as_of(material, run))
}

pub(super) fn rows(exchanges: &[StoredExchange]) -> Vec<Exchange> {
    exchanges.iter().map(|stored| stored.exchange.clone()).collect()
}

pub(super) fn numbers(exchanges: &[StoredExchange]) -> Vec<i64> {
    exchanges.iter().map(|stored| stored.exchange.exchange).collect()
}

/// Returns the numbers of the exchanges that are worth asking a model about. The others keep their digests.
pub(super) fn worth_asking(exchanges: &[StoredExchange]) -> Vec<i64> {
    let exchanges_worth_asking = exchanges.iter().filter(|stored| has_lines(stored));
    exchanges_worth_asking.map(|stored| stored.exchange.exchange).collect()
}

pub(super) fn has_lines(stored: &StoredExchange) -> bool {
    Transcript::has_lines(stored.messages.iter().map(|stored| &stored.message))
}

/// Returns how many exchanges come before the second half of those worth asking about; `None` if these can't be divided.
pub(super) fn half(exchanges: &[StoredExchange]) -> Option<usize> {
    let numbers = worth_asking(exchanges);
    let second = numbers.get(numbers.len() / 2).filter(|_| numbers.len() > 1)?;
    Some(exchanges.partition_point(|stored| stored.exchange.exchange < *second))
}
