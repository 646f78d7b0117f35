//! A daemon on a Unix socket, with tokens from a file; commands and hooks connect there.

use std::{
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use tokio::time::Instant;

use super::{code, json, recapd, stderr, stdout};
use crate::support::PATIENCE;

/// A daemon on a socket in its folder.
struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Daemon {
    fn start(tokens: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_recapd"));
        command.env_clear();
        if let Some(tokens) = tokens {
            let file = folder.path().join("tokens");
            std::fs::write(&file, tokens).unwrap();
            command.args(["--set", &format!("http.tokens_file={}", file.display())]);
        }
        let socket = folder.path().join("recapd.sock");
        // Left by a killed daemon.
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        // A process that another test is just starting inherits the listener until it executes its program.
        until("nobody answers", || UnixStream::connect(&socket).is_err());
        command.args(["serve", "--listen", &format!("unix:{}", socket.display()), "--db"]);
        command.arg(folder.path().join("socket.db"));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stderr(Stdio::from(log)).spawn().unwrap();
        let daemon = Self { child, folder };
        until("it answers", || UnixStream::connect(daemon.socket()).is_ok());
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("recapd.sock")
    }

    fn server(&self) -> String {
        format!("unix:{}", self.socket().display())
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_daemon_on_a_socket_answers_commands() {
    let daemon = Daemon::start(None);
    until("its mode is as configured", || {
        let file = std::fs::metadata(daemon.socket()).unwrap();
        file.permissions().mode() & 0o777 == 0o660
    });
    let status = recapd().args(["status", "--json", "--server", &daemon.server()]).output().unwrap();
    assert_eq!(code(&status), Some(0), "{}", stderr(&status));
    assert_eq!(json(&status)["agents"], 0);

    let transcript = daemon.folder.path().join("session.jsonl");
    let line = r#"{"type":"user","uuid":"u1","sessionId":"s","timestamp":"2026-11-20T08:00:00Z","message":{"role":"user","content":"Fix it"}}"#;
    std::fs::write(&transcript, format!("{line}\n")).unwrap();
    let input = serde_json::json!({
        "session_id": "s", "hook_event_name": "Stop", "cwd": "/", "transcript_path": transcript,
    });
    let fire = || {
        let hook = recapd()
            .args(["hook", "Stop", "--agent", "coder", "--server", &daemon.server()])
            .env("XDG_STATE_HOME", daemon.folder.path())
            .write_stdin(input.to_string())
            .output()
            .unwrap();
        assert_eq!(code(&hook), Some(0));
    };
    // A hook has little time; what it can't send, the next one does.
    until("the transcript is there", || {
        fire();
        let history =
            recapd().args(["history", "coder", "--json", "--server", &daemon.server()]).output().unwrap();
        stdout(&history).contains("Fix it")
    });

    let away = format!("unix:{}", daemon.folder.path().join("nowhere.sock").display());
    let output = recapd().args(["status", "--server", &away]).output().unwrap();
    assert_eq!(code(&output), Some(69));
    assert!(stderr(&output).contains(&away), "{}", stderr(&output));
}

/// Starts a daemon at an address, with a runtime folder.
fn beside(folder: &Path, port: u16) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_recapd"))
        .env_clear()
        .env("XDG_RUNTIME_DIR", folder)
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--db"])
        .arg(folder.join("beside.db"))
        .stderr(Stdio::from(log))
        .spawn()
        .unwrap()
}

#[test]
fn a_daemon_at_an_address_also_has_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let socket = folder.path().join(format!("recapd/{port}.sock"));
    let doctor = || {
        let output = recapd()
            .args(["doctor", "--json", "--set", &format!("http.listen=127.0.0.1:{port}")])
            .env("XDG_RUNTIME_DIR", folder.path())
            .output()
            .unwrap();
        stdout(&output)
    };
    let (at_socket, at_address) =
        (format!("ready at unix:{}", socket.display()), format!("ready at http://127.0.0.1:{port}"));
    let mut daemon = beside(folder.path(), port);
    until("it is ready at its socket", || doctor().contains(&at_socket));
    let mode = std::fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    std::fs::remove_file(&socket).unwrap();
    assert!(doctor().contains(&at_address));
    daemon.kill().unwrap();
    daemon.wait().unwrap();

    // The socket of a killed daemon is replaced; a file that is no socket only prevents the socket.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let mut daemon = beside(folder.path(), port);
    until("the next one is, too", || doctor().contains(&at_socket));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "mine").unwrap();
    let mut daemon = beside(folder.path(), port);
    until("it is ready at its address", || doctor().contains(&at_address));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "mine");
}

#[test]
fn an_address_in_use_is_left_alone() {
    let daemon = Daemon::start(None);
    let other = recapd()
        .args(["serve", "--listen", &daemon.server(), "--db"])
        .arg(daemon.folder.path().join("other.db"))
        .output()
        .unwrap();
    assert_eq!(code(&other), Some(1), "{}", stderr(&other));
    assert!(stderr(&other).contains("is another recapd running?"), "{}", stderr(&other));
    assert!(UnixStream::connect(daemon.socket()).is_ok());
}

/// Two daemons may run here, and following the wrong address would change the other one's agents.
#[test]
fn a_database_in_use_names_the_daemons_address() {
    let daemon = Daemon::start(None);
    for (listen, base) in [
        (daemon.server(), daemon.server()),
        ("127.0.0.1:17471".to_owned(), "http://127.0.0.1:17471".to_owned()),
    ] {
        let output = recapd()
            .args(["clear", "coder", "--set", &format!("http.listen={listen}"), "--db"])
            .arg(daemon.folder.path().join("socket.db"))
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(69), "{}", stderr(&output));
        let told = stderr(&output);
        assert!(told.contains(&format!("--server {base}, with a token in RECAPD_TOKEN")), "{told}");
    }
}

fn offline(name: &str) -> (String, String) {
    let made =
        recapd().args(["token", "create", name, "--scope", "read", "--offline", "--json"]).output().unwrap();
    assert_eq!(code(&made), Some(0), "{}", stderr(&made));
    let made = json(&made);
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("token"), text("line"))
}

fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn tokens_in_a_file_follow_its_changes() {
    let ((one, one_line), (other, other_line)) = (offline("one"), offline("other"));
    assert!(!one_line.contains(&one));
    let daemon = Daemon::start(Some(&format!("# who may ask\n{one_line}\n")));
    let file = daemon.folder.path().join("tokens");
    let asked = |token: &str| {
        let output = recapd()
            .args(["status", "--server", &daemon.server()])
            .env("RECAPD_TOKEN", token)
            .output()
            .unwrap();
        code(&output)
    };
    assert_eq!((asked(&one), asked(&other)), (Some(0), Some(1)));
    replace(&file, &other_line);
    until("the other one is known", || asked(&other) == Some(0));
    assert_eq!(asked(&one), Some(1), "it was taken back");
    // An unreadable file changes nothing. It is read on a request, and the second reading follows the end of the first.
    replace(&file, "nonsense");
    until("it was looked at and refused", || {
        asked(&other);
        let log = std::fs::read_to_string(daemon.folder.path().join("log")).unwrap();
        log.matches("access.file_unreadable").count() >= 2
    });
    assert_eq!(asked(&other), Some(0));

    let refused = recapd()
        .args([
            "--set",
            &format!("http.tokens_file={}", file.display()),
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--db",
        ])
        .arg(daemon.folder.path().join("refused.db"))
        .output()
        .unwrap();
    assert_eq!(code(&refused), Some(78), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("line 1"), "{}", stderr(&refused));
}
