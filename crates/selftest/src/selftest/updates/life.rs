//! The life of one agent, update after update.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::{Adversary, UpdateFindings};
use recapd_core::domain::{
    effects::Effects,
    exchange::{Exchange, ExchangeState, Headline},
    redaction::Redactor,
    reply::{parse, parse_operations},
    summary::{
        calendar::Calendar,
        compaction::{Composition, SUMMARY_TOKENS_MAX, Style, SummaryPolicy, beside_facts, compose_with},
        coverage::{digest_items, items_from},
        fact::{Fact, FactChanges},
        item::{Importance, Item, Origin},
        operations::{Question, Rules},
        reading::name_and_span,
        render::FOOTER,
        section::{Ageing, Section},
        state,
    },
    time::{DAY_MS, HOUR_MS, MINUTE_MS, Timestamp},
    tokens::TokenCounter,
    transcript::{Line, Transcript, Voice},
    zone::Zone,
};

const BORN_AT: Timestamp = Timestamp(1_767_600_000_000);
/// One life in so many has a document of full size; small ones fill up sooner, and are as good a test.
const FULL_SIZE_ONE_IN: u32 = 12;
const QUESTION_TOKENS_MAX: i64 = 24_000;

struct AgentLife<'c> {
    random: Rng,
    model: Adversary,
    redactor: Redactor,
    policy: SummaryPolicy,
    counter: &'c dyn TokenCounter,
    now: Timestamp,
    last_exchange: i64,
    last_item: i64,
    items: Vec<Item>,
    last_fact: i64,
    facts: Vec<Fact>,
    found: UpdateFindings,
}

pub(super) fn live(seed: u64, updates: u64, counter: &dyn TokenCounter) -> UpdateFindings {
    let mut random = Rng::with_seed(seed);
    let mut life = AgentLife {
        model: Adversary::new(random.u64(..)),
        redactor: Redactor::standard(),
        policy: policy(&mut random),
        random,
        counter,
        now: BORN_AT,
        last_exchange: 0,
        last_item: 0,
        items: Vec::new(),
        last_fact: 0,
        facts: Vec::new(),
        found: UpdateFindings::default(),
    };
    for _ in 0..updates {
        life.update();
    }
    life.found
}

fn policy(random: &mut Rng) -> SummaryPolicy {
    let is_full_size = random.u32(..FULL_SIZE_ONE_IN) == 0;
    let max_tokens = if is_full_size { SUMMARY_TOKENS_MAX } else { random.i64(100..1_500) };
    let zone = Zone::parse(random.choice(["UTC", "Europe/Berlin", "Pacific/Apia"]).unwrap_or("UTC"));
    let calendar = Calendar {
        zone: zone.unwrap_or_default(),
        session_ms: DAY_MS,
        days: 14,
        drops_older: random.bool(),
        idle_gap_ms: 4 * HOUR_MS,
        session: None,
    };
    let by_age = Ageing::Age {
        session_ms: DAY_MS,
        yesterday_ms: 7 * DAY_MS,
        week_ms: 14 * DAY_MS,
        drops_older: random.bool(),
    };
    let ageings = [by_age, Ageing::Calendar(calendar), Ageing::Off];
    SummaryPolicy {
        max_tokens,
        ageing: random.choice(ageings).unwrap_or_default(),
        style: random.choice([Style::Plain, Style::Seed]).unwrap_or_default(),
        ..SummaryPolicy::default()
    }
}

