//! The time to read a summary over HTTP on open connections: with one reader, with concurrent readers, and while agents
//! append at full speed. A bare route that returns the same bytes is measured for comparison; the targets take turns
//! in short slices. Also the allocations of a request, without the network: the daemon makes an answer's bytes once
//! for each version, not for each reader.

mod measure;
#[path = "measure/messages.rs"]
mod messages;
#[path = "measure/place.rs"]
mod place;
#[path = "measure/rounds.rs"]
mod rounds;
#[path = "measure/texts.rs"]
mod texts;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    routing::get,
};
use futures::FutureExt as _;
use hyper::service::Service;
use measure::{Sample, Table, ratio, show, size};
use messages::Messages;
use place::Place;
use recapd_api::{
    access::Access,
    http::{self, HttpSettings, HttpState, Interface},
};
use recapd_config::{Config, DatabaseConfig, Synchronous};
use recapd_core::domain::agent::AgentId;
use recapd_engine::{assembly, ingest::Ingestor};
use recapd_store::SqlStore;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Slices in which each target is measured.
const SLICES: u32 = 8;
const SLICE: Duration = Duration::from_millis(250);
const CONNECTIONS: u32 = 16;
/// Agents that append at full speed; one of them is the agent whose summary is read.
const WRITERS: u32 = 8;
/// The messages of that agent at the start; most are pending, which makes the document long.
const HISTORY_MESSAGES: usize = 4_000;
/// The most allocations of a prepared answer on the fast path: headers, and the text of the agent's id.
const ALLOCATIONS_MAX: u64 = 16;
/// The most bytes of these allocations, far less than the document.
const ALLOCATED_BYTES_MAX: u64 = 3_000;
const ANSWER_BYTES_MAX: usize = 1_000_000;

/// A route to read from.
struct Target {
    name: &'static str,
    address: SocketAddr,
    request: String,
    status: &'static str,
}

