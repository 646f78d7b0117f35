//! Unreadable segments don't block others, and don't accumulate. What can be sent, now or later, stays.

use super::*;
use recapd_core::domain::time::DAY_MS;
use recapd_platform::clock::{Clock as _, SystemClock};

impl Hooks {
    fn spool(&self, number: usize, bytes: &[u8]) -> PathBuf {
        let spool = self.files().spool();
        fs::create_dir_all(&spool).unwrap();
        let segment = spool.join(format!("{number:012}.jsonl"));
        fs::write(&segment, bytes).unwrap();
        segment
    }

    /// The numbers of the segments that were set aside.
    fn aside(&self) -> Vec<usize> {
        let aside = files(&self.files().spool()).into_iter();
        let aside = aside.filter(|file| file.extension().unwrap() == "unreadable");
        let numbers = aside.map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            name.split('.').next().unwrap().parse().unwrap()
        });
        numbers.collect()
    }

    fn last_error(&self) -> String {
        let sent: SendState = read_json(&self.files().sent()).unwrap();
        sent.last_error.unwrap()
    }
}

#[test]
fn an_invalid_segment_is_set_aside_and_reported_and_the_rest_is_sent() {
    let hooks = Hooks::new();
    let (first, last) = (line(0, "first"), line(5, "last"));
    let said = [&first, &last].map(|line| spool_line(Format::ClaudeCode, line).into_bytes());
    let damaged = [&said[0][..], &b"claude-code {\xff}\n"[..], &said[1]].concat();
    hooks.spool(1, &damaged);
    hooks.daemon.is_away.set(true);
    hooks.drain();
    hooks.daemon.is_away.set(false);
    hooks.drain();
    assert_eq!(hooks.stored(), [first, last]);
    assert!(hooks.last_error().contains("moved aside"), "{}", hooks.last_error());
    assert_eq!(hooks.aside(), [1]);
    let aside = &files(&hooks.files().spool())[0];
    assert_eq!(fs::read(aside).unwrap(), damaged);
    // Nothing is left in the spool.
    hooks.spool(2, &[0xff, 0xfe]);
    hooks.spool(3, b"");
    hooks.drain();
    assert_eq!(Spool::new(hooks.files().spool()).counts(), (0, 0));
    assert_eq!((hooks.aside(), hooks.stored().len()), (vec![1, 2], 2));
}

#[test]
fn zeros_and_truncated_lines_do_not_block_other_messages() {
    let hooks = Hooks::new();
    let after = [5, 10, 15].map(|number| line(number, "after"));
    let zeros = vec![0; 300];
    let cut = [&zeros[..], &vec![b'x'; 100_000], b" {}\n"].concat();
    for (damaged, after) in [zeros.clone(), cut, b"x {}\n".to_vec()].iter().zip(&after) {
        // Numbers restart when the spool is empty.
        hooks.spool(1, damaged);
        hooks.spool(2, spool_line(Format::ClaudeCode, after).as_bytes());
        hooks.drain();
        assert!(hooks.last_error().contains("moved aside"), "{}", hooks.last_error());
    }
    assert_eq!((hooks.aside(), hooks.stored()), (vec![1, 1, 1], after.to_vec()));
}

#[test]
fn only_the_newest_set_aside_segments_are_kept_and_for_a_limited_time() {
    let hooks = Hooks::new();
    for number in 1..=9 {
        hooks.spool(number, &[0xff]);
    }
    hooks.drain();
    assert_eq!(hooks.aside(), [6, 7, 8, 9]);
    // An older version left this many.
    for number in 10..=19 {
        fs::rename(
            hooks.spool(number, &[0xff]),
            hooks.files().spool().join(format!("{number:012}.unreadable")),
        )
        .unwrap();
    }
    let (now, soon) = (SystemClock.now(), Instant::now() + Duration::from_mins(1));
    hooks.state().prune(now, soon);
    assert_eq!(hooks.aside(), [16, 17, 18, 19]);
    let waits = hooks.spool(20, b"");
    hooks.state().prune(now.plus_ms(61 * DAY_MS), soon);
    assert_eq!(hooks.aside(), [0_usize; 0]);
    assert!(waits.exists());
}

#[test]
fn a_temporarily_unreadable_segment_is_sent_later() {
    let hooks = Hooks::new();
    let (target, segment) = (hooks.folder.path().join("target"), hooks.spool(1, b""));
    fs::remove_file(&segment).unwrap();
    std::os::unix::fs::symlink(&target, &segment).unwrap();
    hooks.drain();
    assert_eq!(hooks.aside(), [0_usize; 0]);
    assert!(hooks.last_error().contains("can't be read"), "{}", hooks.last_error());
    let late = line(0, "late");
    fs::write(&target, spool_line(Format::ClaudeCode, &late)).unwrap();
    hooks.drain();
    assert_eq!(hooks.stored(), [late]);
    assert_eq!(Spool::new(hooks.files().spool()).counts(), (0, 0));
}
