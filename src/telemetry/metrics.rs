//! stub
#[derive(Clone, Default)]
pub struct Metrics;
impl Metrics {
    pub fn db_error(&self, _: &str) {}
    pub fn document_stored(&self, _: i64, _: &str, _: u64, _: i64) {}
    pub fn exchanges_evicted(&self, _: i64, _: i64) {}
    pub fn items_changed(&self, _: u64, _: u64) {}
    pub fn lease_renewals(&self, _: &str, _: u64) {}
    pub fn leases_expired(&self, _: u64) {}
    pub fn message_ingested(&self, _: &str, _: i64) {}
    pub fn provider_called(&self, _: &str, _: &str, _: i64, _: Option<&str>) {}
    pub fn provider_tokens(&self, _: &str, _: &str, _: i64, _: i64) {}
    pub fn retries_exhausted(&self) {}
    pub fn truncated(&self, _: i64) {}
    pub fn update_coalesced(&self) {}
    pub fn update_ended(&self, _: &str) {}
    pub fn update_failed(&self, _: &str) {}
    pub fn update_queued(&self, _: &str) {}
    pub fn update_started(&self) {}
    pub fn window_checked(&self, _: i64, _: i64) {}
    pub fn queue_rows_repaired(&self, _: u64) {}
    pub fn aging_run(&self, _: bool, _: crate::domain::time::Timestamp) {}
    pub fn sampled(&self, _: &crate::store::Sample, _: crate::domain::time::Timestamp, _: i64) {}
}