#[derive(Default)]
struct Measurements {
    took: Sample,
    requests: u32,
    wall: Duration,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = place::open(place::disk(), Synchronous::Full, |_| {}).await?;
    let agent: AgentId = "reader".parse()?;
    let mut source = Messages::new(1);
    for _ in 0..HISTORY_MESSAGES / 500 {
        place.parts.ingestor.append(&agent, source.mix(500)?).await?;
    }
    let mut tasks = JoinSet::new();
    let stop = CancellationToken::new();
    let interface = interface(&place, &stop).await?;
    let daemon = serve(&place, interface.clone(), &mut tasks, &stop).await?;
    let request =
        |more: &str| format!("GET /v1/agents/{agent}/summary HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let (etag, document) = first_answer(daemon, &request("")).await?;
    count_allocations(&interface, &agent, &etag)?;
    let bare = serve_bare(document.clone(), &mut tasks).await?;
    let target = |name, address, more: &str, status| Target { name, address, request: request(more), status };
    let targets = [
        target("bare route, the same bytes", bare, "", "200"),
        target("summary", daemon, "", "200"),
        target("summary, known already", daemon, &format!("If-None-Match: {etag}\r\n"), "304"),
        target("summary, gzip", daemon, "Accept-Encoding: gzip\r\n", "200"),
        target("summary, JSON", daemon, "Accept: application/json\r\n", "200"),
    ];
    let title = format!("summary of {} bytes over HTTP", document.len());
    let columns = ["requests/s", "p50", "p99", "× bare (requests/s)", "× idle (p99)"];
    let mut table = Table::new(&title, &columns);
    let one = rows(&mut table, &targets, 1, None).await?;
    let crowd = rows(&mut table, &targets, CONNECTIONS, None).await?;
    let appended = Arc::new(AtomicU32::new(0));
    write_flat_out(&place, &agent, &appended, &mut tasks)?;
    for (connections, idle) in [(1, &one), (CONNECTIONS, &crowd)] {
        let (before, start) = (appended.load(Ordering::Relaxed), Instant::now());
        rows(&mut table, &targets[..2], connections, Some(idle)).await?;
        let turns = f64::from(appended.load(Ordering::Relaxed) - before) / start.elapsed().as_secs_f64();
        let name = format!("    meanwhile {WRITERS} writers: {turns:.0} durable turns/s");
        table.row(&name, &[]);
    }
    table.print();
    stop.cancel();
    tasks.shutdown().await;
    Ok(place.folder.close()?)
}

/// Measures the targets in turn, and adds a row for each. Returns their 99th percentiles.
async fn rows(
    table: &mut Table,
    targets: &[Target],
    connections: u32,
    idle: Option<&[Duration]>,
) -> anyhow::Result<Vec<Duration>> {
    let mut measured: Vec<Measurements> = targets.iter().map(|_| Measurements::default()).collect();
    for _ in 0..size(SLICES) {
        for (target, measured) in targets.iter().zip(&mut measured) {
            slice(target, connections, measured).await?;
        }
    }
    let rate = |measured: &Measurements| f64::from(measured.requests) / measured.wall.as_secs_f64();
    let bare = measured.first().map_or(1.0, rate);
    let mut p99s = Vec::new();
    for (place, (target, measured)) in targets.iter().zip(&mut measured).enumerate() {
        let p99 = measured.took.percentile(99);
        let load = if idle.is_some() { ", under writes" } else { "" };
        let against = idle.and_then(|idle| idle.get(place)).map(|&idle| ratio(p99, idle));
        let figures = [
            format!("{:.0}", rate(measured)),
            show(measured.took.p50()),
            show(p99),
            format!("{:.2}", rate(measured) / bare),
            against.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        ];
        table.row(&format!("{connections} × {}{load}", target.name), &figures);
        p99s.push(p99);
    }
    Ok(p99s)
}

/// Reads on `connections` connections for one slice.
async fn slice(target: &Target, connections: u32, measured: &mut Measurements) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    let start = Instant::now();
    for _ in 0..connections {
        let mut client = Client::connect(target.address).await?;
        let (request, status) = (target.request.clone(), target.status);
        clients.spawn(async move {
            let mut took = Vec::new();
            while start.elapsed() < SLICE {
                let asked = Instant::now();
                client.ask(&request).await?;
                took.push(asked.elapsed());
                anyhow::ensure!(client.status() == status, "the answer was {}", client.status());
            }
            anyhow::Ok(took)
        });
    }
    while let Some(took) = clients.join_next().await {
        for took in took?? {
            measured.took.add(took);
            measured.requests += 1;
        }
    }
    measured.wall += start.elapsed();
    Ok(())
}

/// A minimal HTTP client that keeps its connection, and reads a body by its content length.
struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
    body: usize,
}

impl Client {
    async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(65_536), body: 0 })
    }

    async fn ask(&mut self, request: &str) -> anyhow::Result<()> {
        self.stream.write_all(request.as_bytes()).await?;
        self.answer.clear();
        let mut end = None;
        while end.is_none_or(|end| self.answer.len() < end) {
            let read = self.stream.read_buf(&mut self.answer).await?;
            anyhow::ensure!(read > 0, "the connection was closed");
            anyhow::ensure!(self.answer.len() < ANSWER_BYTES_MAX, "the answer is too long");
            if end.is_none()
                && let Some(head) = self.answer.windows(4).position(|four| four == b"\r\n\r\n")
            {
                self.body = head + 4;
                end = Some(self.body + self.header("content-length").parse().unwrap_or(0));
            }
        }
        Ok(())
    }

    fn head(&self) -> &str {
        let head = self.answer.get(..self.body).unwrap_or_default();
        std::str::from_utf8(head).unwrap_or_default()
    }

    fn status(&self) -> &str {
        self.head().split(' ').nth(1).unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.head()
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(given, _)| given.eq_ignore_ascii_case(name))
            .map_or("", |(_, value)| value)
    }
}

