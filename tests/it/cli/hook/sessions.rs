//! Each session has an agent, the sessions of a folder share a project, and the proxy stores into the same agents.

use super::*;

const ONE: &str = "0b1c2d3e-0000-4000-8000-000000000001";
const TWO: &str = "0b1c2d3e-0000-4000-8000-000000000002";
/// How often a session is started until there is something to tell.
const STARTS_MAX: usize = 100;

/// Sessions of one folder, whose agents nobody named.
fn session<'a>(folder: &'a Session, id: &'static str) -> OfFolder<'a> {
    OfFolder { folder, id }
}

struct OfFolder<'a> {
    folder: &'a Session,
    id: &'static str,
}

impl OfFolder<'_> {
    fn agent(&self) -> String {
        format!("claude-code:-:{}", self.id)
    }

    fn transcript(&self) -> PathBuf {
        self.folder.folder.path().join(format!("{}.jsonl", self.id))
    }

    /// Adds a turn to the transcript, with what hosts write around it.
    fn say(&self, question: &str) {
        let mut text = fs::read_to_string(self.transcript()).unwrap_or_default();
        let turn = text.lines().count();
        let uuid = |of: &str| format!("{}-{of}{turn}", self.id);
        let lines = [
            json!({ "type": "file-history-snapshot", "snapshot": { "files": "x".repeat(2_000) } }),
            json!({ "type": "attachment", "uuid": uuid("k"), "attachment": { "type": "skill_listing", "content": "y".repeat(2_000) } }),
            json!({ "type": "user", "uuid": uuid("u"), "cwd": "/x", "version": "2.1.332", "message": { "role": "user", "content": question } }),
            json!({ "type": "assistant", "uuid": uuid("a"), "message": { "role": "assistant", "id": uuid("m"), "content": [{ "type": "text", "text": format!("Done: {question}") }] } }),
        ];
        text.extend(lines.map(|line| format!("{line}\n")));
        fs::write(self.transcript(), text).unwrap();
    }

    fn call(&self, event: &str, more: &Value) -> String {
        let mut input = json!({ "session_id": self.id, "transcript_path": self.transcript(), "cwd": self.folder.folder.path() });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let words = ["hook", event, "--host", "claude-code", "--server", &self.folder.server];
        let words = words.map(str::to_owned);
        let output = block_in_place(|| self.folder.run(&words, input.to_string()));
        assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""), "{event}");
        stdout(&output)
    }

    fn start(&self, source: &str) -> String {
        self.call("SessionStart", &json!({ "source": source }))
    }
}

async fn row(server: &Server, agent: &str) -> Value {
    server.get(&format!("/v1/agents/{agent}")).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_sessions_are_agents_of_one_project_and_know_of_each_other() {
    let server = server().await;
    let folder = Session::new(server.address);
    let (one, two) = (session(&folder, ONE), session(&folder, TWO));
    assert_eq!(one.start("startup"), "");
    one.say("Mend the parser");
    one.call("Stop", &json!({}));
    let told = two.start("startup");
    assert!(told.contains("At work in another session") && told.contains("Mend the parser"), "{told}");
    assert!(told.contains("<summary project="), "{told}");
    two.say("Write the tests");
    two.call("Stop", &json!({}));
    for (of, other) in [(&one, "Write the tests"), (&two, "Mend the parser")] {
        let row = row(&server, &of.agent()).await;
        assert_eq!((&row["messages"], &row["exchanges"]), (&json!(2), &json!(1)), "{row}");
        assert!(row["project_id"].is_string(), "{row}");
        let history = server.get(&format!("/v1/agents/{}/exchanges/1", of.agent())).await.json().to_string();
        assert!(!history.contains(other) && history.len() < 2_000, "{history}");
    }
    // What a resumed session shows isn't told again, and what the other one did is.
    one.call("SessionEnd", &json!({}));
    // The project's document follows its members after a moment.
    let mut starts = (0..STARTS_MAX).map(|_| one.start("resume"));
    let told = starts.find(|told| !told.is_empty()).unwrap_or_default();
    assert!(told.contains("Write the tests") && !told.contains("Mend the parser"), "{told}");
    let told = two.start("compact");
    assert!(!told.contains("Mend the parser"), "after a compaction it is told of itself: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_folder_becomes_part_of_its_project() {
    let server = server().await;
    let folder = Session::new(server.address);
    let one = session(&folder, ONE);
    let test = ["hook", "test", "--json", "--server", &folder.server].map(str::to_owned);
    let input = json!({ "session_id": ONE, "cwd": folder.folder.path() }).to_string();
    let output = block_in_place(|| folder.run(&test, input));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let project = told["project_id"].as_str().unwrap();
    let former = format!("claude-code:{project}");
    let said = json!([{ "kind": "user", "content": "Chose WAL" }, { "kind": "assistant", "content": "Yes" }, { "kind": "clear" }]);
    server.post(&format!("/v1/agents/{former}/messages"), said.to_string()).await;
    let told = one.start("startup");
    assert!(told.contains("Chose WAL") && told.contains(&former), "{told}");
    assert_eq!(row(&server, &former).await["project_id"], project);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_proxy_store_one_copy() {
    let server = server().await;
    let folder = Session::new(server.address);
    let one = session(&folder, ONE);
    let path = format!("/v1/agents/{}/conversation?format=anthropic&host=claude-code", one.agent());
    let message =
        |role: &str, text: &str| json!({ "role": role, "content": [{ "type": "text", "text": text }] });
    let mut talk: Vec<Value> = Vec::new();
    for (turn, question) in ["Mend it", "Again", "Again"].into_iter().enumerate() {
        // The request, the answer as it arrives, and then the hook; at last the hook is first.
        one.say(question);
        if turn == 2 {
            one.call("Stop", &json!({}));
        }
        talk.push(message("user", question));
        server.post(&path, json!({ "messages": talk }).to_string()).await;
        let answer = message("assistant", &format!("Done: {question}"));
        server.post(&format!("{path}&extent=end"), json!({ "messages": [answer] }).to_string()).await;
        talk.push(answer);
        one.call("Stop", &json!({}));
        // The session is resumed for the next turn.
        if turn < 2 {
            one.call("SessionEnd", &json!({}));
        }
    }
    let path = format!("/v1/agents/{}/history?all=true", one.agent());
    let text = server.get_as(&path, "text/plain").await.body;
    let headlines = text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let headlines: Vec<(&str, &str)> = headlines.filter_map(|line| line.split_once("  ")).collect();
    let titles = headlines.iter().filter_map(|(_, rest)| rest.trim_start().split("  ").next());
    assert!(titles.eq(["Mend it", "Again", "Again"]), "{text}");
    for (number, _) in headlines {
        let path = format!("/v1/agents/{}/exchanges/{number}?scope=conversation", one.agent());
        let exchange = server.get(&path).await.json();
        assert_eq!(exchange["messages"].as_array().unwrap().len(), 2, "{exchange}");
    }
}
