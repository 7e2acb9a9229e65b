//! The configuration of the server that follows from the settings of the emulator.

use super::announce::AnnouncementOptions;
use super::table::{Effect, SETTINGS};
use super::values::Values;
use crate::command::{EmulatorArguments, StartArguments, direct, throughput};
use crate::retention::VersionRetention;
use orrery_client::Secret;
use orrery_gateway::{Consistency, LogLevel};
use orrery_server::Failure;
use orrery_server::address::Listen;
use orrery_server::certificate::parse_name;
use orrery_server::config::{EmulatorSettings, ServerConfig};
use std::path::{Path, PathBuf};

/// Port for clients.
const PORT: u16 = 8081;
/// Port of the console.
const EXPLORER_PORT: u16 = 1234;
/// Port for probes of health.
const HEALTH_PORT: u16 = 8080;
/// Data directory of the vendor's newest emulator.
const DATA: &str = "/data";
/// Data directory of a container that has no other and keeps its data.
const CLASSIC_DATA: &str = "/tmp/cosmos/appdata/orrery";
/// The certificate in the image of the vendor's emulator before the newest.
const CERTIFICATE_FILE: &str = "/tmp/cosmos/appdata/.system/profiles/Client/AppData/Local/\
                                CosmosDBEmulator/emulator.pem";
/// Folder of the first data.
const SEEDS: &str = "/init";
/// RU/s of one physical partition.
const PARTITION_RU: u32 = 6_000;

/// Returns the configuration of the server, and that of its announcement.
///
/// # Errors
/// [`Failure::Usage`] for a value that is not valid, with its source.
pub(super) fn plan(
    arguments: &EmulatorArguments,
    values: &Values,
) -> Result<(ServerConfig, AnnouncementOptions), Failure> {
    let defaults = StartArguments::defaults().map_err(Failure::Usage)?;
    // Programs against the emulator use the direct mode of their SDK, wherever the server listens.
    let place = defaults.direct_advertise.clone();
    let direct = direct::config(defaults.direct, place, true, false)?;
    let mut config = defaults.into_config()?;
    config.clients.direct = direct;
    // The settings file is that of `start`.
    config.settings_file = None;
    // A wrong port is told even if --listen makes it needless.
    let port_for_clients = port(values, "port")?.unwrap_or(PORT);
    config.clients.listen = match arguments.listen.is_empty() {
        true => vec![Listen::Everywhere(port_for_clients)],
        false => arguments.listen.clone(),
    };
    if arguments.listen.is_empty() {
        config.clients.listen_option = "--port (PORT)";
    }
    config.tls.hosts = arguments.cert_hosts.clone();
    let allowed = arguments.allow_hosts.iter().cloned();
    config.clients.allowed_hosts.extend(allowed);
    config.clients.cors = arguments.cors.clone();
    let mut settings = EmulatorSettings {
        key: values.text("key").map(Secret::new),
        has_own_key: values.text("key").is_some() || values.text("key-file").is_some(),
        health: health(values, clients(&config))?,
        certificate_file: Some(CERTIFICATE_FILE.into()),
        needs_certificate_file: values.text("certificate-file").is_some(),
        seeds: seeds(values)?,
        otlp: values.flag("enable-otlp")?,
    };
    config.notes.extend(notes(values));
    match values.text("certificate-file") {
        Some("off") => settings.certificate_file = None,
        Some(file) => settings.certificate_file = Some(file.into()),
        None => {}
    }
    if values.text("key").is_some() && values.text("key-file").is_some() {
        return Err(values.invalid("key-file", "there is a key in a variable too; give one"));
    }
    config.account.key_file = values.text("key-file").map(PathBuf::from);
    set_explorer(&mut config, values)?;
    set_names(&mut config, values)?;
    set_certificate(&mut config, values);
    set_data(&mut config, values)?;
    set_account(&mut config, values)?;
    set_log(&mut config, values)?;
    let (schemes, explorer_scheme) = schemes(values)?;
    let announced = AnnouncementOptions {
        as_json: arguments.ready_json,
        is_open: settings.is_open(),
        schemes,
        explorer_scheme,
    };
    config.emulator = Some(settings);
    Ok((config, announced))
}

/// Returns the first listen address for clients.
fn clients(config: &ServerConfig) -> Listen {
    let first = config.clients.listen.first();
    first.copied().unwrap_or(Listen::Everywhere(PORT))
}

/// Returns the folder of the first data; `None` if there is none to apply.
fn seeds(values: &Values) -> Result<Option<PathBuf>, Failure> {
    if values.flag("enable-init-data")? != Some(true) {
        return Ok(None);
    }
    let folder = PathBuf::from(values.text("init-path").unwrap_or(SEEDS));
    if std::env::var_os("ORRERY_INIT").is_some() {
        let problem = "ORRERY_INIT names a definition too; leave one of both out";
        return Err(values.invalid("enable-init-data", problem));
    }
    if !folder.is_dir() {
        return Err(Failure::Usage(format!(
            "there is no folder {} with first data: mount one there, name another with \
             --init-path or INIT_PATH, or switch --enable-init-data off",
            folder.display()
        )));
    }
    Ok(Some(folder))
}

