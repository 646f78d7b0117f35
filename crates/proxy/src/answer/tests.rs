use serde_json::{Value, json};

use super::*;
use crate::reply;

fn text() -> CompactReply {
    CompactReply {
        summary_version: 17,
        text: "# Where Things Stand\n\n- CopyReceiver: the parser".to_owned(),
        tokens: 9,
        unquoted: 0,
    }
}

fn claude(last: &str, class: RequestClass) -> Option<Compaction> {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "Fix it"}, {"role": "assistant", "content": "CopyReceiver."}, {"role": "user", "content": [{"type": "text", "text": last}]}]});
    compaction(
        Dialect::Anthropic,
        EndpointKind::Conversation(Dialect::Anthropic),
        class,
        body.to_string().as_bytes(),
    )
}

#[test]
fn claudes_order_is_recognised_by_its_header_or_its_words() {
    let order = "Your task is to create a detailed summary of the conversation so far. Wrap your analysis in <analysis> tags and the summary in <summary>.";
    let found = claude(order, RequestClass::Turn).unwrap();
    let kept: Value = serde_json::from_slice(&found.conversation).unwrap();
    assert_eq!(kept["messages"].as_array().unwrap().len(), 2);
    assert!(claude("Summarise.", RequestClass::Compaction).is_some());
    assert_eq!(claude("Please create a detailed summary of README.", RequestClass::Turn), None);
    let instructed = format!("{order}\n\nAdditional Instructions:\nKeep the SQL.");
    assert_eq!(claude(&instructed, RequestClass::Compaction), None);
}

#[test]
fn claudes_answer_is_read_like_a_models() {
    for stream in [true, false] {
        let answer =
            claude::answer(&text(), json!({"model": "m", "stream": stream}).to_string().as_bytes()).unwrap();
        let messages =
            reply::messages(Dialect::Anthropic, answer.content_type, answer.body.as_bytes()).unwrap();
        let said = messages["messages"][0]["content"][0]["text"].as_str().unwrap();
        let summary = said.split_once("<summary>").unwrap().1.split_once("</summary>").unwrap().0;
        assert_eq!(summary.trim(), text().text);
    }
}

#[test]
fn codex_gets_a_capsule_that_opens_again() {
    let request = |items: Value| json!({"model": "m", "stream": true, "input": items, "store": false});
    let hello =
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]});
    let body = request(json!([hello, {"type": "compaction_trigger"}])).to_string();
    let endpoint = EndpointKind::Conversation(Dialect::OpenAiResponses);
    let found = compaction(Dialect::OpenAiResponses, endpoint, RequestClass::Turn, body.as_bytes()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&found.conversation).unwrap(), json!({"input": [hello]}));

    let agent: AgentId = "codex:-:1".parse().unwrap();
    let key = CapsuleKey(Some("secret".into()));
    let answer = codex::answer(&text(), &agent, &key, false, body.as_bytes()).unwrap();
    let items =
        reply::messages(Dialect::OpenAiResponses, answer.content_type, answer.body.as_bytes()).unwrap();
    let item = &items["input"][0];
    assert_eq!((item["type"].as_str(), items["input"].as_array().unwrap().len()), (Some("compaction"), 1));
    assert!(item["id"].as_str().unwrap().starts_with("cmp_"));

    // The capsule comes back with the next request, and is forwarded as a message. Everything else keeps its bytes.
    let foreign = json!({"type": "compaction", "encrypted_content": "gAAA"});
    let next = format!("{{ \"z\": 1.0,\"input\":[ {hello} , {item},{foreign}] ,\"a\":[]}}");
    let expand = |request: &str, key: &CapsuleKey| {
        let expanded = expand_capsules(Dialect::OpenAiResponses, request.as_bytes(), key)?;
        Some(String::from_utf8(expanded).unwrap())
    };
    let expanded = expand(&next, &key).unwrap();
    assert!(!expanded.contains("recapd1."), "{expanded}");
    let (before, after) = expanded.split_once(r#"{"content":[{"text":"The earlier"#).unwrap();
    assert!(next.starts_with(before) && next.ends_with(after.split_once(r#""type":"message"}"#).unwrap().1));
    assert!(expanded.contains("CopyReceiver: the parser"));
    assert_eq!(expand(&request(json!([foreign])).to_string(), &key), None);
    // Whoever doesn't know the token can't speak as the developer.
    assert!(expanded.contains(r#""role":"developer""#), "{expanded}");
    let unknown = expand(&next, &CapsuleKey::default()).unwrap();
    assert_eq!(unknown, expanded.replace(r#""role":"developer""#, r#""role":"user""#));
}
