//! The write latency of the disk that holds the benches' databases.

use std::{
    io::{Seek as _, SeekFrom, Write as _},
    thread::sleep,
    time::Duration,
};

use tokio::time::Instant;

use super::{measure::Sample, place};

/// The size of a write: a few pages, like a commit.
const BYTES: usize = 16 * 1_024;
/// The write rate; a busy database commits more often.
const WRITES_PER_SECOND: u32 = 500;
/// The number of writes after which writing starts again at the beginning, as in a log of constant length.
const PLACES: u32 = 2_000;

/// Writes and syncs for `duration`. Returns the durations, each from the write's due time, and the rate per second.
pub(crate) fn write_latency(duration: Duration) -> anyhow::Result<(Sample, f64)> {
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
