//! A transcript for which a hook has too little time: a process in the background pushes the rest.

use recapd_store::archive::{Archive as _, RecordRange};

use super::*;

/// More than a hook has time for.
const LONG_BYTES: usize = 10 << 20;
const ALL: RecordRange =
    RecordRange { after_seq: 0, through_seq: i64::MAX, messages_max: i64::MAX, bytes_max: usize::MAX };

/// Writes a transcript of turns with a tool, and with the second copies of results that hosts write, of at least so many bytes.
/// Returns the ids of its messages.
fn say_at_length(session: &Session, bytes_min: usize) -> Vec<String> {
    let (mut text, mut ids) = (String::new(), Vec::new());
    while text.len() < bytes_min {
        let turn = ids.len();
        let said = format!("line {turn} of the log, ").repeat(120);
        let call = format!("call-{turn}");
        let result = json!([{ "type": "tool_result", "tool_use_id": call, "content": said }]);
        let called =
            json!([{ "type": "tool_use", "id": call, "name": "Bash", "input": { "command": "make" } }]);
        let answered = json!([{ "type": "text", "text": "Mended." }]);
        for (role, content, more) in [
            ("user", json!(format!("Mend {turn}")), Value::Null),
            ("assistant", called, Value::Null),
            ("user", result, json!({ "stdout": said })),
            ("assistant", answered, Value::Null),
        ] {
            let id = format!("id-{}", ids.len());
            let message = json!({ "role": role, "content": content });
            let line = json!({ "type": role, "uuid": id, "message": message, "toolUseResult": more });
            text.extend([line.to_string().as_str(), "\n"]);
            ids.push(id);
        }
    }
    fs::write(session.transcript(), text).unwrap();
    ids
}

/// Waits until as many messages are stored and none waits, and checks that they are these, in order.
async fn until_stored(server: &Server, session: &Session, ids: &[String]) {
    let all = json!(ids.len());
    let path = format!("/v1/agents/{AGENT}");
    server.get_until(&path, |reply| reply.json()["messages"] == all).await;
    let end = Instant::now() + SLOW_TIME_MAX;
    while session.status()["spool_segments"] != 0 {
        assert!(Instant::now() < end, "{}", session.status());
    }
    let stored = server.target.records(&AGENT.parse().unwrap(), ALL).await.unwrap();
    let stored: Vec<String> = stored.into_iter().filter_map(|record| record.client_id).collect();
    assert_eq!(stored, ids);
    assert_eq!(session.status()["refused"], 0);
}

/// Starts what a hook starts when its time is over.
fn go_on(session: &Session) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("recapd"))
        .args(["hook", "drain", "--after-hook-ms", "0", "--server", &session.server])
        .env_clear()
        .env("XDG_STATE_HOME", session.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hook_pushes_all_of_it() {
    let server = server().await;
    let session = Session::impatient(server.address);
    let ids = say_at_length(&session, LONG_BYTES);
    session.stop();
    until_stored(&server, &session, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_host_writes_after_the_hook_needs_no_other_hook() {
    let server = server().await;
    let session = Session::impatient(server.address);
    let ends = |answer: &str| session.call("Stop", &json!({ "last_assistant_message": answer }));
    assert_eq!(ends("Parser 1 is mended."), "");
    session.say(1, 1);
    let ids = ["5e55-10-u1", "5e55-10-a1"].map(str::to_owned);
    until_stored(&server, &session, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_on_may_be_killed() {
    let server = server().await;
    let nobody = Port::reserve();
    let mut session = Session::new(nobody.address());
    let ids = say_at_length(&session, LONG_BYTES / 10);
    session.stop();
    assert!(session.status()["spool_segments"].as_i64() > Some(1));
    session.server = format!("http://{}", server.address);
    for round in 0..6 {
        let mut drain = go_on(&session);
        let wait = Duration::from_millis(20 + 40 * round);
        tokio::time::timeout(wait, std::future::pending::<()>()).await.unwrap_err();
        drain.kill().unwrap();
        drain.wait().unwrap();
    }
    let mut last = go_on(&session);
    assert!(block_in_place(|| last.wait()).unwrap().success());
    until_stored(&server, &session, &ids).await;
}
