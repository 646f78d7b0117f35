use super::*;
use crate::{
    ClaimRequest, Store as _,
    operate::OperatorStore as _,
    sql::{Lock, SqlStore},
    sqlite::{MissingFolder, SqliteSettings, Synchronous},
};

/// A claim checks whether anything is due before it waits for its turn to write.
#[tokio::test]
async fn a_pause_between_the_check_and_the_claim_is_respected() {
    let folder = tempfile::tempdir().unwrap();
    let settings = SqliteSettings {
        url: format!("sqlite:{}", folder.path().join("recapd.db").display()),
        readers: 1,
        group_commit_max: 8,
        busy_timeout_ms: 1_000,
        synchronous: Synchronous::Off,
        missing_folder: MissingFolder::Refuse,
    };
    let store = SqlStore::open(&settings.into()).await.unwrap();
    let (agent, now): (AgentId, _) = ("a".parse().unwrap(), Timestamp(0));
    let made = store.write(Lock::Nothing, {
        let agent = agent.clone();
        move |tx| Box::pin(async move { super::super::agent::create(tx, &agent, now).await })
    });
    assert!(made.await.unwrap());
    store.enqueue(&agent, Reason::Manual, 0, now).await.unwrap();
    store.pause_queue(now).await.unwrap();
    let request = ClaimRequest { owner: "me".to_owned(), limit: 1, lease_ms: 1_000, now };
    let claimed = async || {
        let request = request.clone();
        let claiming = store.write(Lock::Nothing, move |tx| Box::pin(claim(tx, request)));
        claiming.await.unwrap().len()
    };
    assert_eq!(claimed().await, 0);
    store.resume_queue().await.unwrap();
    assert_eq!(claimed().await, 1);
}
