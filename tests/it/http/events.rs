//! `GET /v1/agents/{id}/events`, `GET /v1/events`.

use recapd_core::domain::{
    access::{AccessNames, Reach, Scope},
    time::Timestamp,
};
use recapd_store::access::AccessStore as _;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{
    PATIENCE,
    conversation::native,
    server::{START, Server},
};

const PATH: &str = "/v1/agents/coder/events";

struct Listening {
    response: Response,
    text: String,
}

type Told = (String, String, Value);

impl Listening {
    async fn to(server: &Server, path: &str, header: (&str, &str)) -> Self {
        let request = server.request(Method::GET, path).header(header.0, header.1);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "private, no-store");
        Self { response, text: String::new() }
    }

    /// Returns the next event, skipping comments; `None` at the end.
    async fn next(&mut self) -> Option<Told> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                while let Some(end) = self.text.find("\n\n") {
                    let rest = self.text.split_off(end + 2);
                    let block = std::mem::replace(&mut self.text, rest);
                    let found = told(&block);
                    if found.is_some() {
                        return found;
                    }
                }
                let chunk = self.response.chunk().await.unwrap()?;
                self.text.push_str(str::from_utf8(&chunk).unwrap());
            }
        })
        .await
        .expect("an event, or the end, comes soon")
    }

    /// Returns the events up to the first of that name.
    async fn until(&mut self, name: &str) -> Vec<Told> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
            if all.last().unwrap().0 == name {
                return all;
            }
        }
        panic!("no {name} among {all:#?}");
    }
}

fn told(block: &str) -> Option<Told> {
    let field = |name: &str| {
        let mut lines = block.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default().to_owned()
    };
    let data = serde_json::from_str(&field("data")).ok()?;
    Some((field("event"), field("id"), data))
}

fn names(events: &[Told]) -> Vec<&str> {
    events.iter().map(|(name, ..)| name.as_str()).collect()
}

async fn small() -> Server {
    Server::start(|config| {
        config.window.budget_tokens = 200;
        config.window.low_water = 0.5;
        config.http.subscribers_max = 4;
    })
    .await
}

const PLAIN: (&str, &str) = ("accept", "text/event-stream");

#[tokio::test]
async fn the_events_of_an_agent_are_streamed() {
    let server = small().await;
    server.get(PATH).await.problem(404, "unknown_agent");
    server.converse("coder", 1..=1).await;
    let mut client = Listening::to(&server, PATH, PLAIN).await;
    let (name, _, data) = client.next().await.unwrap();
    assert_eq!((name.as_str(), &data["last_seq"]), ("agent.changed", &2.into()));
    let clients = |metrics: &str| {
        metrics.lines().find(|line| line.starts_with("recapd_sse_clients ")).map(str::to_owned)
    };
    let metrics = server.get("/metrics").await.body;
    assert_eq!(clients(&metrics).as_deref(), Some("recapd_sse_clients 1"));
    server.converse("others", 1..=1).await;
    server.converse("coder", 2..=2).await;
    let (name, _, data) = client.next().await.unwrap();
    assert_eq!(name, "turn.appended");
    assert_eq!(
        (&data["agent_id"], &data["last_seq"], &data["last_exchange"]),
        (&"coder".into(), &4.into(), &2.into())
    );

    server.converse("coder", 3..=8).await;
    let evicted = client.until("window.evicted").await.pop().unwrap().2;
    assert_eq!(evicted["from_exchange"], 1, "{evicted}");
    server.summarise().await;
    let events = client.until("summary.updated").await;
    assert!(names(&events).contains(&"queue.changed"), "{events:#?}");
    let updated = &events.last().unwrap().2;
    assert_eq!((&updated["version"], &updated["covers_through"]), (&1.into(), &6.into()));

    let delete = server.request(Method::DELETE, "/v1/agents/coder?confirm=coder");
    assert_eq!(delete.send().await.unwrap().status(), 200);
    client.until("agent.deleted").await;
    assert_eq!(client.next().await, None);
    server
        .get_until("/metrics", |reply| clients(&reply.body).as_deref() == Some("recapd_sse_clients 0"))
        .await;
}

