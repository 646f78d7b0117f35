//! `recapd_client` against the HTTP interface, and against servers that behave badly.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use recapd_api::context::CONTEXT_BYTES_MAX;
use recapd_client::{Client, ClientError, PLACEHOLDER};
use recapd_core::{domain::agent::AgentId, formats::outgoing::RequestFormat};
use serde_json::{Value, json};
use tokio::{net::UnixListener, time::timeout};

use crate::support::{PATIENCE, server::Server, troubled_store::Trouble};

fn coder() -> AgentId {
    "coder".parse().unwrap()
}

fn client(place: &str) -> Client {
    Client::new(&place.parse().unwrap()).unwrap()
}

/// A client with a long time-out, since the machine may be busy.
fn patient(place: &str) -> Client {
    client(place).with_timeout(Duration::from_secs(20))
}

fn of(server: &Server) -> Client {
    patient(&format!("http://{}", server.address))
}

#[tokio::test]
async fn a_turn_is_appended_and_read() {
    let server = Server::start(|config| {
        config.window.budget_tokens = 100;
        config.queue.batch_exchanges = 1;
    })
    .await;
    let (recapd, coder) = (of(&server), coder());
    assert_eq!(recapd.summary_or_placeholder(&coder).await, "");

    let turn = [
        json!({"role": "user", "content": "Fix the parser, please. ".repeat(20)}),
        json!({"role": "assistant", "content": "Fixed.", "client_id": "answer-1"}),
    ];
    let first = recapd.append(&coder, &turn).await.unwrap();
    assert_eq!((first.accepted, first.duplicates, first.exchange), (2, 0, 1));
    let again = recapd.append(&coder, &turn).await.unwrap();
    // A message without an id is stored again, one with an id isn't.
    assert_eq!((again.accepted, again.duplicates), (1, 1));
    assert_eq!(again.evicted.len(), 1);
    assert_eq!(again.summary.pending_exchanges, 1);

    server.summarise().await;
    let summary = recapd.summary(&coder).await.unwrap();
    assert_eq!((summary.version, summary.covers_through), (1, 1));
    let known = recapd.append(&coder, &turn[1..]).await.unwrap();
    assert_eq!((again.summary.version, known.summary.version), (0, 1));
    assert!(summary.content.contains("Fix the parser"), "{}", summary.content);
    assert_eq!(recapd.summary_or_placeholder(&coder).await, summary.content);

    let context = recapd.context(&coder, RequestFormat::OpenAiChat).await.unwrap();
    assert_eq!(context.summary_version, 1);
    assert!(context.body["messages"].to_string().contains("Fix the parser"));
    let stats: Value = recapd.get(&["v1", "stats"], &[("window", "24h")]).await.unwrap();
    assert!(stats.is_object());
    let ended: Value = recapd.post(&["v1", "agents", "coder", "sessions", "end"], &json!({})).await.unwrap();
    assert_eq!(ended["session"], 1);
}

#[tokio::test]
async fn a_refusal_names_the_field_and_the_fix() {
    let server = Server::start(|_| {}).await;
    let error = of(&server).append(&coder(), &[json!({"x": 1})]).await.unwrap_err();
    assert_eq!(error.code(), Some("invalid_message"));
    let ClientError::Refused(problem) = &error else { panic!("{error:?}") };
    assert_eq!(problem.status, 400);
    assert!(problem.hint.is_some());
    assert!(error.to_string().contains(problem.hint.as_deref().unwrap()));
}

#[tokio::test]
async fn an_unreachable_database_gives_the_placeholder() {
    let server = Server::start(|_| {}).await;
    server.store.trouble("summary", Trouble::Unavailable);
    assert_eq!(of(&server).summary_or_placeholder(&coder()).await, PLACEHOLDER);
    assert_eq!(PLACEHOLDER, "[Summary temporarily unavailable]");
}

#[tokio::test]
async fn a_socket_works_like_an_address() {
    let server = Server::start(|_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recapd.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let address = server.address;
    let relaying = async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut far = tokio::net::TcpStream::connect(address).await.unwrap();
            // Errors at its end are the client's to handle.
            tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
        }
    };
    let recapd = patient(&format!("unix:{}", path.display()));
    let appending = async {
        let appended = recapd.append(&coder(), &[json!({"role": "user", "content": "x"})]).await;
        assert_eq!(appended.unwrap().accepted, 1);
    };
    tokio::select! {
        () = relaying => {}
        () = appending => {}
    }
}

