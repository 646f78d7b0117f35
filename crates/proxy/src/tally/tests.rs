use std::collections::{BTreeSet, VecDeque};

use async_trait::async_trait;

use super::*;

/// A daemon that answers as planned, and else takes each report.
#[derive(Default)]
struct PlannedDaemon {
    planned: Mutex<VecDeque<Result<StatusCode, String>>>,
    got: Mutex<Vec<(String, ProxyReport)>>,
}

impl PlannedDaemon {
    fn planning(planned: impl IntoIterator<Item = Result<StatusCode, String>>) -> Arc<Self> {
        Arc::new(Self { planned: Mutex::new(planned.into_iter().collect()), ..Self::default() })
    }

    fn got(&self) -> Vec<(String, ProxyReport)> {
        self.got.lock().unwrap().clone()
    }
}

#[async_trait]
impl ProxyDaemon for PlannedDaemon {
    async fn post(&self, path: &str, body: Bytes) -> Result<DaemonAnswer, String> {
        let report = serde_json::from_slice(&body).unwrap();
        self.got.lock().unwrap().push((path.to_owned(), report));
        let planned = self.planned.lock().unwrap().pop_front();
        planned.unwrap_or(Ok(StatusCode::OK)).map(|status| DaemonAnswer { status, body: Bytes::new() })
    }
}

fn agent(name: &str) -> AgentId {
    name.parse().unwrap()
}

async fn end(tally: Tally, tasks: TaskTracker) {
    drop(tally);
    tasks.close();
    tasks.wait().await;
}

fn started(daemon: &Arc<PlannedDaemon>) -> (Tally, TaskTracker) {
    let tasks = TaskTracker::new();
    let daemon: Arc<dyn ProxyDaemon> = Arc::<PlannedDaemon>::clone(daemon);
    (Tally::start(daemon, &tasks), tasks)
}

#[tokio::test(start_paused = true)]
async fn the_counts_of_a_session_are_one_report() {
    let daemon = PlannedDaemon::planning([]);
    let (tally, tasks) = started(&daemon);
    let coder = agent("coder");
    tally.count(Some(&coder), |counts| counts.requests += 2);
    tally.count(Some(&coder), |counts| counts.unstored += 1);
    tally.count(None, |counts| counts.requests += 1);
    tokio::time::sleep(INTERVAL * 2).await;
    let expected = ProxyTraffic { requests: 2, unstored: 1, ..ProxyTraffic::default() };
    let (path, report) = daemon.got().remove(0);
    assert_eq!((path.as_str(), report.traffic), ("/v1/agents/coder/proxy", expected));
    assert!(report.is_named());
    // The last counts are reported when the proxy ends.
    tally.count(Some(&coder), |counts| counts.failed_open += 1);
    end(tally, tasks).await;
    let got = daemon.got();
    assert_eq!((got.len(), got[1].1.traffic.failed_open), (2, 1));
    assert_ne!(got[0].1.report, got[1].1.report);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_report_is_sent_again_under_its_name() {
    let away = || Err("nobody listens".to_owned());
    let daemon = PlannedDaemon::planning([away(), Ok(StatusCode::SERVICE_UNAVAILABLE)]);
    let (tally, tasks) = started(&daemon);
    let coder = agent("coder");
    tally.count(Some(&coder), |counts| counts.requests += 1);
    tokio::time::sleep(INTERVAL + INTERVAL / 2).await;
    tally.count(Some(&coder), |counts| counts.requests += 5);
    tokio::time::sleep(INTERVAL * 3).await;
    let got = daemon.got();
    let counts: Vec<i64> = got.iter().map(|(_, report)| report.traffic.requests).collect();
    assert_eq!(counts, [1, 1, 1, 5]);
    let names: BTreeSet<&str> = got.iter().map(|(_, report)| report.report.as_str()).collect();
    assert_eq!(names.len(), 2);
    end(tally, tasks).await;
    assert_eq!(daemon.got().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_refused_report_is_dropped() {
    let daemon = PlannedDaemon::planning([Ok(StatusCode::NOT_FOUND)]);
    let (tally, tasks) = started(&daemon);
    tally.count(Some(&agent("coder")), |counts| counts.compactions_forwarded += 1);
    end(tally, tasks).await;
    assert_eq!(daemon.got().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_sessions_is_limited() {
    let daemon = PlannedDaemon::planning([]);
    let (tally, tasks) = started(&daemon);
    for number in 0..SESSIONS_MAX + 10 {
        tally.count(Some(&agent(&format!("agent-{number}"))), |counts| {
            counts.requests += 1;
        });
    }
    // Sessions that are counted already go on counting.
    tally.count(Some(&agent("agent-0")), |counts| counts.requests += 1);
    end(tally, tasks).await;
    let got = daemon.got();
    assert_eq!(got.len(), SESSIONS_MAX);
    let sum: i64 = got.iter().map(|(_, report)| report.traffic.requests).sum();
    assert_eq!(sum, i64::try_from(SESSIONS_MAX).unwrap() + 1);
}

#[test]
fn attachments_have_no_estimate() {
    let text = "four words of text. ".repeat(1_000);
    let message = |data: &str| serde_json::json!({"text": text, "data": data}).to_string();
    let (short, long) = (message(""), message(&"iVBORw0KGgo".repeat(10_000)));
    let tokens = estimated_tokens(short.as_bytes());
    assert!((5_000..5_010).contains(&tokens), "{tokens}");
    assert_eq!(estimated_tokens(long.as_bytes()), tokens);
}
