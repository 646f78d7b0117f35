//! `recapd export` and `recapd import`

use std::path::Path;

use recapd_store::{SqlStore, Store as _, sqlite::SqliteSettings};

use super::{code, json, package_file, recapd, replay_example, stderr, stdout};
use crate::support::{
    backend::sqlite_settings,
    conversation::{T0, agent},
};

fn run(args: &[&str], database: &Path) -> std::process::Output {
    recapd().args(args).arg("--db").arg(database).output().unwrap()
}

fn fork(database: &Path, parent: &str, child: &str) {
    let settings = SqliteSettings {
        url: format!("sqlite:{}", database.display()),
        ..sqlite_settings(&tempfile::tempdir().unwrap())
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SqlStore::open(&settings.clone().into()).await.unwrap();
        store.fork(&agent(parent), &agent(child), T0).await.unwrap();
        store.close().await;
    });
}

#[test]
fn an_agent_moves_to_another_database() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one.db"), folder.path().join("other.db"));
    replay_example("two-weeks", &one);
    let example = std::fs::read_to_string(package_file("examples/two-weeks.jsonl")).unwrap();
    let messages = i64::try_from(example.lines().count()).unwrap();
    let journal = folder.path().join("journal.jsonl");
    let journal = journal.to_str().unwrap();
    let exported = run(&["export", "-o", journal, "--json"], &one);
    assert_eq!(json(&exported)["messages"], messages, "{}", stderr(&exported));

    let rehearsed = run(&["import", journal, "--dry-run", "--json"], &other);
    assert_eq!(json(&rehearsed)["accepted"], messages);
    assert!(!other.exists(), "a dry run makes no database");
    for (accepted, duplicates) in [(messages, 0), (0, messages)] {
        let imported = run(&["import", journal, "--json"], &other);
        assert_eq!(code(&imported), Some(0), "{}", stderr(&imported));
        assert_eq!(json(&imported)["accepted"], accepted);
        assert_eq!(json(&imported)["duplicates"], duplicates);
        assert_eq!(json(&imported)["refused"], 0);
    }
    let again = run(&["export", "two-weeks"], &other);
    assert_eq!(stdout(&again), std::fs::read_to_string(journal).unwrap());
    let verified = run(&["verify"], &other);
    assert_eq!(code(&verified), Some(0), "{}", stdout(&verified));
}

#[test]
fn an_export_replaces_files_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("one.db");
    replay_example("two-weeks", &database);
    let whole = stdout(&run(&["export"], &database));
    let named = |name: &str| folder.path().join(name);
    let export = |to: &Path| {
        let exported = run(&["export", "-o", to.to_str().unwrap()], &database);
        assert_eq!(code(&exported), Some(0), "{}", stderr(&exported));
    };

    let dash = recapd()
        .args(["export", "-o", "-", "--db"])
        .arg(&database)
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(stdout(&dash), whole);
    assert!(!named("-").exists());

    std::fs::write(named("file"), "old").unwrap();
    std::os::unix::fs::symlink(named("file"), named("link")).unwrap();
    export(&named("link"));
    assert!(named("link").is_symlink());
    assert_eq!(std::fs::read_to_string(named("file")).unwrap(), whole);

    let pipe = named("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let from = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(from).unwrap());
    export(&pipe);
    assert_eq!(reader.join().unwrap(), whole);
    assert!(!pipe.is_file(), "it is a pipe still");
}

#[test]
fn an_export_of_a_fork_includes_its_ancestors() {
    let folder = tempfile::tempdir().unwrap();
    let (database, other) = (folder.path().join("one.db"), folder.path().join("other.db"));
    replay_example("two-weeks", &database);
    fork(&database, "two-weeks", "a");
    let child = run(&["export", "a"], &database);
    assert_eq!(code(&child), Some(0), "{}", stderr(&child));
    // Exporting all agents gives the same two, each once, the parent first.
    assert_eq!(stdout(&run(&["export"], &database)), stdout(&child));
    assert_eq!(stdout(&run(&["export", "two-weeks", "a"], &database)), stdout(&child));
    let (parent, rest): (Vec<String>, Vec<String>) = stdout(&child)
        .lines()
        .map(|line| format!("{line}\n"))
        .partition(|line| line.contains("\"agent_id\":\"two-weeks\""));
    // The same in separate files, in any order.
    let files = ["a.jsonl", "z.jsonl"].map(|name| folder.path().join(name));
    std::fs::write(&files[0], rest.concat()).unwrap();
    std::fs::write(&files[1], parent.concat()).unwrap();
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    for dry in [true, false] {
        let mut arguments = vec!["import", files[0], files[1]];
        arguments.extend(dry.then_some("--dry-run"));
        let imported = run(&arguments, &other);
        assert_eq!(code(&imported), Some(0), "{}", stderr(&imported));
    }
    assert_eq!(stdout(&run(&["export"], &other)), stdout(&child));
    assert_eq!(code(&run(&["verify"], &other)), Some(0));
}