/// Answers each connection with the next of `answers`, or just closes it if that is empty. Sends the requests to the
/// receiver.
fn scripted(answers: Vec<String>) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            sender.send(request(&mut stream)).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, receiver)
}

/// Reads a whole request, whose body has a content length.
fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        text.extend_from_slice(&buffer[..count]);
        let request = String::from_utf8_lossy(&text);
        let Some((head, body)) = request.split_once("\r\n\r\n") else {
            assert!(count > 0, "{request}");
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return request.into_owned();
        }
    }
}

fn answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn appended() -> String {
    answer(
        "200 OK",
        &json!({
            "accepted": 1, "duplicates": 0, "exchange": 1, "evicted": [], "of_a_later_version": {},
            "window": {"tokens": 9, "budget_tokens": 0, "fill_ratio": null, "tokens_until_eviction": null},
            "summary": {"pending_exchanges": 0, "covers_through": 0},
        }),
    )
}

fn busy() -> String {
    let problem =
        json!({"status": 503, "code": "database_unavailable", "detail": "no database", "hint": null});
    answer("503 Service Unavailable", &problem)
}

#[tokio::test]
async fn an_append_is_retried_with_the_same_ids() {
    let (address, requests) = scripted(vec![String::new(), busy(), appended()]);
    let recapd = patient(&format!("http://{address}")).with_token("rcp_secret");
    let outcome = recapd.append(&coder(), &[json!({"role": "user", "content": "x"})]).await;
    assert_eq!(outcome.unwrap().accepted, 1);
    let requests: Vec<String> = requests.iter().collect();
    let bodies: Vec<&str> =
        requests.iter().map(|request| request.split_once("\r\n\r\n").unwrap().1).collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies[0].contains("client_id") && bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    let head = requests[0].to_lowercase();
    assert!(head.contains(concat!("user-agent: recapd/", env!("CARGO_PKG_VERSION"))), "{head}");
    assert!(head.contains("authorization: bearer rcp_secret"), "{head}");
}

#[tokio::test]
async fn a_null_or_empty_id_is_replaced() {
    let (address, requests) = scripted(vec![busy(), appended()]);
    let recapd = patient(&format!("http://{address}"));
    let turn = [
        json!({"role": "user", "content": "x", "client_id": null}),
        json!({"role": "user", "content": "y", "client_id": ""}),
        json!({"role": "user", "content": "z", "client_id": 7}),
    ];
    recapd.append(&coder(), &turn).await.unwrap();
    let bodies: Vec<Value> = requests
        .iter()
        .map(|request| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap())
        .collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
    let ids: Vec<usize> = (0..2).map(|at| bodies[0][at]["client_id"].as_str().unwrap().len()).collect();
    assert_eq!(ids, [32, 32]);
    assert_eq!(bodies[0][2]["client_id"], 7);
}

/// Messages, and whether they get an id. The clients in other languages use the same table; this one sends no format.
fn table_of_ids() -> Vec<Value> {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../fixtures/message_ids.json")).unwrap();
    rows.into_iter().filter(|row| row["format"].is_null()).collect()
}

#[tokio::test]
async fn a_message_gets_an_id_unless_it_has_one() {
    let rows = table_of_ids();
    let messages: Vec<Value> = rows.iter().map(|row| row["message"].clone()).collect();
    let (address, requests) = scripted(vec![appended()]);
    let recapd = patient(&format!("http://{address}"));
    recapd.append(&coder(), &messages).await.unwrap();
    let request = requests.recv().unwrap();
    let sent: Vec<Value> = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(sent.len(), rows.len());
    for (row, sent) in rows.iter().zip(&sent) {
        let mut expected = row["message"].clone();
        if row["gets_one"] == true {
            let id = sent["client_id"].as_str();
            assert_eq!(id.map(str::len), Some(32), "{row}");
            expected["client_id"] = sent["client_id"].clone();
        }
        assert_eq!(*sent, expected, "{row}");
    }
}

