use super::{code, json, recapd, stderr, stdout};

#[test]
fn a_token_is_shown_once_listed_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("tokens.db");
    let run = |args: &[&str]| recapd().args(args).arg("--db").arg(&database).output().unwrap();
    assert_eq!(code(&run(&["token", "list"])), Some(69));
    assert_eq!(code(&run(&["migrate", "up"])), Some(0));
    let none = run(&["token", "list"]);
    assert!(stdout(&none).contains("no tokens yet"), "{}", stdout(&none));

    let made = run(&["token", "create", "coder", "--scope", "write", "--agent", "coder", "--expires", "30d"]);
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let token = stdout(&made).trim().to_owned();
    let secret = token.strip_prefix("rcp_").unwrap();
    assert_eq!(secret.len(), 64);
    let again = run(&["token", "create", "coder", "--scope", "read"]);
    assert_eq!(code(&again), Some(1));
    assert!(stderr(&again).contains("revoke it first"), "{}", stderr(&again));

    let listed = run(&["token", "list", "--json"]);
    assert!(!stdout(&listed).contains(secret));
    let listed = json(&listed)["tokens"].take();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["scope"], &listed[0]["agents"][0]),
        (&"valid".into(), &"write".into(), &"coder".into())
    );
    let table = stdout(&run(&["token", "list"]));
    assert!(table.contains("\ncoder  valid  write  coder  20"), "{table}");

    assert_eq!(code(&run(&["token", "revoke", "coder"])), Some(0));
    assert_eq!(code(&run(&["token", "revoke", "nobody"])), Some(3));
    assert_eq!(json(&run(&["token", "list", "--json"]))["tokens"][0]["state"], "revoked");
    let file = std::fs::read(&database).unwrap();
    assert!(!file.windows(64).any(|bytes| bytes == secret.as_bytes()));
}

#[test]
fn beyond_loopback_tokens_are_required() {
    let folder = tempfile::tempdir().unwrap();
    let output = recapd()
        .args(["serve", "--listen", "0.0.0.0:0", "--db"])
        .arg(folder.path().join("open.db"))
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(78), "{}", stderr(&output));
    for words in ["http.listen", "recapd token create"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn token_refuses_a_server_and_a_malformed_token_is_not_printed() {
    let over = recapd().args(["token", "list", "--server", "http://127.0.0.1:9"]).output().unwrap();
    assert_eq!(code(&over), Some(2), "{}", stderr(&over));
    let empty = recapd()
        .args(["status", "--server", "http://127.0.0.1:9"])
        .env("RECAPD_TOKEN", "two words")
        .output()
        .unwrap();
    assert_eq!(code(&empty), Some(2));
    assert!(stderr(&empty).contains("RECAPD_TOKEN"), "{}", stderr(&empty));
    assert!(!stderr(&empty).contains("two words"));
}
