//! Gemini's batches. The call that creates a batch contains the questions, and the call that reads its state contains the results.

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::{Gemini, bare};
use crate::{
    batch::{BatchCall, BatchStatus, FinishedBatch, Results},
    remote::batch::{BatchProtocol, Outcome},
};
use recapd_core::domain::{batch::ListedBatch, time::Timestamp};

#[derive(Serialize)]
struct CreateBatch<'a> {
    batch: GeminiBatch<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiBatch<'a> {
    display_name: &'a str,
    input_config: InputConfig<'a>,
}

#[derive(Serialize)]
struct InputConfig<'a> {
    requests: Requests<'a>,
}

#[derive(Serialize)]
struct Requests<'a> {
    requests: Vec<BatchEntry<'a>>,
}

#[derive(Serialize)]
struct BatchEntry<'a> {
    request: Box<RawValue>,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    key: &'a str,
}

impl BatchProtocol for Gemini {
    fn create(
        &self,
        model: &str,
        name: &str,
        calls: &[BatchCall],
        _: Option<&str>,
    ) -> serde_json::Result<(String, Vec<u8>)> {
        let request = |call: &'_ BatchCall| RawValue::from_string(call.body.clone());
        let requests = calls
            .iter()
            .map(|call| Ok(BatchEntry { request: request(call)?, metadata: Metadata { key: &call.key } }));
        let create = CreateBatch {
            batch: GeminiBatch {
                display_name: name,
                input_config: InputConfig {
                    requests: Requests { requests: requests.collect::<serde_json::Result<_>>()? },
                },
            },
        };
        let path = format!("/models/{}:batchGenerateContent", bare(model));
        Ok((path, serde_json::to_vec(&create)?))
    }

    fn list(&self, after: Option<&str>) -> String {
        match after {
            Some(after) => format!("/batches?pageSize=100&pageToken={after}"),
            None => "/batches?pageSize=100".to_owned(),
        }
    }

    fn read_list(&self, page: &Value) -> (Vec<ListedBatch>, Option<String>) {
        let batches = page["operations"].as_array().into_iter().flatten();
        let listed = |operation: &Value| {
            let batch = &operation["metadata"];
            Some(ListedBatch {
                id: operation["name"].as_str()?.to_owned(),
                name: Some(batch["displayName"].as_str().unwrap_or_default().to_owned()),
                requests: None,
                created_at: batch["createTime"].as_str().and_then(Timestamp::parse),
            })
        };
        let next = page["nextPageToken"].as_str().filter(|token| !token.is_empty());
        (batches.filter_map(listed).collect(), next.map(str::to_owned))
    }

    /// The id is an operation's name with its folder, such as `batches/123`.
    fn path_of(&self, id: &str) -> String {
        format!("/{id}")
    }

    fn read_id(&self, created: &Value) -> Option<String> {
        created["name"].as_str().map(str::to_owned)
    }

    fn read_batch(&self, _: &str, operation: &Value) -> Option<BatchStatus> {
        let state = operation["metadata"]["state"].as_str().unwrap_or_default();
        let state = state.strip_prefix("BATCH_STATE_").or(state.strip_prefix("JOB_STATE_"));
        let otherwise = match state {
            Some("SUCCEEDED" | "PARTIALLY_SUCCEEDED") => "missing",
            Some("FAILED") => "provider_server",
            Some("CANCELLED") => "canceled",
            Some("EXPIRED") => "expired",
            _ if operation["done"] == true => "missing",
            _ if operation["name"].is_string() => return Some(BatchStatus::Running),
            _ => return None,
        };
        let outputs = [&operation["metadata"]["output"], &operation["response"]];
        let results =
            outputs.into_iter().find_map(|output| output["inlinedResponses"]["inlinedResponses"].as_array());
        Some(BatchStatus::Ended(FinishedBatch {
            results: results.map(|lines| Results::Here(lines.clone())).into_iter().collect(),
            otherwise,
        }))
    }

    /// Reads a result. Ignores one without a key, because the order isn't guaranteed.
    fn read_result(&self, result: &Value) -> Option<(String, Outcome)> {
        let key = result["metadata"]["key"].as_str()?.to_owned();
        let outcome = if result["response"].is_object() {
            Outcome::Body(result["response"].clone())
        } else if result["error"].is_object() {
            let error = serde_json::json!({"error": result["error"]});
            Outcome::Error(status_of(&result["error"]), error)
        } else {
            Outcome::None("missing")
        };
        Some((key, outcome))
    }
}

/// Maps a `google.rpc.Status`, whose codes are gRPC's, to an HTTP status.
fn status_of(error: &Value) -> Option<u16> {
    Some(match error["code"].as_i64()? {
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        7 => 403,
        8 => 429,
        16 => 401,
        14 => 503,
        code @ 400..=599 => u16::try_from(code).ok()?,
        _ => 500,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questions_carry_their_keys() {
        let call = BatchCall { key: "k".to_owned(), body: r#"{"contents":[]}"#.to_owned() };
        let (path, body) = Gemini.create("models/m", "recapd-1", &[call], None).unwrap();
        assert_eq!(path, "/models/m:batchGenerateContent");
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"batch":{"displayName":"recapd-1","inputConfig":{"requests":{"requests":[{"request":{"contents":[]},"metadata":{"key":"k"}}]}}}}"#
        );
    }

    #[test]
    fn results_are_read_from_either_place() {
        let lines =
            json!({"inlinedResponses": {"inlinedResponses": [{"metadata": {"key": "k"}, "response": {}}]}});
        for operation in [
            json!({"name": "batches/1", "done": true, "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": lines}}),
            json!({"name": "batches/1", "done": true, "metadata": {"state": "JOB_STATE_SUCCEEDED"}, "response": lines}),
        ] {
            let Some(BatchStatus::Ended(ended)) = Gemini.read_batch("batches/1", &operation) else {
                unreachable!("it ended")
            };
            let [Results::Here(lines)] = &ended.results[..] else { unreachable!("they are here") };
            assert_eq!(Gemini.read_result(&lines[0]), Some(("k".to_owned(), Outcome::Body(json!({})))));
        }
        let expired =
            json!({"name": "batches/1", "done": true, "metadata": {"state": "BATCH_STATE_EXPIRED"}});
        assert_eq!(
            Gemini.read_batch("batches/1", &expired),
            Some(BatchStatus::Ended(FinishedBatch { results: Vec::new(), otherwise: "expired" }))
        );
        let running = json!({"name": "batches/1", "metadata": {"state": "BATCH_STATE_RUNNING"}});
        assert_eq!(Gemini.read_batch("batches/1", &running), Some(BatchStatus::Running));
        assert_eq!(Gemini.read_batch("batches/1", &json!({})), None);
    }
}
