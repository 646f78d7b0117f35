//! The pages of the documentation that the program generates.

use std::fs;

use super::{package_file, recapd, stdout};

/// Pages, and the commands that print them.
const PAGES: [(&str, &[&str]); 2] =
    [("docs/api.md", &["openapi", "--markdown"]), ("docs/config.md", &["config", "default", "--markdown"])];

#[test]
fn the_references_are_what_the_binary_prints() {
    for (page, command) in PAGES {
        let kept = fs::read_to_string(package_file(page)).unwrap_or_default();
        let printed = stdout(&recapd().args(command).output().unwrap());
        assert!(kept == printed, "{page} is old: run `recapd {} > {page}`", command.join(" "));
    }
}

#[test]
fn the_reference_of_the_interface_has_every_route_with_its_scope() {
    let page = stdout(&recapd().args(["openapi", "--markdown"]).output().unwrap());
    let document = stdout(&recapd().arg("openapi").output().unwrap());
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let route = format!("{} {path}", method.to_uppercase());
            assert!(page.contains(&format!("\n### {route}\n")), "{route}");
        }
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("\n### {name}\n")), "{name}");
    }
    assert!(page.contains(
        "| [POST /v1/agents/{id}/messages](#post-v1agentsidmessages) | write, agent | Stores messages"
    ));
    assert!(page.contains("| [GET /livez](#get-livez) | open |"));
    assert!(page.contains("- `wait` (query, string, such as `30s`): "));
}

#[test]
fn the_reference_of_the_configuration_marks_what_a_reload_applies() {
    let page = stdout(&recapd().args(["config", "default", "--markdown"]).output().unwrap());
    assert!(
        page.contains("\n## \\[worker\\]\n") && page.contains("| `concurrency` ↻ | `4` | The most updates")
    );
    assert!(page.contains("| `budget_tokens` | `100000` | "), "{page}");
}
