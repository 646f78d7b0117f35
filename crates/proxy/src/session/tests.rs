use recapd_core::domain::continuation::UnitKind;
use serde_json::{Value, json};

use super::*;

const SESSION: &str = "0b1c2d3e-0000-4000-8000-000000000001";

fn session(dialect: Dialect, headers: &[(&'static str, &str)], body: &Value) -> Session {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().unwrap());
    }
    Session::of(dialect, &map, body.to_string().as_bytes())
}

fn name(session: &Session) -> &str {
    session.agent.as_ref().map_or("", AgentId::as_str)
}

#[test]
fn claude_code_names_its_session() {
    let body = json!({"messages": [{}, {}], "tools": [{}], "metadata": {"user_id": json!({"session_id": SESSION}).to_string()}});
    let by_body = session(Dialect::Anthropic, &[("user-agent", "claude-cli/2.1")], &body);
    let by_header = session(Dialect::Anthropic, &[("x-claude-code-session-id", SESSION)], &body);
    assert_eq!(name(&by_body), format!("claude-code:-:{SESSION}"));
    assert_eq!(by_body.agent, by_header.agent);
    assert_eq!(by_header.class, RequestClass::Turn);
    let old = json!({"messages": [{}, {"role": "assistant"}], "metadata": {"user_id": format!("user_1_account__session_{SESSION}")}});
    assert_eq!(session(Dialect::Anthropic, &[("user-agent", "claude-cli/1")], &old).agent, by_body.agent);
    let child = session(
        Dialect::Anthropic,
        &[("x-claude-code-session-id", SESSION), ("x-claude-code-agent-id", "a7")],
        &body,
    );
    assert_eq!(child.class, RequestClass::SubAgent);
    assert!(name(&child).starts_with(name(&by_body)) && child.agent != by_body.agent, "{child:?}");
}

#[test]
fn codex_names_its_session() {
    let body = json!({"input": [], "prompt_cache_key": SESSION});
    let metadata = r#"{"request_kind":"turn"}"#;
    let turn = session(
        Dialect::OpenAiResponses,
        &[("session-id", SESSION), ("thread-id", SESSION), ("x-codex-turn-metadata", metadata)],
        &body,
    );
    assert_eq!((name(&turn), turn.class), (format!("codex:-:{SESSION}").as_str(), RequestClass::Turn));
    let compaction = session(
        Dialect::OpenAiResponses,
        &[("session-id", SESSION), ("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#)],
        &body,
    );
    assert_eq!(compaction.class, RequestClass::Compaction);
    let prewarm = session(
        Dialect::OpenAiResponses,
        &[("session-id", SESSION), ("x-codex-turn-metadata", r#"{"request_kind":"prewarm"}"#)],
        &body,
    );
    assert_eq!(prewarm.class, RequestClass::Auxiliary);
    let by_key = session(Dialect::OpenAiResponses, &[("user-agent", "codex_cli_rs/0.169")], &body);
    assert_eq!(by_key.agent, turn.agent);
}

#[test]
fn what_a_host_asks_beside_the_conversation_is_auxiliary() {
    let title = json!({"messages": [{}]});
    let of =
        |headers: &[(&'static str, &str)], body: &Value| session(Dialect::Anthropic, headers, body).class;
    let host = [("x-claude-code-session-id", SESSION)];
    assert_eq!(of(&host, &title), RequestClass::Auxiliary);
    assert_eq!(of(&host, &json!({"messages": [{}], "tools": [{}]})), RequestClass::Turn);
    assert_eq!(of(&[], &json!({"messages": [{}], "max_tokens": 1})), RequestClass::Auxiliary);
    assert_eq!(of(&[], &title), RequestClass::Turn);
    let said = [("x-claude-code-session-id", SESSION), ("x-claude-code-request-class", "auxiliary")];
    assert_eq!(of(&said, &json!({"messages": [{}, {}], "tools": [{}]})), RequestClass::Auxiliary);
}

#[test]
fn opencode_names_its_session_and_asks_for_titles() {
    let body = |messages: Value| json!({"messages": messages, "tools": [{}]});
    let headers = [
        ("user-agent", "opencode/1.18.33 ai-sdk"),
        ("x-session-id", "ses_1"),
        ("x-session-affinity", "ses_1"),
    ];
    let turn = session(Dialect::Anthropic, &headers, &body(json!([{"role": "user"}])));
    assert!(name(&turn).starts_with("opencode:-:"), "{turn:?}");
    assert_eq!(turn.class, RequestClass::Turn);
    let parent = [
        headers[0],
        ("x-session-id", "ses_2"),
        ("x-session-affinity", "ses_2"),
        ("x-parent-session-id", "ses_1"),
    ];
    let child = session(Dialect::Anthropic, &parent, &body(json!([{"role": "user"}])));
    assert_eq!(child.class, RequestClass::SubAgent);
    assert!(name(&child).starts_with(name(&turn)) && child.agent != turn.agent, "{child:?}");
    let asked = json!([{"role": "system"}, {"role": "user"}, {"role": "user"}]);
    let class = |dialect, body: &Value| session(dialect, &headers, body).class;
    assert_eq!(class(Dialect::OpenAiChat, &json!({"messages": asked})), RequestClass::Auxiliary);
    assert_eq!(class(Dialect::OpenAiResponses, &json!({"input": asked})), RequestClass::Auxiliary);
    let answered = json!([{"role": "user"}, {"type": "message", "role": "assistant"}]);
    assert_eq!(class(Dialect::OpenAiResponses, &json!({"input": answered})), RequestClass::Turn);
}

#[test]
fn gemini_cli_asks_a_small_model_which_model_to_ask() {
    let host = [("user-agent", "GeminiCLI-tui/0.61.0/gemini-3 (linux; x64; terminal)")];
    let class = |body: &Value| session(Dialect::Gemini, &host, body).class;
    let contents = json!([{"role": "user"}, {"role": "model"}, {"role": "user"}]);
    assert_eq!(class(&json!({"contents": contents})), RequestClass::Auxiliary);
    assert_eq!(class(&json!({"contents": contents, "tools": [{}]})), RequestClass::Turn);
}

#[test]
fn an_own_name_comes_first_and_odd_ids_are_hashed() {
    let body = json!({"messages": [], "prompt_cache_key": "customer 4711, Main Street"});
    assert_eq!(name(&session(Dialect::OpenAiChat, &[("x-recapd-agent", "my coder")], &body)), "my-coder");
    let hashed = session(Dialect::OpenAiChat, &[], &body);
    assert!(name(&hashed).starts_with("openai:-:") && !name(&hashed).contains("4711"), "{hashed:?}");
    let long = "x".repeat(257);
    assert_eq!(session(Dialect::OpenAiChat, &[("x-session-id", &long)], &json!({})).agent, None);
    let by_id = json!({"input": "Hi", "conversation": {"id": "conv_1"}});
    assert!(session(Dialect::OpenAiResponses, &[], &by_id).agent.is_some());
}

#[test]
fn a_conversation_without_an_id_is_known_by_what_was_said() {
    let unit = |hash: u64| ContentUnit {
        hash,
        kind: if hash.is_multiple_of(3) { UnitKind::Answer } else { UnitKind::Other },
    };
    let (lineages, agent): (Lineages, AgentId) = (Lineages::default(), "openai:-:1".parse().unwrap());
    let talk: Vec<ContentUnit> = (1..5).map(unit).collect();
    lineages.remember("openai", &talk[..2], &agent);
    // What is said before the first answer is no proof: it may begin many conversations.
    assert_eq!(lineages.find("openai", &talk), None);
    lineages.remember("openai", &talk[..3], &agent);
    assert_eq!(lineages.find("openai", &talk), Some(agent.clone()));
    assert_eq!(lineages.find("openai", &talk[..2]), None);
    assert_eq!(lineages.find("anthropic", &talk), None);
    assert_eq!(lineages.find("openai", &[unit(9), unit(2), unit(3)]), None);
}
