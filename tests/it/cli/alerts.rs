use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn the_rules_are_printed_with_links_to_their_pages() {
    let run = |args: &[&str]| recapd().arg("alerts").args(args).output().unwrap();
    let shipped = std::fs::read_to_string(package_file("monitoring/alerts.yml")).unwrap();
    assert_eq!(stdout(&run(&[])), shipped);
    let linked = "runbook_url: https://docs.example.com/rb/Recapd";
    let expected = shipped.replace("runbook_url: docs/runbooks/Recapd", linked);
    for place in ["https://docs.example.com/rb", "https://docs.example.com/rb/"] {
        assert_eq!(stdout(&run(&["--runbooks", place])), expected);
    }
    for place in ["", "two words", "\"quoted\"", "[x]"] {
        let refused = run(&["--runbooks", place]);
        assert_eq!(code(&refused), Some(2), "{place}: {}", stderr(&refused));
    }
}

#[test]
fn programs_get_the_rules_one_by_one() {
    let output = recapd().args(["alerts", "--json", "--runbooks", "/srv/runbooks"]).output().unwrap();
    let rules = json(&output);
    let mut rules = rules.as_array().unwrap().iter();
    let down = rules.find(|rule| rule["alert"] == "RecapdDown").unwrap();
    for (name, value) in [
        ("group", "recapd.daemon"),
        ("expr", "up{job=\"recapd\"} == 0"),
        ("for", "5m"),
        ("severity", "critical"),
        ("runbook_url", "/srv/runbooks/RecapdDown.md"),
    ] {
        assert_eq!(down[name], value, "{down}");
    }
}
