//! Forgetting: forgotten text is gone everywhere, and everything else stays as true as it was.

use proptest::{prelude::*, test_runner::TestRunner};
use recapd_api::recall::{self, ExpandQuery};
use recapd_core::domain::{
    agent::AgentId,
    lineage::Step,
    recall::{ArchiveSearch, Query},
    redaction::Redactor,
    summary::{
        compaction::SummaryPolicy,
        fact::{FactChanges, FactKind},
    },
    time::HOUR_MS,
};
use recapd_store::{
    ExchangePlace, Forget, Forgettable, Forgotten, JournalledAnswer, RebuildRequest, RollbackRequest,
    StoreError,
};
use tokio::runtime::Handle;

use super::{
    clean,
    lineage::step,
    lineage_scripts::{Event, events, live, summarise},
    the_lease,
};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    cases::cases,
    conversation::{ALL, T0, added, agent, append, claim, items, minute, patch, rules, said, stating, turns},
};

const CASES: u32 = 8;
/// The text to be forgotten; nothing else contains it.
const NEEDLE: &str = "xylocopa";
const NEEDLE_STEM: &str = "xylocop";

/// A parent's life before and after, a child's life, what is forgotten (by the child or not), and the budget.
type Lives = ([Vec<Event>; 3], Vec<(bool, i64)>, i64);

/// The tables of [`TABLES`], and forks' records.
fn everything() -> Vec<&'static str> {
    TABLES.into_iter().chain(["forks"]).collect()
}

fn wish(name: &str, what: Forgettable) -> Forget {
    Forget { agent: agent(name), what, rules: rules(), redactor: Redactor::standard(), now: minute(200) }
}

pub(super) async fn forget(db: &dyn Backend, name: &str, numbers: &[i64]) -> Forgotten {
    let what = Forgettable::Exchanges(numbers.to_vec());
    db.store().forget(wish(name, what)).await.unwrap()
}

async fn say(db: &dyn Backend, name: &str, text: &str, at: i64) {
    let messages = vec![
        said("user", text, 40, minute(at)),
        said("assistant", &format!("Answer to {text}"), 60, minute(at)),
    ];
    db.store().append(append(&agent(name), messages)).await.unwrap();
}

/// Covers all pending exchanges with one item that contains the needle.
async fn cover(db: &dyn Backend, now: i64) {
    let lease = the_lease(db, minute(now)).await;
    let material = db.store().material(&lease, ALL).await.unwrap();
    let mut items = items(&material);
    for item in &mut items {
        item.text = format!("{} {NEEDLE}", item.text);
    }
    let mut merged = items.remove(0);
    merged.ranges.extend(items.iter().flat_map(|item| item.ranges.clone()));
    merged.source_tokens += items.iter().map(|item| item.source_tokens).sum::<i64>();
    merged.ended_at = items.last().map_or(merged.ended_at, |last| last.ended_at);
    let changes = FactChanges {
        add: vec![
            added(FactKind::Demand, "Question 1", 1),
            added(FactKind::Demand, &format!("Keep {NEEDLE} secret"), 2),
        ],
        ..FactChanges::default()
    };
    let update = stating(&material, vec![merged], &changes, minute(now));
    db.store().complete(&lease, update).await.unwrap();
}

/// An agent of which one item covers #1 to #3, #4 is pending and #5 in the window, and two children of it; #2 contains the needle.
async fn family(db: &dyn Backend) {
    for number in 1..=4 {
        let text = if number == 2 { format!("Keep {NEEDLE} secret") } else { format!("Question {number}") };
        say(db, "a", &text, number).await;
    }
    cover(db, 60).await;
    say(db, "a", "Question 5", 61).await;
    // By name, one of them comes before its parent.
    for child in ["Zoe", "child"] {
        db.store().fork(&agent("a"), &agent(child), minute(70)).await.unwrap();
    }
    while db.store().index_messages(100).await.unwrap() > 0 {}
    assert_eq!(db.indexed(Some(NEEDLE_STEM)).await, 2);
    for name in ["a", "Zoe", "child"] {
        clean(db, &agent(name)).await;
    }
}

async fn summary(db: &dyn Backend, name: &str) -> String {
    db.store().summary(&agent(name)).await.unwrap().unwrap().content
}