/// Exports an agent with two weeks of history, as lines.
fn two_weeks(folder: &Path) -> Vec<String> {
    let database = folder.join("two-weeks.db");
    replay_example("two-weeks", &database);
    let exported = stdout(&run(&["export"], &database));
    exported.lines().map(|line| format!("{line}\n")).collect()
}

#[test]
fn pieces_of_a_journal_are_put_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let lines = two_weeks(folder.path());
    let piece_lines = lines.len().div_ceil(3);
    let [messages, known] = [lines.len(), piece_lines].map(|lines| i64::try_from(lines).unwrap() - 1);
    let files = ["c", "b", "a"].map(|name| folder.path().join(format!("{name}.jsonl")));
    for (file, piece) in files.iter().zip(lines.chunks(piece_lines)) {
        std::fs::write(file, piece.concat()).unwrap();
    }
    let [first, second, third] = files.each_ref().map(|file| file.to_str().unwrap());
    let figures = |args: &[&str]| {
        let report = json(&run(args, &database));
        ["agents", "accepted", "duplicates", "refused"].map(|name| report[name].as_i64().unwrap())
    };
    let all = ["import", third, second, first, "--json"];
    let rehearsal = [&all[..], &["--dry-run"]].concat();
    assert_eq!(figures(&rehearsal), [1, messages, 0, 0]);
    assert_eq!(figures(&["import", first, "--json"]), [1, known, 0, 0]);
    let alone = run(&["import", first, "--json"], &database);
    assert_eq!(json(&alone)["unfinished"], serde_json::json!(["two-weeks"]));
    assert!(stderr(&alone).contains("agent `two-weeks`: its window, evictions"), "{}", stderr(&alone));
    let rest = [1, messages - known, known, 0];
    assert_eq!(figures(&rehearsal), rest);
    assert_eq!(figures(&all), rest);
    assert_eq!(stdout(&run(&["export"], &database)), lines.concat());
    let whole = json(&run(&all, &database));
    assert_eq!(whole["unfinished"], serde_json::json!([]));
    // A piece without its predecessor says what it lacks, even if it was cut within a line.
    let torn = folder.path().join("torn.jsonl");
    let text = std::fs::read_to_string(third).unwrap();
    std::fs::write(&torn, text.split_at(10).1).unwrap();
    for file in [third, torn.to_str().unwrap()] {
        let alone = run(&["import", file], &folder.path().join("other.db"));
        assert_eq!(code(&alone), Some(1), "{}", stdout(&alone));
        let wanted = "comes where message 1 should; import what comes before it first";
        assert!(stderr(&alone).contains(file) && stderr(&alone).contains(wanted), "{}", stderr(&alone));
    }
}

#[test]
fn pieces_imported_separately_are_complete_after_a_joint_import() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let lines = two_weeks(folder.path());
    let files = ["a", "b"].map(|name| folder.path().join(format!("{name}.jsonl")));
    for (file, piece) in files.iter().zip(lines.chunks(lines.len().div_ceil(2))) {
        std::fs::write(file, piece.concat()).unwrap();
    }
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    for file in files {
        let apart = run(&["import", file, "--json"], &database);
        assert_eq!(json(&apart)["unfinished"], serde_json::json!(["two-weeks"]));
    }
    let unset = stdout(&run(&["export"], &database));
    assert_ne!(unset, lines.concat());
    let alone = run(&["import", files[0]], &database);
    let cure = "import all pieces of the journal together; if you did, use a fresh database";
    assert!(stderr(&alone).contains(cure), "{}", stderr(&alone));
    assert_eq!(stdout(&run(&["export"], &database)), unset);
    let whole = run(&["import", files[0], files[1], "--json"], &database);
    assert_eq!(code(&whole), Some(0), "{}", stderr(&whole));
    assert_eq!(json(&whole)["accepted"], 0);
    assert_eq!(json(&whole)["unfinished"], serde_json::json!([]));
    assert_eq!(stdout(&run(&["export"], &database)), lines.concat());
    assert_eq!(code(&run(&["verify"], &database)), Some(0));
}

