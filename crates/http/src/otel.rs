//! Export of spans to a collector, over OTLP/HTTP with protobuf.
//!
//! The variables are those of OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT` (or
//! `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`), `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME` and
//! those of the batches. Spans are sent in the background; if the collector is slow or away, they
//! are dropped, and nothing waits for it.

mod client;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use client::Client;

/// The variables that name the collector, and what is added to them.
const ENDPOINTS: [(&str, &str); 2] =
    [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_ENDPOINT", "/v1/traces")];

/// The variable that names the service.
const SERVICE: &str = "OTEL_SERVICE_NAME";

/// Exports the spans of this process. Dropping it sends what is left.
#[derive(Debug)]
pub struct SpanExport {
    provider: SdkTracerProvider,
}

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[error("spans cannot be exported to {endpoint:?}: {problem}")]
pub struct ExportError {
    endpoint: String,
    problem: String,
}

impl SpanExport {
    /// Exports to the collector that the environment names; `None` if it names none.
    ///
    /// Call it in a runtime: requests to the collector run there.
    ///
    /// # Errors
    /// If the URL, or another variable of OpenTelemetry, is not valid.
    pub fn from_environment() -> Result<Option<Self>, ExportError> {
        let named = ENDPOINTS.into_iter().find_map(|(variable, path)| {
            let endpoint = std::env::var(variable).ok().filter(|endpoint| !endpoint.is_empty())?;
            Some(format!("{}{path}", endpoint.trim_end_matches('/')))
        });
        named.map(|endpoint| Self::to(&endpoint)).transpose()
    }

    /// Exports to the collector at this URL, with its path: `http://localhost:4318/v1/traces`.
    ///
    /// Call it in a runtime: requests to the collector run there.
    ///
    /// # Errors
    /// If the URL, or a variable of OpenTelemetry, is not valid.
    pub fn to(endpoint: &str) -> Result<Self, ExportError> {
        let failed = |problem: String| ExportError { endpoint: endpoint.to_owned(), problem };
        let client = Client::begin(endpoint).map_err(failed)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let name = std::env::var(SERVICE).ok().filter(|name| !name.is_empty());
        let resource =
            Resource::builder().with_service_name(name.unwrap_or_else(|| "tidelock".to_owned()));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Self { provider })
    }

    /// Returns the layer of `tracing` that records spans: those of Tidelock from the level `debug`
    /// on, and others from `info` on.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'s> LookupSpan<'s> + Send + Sync,
    {
        let tracer = self.provider.tracer("tidelock");
        tracing_opentelemetry::layer().with_tracer(tracer).with_filter(filter_fn(is_exported))
    }
}

/// Whether a span or an event is exported. A lease is a span of the log; in a trace, its work is.
fn is_exported(of: &Metadata<'_>) -> bool {
    let is_ours = of.target().starts_with("tidelock");
    let level = if is_ours { Level::DEBUG } else { Level::INFO };
    *of.level() <= level && !(is_ours && of.is_span() && of.name() == "work")
}

impl Drop for SpanExport {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}