pub(crate) async fn forgotten_text_leaves_no_trace(db: &dyn Backend) {
    family(db).await;
    let answer = JournalledAnswer { answer: NEEDLE.to_owned(), input_tokens: 1, output_tokens: 1 };
    db.store().journal(&agent("a"), "key", &answer, T0).await.unwrap();
    assert!(summary(db, "a").await.contains(NEEDLE) && summary(db, "child").await.contains(NEEDLE));
    let forgotten = forget(db, "child", &[2]).await;
    assert_eq!(
        forgotten,
        Forgotten {
            messages: 2,
            exchanges: vec![2],
            agents: vec![agent("Zoe"), agent("a"), agent("child")],
            items: 3,
            versions: 3,
            is_scrubbed: true,
        }
    );
    let left = db.dump(&everything()).await;
    let left: Vec<&str> = left.lines().filter(|line| line.contains(NEEDLE)).collect();
    assert_eq!(left, Vec::<&str>::new());
    assert_eq!(db.indexed(Some(NEEDLE_STEM)).await, 0);
    for name in ["a", "Zoe", "child"] {
        clean(db, &agent(name)).await;
        let document = summary(db, name).await;
        assert!(document.contains("(forgotten)") && document.contains("Question 1"), "{document}");
        let shown = db.store().summary_of_step(&agent(name)).await.unwrap().unwrap();
        assert_eq!(shown.content, document);
    }
    // An answer to an earlier question isn't kept either; after a while answers are kept again.
    db.store().journal(&agent("a"), "key", &answer, minute(201)).await.unwrap();
    assert_eq!(db.store().journalled(&agent("a"), "key").await.unwrap(), None);
    let later = minute(201).plus_ms(HOUR_MS);
    db.store().journal(&agent("a"), "key", &answer, later).await.unwrap();
    assert_eq!(db.store().journalled(&agent("a"), "key").await.unwrap(), Some(answer));
}

pub(crate) async fn the_rest_is_summarised_again(db: &dyn Backend) {
    family(db).await;
    forget(db, "a", &[2]).await;
    let provisional =
        "SELECT count(*) FROM summary_items WHERE agent_id = 'a' AND provisional AND removed_version IS NULL";
    assert_eq!(db.number(provisional).await, Some(1));
    summarise(db, &agent("a")).await;
    summarise(db, &agent("a")).await;
    assert_eq!(db.number(provisional).await, Some(0));
    let told = db
        .texts("SELECT text FROM summary_items WHERE agent_id = 'a' AND removed_version IS NULL", " ")
        .await;
    for words in ["Text of exchange 1", "Text of exchange 3", "(forgotten)"] {
        assert!(told.contains(words), "{told}");
    }
    assert!(!told.contains("exchange 2"), "{told}");
    clean(db, &agent("a")).await;
}

pub(crate) async fn a_tombstone_keeps_its_place_and_its_time(db: &dyn Backend) {
    family(db).await;
    forget(db, "a", &[2]).await;
    let store = db.store();
    let reply = recall::expand(store.as_ref(), &agent("a"), 2, ExpandQuery::default()).await;
    let reply = reply.unwrap().unwrap();
    assert_eq!((reply.tokens, reply.place, reply.started_at), (0, ExchangePlace::Covered, minute(2)));
    let brief: Vec<(i64, &str, bool, i64)> = reply
        .messages
        .iter()
        .map(|message| (message.seq, message.kind.as_str(), message.forgotten, message.tokens))
        .collect();
    assert_eq!(brief, [(3, "user", true, 0), (4, "assistant", true, 0)]);
    let query = ArchiveSearch::new(Query::parse(NEEDLE).unwrap(), 10);
    assert_eq!(store.search(&agent("a"), &query).await.unwrap().unwrap().found, []);
}

pub(crate) async fn one_message_is_forgotten_by_itself(db: &dyn Backend) {
    family(db).await;
    let forgotten = db.store().forget(wish("a", Forgettable::Message(10))).await.unwrap();
    assert_eq!((forgotten.messages, forgotten.exchanges), (1, vec![5]));
    let left = db.store().forget(wish("child", Forgettable::Message(3))).await.unwrap();
    assert_eq!((left.messages, left.exchanges), (1, vec![2]));
    let title = "SELECT headline FROM exchange_log WHERE agent_id = 'a' AND exchange = 5";
    let headline = db.text(title).await.unwrap();
    assert!(headline.contains("Question 5") && !headline.contains("Answer"), "{headline}");
    // The rest of an exchange is summarised again.
    let document = summary(db, "a").await;
    assert!(document.contains("Answer to Keep"), "{document}");
    for name in ["a", "Zoe", "child"] {
        clean(db, &agent(name)).await;
    }
}

