//! How fresh the copy of the tokens is, with a paused clock.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize},
};

use async_trait::async_trait;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio_util::task::TaskTracker;

use super::*;
use recapd_core::domain::access::AccessNames;
use recapd_platform::clock::ManualClock;
use recapd_store::access::{NewToken, TokenOutcome};

/// A store with one token, which can be revoked. Counts how often the tokens are read.
#[derive(Default)]
struct Kiosk {
    looks: AtomicUsize,
    is_revoked: AtomicBool,
    hangs: AtomicBool,
}

const TEXT: &str = "rcp_open";

#[async_trait]
impl AccessStore for Kiosk {
    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        if self.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let revoked = self.is_revoked.load(Ordering::SeqCst);
        Ok(vec![Token {
            name: "open".parse().unwrap(),
            digest: digest_of(TEXT),
            scope: Scope::Read,
            reach: Reach::All,
            created_at: Timestamp(0),
            expires_at: None,
            revoked_at: revoked.then_some(Timestamp(0)),
            last_used_at: Some(Timestamp(0)),
        }])
    }

    async fn keep_token(&self, _: NewToken, _: Timestamp) -> StoreResult<TokenOutcome> {
        unreachable!("nobody makes tokens")
    }

    async fn revoke_token(&self, _: &TokenName, _: Timestamp) -> StoreResult<bool> {
        unreachable!("tests set `is_revoked`")
    }

    async fn reset_tokens(&self) -> StoreResult<u64> {
        unreachable!("nobody resets tokens")
    }

    async fn note_token_use(&self, _: &TokenName, _: Timestamp) -> StoreResult<()> {
        Ok(())
    }

    async fn project_of(&self, _: &AgentId) -> StoreResult<Option<ProjectId>> {
        Ok(None)
    }

    async fn named_agents(&self, _: &AccessNames, _: Option<&AgentId>, _: i64) -> StoreResult<Vec<AgentId>> {
        Ok(Vec::new())
    }
}

/// Starts a task that refreshes the copy of the tokens until the returned cancellation token is cancelled.
async fn followed() -> (Arc<Kiosk>, Arc<Access>, CancellationToken) {
    let (kiosk, stop) = (Arc::new(Kiosk::default()), CancellationToken::new());
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let access = Arc::new(Access::new(Arc::clone(&kiosk) as _, clock, true));
    access.refresh().await.unwrap();
    let (following, until) = (Arc::clone(&access), stop.clone());
    TaskTracker::new().spawn(async move { following.follow(until).await });
    // Lets the task start.
    sleep(Duration::from_millis(1)).await;
    (kiosk, access, stop)
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_read_without_requests() {
    let (kiosk, access, _stop) = followed().await;
    let before = kiosk.looks.load(Ordering::SeqCst);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(kiosk.looks.load(Ordering::SeqCst), before);
    for _ in 0..20 {
        assert!(access.identify(Some(TEXT)).await.is_ok());
        sleep(REFRESH / 4).await;
    }
    let looks = kiosk.looks.load(Ordering::SeqCst) - before;
    assert!((5..=6).contains(&looks), "{looks} looks in 10 s");
}

#[tokio::test(start_paused = true)]
async fn the_first_request_after_a_pause_sees_current_tokens() {
    let (kiosk, access, _stop) = followed().await;
    sleep(Duration::from_hours(1)).await;
    kiosk.is_revoked.store(true, Ordering::SeqCst);
    assert!(access.identify(Some(TEXT)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_database_that_hangs_delays_requests_only_briefly() {
    let (kiosk, access, _stop) = followed().await;
    sleep(Duration::from_hours(1)).await;
    kiosk.hangs.store(true, Ordering::SeqCst);
    let mut waits = Vec::new();
    for _ in 0..10 {
        let asked = Instant::now();
        assert!(access.identify(Some(TEXT)).await.is_ok(), "the tokens known so far stay in force");
        waits.push(asked.elapsed());
        sleep(Duration::from_secs(1)).await;
    }
    let waited: Duration = waits.iter().sum();
    assert!(waited <= FRESH_WAIT_MAX, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_do_not_wait_for_a_copy_that_no_task_refreshes() {
    let (_, access, stop) = followed().await;
    stop.cancel();
    sleep(Duration::from_hours(1)).await;
    let asked = Instant::now();
    assert!(access.identify(Some(TEXT)).await.is_ok());
    assert_eq!(asked.elapsed(), Duration::ZERO);
}

/// The file is a FIFO: a read of it waits for a write. If the runtime's only thread read the file, it could never write.
#[tokio::test]
async fn a_slow_file_blocks_no_serving_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let line = |text: &str| format!("filed read sha256:{}\n", digest_of(text));
    fs::write(&path, line("rcp_before")).unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let access = Access::new(Arc::new(Kiosk::default()), clock, false);
    let access = access.with_file(path.clone()).unwrap();
    access.refresh().await.unwrap();
    assert!(access.identify(Some("rcp_before")).await.is_ok());

    fs::remove_file(&path).unwrap();
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let write = async {
        tokio::task::yield_now().await;
        fs::write(&path, line("rcp_after")).unwrap();
    };
    let (refreshed, ()) = tokio::join!(access.refresh(), write);
    refreshed.unwrap();
    assert!(access.identify(Some("rcp_before")).await.is_err());
    assert!(access.identify(Some("rcp_after")).await.is_ok());
}

#[tokio::test]
async fn a_session_ends_when_its_token_leaves_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let line = |token: &str| format!("{token} read sha256:{}\n", digest_of(&format!("rcp_{token}")));
    fs::write(&path, line("a") + &line("b")).unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let access = Access::new(Arc::new(Kiosk::default()) as _, clock, false);
    let access = access.with_file(path.clone()).unwrap();
    access.refresh().await.unwrap();
    let key = |id| SessionKey::of_cookie("recapd_session_7411", id);
    for id in ["a", "b"] {
        access.open_session(key(id), &format!("rcp_{id}"));
    }
    let caller = access.identify_session(&key("a")).await.unwrap();
    assert!(access.is_still_valid(&caller, Some(&key("a"))));
    fs::write(&path, line("b")).unwrap();
    access.refresh().await.unwrap();
    assert_eq!(access.identify_session(&key("a")).await, Err(UnknownCaller));
    assert!(access.identify_session(&key("b")).await.is_ok());
    // A token that comes back doesn't reopen its sessions.
    fs::write(&path, line("a") + &line("b")).unwrap();
    access.refresh().await.unwrap();
    assert_eq!(access.identify_session(&key("a")).await, Err(UnknownCaller));
}
