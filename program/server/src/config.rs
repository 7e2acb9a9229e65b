//! The configuration of one server.
//!
//! The command line, the settings file, variables of the environment and the table of the emulator
//! all end in a [`ServerConfig`], and every other part of a server reads this alone. Values have
//! the types of the parts that they configure. Files are named here; the parts that need them read
//! them.
//!
//! Left out: parsing, defaults and the names of options, see `command`.

use crate::address::Listen;
use crate::memory::MemoryLimit;
use orrery_client::Secret;
use orrery_console::Access;
use orrery_engine::{
    AccountVersions, CrossPartitionQueries, Profile, ScriptDenial, ThroughputOptions,
};
use orrery_gateway::{Consistency, LogFormat, LogLevel, SlowRequests};
use orrery_tools::definition::ExistingMode;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of one server.
#[derive(Debug)]
pub(crate) struct ServerConfig {
    /// The settings file that was read.
    pub(crate) settings_file: Option<PathBuf>,
    pub(crate) data: DataConfig,
    pub(crate) clients: ClientsConfig,
    pub(crate) admin: AdminConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) account: AccountConfig,
    pub(crate) engine: EngineConfig,
    /// The memory that the server may use; `None` for half of what there is.
    pub(crate) memory_limit: Option<MemoryLimit>,
    pub(crate) log: LogConfig,
    /// Base URL of the collector of traces and metrics.
    pub(crate) otlp_endpoint: Option<String>,
    /// The definition that is applied before the server is ready.
    pub(crate) definition: Option<DefinitionConfig>,
    /// True to announce the server by a line of JSON.
    pub(crate) ready_json: bool,
    /// The settings of a node of a fleet; `None` for a server with data of its own.
    pub(crate) fleet: Option<FleetConfig>,
    /// The settings that only a server in the place of the emulator has.
    pub(crate) emulator: Option<EmulatorSettings>,
}

/// The place of the data of a server that is no node of a fleet.
#[derive(Debug)]
pub(crate) struct DataConfig {
    /// True if data is kept in memory only.
    pub(crate) in_memory: bool,
    /// The data directory; `None` for the standard one.
    pub(crate) directory: Option<PathBuf>,
    /// Bytes of the disk that writes leave free.
    pub(crate) reserve_bytes: u64,
    /// Bytes a second that the check of stored blocks reads.
    pub(crate) scrub_bytes_per_second: u64,
}

/// The port for clients, and what it answers to.
#[derive(Debug)]
pub(crate) struct ClientsConfig {
    pub(crate) listen: Vec<Listen>,
    /// The option that names the addresses, for messages.
    pub(crate) listen_option: &'static str,
    /// True if a free port replaces a port that is in use.
    pub(crate) takes_free_port: bool,
    /// The most connections; `None` for what the descriptors allow.
    pub(crate) max_connections: Option<usize>,
    /// The most connections of one address; `None` for half of all.
    pub(crate) max_connections_per_address: Option<usize>,
    /// Descriptors that the process needs for something else than the server.
    pub(crate) reserved_descriptors: usize,
    /// The time that a worker looks for the next request before it sleeps.
    pub(crate) spin: Duration,
    /// Host names that the ports answer for, beside the server's own.
    pub(crate) allowed_hosts: Vec<String>,
    /// Origins whose pages may call the server.
    pub(crate) cors: Vec<String>,
}

/// The management API and the console.
#[derive(Debug)]
pub(crate) struct AdminConfig {
    /// `None` if both are switched off.
    pub(crate) listen: Option<Listen>,
    /// True if a free port replaces a port that is in use.
    pub(crate) takes_free_port: bool,
    /// The file of the admin key; `None` for the one in the data directory.
    pub(crate) key_file: Option<PathBuf>,
    /// `None` if there is no console.
    pub(crate) console: Option<Access>,
    /// A directory of pages in place of those in the program.
    pub(crate) console_files: Option<PathBuf>,
}

/// The certificate of all ports.
#[derive(Debug)]
pub(crate) struct TlsConfig {
    /// `None` for a self-signed certificate.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) password: Option<Secret>,
    /// Names in the self-signed certificate, beside the usual ones.
    pub(crate) hosts: Vec<String>,
}

/// The account that clients see, and who may use the account.
#[derive(Debug)]
pub(crate) struct AccountConfig {
    /// The address in the account document; `None` for the one that a client used.
    pub(crate) endpoint: Option<String>,
    pub(crate) consistency: Consistency,
    /// The names of the regions as given; empty for the standard one.
    pub(crate) regions: Vec<String>,
    /// The file of the account's keys; `None` for the well-known key.
    pub(crate) key_file: Option<PathBuf>,
    /// `None` if directory tokens are refused.
    pub(crate) entra: Option<EntraConfig>,
}