async fn first_answer(address: SocketAddr, request: &str) -> anyhow::Result<(String, Bytes)> {
    let mut client = Client::connect(address).await?;
    client.ask(request).await?;
    anyhow::ensure!(client.status() == "200", "{}", client.head());
    let document = client.answer.get(client.body..).unwrap_or_default();
    Ok((client.header("etag").to_owned(), Bytes::copy_from_slice(document)))
}

/// Counts the allocations of a prepared summary's answers, in each representation; fails if there are too many.
fn count_allocations(interface: &Interface, agent: &AgentId, etag: &str) -> anyhow::Result<()> {
    let columns = ["allocations", "bytes"];
    let mut table = Table::new("one request, past the network", &columns);
    for (name, header, value) in [
        ("summary", "x-none", ""),
        ("summary, known already", "if-none-match", etag),
        ("summary, gzip", "accept-encoding", "gzip"),
        ("summary, JSON", "accept", "application/json"),
    ] {
        let ask = || {
            let request = Request::get(format!("/v1/agents/{agent}/summary"));
            let request = request.header(header, value).body(Body::empty())?;
            let mut status = None;
            let counted = allocation_counter::measure(|| {
                status = Service::call(interface, request)
                    .now_or_never()
                    .and_then(Result::ok)
                    .map(|answer| answer.status());
            });
            anyhow::ensure!(status.is_some_and(|status| !status.is_server_error()), "{name}: {status:?}");
            anyhow::Ok(counted)
        };
        // The first request prepares the answer.
        ask()?;
        let counted = ask()?;
        let figures = [counted.count_total.to_string(), counted.bytes_total.to_string()];
        table.row(name, &figures);
        anyhow::ensure!(
            counted.count_total <= ALLOCATIONS_MAX && counted.bytes_total <= ALLOCATED_BYTES_MAX,
            "{name}: {} allocations of {} bytes together",
            counted.count_total,
            counted.bytes_total
        );
    }
    table.print();
    Ok(())
}

async fn interface(place: &Place, stop: &CancellationToken) -> anyhow::Result<Interface> {
    let parts = &place.parts;
    // No operator asks for anything here, but each store needs a database of its own.
    let database = place.folder.path().join("operators.db");
    let database =
        DatabaseConfig { url: format!("sqlite:{}", database.display()), ..Config::default().database };
    let store = SqlStore::open(&assembly::database_settings(&database)).await?;
    let store = Arc::new(store);
    let access = Access::new(store.clone(), Arc::clone(&parts.clock), false);
    let state = HttpState::over(parts, store, Arc::new(access), stop.clone());
    let mut config = Config::default();
    // This measures the speed of answers; a rate limit would interfere.
    config.http.requests_per_second = 0;
    Ok(http::interface(state, HttpSettings::from(&config)))
}

async fn serve(
    place: &Place,
    interface: Interface,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    stop: &CancellationToken,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (parts, stop_too, stop) = (place.parts.clone(), stop.clone(), stop.clone());
    tasks.spawn(async move {
        parts.follow_changes(stop_too).await;
        Ok(())
    });
    let limits = HttpSettings::from(&Config::default()).connections;
    tasks.spawn(async move {
        http::serve(listener, interface, limits, stop).await;
        Ok(())
    });
    Ok(address)
}

async fn serve_bare(document: Bytes, tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<SocketAddr> {
    let route = get(move || std::future::ready(document.clone()));
    let router: Router = Router::new().route("/v1/agents/{id}/summary", route);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move { Ok(axum::serve(listener, router).await?) });
    Ok(address)
}

fn write_flat_out(
    place: &Place,
    reader: &AgentId,
    appended: &Arc<AtomicU32>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    for number in 0..WRITERS {
        let agent = match number {
            0 => reader.clone(),
            _ => format!("writer-{number}").parse()?,
        };
        let turn = Messages::new(u64::from(number)).turn()?;
        let (ingestor, appended): (Ingestor, _) = (place.parts.ingestor.clone(), Arc::clone(appended));
        tasks.spawn(async move {
            loop {
                ingestor.append(&agent, turn.clone()).await?;
                appended.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    Ok(())
}
