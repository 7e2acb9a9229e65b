//! The exporter: a thread of its own that takes spans from the queue and reads the metrics, and
//! sends both to the collector.
//!
//! Promises: nothing here makes a request wait, because the thread shares only the queue with
//! requests. A collector that is down is tried again with growing pauses, while the queue fills and
//! further spans are dropped and counted. [`Exporter::stop`] sends what is left and returns within
//! [`STOP_TIMEOUT`].

use crate::collector::{Collector, Outcome};
use crate::metrics::{self, Period};
use crate::settings::Settings;
use crate::spans::{self, text};
use crate::wire::{
    KeyValue, MetricsRequest, Resource, ResourceMetrics, ResourceSpans, Scope, ScopeMetrics,
    ScopeSpans, TracesRequest,
};
use orrery_admin::{Components, metric_families};
use orrery_gateway::{Field, Log, LogLevel, RequestSpan, SpanCounters, SpanQueue};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Time for sending what is left when the server stops.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after the first failed export; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause, also if the collector asks for a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The parts of a server that are exported.
pub struct Sources {
    /// Engine and gateway.
    pub components: Arc<Components>,
    /// Spans of requests; `None` if only metrics are exported.
    pub spans: Option<SpanQueue>,
    /// Id of this process among those of the service.
    pub instance_id: String,
    /// Log of the server.
    pub log: Arc<Log>,
    /// Returns the nanoseconds since 1970.
    pub now_ns: fn() -> u64,
}

/// A running export.
pub struct Exporter {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

/// The export of spans.
struct SpanExport {
    collector: Collector,
    queue: SpanQueue,
    counters: Arc<SpanCounters>,
    resource: Resource,
    delay: Duration,
    batch_size: usize,
    /// Spans dropped or refused when the last export succeeded.
    lost_before: u64,
    has_told_drop: bool,
}

/// The export of metrics.
struct MetricExport {
    collector: Collector,
    components: Arc<Components>,
    resource: Resource,
    interval: Duration,
    start_ns: u64,
    now_ns: fn() -> u64,
}

impl Exporter {
    /// Starts the thread of the export.
    ///
    /// # Errors
    /// A description, if the certificates for HTTPS cannot be read or no thread can be started.
    pub fn start(settings: Settings, sources: Sources) -> Result<Self, String> {
        let Sources {
            components,
            spans: queue,
            instance_id,
            log,
            now_ns,
        } = sources;
        let resource = resource(&settings, instance_id);
        let span_export = match (settings.traces, queue) {
            (Some(target), Some(queue)) => Some(SpanExport {
                collector: Collector::new("spans", target, log.clone(), now_ns)?,
                queue,
                counters: components.gateway.metrics().spans.clone(),
                resource: resource.clone(),
                delay: settings.span_delay,
                batch_size: settings.span_batch,
                lost_before: 0,
                has_told_drop: false,
            }),
            _ => None,
        };
        let metric_export = match settings.metrics {
            Some(target) => Some(MetricExport {
                collector: Collector::new("metrics", target, log, now_ns)?,
                components,
                resource,
                interval: settings.metric_interval,
                start_ns: now_ns(),
                now_ns,
            }),
            None => None,
        };

        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        run_on_own_thread(async move {
            export(span_export, metric_export, stopped).await;
            // The receiver is gone if the server did not wait.
            let _ = end.send(());
        })?;
        Ok(Exporter { stop, ended })
    }

    /// Sends what is left and ends the export, in bounded time.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        // The thread ends by itself in this time; the second bound is for a thread that hangs.
        let _ = timeout(STOP_TIMEOUT + STOP_TIMEOUT / 2, self.ended).await;
    }
}