pub(crate) async fn messages_that_a_fork_does_not_share_stay(db: &dyn Backend) {
    family(db).await;
    say(db, "a", &format!("{NEEDLE} in the parent"), 80).await;
    say(db, "child", &format!("{NEEDLE} in the child"), 81).await;
    let forgotten = forget(db, "child", &[6]).await;
    assert_eq!(forgotten.agents, [agent("child")]);
    assert!(db.dump(&["message_log"]).await.contains("in the parent"));
    assert!(!db.dump(&everything()).await.contains("in the child"));
    let forgotten = forget(db, "a", &[6]).await;
    assert_eq!(forgotten.agents, [agent("a")]);
    for name in ["a", "Zoe", "child"] {
        clean(db, &agent(name)).await;
    }
}

pub(crate) async fn forgetting_twice_is_forgetting_once(db: &dyn Backend) {
    family(db).await;
    forget(db, "a", &[2, 4]).await;
    let before = db.dump(&everything()).await;
    let again = forget(db, "a", &[2]).await;
    assert_eq!((again.messages, again.exchanges), (0, Vec::new()));
    // Their journals are rewritten all the same: the last time that may have failed.
    assert_eq!(again.agents, [agent("Zoe"), agent("a"), agent("child")]);
    let marked = append(&agent("a"), vec![step(&Step::Mark(None), 90)]);
    let after = db.dump(&everything()).await;
    assert_same(&before, &after, "again");
    // Steps stay, whatever else of their exchange goes.
    db.store().append(marked).await.unwrap();
    forget(db, "a", &[5]).await;
    db.store().rewind(append(&agent("a"), vec![step(&Step::Rewind(None), 91)])).await.unwrap();
    clean(db, &agent("a")).await;
}

pub(crate) async fn labels_of_marks_are_forgotten(db: &dyn Backend) {
    let (secret, plain) = (Some(NEEDLE.to_owned()), Some("plain".to_owned()));
    let steps = |steps: &[Step], at| {
        let messages = steps.iter().map(|taken| step(taken, at)).collect();
        append(&agent("a"), messages)
    };
    say(db, "a", "Question 1", 1).await;
    db.store().append(steps(&[Step::Mark(plain.clone())], 2)).await.unwrap();
    say(db, "a", "Question 2", 3).await;
    let marks = [Step::Mark(secret.clone()), Step::Mark(plain.clone())];
    db.store().append(steps(&marks, 4)).await.unwrap();
    db.store().fork(&agent("a"), &agent("child"), minute(5)).await.unwrap();
    say(db, "a", "Question 3", 6).await;
    db.store().append(steps(&[Step::Rewind(secret)], 7)).await.unwrap();
    assert!(db.dump(&everything()).await.contains(NEEDLE));
    forget(db, "child", &[2]).await;
    let left = db.dump(&everything()).await;
    assert!(!left.contains(NEEDLE), "{left}");
    // The mark still exists, under a meaningless label.
    let label = db.text("SELECT min(label) FROM marks WHERE agent_id = 'a' AND label LIKE 'forgotten-%'");
    let label = label.await.unwrap();
    say(db, "a", "Question 4", 8).await;
    db.store().rewind(steps(&[Step::Rewind(Some(label))], 9)).await.unwrap();
    for name in ["a", "child"] {
        clean(db, &agent(name)).await;
    }
}

/// Inserts a refused message into the inbox.
async fn refuse(db: &dyn Backend, name: &str) {
    say(db, "clock", "It is time", 1).await;
    let sql = format!(
        "INSERT INTO message_inbox (agent_id, role, content, received_at, refused_at, refusal) \
         SELECT '{name}', 'nobody', '{NEEDLE}', created_at, created_at, 'role' FROM agents WHERE agent_id = 'clock'"
    );
    assert_eq!(db.raw(&sql).await, 1);
}

const REFUSED: &str = "SELECT count(*) FROM message_inbox";