#[tokio::test]
async fn a_client_that_reconnects_gets_what_it_missed() {
    let server = small().await;
    server.converse("coder", 1..=2).await;
    let mut client = Listening::to(&server, PATH, PLAIN).await;
    let (_, id, _) = client.next().await.unwrap();
    drop(client);
    let path = format!("{PATH}?for=0s");
    let again = |id: String| {
        let (server, path) = (&server, &path);
        async move {
            let mut client = Listening::to(server, path, ("last-event-id", &id)).await;
            let mut events = Vec::new();
            while let Some(event) = client.next().await {
                events.push(event);
            }
            events
        }
    };
    assert_eq!(again(id.clone()).await, []);
    server.converse("coder", 3..=8).await;
    server.summarise().await;
    let events = again(id).await;
    assert_eq!(names(&events), ["turn.appended", "window.evicted", "summary.updated"]);
    let ids: Vec<_> = events.iter().map(|(_, id, _)| id.is_empty()).collect();
    assert_eq!(ids, [true, true, false], "who has the id was told everything");
    assert_eq!(again(events[2].1.clone()).await, []);
    assert_eq!(names(&again("nonsense".to_owned()).await), ["agent.changed"]);
}

#[tokio::test]
async fn a_stream_of_all_agents_holds_only_visible_ones() {
    let server = small().await;
    server.converse("coder", 1..=1).await;
    let mut anybody = Listening::to(&server, "/v1/events", PLAIN).await;
    server.converse("victim", 1..=1).await;
    let (name, id, data) = anybody.next().await.unwrap();
    assert_eq!((name.as_str(), id.as_str(), &data["agent_id"]), ("agent.changed", "", &"victim".into()));
    let named = AccessNames { agents: ["coder".parse().unwrap()].into(), ..AccessNames::default() };
    server.keep_token("mine", Scope::Write, Reach::Only(named)).await;
    // A client that needed no token has none now.
    assert_eq!(anybody.next().await, None);

    let mut client = Listening::to(&server, "/v1/events", ("authorization", "Bearer rcp_mine")).await;
    let say = |agent: &'static str| {
        let ingestor = server.parts.ingestor.clone();
        async move {
            let said = vec![native("user", "Hi")];
            ingestor.append(&agent.parse().unwrap(), said).await.unwrap()
        }
    };
    say("victim").await;
    say("coder").await;
    let (name, _, data) = client.next().await.unwrap();
    assert_eq!((name.as_str(), &data["agent_id"]), ("agent.changed", &"coder".into()));
    server.target.revoke_token(&"mine".parse().unwrap(), Timestamp::parse(START).unwrap()).await.unwrap();
    server.access.refresh().await.unwrap();
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn subscribers_are_limited_and_end_with_the_daemon() {
    let server = small().await;
    server.converse("coder", 1..=1).await;
    let mut one = Listening::to(&server, PATH, PLAIN).await;
    let other = Listening::to(&server, "/v1/events", PLAIN).await;
    let refused = server.get(PATH).await;
    refused.problem(503, "too_many_subscribers");
    assert_eq!(refused.header("retry-after"), "5");
    drop(other);
    server.get_until(&format!("{PATH}?for=0s"), |reply| reply.status == 200).await;
    one.next().await.unwrap();
    server.end().await;
    assert_eq!(one.next().await, None);
}

#[tokio::test]
async fn a_slow_reader_of_all_agents_gets_lagged_and_is_disconnected() {
    let server = small().await;
    server.converse("coder", 1..=1).await;
    let coder = "coder".parse().unwrap();
    let mut all = Listening::to(&server, "/v1/events", PLAIN).await;
    let mut one = Listening::to(&server, PATH, PLAIN).await;
    assert_eq!(one.next().await.unwrap().0, "agent.changed");
    server.parts.notices().agent_moved(&coder);
    assert_eq!(all.next().await.unwrap().0, "agent.changed");
    // More changes than are kept for anybody, sent before anybody can look.
    for _ in 0..10_000 {
        server.parts.notices().agent_moved(&coder);
    }
    let (name, id, data) = all.next().await.unwrap();
    assert_eq!((name.as_str(), id.as_str(), data), ("lagged", "", json!({})));
    assert_eq!(all.next().await, None, "the answer ends");
    // For one agent, the next look shows everything anyway.
    server.converse("coder", 2..=2).await;
    assert_eq!(one.next().await.unwrap().0, "turn.appended");
    let mut again = Listening::to(&server, "/v1/events", PLAIN).await;
    server.converse("coder", 3..=3).await;
    assert_eq!(again.next().await.unwrap().0, "agent.changed");
}