#[test]
fn a_journal_of_a_newer_recapd_is_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = two_weeks(folder.path());
    lines[0] = lines[0].replace("\"journal\":1", "\"journal\":2");
    let file = folder.path().join("newer.jsonl");
    std::fs::write(&file, lines.concat()).unwrap();
    let output = run(&["import", file.to_str().unwrap(), "--json"], &folder.path().join("new.db"));
    assert_eq!(code(&output), Some(1));
    assert_eq!((&json(&output)["accepted"], &json(&output)["refused"]), (&0.into(), &1.into()));
    for wanted in ["newer.jsonl, line 1", "version 2", "reads version 1, use the newer"] {
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
}

#[test]
fn missing_agents_and_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("kept.db");
    let missing = run(&["export"], &database);
    assert_eq!(code(&missing), Some(69));
    let no_file = run(&["import", "nowhere.jsonl"], &database);
    assert_eq!(code(&no_file), Some(2));
    assert!(stderr(&no_file).contains("nowhere.jsonl"));
    let nothing = package_file("tests/fixtures/unknown_format.jsonl");
    let no_journal = run(&["import", nothing.to_str().unwrap()], &database);
    assert_eq!(code(&no_journal), Some(1), "{}", stdout(&no_journal));
    assert!(stderr(&no_journal).contains("unknown_format.jsonl"), "{}", stderr(&no_journal));
    let unknown = run(&["export", "nobody"], &database);
    assert_eq!(code(&unknown), Some(3), "{}", stderr(&unknown));
}

#[test]
fn messages_that_share_an_id_are_imported_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let line =
        |id: u32, content: &str| format!("{{\"id\":\"{id}\",\"kind\":\"user\",\"content\":\"{content}\"}}\n");
    let files = [
        ("a.jsonl", [line(1, "one"), line(1, "another"), line(2, "two")].concat()),
        ("b.jsonl", [line(1, "un"), line(2, "deux")].concat()),
    ]
    .map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    for (accepted, duplicates) in [(5, 0), (0, 5)] {
        let arguments = ["import", files[0], files[1], "--agent", "x", "--json"];
        let imported = json(&run(&arguments, &database));
        assert_eq!(
            (&imported["accepted"], &imported["duplicates"]),
            (&accepted.into(), &duplicates.into()),
            "{imported}"
        );
    }
    assert_eq!(code(&run(&["verify"], &database)), Some(0));
}

#[test]
fn conversations_are_imported_once_however_often() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let sessions = folder.path().join("sessions");
    std::fs::create_dir_all(&sessions).unwrap();
    for name in ["claude_code.jsonl", "openai.jsonl", "codex.jsonl"] {
        std::fs::copy(package_file("tests/fixtures").join(name), sessions.join(name)).unwrap();
    }
    let sessions = sessions.to_str().unwrap();
    let rehearsed = json(&run(&["import", sessions, "--dry-run", "--json"], &database));
    assert!(!database.exists());
    let first = json(&run(&["import", sessions, "--json"], &database));
    assert_eq!(first["accepted"], rehearsed["accepted"]);
    assert_eq!((&first["duplicates"], &first["refused"]), (&0.into(), &0.into()));
    let again = json(&run(&["import", sessions, "--json"], &database));
    assert_eq!((&again["accepted"], &again["duplicates"]), (&0.into(), &first["accepted"]));
    assert_eq!(code(&run(&["verify"], &database)), Some(0));
    // An unreadable line is named, and fails an import only if it is strict or nothing was read.
    let broken = package_file("tests/fixtures/bad_lines.jsonl");
    let broken = broken.to_str().unwrap();
    let output = run(&["import", broken, "--agent", "broken"], &database);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("bad_lines.jsonl:3: "), "{}", stderr(&output));
    assert!(stdout(&output).contains(" 9 skipped"), "{}", stdout(&output));
    let strict = ["import", broken, "--agent", "broken", "--strict"];
    assert_eq!(code(&run(&strict, &database)), Some(1));
    let moved = run(&["export"], &database);
    let file = folder.path().join("export.jsonl");
    std::fs::write(&file, stdout(&moved)).unwrap();
    let other = folder.path().join("other.db");
    let output = run(&["import", file.to_str().unwrap()], &other);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&run(&["export"], &other)), stdout(&moved));
}

/// A chat of two messages; all have the same beginning.
fn chat(answer: &str) -> String {
    format!(
        "{{\"role\":\"user\",\"content\":\"Fix the parser\"}}\n{{\"role\":\"assistant\",\"content\":\"{answer}\"}}\n"
    )
}

