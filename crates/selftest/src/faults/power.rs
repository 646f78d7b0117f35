//! Power failures: a database's files as a disk may hold them after the power was cut.
//!
//! A small library (`power/recorder.c`, compiled on demand and loaded before the C library) logs each write, truncation and
//! sync of the files, in order. To cut the power, the daemon is killed and the files are rebuilt: synced data is there; of
//! a file's writes since its last sync, all are there, or none, or some, or some of their sectors. No other program may
//! write to the files meanwhile. Creating and removing a file is assumed to last at once; SQLite syncs folders where that
//! matters to it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use fastrand::Rng;

/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;
/// The longest delay of a sync, in microseconds.
const SYNC_US_MAX: u32 = 4_000;
const RECORDER: &str = include_str!("power/recorder.c");

/// The recorder's letter for a file, and the suffix of its name.
const FILES: [(u8, &str); 3] = [(b'd', ""), (b'w', "-wal"), (b'j', "-journal")];

/// Contents by the recorder's letter. Missing files have no entry.
type Images = BTreeMap<u8, Vec<u8>>;

pub(super) struct Power {
    library: PathBuf,
    log: PathBuf,
    database: PathBuf,
    /// The files when the log began.
    before: Mutex<Images>,
}

/// The fate of unsynced writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Kept,
    Lost,
    /// Some are gone, in any order.
    Scattered,
    /// Some sectors are gone.
    Torn,
}

impl Rest {
    const ALL: [Self; 4] = [Self::Kept, Self::Lost, Self::Scattered, Self::Torn];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileChange<'a> {
    file: u8,
    act: Act<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act<'a> {
    Write { offset: usize, bytes: &'a [u8] },
    Truncate(usize),
    Sync,
    Unlink,
}

impl Power {
    /// Compiles the recorder into a run's folder, for a database that doesn't exist yet.
    ///
    /// # Errors
    /// If the compiler reports an error.
    pub(super) fn of(database: PathBuf, folder: &Path) -> Result<Self, String> {
        let (source, library) = (folder.join("recorder.c"), folder.join("recorder.so"));
        fs::write(&source, RECORDER).map_err(|error| error.to_string())?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .args(["-ldl", "-lpthread"])
            .stdin(Stdio::null())
            .output();
        match compiled {
            Ok(output) if output.status.success() => {
                Ok(Self { library, log: folder.join("power.log"), database, before: Mutex::default() })
            }
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("a C compiler is needed: cc: {error}")),
        }
    }

    /// A daemon's environment variables that enable the recorder.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("RECAPD_POWER_FILE", self.database.display().to_string()),
            ("RECAPD_POWER_LOG", self.log.display().to_string()),
            ("RECAPD_POWER_SYNC_US", SYNC_US_MAX.to_string()),
        ]
    }

    /// Leaves the files as the disk may hold them. The processes that wrote to them must have ended.
    ///
    /// # Errors
    /// If a file can't be read or written.
    pub(super) fn cut(&self, random: &mut Rng) -> io::Result<()> {
        let log = match fs::read(&self.log) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut images = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = random.choice(Rest::ALL).unwrap_or(Rest::Lost);
        *images = survived(std::mem::take(&mut *images), &parse(&log), rest, random);
        for (file, end) in FILES {
            let path = self.file(end);
            match images.get(&file) {
                Some(image) => fs::write(path, image)?,
                None if path.exists() => fs::remove_file(path)?,
                None => {}
            }
        }
        let shared = self.file("-shm");
        if shared.exists() {
            fs::remove_file(shared)?;
        }
        fs::write(&self.log, "")
    }

    fn file(&self, end: &str) -> PathBuf {
        let mut path = self.database.clone().into_os_string();
        path.push(end);
        path.into()
    }
}

/// The records of a log, without a truncated last one.
fn parse(log: &[u8]) -> Vec<FileChange<'_>> {
    let (mut records, mut rest) = (Vec::new(), log);
    while let Some((record, after)) = parse_one(rest) {
        records.push(record);
        rest = after;
    }
    records
}

fn parse_one(log: &[u8]) -> Option<(FileChange<'_>, &[u8])> {
    let end = log.iter().position(|byte| *byte == b'\n')?;
    let (head, rest) = (std::str::from_utf8(log.get(..end)?).ok()?, log.get(end + 1..)?);
    let mut words = head.split(' ');
    let &[what, file] = words.next()?.as_bytes() else {
        return None;
    };
    let mut number = || words.next()?.parse::<usize>().ok();
    let (offset, length) = (number()?, number()?);
    let (bytes, after) = rest.split_at_checked(length)?;
    let act = match what {
        b'W' => Act::Write { offset, bytes },
        b'T' => Act::Truncate(offset),
        b'S' => Act::Sync,
        _ => Act::Unlink,
    };
    Some((FileChange { file, act }, after))
}