#[tokio::test]
async fn a_message_with_its_own_id_is_stored_once() {
    let server = Server::start(|_| {}).await;
    let recapd = of(&server);
    for (number, row) in table_of_ids().iter().enumerate() {
        let agent: AgentId = format!("named-{number}").parse().unwrap();
        let message = std::slice::from_ref(&row["message"]);
        recapd.append(&agent, message).await.unwrap();
        let again = recapd.append(&agent, message).await.unwrap();
        let duplicates = i64::from(!row["known_by"].is_null());
        assert_eq!((again.accepted, again.duplicates), (1 - duplicates, duplicates), "{row}");
    }
}

#[tokio::test]
async fn a_message_with_too_long_an_id_is_appended_once() {
    let named = |bytes| [json!({"role": "user", "content": "x", "client_id": "i".repeat(bytes)})];
    let server = Server::start(|_| {}).await;
    // The daemon decides which ids are too long.
    for (bytes, duplicates) in [(256, 1), (257, 0)] {
        of(&server).append(&coder(), &named(bytes)).await.unwrap();
        let again = of(&server).append(&coder(), &named(bytes)).await.unwrap();
        assert_eq!(again.duplicates, duplicates, "{bytes} bytes");
    }

    let (address, _requests) = scripted(vec![busy(), appended()]);
    let recapd = patient(&format!("http://{address}"));
    recapd.append(&coder(), &named(256)).await.unwrap();
    let (address, requests) = scripted(vec![busy()]);
    let recapd = patient(&format!("http://{address}"));
    let outcome = recapd.append(&coder(), &named(257)).await;
    assert!(matches!(outcome, Err(ClientError::Unavailable(_))), "{outcome:?}");
    assert_eq!(requests.iter().count(), 1);
}

#[tokio::test]
async fn requests_that_are_not_idempotent_are_not_retried() {
    let (address, requests) = scripted(vec![busy()]);
    let recapd = patient(&format!("http://{address}"));
    let outcome = recapd.post::<Value>(&["v1", "agents", "coder", "clear"], &json!({})).await;
    assert!(matches!(outcome, Err(ClientError::Unavailable(_))), "{outcome:?}");
    assert_eq!(requests.iter().count(), 1);
}

#[tokio::test]
async fn a_silent_daemon_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let recapd = client(&format!("http://{}", listener.local_addr().unwrap()));
    let (coder, said) = (coder(), "the daemon doesn't answer: no answer within 1000 ms");
    let left = timeout(PATIENCE, recapd.summary(&coder)).await;
    let error = left.expect("it is left").unwrap_err();
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn a_context_of_a_whole_window_is_read() {
    let said = "x".repeat(usize::try_from(CONTEXT_BYTES_MAX).unwrap());
    let context = json!({
        "agent_id": "coder", "body": {"messages": [{"role": "user", "content": said}]}, "tokens": 9,
        "limit_tokens": null, "over_budget": false, "summary_version": 0, "first_exchange": 1,
    });
    let (address, _requests) = scripted(vec![answer("200 OK", &context)]);
    let recapd = patient(&format!("http://{address}"));
    let read = recapd.context(&coder(), RequestFormat::OpenAiChat).await.unwrap();
    assert!(read.body == context["body"], "it is another one");
}

#[tokio::test]
async fn another_program_is_not_taken_for_a_daemon() {
    let (address, _requests) = scripted(vec![
        "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\nconnection: close\r\n\r\nIt works!".to_owned(),
    ]);
    let error = patient(&format!("http://{address}")).summary(&coder()).await.unwrap_err();
    assert_eq!(error.to_string(), "the answer isn't from a recapd daemon: 404 Not Found It works!");
}

#[test]
fn the_environment_says_where_the_daemon_is() {
    let from = |pairs: &'static [(&str, &str)]| {
        Client::from_environment(|name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    };
    assert!(from(&[]).is_ok());
    assert!(from(&[("RECAPD_SERVER", " unix:/run/recapd.sock\n"), ("RECAPD_TOKEN", "rcp_x\n")]).is_ok());
    let error = from(&[("RECAPD_SERVER", "localhost")]).unwrap_err().to_string();
    assert!(error.starts_with("RECAPD_SERVER: `localhost` isn't the address"), "{error}");
}
