//! The settings of the export: the option of the server and the standard variables of
//! OpenTelemetry.
//!
//! A variable that is empty counts as missing, as the specification says. A value that cannot be
//! used ends the start with its name, except for those that the specification lets a program pass
//! over; these become notes for the log.
//!
//! Variables of one signal come before the general ones, for example
//! `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` before `OTEL_EXPORTER_OTLP_ENDPOINT`, and
//! `OTEL_EXPORTER_OTLP_TRACES_HEADERS` before `OTEL_EXPORTER_OTLP_HEADERS`. The names are put
//! together from the signal and the end; among the ends are those of
//! `OTEL_EXPORTER_OTLP_CERTIFICATE` and `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`. Samplers are
//! `parentbased_always_on`, `parentbased_always_off`, `parentbased_traceidratio`, and the same
//! without the first word.

use http::{HeaderName, HeaderValue, Uri};
use orrery_client::Trust;
use orrery_gateway::SpanSampler;
use percent_encoding::percent_decode_str;
use std::path::PathBuf;
use std::time::Duration;

/// The address of a collector on this machine, which OpenTelemetry gives to programs without a
/// setting.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// The largest duration of a setting: one day.
const DURATION_MS_MAX: u64 = 86_400_000;
/// The largest number of spans in the queue.
const QUEUE_MAX: usize = 1_000_000;

/// The settings of an export that is switched on.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Export of spans; `None` if it is off.
    pub traces: Option<Target>,
    /// Export of metrics; `None` if it is off.
    pub metrics: Option<Target>,
    /// Decision which requests are recorded.
    pub sampler: SpanSampler,
    /// Attributes of the resource, the service's name first; later ones do not repeat a key.
    pub resource: Vec<(String, String)>,
    /// Time between two exports of metrics.
    pub metric_interval: Duration,
    /// Longest time that a span waits in the queue for others.
    pub span_delay: Duration,
    /// Spans in the queue at most.
    pub span_queue: usize,
    /// Spans of one export at most.
    pub span_batch: usize,
    /// Lines for the log.
    pub notes: Vec<String>,
}

/// The collector of one signal.
#[derive(Debug, Clone)]
pub struct Target {
    /// Complete address, to which batches are posted.
    pub uri: Uri,
    /// Further headers; their values may be secrets.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Time limit of one export.
    pub timeout: Duration,
    /// Certificates of collectors that are accepted.
    pub trust: Trust,
}

/// Switches that precede the standard variables.
#[derive(Debug, Clone, Default)]
pub struct Switches<'a> {
    /// Base address of the collector, with the name of the option for messages.
    pub endpoint: Option<(&'a str, &'a str)>,
    /// False switches the export off, true on without an address too.
    pub is_on: Option<bool>,
}

/// The standard variables of the environment.
struct Variables<'a> {
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Variables<'_> {
    /// Returns the value of a variable; `None` if it is missing or empty.
    fn get(&self, name: &str) -> Option<String> {
        let value = (self.read)(name)?.trim().to_owned();
        (!value.is_empty()).then_some(value)
    }

    /// Returns the first of two variables: that of a signal before the general one.
    fn of_signal(&self, signal: &str, end: &str) -> Option<(String, String)> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{signal}_{end}"),
            format!("OTEL_EXPORTER_OTLP_{end}"),
        ];
        names.into_iter().find_map(|name| {
            let value = self.get(&name)?;
            Some((name, value))
        })
    }

    /// Returns a number, or `default`.
    fn number(&self, name: &str, default: u64, range: (u64, u64)) -> Result<u64, String> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        match text.parse() {
            Ok(number) if (range.0..=range.1).contains(&number) => Ok(number),
            _ => Err(format!(
                "the variable {name} is '{text}': expected a number from {} to {}",
                range.0, range.1
            )),
        }
    }
}

impl Settings {
    /// Reads the settings. Returns `None` if the export is off: without an address, or with
    /// `OTEL_SDK_DISABLED=true`.
    ///
    /// # Errors
    /// A sentence about the option or variable that cannot be used.
    pub fn read(
        switches: &Switches<'_>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let variables = Variables { read: variable };
        let is_disabled = variables.get("OTEL_SDK_DISABLED");
        let is_disabled = is_disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_disabled || switches.is_on == Some(false) {
            return Ok(None);
        }
        let mut notes = Vec::new();
        let traces = target(&Signal::TRACES, switches, &variables, &mut notes)?;
        let metrics = target(&Signal::METRICS, switches, &variables, &mut notes)?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }

