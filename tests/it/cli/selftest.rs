//! `recapd selftest`

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn windows_of_any_budget_hold_and_no_provider_refuses_what_is_built_from_them() {
    let mut command = recapd();
    command.args(["selftest", "window", "--json", "--budgets", "12"]);
    let output = command
        .arg(package_file("examples"))
        .arg(package_file("tests/fixtures"))
        .output()
        .unwrap();
    let findings = json(&output);
    assert_eq!(code(&output), Some(0), "{findings}");
    for (what, at_least) in [("windows", 100), ("evicted", 500), ("requests", 500)] {
        assert!(findings[what].as_u64().unwrap() >= at_least, "{what}: {findings}");
    }
    for what in ["refused", "split", "over_budget", "newest_lost"] {
        assert_eq!(findings[what], 0, "{findings}");
    }
}

#[test]
fn the_same_seed_tries_the_same_and_nothing_tried_is_a_failure() {
    let run = |seed: &str| {
        let mut command = recapd();
        command.args(["selftest", "window", "--budgets", "3", "--seed", seed]);
        stdout(
            &command
                .arg(package_file("tests/fixtures/native.jsonl"))
                .output()
                .unwrap(),
        )
    };
    assert_eq!(run("5"), run("5"));
    let output = recapd()
        .args(["selftest", "window"])
        .arg(package_file("tests/fixtures/empty.jsonl"))
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(1));
    assert!(stderr(&output).contains("empty.jsonl"), "{}", stderr(&output));
}
