//! Names and labels are a contract, everything starts at 0, and each method changes the right metrics.

use std::{collections::BTreeMap, time::Duration};

use super::{
    labels::{
        AgentState, ClaimResult, FailureReason, Fence, ItemAction, LogLevel, Method, ProviderErrorClass,
        QueueState, ReadResult, ReadVia, RenewalResult, Role, RunOutcome, UpdateOutcome, UpdatePath,
    },
    *,
};
use recapd_core::domain::{
    convergence::{Rules, SpeakerMessage, compare_last_speakers},
    message::Kind,
    window::Budget,
    work::Reason,
};

const OPENMETRICS: Option<&str> = Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");

fn metrics() -> Metrics {
    Metrics::new(Timestamp(1_500), &[("offline", "offline"), ("openai", "gpt-5.4-mini")])
}

/// All samples except the process metrics: series and value.
fn samples(metrics: &Metrics) -> BTreeMap<String, f64> {
    let (_, text) = metrics.encode(None);
    text.lines()
        .filter(|line| line.starts_with("recapd_"))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// The changes between two scrapes, without buckets and sums.
fn changes(act: impl FnOnce(&Metrics)) -> String {
    let metrics = metrics();
    let before = samples(&metrics);
    act(&metrics);
    let lines: Vec<String> = samples(&metrics)
        .into_iter()
        .filter(|(series, value)| before.get(series) != Some(value))
        .filter(|(series, _)| !series.contains("_bucket{") && !series.contains("_sum"))
        .map(|(series, value)| format!("{} {value}", series.trim_start_matches("recapd_")))
        .collect();
    lines.join("\n")
}

/// Each metric's name, type and number of series; for a histogram, the number of its label sets.
fn contract(text: &str) -> String {
    let described = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let sample = if kind == "histogram" { format!("{name}_count") } else { name.to_owned() };
        let is_sample = |line: &&str| line.split(['{', ' ']).next() == Some(&sample);
        Some(format!("{name} {kind} {}", text.lines().filter(is_sample).count()))
    };
    let names: Vec<String> = text.lines().filter_map(described).collect();
    names.join("\n")
}

fn encoded() -> String {
    let metrics = metrics();
    metrics.service.route("/v1/agents/{id}/summary", Method::Get);
    metrics.encode(None).1
}

