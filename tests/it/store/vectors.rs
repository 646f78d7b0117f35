//! Embeddings: which messages get one, and what a search does with them. A fixed rule stands for a model, so this says nothing of quality.

use recapd_core::domain::{
    lineage::Step,
    recall::{ArchiveSearch, Embedding, Query, QuestionEmbedding, Role, text_to_embed},
    redaction::Redactor,
    time::Timestamp,
};
use recapd_store::embedding::{
    EmbeddingBatch, EmbeddingClaim, EmbeddingModel, EmbeddingOutcome, EmbeddingStore as _,
};

use super::{clean, forget::forget, lineage::step, recall::index};
use crate::support::{
    backend::Backend,
    conversation::{T0, agent, append, minute, said},
};

const EVERYTHING: &str = "SELECT count(*) FROM recall_vectors";

fn model(name: &str) -> EmbeddingModel {
    EmbeddingModel { name: name.to_owned(), dimensions: 3 }
}

/// A direction per topic: cats, money, and the rest.
fn embedding(text: &str) -> Embedding {
    let is_about = |words: [&str; 2]| {
        if words.iter().any(|word| text.contains(word)) { 1.0 } else { 0.0 }
    };
    Embedding::of(&[is_about(["cat", "feline"]), is_about(["invoice", "bill"]), 0.1]).unwrap()
}

async fn claimed(db: &dyn Backend, name: &str, at: Timestamp) -> Option<EmbeddingBatch> {
    let claim = EmbeddingClaim { model: model(name), messages_max: 3, now: at, until: at.plus_ms(1_000) };
    db.target().claim_unembedded(claim).await.unwrap()
}

fn outcome(batch: &EmbeddingBatch, name: &str) -> EmbeddingOutcome {
    let redactor = Redactor::standard();
    let texts = batch
        .messages
        .iter()
        .filter_map(|stored| Some((stored.seq, text_to_embed(&stored.message, &redactor)?)));
    EmbeddingOutcome {
        agent: batch.agent.clone(),
        model: model(name),
        embeddings: texts.map(|(seq, text)| (seq, embedding(&text))).collect(),
        after_seq: batch.after_seq,
        through_seq: batch.through_seq,
        claimed_until: batch.claimed_until,
    }
}

/// Embeds all messages, and returns how many got an embedding.
async fn embed(db: &dyn Backend, name: &str) -> u64 {
    let mut kept = 0;
    while let Some(batch) = claimed(db, name, T0).await {
        kept += db.target().keep_embeddings(outcome(&batch, name)).await.unwrap();
    }
    assert_eq!(db.target().unembedded(&model(name)).await.unwrap(), 0);
    kept
}

fn search(words: &str) -> ArchiveSearch {
    ArchiveSearch {
        meaning: Some(QuestionEmbedding { model: "m".to_owned(), embedding: embedding(words) }),
        ..ArchiveSearch::new(Query::parse(words).unwrap(), 50)
    }
}

/// Returns the exchanges found, best first.
async fn found(db: &dyn Backend, name: &str, search: &ArchiveSearch) -> Vec<i64> {
    let hits = db.store().search(&agent(name), search).await.unwrap().unwrap();
    hits.found.iter().map(|found| found.placed.exchange.exchange).collect()
}

async fn say(db: &dyn Backend, name: &str, text: &str, at: i64) {
    let messages = vec![
        said("user", text, 40, minute(at)),
        said("tool_result", "a result", 5, minute(at)),
        said("assistant", "Done.", 60, minute(at)),
    ];
    db.store().append(append(&agent(name), messages)).await.unwrap();
}

async fn three(db: &dyn Backend) {
    say(db, "a", "My feline sleeps all day", 1).await;
    say(db, "a", "The invoice is due", 2).await;
    say(db, "a", "Sleep well", 3).await;
    index(db).await;
}

pub(crate) async fn exchanges_are_found_by_their_embeddings(db: &dyn Backend) {
    three(db).await;
    let cat = search("cat");
    let without = found(db, "a", &ArchiveSearch { meaning: None, ..cat.clone() }).await;
    assert_eq!(found(db, "a", &cat).await, without, "nothing is embedded yet");
    assert_eq!(embed(db, "m").await, 6, "users' and the model's messages");
    let hits = db.store().search(&agent("a"), &cat).await.unwrap().unwrap();
    let nearest = hits.found.iter().find(|found| found.placed.exchange.exchange == 1).unwrap();
    assert_eq!((nearest.hits.first().unwrap().seq, nearest.missing.len()), (1, 1));
    assert_eq!(found(db, "a", &search("bills")).await.first(), Some(&2));
    // What both lists have comes first.
    assert_eq!(found(db, "a", &search("sleeps feline")).await.first(), Some(&1));
    let mut of_tools = search("cat");
    of_tools.filter.role = Some(Role::Tool);
    assert_eq!(found(db, "a", &of_tools).await, [0_i64; 0]);
    let mut late = search("feline");
    late.filter.since = Some(minute(2));
    assert!(!found(db, "a", &late).await.contains(&1));
    clean(db, &agent("a")).await;
}

