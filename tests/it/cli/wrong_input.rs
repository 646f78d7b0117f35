//! Wrong input: each error names the thing, the reason and the cure.

use std::{net::TcpListener, path::Path};

use super::{code, recapd, stderr, stdout};

struct WrongInput {
    /// The arguments, divided by blanks. BUSY is an address where somebody listens.
    args: &'static str,
    code: i32,
    /// The thing, the reason and the cure, as far as words show them.
    words: [&'static str; 3],
}

const fn wrong(args: &'static str, code: i32, words: [&'static str; 3]) -> WrongInput {
    WrongInput { args, code, words }
}

const TABLE: &[WrongInput] = &[
    // A database that can't be one.
    wrong("summary me --db none.db", 69, ["none.db", "there is no database", "`recapd serve`"]),
    wrong("summary me", 69, ["state/recapd/recapd.db", "there is no database", "--db"]),
    wrong("summary me --db notes.txt", 69, ["notes.txt", "isn't an SQLite database", "--db"]),
    wrong("history me --db folder", 69, ["folder", "is a folder", "--db"]),
    wrong("status --db none/x.db", 69, ["none/x.db", "the folder none", "create it"]),
    wrong(
        "status --db mysql://me@host/x",
        78,
        ["--db: database.url", "no other database", "postgres://USER@HOST/DATABASE"],
    ),
    wrong(
        "status --db postgres://me:secret@host/x",
        78,
        ["--db: database.url", "must not hold a password", "PGPASSFILE"],
    ),
    wrong(
        "status --db postgres://me@127.0.0.1:1/x",
        69,
        ["postgres://me@127.0.0.1:1/x", "refused", "is the server running there"],
    ),
    // An agent, or something of it, that isn't there.
    wrong("summary nobody --db work.db", 3, ["`nobody`", "is unknown", "`recapd agents`"]),
    wrong("export nobody --db work.db", 3, ["`nobody`", "is unknown", "`recapd agents`"]),
    wrong("project join web nobody --db work.db", 3, ["`nobody`", "is unknown", "`recapd agents`"]),
    wrong("versions me 9 --db work.db", 3, ["version 9", "there is no", "`recapd versions"]),
    wrong("rollback me 5 --db work.db", 3, ["version 5", "there is no", "`recapd versions"]),
    wrong("expand me 99 --db work.db", 3, ["#99", "has no exchange", "`recapd history"]),
    wrong("expand me x --db work.db", 2, ["`x`", "names no exchange", "'#38'"]),
    wrong("rewind me start --db work.db", 3, ["`start`", "there is no mark", "`recapd mark"]),
    wrong("pin me 99 --db work.db", 3, ["message 99", "there is no", "`recapd window"]),
    wrong("fork me me --db work.db", 1, ["`me`", "exists already", "choose another id"]),
    wrong("forget me --db work.db", 2, ["exchanges", "name", "--all"]),
    wrong("forget me --all --db work.db", 2, ["--yes <AGENT>", "not provided", "--help"]),
    wrong(
        "agents set me budget_tokens=abc --db work.db",
        2,
        ["`budget_tokens`", "must be an integer", "0 never evicts"],
    ),
    wrong("agents set me colour=1 --db work.db", 2, ["`colour`", "is unknown", "did you mean"]),
    // Files.
    wrong("replay none.jsonl", 2, ["none.jsonl", "does not exist", "check the path"]),
    wrong("replay notes.txt", 1, ["notes.txt", "can't tell the format", "--format"]),
    wrong("replay wizard.jsonl", 1, ["wizard (1)", "no model gets", "roles user, assistant"]),
    wrong("replay chat.jsonl --format opanai", 2, ["'opanai'", "invalid value", "'openai'"]),
    wrong("replay chat.jsonl --budget many", 2, ["'many'", "a whole number of tokens", "8000"]),
    wrong("replay chat.jsonl --budget -5", 2, ["'-5'", "a whole number of tokens", "0 evicts nothing"]),
    wrong("push me none.jsonl --db work.db", 2, ["none.jsonl", "No such file", "check the path"]),
    wrong("push me wizard.jsonl --db work.db", 1, ["`wizard`", "is unknown", "give one of user"]),
    wrong(
        "push a/b chat.jsonl --db work.db",
        2,
        ["`a/b`", "must be 1 to 128 characters", "begin with a letter"],
    ),
    wrong("count none.json", 2, ["none.json", "No such file", "check the path"]),
    wrong("backup none/x.db --db work.db", 1, ["none/x.db", "No such file", "check the path"]),
    wrong("restore none.db --db other.db", 1, ["none.db", "not found", "check the path"]),
    wrong("init none/x.toml", 2, ["none/x.toml", "No such file", "create its folder"]),
    // The daemon, and where it listens.
    wrong(
        "status --server nonsense",
        2,
        ["`nonsense`", "isn't the address of a daemon", "http://127.0.0.1:7411"],
    ),
    wrong(
        "status --server http://127.0.0.1:1",
        69,
        ["http://127.0.0.1:1", "nobody listens", "without --server"],
    ),
    wrong("health", 69, ["http://127.0.0.1:1", "no daemon answers", "`recapd serve`"]),
    wrong("serve --db notes.txt", 69, ["notes.txt", "isn't an SQLite database", "--db"]),
    wrong("serve --db none/x.db", 69, ["none/x.db", "the folder none", "create it"]),
    wrong(
        "serve --db new.db --listen 7500",
        78,
        ["--listen: http.listen", "`7500` is not an address", "127.0.0.1:7411"],
    ),
    wrong("serve --db new.db --listen BUSY", 1, ["can't listen on 127.0.0.1", "in use", "--listen"]),
    wrong(
        "serve --db new.db --listen 0.0.0.0:7500",
        78,
        ["0.0.0.0:7500", "other machines can reach", "`recapd token create"],
    ),
    wrong("serve --demo --db new.db", 2, ["a demonstration", "database of its own", "leave out --db"]),
    wrong("run no-such-program", 69, ["no-such-program", "No such file", "is it on PATH?"]),
    // The configuration and the command line.
    wrong("status --config none.toml", 78, ["none.toml", "No such file", "`recapd init FILE`"]),
    wrong("status --config notes.txt", 78, ["notes.txt:1", "not TOML", "expected `=`"]),
    wrong("status --set window.budget=5", 78, ["window.budget", "unknown key", "window.budget_tokens?"]),
    wrong("status --set budget", 78, ["--set", "expected section.key=value", "window.budget_tokens=50000"]),
    wrong(
        "status --set window.budget_tokens=abc",
        78,
        ["window.budget_tokens", "must be an integer", "not `abc`"],
    ),
    wrong("status --set queue.debounce_ms=15x", 78, ["queue.debounce_ms", "not `15x`", "such as 15m"]),
    wrong("status --set window.preset=ikigay", 78, ["window.preset", "`ikigay`", "`request-limit`"]),
    wrong("token create ci --scope all", 2, ["'all'", "invalid value", "read, write, admin"]),
    wrong(
        "status --set summary.merge_below=1",
        78,
        ["summary.merge_below", "no longer a key: items take", "remove it"],
    ),
    wrong("runs --since soon --db work.db", 2, ["'soon'", "expected a time", "12h or 7d"]),
    wrong("pins me --cursor 9 --db work.db", 2, ["--cursor", "no row `9`", "begin with the first row"]),
    wrong("sumary me", 2, ["'sumary'", "unrecognized", "'summary'"]),
];