/// Runs `work` on a thread and a runtime of its own: the encoding of batches and the reading of
/// metrics never take a worker from requests.
fn run_on_own_thread(work: impl Future<Output = ()> + Send + 'static) -> Result<(), String> {
    let cannot = |error| format!("cannot start the OpenTelemetry export: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot)?;
    let thread = std::thread::Builder::new().name("telemetry".to_owned());
    let started = thread.spawn(move || {
        runtime.block_on(work);
        // The lookup of a host's name may hang on a thread of the runtime.
        runtime.shutdown_background();
    });
    started.map(drop).map_err(cannot)
}

/// Exports both signals until `stopped`, and what is left for [`STOP_TIMEOUT`].
async fn export(
    spans: Option<SpanExport>,
    metrics: Option<MetricExport>,
    stopped: watch::Receiver<bool>,
) {
    let mut is_stopped = stopped.clone();
    let both = async {
        tokio::join!(
            run_spans(spans, stopped.clone()),
            run_metrics(metrics, stopped.clone()),
        );
    };
    let out_of_time = async {
        wait_for(&mut is_stopped).await;
        sleep(STOP_TIMEOUT).await;
    };
    tokio::select! {
        () = both => {}
        () = out_of_time => {}
    }
}

/// Returns the resource that all exports name.
fn resource(settings: &Settings, instance_id: String) -> Resource {
    let mut attributes: Vec<KeyValue> = Vec::new();
    for (key, value) in &settings.resource {
        attributes.push(text(key, value.as_str()));
    }
    let version = env!("CARGO_PKG_VERSION");
    let own = [
        ("service.version", version.to_owned()),
        ("service.instance.id", instance_id),
        ("process.pid", std::process::id().to_string()),
        ("telemetry.sdk.name", "orrery".to_owned()),
        ("telemetry.sdk.language", "rust".to_owned()),
        ("telemetry.sdk.version", version.to_owned()),
    ];
    for (key, value) in own {
        // The user's attributes come first.
        if !attributes.iter().any(|known| known.key == key) {
            attributes.push(text(key, value));
        }
    }
    Resource { attributes }
}

fn scope() -> Option<Scope> {
    Some(Scope {
        name: "orrery".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Waits until the export is to end.
async fn wait_for(stopped: &mut watch::Receiver<bool>) {
    // An error means that the server dropped the exporter.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}

/// Sends spans until the export is to end, and then those that are left.
async fn run_spans(export: Option<SpanExport>, mut stopped: watch::Receiver<bool>) {
    let Some(mut export) = export else {
        return;
    };
    let mut batch = Vec::new();
    let mut is_running = true;
    while is_running {
        is_running = tokio::select! {
            () = export.fill(&mut batch) => true,
            () = wait_for(&mut stopped) => false,
        };
        if is_running && !batch.is_empty() {
            is_running = tokio::select! {
                () = export.send_until_taken(&mut batch) => true,
                () = wait_for(&mut stopped) => false,
            };
        }
    }
    export.send_rest(batch).await;
}

impl SpanExport {
    /// Waits for a span, and then for more until the batch is full or the delay is over. A call
    /// that is cancelled loses nothing: spans are in the queue or in the batch.
    async fn fill(&mut self, batch: &mut Vec<RequestSpan>) {
        if batch.is_empty() {
            let size = self.batch_size;
            if self.queue.recv_many(batch, size).await == 0 {
                // The gateway is gone; the end of the export comes from elsewhere.
                std::future::pending::<()>().await;
            }
        }
        let end = Instant::now() + self.delay;
        while batch.len() < self.batch_size {
            let room = self.batch_size - batch.len();
            match timeout_at(end, self.queue.recv_many(batch, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }

    /// Sends a batch again and again until the collector takes or refuses the batch.
    async fn send_until_taken(&mut self, batch: &mut Vec<RequestSpan>) {
        let request = self.request(batch);
        let mut pause = FIRST_PAUSE;
        loop {
            let after = match self.collector.send(&request).await {
                Outcome::Later { cause, after } => {
                    self.collector.tell_failure(&cause);
                    self.tell_drops();
                    after
                }
                outcome => {
                    self.count(outcome, batch.len() as u64);
                    batch.clear();
                    return;
                }
            };
            sleep(after.unwrap_or(pause).min(LONGEST_PAUSE)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Sends the batch and all spans in the queue, each batch once.
    async fn send_rest(mut self, mut batch: Vec<RequestSpan>) {
        self.queue.close();
        loop {
            while batch.len() < self.batch_size {
                match self.queue.try_recv() {
                    Ok(span) => batch.push(span),
                    Err(_) => break,
                }
            }
            if batch.is_empty() {
                return;
            }
            let request = self.request(&batch);
            let outcome = self.collector.send(&request).await;
            let is_down = matches!(outcome, Outcome::Later { .. });
            self.count(outcome, batch.len() as u64);
            batch.clear();
            // The other batches would fail too, and each could take the time of all.
            if is_down {
                let mut left = 0.0;
                while self.queue.try_recv().is_ok() {
                    self.counters.refused.add(1);
                    left += 1.0;
                }
                let message = "spans are lost, because the server stops and the OpenTelemetry \
                               collector does not take them";
                let fields = [("spans", Field::Number(left))];
                self.collector.write(LogLevel::Warn, message, &fields);
                return;
            }
        }
    }

    fn request(&self, batch: &[RequestSpan]) -> TracesRequest {
        TracesRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: scope(),
                    spans: batch.iter().map(spans::message).collect(),
                }],
            }],
        }
    }

    /// Counts the spans of a batch by the outcome of its export.
    fn count(&mut self, outcome: Outcome, spans: u64) {
        let rejected = match outcome {
            Outcome::Taken { rejected } => rejected.min(spans),
            Outcome::Later { .. } | Outcome::Refused { .. } => spans,
        };
        self.counters.exported.add(spans - rejected);
        self.counters.refused.add(rejected);
        match outcome {
            Outcome::Taken { rejected: 0 } => {
                let lost = self.counters.dropped.get() + self.counters.refused.get();
                self.collector.tell_success(Some(lost - self.lost_before));
                self.lost_before = lost;
                self.tell_drops();
            }
            Outcome::Taken { .. } => self.collector.tell_failure("it takes a part of the spans"),
            Outcome::Later { cause, .. } | Outcome::Refused { cause } => {
                self.collector.tell_failure(&cause);
            }
        }
    }

    /// Tells once that spans were dropped.
    fn tell_drops(&mut self) {
        let dropped = self.counters.dropped.get();
        if self.has_told_drop || dropped == 0 {
            return;
        }
        self.has_told_drop = true;
        let message = "the queue of spans is full, and spans are dropped; further ones are counted \
                       by orrery_trace_spans_total only";
        let fields = [("dropped", Field::Number(dropped as f64))];
        self.collector.write(LogLevel::Warn, message, &fields);
    }
}

/// Sends the metrics at intervals until the export is to end, and then once more.
async fn run_metrics(export: Option<MetricExport>, mut stopped: watch::Receiver<bool>) {
    let Some(mut export) = export else {
        return;
    };
    let mut next = Instant::now();
    let mut is_running = true;
    while is_running {
        next = (next + export.interval).max(Instant::now());
        is_running = tokio::select! {
            () = tokio::time::sleep_until(next) => true,
            () = wait_for(&mut stopped) => false,
        };
        // Sums are cumulative, so a failed export is made good by the next one.
        export.send().await;
    }
}

impl MetricExport {
    /// Reads all metrics and sends them once.
    async fn send(&mut self) {
        let families = match metric_families(&self.components) {
            Ok(families) => families,
            Err(error) => return self.collector.tell_failure(&error.cause_chain()),
        };
        let period = Period {
            start_ns: self.start_ns,
            now_ns: (self.now_ns)(),
        };
        // A metric without a sample says nothing.
        let families = families.iter().filter(|family| !family.samples.is_empty());
        let request = MetricsRequest {
            resource_metrics: vec![ResourceMetrics {
                resource: Some(self.resource.clone()),
                scope_metrics: vec![ScopeMetrics {
                    scope: scope(),
                    metrics: families.map(|one| metrics::message(one, period)).collect(),
                }],
            }],
        };
        match self.collector.send(&request).await {
            Outcome::Taken { rejected: 0 } => self.collector.tell_success(None),
            Outcome::Taken { .. } => {
                self.collector
                    .tell_failure("it takes a part of the metrics");
            }
            Outcome::Later { cause, .. } | Outcome::Refused { cause } => {
                self.collector.tell_failure(&cause);
            }
        }
    }
}
