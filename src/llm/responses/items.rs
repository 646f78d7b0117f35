//! A chat history as items, because OpenAI counts only these.

use serde_json::{Map, Value, json};

/// A request in the shape of chat completions, as one in the shape of Responses: for counting, so what costs no tokens
/// is left out.
pub(in crate::llm) fn from_chat(chat: &Value) -> Value {
    let messages = chat["messages"].as_array().into_iter().flatten();
    let mut request = Map::new();
    request.insert("input".to_owned(), messages.flat_map(items).collect());
    for field in ["model", "parallel_tool_calls"] {
        if let Some(value) = chat.get(field) {
            request.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(tools) = chat["tools"].as_array() {
        let tools = tools.iter().map(|tool| unwrapped(tool, "function"));
        request.insert("tools".to_owned(), tools.collect());
    }
    match &chat["tool_choice"] {
        Value::Null => {}
        choice => {
            request.insert("tool_choice".to_owned(), unwrapped(choice, "function"));
        }
    }
    match &chat["response_format"] {
        Value::Null => {}
        format => {
            let format = unwrapped(format, "json_schema");
            request.insert("text".to_owned(), json!({"format": format}));
        }
    }
    Value::Object(request)
}

/// `{"type": T, "name": {fields}}` as `{"type": T, fields}`.
fn unwrapped(value: &Value, name: &str) -> Value {
    let Some(inner) = value[name].as_object() else {
        return value.clone();
    };
    let mut flat = inner.clone();
    flat.insert("type".to_owned(), value["type"].clone());
    Value::Object(flat)
}

fn items(message: &Value) -> Vec<Value> {
    let role = message["role"].as_str().unwrap_or("user");
    if role == "tool" {
        let output = content(&message["content"], "input_text");
        return vec![
            json!({"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}),
        ];
    }
    let kind = if role == "assistant" {
        "output_text"
    } else {
        "input_text"
    };
    let mut items = Vec::new();
    if message["content"].is_string() || message["content"].is_array() {
        items.push(json!({"type": "message", "role": role, "content": content(&message["content"], kind)}));
    }
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    items.extend(calls.map(|call| {
        let function = &call["function"];
        json!({"type": "function_call", "call_id": call["id"], "name": function["name"],
               "arguments": function["arguments"]})
    }));
    items
}

/// Text stays text; of parts each becomes what it is called here.
fn content(content: &Value, text_kind: &str) -> Value {
    let Some(parts) = content.as_array() else {
        return content.clone();
    };
    let part = |part: &Value| match part["type"].as_str() {
        Some("text") => json!({"type": text_kind, "text": part["text"]}),
        Some("image_url") => {
            let detail = part["image_url"]["detail"].as_str().unwrap_or("auto");
            json!({"type": "input_image", "image_url": part["image_url"]["url"], "detail": detail})
        }
        Some("file") => {
            let mut file = part["file"].as_object().cloned().unwrap_or_default();
            file.insert("type".to_owned(), "input_file".into());
            Value::Object(file)
        }
        _ => part.clone(),
    };
    parts.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_message_has_its_item() {
        let chat = json!({
            "model": "gpt-5",
            "max_completion_tokens": 10,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [
                    {"type": "text", "text": "What is it?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                ]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
                {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
            ],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
            "tool_choice": "auto",
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {}}},
        });
        assert_eq!(
            from_chat(&chat),
            json!({
                "model": "gpt-5",
                "input": [
                    {"type": "message", "role": "system", "content": "Be brief."},
                    {"type": "message", "role": "user", "content": [
                        {"type": "input_text", "text": "What is it?"},
                        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
                    ]},
                    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A cat."}]},
                ],
                "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
                "tool_choice": "auto",
                "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {}}},
            })
        );
    }
}
