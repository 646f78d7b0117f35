//! `verify` finds every kind of damage: rows changed, deleted, duplicated or moved behind the store's back, and older copies put in the
//! place of present rows.

use std::collections::BTreeSet;

use recapd_core::domain::{lineage::Step, window::Budget};
use recapd_store::{PreparedMessage, verify::Invariant};

use super::{
    clean,
    facts::stated,
    forget::forget,
    lineage::step,
    versions::{ready, update},
};
use crate::support::{
    backend::Backend,
    conversation::{T0, TURN_TOKENS, agent, append, important, minute, said, turns},
};

/// The least number of kinds of damage.
const KINDS_MIN: usize = 40;
const TABLES: [&str; 13] = [
    "agents",
    "message_log",
    "exchange_log",
    "evictions",
    "sessions",
    "summaries",
    "summary_versions",
    "summary_items",
    "summary_item_ranges",
    "summary_facts",
    "update_runs",
    "pins",
    "forks",
];

/// A kind of damage: the agent to verify, and the invariant that must be found broken.
struct Damage {
    agent: &'static str,
    invariant: Invariant,
    statements: Vec<String>,
}

fn to(agent: &'static str, invariant: Invariant, statements: &[&str]) -> Damage {
    Damage {
        agent,
        invariant,
        statements: statements.iter().map(|&statement| statement.to_owned()).collect(),
    }
}

async fn say(db: &dyn Backend, name: &str, messages: Vec<PreparedMessage>) {
    let mut request = append(&agent(name), messages);
    request.rules.budget = Budget::new(2 * TURN_TOKENS, 1.0).with_leg_tokens(TURN_TOKENS);
    db.store().append(request).await.unwrap();
    clean(db, &agent(name)).await;
}

/// `a` has lived through every kind of event, `b` is its fork, `c` has an exchange in legs.
async fn lived(db: &dyn Backend) {
    let mut first = vec![said("system", "Be brief", 9, T0)];
    first.extend(turns(1..=5));
    first.push(important("user", "Never push to main", 10, minute(6)));
    first.push(step(&Step::Mark(Some("here".to_owned())), 6));
    first.extend(turns(7..=8));
    say(db, "a", first).await;
    say(db, "a", vec![step(&Step::Pin(2), 8)]).await;
    stated(db, "a").await;
    say(db, "a", turns(9..=10)).await;
    say(db, "a", vec![step(&Step::Rewind(Some("here".to_owned())), 11)]).await;
    say(db, "a", turns(12..=16)).await;
    update(db, "a", 1).await;
    forget(db, "a", &[3]).await;
    let (lease, material) = ready(db, "a", 1).await;
    drop(material);
    db.store().release(&[lease], minute(200_000)).await.unwrap();
    db.store().fork(&agent("a"), &agent("b"), minute(50)).await.unwrap();
    say(db, "b", turns(17..=20)).await;
    update(db, "b", 1).await;
    say(db, "a", vec![step(&Step::Clear, 21)]).await;
    say(db, "a", turns(22..=23)).await;
    let mut long = vec![said("user", "Fix all", 50, minute(1))];
    for number in 2..=9 {
        long.push(said("tool_call", "lint", 10, minute(number)));
        long.push(said("tool_result", &format!("Result {number}"), 40, minute(number)));
    }
    say(db, "c", long).await;
    for name in ["a", "b", "c"] {
        clean(db, &agent(name)).await;
    }
}

fn changed_messages() -> Vec<Damage> {
    let set = |set: &str| format!("UPDATE message_log SET {set} WHERE agent_id = 'a' AND seq = 4");
    let sets = [
        "payload = replace(payload, 'Question 2', 'Question 3')",
        "payload = payload || ' '",
        "kind = 'system'",
        "speaker = 'somebody'",
        "format = 'anthropic'",
        "client_id = 'x'",
        "count_method = 'o200k'",
        "tokens = 41",
        "seal = NULL",
        "salt = NULL",
        "payload = '{\"kind\":\"user\",\"content\":\"never said\"}', forgotten_at = received_at",
    ];
    let damages = sets.map(|sets| to("a", Invariant::NothingLost, &[&set(sets)]));
    damages.into_iter().collect()
}