#[test]
fn different_conversations_are_different_agents() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let chats = folder.path().join("chats");
    for (file, text) in [
        ("会话一.jsonl", chat("First")),
        ("会话二.jsonl", chat("Second")),
        ("runA/x.traj.json", chat("Run A")),
        ("runB/x.traj.json", chat("Run B")),
        (
            "several.json",
            r#"[{"id":"会议纪要","messages":[{"role":"user","content":"Hi"}]},
                {"id":"项目讨论","messages":[{"role":"user","content":"Hi"}]}]"#
                .to_owned(),
        ),
    ] {
        let file = chats.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    let chats = chats.to_str().unwrap();
    let imported = json(&run(&["import", chats, "--json"], &database));
    assert_eq!(
        (&imported["agents"], &imported["accepted"], &imported["duplicates"]),
        (&6.into(), &10.into(), &0.into())
    );
    for (agent, answer) in [("runA-x.traj", "Run A"), ("runB-x.traj", "Run B")] {
        let exported = run(&["export", agent], &database);
        assert!(stdout(&exported).contains(answer), "{}", stderr(&exported));
    }
    let again = json(&run(&["import", chats, "--json"], &database));
    assert_eq!((&again["accepted"], &again["duplicates"]), (&0.into(), &10.into()));
    let replayed = json(&recapd().args(["replay", chats, "--json"]).output().unwrap());
    assert_eq!(replayed["agents"].as_array().unwrap().len(), 6);
}

#[test]
fn an_unreadable_time_is_reported_and_the_message_imported() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = folder.path().join("chat.jsonl");
    let lines = ["2026-03-02T08:00:00Z", "yesterday", "at noon"].map(|at| {
        let line = serde_json::json!({"role": "user", "content": "Hi", "timestamp": at});
        format!("{line}\n")
    });
    std::fs::write(&file, lines.concat()).unwrap();
    let file = file.to_str().unwrap();
    let told = run(&["import", file, "--dry-run"], &database);
    let count = "3 messages would be stored, 0 already stored, 0 skipped, 2 with a time that can't be read";
    assert!(stdout(&told).contains(count), "{}", stdout(&told));
    assert!(stderr(&told).contains("chat.jsonl:2: the time"), "{}", stderr(&told));
    let imported = json(&run(&["import", file, "--strict", "--json"], &database));
    assert_eq!((&imported["accepted"], &imported["unread_times"]), (&3.into(), &2.into()));
    let first = imported["first_unread_time"].as_str().unwrap();
    assert!(first.ends_with("chat.jsonl:2"), "{first}");
    let exported = stdout(&run(&["export"], &database));
    let said = "\"said_at\":\"2026-03-02T08:00:00Z\"";
    assert_eq!(exported.matches(said).count(), 3, "{exported}");
}

/// Like a replay; the messages are stored all the same.
#[test]
fn an_import_with_few_messages_for_a_model_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = folder.path().join("talk.jsonl");
    let said = (0..30).map(|number| format!("{{\"role\":\"human\",\"content\":\"Row {number}\"}}\n"));
    std::fs::write(&file, said.collect::<String>()).unwrap();
    let file = file.to_str().unwrap();
    let dry = json(&run(&["import", file, "--dry-run", "--json"], &database));
    assert_eq!(dry["unshown"]["nearly_all"], true, "{dry}");
    let told = run(&["import", file], &database);
    assert_eq!(code(&told), Some(1), "{}", stderr(&told));
    insta::assert_snapshot!(stdout(&told), @r"
    1 agent: 3 messages stored, 0 already stored, 27 skipped
    3 of 3 messages are of kinds that no model gets: human (3); if this is a conversation, name its format with --format, or give its messages the roles user, assistant, system, developer or tool
    ");
    let exported = stdout(&run(&["export"], &database));
    assert_eq!(exported.matches("Row ").count(), 3, "{exported}");
}

