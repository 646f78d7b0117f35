//! The command line of tests on real daemons with faults.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use tokio::time::Instant;

use super::{CommandFailure, GlobalOptions, How, count, report};
use crate::{
    faults::{
        APPEND_P99_MS_MAX, Database, FaultFindings, Faults, KNOWN_MS_MAX, Kind, Spans, Template,
        UNKNOWN_MS_MAX, median_and_max,
    },
    selftest::work::Work as _,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Starts daemons on a database of their own (one on a file, three on a temporary PostgreSQL server), with a model server that
fails in every way, and kills, stops, disconnects and starves them. Several clients write for each agent, over HTTP and by
SQL, and mark, rewind, clear, fork, forget and roll back; others read summaries all the time. Then everything is repaired, and
the queue has to drain. The stored data is read by SQL and compared with the requests, of which some were acknowledged and
some have an unknown outcome. Breaches are messages lost or stored twice, exchanges covered twice or never, stuck rows,
documents over their ceiling, forgotten texts that can still be found, and reads that took too long; with one of them the exit
code is 1, and the run's folder stays. A full disk needs the right to mount a small file system, power cuts need a C compiler:
without these the kinds are left out, and the report says so. Power cuts happen in half of the runs on SQLite. Examples:
  recapd selftest faults --minutes 1                                   one daemon on SQLite
  recapd selftest faults --database postgres --resume progress.json    stop it, start it again: it resumes
  recapd selftest faults --only power-cut --faults 200                 nothing but power cuts
  recapd selftest faults --seed 7 --run 12                             the one run that found something
  recapd selftest faults --only kill --lease-ms 1000                   recovery is sooner than by default")]
pub(super) struct FaultsTest {
    /// The number of faults
    #[arg(long, default_value = "10_000", value_parser = count)]
    faults: u64,
    /// Start no new run after this many minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// The daemons' database
    #[arg(long, value_enum, default_value_t = Under::Sqlite)]
    database: Under,
    /// Only faults of these kinds
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    only: Vec<Kind>,
    /// The lease of a claim, in milliseconds, from 1000
    #[arg(long, default_value_t = 15_000, value_parser = clap::value_parser!(i64).range(1_000..=60_000))]
    lease_ms: i64,
    /// Only the run with this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "resume")]
    run: Option<usize>,
    /// The recapd program to test [default: the one in this program's folder]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The parent folder of the runs' folders [default: the system's folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Under {
    Sqlite,
    Postgres,
}

impl From<Under> for Database {
    fn from(under: Under) -> Self {
        match under {
            Under::Sqlite => Self::Sqlite,
            Under::Postgres => Self::Postgres,
        }
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name);
        format!("there is no such kind; there are {}", names.join(", "))
    })
}

impl FaultsTest {
    pub(super) fn run(&self, shared: &GlobalOptions) -> Result<bool, CommandFailure> {
        let faults = self.faults()?;
        let settings = faults.settings();
        let found = match self.run {
            Some(run) => faults.try_piece(run),
            None => self.how.run(&faults, "faults", shared)?,
        };
        report(&found, shared, |found| text(found, &faults, &settings))?;
        Ok(found.is_clean() && found.faults() > 0)
    }

    fn faults(&self) -> Result<Faults, CommandFailure> {
        let database = Database::from(self.database);
        let asked = if self.only.is_empty() { Kind::ALL.to_vec() } else { self.only.clone() };
        let kinds: Vec<Kind> = asked.into_iter().filter(|kind| kind.is_of(database)).collect();
        if kinds.is_empty() {
            let error = anyhow::anyhow!("none of these kinds happens over {}; see --only", database.name());
            return Err(CommandFailure::Usage(error));
        }
        let minutes = self.minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
        Ok(Faults {
            program: match &self.program {
                Some(program) => std::path::absolute(program)?,
                None => std::env::current_exe()?.with_file_name("recapd"),
            },
            faults: self.faults,
            seed: self.how.seed,
            database,
            kinds,
            lease_ms: self.lease_ms,
            folder: self.folder.clone().unwrap_or_else(std::env::temp_dir),
            until: minutes.and_then(|minutes| Instant::now().checked_add(minutes)),
            template: Template::default(),
        })
    }
}