pub(crate) async fn refused_rows_are_forgotten(db: &dyn Backend) {
    family(db).await;
    refuse(db, "a").await;
    refuse(db, "b").await;
    forget(db, "child", &[2]).await;
    assert_eq!(db.number(REFUSED).await, Some(1), "of others it stays");
}

pub(crate) async fn an_agent_with_only_refused_rows_can_be_deleted(db: &dyn Backend) {
    refuse(db, "ghost").await;
    let ghost = agent("ghost");
    assert_eq!(db.store().delete_agent(&ghost, T0).await.unwrap().messages, 0);
    assert_eq!(db.number(REFUSED).await, Some(0));
    let again = db.store().delete_agent(&ghost, T0).await;
    assert!(matches!(again, Err(StoreError::UnknownAgent(_))), "{again:?}");
}

pub(crate) async fn unknown_messages_cannot_be_forgotten(db: &dyn Backend) {
    family(db).await;
    let before = db.dump(&everything()).await;
    let store = db.store();
    let refused = store.forget(wish("nobody", Forgettable::Message(1))).await;
    assert!(matches!(refused, Err(StoreError::UnknownAgent(_))), "{refused:?}");
    let refused = store.forget(wish("a", Forgettable::Exchanges(vec![2, 9]))).await;
    assert!(matches!(refused, Err(StoreError::UnknownExchange(9))), "{refused:?}");
    let refused = store.forget(wish("a", Forgettable::Message(99))).await;
    assert!(matches!(refused, Err(StoreError::UnknownMessage(99))), "{refused:?}");
    assert_same(&before, &db.dump(&everything()).await, "refused");
}

pub(crate) async fn an_update_in_progress_does_not_bring_it_back(db: &dyn Backend) {
    family(db).await;
    let mut leases = db.store().claim(claim("daemon", 10, minute(100))).await.unwrap();
    leases.retain(|lease| lease.agent == agent("a"));
    let lease = leases.pop().unwrap();
    let material = db.store().material(&lease, ALL).await.unwrap();
    forget(db, "a", &[4]).await;
    let update = patch(&material, items(&material), minute(201));
    let refused = db.store().complete(&lease, update).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    summarise(db, &agent("a")).await;
    clean(db, &agent("a")).await;
}

pub(crate) async fn no_operator_action_brings_forgotten_text_back(db: &dyn Backend) {
    family(db).await;
    let (policy, now) = (SummaryPolicy::default(), minute(150));
    // Readers get the old document until the new one covers as much.
    let rebuild = RebuildRequest { agent: agent("a"), policy, now };
    db.store().rebuild(rebuild).await.unwrap();
    assert!(summary(db, "a").await.contains(NEEDLE));
    forget(db, "a", &[2]).await;
    assert!(!summary(db, "a").await.contains(NEEDLE));
    let purged = db.store().version(&agent("a"), 1).await.unwrap().unwrap();
    assert_eq!((purged.content.as_str(), purged.figures.purged_at), ("", Some(minute(200))));
    let roll_back = RollbackRequest { agent: agent("a"), version: 1, policy, now: minute(210) };
    db.store().roll_back(roll_back).await.unwrap();
    let document = summary(db, "a").await;
    assert!(!document.contains(NEEDLE), "{document}");
    summarise(db, &agent("a")).await;
    clean(db, &agent("a")).await;
    let left = db.dump(&everything()).await;
    assert!(!left.contains(NEEDLE));
}

pub(crate) async fn the_same_message_sent_again_stays_forgotten(db: &dyn Backend) {
    let with_id = || {
        let mut message = said("user", NEEDLE, 40, minute(1));
        message.message.client_id = Some("one".to_owned());
        append(&agent("a"), vec![message])
    };
    db.store().append(with_id()).await.unwrap();
    forget(db, "a", &[1]).await;
    let again = db.store().append(with_id()).await.unwrap();
    assert_eq!((again.accepted, again.duplicates), (0, 1));
    assert!(!db.dump(&everything()).await.contains(NEEDLE));
}

