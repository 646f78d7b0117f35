//! The commands in `docs/sql.md` do what the page says.

use std::process::Command;

use super::inbox::{empty, ingestor};
use crate::support::backend::{Backend as _, PostgresBackend, SqliteBackend};

/// Returns the page's shell blocks.
fn blocks() -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/sql.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Joins lines that belong to one command; a command begins with a program's name.
fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    for line in block.split_inclusive('\n') {
        let begins = line.starts_with("sqlite3 ") || line.starts_with("psql ");
        match commands.last_mut() {
            Some(last) if !begins => last.push_str(line),
            _ => commands.push(line.to_owned()),
        }
    }
    commands
}

#[tokio::test]
async fn the_commands_of_the_page_do_what_they_say() {
    let (sqlite, postgres) = (SqliteBackend::fresh().await, PostgresBackend::fresh().await);
    // psql doesn't understand sqlx's options after the address.
    let url = postgres.url();
    let url = url.split('?').next().unwrap();
    let (on_sqlite, on_postgres) = (ingestor(&sqlite).0, ingestor(&postgres).0);
    // Roles belong to the server, so each run creates its own.
    let tag = format!("{:08x}", fastrand::u32(..));
    let names = [format!("dashboard_{tag}"), format!("agent-{tag}")];
    let mut told = String::new();
    for block in blocks() {
        let block = block.replace("dashboard", &names[0]).replace("agent-7", &names[1]);
        for command in commands(&block) {
            let writes_to_file = command.starts_with("sqlite3 ") && command.contains("INSERT");
            assert!(
                !writes_to_file || command.contains("-cmd '.timeout 5000'"),
                "a daemon that writes is waited for: {command}"
            );
            let output = Command::new("bash")
                .args(["-euc", &command])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .env("RECAPD_DB", sqlite.path())
                .env("RECAPD_URL", url)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !error.contains("ERROR"), "{command}\n{error}");
            told.push_str(&String::from_utf8_lossy(&output.stdout));
            empty(&sqlite, &on_sqlite).await;
            empty(&postgres, &on_postgres).await;
        }
    }
    for words in [
        "user|Why does the build fail?\nassistant|The cache is stale.",
        "INSERT 0 2",
        "role `wizard` is unknown",
        "CREATE ROLE",
    ] {
        assert!(told.contains(words), "{words} in {told}");
    }
    let tools =
        "SELECT count(*) FROM messages WHERE agent_id = 'coder' AND kind IN ('tool_call', 'tool_result')";
    assert_eq!(sqlite.number(tools).await, Some(2));
    for name in names {
        postgres.raw(&format!("DROP ROLE \"{name}\"")).await;
    }
}