#[test]
fn turns_that_were_taken_back_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = folder.path().join("session.jsonl");
    let lines = [
        ("user", "u1", None, "Hi"),
        ("assistant", "a1", Some("u1"), "Hello"),
        ("user", "u2", Some("a1"), "Use tabs"),
        ("assistant", "a2", Some("u2"), "Tabs it is"),
        ("user", "u3", Some("a1"), "Use spaces"),
    ]
    .map(|(role, uuid, parent, content)| {
        let line = serde_json::json!({
            "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": "2026-03-02T10:00:00Z",
            "message": { "role": role, "content": content },
        });
        format!("{line}\n")
    });
    std::fs::write(&file, lines.concat()).unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["import", file, "--json"], &database);
    let told = stderr(&output);
    assert!(told.contains("left out 2 messages of prompts"), "{told}");
    let imported = json(&output);
    assert_eq!((&imported["accepted"], &imported["undone"]), (&3.into(), &2.into()));
    let exported = stdout(&run(&["export"], &database));
    assert!(exported.contains("Use spaces") && !exported.contains("Use tabs"), "{exported}");
    let replayed = json(&recapd().args(["replay", file, "--json"]).output().unwrap());
    assert_eq!(replayed["messages"], 3);
}

#[test]
fn an_import_of_nothing_fails() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let empty = folder.path().join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    let output = run(&["import", empty.to_str().unwrap()], &database);
    assert_eq!(code(&output), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("nothing was read"), "{}", stderr(&output));
    let file = folder.path().join("chat.jsonl");
    std::fs::write(&file, chat("Done")).unwrap();
    for _ in 0..2 {
        let output = run(&["import", file.to_str().unwrap(), "--strict"], &database);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    }
}

#[test]
fn one_agent_gets_no_messages_of_sub_agents() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = package_file("tests/fixtures/claude_code.jsonl");
    let file = file.to_str().unwrap();
    let whole = json(&run(&["import", file, "--dry-run", "--json"], &database));
    let output = run(&["import", file, "--agent", "main", "--json"], &database);
    let imported = json(&output);
    assert_eq!(imported["agents"], 1);
    assert_eq!(imported["accepted"].as_i64().unwrap(), whole["accepted"].as_i64().unwrap() - 2);
    assert!(stderr(&output).contains("left out 2 messages of sub-agents"), "{}", stderr(&output));
    let replayed = recapd().args(["replay", file, "--agent", "main", "--json"]).output();
    let replayed = replayed.unwrap();
    assert_eq!(json(&replayed)["messages"], imported["accepted"]);
    assert!(stderr(&replayed).contains("left out 2 messages of sub-agents"), "{}", stderr(&replayed));
    // The transcript of a sub-agent has only such lines.
    let side: String = std::fs::read_to_string(file)
        .unwrap()
        .split_inclusive('\n')
        .filter(|line| line.contains(r#""isSidechain": true"#))
        .collect();
    let own = folder.path().join("agent-b7.jsonl");
    std::fs::write(&own, side).unwrap();
    let own = run(&["import", own.to_str().unwrap(), "--agent", "side", "--json"], &database);
    assert_eq!(json(&own)["accepted"], 2, "{}", stderr(&own));
    assert!(!stderr(&own).contains("left out"), "{}", stderr(&own));
}

#[test]
fn a_dry_run_counts_what_is_stored_already() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = folder.path().join("chat.jsonl");
    std::fs::write(&file, chat("Done")).unwrap();
    let file_name = file.to_str().unwrap();
    let figures = |args: &[&str]| {
        let report = json(&run(args, &database));
        ["accepted", "duplicates"].map(|name| report[name].as_i64().unwrap())
    };
    let rehearsal = ["import", file_name, "--dry-run", "--json"];
    assert_eq!(figures(&rehearsal), [2, 0]);
    assert_eq!(figures(&["import", file_name, "--json"]), [2, 0]);
    assert_eq!(figures(&rehearsal), [0, 2]);
    let more = "{\"role\":\"user\",\"content\":\"Thanks\"}\n";
    std::fs::write(&file, chat("Done") + more).unwrap();
    assert_eq!(figures(&rehearsal), [1, 2]);
    assert_eq!(figures(&["import", file_name, "--json"]), [1, 2]);
}

#[test]
fn a_prompt_without_a_word_is_left_out_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("imported.db");
    let file = folder.path().join("session.jsonl");
    let lines = [("user", "u1", None, "Hi"), ("user", "u2", Some("u1"), " ")].map(
        |(role, uuid, parent, content)| {
            let line = serde_json::json!({
                "type": role, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "timestamp": "2026-03-02T10:00:00Z",
                "message": { "role": role, "content": content },
            });
            format!("{line}\n")
        },
    );
    std::fs::write(&file, lines.concat()).unwrap();
    let output = run(&["import", file.to_str().unwrap(), "--json"], &database);
    let told = stderr(&output);
    assert!(told.contains("session.jsonl: left out 1 prompt without a word"), "{told}");
    let imported = json(&output);
    assert_eq!((&imported["accepted"], &imported["refused"]), (&1.into(), &0.into()));
}