/// Messages of `a` that were moved, deleted, duplicated, or are older copies.
fn misplaced_messages() -> Vec<Damage> {
    let lost = |statements: &[&str]| to("a", Invariant::NothingLost, statements);
    vec![
        lost(&["DELETE FROM message_log WHERE agent_id = 'a' AND seq = 5"]),
        lost(&[
            "DELETE FROM message_log WHERE agent_id = 'a' AND seq = (SELECT last_seq FROM agents WHERE agent_id = 'a')",
        ]),
        lost(&[
            "DELETE FROM message_log WHERE agent_id = 'a' AND seq = (SELECT last_seq FROM agents WHERE agent_id = 'a')",
            "UPDATE agents SET last_seq = last_seq - 1 WHERE agent_id = 'a'",
        ]),
        lost(&["DELETE FROM message_log WHERE agent_id = 'a'"]),
        lost(&[
            "INSERT INTO message_log (agent_id, seq, exchange, kind, format, payload, tokens, count_method, said_at, received_at, salt, seal) \
             SELECT agent_id, 9999, exchange, kind, format, payload, tokens, count_method, said_at, received_at, salt, seal \
             FROM message_log WHERE agent_id = 'a' AND seq = 4",
        ]),
        lost(&["UPDATE message_log SET agent_id = 'c', seq = 9999 WHERE agent_id = 'a' AND seq = 4"]),
        lost(&[
            "UPDATE message_log SET payload = (SELECT o.payload FROM message_log o WHERE o.agent_id = 'a' \
             AND o.seq = 10 - message_log.seq) WHERE agent_id = 'a' AND seq IN (4, 6)",
        ]),
        lost(&[
            "UPDATE message_log SET seq = 9998 WHERE agent_id = 'a' AND seq = 4",
            "UPDATE message_log SET seq = 4 WHERE agent_id = 'a' AND seq = 6",
            "UPDATE message_log SET seq = 6 WHERE agent_id = 'a' AND seq = 9998",
        ]),
        lost(&[
            "UPDATE message_log SET payload = (SELECT o.payload FROM message_log o WHERE o.agent_id = 'a' AND o.seq = 2), \
             salt = (SELECT o.salt FROM message_log o WHERE o.agent_id = 'a' AND o.seq = 2), \
             seal = (SELECT o.seal FROM message_log o WHERE o.agent_id = 'a' AND o.seq = 2) WHERE agent_id = 'a' AND seq = 4",
        ]),
        lost(&[
            "UPDATE message_log SET forgotten_at = NULL WHERE agent_id = 'a' AND forgotten_at IS NOT NULL",
        ]),
        lost(&["UPDATE message_log SET payload = '{\"kind\":\"user\",\"content\":\"never said\"}' \
             WHERE agent_id = 'a' AND forgotten_at IS NOT NULL"]),
        lost(&["UPDATE agents SET chain = 'of another time' WHERE agent_id = 'a'"]),
        lost(&[
            "UPDATE agents SET last_seq = last_seq - 2, chained_through = chained_through - 2 WHERE agent_id = 'a'",
        ]),
        to(
            "b",
            Invariant::NothingLost,
            &["UPDATE message_log SET payload = payload || ' ' WHERE agent_id = 'a'"],
        ),
        to(
            "b",
            Invariant::NothingLost,
            &["UPDATE forks SET record = replace(record, 'Question', 'Frage') WHERE agent_id = 'b'"],
        ),
    ]
}