pub(crate) async fn an_agent_is_deleted_with_all_that_is_known_of_it(db: &dyn Backend) {
    family(db).await;
    say(db, "b", "Question of another", 1).await;
    let refused = db.store().delete_agent(&agent("a"), T0).await;
    assert!(
        matches!(&refused, Err(StoreError::HasForks { forks, .. }) if *forks == ["Zoe", "child"]),
        "{refused:?}"
    );
    let refused = db.store().delete_agent(&agent("nobody"), T0).await;
    assert!(matches!(refused, Err(StoreError::UnknownAgent(_))), "{refused:?}");
    // Inherited exchanges stay with their parent.
    for child in ["Zoe", "child"] {
        assert_eq!(db.store().delete_agent(&agent(child), T0).await.unwrap().messages, 0);
    }
    clean(db, &agent("a")).await;
    assert_eq!(db.store().delete_agent(&agent("a"), T0).await.unwrap().messages, 10);
    let left = db.dump(&everything()).await;
    let names = |line: &&str| line.contains("\"a\"") || line.contains("\"child\"") || line.contains(NEEDLE);
    assert_eq!(left.lines().filter(names).collect::<Vec<_>>(), Vec::<&str>::new());
    // The name is free again, and new messages under it are found.
    say(db, "a", "A new life", 5).await;
    while db.store().index_messages(100).await.unwrap() > 0 {}
    assert_eq!(db.indexed(None).await, 4);
    for name in ["a", "b"] {
        clean(db, &agent(name)).await;
    }
}

pub(crate) async fn any_life_can_be_forgotten_in_parts(db: &dyn Backend) {
    let case = std::cell::Cell::new(0);
    let compare = |lives: Box<Lives>| {
        let ([before, after, own], chosen, budget_tokens) = *lives;
        case.set(case.get() + 1);
        let name = |who: &str| format!("{who}-{}", case.get());
        let (parent, child) = (agent(&name("parent")), agent(&name("child")));
        let before: Vec<Event> = std::iter::once(Event::Said("user", 10)).chain(before).collect();
        Handle::current().block_on(async {
            live(db, &parent, &before, budget_tokens).await;
            db.store().fork(&parent, &child, T0).await.unwrap();
            live(db, &child, &own, budget_tokens).await;
            for (by_child, number) in chosen {
                let who: &AgentId = if by_child { &child } else { &parent };
                let what = Forgettable::Exchanges(vec![number]);
                match db.store().forget(wish(who.as_str(), what)).await {
                    Ok(_) | Err(StoreError::UnknownExchange(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                for agent in [&parent, &child] {
                    let report = db.store().verify(agent).await.unwrap();
                    assert_eq!(report.breaches, [], "{agent} without #{number}");
                }
            }
            // Life goes on.
            live(db, &parent, &after, budget_tokens).await;
            live(db, &child, &after, budget_tokens).await;
            for agent in [&parent, &child] {
                summarise(db, agent).await;
                let report = db.store().verify(agent).await.unwrap();
                assert_eq!((report.breaches.as_slice(), report.pending), ([].as_slice(), 0));
            }
        });
        Ok(())
    };
    let mut runner = TestRunner::new(cases(CASES));
    let budgets = prop_oneof![Just(0), 40_i64..400];
    let chosen = prop::collection::vec((any::<bool>(), 0_i64..12), 1..5);
    let lives = ([events(), events(), events()], chosen, budgets).prop_map(Box::new);
    tokio::task::block_in_place(|| runner.run(&lives, compare)).unwrap();
}

pub(crate) async fn a_recount_in_progress_does_not_count_it(db: &dyn Backend) {
    use recapd_store::{NewCount, Recount};
    db.store().append(append(&agent("a"), turns(1..=2))).await.unwrap();
    db.store().begin_recount(&agent("a")).await.unwrap();
    let batch = db.store().recount_batch(&agent("a"), 100).await.unwrap().unwrap();
    forget(db, "a", &[2]).await;
    let counts = batch.messages.iter().map(|(exchange, stored)| NewCount {
        exchange: *exchange,
        seq: stored.seq,
        tokens: 7,
    });
    let recount = Recount {
        agent: agent("a"),
        settings: batch.settings.clone(),
        from: batch.from,
        before: batch.before,
        is_last: batch.is_last,
        counts: counts.collect(),
        count_method: "new".to_owned(),
        rules: rules(),
        now: minute(201),
    };
    db.store().recount(recount).await.unwrap();
    let tokens = "SELECT tokens FROM exchange_log WHERE agent_id = 'a' AND exchange = 2";
    assert_eq!(db.number(tokens).await, Some(0));
    clean(db, &agent("a")).await;
}
