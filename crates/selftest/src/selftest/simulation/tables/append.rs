//! Appends: the ledger decides, message by message; clears, marks and rewinds take effect in their place.

use std::sync::Arc;

use super::{AgentTables, Guard, Tables, queue::Wake};
use recapd_core::domain::{
    exchange::{Exchange, PREAMBLE},
    ledger::{CutPoint, Eviction, Overflow, Return, WindowExchange},
    lineage::Step,
    number::i64_or_max,
    time::Timestamp,
    tokens::TokenCounter,
    window::Budget,
    work::Reason,
};
use recapd_store::{
    AppendOutcome, AppendRequest, AppendRules, EnqueueOutcome, PreparedMessage, StepOutcome, StoreError,
    StoreResult, StoredAt, StoredMessage,
};

#[derive(Default)]
struct AppendState {
    stored: Vec<StoredAt>,
    evictions: Vec<Eviction>,
    steps: Vec<StepOutcome>,
    duplicates: i64,
}

/// What a rewind needs in addition to the agent.
struct RewindContext<'a> {
    token: i64,
    counter: &'a dyn TokenCounter,
    voids: bool,
}

impl AgentTables {
    /// Live exchanges at which the window may begin.
    fn cuts(&self, room: Overflow) -> impl Iterator<Item = CutPoint> {
        let live = self.live(1, i64::MAX).map(CutPoint::before);
        live.filter(move |cut| room.allows(*cut))
    }

    fn evict(&mut self, budget: Budget, at: Timestamp) -> Option<Eviction> {
        let by_tokens = self.ledger.overflow(budget);
        let by_tokens =
            by_tokens.map(|room| self.cuts(room).min_by_key(|cut| (cut.tokens_before, cut.exchange)));
        let held = self.live(self.ledger.first_exchange, i64::MAX).map(WindowExchange::from);
        let held: Vec<WindowExchange> = held.collect();
        let by_messages = self.ledger.message_overflow(budget, held.iter().copied());
        let cut = self.ledger.later_cut(by_tokens, by_messages)?;
        self.ledger.evict_to(cut, at)
    }

    /// Returns pending exchanges that fit a raised budget to the window, except those that a clear sent away.
    fn take_back(&mut self, budget: Budget) -> Option<Return> {
        let room = self.ledger.room(budget)?;
        let first = self.cleared_before.max(self.ledger.summarized_through + 1);
        let pending = self.cuts(room).filter(|cut| cut.exchange >= first);
        let cut = pending.min_by_key(|cut| (cut.tokens_before, cut.exchange))?;
        self.ledger.take_back(cut)
    }

    fn store(&mut self, index: usize, prepared: &PreparedMessage, rules: &AppendRules) -> StoredAt {
        let PreparedMessage { message, entry } = prepared;
        let appended = self.ledger.append(entry, rules.segmentation());
        let touched = appended.completed.iter().chain(&self.ledger.newest);
        self.exchanges.extend(touched.map(|exchange| (exchange.exchange, exchange.clone())));
        self.messages.push(Arc::new(StoredMessage {
            seq: appended.seq,
            message: message.clone(),
            tokens: entry.tokens,
            said_at: entry.at,
        }));
        if let Some(id) = &message.client_id {
            self.client_ids.insert(id.clone(), message.payload.clone());
        }
        StoredAt {
            index,
            seq: appended.seq,
            exchange: appended.exchange,
            session: self.ledger.session,
            begins_leg: appended.begins_leg,
            keeps_id: true,
        }
    }

    fn step(
        &mut self,
        step: &Step,
        exchange: i64,
        request: &AppendRequest,
        rewriting: &RewindContext<'_>,
    ) -> StepOutcome {
        match step {
            Step::Clear => {
                self.marks.clear();
                self.cleared_before = self.ledger.last_exchange + 1;
                StepOutcome::Cleared { session: self.ledger.session }
            }
            Step::Mark(label) => {
                self.marks.push((label.clone(), self.ledger.mark(exchange)));
                let label = label.clone();
                StepOutcome::Marked { label, exchange }
            }
            Step::Rewind(label) => self.rewind(label.as_ref(), request, rewriting),
            Step::Pin(seq) | Step::Unpin(seq) => StepOutcome::NotThere { seq: *seq },
            Step::Note(change) => StepOutcome::NoNote { name: change.name.clone() },
        }
    }

    fn rewind(
        &mut self,
        label: Option<&String>,
        request: &AppendRequest,
        how: &RewindContext<'_>,
    ) -> StepOutcome {
        let is_meant = |known: &Option<String>| label.is_none() || known.as_ref() == label;
        let Some(place) = self.marks.iter().rposition(|(known, _)| is_meant(known)) else {
            let label = label.cloned();
            return StepOutcome::Ignored { label };
        };
        self.marks.truncate(place + 1);
        let mark = self.marks[place].1.clone();
        let covered_through = self.ledger.summarized_through;
        let later = self.exchanges.range_mut(mark.exchange + 1..);
        let mut set_aside = 0;
        for (_, exchange) in later.filter(|(_, exchange)| exchange.set_aside_at.is_none()) {
            exchange.set_aside_at = Some(request.now);
            set_aside += i64::from(exchange.messages > 0);
        }
        self.ledger.rewind(&mark, self.exchanges.get(&mark.exchange).cloned());
        let is_rewritten = self.ledger.summarized_through < covered_through;
        if is_rewritten {
            self.withdraw(how.token, &request.rules.policy, how.counter, request.now);
        }
        if how.voids {
            self.void_lease(request.now);
        }
        StepOutcome::Rewound {
            exchange: mark.exchange,
            set_aside,
            version: is_rewritten.then_some(self.version),
        }
    }

