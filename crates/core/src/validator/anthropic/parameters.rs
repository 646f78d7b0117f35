//! Checks parameters that some models refuse. Reports nothing if the model's version is unknown.

use serde_json::Value;

use super::{FORCED_TOOL, SAMPLING, THINKING_MODE};
use crate::validator::{
    findings::Findings,
    model::{Model, ModelVersion},
    request::{Object, RequestToCheck},
};

/// The first version that has neither manual thinking nor sampling parameters.
const ADAPTIVE_ONLY_FROM: ModelVersion = (4, 7);
/// The last version that has no adaptive thinking.
const MANUAL_ONLY_UP_TO: ModelVersion = (4, 5);
/// Model families whose thinking can't be disabled, each with the first such version.
const ALWAYS_THINKS: [(&str, ModelVersion); 3] = [("fable", (5, 0)), ("mythos", (5, 0)), ("opus", (5, 5))];
/// Model families that can't be forced to call a tool, each with the first such version.
const NEVER_FORCED: [(&str, ModelVersion); 3] = [("fable", (5, 1)), ("mythos", (5, 1)), ("opus", (5, 5))];
const SAMPLING_KEYS: [&str; 3] = ["temperature", "top_p", "top_k"];

pub(super) fn check(request: &RequestToCheck<'_>, findings: &mut Findings) {
    if let (Some(body), Some(version)) = (request.body(), request.model.claude()) {
        check_thinking(body, &request.model, version, findings);
        check_sampling(body, version, findings);
        let choice = body.get("tool_choice").map(|choice| &choice["type"]);
        let is_forced = choice.is_some_and(|choice| choice == "any" || choice == "tool");
        if is_forced && is_among(&NEVER_FORCED, &request.model, version) {
            let text = "tool_choice: `any` and `tool` are not supported on this model";
            findings.add_in_body(&FORCED_TOOL, "/tool_choice", text);
        }
    }
}

fn is_among(families: &[(&str, ModelVersion)], model: &Model, version: ModelVersion) -> bool {
    families.iter().any(|&(family, from)| model.is_of(family) && version >= from)
}

fn check_thinking(body: &Object, model: &Model, version: ModelVersion, findings: &mut Findings) {
    let mode = body.get("thinking").and_then(|thinking| thinking["type"].as_str());
    let text = match mode {
        Some("enabled") if version >= ADAPTIVE_ONLY_FROM => {
            "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
             \"output_config.effort\""
        }
        Some("adaptive") if version <= MANUAL_ONLY_UP_TO => {
            "adaptive thinking is not supported on this model"
        }
        Some("disabled") if is_among(&ALWAYS_THINKS, model, version) => {
            "thinking can't be disabled on this model"
        }
        _ => return,
    };
    findings.add_in_body(&THINKING_MODE, "/thinking", text);
}

fn check_sampling(body: &Object, version: ModelVersion, findings: &mut Findings) {
    let is_set = |key: &str| body.get(key).is_some_and(|value| *value != Value::Null);
    for key in SAMPLING_KEYS {
        if version >= ADAPTIVE_ONLY_FROM && is_set(key) {
            let text = format!("{key}: Extra inputs are not permitted");
            findings.add_in_body(&SAMPLING, &format!("/{key}"), text);
        }
    }
}