fn port(values: &Values, option: &str) -> Result<Option<u16>, Failure> {
    values.parse(option, "a port from 0 to 65535")
}

/// Returns the schemes of the announcement and of the console's address.
fn schemes(values: &Values) -> Result<(&'static [&'static str], &'static str), Failure> {
    let scheme = |option: &str| match values.text(option).map(str::to_lowercase).as_deref() {
        None => Ok(None),
        Some("http") => Ok(Some("http")),
        // The vendor's second form is HTTPS with a certificate that nothing trusts.
        Some("https" | "https-insecure") => Ok(Some("https")),
        Some(_) => Err(values.invalid(option, "expected http, https or https-insecure")),
    };
    let protocol = scheme("protocol")?;
    let explorer = scheme("explorer-protocol")?.or(protocol).unwrap_or("http");
    let schemes: &[&str] = match protocol {
        Some("http") => &["http"],
        Some(_) => &["https"],
        None => &["https", "http"],
    };
    Ok((schemes, explorer))
}

/// Returns the listen address for probes of health: the interfaces are those of the clients.
fn health(values: &Values, clients: Listen) -> Result<Option<Listen>, Failure> {
    if values.text("health-port") == Some("off") {
        return Ok(None);
    }
    let port = values.parse("health-port", "a port from 0 to 65535, or off")?;
    Ok(Some(clients.with_port(port.unwrap_or(HEALTH_PORT))))
}

/// Returns the lines for the log: settings that always hold, and variables that are unknown.
fn notes(values: &Values) -> Vec<(LogLevel, String)> {
    let mut notes = Vec::new();
    for setting in SETTINGS {
        if let (Effect::Fulfilled(reason), Some(source)) =
            (setting.effect, values.source(setting.option))
        {
            notes.push((LogLevel::Info, format!("{source}: {reason}")));
        }
    }
    if let Some(source) = values.source("enable-telemetry") {
        let note = format!("{source}: this server sends nothing to its makers, with either value");
        notes.push((LogLevel::Info, note));
    }
    for name in &values.unknown_variables {
        let note = format!(
            "the variable {name} is not known and has no effect; 'orrery emulator --help' lists \
             the variables"
        );
        notes.push((LogLevel::Warn, note));
    }
    notes
}

/// Sets the listen address of the console, which is that of the management API: the interfaces are
/// those of the clients.
fn set_explorer(config: &mut ServerConfig, values: &Values) -> Result<(), Failure> {
    let port = port(values, "explorer-port")?.unwrap_or(EXPLORER_PORT);
    let has_own_address = std::env::var_os("ORRERY_ADMIN_LISTEN").is_some();
    let is_on = values.flag("enable-explorer")?.unwrap_or(true);
    if !has_own_address || values.text("explorer-port").is_some() {
        config.admin.listen = is_on.then(|| clients(config).with_port(port));
    }
    if !is_on {
        config.admin.console = None;
    }
    Ok(())
}

/// Sets the address in the account document, and the names of the certificate.
fn set_names(config: &mut ServerConfig, values: &Values) -> Result<(), Failure> {
    let mut names = Vec::new();
    if let Some(endpoint) = values.text("gateway-endpoint") {
        let (scheme, rest) = match endpoint.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) => (format!("{scheme}:"), rest),
            Some(_) => return Err(values.invalid("gateway-endpoint", "expected http or https")),
            None => (String::new(), endpoint),
        };
        let rest = rest.trim_end_matches('/');
        let is_bare = rest.parse::<std::net::Ipv6Addr>().is_ok();
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !is_bare && !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let host = parse_name(host).map_err(|cause| values.invalid("gateway-endpoint", &cause))?;
        let port: u16 = match port.map(str::parse) {
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(values.invalid("gateway-endpoint", "its port is none")),
            None => config
                .clients
                .listen
                .first()
                .map_or(PORT, |listen| listen.first().port()),
        };
        if port == 0 {
            let problem = "the port for clients is chosen at the start: write HOST:PORT";
            return Err(values.invalid("gateway-endpoint", problem));
        }
        let shown = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        config.account.endpoint = Some(format!("{scheme}//{shown}:{port}"));
        names.push(host);
    }
    if let Some(host) = values.text("ip-address-override") {
        let option = "ip-address-override";
        names.push(parse_name(host).map_err(|cause| values.invalid(option, &cause))?);
    }
    config.tls.hosts.extend(names);
    Ok(())
}