        // The queue takes at least one batch, as the specification demands.
        let queue_range = (1, QUEUE_MAX as u64);
        let span_queue = variables.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, queue_range)?;
        let batch = variables.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512, queue_range)?;
        let span_delay =
            variables.number("OTEL_BSP_SCHEDULE_DELAY", 5_000, (0, DURATION_MS_MAX))?;
        let metric_interval =
            variables.number("OTEL_METRIC_EXPORT_INTERVAL", 60_000, (10, DURATION_MS_MAX))?;
        Ok(Some(Settings {
            traces,
            metrics,
            sampler: sampler(&variables, &mut notes)?,
            resource: resource(&variables)?,
            metric_interval: Duration::from_millis(metric_interval),
            span_delay: Duration::from_millis(span_delay),
            span_queue: span_queue as usize,
            span_batch: batch.min(span_queue) as usize,
            notes,
        }))
    }
}

/// One of the two signals that are exported.
struct Signal {
    /// The name within variables.
    name: &'static str,
    /// The path behind a base address.
    path: &'static str,
}

impl Signal {
    const TRACES: Signal = Signal {
        name: "TRACES",
        path: "v1/traces",
    };
    const METRICS: Signal = Signal {
        name: "METRICS",
        path: "v1/metrics",
    };
}

/// Returns the collector of a signal; `None` if the signal is not exported.
fn target(
    signal: &Signal,
    switches: &Switches<'_>,
    variables: &Variables<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<Target>, String> {
    // `none` switches one signal off.
    let exporter = format!("OTEL_{}_EXPORTER", signal.name);
    match variables.get(&exporter).as_deref() {
        None | Some("otlp") => {}
        Some("none") => return Ok(None),
        Some(other) => {
            return Err(format!(
                "the variable {exporter} is '{other}': expected otlp or none"
            ));
        }
    }

    // The option comes before variables, and the address of the signal before the general one,
    // to which the path of the signal is added.
    let own = format!("OTEL_EXPORTER_OTLP_{}_ENDPOINT", signal.name);
    let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (source, text, is_base) = if let Some((option, text)) = switches.endpoint {
        (option.to_owned(), text.to_owned(), true)
    } else if let Some(text) = variables.get(&own) {
        (format!("the variable {own}"), text, false)
    } else if let Some(text) = variables.get(base) {
        (format!("the variable {base}"), text, true)
    } else if switches.is_on == Some(true) {
        ("the default".to_owned(), DEFAULT_ENDPOINT.to_owned(), true)
    } else {
        return Ok(None);
    };
    let uri = address(&text, is_base.then_some(signal.path))
        .map_err(|reason| format!("{source} is '{}': {reason}", without_user(&text)))?;

    check_protocol(signal, variables)?;
    refuse_unknown(signal, variables, notes)?;
    let trust = match variables.of_signal(signal.name, "CERTIFICATE") {
        Some((_, file)) => Trust::File(PathBuf::from(file)),
        None => Trust::System,
    };
    let timeout_ms = match variables.of_signal(signal.name, "TIMEOUT") {
        None => 10_000,
        Some((name, _)) => variables.number(&name, 10_000, (1, DURATION_MS_MAX))?,
    };
    Ok(Some(Target {
        uri,
        headers: headers(signal, variables)?,
        timeout: Duration::from_millis(timeout_ms),
        trust,
    }))
}

/// Parses the address of a collector and adds `path` to a base address.
fn address(text: &str, path: Option<&str>) -> Result<Uri, String> {
    let whole = match path {
        Some(path) => format!("{}/{path}", text.trim_end_matches('/')),
        None => text.to_owned(),
    };
    let has_scheme = whole
        .split_once("://")
        .is_some_and(|(scheme, _)| matches!(&*scheme.to_lowercase(), "http" | "https"));
    if !has_scheme {
        return Err(
            "expected a URL that begins with http:// or https://, such as http://localhost:4318"
                .to_owned(),
        );
    }
    let uri: Uri = whole
        .parse()
        .map_err(|error| format!("it is no URL: {error}"))?;
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err("a password in a URL is not taken; use OTEL_EXPORTER_OTLP_HEADERS".to_owned());
    }
    if uri.query().is_some() || text.contains('#') {
        return Err("a query or fragment is not taken".to_owned());
    }
    let has_port = authority
        .rsplit(']')
        .next()
        .is_some_and(|rest| rest.contains(':'));
    if has_port && uri.port_u16().is_none_or(|port| port == 0)
        || uri.host().is_none_or(str::is_empty)
    {
        return Err("it names no host and port that can be reached".to_owned());
    }
    Ok(uri)
}

/// Returns an address without the part before `@` and without its query, which may be secrets.
fn without_user(text: &str) -> String {
    let text = match text.split_once('?') {
        Some((address, _)) => &format!("{address}?…"),
        None => text,
    };
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        (None, Some((_, rest))) => format!("…@{rest}"),
        _ => text.to_owned(),
    }
}