fn damaged_exchanges() -> Vec<Damage> {
    use Invariant::{ExchangesAtomic, NothingLost, WindowFits};
    let exchange = |invariant, set: &str| {
        let sql = format!("UPDATE exchange_log SET {set} WHERE agent_id = 'a' AND exchange = 2");
        to("a", invariant, &[&sql])
    };
    vec![
        exchange(NothingLost, "headline = replace(headline, 'Question', 'Frage')"),
        exchange(NothingLost, "headline = 'no JSON'"),
        exchange(NothingLost, "state = 'interrupted'"),
        exchange(NothingLost, "opened_at = last_at"),
        exchange(NothingLost, "session = 7"),
        exchange(ExchangesAtomic, "last_seq = last_seq - 1"),
        exchange(WindowFits, "tokens = tokens + 1"),
        exchange(WindowFits, "messages = messages + 1"),
        exchange(WindowFits, "set_aside_at = opened_at"),
        to("a", WindowFits, &["UPDATE exchange_log SET set_aside_at = NULL WHERE agent_id = 'a'"]),
        to("a", ExchangesAtomic, &["DELETE FROM exchange_log WHERE agent_id = 'a' AND exchange = 2"]),
        to(
            "c",
            NothingLost,
            &["UPDATE exchange_log SET headline = replace(headline, 'lint', 'test') WHERE agent_id = 'c'"],
        ),
    ]
}

fn damaged_evictions() -> Vec<Damage> {
    use Invariant::{NothingLost, OneState};
    vec![
        to("a", OneState, &["DELETE FROM evictions WHERE agent_id = 'a'"]),
        to("a", OneState, &["DELETE FROM evictions WHERE agent_id = 'a' AND eviction = 2"]),
        to(
            "a",
            OneState,
            &["UPDATE evictions SET tokens = tokens + 1 WHERE agent_id = 'a' AND eviction = 2"],
        ),
        to(
            "a",
            OneState,
            &[
                "UPDATE evictions SET evicted_at = (SELECT created_at FROM agents WHERE agent_id = 'b') WHERE agent_id = 'a'",
            ],
        ),
        to(
            "a",
            OneState,
            &[
                "INSERT INTO evictions (agent_id, eviction, from_exchange, through_exchange, tokens, evicted_at, digest) \
             SELECT agent_id, 9999, from_exchange, through_exchange, tokens, evicted_at, digest FROM evictions \
             WHERE agent_id = 'a' AND eviction = 1",
            ],
        ),
        to("a", OneState, &["UPDATE agents SET pending_since = NULL WHERE agent_id = 'a'"]),
        to("a", NothingLost, &["DELETE FROM sessions WHERE agent_id = 'a' AND session = 1"]),
        to("a", NothingLost, &["DELETE FROM sessions WHERE agent_id = 'a' AND session = 2"]),
        to("a", NothingLost, &["UPDATE pins SET seq = 9999 WHERE agent_id = 'a' AND seq = 2"]),
    ]
}

fn damaged_summaries() -> Vec<Damage> {
    use Invariant::{ClockAges, ExactlyOnce, OneState};
    let item = |set: &str| {
        let sql = format!("UPDATE summary_items SET {set} WHERE agent_id = 'a' AND item = 1");
        to("a", ClockAges, &[&sql])
    };
    let once = |statements: &[&str]| to("a", ExactlyOnce, statements);
    vec![
        once(&["UPDATE summaries SET content = '', token_count = 0 WHERE agent_id = 'a'"]),
        once(&["UPDATE summaries SET content = replace(content, 'Text', 'Lie') WHERE agent_id = 'a'"]),
        once(&[
            "UPDATE summaries SET content = replace(content, 'Text', 'Lie') WHERE agent_id = 'a'",
            "UPDATE summary_versions SET content = replace(content, 'Text', 'Lie') WHERE agent_id = 'a'",
        ]),
        once(&["DELETE FROM summaries WHERE agent_id = 'a'"]),
        once(&["UPDATE summaries SET version = version - 1 WHERE agent_id = 'a'"]),
        once(&["DELETE FROM summary_versions WHERE agent_id = 'a' AND version = 2"]),
        once(&["DELETE FROM summary_versions WHERE agent_id = 'a'"]),
        once(&["UPDATE summary_versions SET kind = 'edit' WHERE agent_id = 'a' AND version = 4"]),
        once(&[
            "UPDATE summary_versions SET as_of = created_at, created_at = as_of WHERE agent_id = 'a' \
                AND version = (SELECT version FROM summaries WHERE agent_id = 'a')",
            "UPDATE summary_versions SET path = 'full' WHERE agent_id = 'a' \
                AND version = (SELECT version FROM summaries WHERE agent_id = 'a')",
        ]),
        item("text = 'A lie'"),
        item("brief = 'A lie'"),
        item("gist = 'A lie'"),
        item("importance = 'bugfix'"),
        item("origin = 'edited'"),
        item("source_tokens = source_tokens + 1"),
        item("started_at = ended_at"),
        to(
            "b",
            ClockAges,
            &["UPDATE summary_items SET text = 'A lie' WHERE agent_id = 'b' AND source_agent_id IS NOT NULL"],
        ),
        once(&["UPDATE summary_items SET dropped_version = added_version WHERE agent_id = 'a' AND item = 1"]),
        once(&["DELETE FROM summary_items WHERE agent_id = 'a' AND removed_version IS NOT NULL"]),
        to("b", ExactlyOnce, &["DELETE FROM summary_items WHERE agent_id = 'b' AND item = 1"]),
        to(
            "a",
            OneState,
            &[
                "UPDATE summary_items SET removed_version = added_version + 1 WHERE agent_id = 'a' AND item = 1",
            ],
        ),
        to("a", OneState, &["DELETE FROM summary_item_ranges WHERE agent_id = 'a' AND item = 1"]),
    ]
}

