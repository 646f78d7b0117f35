//! OpenAI's batches, for chat completions and Responses. Questions are uploaded as a file of lines, and results are files, too.

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::OpenAiChat;
use crate::{
    batch::{BatchCall, BatchStatus, FinishedBatch, Results},
    remote::{
        Protocol,
        batch::{BatchProtocol, Outcome},
    },
    responses::Responses,
};
use recapd_core::domain::{
    batch::ListedBatch,
    time::{SECOND_MS, Timestamp},
};

const BATCHES: &str = "/batches";
const FILES: &str = "/files";
/// The metadata key for a batch's name.
const NAME: &str = "recapd_batch";

#[derive(Serialize)]
struct BatchLine<'a> {
    custom_id: &'a str,
    method: &'static str,
    url: &'a str,
    body: Box<RawValue>,
}

/// Returns the endpoint of the questions, with the API's version of the base URL.
fn url(protocol: &impl Protocol) -> String {
    format!("/v1{}", protocol.path(""))
}

fn lines(url: &str, calls: &[BatchCall]) -> serde_json::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for call in calls {
        let line = BatchLine {
            custom_id: &call.key,
            method: "POST",
            url,
            body: RawValue::from_string(call.body.clone())?,
        };
        serde_json::to_writer(&mut lines, &line)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

fn create(url: &str, name: &str, file: Option<&str>) -> (String, Vec<u8>) {
    let body = json!({
        "input_file_id": file, "endpoint": url, "completion_window": "24h", "metadata": {NAME: name},
    });
    (BATCHES.to_owned(), body.to_string().into_bytes())
}

fn list(after: Option<&str>) -> String {
    match after {
        Some(after) => format!("{BATCHES}?limit=100&after={after}"),
        None => format!("{BATCHES}?limit=100"),
    }
}

fn read_list(page: &Value) -> (Vec<ListedBatch>, Option<String>) {
    let batches = page["data"].as_array().into_iter().flatten();
    let listed = |batch: &Value| {
        Some(ListedBatch {
            id: batch["id"].as_str()?.to_owned(),
            // A batch without a name isn't recapd's.
            name: Some(batch["metadata"][NAME].as_str().unwrap_or_default().to_owned()),
            requests: batch["request_counts"]["total"].as_i64(),
            created_at: batch["created_at"]
                .as_i64()
                .map(|seconds| Timestamp(seconds.saturating_mul(SECOND_MS))),
        })
    };
    let next = page["last_id"].as_str().filter(|_| page["has_more"] == true);
    (batches.filter_map(listed).collect(), next.map(str::to_owned))
}

fn read_batch(batch: &Value) -> Option<BatchStatus> {
    let otherwise = match batch["status"].as_str()? {
        "completed" => "missing",
        "failed" => "provider_invalid_request",
        "expired" => "expired",
        "cancelled" => "canceled",
        _ => return Some(BatchStatus::Running),
    };
    let files = ["output_file_id", "error_file_id"].map(|file| batch[file].as_str());
    let files = files.into_iter().flatten().filter(|id| is_plain(id));
    Some(BatchStatus::Ended(FinishedBatch {
        results: files.map(|id| Results::At(format!("{FILES}/{id}/content"))).collect(),
        otherwise,
    }))
}

fn is_plain(id: &str) -> bool {
    id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn read_result(line: &Value) -> Option<(String, Outcome)> {
    let (response, error) = (&line["response"], &line["error"]);
    let status = response["status_code"].as_u64().and_then(|status| u16::try_from(status).ok());
    let outcome = if error["code"] == "batch_expired" {
        Outcome::None("expired")
    } else if error["code"] == "batch_cancelled" {
        Outcome::None("canceled")
    } else if error.is_object() {
        Outcome::Error(None, json!({"error": error}))
    } else if status.is_some_and(|status| (200..300).contains(&status)) {
        Outcome::Body(response["body"].clone())
    } else {
        Outcome::Error(status, response["body"].clone())
    };
    Some((line["custom_id"].as_str()?.to_owned(), outcome))
}

/// Implements batches for both of OpenAI's APIs.
macro_rules! openai_batches {
    ($($protocol:ty),+) => {
        $(impl BatchProtocol for $protocol {
            fn upload(&self, calls: &[BatchCall]) -> serde_json::Result<Option<(&'static str, Vec<u8>)>> {
                Ok(Some((FILES, lines(&url(self), calls)?)))
            }

            fn create(
                &self,
                _: &str,
                name: &str,
                _: &[BatchCall],
                file: Option<&str>,
            ) -> serde_json::Result<(String, Vec<u8>)> {
                Ok(create(&url(self), name, file))
            }

            fn list(&self, after: Option<&str>) -> String {
                list(after)
            }

            fn read_list(&self, page: &Value) -> (Vec<ListedBatch>, Option<String>) {
                read_list(page)
            }

            fn path_of(&self, id: &str) -> String {
                format!("{BATCHES}/{id}")
            }

            fn read_id(&self, created: &Value) -> Option<String> {
                created["id"].as_str().map(str::to_owned)
            }

            fn read_batch(&self, _: &str, batch: &Value) -> Option<BatchStatus> {
                read_batch(batch)
            }

            fn read_result(&self, result: &Value) -> Option<(String, Outcome)> {
                read_result(result)
            }
        })+
    };
}

openai_batches!(OpenAiChat, Responses);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_lines_of_a_file() {
        let calls =
            ["a", "b"].map(|key| BatchCall { key: key.to_owned(), body: r#"{"model":"m"}"#.to_owned() });
        let (path, lines) = Responses.upload(&calls).unwrap().unwrap();
        assert_eq!(path, "/files");
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/responses\",\"body\":{\"model\":\"m\"}}\n\
             {\"custom_id\":\"b\",\"method\":\"POST\",\"url\":\"/v1/responses\",\"body\":{\"model\":\"m\"}}\n"
        );
        assert_eq!(url(&OpenAiChat::default()), "/v1/chat/completions");
    }

    #[test]
    fn an_expired_batch_keeps_results_done_in_time() {
        let batch = json!({"status": "expired", "output_file_id": "file-1", "error_file_id": null});
        let Some(BatchStatus::Ended(ended)) = read_batch(&batch) else { unreachable!("it ended") };
        assert_eq!(ended.results, [Results::At("/files/file-1/content".to_owned())]);
        assert_eq!(ended.otherwise, "expired");
        for status in ["validating", "in_progress", "finalizing", "cancelling"] {
            assert_eq!(read_batch(&json!({"status": status})), Some(BatchStatus::Running));
        }
    }

    #[test]
    fn results_tell_answers_from_errors() {
        for (line, expected) in [
            (
                json!({"custom_id": "k", "response": {"status_code": 200, "body": {"x": 1}}, "error": null}),
                Outcome::Body(json!({"x": 1})),
            ),
            (
                json!({"custom_id": "k", "response": {"status_code": 400, "body": {"error": {}}}, "error": null}),
                Outcome::Error(Some(400), json!({"error": {}})),
            ),
            (
                json!({"custom_id": "k", "response": null, "error": {"code": "batch_expired", "message": "m"}}),
                Outcome::None("expired"),
            ),
        ] {
            assert_eq!(read_result(&line), Some(("k".to_owned(), expected)));
        }
    }
}