#[test]
fn names_types_and_numbers_of_series_are_the_contract() {
    let (first, second) = halves(&contract(&encoded()));
    insta::assert_snapshot!(first, @"
    process_start_time_seconds gauge 1
    process_resident_memory_bytes gauge 1
    process_open_fds gauge 1
    process_max_fds gauge 1
    process_threads gauge 1
    process_cpu_seconds_total counter 1
    recapd_updates_queued_total counter 6
    recapd_updates_coalesced_total counter 1
    recapd_updates_total counter 3
    recapd_update_failures_total counter 15
    recapd_updates_in_progress gauge 1
    recapd_update_duration_seconds histogram 12
    recapd_update_batch_exchanges histogram 1
    recapd_retries_exhausted_total counter 1
    recapd_updates_postponed_total counter 4
    recapd_updates_fenced_total counter 5
    recapd_workers gauge 1
    recapd_workers_busy gauge 1
    recapd_paused gauge 1
    recapd_document_tokens histogram 1
    recapd_document_items_total counter 5
    recapd_facts_refused_total counter 8
    recapd_emergency_truncations_total counter 1
    recapd_emergency_truncated_tokens_total counter 1
    recapd_document_reads_total counter 20
    recapd_document_read_duration_seconds histogram 1
    recapd_aging_runs_total counter 2
    recapd_aging_last_success_timestamp_seconds gauge 1
    recapd_redactions_total counter 36
    recapd_batches_total counter 2
    recapd_batch_questions_total counter 5
    recapd_batches_open gauge 2
    recapd_batch_questions_open gauge 2
    recapd_batches_oldest_timestamp_seconds gauge 1
    recapd_batch_wait_limit_seconds gauge 1
    recapd_queue_wait_seconds histogram 1
    recapd_queue_claims_total counter 3
    recapd_queue_last_look_timestamp_seconds gauge 1
    recapd_leases_expired_total counter 1
    recapd_lease_renewals_total counter 3
    recapd_queue_depth gauge 4
    recapd_queue_oldest_ready_timestamp_seconds gauge 1
    recapd_oldest_unsummarized_timestamp_seconds gauge 1
    recapd_documents gauge 1
    recapd_documents_tokens gauge 1
    recapd_agents gauge 4
    recapd_sampler_last_success_timestamp_seconds gauge 1
    ");
    rest_of_the_contract(&second);
}

/// Splits the contract for two snapshots, so that the functions stay short.
fn halves(text: &str) -> (String, String) {
    let lines: Vec<&str> = text.lines().collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    (first.join("\n"), second.join("\n"))
}

fn rest_of_the_contract(second: &str) {
    insta::assert_snapshot!(second, @"
    recapd_sampler_duration_seconds gauge 1
    recapd_messages_ingested_total counter 6
    recapd_ingested_tokens_total counter 6
    recapd_exchanges_evicted_total counter 1
    recapd_evicted_tokens_total counter 1
    recapd_journal_messages_total counter 1
    recapd_journal_failed_messages_total counter 1
    recapd_window_tokens histogram 1
    recapd_window_fill_ratio histogram 1
    recapd_token_count_error_ratio histogram 5
    recapd_inbox_waiting gauge 1
    recapd_inbox_oldest_timestamp_seconds gauge 1
    recapd_inbox_refused_rows gauge 1
    recapd_inbox_taken_total counter 1
    recapd_inbox_refused_total counter 8
    recapd_convergence_score histogram 1
    recapd_convergence_crossings_total counter 2
    recapd_provider_requests_total counter 4
    recapd_provider_errors_total counter 20
    recapd_provider_request_duration_seconds histogram 2
    recapd_provider_tokens_total counter 8
    recapd_provider_cost_limit_usd gauge 1
    recapd_provider_circuit_open gauge 2
    recapd_embeddings_stored_total counter 1
    recapd_embeddings_waiting_messages gauge 1
    recapd_embeddings_errors_total counter 20
    recapd_embeddings_request_duration_seconds histogram 2
    recapd_proxy_requests_total counter 6
    recapd_proxy_stored_total counter 1
    recapd_proxy_stored_timestamp_seconds gauge 1
    recapd_proxy_unstored_total counter 5
    recapd_proxy_compactions_total counter 2
    recapd_proxy_failed_open_total counter 1
    recapd_build_info gauge 1
    recapd_db_errors_total counter 6
    recapd_db_schema_version gauge 1
    recapd_db_pool_connections gauge 2
    recapd_db_pool_max_connections gauge 1
    recapd_db_pool_acquire_timeouts_total counter 1
    recapd_log_events_total counter 3
    recapd_config_last_reload_successful gauge 1
    recapd_config_last_reload_success_timestamp_seconds gauge 1
    recapd_http_requests_total counter 1
    recapd_http_request_duration_seconds histogram 1
    recapd_sse_clients gauge 1
    recapd_audit_dropped_total counter 1
    recapd_trace_spans_total counter 2
    ");
}

#[test]
fn every_description_is_complete() {
    let (_, text) = metrics().encode(None);
    let of = |keyword: &str| -> Vec<String> {
        let prefix = format!("# {keyword} ");
        let names = text.lines().filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next());
        names.map(str::to_owned).collect()
    };
    assert_eq!(of("HELP"), of("TYPE"));
    assert!(of("UNIT").is_empty());
    for name in of("TYPE") {
        assert!(!name.contains("summary"), "{name}: promtool reserves the word");
    }
}

#[test]
fn everything_starts_at_zero() {
    for (series, value) in samples(&metrics()) {
        let expected = if series.starts_with("recapd_build_info{") { 1.0 } else { 0.0 };
        assert!((value - expected).abs() < f64::EPSILON, "{series} {value}");
    }
}

#[test]
fn both_formats_say_the_same() {
    let metrics = metrics();
    metrics.documents.stored(10_000);
    let (content_type, open) = metrics.encode(OPENMETRICS);
    assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(open.ends_with("# EOF\n"));
    assert!(open.contains("# TYPE recapd_updates counter\n"));
    assert!(open.contains("recapd_document_tokens_bucket{le=\"10000.0\"} 1\n"));

    let (content_type, plain) = metrics.encode(Some("*/*"));
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!plain.contains("# EOF"));
    assert!(
        plain.contains("# HELP recapd_updates_total Updates ended.\n# TYPE recapd_updates_total counter\n")
    );
    let own = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("recapd_"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(own(&open), own(&plain));
}

#[test]
fn process_metrics_are_present() {
    let (_, text) = metrics().encode(None);
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        line.and_then(|line| line.rsplit(' ').next()).unwrap().parse().unwrap()
    };
    assert!((value("process_start_time_seconds") - 1.5).abs() < f64::EPSILON);
    assert!(value("process_resident_memory_bytes") > 1_000_000.0);
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!((1.0..value("process_max_fds")).contains(&value("process_open_fds")));
    assert!(value("process_threads") >= 1.0);
}