fn damaged_facts() -> Vec<Damage> {
    use Invariant::{ClockAges, ExactlyOnce};
    let once = |statements: &[&str]| to("a", ExactlyOnce, statements);
    vec![
        to("a", ClockAges, &["UPDATE summary_facts SET text = 'A lie' WHERE agent_id = 'a' AND fact = 1"]),
        to(
            "a",
            ClockAges,
            &["UPDATE summary_facts SET speaker = 'user 2' WHERE agent_id = 'a' AND fact = 1"],
        ),
        to("a", ClockAges, &["UPDATE summary_facts SET kind = 'goal' WHERE agent_id = 'a' AND fact = 1"]),
        once(&["DELETE FROM summary_facts WHERE agent_id = 'a' AND fact = 2"]),
        once(&[
            "UPDATE summary_facts SET closed_version = added_version + 1 WHERE agent_id = 'a' AND closed_version IS NULL",
        ]),
        once(&["DELETE FROM update_runs WHERE agent_id = 'a'"]),
        once(&["DELETE FROM update_runs"]),
        once(&["UPDATE update_runs SET exchanges = exchanges + 1 WHERE agent_id = 'a'"]),
        once(&["UPDATE agents SET last_item = last_item + 1 WHERE agent_id = 'a'"]),
    ]
}

async fn keep(db: &dyn Backend) {
    for table in TABLES {
        db.raw(&format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
}

/// Restores the tables.
async fn mend(db: &dyn Backend) {
    for table in TABLES {
        db.raw(&format!("DELETE FROM {table}")).await;
        db.raw(&format!("INSERT INTO {table} SELECT * FROM kept_{table}")).await;
    }
}

pub(crate) async fn every_damage_is_named(db: &dyn Backend) {
    lived(db).await;
    keep(db).await;
    let damages = [
        changed_messages(),
        misplaced_messages(),
        damaged_exchanges(),
        damaged_evictions(),
        damaged_summaries(),
        damaged_facts(),
    ];
    let damages: Vec<Damage> = damages.into_iter().flatten().collect();
    assert!(damages.len() >= KINDS_MIN, "{}", damages.len());
    let mut unnamed = Vec::new();
    for Damage { agent: name, invariant, statements } in damages {
        for statement in &statements {
            assert!(db.raw(statement).await > 0, "{statement} changes nothing");
        }
        let report = db.store().verify(&agent(name)).await;
        let found = match &report {
            Ok(report) => report.breaches.iter().map(|breach| breach.invariant).collect(),
            Err(_) => BTreeSet::new(),
        };
        if !found.contains(&invariant) {
            unnamed.push(format!("{invariant:?} of {statements:?}: {report:?}"));
        }
        mend(db).await;
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
    for name in ["a", "b", "c"] {
        clean(db, &agent(name)).await;
    }
}
