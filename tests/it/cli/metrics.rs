//! `recapd metrics`, and what the repository says about metrics.

use super::{package_file, recapd, stdout};

#[test]
fn the_page_of_metrics_is_what_the_binary_prints() {
    let page = std::fs::read_to_string(package_file("docs/metrics.md")).unwrap();
    let printed = stdout(&recapd().args(["metrics", "list", "--markdown"]).output().unwrap());
    assert!(
        page == printed,
        "docs/metrics.md is old: run `recapd metrics list --markdown > docs/metrics.md`"
    );
}

#[test]
fn the_list_is_for_people_and_for_programs() {
    let text = stdout(&recapd().args(["metrics", "list"]).output().unwrap());
    assert!(
        text.contains(
            "recapd_updates_total (counter)\n  Updates ended.\n  outcome: completed, failed, superseded\n"
        ),
        "{text}"
    );
    let json = stdout(&recapd().args(["metrics", "list", "--json"]).output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(json.as_array().unwrap().iter().any(|metric| metric["name"] == "recapd_queue_depth"
        && metric["labels"][0]["values"] == serde_json::json!(["parked", "ready", "running", "scheduled"])));
}
