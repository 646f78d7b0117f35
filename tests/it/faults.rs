//! A small sample of `recapd selftest faults`: daemons killed, stopped, cut off and starved lose nothing and do nothing
//! twice.

use recapd::{
    faults::{Database, FaultFindings, Faults, Kind, Template},
    selftest::work::Work as _,
};

const SEED: u64 = 4;

fn run(database: Database, faults: u64) -> FaultFindings {
    let folder = tempfile::tempdir().unwrap();
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_of(database));
    let faults = Faults {
        program: assert_cmd::cargo::cargo_bin("recapd"),
        faults,
        seed: SEED,
        database,
        kinds: kinds.collect(),
        lease_ms: 1_000,
        folder: folder.path().to_owned(),
        until: None,
        template: Template::default(),
    };
    faults.try_piece(0)
}

fn assert_clean(found: &FaultFindings, faults: u64) {
    assert_eq!(found.told, [""; 0]);
    assert!(found.is_clean());
    assert_eq!(found.faults(), faults);
    assert_eq!(found.messages, found.turns * 4);
    assert!(found.covered > 0, "something was summarised");
}

#[test]
fn a_daemon_on_a_file_survives_faults() {
    assert_clean(&run(Database::Sqlite, 8), 8);
}

#[test]
fn daemons_on_a_server_survive_faults() {
    assert_clean(&run(Database::Postgres, 8), 8);
}