pub(crate) async fn a_claim_is_one_daemons(db: &dyn Backend) {
    three(db).await;
    let first = claimed(db, "m", T0).await.unwrap();
    assert!(claimed(db, "m", T0).await.is_none(), "it is claimed");
    // The first daemon is late.
    let later = T0.plus_ms(1_000);
    let second = claimed(db, "m", later).await.unwrap();
    assert_eq!(second.after_seq, first.after_seq);
    assert_eq!(db.target().keep_embeddings(outcome(&first, "m")).await.unwrap(), 0);
    let returned =
        EmbeddingOutcome { embeddings: Vec::new(), through_seq: second.after_seq, ..outcome(&second, "m") };
    assert_eq!(db.target().keep_embeddings(returned).await.unwrap(), 0);
    assert_eq!(embed(db, "m").await, 6, "what was given back is claimed again");
    assert_eq!(db.number(EVERYTHING).await, Some(6));
}

pub(crate) async fn another_model_begins_anew(db: &dyn Backend) {
    three(db).await;
    embed(db, "old").await;
    let without = ArchiveSearch { meaning: None, ..search("cat") };
    let found_by_words = found(db, "a", &without).await;
    assert_eq!(found(db, "a", &search("cat")).await, found_by_words, "another model's don't count");
    assert_eq!(db.target().unembedded(&model("m")).await.unwrap(), 9);
    let longer = EmbeddingModel { dimensions: 4, ..model("old") };
    assert_eq!(db.target().unembedded(&longer).await.unwrap(), 9);
    assert_eq!(embed(db, "m").await, 6);
    assert!(found(db, "a", &search("cat")).await.contains(&2));
    assert_eq!(db.number(EVERYTHING).await, Some(6));
}

pub(crate) async fn a_fork_finds_inherited_embeddings_and_nothing_later(db: &dyn Backend) {
    three(db).await;
    db.store().fork(&agent("a"), &agent("child"), T0).await.unwrap();
    say(db, "a", "Another feline came", 4).await;
    say(db, "child", "A child's own feline", 5).await;
    index(db).await;
    assert_eq!(embed(db, "m").await, 10);
    let of_child = found(db, "child", &search("cat")).await;
    assert!(of_child.contains(&1) && of_child.contains(&4), "{of_child:?}");
    let own = db.store().search(&agent("child"), &search("cat")).await.unwrap().unwrap();
    let sources = own.found.iter().filter(|found| found.placed.exchange.exchange == 4);
    assert!(sources.into_iter().all(|found| found.placed.source == agent("child")));
}

pub(crate) async fn set_aside_exchanges_are_not_found_by_embeddings(db: &dyn Backend) {
    let at = |label: &str| Some(label.to_owned());
    let marked = append(&agent("a"), vec![step(&Step::Mark(at("here")), 0)]);
    say(db, "a", "Hello", 0).await;
    db.store().append(marked).await.unwrap();
    say(db, "a", "My feline sleeps all day", 1).await;
    index(db).await;
    embed(db, "m").await;
    assert!(found(db, "a", &search("cat")).await.contains(&2));
    let rewound = append(&agent("a"), vec![step(&Step::Rewind(at("here")), 2)]);
    db.store().rewind(rewound).await.unwrap();
    assert!(!found(db, "a", &search("cat")).await.contains(&2));
}

pub(crate) async fn forgotten_messages_have_no_embedding(db: &dyn Backend) {
    three(db).await;
    embed(db, "m").await;
    // Somebody embeds a message while it is forgotten.
    say(db, "a", "A feline secret", 4).await;
    let batch = claimed(db, "m", T0).await.unwrap();
    forget(db, "a", &[1, 4]).await;
    db.target().keep_embeddings(outcome(&batch, "m")).await.unwrap();
    let left = "SELECT count(*) FROM recall_vectors WHERE exchange IN (1, 4)";
    assert_eq!(db.number(left).await, Some(0));
    assert_eq!(db.number(EVERYTHING).await, Some(4));
    assert!(!found(db, "a", &search("cat")).await.contains(&1));
    db.store().delete_agent(&agent("a"), T0).await.unwrap();
    assert_eq!(db.number(EVERYTHING).await, Some(0));
    assert_eq!(db.number("SELECT count(*) FROM recall_vector_marks").await, Some(0));
    assert_eq!(db.target().unembedded(&model("m")).await.unwrap(), 0);
}
