//! Records and exports traces, if they are configured.

use std::convert::Infallible;

use crate::cli::exit::{CONFIGURATION, CommandFailure};
use recapd_config::{Environment, TraceConfig};
use recapd_platform::randomness;
use recapd_telemetry::{
    metrics::Metrics,
    trace::{self, Exporter, Spans, TraceSettings},
};

/// The recorder and the exporter of spans; both are `None` if traces are off.
#[derive(Default)]
pub(super) struct Traces {
    pub(super) spans: Option<Spans>,
    pub(super) exporter: Option<Exporter>,
    /// Why the settings in OpenTelemetry's environment variables can't be used.
    pub(super) off: Option<String>,
}

pub(super) fn of(config: &TraceConfig, environment: &Environment) -> Result<Traces, CommandFailure> {
    let config = match config.in_force(environment) {
        Ok(Some(config)) => config,
        Ok(None) => return Ok(Traces::default()),
        Err(reason) => {
            return Ok(Traces { off: Some(reason), ..Traces::default() });
        }
    };
    let settings = TraceSettings {
        url: config.otlp_url.clone(),
        headers: config.headers(environment)?,
        sample: config.sample,
        service: config.service_name.clone(),
        resource: config.resource(),
        gather_ms: config.gather_ms,
        seed: randomness::seed()?,
    };
    let (spans, exporter) = trace::traces(&settings)
        .map_err(|error| CommandFailure::new(CONFIGURATION, anyhow::anyhow!("[trace]: {error}")))?;
    Ok(Traces { spans: Some(spans), exporter: Some(exporter), off: None })
}

/// Exports spans as long as the returned future is polled.
pub(super) async fn export(exporter: Option<&mut Exporter>, metrics: &Metrics) -> Infallible {
    match exporter {
        Some(exporter) => exporter.run(metrics).await,
        None => std::future::pending().await,
    }
}