    /// Processes a message, and its step if it is one.
    fn take(
        &mut self,
        (place, prepared): (usize, &PreparedMessage),
        request: &AppendRequest,
        how: &RewindContext<'_>,
        done: &mut AppendState,
    ) {
        let (rules, at) = (&request.rules, prepared.entry.at);
        let stored = self.store(place, prepared, rules);
        done.stored.push(stored);
        done.evictions.extend(self.evict(rules.budget, at));
        let Some(step) = Step::of(&prepared.message) else {
            return;
        };
        if step == Step::Clear {
            done.evictions.extend(self.ledger.clear(at));
        }
        done.steps.push(self.step(&step, stored.exchange, request, how));
        if matches!(step, Step::Rewind(_)) {
            done.evictions.extend(self.evict(rules.budget, at));
        }
    }

    /// Wakes the queue, if there is work.
    fn wake(&mut self, rules: &AppendRules, done: &AppendState, now: Timestamp) -> Option<EnqueueOutcome> {
        let is_rewritten = |step: &StepOutcome| matches!(step, StepOutcome::Rewound { version: Some(_), .. });
        let is_clear = |step: &StepOutcome| matches!(step, StepOutcome::Cleared { .. });
        let pending = self.ledger.pending_numbers();
        let is_urgent = done.steps.iter().any(is_clear) && pending > 0;
        let is_batch = pending >= rules.batch_exchanges
            && self.has_tokens(self.ledger.summarized_through, rules.batch_tokens_min);
        if done.evictions.is_empty() && !is_urgent && !done.steps.iter().any(is_rewritten) {
            return None;
        }
        Some(self.enqueue(Wake {
            reason: if is_urgent { Reason::SessionEnd } else { Reason::Eviction },
            delay_ms: match (is_urgent, is_batch) {
                (true, _) => 0,
                (false, true) => rules.debounce_ms,
                (false, false) => rules.max_wait_ms,
            },
            revive_after_ms: if is_urgent { 0 } else { rules.revive_after_ms },
            now,
        }))
    }
}

impl Tables {
    pub(crate) fn append(&mut self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.append_by(request, false)
    }

    pub(crate) fn rewind(&mut self, request: AppendRequest) -> StoreResult<AppendOutcome> {
        self.append_by(request, true)
    }

    fn append_by(&mut self, mut request: AppendRequest, steps_required: bool) -> StoreResult<AppendOutcome> {
        request.now = self.time(request.now);
        let agent = request.agent.clone();
        let found = self.agents.get(&agent).cloned();
        let mut kept = found.unwrap_or_else(|| AgentTables::new(request.now));
        let in_force = kept.settings.expanded(&request.rules.basis);
        request.rules.budget = in_force.budget(request.rules.budget);
        let budget = request.rules.budget;
        let how = RewindContext {
            token: self.next_token(),
            counter: self.counter.as_ref(),
            voids: self.has(Guard::Void),
        };
        let mut done = AppendState::default();
        let is_known = |kept: &AgentTables, prepared: &PreparedMessage| {
            let id = prepared.message.client_id.as_ref();
            id.is_some_and(|id| kept.client_ids.contains_key(id))
        };
        let has_new = request.messages.iter().any(|prepared| !is_known(&kept, prepared));
        let returned = if has_new && budget.is_above(kept.budget) { kept.take_back(budget) } else { None };
        for (place, prepared) in request.messages.iter().enumerate() {
            if is_known(&kept, prepared) {
                done.duplicates += 1;
            } else {
                kept.take((place, prepared), &request, &how, &mut done);
            }
        }
        let ignored = done.steps.iter().find_map(|step| match step {
            StepOutcome::Ignored { label } => Some(label.clone()),
            _ => None,
        });
        if let Some(label) = ignored.filter(|_| steps_required) {
            return Err(StoreError::UnknownMark(label));
        }
        if has_new {
            kept.budget = budget;
        }
        kept.note_pending(request.now);
        let enqueued = kept.wake(&request.rules, &done, request.now);
        let outcome = outcome(&kept, done, returned, enqueued);
        self.commit(&agent, kept)?;
        Ok(outcome)
    }
}

fn outcome(
    kept: &AgentTables,
    done: AppendState,
    returned: Option<Return>,
    enqueued: Option<EnqueueOutcome>,
) -> AppendOutcome {
    let ledger = &kept.ledger;
    let number = |exchange: &Exchange| exchange.exchange;
    AppendOutcome {
        accepted: i64_or_max(done.stored.len()),
        duplicates: done.duplicates,
        stored: done.stored,
        exchange: ledger.newest.as_ref().map_or(PREAMBLE, number),
        first_exchange: ledger.first_exchange,
        summarized_through: ledger.summarized_through,
        version: kept.version,
        window_tokens: ledger.window_tokens(),
        returned,
        evictions: done.evictions,
        steps: done.steps,
        settings: kept.settings.clone(),
        budget: kept.budget,
        session_ended: None,
        enqueued,
        created_at: kept.created_at,
    }
}