/// One line about spans of time and their limit.
fn times(what: &str, spans: &Spans, max_ms: u64, whom: &str) -> String {
    let quantile = |permille| spans.quantile_ms(permille).unwrap_or_default();
    format!(
        "  {what:<32} {} times, median {} ms, 99 % {} ms, at most {} ms ({whom} within {max_ms} ms)",
        spans.count(),
        quantile(500),
        quantile(990),
        quantile(1_000)
    )
}

fn text(found: &FaultFindings, faults: &Faults, settings: &[String]) -> String {
    let mut lines = vec![format!(
        "{} faults in {} runs over {}, {} daemons each, seed {}",
        found.faults(),
        found.runs,
        faults.database.name(),
        faults.database.daemons(),
        faults.seed
    )];
    lines.extend(happened(found));
    lines.extend(breaches(found));
    lines.extend(spans(found));
    lines.push(format!("  set up with {}", settings.join(" ")));
    lines.extend(found.left_out.iter().map(|(kind, why)| format!("  left out: {} ({why})", kind.name())));
    lines.extend(found.told.iter().map(|told| format!("    {told}")));
    lines.join("\n")
}

/// The faults and requests, and what is stored of them.
fn happened(found: &FaultFindings) -> [String; 5] {
    let counts = |counts: &mut dyn Iterator<Item = (&str, u64)>| {
        let counts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
        counts.join(" · ")
    };
    let named =
        |all: &BTreeMap<String, u64>| counts(&mut all.iter().map(|(name, count)| (name.as_str(), *count)));
    [
        format!("  {}", counts(&mut found.faults.iter().map(|(kind, count)| (kind.name(), *count)))),
        format!("  model calls: {}", named(&found.calls)),
        format!("  steps: {}", named(&found.steps)),
        format!(
            "  {} turns stored, {} begun with unknown outcome, {} messages forgotten",
            found.turns, found.ambiguous, found.forgotten
        ),
        format!(
            "  {} messages and {} exchanges stored, {} covered, {} versions, {} rows parked, {} revived by the test",
            found.messages, found.exchanges, found.covered, found.versions, found.parked, found.revived
        ),
    ]
}

fn breaches(found: &FaultFindings) -> [String; 7] {
    [
        format!("  daemons ended by themselves      {} (and were started again)", found.ended_alone),
        format!("  lost                             {}", found.lost),
        format!("  stored or applied twice          {}", found.twice),
        format!("  stuck                            {}", found.stuck),
        format!("  over the ceiling                 {}", found.over_ceiling),
        format!("  read too late, or refused        {}", found.unavailable),
        format!("  broken otherwise                 {}", found.broken),
    ]
}

/// The times of reads, appends and recoveries.
fn spans(found: &FaultFindings) -> [String; 7] {
    let recovery = |what: &str, spans_ms: &[u64]| {
        let said = median_and_max(spans_ms).map_or_else(
            || "not measured".to_owned(),
            |(median, max)| format!("median {median} ms, at most {max} ms ({} times)", spans_ms.len()),
        );
        format!("  asked again {what:<21} {said}")
    };
    [
        times("reads of known summaries", &found.known_reads, KNOWN_MS_MAX, "all"),
        times("reads of others", &found.other_reads, UNKNOWN_MS_MAX, "all"),
        times("appends elsewhere", &found.appends, APPEND_P99_MS_MAX, "99 %"),
        format!("  not judged                       {} (the machine was busy)", found.unjudged),
        recovery("by the same daemon", &found.restarted_ms),
        recovery("by another daemon", &found.taken_over_ms),
        format!("  not asked again in time          {} (parked, or too slow)", found.not_resumed),
    ]
}
