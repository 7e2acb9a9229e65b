//! The export of traces and metrics by OpenTelemetry: from the arguments and the environment to the
//! running exporter.
//!
//! The settings are read before any file is created, so that a wrong address ends the start at
//! once. The recorder of spans belongs to the gateway, and the other end of its queue waits here
//! until the server is ready.

use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::failure::Failure;
use crate::world::now_ns;
use orrery_admin::Components;
use orrery_gateway::{LogLevel, SpanQueue, SpanRecorder};
use orrery_telemetry::{Exporter, Settings, Sources, Switches};
use std::sync::Arc;

/// The export of a server before it runs; without settings it is off.
#[derive(Default)]
pub(crate) struct Telemetry {
    settings: Option<Settings>,
    spans: Option<SpanQueue>,
}

impl Telemetry {
    /// Reads the settings of the export.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the option or variable.
    pub(crate) fn read(config: &ServerConfig) -> Result<Self, Failure> {
        let endpoint = config.otlp_endpoint.as_deref();
        let switches = Switches {
            endpoint: endpoint.map(|text| ("--otlp-endpoint", text)),
            is_on: config.emulator.as_ref().and_then(|emulator| emulator.otlp),
        };
        let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
        let settings = Settings::read(&switches, &variable).map_err(Failure::Usage)?;
        Ok(Telemetry {
            settings,
            spans: None,
        })
    }

    /// Returns the recorder of spans for the gateway; `None` if spans are not exported.
    pub(crate) fn recorder(&mut self) -> Option<SpanRecorder> {
        let settings = self.settings.as_ref()?;
        settings.traces.as_ref()?;
        let (recorder, spans) = SpanRecorder::new(settings.sampler, settings.span_queue, now_ns);
        self.spans = Some(spans);
        Some(recorder)
    }

    /// Starts the export; `None` if it is off.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the certificates for HTTPS cannot be read.
    pub(crate) fn start(
        self,
        components: Components,
        context: &ServerContext,
    ) -> Result<Option<Exporter>, Failure> {
        let Some(settings) = self.settings else {
            return Ok(None);
        };
        for note in &settings.notes {
            context.log(LogLevel::Warn, note);
        }
        let signals = [("traces", &settings.traces), ("metrics", &settings.metrics)];
        for (signal, target) in signals {
            if let Some(target) = target {
                let message = format!("{signal} are sent to {} by OpenTelemetry", target.uri);
                context.log(LogLevel::Info, &message);
            }
        }
        let (high, low) = (context.world.random(), context.world.random());
        let sources = Sources {
            components: Arc::new(components),
            spans: self.spans,
            instance_id: format!("{high:016x}{low:016x}"),
            log: context.log.clone(),
            now_ns,
        };
        let exporter = Exporter::start(settings, sources).map_err(Failure::Failed)?;
        Ok(Some(exporter))
    }
}
