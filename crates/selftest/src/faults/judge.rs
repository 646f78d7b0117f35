//! Compares the data left after a run with the ledger of requests. There are two judges: the store's own `verify`, and SQL
//! queries from whose rows everything is computed anew.

mod coverage;
mod histories;
mod stored;

use std::collections::{BTreeMap, HashSet};

use histories::{Forgettings, Verdict};
use stored::AgentRecord;

use super::{
    findings::{FaultFindings, Promise},
    ledger::{History, MARKER, RequestFate, Step},
    place::Place,
};
use recapd_core::domain::agent::AgentId;
use recapd_store::{
    Store, StoreError, StoreResult,
    verify::{self, Invariant},
};

/// The broken promise, and a description.
type Breach = (Promise, String);

/// Reads everything by SQL and compares it with the requests.
pub(super) fn judge_rows(place: &Place, histories: &BTreeMap<String, History>, found: &mut FaultFindings) {
    let all = match stored::read(place) {
        Ok(all) => all,
        Err(error) => return found.break_promise(Promise::Other, 1, format!("rows can't be read: {error}")),
    };
    let forgettings = forgettings(histories, &all);
    let (nothing, never) = (History::default(), AgentRecord::default());
    let (mut breaches, mut forgotten) = (Vec::new(), Vec::new());
    for (agent, stored) in &all {
        breaches.extend(coverage::check(agent, stored));
        if !histories.contains_key(agent) && !is_maybe_forked(agent, histories) {
            breaches.push((Promise::Once, format!("{agent} is there, and nobody made it")));
        }
    }
    let agents: HashSet<&String> = all.keys().chain(histories.keys()).collect();
    for agent in agents {
        let verdict: Verdict = histories::check(
            agent,
            histories.get(agent).unwrap_or(&nothing),
            all.get(agent).unwrap_or(&never),
            forgettings.get(agent).unwrap_or(&Forgettings::default()),
        );
        found.turns += verdict.turns;
        found.forgotten += verdict.tombstones;
        breaches.extend(verdict.breaches);
        forgotten.extend(verdict.forgotten);
    }
    breaches.extend(judge_forgotten(place, &forgotten));
    for (promise, breach) in breaches {
        found.break_promise(promise, 1, breach);
    }
}

fn is_maybe_forked(agent: &str, histories: &BTreeMap<String, History>) -> bool {
    let mut steps = histories.values().flat_map(|history| &history.steps);
    steps.any(|asked| asked.fate != RequestFate::Refused && asked.step == Step::Fork(agent.to_owned()))
}

/// The requests to forget, by the agent that owns the messages.
fn forgettings(
    histories: &BTreeMap<String, History>,
    all: &BTreeMap<String, AgentRecord>,
) -> BTreeMap<String, Forgettings> {
    let mut forgettings: BTreeMap<String, Forgettings> = BTreeMap::new();
    for (agent, history) in histories {
        for asked in &history.steps {
            let Step::Forget(number) = asked.step else {
                continue;
            };
            let exchanges = all.get(agent).map(|stored| stored.exchanges.iter());
            let exchange = exchanges.into_iter().flatten().find(|exchange| exchange.number == number);
            let Some(exchange) = exchange else { continue };
            let of_source = forgettings.entry(exchange.source.clone()).or_default();
            match asked.fate {
                RequestFate::Acknowledged => of_source.done.insert(number),
                RequestFate::Ambiguous => of_source.ambiguous.insert(number),
                RequestFate::Refused => false,
            };
        }
    }
    forgettings
}

fn judge_forgotten(place: &Place, forgotten: &[String]) -> Vec<Breach> {
    let content = match place.content() {
        Ok(content) => content,
        Err(error) => {
            return vec![(Promise::Other, format!("what is stored can't be searched: {error}"))];
        }
    };
    let found: HashSet<&[u8]> = markers(&content).collect();
    let left: Vec<&String> = forgotten.iter().filter(|marker| found.contains(marker.as_bytes())).collect();
    match left.first() {
        Some(first) => {
            vec![(Promise::Other, format!("{} forgotten messages can still be found: {first} …", left.len()))]
        }
        None => Vec::new(),
    }
}

fn markers(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let start = rest.iter().position(|byte| *byte == MARKER.as_bytes()[0])?;
            rest = rest.get(start..)?;
            if rest.starts_with(MARKER.as_bytes()) {
                let is_of_marker = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
                let length = rest.iter().position(|byte| !is_of_marker(byte)).unwrap_or(rest.len());
                let (marker, after) = rest.split_at(length);
                rest = after;
                return Some(marker);
            }
            rest = rest.get(1..)?;
        }
    })
}

/// Lets the store verify one agent.
pub(super) async fn judge(
    store: &dyn Store,
    agent: &AgentId,
    ceiling_tokens: i64,
    found: &mut FaultFindings,
) {
    if let Err(error) = try_judge(store, agent, ceiling_tokens, found).await {
        found.break_promise(Promise::Other, 1, format!("{agent} can't be checked: {error}"));
    }
}

async fn try_judge(
    store: &dyn Store,
    id: &AgentId,
    ceiling_tokens: i64,
    found: &mut FaultFindings,
) -> Result<(), StoreError> {
    let report = store.verify(id).await?;
    found.messages += u64::try_from(report.messages).unwrap_or_default();
    found.exchanges += u64::try_from(report.exchanges).unwrap_or_default();
    found.covered += u64::try_from(report.covered).unwrap_or_default();
    for breach in &report.breaches {
        found.break_promise(promise_of(breach), 1, format!("{id}: {}", breach.found));
    }
    if report.pending > 0 {
        let breach = format!("{id}: {} exchanges are still pending", report.pending);
        found.break_promise(Promise::Drained, 1, breach);
    }
    judge_document(store, id, ceiling_tokens, found).await
}

async fn judge_document(
    store: &dyn Store,
    id: &AgentId,
    ceiling_tokens: i64,
    found: &mut FaultFindings,
) -> StoreResult<()> {
    let Some(summary) = store.summary(id).await? else {
        return Ok(());
    };
    found.versions += u64::try_from(summary.version).unwrap_or_default();
    if summary.token_count > ceiling_tokens {
        let breach =
            format!("{id}: a document of {} tokens, its ceiling is {ceiling_tokens}", summary.token_count);
        found.break_promise(Promise::Ceiling, 1, breach);
    }
    Ok(())
}

fn promise_of(breach: &verify::Breach) -> Promise {
    match breach.invariant {
        Invariant::NothingLost => Promise::Kept,
        Invariant::ExactlyOnce | Invariant::OneState => Promise::Once,
        Invariant::Ceiling => Promise::Ceiling,
        _ => Promise::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_in_any_bytes() {
        let text = b"\0\x01mm-agent-0-ids-3-user.\xffm-agent-1-f1-key-7-call\"m-age m-agent-9-sql-1-answer";
        let found: Vec<&[u8]> = markers(text).collect();
        assert_eq!(
            found,
            [&b"m-agent-0-ids-3-user"[..], b"m-agent-1-f1-key-7-call", b"m-agent-9-sql-1-answer"]
        );
    }
}
