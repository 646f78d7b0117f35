//! `recapd project`, and `recapd summary --project`.

use super::{code, json, package_file, recapd, stderr, stdout};

#[test]
fn agents_share_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("project.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    // The whole example takes a debug build so long to compose that a busy machine exceeds a reader's two seconds.
    let example = std::fs::read_to_string(package_file("examples/two-weeks.jsonl")).unwrap();
    let begin: Vec<&str> = example.lines().take(200).collect();
    let replay = folder.path().join("begin.jsonl");
    std::fs::write(&replay, begin.join("\n")).unwrap();
    for agent in ["coder", "tester"] {
        let output = run(&["replay", "--budget", "20000", "--agent", agent, replay.to_str().unwrap()]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
    assert!(stdout(&run(&["project", "list"])).contains("no projects yet"));
    let unknown = run(&["summary", "--project", "ikigai"]);
    assert_eq!(code(&unknown), Some(3));
    assert!(stderr(&unknown).contains("recapd project join ikigai"), "{}", stderr(&unknown));

    let joined = run(&["project", "join", "ikigai", "coder", "tester"]);
    assert_eq!(stdout(&joined), "coder, tester joined ikigai\n", "{}", stderr(&joined));
    let listed = stdout(&run(&["project", "list"]));
    assert!(listed.contains("\nikigai        2  20"), "{listed}");
    let text = stdout(&run(&["summary", "--project", "ikigai"]));
    for words in ["## Yesterday", "### coder", "### tester", "of the agent above it"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let document = json(&run(&["summary", "--project", "ikigai", "--json"]));
    assert!(document["tokens"].as_i64().unwrap() <= 10_000);
    assert_eq!(document["members"][0]["shown_items"], document["members"][1]["shown_items"]);

    let wrong = run(&["project", "leave", "other", "coder"]);
    assert_eq!(code(&wrong), Some(3));
    assert!(stderr(&wrong).contains("(its project: ikigai); nothing was changed"), "{}", stderr(&wrong));
    assert_eq!(code(&run(&["project", "leave", "ikigai", "coder"])), Some(0));
    let text = stdout(&run(&["summary", "--project", "ikigai"]));
    assert!(!text.contains("### coder"), "{text}");
    assert_eq!(code(&run(&["summary", "coder", "--project", "ikigai"])), Some(2));
}