/// The Microsoft Entra ID tokens that the account accepts.
#[derive(Debug, Default)]
pub(crate) struct EntraConfig {
    /// False to accept tokens without a check of their signatures.
    pub(crate) verifies: bool,
    pub(crate) audiences: Vec<String>,
    pub(crate) issuer: Option<String>,
    /// The file of the issuer's keys.
    pub(crate) keys_file: Option<PathBuf>,
}

/// The options of the engine that a user sets.
#[derive(Debug)]
pub(crate) struct EngineConfig {
    pub(crate) profile: Profile,
    pub(crate) cross_partition_queries: CrossPartitionQueries,
    pub(crate) throughput: ThroughputOptions,
    /// RU/s of a container that is created without a throughput.
    pub(crate) container_ru: u32,
    pub(crate) logical_partition_bytes: u64,
    pub(crate) physical_partition_bytes: u64,
    pub(crate) script_denial: ScriptDenial,
    /// Seconds for which every container keeps the versions of its items; `None` for none.
    pub(crate) version_seconds: Option<u64>,
}

/// The log of the server.
#[derive(Debug)]
pub(crate) struct LogConfig {
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
    /// `None` if slow requests are not logged.
    pub(crate) slow_requests: Option<SlowRequests>,
}

/// Databases, containers and items that exist when the server is ready.
#[derive(Debug)]
pub(crate) struct DefinitionConfig {
    pub(crate) path: PathBuf,
    /// The treatment of resources that exist.
    pub(crate) mode: ExistingMode,
}

/// The settings of a node of a fleet.
#[derive(Debug)]
pub(crate) struct FleetConfig {
    /// The file that names the PostgreSQL clusters.
    pub(crate) cluster_file: PathBuf,
    /// The name of the node; `None` for that of the machine.
    pub(crate) node: Option<String>,
    /// The URL at which other nodes reach this one; `None` for the address of the port.
    pub(crate) advertise: Option<String>,
    /// True if partitions move between the clusters by themselves.
    pub(crate) balances: bool,
    /// True if standbys answer reads while another node holds the lease.
    pub(crate) reads_standbys: bool,
    /// The load in RU/s from which on another node may own a partition; `None` for never.
    pub(crate) spread_load_ru: Option<u64>,
}

/// Settings that only a server in the place of the emulator has.
#[derive(Clone, Debug)]
pub(crate) struct EmulatorSettings {
    /// Primary key of the account, from a variable.
    pub(crate) key: Option<Secret>,
    /// True if the user chose the account's key.
    pub(crate) has_own_key: bool,
    /// Listen address of the port for probes of health.
    pub(crate) health: Option<Listen>,
    /// Schemes that the announcement names.
    pub(crate) schemes: &'static [&'static str],
    /// Scheme of the console's address in the announcement.
    pub(crate) explorer_scheme: &'static str,
    /// File to which the certificate is written.
    pub(crate) certificate_file: Option<PathBuf>,
    /// True if a failure to write that file ends the start: the user named the file.
    pub(crate) needs_certificate_file: bool,
    /// Folder with scripts and definitions that are applied to an empty account.
    pub(crate) seeds: Option<PathBuf>,
    /// True to export by OpenTelemetry, false never to; `None` if the address decides.
    pub(crate) otlp: Option<bool>,
    /// Lines for the log.
    pub(crate) notes: Vec<(LogLevel, String)>,
}

impl EmulatorSettings {
    /// Returns true if the account has the key that is known to all.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_own_key
    }
}

/// Bytes that the versions of a physical partition may take in a server that keeps its data in
/// memory, and in one that stands in for the emulator.
const VERSION_BYTES_MAX: u64 = 64 << 20;

impl ServerConfig {
    /// Returns the versions that containers without a policy of their own keep.
    pub(crate) fn account_versions(&self) -> Option<AccountVersions> {
        let is_bounded = self.data.in_memory || self.emulator.is_some();
        Some(AccountVersions {
            retention_seconds: self.engine.version_seconds?,
            partition_bytes: is_bounded.then_some(VERSION_BYTES_MAX),
        })
    }

    /// Returns the file that names the clusters of a node.
    pub(crate) fn cluster_file(&self) -> Option<&Path> {
        Some(&self.fleet.as_ref()?.cluster_file)
    }

    /// Returns the files that the configuration names, which may lie in the data directory.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let entra_keys = self.account.entra.as_ref().map(|entra| &entra.keys_file);
        let definition = self.definition.as_ref().map(|definition| &*definition.path);
        let named = [
            &self.settings_file,
            &self.account.key_file,
            &self.admin.key_file,
            entra_keys.unwrap_or(&None),
            &self.tls.certificate,
            &self.tls.key,
            &self.tls.password_file,
        ];
        let named = named.into_iter().flatten().map(PathBuf::as_path);
        named.chain(self.cluster_file()).chain(definition).collect()
    }
}