fn run(folder: &Path, args: &str) -> std::process::Output {
    let mut command = recapd();
    command.current_dir(folder).env("HOME", folder).env("RECAPD__HTTP__LISTEN", "127.0.0.1:1");
    command.args(args.split(' ')).output().unwrap()
}

#[test]
fn each_error_names_the_thing_the_reason_and_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let user = |role: &str| format!("{{\"role\":\"{role}\",\"content\":\"hi\"}}\n");
    std::fs::write(folder.join("chat.jsonl"), user("user")).unwrap();
    std::fs::write(folder.join("wizard.jsonl"), user("wizard")).unwrap();
    std::fs::write(folder.join("notes.txt"), "hello\n").unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    let stored = run(folder, "push me chat.jsonl --db work.db");
    assert_eq!(code(&stored), Some(0), "{}", stderr(&stored));
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().map(|address| (busy, address.to_string())).unwrap();
    assert!(TABLE.len() >= 40, "{}", TABLE.len());
    let mut faults = Vec::new();
    for WrongInput { args, code: expected, words } in TABLE {
        let output = run(folder, &args.replace("BUSY", &busy.1));
        let told = format!("{}{}", stdout(&output), stderr(&output));
        let missing: Vec<_> = words.iter().filter(|words| !told.contains(**words)).collect();
        let advises_itself = args.starts_with("serve") && told.contains("`recapd serve`");
        if code(&output) != Some(*expected) || !missing.is_empty() || advises_itself {
            faults.push(format!("recapd {args}: {:?}, without {missing:?}\n{told}", code(&output)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