fn set_certificate(config: &mut ServerConfig, values: &Values) {
    config.tls.certificate = values.text("cert-path").map(PathBuf::from);
    config.tls.key = values.text("cert-key-path").map(PathBuf::from);
    config.tls.password = values.text("cert-secret").map(Secret::new);
    config.tls.password_file = values.text("cert-secret-file").map(PathBuf::from);
}

/// Sets the data directory, or memory.
fn set_data(config: &mut ServerConfig, values: &Values) -> Result<(), Failure> {
    let persistence = values.flag("enable-data-persistence")?;
    let path = values.text("data-path").map(PathBuf::from);
    if path.is_some() && persistence == Some(false) {
        let problem = "data persistence is switched off too; leave one of both out";
        return Err(values.invalid("data-path", problem));
    }
    let standard = Path::new(DATA);
    config.data.directory = match (path, persistence) {
        (Some(path), _) => Some(path),
        (None, Some(false)) => None,
        (None, _) if is_writable(standard) => Some(standard.to_owned()),
        (None, Some(true)) => Some(CLASSIC_DATA.into()),
        (None, None) => None,
    };
    config.data.in_memory = config.data.directory.is_none();
    if persistence.is_none() && config.data.in_memory && standard.is_dir() {
        let note = format!("{DATA} cannot be written by this user: data is kept in memory only");
        config.notes.push((LogLevel::Warn, note));
    }
    Ok(())
}

/// Returns true if files can be created in a directory.
fn is_writable(directory: &Path) -> bool {
    if !directory.is_dir() {
        return false;
    }
    #[cfg(unix)]
    {
        let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::access(directory, rights).is_ok()
    }
    #[cfg(not(unix))]
    {
        true
    }
}

/// Sets consistency, versions, throughput and identities.
fn set_account(config: &mut ServerConfig, values: &Values) -> Result<(), Failure> {
    if let Some(level) = values.text("consistency") {
        config.account.consistency = match level.to_lowercase().as_str() {
            "strong" => Consistency::Strong,
            "boundedstaleness" => Consistency::BoundedStaleness,
            "session" => Consistency::Session,
            "consistentprefix" => Consistency::ConsistentPrefix,
            "eventual" => Consistency::Eventual,
            _ => {
                let levels = "expected Strong, BoundedStaleness, Session, ConsistentPrefix or \
                              Eventual";
                return Err(values.invalid("consistency", levels));
            }
        };
    }
    let option = "all-versions-and-deletes";
    let retention = match values.text(option).map(str::parse) {
        None => VersionRetention::STANDARD,
        Some(Ok(retention)) => retention,
        Some(Err(problem)) => return Err(values.invalid(option, &problem)),
    };
    config.engine.version_seconds = retention.0;
    // The value has no effect; one that is no number is a mistake all the same.
    let _: Option<u32> = values.parse("partition-count", "a number")?;
    let partitions = values.parse::<u32>("default-partition-count", "a number from 1 to 100")?;
    match partitions {
        None => {}
        Some(count @ 1..=100) => config.engine.container_ru = throughput_of(count),
        Some(_) => {
            let problem = "expected a number from 1 to 100";
            return Err(values.invalid("default-partition-count", problem));
        }
    }
    if let Some(text) = values.text("default-throughput") {
        let parsed = throughput(text);
        config.engine.container_ru =
            parsed.map_err(|cause| values.invalid("default-throughput", &cause))?;
    }
    let enabled = values.flag("enable-rate-limiting")?;
    let disabled = values.flag("disable-rate-limiting")?;
    match (enabled, disabled) {
        (Some(true), Some(true)) => {
            let problem = "--disable-rate-limiting asks for the opposite";
            return Err(values.invalid("enable-rate-limiting", problem));
        }
        (Some(true), _) | (None, Some(false)) => config.engine.throughput.enforce = true,
        (Some(false), _) | (None, Some(true)) => config.engine.throughput.enforce = false,
        (None, None) => {}
    }
    if values.flag("enable-aad-authentication")? == Some(true) {
        config.account.entra.get_or_insert_default().verifies = false;
    }
    Ok(())
}

/// Returns the least throughput with which a container has so many physical partitions.
fn throughput_of(partitions: u32) -> u32 {
    match partitions {
        0 | 1 => 400,
        more => more * PARTITION_RU,
    }
}

fn set_log(config: &mut ServerConfig, values: &Values) -> Result<(), Failure> {
    config.log.level = match values.text("log-level").map(str::to_lowercase).as_deref() {
        None => config.log.level,
        Some("quiet" | "error") => LogLevel::Error,
        Some("warn" | "warning") => LogLevel::Warn,
        Some("info") => LogLevel::Info,
        Some("debug" | "trace") => LogLevel::Debug,
        Some(_) => {
            let levels = "expected quiet, error, warn, info, debug or trace";
            return Err(values.invalid("log-level", levels));
        }
    };
    if values.flag("verbose")? == Some(true) {
        config.log.level = LogLevel::Debug;
    }
    Ok(())
}