impl AgentLife<'_> {
    fn update(&mut self) {
        self.found.updates += 1;
        let longest_ms = if self.random.u8(..20) == 0 { 5 * DAY_MS } else { 40 * MINUTE_MS };
        self.now = self.now.plus_ms(self.random.i64(..longest_ms));
        let batch = if self.random.u8(..16) == 0 { Vec::new() } else { self.batch() };
        let before = self.items.clone();
        let added = self.condensed(&batch);
        self.items.extend(added);
        let all = self.items.clone();
        let left = if batch.is_empty() { Vec::new() } else { self.compacted() };
        let composed = compose_with(&self.facts, &self.items, self.now, &self.policy, self.counter);
        self.judge_document(&composed);
        self.judge_coverage(&before, &batch, &left);
        self.judge_decisions(&all, &left, &composed);
        self.keep(&composed, batch.is_empty());
    }

    /// Exchanges that left the window; some numbers are skipped.
    fn batch(&mut self) -> Vec<Exchange> {
        let count = self.random.usize(1..7);
        let batch: Vec<Exchange> = (0..count)
            .map(|_| {
                self.last_exchange += if self.random.u8(..9) == 0 { 2 } else { 1 };
                let said = self.model.text(80);
                let opened_at = self.now.plus_ms(-self.random.i64(..HOUR_MS));
                Exchange {
                    exchange: self.last_exchange,
                    session: 1,
                    first_seq: self.last_exchange,
                    last_seq: self.last_exchange,
                    messages: 1,
                    tokens: self.random.i64(..20_000),
                    tokens_before: 0,
                    state: ExchangeState::Closed,
                    opened_at,
                    last_at: opened_at.plus_ms(self.random.i64(..HOUR_MS)),
                    headline: Headline { title: said.chars().take(200).collect(), ..Headline::default() },
                    set_aside_at: None,
                }
            })
            .collect();
        self.found.exchanges += batch.len() as u64;
        batch
    }

    /// The model's items about them, or digests if its answer is refused.
    fn condensed(&mut self, batch: &[Exchange]) -> Vec<Item> {
        if batch.is_empty() {
            return Vec::new();
        }
        let asked: Vec<i64> = batch.iter().map(|exchange| exchange.exchange).collect();
        let answer = self.model.items(&asked);
        let believed = parse(&answer, &asked, &self.redactor).ok();
        if let Some(checked) = &believed {
            self.change_facts(&checked.facts, batch);
        }
        let items = believed.and_then(|checked| items_from(&checked.drafts, batch, Origin::Model).ok());
        items.unwrap_or_else(|| {
            self.found.answers_refused += 1;
            digest_items(batch)
        })
    }

    /// Applies the accepted changes of facts. A demand's words must be in what the exchange's user said.
    fn change_facts(&mut self, changes: &FactChanges, batch: &[Exchange]) {
        let said = |exchange: &Exchange| Transcript {
            exchange: exchange.exchange,
            continues: None,
            started_at: exchange.opened_at,
            zone: Zone::UTC,
            tokens: exchange.tokens,
            interrupted: false,
            api_error: String::new(),
            effects: Effects::default(),
            lines: vec![Line {
                voice: Voice::User,
                label: String::new(),
                text: exchange.headline.title.clone(),
                at: exchange.opened_at,
            }],
        };
        let transcripts: Vec<Transcript> = batch.iter().map(said).collect();
        let update = state::apply(&self.facts, std::slice::from_ref(changes), &transcripts);
        self.found.facts_refused += update.refused.len() as u64;
        self.found.facts += update.added.len() as u64;
        self.facts = update.holding(&self.facts);
        for fact in self.facts.iter_mut().filter(|fact| fact.fact == 0) {
            self.last_fact += 1;
            fact.fact = self.last_fact;
        }
    }

    /// Lets the model compact a document that is too big. Returns the items that left.
    fn compacted(&mut self) -> Vec<Item> {
        let fixed: Vec<i64> = self.items.iter().map(|item| item.item).filter(|n| n % 17 == 3).collect();
        let policy = beside_facts(&self.policy, &self.facts, self.counter);
        let rules = Rules {
            as_of: self.now,
            policy: &policy,
            counter: self.counter,
            fixed: &fixed,
            tokens_max: QUESTION_TOKENS_MAX,
        };
        let path = compose_with(&self.facts, &self.items, self.now, &self.policy, self.counter).path;
        let Some(question) = Question::about(&self.items, path, rules) else {
            return Vec::new();
        };
        let labels = i64::try_from(question.lines().len()).unwrap_or_default();
        let answer = self.model.operations(labels);
        let done = parse_operations(&answer, &question.demands(), &self.redactor)
            .ok()
            .and_then(|operations| question.carry_out(&operations).ok());
        let Some(done) = done else {
            self.found.compactions_refused += 1;
            return Vec::new();
        };
        self.found.compactions += 1;
        self.found.operations_refused += done.refused.len() as u64;
        self.found.merged += done.merged as u64;
        self.found.condensed += done.condensed as u64;
        self.items = done.items;
        done.dropped
    }

    fn judge_document(&mut self, composed: &Composition) {
        let tokens = self.counter.count(&composed.document);
        self.found.tokens_max = self.found.tokens_max.max(tokens);
        self.found.truncated += u64::from(composed.truncated);
        let ceiling = self.policy.ceiling();
        if tokens != composed.tokens || tokens > ceiling {
            self.found.over_ceiling += 1;
            let update = self.found.updates;
            self.found
                .tell(|| format!("update {update}: a document of {tokens} tokens, its ceiling is {ceiling}"));
        }
        if let Some(line) = composed.document.lines().find(|line| !is_line(line)) {
            self.found.malformed += 1;
            let update = self.found.updates;
            self.found.tell(|| format!("update {update}: the line {line:?}"));
        }
    }

    /// Checks that every exchange covered before or in the batch is covered once.
    fn judge_coverage(&mut self, before: &[Item], batch: &[Exchange], left: &[Item]) {
        let mut expected = covered(before.iter());
        expected.extend(batch.iter().map(|exchange| exchange.exchange));
        expected.sort_unstable();
        let found = covered(self.items.iter().chain(left));
        if expected != found {
            let wrong = expected.len().abs_diff(found.len()).max(1) as u64;
            self.found.uncovered += wrong;
            let update = self.found.updates;
            self.found
                .tell(|| format!("update {update}: {} exchanges instead of {}", found.len(), expected.len()));
        }
    }

    /// Checks that decisions and constraints are still shown as such, or that nothing less important is.
    fn judge_decisions(&mut self, all: &[Item], left: &[Item], composed: &Composition) {
        let is_high = |item: &&Item| item.importance >= Importance::Constraint;
        let aged: BTreeSet<usize> = composed.aged.iter().copied().collect();
        let old = self.items.iter().enumerate().filter(|(index, _)| aged.contains(index));
        let shown = || composed.shown_items.iter().map(|place| &self.items[place.index]);
        let accounted = shown().chain(old.map(|(_, item)| item)).filter(is_high);
        let accounted: BTreeSet<i64> = covered(accounted).into_iter().collect();
        let lost = covered(all.iter().filter(is_high))
            .into_iter()
            .filter(|exchange| !accounted.contains(exchange))
            .count();
        let keeps_lower = shown().any(|item| !is_high(&item));
        let left_early = left.iter().any(|item| is_high(&item)) && keeps_lower;
        if (lost > 0 && keeps_lower) || left_early {
            self.found.decisions_lost += lost.max(1) as u64;
            let update = self.found.updates;
            self.found.tell(|| format!("update {update}: decisions about {lost} exchanges are lost"));
        }
    }

    fn keep(&mut self, composed: &Composition, only_ages: bool) {
        let leaving = if only_ages { &composed.aged } else { &composed.dropped };
        self.found.dropped += (composed.dropped.len() - composed.aged.len()) as u64;
        for index in leaving.iter().rev() {
            self.items.remove(*index);
        }
        for item in self.items.iter_mut().filter(|item| item.item == 0) {
            self.last_item += 1;
            item.item = self.last_item;
        }
        // As if a model had become available: provisional items are condensed again some day.
        if self.random.u8(..8) == 0 {
            self.items.iter_mut().for_each(|item| item.provisional = false);
        }
    }
}

/// The exchanges of `items`, each as often as it is covered, ascending.
fn covered<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<i64> {
    let ranges = items.flat_map(|item| item.ranges.iter());
    let mut covered: Vec<i64> = ranges.flat_map(|range| range.first..=range.last).collect();
    covered.sort_unstable();
    covered
}

/// Returns true for a valid line of a document: a heading, an item, an empty line, or the end.
fn is_line(line: &str) -> bool {
    let is_heading = || {
        let heading = line.strip_prefix("## ").map(|heading| name_and_span(heading).0);
        heading.is_some_and(|name| {
            [state::HEADING]
                .into_iter()
                .chain(Section::ALL.map(Section::heading))
                .any(|heading| heading == name)
        })
    };
    let is_numbered = || line.split_once(". ").is_some_and(|(number, _)| number.parse::<usize>().is_ok());
    let is_ours = line.is_empty()
        || line == FOOTER
        || is_heading()
        || line.starts_with("### ")
        || line.trim_start().starts_with("- ")
        || is_numbered();
    let is_inert = !line.contains("```") && !line.contains("</") && !line.contains("<|");
    is_ours && is_inert && !line.chars().any(char::is_control)
}