#[test]
fn an_update_is_counted_from_the_queue_to_its_end() {
    let text = changes(|metrics| {
        let updates = &metrics.updates;
        updates.queued(Reason::Eviction);
        updates.coalesced();
        let ended = updates.start();
        updates.finished(UpdateOutcome::Completed, UpdatePath::Merge, 3, Duration::from_secs(30));
        drop(ended);
        let running = updates.start();
        updates.failed(FailureReason::ProviderTimeout);
        updates.finished(UpdateOutcome::Failed, UpdatePath::None, 0, Duration::from_mins(1));
        updates.retries_exhausted(2);
        updates.fenced(Fence::Version);
        updates.workers(4);
        updates.paused(true);
        std::mem::forget(running);
    });
    insta::assert_snapshot!(text, @r#"
    paused 1
    retries_exhausted_total 2
    update_batch_exchanges_count 1
    update_duration_seconds_count{outcome="completed",path="merge"} 1
    update_duration_seconds_count{outcome="failed",path="none"} 1
    update_failures_total{reason="provider_timeout"} 1
    updates_coalesced_total 1
    updates_fenced_total{fence="version"} 1
    updates_in_progress 1
    updates_queued_total{trigger="eviction"} 1
    updates_total{outcome="completed"} 1
    updates_total{outcome="failed"} 1
    workers 4
    workers_busy 1
    "#);
}

#[test]
fn a_document_is_counted_when_stored_read_cut_and_aged() {
    let text = changes(|metrics| {
        let documents = &metrics.documents;
        documents.stored(9_600);
        documents.items(ItemAction::Added, 4);
        documents.items(ItemAction::Dropped, 0);
        documents.truncated(250);
        documents.read(ReadVia::Http, ReadResult::NotModified, Some(Duration::from_millis(1)));
        documents.aged(RunOutcome::Completed);
        documents.aged(RunOutcome::Failed);
        documents.last_aged(Some(Timestamp(2_000)));
    });
    insta::assert_snapshot!(text, @r#"
    aging_last_success_timestamp_seconds 2
    aging_runs_total{outcome="completed"} 1
    aging_runs_total{outcome="failed"} 1
    document_items_total{action="added"} 4
    document_read_duration_seconds_count 1
    document_reads_total{via="http",result="not_modified"} 1
    document_tokens_count 1
    emergency_truncated_tokens_total 250
    emergency_truncations_total 1
    "#);
    assert_eq!(changes(|metrics| metrics.documents.last_aged(None)), "");
}

#[test]
fn a_sample_replaces_the_earlier_sample() {
    let text = changes(|metrics| {
        let queue = &metrics.queue;
        queue.waited(Duration::from_secs(3));
        queue.leases_expired(1);
        queue.looked(ClaimResult::Found, Timestamp(3_000));
        queue.looked(ClaimResult::Failed, Timestamp(5_000));
        queue.renewed(RenewalResult::Lost);
        let first = QueueSample {
            depth: vec![(QueueState::Ready, 7), (QueueState::Parked, 1)],
            oldest_ready_at: Some(Timestamp(1_000)),
            ..QueueSample::default()
        };
        queue.sampled(&first, Timestamp(10_000), Duration::from_millis(250));
        let second = QueueSample {
            depth: vec![(QueueState::Parked, 2)],
            oldest_unsummarized_at: Some(Timestamp(2_500)),
            documents: 3,
            documents_tokens: 12_000,
            agents: vec![(AgentState::Active, 5)],
            ..QueueSample::default()
        };
        queue.sampled(&second, Timestamp(20_000), Duration::from_millis(500));
    });
    insta::assert_snapshot!(text, @r#"
    agents{state="active"} 5
    documents 3
    documents_tokens 12000
    lease_renewals_total{result="lost"} 1
    leases_expired_total 1
    oldest_unsummarized_timestamp_seconds 2.5
    queue_claims_total{result="failed"} 1
    queue_claims_total{result="found"} 1
    queue_depth{state="parked"} 2
    queue_last_look_timestamp_seconds 3
    queue_wait_seconds_count 1
    sampler_duration_seconds 0.5
    sampler_last_success_timestamp_seconds 20
    "#);
}

#[test]
fn the_wait_for_batches_is_in_seconds() {
    let text = changes(|metrics| {
        metrics.batches.may_wait(14_400_000);
        assert_eq!(metrics.batches.wait_limit_ms(), 14_400_000);
    });
    assert_eq!(text, "batch_wait_limit_seconds 14400");
}

#[test]
fn messages_into_and_exchanges_out_of_a_window_are_counted() {
    let text = changes(|metrics| {
        let window = &metrics.window;
        window.ingested(Role::from(&Kind::ToolResult), 120);
        window.ingested(Role::from(&Kind::from_name("mark")), 0);
        window.evicted(2, 3_000);
        window.record_fill(80_000, Budget::new(100_000, 0.8));
        window.record_fill(80_000, Budget::unlimited());
    });
    insta::assert_snapshot!(text, @r#"
    evicted_tokens_total 3000
    exchanges_evicted_total 2
    ingested_tokens_total{role="tool_result"} 120
    messages_ingested_total{role="metadata"} 1
    messages_ingested_total{role="tool_result"} 1
    window_fill_ratio_count 1
    window_tokens_count 2
    "#);
}

#[test]
fn a_crossed_threshold_is_counted_once() {
    let texts = ["one thing", "another", "Same.", "Same.", "Same.", "Same."];
    let said: Vec<SpeakerMessage> = (0_i64..)
        .zip(texts)
        .map(|(place, text)| SpeakerMessage {
            exchange: place / 2,
            speaker: ["a", "b"][usize::from(place % 2 == 1)].to_owned(),
            text: text.to_owned(),
        })
        .collect();
    let text = changes(|metrics| {
        for turn in 1..=3 {
            let reading = compare_last_speakers(&said[..2 * turn], true, &Rules::default()).unwrap();
            metrics.talk.scored(&reading);
        }
    });
    insta::assert_snapshot!(text, @r#"
    convergence_crossings_total{state="stop"} 1
    convergence_score_count 3
    "#);
}

#[test]
fn unknown_models_share_the_label_other() {
    let text = changes(|metrics| {
        let tokens = ProviderTokens { input: 100, cache_read: 900, cache_write: 0, output: 50 };
        let second = Duration::from_secs(1);
        metrics.provider.answered("openai", "gpt-5.4-mini", tokens, second);
        metrics.provider.failed("openai", "gpt-9", ProviderErrorClass::Auth, second);
        metrics.provider.failed("nobody", "gpt-5.4-mini", ProviderErrorClass::Server, second);
    });
    insta::assert_snapshot!(text, @r#"
    provider_errors_total{provider="openai",class="auth"} 1
    provider_errors_total{provider="other",class="server"} 1
    provider_request_duration_seconds_count{provider="openai",model="gpt-5.4-mini"} 1
    provider_request_duration_seconds_count{provider="openai",model="other"} 1
    provider_request_duration_seconds_count{provider="other",model="other"} 1
    provider_requests_total{provider="openai",model="gpt-5.4-mini",outcome="success"} 1
    provider_requests_total{provider="openai",model="other",outcome="error"} 1
    provider_requests_total{provider="other",model="other",outcome="error"} 1
    provider_tokens_total{provider="openai",model="gpt-5.4-mini",type="cache_read"} 900
    provider_tokens_total{provider="openai",model="gpt-5.4-mini",type="input"} 100
    provider_tokens_total{provider="openai",model="gpt-5.4-mini",type="output"} 50
    "#);
}

#[test]
fn requests_and_database_errors_are_counted() {
    let text = changes(|metrics| {
        let route = "/v1/agents/{id}/summary";
        metrics.service.route(route, Method::Get);
        metrics.service.answered(route, Method::Get, 404, Duration::from_millis(2));
        metrics.service.db_failed(Some("busy"));
        metrics.service.db_failed(Some("a new word"));
        metrics.service.db_failed(None);
        metrics.service.connections(3, 2, 5);
        metrics.service.pool_timeouts(4);
        metrics.service.pool_timeouts(3);
        metrics.service.logged(LogLevel::Warn);
        metrics.service.reloaded(true, Timestamp(4_000));
        metrics.service.reloaded(false, Timestamp(9_000));
        metrics.service.db_schema_version(3);
    });
    insta::assert_snapshot!(text, @r#"
    config_last_reload_success_timestamp_seconds 4
    db_errors_total{class="busy"} 1
    db_errors_total{class="other"} 1
    db_pool_acquire_timeouts_total 4
    db_pool_connections{state="idle"} 3
    db_pool_connections{state="in_use"} 2
    db_pool_max_connections 5
    db_schema_version 3
    http_request_duration_seconds_count{route="/v1/agents/{id}/summary",method="GET"} 1
    http_requests_total{route="/v1/agents/{id}/summary",method="GET",code="200"} 0
    http_requests_total{route="/v1/agents/{id}/summary",method="GET",code="404"} 1
    log_events_total{level="warn"} 1
    "#);
}

#[test]
fn reasons_and_error_classes_agree() {
    let classes = FailureReason::ALL.iter().filter_map(|&reason| ProviderErrorClass::from_reason(reason));
    assert_eq!(classes.count(), ProviderErrorClass::ALL.len());
    assert_eq!(FailureReason::from_name("provider_refusal"), Some(FailureReason::ProviderRefusal));
    assert_eq!(ProviderErrorClass::from_reason(FailureReason::Db), None);
    // The class of each error of a model is the name of a reason.
    let errors = [
        recapd_llm::LlmError::Transient("".into()),
        recapd_llm::LlmError::Truncated { usage: None },
        recapd_llm::LlmError::Auth(String::new()),
        recapd_llm::LlmError::ContextOverflow(String::new()),
        recapd_llm::LlmError::Refused { message: String::new(), usage: None },
        recapd_llm::LlmError::Permanent(String::new()),
        recapd_llm::LlmError::RateLimited { retry_after: None, message: String::new() },
    ];
    for error in errors {
        assert!(FailureReason::from_name(error.class()).is_some(), "{error}");
    }
}
