//! Notes: their versions, and what ends them.

use recapd_core::domain::{
    lineage::Step,
    note::{NOTES_MAX, Note, NoteChange},
    redaction::Redactor,
};
use recapd_store::{AppendRequest, Forget, Forgettable, NoteQuery, StepOutcome, StoreError, StoreResult};

use super::{clean, lineage::step, lineage_scripts::note};
use crate::support::{
    backend::{Backend, TABLES, assert_same},
    conversation::{agent, append, minute, rules, turns},
};

/// Appends steps that must be possible.
async fn take(db: &dyn Backend, name: &str, steps: &[Step]) -> StoreResult<Vec<StepOutcome>> {
    let messages = steps.iter().map(|taken| step(taken, 90)).collect();
    let outcome = db.store().rewind(append(&agent(name), messages)).await?;
    clean(db, &agent(name)).await;
    Ok(outcome.steps)
}

async fn write(db: &dyn Backend, name: &str, text: &str) -> i64 {
    let steps = take(db, "a", &[note(name, Some(text.to_owned()))]).await.unwrap();
    match steps.as_slice() {
        [StepOutcome::Noted { version }] => *version,
        other => panic!("{other:?}"),
    }
}

fn replacing(name: &str, text: &str, replaces: i64) -> Step {
    Step::Note(NoteChange {
        name: name.parse().unwrap(),
        text: Some(text.to_owned()),
        replaces: Some(replaces),
    })
}

async fn read(db: &dyn Backend, name: &str, query: NoteQuery) -> Vec<Note> {
    let query = NoteQuery { texts: true, ..query };
    db.store().notes(&agent(name), &query).await.unwrap()
}

/// Describes an agent's notes as `name=text`.
async fn told(db: &dyn Backend, name: &str) -> String {
    let notes = read(db, name, NoteQuery::default()).await;
    let told = notes.iter().map(|note| format!("{}={}", note.name, note.text));
    told.collect::<Vec<_>>().join(" ")
}

fn versions_of(name: &str) -> NoteQuery {
    NoteQuery { versions_of: Some(name.parse().unwrap()), ..NoteQuery::default() }
}

async fn say(db: &dyn Backend, name: &str, numbers: std::ops::RangeInclusive<i64>) {
    db.store().append(append(&agent(name), turns(numbers))).await.unwrap();
}

pub(crate) async fn a_note_is_written_read_and_deleted(db: &dyn Backend) {
    say(db, "a", 1..=1).await;
    let first = write(db, "b.md", "One\ntwo").await;
    let second = write(db, "b.md", "Three").await;
    write(db, "a/c", "").await;
    assert_eq!(told(db, "a").await, "a/c= b.md=Three");
    let versions = read(db, "a", versions_of("b.md")).await;
    let seen: Vec<(i64, &str, i64, &str)> = versions
        .iter()
        .map(|note| (note.version, note.title.as_str(), note.bytes, note.text.as_str()))
        .collect();
    assert_eq!(seen, [(second, "Three", 5, "Three"), (first, "One", 7, "One\ntwo")]);
    take(db, "a", &[note("b.md", None)]).await.unwrap();
    assert_eq!(told(db, "a").await, "a/c=");
    assert!(read(db, "a", versions_of("b.md")).await[0].deleted);
    let again = take(db, "a", &[note("b.md", None)]).await;
    assert!(matches!(again, Err(StoreError::UnknownNote(_))), "{again:?}");
    // In a stream of messages it does nothing.
    let streamed = append(&agent("a"), vec![step(&note("b.md", None), 91)]);
    let steps = db.store().append(streamed).await.unwrap().steps;
    assert!(matches!(steps.as_slice(), [StepOutcome::NoNote { .. }]), "{steps:?}");
    // Without their texts, and as they were before an exchange.
    let bare = db.store().notes(&agent("a"), &NoteQuery::default()).await.unwrap();
    assert_eq!((bare.len(), bare[0].text.as_str()), (1, ""));
    let before = NoteQuery { before: Some(1), ..NoteQuery::default() };
    assert_eq!(read(db, "a", before).await, []);
}

