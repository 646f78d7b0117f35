//! Another process sends the messages for which a hook had no time.

use std::thread::ScopedJoinHandle;

use super::*;
use crate::hook::folder::SEND_LOCK;

#[test]
fn messages_for_which_a_hook_had_no_time_are_sent_afterwards() {
    let hooks = Hooks::new();
    let long = |number: usize| format!("{number} {}", "x".repeat(4_000));
    let bytes = transcript(&(0..500).map(long).collect::<Vec<_>>());
    fs::write(hooks.transcript("s"), &bytes).unwrap();
    let (folder, owner, input) = (hooks.files(), hooks.owner(), hooks.input("s"));
    let gathering =
        Gatherer { folder: &folder, owner: &owner, former: None, host: hooks.host, deadline: Instant::now() };
    gathering.gather(&input, Some(SessionMark::Clear)).unwrap();
    let (all, waiting) = (input.transcript_bytes(), Spool::new(folder.spool()).segments());
    assert!(gathering.is_short_of(all, &input) && waiting.len() == 1);
    let send = || drain(&folder, &owner, &hooks.daemon, Timestamp(0)).unwrap();
    hooks.daemon.has_time_for.set(Some(0));
    assert_eq!(send(), DrainEnd::OutOfTime);
    let state: SendState = read_json(&folder.sent()).unwrap();
    assert_eq!(state.last_error, None, "the daemon did nothing wrong");
    // A process with more time begins, and is killed; another one goes on.
    for requests in [1, usize::MAX] {
        hooks.daemon.has_time_for.set(Some(requests));
        let deadline = Instant::now() + Duration::from_mins(1);
        gather_and_drain(&[hooks.files()], &hooks.daemon, hooks.host, deadline, Timestamp(0));
    }
    assert_eq!(hooks.stored(), at_once(&bytes));
    assert!(!gathering.is_short_of(all, &input));
    assert_eq!((send(), Spool::new(folder.spool()).counts()), (DrainEnd::Sent, (0, 0)));
    let _other = folder.lock(SEND_LOCK, Instant::now()).unwrap();
    assert_eq!(send(), DrainEnd::Busy);
}

#[test]
fn one_process_drains_one_waits_and_others_end() {
    let hooks = Hooks::new();
    let (state, now) = (&hooks.state(), Instant::now());
    let first = state.lock_next_drain(now).unwrap();
    assert!(first.is_some());
    std::thread::scope(|threads| {
        let others = [(); 2].map(|()| {
            threads.spawn(move || {
                let until = now + Duration::from_mins(1);
                state.lock_next_drain(until).unwrap()
            })
        });
        while !others.iter().any(ScopedJoinHandle::is_finished) {
            std::thread::yield_now();
        }
        drop(first);
        let turns = others.map(|other| other.join().unwrap());
        assert_eq!(turns.iter().flatten().count(), 1);
    });
}
