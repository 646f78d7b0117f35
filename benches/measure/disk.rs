//! How long the disk that holds a bench's databases makes anyone wait.

use std::{
    io::{Seek as _, SeekFrom, Write as _},
    thread::sleep,
    time::Duration,
};

use tokio::time::Instant;

use super::{measure::Sample, place};

/// What is written at once: some pages, as a commit has.
const BYTES: usize = 16 * 1_024;
/// How often, in a second: a busy writer commits more often.
const WRITES_PER_SECOND: u32 = 500;
/// After so many the first place is written again, as in a log that has its length.
const PLACES: u32 = 2_000;

/// Writes for `duration` and waits for the disk each time; how long that took, each counted from its moment on, and how many
/// there were in a second.
pub(crate) fn waited(duration: Duration) -> anyhow::Result<(Sample, f64)> {
    let mut file = tempfile::tempfile_in(place::disk())?;
    let mut took = Sample::default();
    let bytes = [1; BYTES];
    for _ in 0..PLACES {
        file.write_all(&bytes)?;
    }
    file.sync_all()?;
    let (mut count, start) = (0, Instant::now());
    loop {
        let due = Duration::from_secs(1) * count / WRITES_PER_SECOND;
        if due >= duration {
            break;
        }
        sleep(due.saturating_sub(start.elapsed()));
        if count % PLACES == 0 {
            file.seek(SeekFrom::Start(0))?;
        }
        file.write_all(&bytes)?;
        file.sync_data()?;
        took.add(start.elapsed().saturating_sub(due));
        count += 1;
    }
    Ok((took, f64::from(count) / start.elapsed().as_secs_f64()))
}