/// Refuses protocols other than protobuf over HTTP.
fn check_protocol(signal: &Signal, variables: &Variables<'_>) -> Result<(), String> {
    match variables.of_signal(signal.name, "PROTOCOL") {
        Some((name, value)) if value != "http/protobuf" => Err(format!(
            "the variable {name} is '{value}': this server exports by http/protobuf only; set it \
             to http/protobuf and the endpoint to the collector's port for HTTP, usually 4318"
        )),
        _ => Ok(()),
    }
}

/// Refuses settings that would weaken the connection if they were passed over, and notes others.
fn refuse_unknown(
    signal: &Signal,
    variables: &Variables<'_>,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    for end in ["CLIENT_KEY", "CLIENT_CERTIFICATE"] {
        if let Some((name, _)) = variables.of_signal(signal.name, end) {
            return Err(format!(
                "the variable {name} is set: certificates of clients are not supported; use \
                 OTEL_EXPORTER_OTLP_HEADERS, or a collector on this machine"
            ));
        }
    }
    if let Some((name, value)) = variables.of_signal(signal.name, "COMPRESSION")
        && value != "none"
    {
        let note =
            format!("the variable {name} is '{value}': batches are sent without compression");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(())
}

/// Returns the headers of a signal: those of its own variable, or the general ones.
fn headers(
    signal: &Signal,
    variables: &Variables<'_>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let Some((name, text)) = variables.of_signal(signal.name, "HEADERS") else {
        return Ok(Vec::new());
    };
    let mut headers = Vec::new();
    for (key, value) in pairs(&text).map_err(|at| malformed(&name, at))? {
        // The values may be secrets, so no message has them.
        let header = HeaderName::try_from(&key);
        let value = HeaderValue::try_from(&value);
        let (Ok(header), Ok(mut value)) = (header, value) else {
            return Err(format!(
                "the variable {name} has the header '{key}', which HTTP does not allow"
            ));
        };
        value.set_sensitive(true);
        headers.push((header, value));
    }
    Ok(headers)
}

/// Splits `key=value,key=value`, whose values are percent-encoded.
///
/// # Errors
/// The number of the part that has no key, counted from one.
fn pairs(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut pairs = Vec::new();
    for (at, part) in text.split(',').enumerate() {
        if part.trim().is_empty() {
            continue;
        }
        let (key, value) = part.split_once('=').ok_or(at + 1)?;
        let decoded = |text: &str| {
            percent_decode_str(text.trim())
                .decode_utf8_lossy()
                .into_owned()
        };
        let key = decoded(key);
        if key.is_empty() {
            return Err(at + 1);
        }
        pairs.push((key, decoded(value)));
    }
    Ok(pairs)
}

fn malformed(name: &str, at: usize) -> String {
    format!("the variable {name} is not valid in part {at}: expected KEY=VALUE,KEY=VALUE")
}

/// Returns the attributes of the resource that variables set.
fn resource(variables: &Variables<'_>) -> Result<Vec<(String, String)>, String> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let mut resource = Vec::new();
    if let Some(service) = variables.get("OTEL_SERVICE_NAME") {
        resource.push(("service.name".to_owned(), service));
    }
    if let Some(text) = variables.get(name) {
        for (key, value) in pairs(&text).map_err(|at| malformed(name, at))? {
            if !resource.iter().any(|(known, _)| *known == key) {
                resource.push((key, value));
            }
        }
    }
    if !resource.iter().any(|(key, _)| key == "service.name") {
        resource.insert(0, ("service.name".to_owned(), "orrery".to_owned()));
    }
    Ok(resource)
}