/// The files after the power failure.
fn survived(mut images: Images, records: &[FileChange<'_>], rest: Rest, random: &mut Rng) -> Images {
    let mut synced: BTreeMap<u8, usize> = BTreeMap::new();
    for (place, record) in records.iter().enumerate() {
        if matches!(record.act, Act::Sync | Act::Unlink) {
            synced.insert(record.file, place);
        }
    }
    for (place, record) in records.iter().enumerate() {
        let is_synced = synced.get(&record.file).is_some_and(|synced| place <= *synced);
        let rest = if is_synced { Rest::Kept } else { rest };
        if record.act == Act::Unlink {
            images.remove(&record.file);
            continue;
        }
        let image = images.entry(record.file).or_default();
        let is_gone = match rest {
            Rest::Kept => false,
            Rest::Lost => true,
            Rest::Scattered => random.bool(),
            // Torn writes are handled below.
            Rest::Torn => matches!(record.act, Act::Truncate(_)) && random.bool(),
        };
        match record.act {
            _ if is_gone => {}
            Act::Truncate(length) => image.resize(length, 0),
            Act::Write { offset, bytes } if rest == Rest::Torn => tear(image, offset, bytes, random),
            Act::Write { offset, bytes } => put(image, offset, bytes),
            Act::Sync | Act::Unlink => {}
        }
    }
    images
}

fn put(image: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if image.len() < end {
        image.resize(end, 0);
    }
    if let Some(there) = image.get_mut(offset..end) {
        there.copy_from_slice(bytes);
    }
}

/// Writes a random part of the sectors.
fn tear(image: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Rng) {
    let (mut offset, mut left) = (offset, bytes);
    while !left.is_empty() {
        let length = (SECTOR_BYTES - offset % SECTOR_BYTES).min(left.len());
        let (sector, after) = left.split_at(length);
        if random.bool() {
            put(image, offset, sector);
        }
        (offset, left) = (offset + length, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(log: &[u8], rest: Rest) -> Images {
        let before = Images::from([(b'd', b"old".to_vec())]);
        survived(before, &parse(log), rest, &mut Rng::with_seed(7))
    }

    #[test]
    fn synced_data_survives_a_power_cut() {
        let log = b"Wd 0 3\nnewSd 0 0\nWd 3 2\nerTd 1 0\nWw 0 4\nlogs";
        for rest in Rest::ALL {
            let images = left(log, rest);
            assert!(images[&b'd'].starts_with(b"n"), "{rest:?}: {images:?}");
        }
        assert_eq!(left(log, Rest::Kept), Images::from([(b'd', b"n".to_vec()), (b'w', b"logs".to_vec())]));
        assert_eq!(left(log, Rest::Lost), Images::from([(b'd', b"new".to_vec()), (b'w', Vec::new())]));
    }

    #[test]
    fn a_truncated_record_is_ignored() {
        assert_eq!(left(b"Wd 0 3\nnewSd 0 0\nWd 0 9\nbroke", Rest::Kept)[&b'd'], b"new");
        assert!(left(b"Ud 0 0\n", Rest::Lost).is_empty());
    }

    #[test]
    fn sectors_are_lost_one_by_one_and_writes_out_of_order() {
        let mut log = b"Wd 0 5120\n".to_vec();
        log.extend([b'x'; 5120]);
        let torn = &left(&log, Rest::Torn)[&b'd'];
        let sectors: Vec<bool> = torn.chunks(SECTOR_BYTES).map(|sector| sector.ends_with(b"x")).collect();
        assert!(sectors.contains(&true) && sectors.contains(&false), "{sectors:?}");
        let log: Vec<u8> = (0..20).flat_map(|at| format!("Wd {at} 1\nx").into_bytes()).collect();
        let scattered = &left(&log, Rest::Scattered)[&b'd'];
        assert!(scattered.windows(2).any(|pair| pair == [0, b'x']), "{scattered:?}");
    }

    /// The recorder logs a program's writes, and files can be rebuilt from the log.
    #[test]
    fn the_recorder_sees_what_sqlite_writes() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("power.db");
        let power = Power::of(database.clone(), folder.path()).unwrap();
        let inserts = "INSERT INTO t VALUES (1);\n".repeat(200);
        let script = format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (n);\n{inserts}.shell kill -9 $PPID\n"
        );
        let file = folder.path().join("script.sql");
        fs::write(&file, script).unwrap();
        let killed = Command::new("sqlite3")
            .arg(&database)
            .stdin(fs::File::open(file).unwrap())
            .stdout(Stdio::null())
            .envs(power.environment())
            .status()
            .unwrap();
        assert!(!killed.success());
        power.cut(&mut Rng::with_seed(1)).unwrap();
        let connection = rusqlite::Connection::open(&database).unwrap();
        let rows: i64 = connection.query_row("SELECT count(*) FROM t", (), |row| row.get(0)).unwrap();
        assert_eq!(rows, 200);
    }
}
