//! Message Batches. They have no name, so a batch whose id isn't known is recognised by its time and size.

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::Anthropic;
use crate::{
    batch::{BatchCall, BatchStatus, FinishedBatch, Results},
    remote::batch::{BatchProtocol, Outcome},
};
use recapd_core::domain::{batch::ListedBatch, time::Timestamp};

const BATCHES: &str = "/messages/batches";

#[derive(Serialize)]
struct CreateBatch<'a> {
    requests: Vec<BatchEntry<'a>>,
}

#[derive(Serialize)]
struct BatchEntry<'a> {
    custom_id: &'a str,
    params: &'a RawValue,
}

impl BatchProtocol for Anthropic {
    fn create(
        &self,
        _: &str,
        _: &str,
        calls: &[BatchCall],
        _: Option<&str>,
    ) -> serde_json::Result<(String, Vec<u8>)> {
        let request = |call: &'_ BatchCall| -> serde_json::Result<Box<RawValue>> {
            RawValue::from_string(call.body.clone())
        };
        let bodies: Vec<Box<RawValue>> = calls.iter().map(request).collect::<Result<_, _>>()?;
        let requests =
            calls.iter().zip(&bodies).map(|(call, body)| BatchEntry { custom_id: &call.key, params: body });
        let create = CreateBatch { requests: requests.collect() };
        Ok((BATCHES.to_owned(), serde_json::to_vec(&create)?))
    }

    fn list(&self, after: Option<&str>) -> String {
        match after {
            Some(after) => format!("{BATCHES}?limit=100&after_id={after}"),
            None => format!("{BATCHES}?limit=100"),
        }
    }

    fn read_list(&self, page: &Value) -> (Vec<ListedBatch>, Option<String>) {
        let batches = page["data"].as_array().into_iter().flatten();
        let listed = |batch: &Value| {
            let counts = batch["request_counts"].as_object();
            let requests = counts.map(|counts| counts.values().filter_map(Value::as_i64).sum());
            Some(ListedBatch {
                id: batch["id"].as_str()?.to_owned(),
                name: None,
                requests,
                created_at: batch["created_at"].as_str().and_then(Timestamp::parse),
            })
        };
        let next = page["last_id"].as_str().filter(|_| page["has_more"] == true);
        (batches.filter_map(listed).collect(), next.map(str::to_owned))
    }

    fn path_of(&self, id: &str) -> String {
        format!("{BATCHES}/{id}")
    }

    fn read_id(&self, created: &Value) -> Option<String> {
        created["id"].as_str().map(str::to_owned)
    }

    /// Reads a batch. Ignores the URL of the results, because the key may only go to the host for which it was configured.
    fn read_batch(&self, id: &str, batch: &Value) -> Option<BatchStatus> {
        Some(match batch["processing_status"].as_str()? {
            "ended" => BatchStatus::Ended(FinishedBatch {
                results: vec![Results::At(format!("{BATCHES}/{id}/results"))],
                otherwise: "missing",
            }),
            _ => BatchStatus::Running,
        })
    }

    fn read_result(&self, line: &Value) -> Option<(String, Outcome)> {
        let result = &line["result"];
        let outcome = match result["type"].as_str()? {
            "succeeded" => Outcome::Body(result["message"].clone()),
            "errored" => Outcome::Error(None, result["error"].clone()),
            "canceled" => Outcome::None("canceled"),
            "expired" => Outcome::None("expired"),
            _ => Outcome::None("missing"),
        };
        Some((line["custom_id"].as_str()?.to_owned(), outcome))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn questions_carry_their_keys() {
        let call = BatchCall { key: "k".to_owned(), body: r#"{"model":"m","max_tokens":1}"#.to_owned() };
        let (path, body) = Anthropic.create("m", "n", &[call], None).unwrap();
        assert_eq!(path, "/messages/batches");
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"requests":[{"custom_id":"k","params":{"model":"m","max_tokens":1}}]}"#
        );
    }

    #[test]
    fn lists_are_read_page_by_page() {
        let page = json!({
            "data": [{"id": "msgbatch_1", "created_at": "2026-11-20T08:00:00Z",
                      "request_counts": {"processing": 1, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0}}],
            "has_more": true, "first_id": "msgbatch_1", "last_id": "msgbatch_1",
        });
        let (listed, next) = Anthropic.read_list(&page);
        assert_eq!((listed[0].requests, listed[0].name.clone()), (Some(3), None));
        assert_eq!(listed[0].created_at, Timestamp::parse("2026-11-20T08:00:00Z"));
        let list = Anthropic.list(next.as_deref());
        assert_eq!(list, "/messages/batches?limit=100&after_id=msgbatch_1");
    }
}