/// Returns the sampler; the default records every request whose caller does not decide otherwise.
fn sampler(variables: &Variables<'_>, notes: &mut Vec<String>) -> Result<SpanSampler, String> {
    let sampler = |follows_parent, ratio| SpanSampler {
        follows_parent,
        ratio,
    };
    let name = variables.get("OTEL_TRACES_SAMPLER");
    let follows_parent = name
        .as_deref()
        .is_none_or(|name| name.starts_with("parentbased_"));
    match name
        .as_deref()
        .map(|name| name.trim_start_matches("parentbased_"))
    {
        None | Some("always_on") => Ok(sampler(follows_parent, 1.0)),
        Some("always_off") => Ok(sampler(follows_parent, 0.0)),
        Some("traceidratio") => {
            let Some(text) = variables.get("OTEL_TRACES_SAMPLER_ARG") else {
                return Ok(sampler(follows_parent, 1.0));
            };
            match text.parse() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(sampler(follows_parent, ratio)),
                _ => Err(format!(
                    "the variable OTEL_TRACES_SAMPLER_ARG is '{text}': expected a number from 0 \
                     to 1"
                )),
            }
        }
        Some(_) => {
            // The specification lets a program pass over a sampler that it does not know.
            let name = name.unwrap_or_default();
            notes.push(format!(
                "the variable OTEL_TRACES_SAMPLER is '{name}', which is not known: all requests \
                 are recorded, unless their callers decide otherwise"
            ));
            Ok(sampler(true, 1.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(endpoint: Option<&str>, set: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let switches = Switches {
            endpoint: endpoint.map(|text| ("--otlp-endpoint", text)),
            is_on: None,
        };
        Settings::read(&switches, &|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn uris(settings: &Settings) -> (Option<String>, Option<String>) {
        let text = |target: &Option<Target>| target.as_ref().map(|one| one.uri.to_string());
        (text(&settings.traces), text(&settings.metrics))
    }

    #[test]
    fn the_export_is_off_without_an_address() {
        assert!(read(None, &[]).expect("valid").is_none());
        assert!(
            read(None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")])
                .expect("valid")
                .is_none()
        );
        let disabled = [("OTEL_SDK_DISABLED", "TRUE")];
        assert!(
            read(Some("http://c:4318"), &disabled)
                .expect("valid")
                .is_none()
        );
    }

    #[test]
    fn the_option_comes_before_variables_and_a_signal_before_the_general_one() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:1/base/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://own/x");
        let settings = read(None, &[general, own]).expect("valid").expect("on");
        assert_eq!(
            uris(&settings),
            (
                Some("https://own/x".to_owned()),
                Some("http://general:1/base/v1/metrics".to_owned())
            )
        );
        let settings = read(None, &[own]).expect("valid").expect("on");
        assert_eq!(uris(&settings), (Some("https://own/x".to_owned()), None));
        let settings = read(Some("http://o:4318"), &[general, own])
            .expect("valid")
            .expect("on");
        assert_eq!(
            uris(&settings).0.as_deref(),
            Some("http://o:4318/v1/traces")
        );
        let none = ("OTEL_TRACES_EXPORTER", "none");
        let settings = read(None, &[general, none]).expect("valid").expect("on");
        assert!(settings.traces.is_none() && settings.metrics.is_some());
        let switches = Switches {
            endpoint: None,
            is_on: Some(true),
        };
        let settings = Settings::read(&switches, &|_| None)
            .expect("valid")
            .expect("on");
        let uri = "http://localhost:4318/v1/metrics";
        assert_eq!(uris(&settings).1.as_deref(), Some(uri));
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_with_its_source() {
        for (text, part) in [
            ("localhost:4318", "http://"),
            ("ftp://x", "http://"),
            ("http://", "begins with"),
            ("http://a b", "no URL"),
            ("http://u:secret@c:1", "HEADERS"),
            ("http://c:0", "no host and port"),
            ("http://c/?a=b", "query"),
        ] {
            let message = read(Some(text), &[]).expect_err(text);
            assert!(message.starts_with("--otlp-endpoint is '"), "{message}");
            assert!(
                message.contains(part) && !message.contains("secret"),
                "{message}"
            );
        }
        for (name, value, part) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
                "http/json",
                "http/protobuf",
            ),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,secret", "part 2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=secret", "'a b'"),
            (
                "OTEL_EXPORTER_OTLP_CLIENT_KEY",
                "k.pem",
                "certificates of clients",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "a number"),
            ("OTEL_TRACES_SAMPLER_ARG", "2", "from 0 to 1"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1", "from 10"),
            ("OTEL_METRICS_EXPORTER", "prometheus", "otlp or none"),
        ] {
            let sampler = ("OTEL_TRACES_SAMPLER", "traceidratio");
            let message = read(Some("http://c:1"), &[(name, value), sampler]).expect_err(name);
            assert!(
                message.contains(name) && message.contains(part),
                "{message}"
            );
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn headers_and_resource_are_decoded() {
        let set = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x = y"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,zone=1%2C2"),
            ("OTEL_SERVICE_NAME", "shop-db"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
        ];
        let settings = read(Some("http://c:1"), &set).expect("valid").expect("on");
        let target = settings.traces.expect("on");
        let sent: Vec<(&str, &[u8])> = target
            .headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_bytes()))
            .collect();
        assert_eq!(sent, [("api-key", &b"a b"[..]), ("x", &b"y"[..])]);
        let expected = [("service.name", "shop-db"), ("zone", "1,2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(settings.resource, expected);
        assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
        assert!(settings.sampler.follows_parent && settings.sampler.ratio == 0.25);
    }
}
