//! stub
pub mod labels {
    #[derive(Clone, Copy)]
    pub enum Method {
        Get,
        Head,
        Post,
        Put,
        Patch,
        Delete,
        Other,
    }
    impl Method {
        pub fn from_name(_: &str) -> Option<Self> {
            None
        }
    }
    #[derive(Clone, Copy)]
    pub enum ReadVia {
        Http,
    }
    #[derive(Clone, Copy)]
    pub enum ReadResult {
        Hit,
        NotModified,
        Empty,
        Stale,
        Unavailable,
    }
}
#[derive(Clone, Default)]
pub struct Service;
impl Service {
    pub fn route(&self, _: &str, _: labels::Method) {}
    pub fn answered(&self, _: &str, _: labels::Method, _: u16, _: std::time::Duration) {}
}
#[derive(Clone, Default)]
pub struct Documents;
impl Documents {
    pub fn read(&self, _: labels::ReadVia, _: labels::ReadResult, _: std::time::Duration) {}
}
#[derive(Clone, Default)]
pub struct Metrics {
    pub service: Service,
    pub documents: Documents,
}
impl Metrics {
    pub fn encode(&self, accept: Option<&str>) -> (&'static str, String) {
        if accept.is_some_and(|accept| accept.contains("application/openmetrics-text")) {
            (
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                "# EOF\n".to_owned(),
            )
        } else {
            ("text/plain; version=0.0.4; charset=utf-8", String::new())
        }
    }
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