pub(crate) async fn a_change_replaces_the_version_that_it_names(db: &dyn Backend) {
    say(db, "a", 1..=1).await;
    let first = write(db, "plan", "1").await;
    let before = db.dump(&TABLES).await;
    for (step, present) in [
        (replacing("plan", "2", 0), first),
        (replacing("plan", "2", first + 9), first),
        (replacing("other", "2", first), 0),
    ] {
        // Of several changes, all are made or none.
        let refused = take(db, "a", &[note("free", Some("x".to_owned())), step]).await;
        let Err(StoreError::NoteChanged { version, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(version, present);
        assert_same(&before, &db.dump(&TABLES).await, "refused");
    }
    take(db, "a", &[replacing("plan", "2", first), replacing("new", "3", 0)]).await.unwrap();
    assert_eq!(told(db, "a").await, "new=3 plan=2");
    // A replay accepts what was accepted once.
    let replayed =
        AppendRequest { replayed: true, ..append(&agent("a"), vec![step(&replacing("plan", "4", 1), 95)]) };
    db.store().append(replayed).await.unwrap();
    assert_eq!(told(db, "a").await, "new=3 plan=4");
}

pub(crate) async fn an_agent_has_so_many_notes(db: &dyn Backend) {
    say(db, "a", 1..=1).await;
    let many: Vec<Step> = (1..=NOTES_MAX).map(|at| note(&format!("n{at}"), Some("x".to_owned()))).collect();
    take(db, "a", &many).await.unwrap();
    let one_more = [note("more", Some("x".to_owned()))];
    let full = take(db, "a", &one_more).await;
    assert!(matches!(full, Err(StoreError::NotesFull)), "{full:?}");
    take(db, "a", &[note("n1", Some("y".to_owned())), note("n2", None)]).await.unwrap();
    take(db, "a", &one_more).await.unwrap();
}

pub(crate) async fn a_rewind_brings_back_the_versions_before(db: &dyn Backend) {
    say(db, "a", 1..=2).await;
    write(db, "plan", "before").await;
    write(db, "gone", "x").await;
    take(db, "a", &[Step::Mark(None)]).await.unwrap();
    say(db, "a", 3..=4).await;
    write(db, "plan", "after").await;
    take(db, "a", &[note("gone", None), note("new", Some("x".to_owned()))]).await.unwrap();
    assert_eq!(told(db, "a").await, "new=x plan=after");
    take(db, "a", &[Step::Rewind(None)]).await.unwrap();
    assert_eq!(told(db, "a").await, "gone=x plan=before");
    take(db, "a", &[Step::Clear]).await.unwrap();
    assert_eq!(told(db, "a").await, "gone=x plan=before");
}

pub(crate) async fn a_fork_inherits_notes_and_changes_only_its_own(db: &dyn Backend) {
    say(db, "a", 1..=4).await;
    write(db, "plan", "shared").await;
    db.store().fork(&agent("a"), &agent("b"), minute(99)).await.unwrap();
    clean(db, &agent("b")).await;
    assert_eq!(told(db, "b").await, "plan=shared");
    take(db, "b", &[note("plan", Some("child".to_owned()))]).await.unwrap();
    write(db, "plan", "parent").await;
    assert_eq!(
        (told(db, "a").await, told(db, "b").await),
        ("plan=parent".to_owned(), "plan=child".to_owned())
    );
    db.store().fork(&agent("b"), &agent("c"), minute(99)).await.unwrap();
    take(db, "c", &[note("plan", None)]).await.unwrap();
    assert_eq!((told(db, "b").await, told(db, "c").await), ("plan=child".to_owned(), String::new()));
}

/// Each later version may hold the same words.
pub(crate) async fn a_forgotten_version_takes_its_note_along(db: &dyn Backend) {
    say(db, "a", 1..=2).await;
    let first = write(db, "plan", "xylocopa").await;
    write(db, "other", "stays").await;
    take(db, "a", &[Step::Mark(None)]).await.unwrap();
    say(db, "a", 3..=3).await;
    write(db, "plan", "xylocopa, set aside").await;
    take(db, "a", &[Step::Rewind(None)]).await.unwrap();
    say(db, "a", 4..=4).await;
    db.store().fork(&agent("a"), &agent("b"), minute(99)).await.unwrap();
    take(db, "b", &[note("plan", Some("xylocopa of the child".to_owned()))]).await.unwrap();
    write(db, "plan", "xylocopa, too").await;
    let wish = Forget {
        agent: agent("a"),
        what: Forgettable::Message(first),
        rules: rules(),
        redactor: Redactor::standard(),
        now: minute(200),
    };
    db.store().forget(wish).await.unwrap();
    for name in ["a", "b"] {
        clean(db, &agent(name)).await;
        assert_eq!(told(db, name).await, "other=stays");
    }
    let left = "SELECT count(*) FROM message_log WHERE payload LIKE '%xylocopa%'";
    assert_eq!(db.number(left).await, Some(0));
    assert_eq!(db.number("SELECT count(*) FROM forks WHERE record LIKE '%xylocopa%'").await, Some(0));
    // The name is free again.
    write(db, "plan", "new").await;
    assert_eq!(told(db, "a").await, "other=stays plan=new");
}

pub(crate) async fn notes_come_back_from_a_journal(db: &dyn Backend) {
    say(db, "a", 1..=3).await;
    let first = write(db, "plan", "1").await;
    take(db, "a", &[replacing("plan", "2", first), note("gone", Some("x".to_owned())), note("gone", None)])
        .await
        .unwrap();
    say(db, "a", 4..=5).await;
    super::archive::comes_back_in_chunks(db, &super::archive::read(db, &agent("a")).await).await;
    let notes = read(db, "a", NoteQuery::default()).await;
    assert_eq!(notes.len(), 1);
    for name in ["ones", "sevens"] {
        assert_eq!(read(db, name, NoteQuery::default()).await, notes);
        assert_eq!(read(db, name, versions_of("gone")).await.len(), 2);
    }
}

pub(crate) async fn notes_without_messages_are_found(db: &dyn Backend) {
    say(db, "a", 1..=2).await;
    write(db, "plan", "1").await;
    db.raw("UPDATE notes SET seq = 77").await;
    let report = db.store().verify(&agent("a")).await.unwrap();
    assert_eq!(report.breaches[0].found, "1 versions of notes name messages that don't exist");
}
