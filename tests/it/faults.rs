//! A small sample of `recapd selftest faults`: daemons that are killed, stopped, cut off and starved lose nothing and
//! repeat nothing.

use recapd_selftest::{
    faults::{Database, FaultFindings, Faults, Kind, Template},
    selftest::work::Work as _,
};

const SEED: u64 = 4;

fn run(database: Database, kinds: Vec<Kind>, faults: u64) -> FaultFindings {
    let faults = Faults {
        program: assert_cmd::cargo::cargo_bin("recapd"),
        faults,
        seed: SEED,
        database,
        kinds,
        lease_ms: 1_000,
        // A run with findings keeps its folder there, and prints its path.
        folder: std::env::temp_dir(),
        until: None,
        template: Template::default(),
    };
    faults.try_piece(0)
}

fn assert_clean(found: &FaultFindings, faults: u64) {
    // Readers' waits depend on the load of the machine.
    let data = [found.lost, found.twice, found.stuck, found.over_ceiling, found.broken];
    assert_eq!(data, [0; 5], "{:#?}", found.told);
    assert_eq!(found.faults(), faults);
    assert!(found.turns > 0);
    assert!(found.covered > 0, "something was summarised");
}

fn short(database: Database) -> Vec<Kind> {
    // These take many seconds.
    let long = [Kind::ServerSilent, Kind::Locked, Kind::CopyKill];
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.is_of(database));
    kinds.filter(|kind| !long.contains(kind)).collect()
}

#[test]
fn a_daemon_on_a_file_survives_faults() {
    assert_clean(&run(Database::Sqlite, short(Database::Sqlite), 4), 4);
}

#[test]
fn daemons_on_a_server_survive_faults() {
    assert_clean(&run(Database::Postgres, short(Database::Postgres), 4), 4);
}

#[test]
fn a_daemon_survives_power_failures() {
    assert_clean(&run(Database::Sqlite, vec![Kind::PowerCut], 2), 2);
}

#[test]
fn a_move_to_another_database_survives_faults() {
    assert_clean(&run(Database::Sqlite, vec![Kind::CopyKill], 1), 1);
}
