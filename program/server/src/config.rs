//! The configuration of one server.
//!
//! Everything that a program lets its user choose ends in a [`ServerConfig`], and every other part
//! of a server reads this alone. Values have the types of the parts that they configure. Files are
//! named here; the parts that need them read them.
//!
//! Left out: parsing, defaults and the names of options, which are those of the program.

use crate::address::Listen;
use crate::memory::{Memory, MemoryLimit};
use orrery_client::Secret;
use orrery_console::Access;
use orrery_engine::{
    AccountVersions, CrossPartitionQueries, DatabaseLimits, Profile, ScriptDenial,
    ThroughputOptions,
};
use orrery_gateway::{Consistency, DirectMode, LogFormat, LogLevel, SlowRequests};
use orrery_script::HostCommand;
use orrery_tools::definition::ExistingMode;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration of one server.
#[derive(Debug)]
pub struct ServerConfig {
    /// The settings file that was read.
    pub settings_file: Option<PathBuf>,
    /// The place of the data.
    pub data: DataConfig,
    /// The port for clients.
    pub clients: ClientsConfig,
    /// The management API and the console.
    pub admin: AdminConfig,
    /// The certificate of all ports.
    pub tls: TlsConfig,
    /// The account that clients see.
    pub account: AccountConfig,
    /// The options of the engine.
    pub engine: EngineConfig,
    /// The memory that the server may use; `None` for half of what there is.
    pub memory_limit: Option<MemoryLimit>,
    /// The log.
    pub log: LogConfig,
    /// Base URL of the collector of traces and metrics.
    pub otlp_endpoint: Option<String>,
    /// The definition that is applied before the server is ready.
    pub definition: Option<DefinitionConfig>,
    /// The command of a process that runs scripts: a program that calls
    /// [`orrery_script::serve_script_host`].
    pub script_host: HostCommand,
    /// Lines for the log of the start, each with its level.
    pub notes: Vec<(LogLevel, String)>,
    /// The settings of a node of a fleet; `None` for a server with data of its own.
    pub fleet: Option<FleetConfig>,
    /// The settings that only a server in the place of the emulator has.
    pub emulator: Option<EmulatorSettings>,
}

/// The place of the data of a server that is no node of a fleet.
#[derive(Debug)]
pub struct DataConfig {
    /// True if data is kept in memory only.
    pub in_memory: bool,
    /// The data directory; `None` for the standard one.
    pub directory: Option<PathBuf>,
    /// The moment at which the clock of the data stands still, in milliseconds since 1970, so that
    /// nothing expires; `None` for a clock that goes.
    pub as_of_ms: Option<u64>,
    /// Bytes of the disk that writes leave free.
    pub reserve_bytes: u64,
    /// Bytes a second that the check of stored blocks reads.
    pub scrub_bytes_per_second: u64,
    /// True if data that was moved to clusters is served all the same.
    pub accepts_stale: bool,
    /// The continuous backup; `None` for none.
    pub continuous_backup: Option<ContinuousBackupConfig>,
}

/// A continuous backup.
#[derive(Debug)]
pub struct ContinuousBackupConfig {
    /// The folder with backups and the log.
    pub folder: PathBuf,
    /// The time between two rounds.
    pub interval: Duration,
    /// The time for which each second can be restored, in milliseconds.
    pub retention_ms: u64,
}

/// The port for clients, and what it answers to.
#[derive(Debug)]
pub struct ClientsConfig {
    /// The addresses that clients connect to.
    pub listen: Vec<Listen>,
    /// The option of the program that names the addresses, for messages.
    pub listen_option: &'static str,
    /// True if a free port replaces a port that is in use.
    pub takes_free_port: bool,
    /// The most connections; `None` for what the descriptors allow.
    pub max_connections: Option<usize>,
    /// The most connections of one address; `None` for half of all.
    pub max_connections_per_address: Option<usize>,
    /// Descriptors that the process needs for something else than the server.
    pub reserved_descriptors: usize,
    /// The time that a worker looks for the next request before it sleeps.
    pub spin: Duration,
    /// Host names that the ports answer for, beside the server's own.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call the server.
    pub cors: Vec<String>,
    /// The direct connection mode.
    pub direct: DirectConfig,
}

/// The direct connection mode: frames over TCP beside HTTP.
#[derive(Debug)]
pub struct DirectConfig {
    /// The addresses that clients get; those of a server without the mode are `Off`.
    pub addresses: DirectMode,
    /// A port beside that for clients; `None` if the port for clients takes frames alone.
    pub port: Option<u16>,
}

/// The management API and the console.
#[derive(Debug)]
pub struct AdminConfig {
    /// `None` if both are switched off.
    pub listen: Option<Listen>,
    /// True if a free port replaces a port that is in use.
    pub takes_free_port: bool,
    /// The file of the admin key; `None` for the one in the data directory.
    pub key_file: Option<PathBuf>,
    /// `None` if there is no console.
    pub console: Option<Access>,
    /// A directory of pages in place of those in the program.
    pub console_files: Option<PathBuf>,
}

/// The certificate of all ports.
#[derive(Debug)]
pub struct TlsConfig {
    /// `None` for a self-signed certificate.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, if the certificate does not hold it.
    pub key: Option<PathBuf>,
    /// The file with the password of a PFX file.
    pub password_file: Option<PathBuf>,
    /// The password of a PFX file, in the place of a file with it.
    pub password: Option<Secret>,
    /// Names in the self-signed certificate, beside the usual ones.
    pub hosts: Vec<String>,
}

/// The account that clients see, and who may use the account.
#[derive(Debug)]
pub struct AccountConfig {
    /// The address in the account document; `None` for the one that a client used.
    pub endpoint: Option<String>,
    /// The default consistency level.
    pub consistency: Consistency,
    /// The names of the regions as given; empty for the standard one.
    pub regions: Vec<String>,
    /// The file of the account's keys; `None` for the well-known key.
    pub key_file: Option<PathBuf>,
    /// `None` if directory tokens are refused.
    pub entra: Option<EntraConfig>,
}

/// The Microsoft Entra ID tokens that the account accepts.
#[derive(Debug, Default)]
pub struct EntraConfig {
    /// False to accept tokens without a check of their signatures.
    pub verifies: bool,
    /// The audiences that tokens may have.
    pub audiences: Vec<String>,
    /// The issuer of the tokens.
    pub issuer: Option<String>,
    /// The file of the issuer's keys.
    pub keys_file: Option<PathBuf>,
}

/// The options of the engine that a user sets.
#[derive(Debug)]
pub struct EngineConfig {
    /// The pricing model of request charges.
    pub profile: Profile,
    /// The side that merges the results of partitions.
    pub cross_partition_queries: CrossPartitionQueries,
    /// The enforcement of throughput.
    pub throughput: ThroughputOptions,
    /// RU/s of a container that is created without a throughput.
    pub container_ru: u32,
    /// The size up to which a logical partition may grow.
    pub logical_partition_bytes: u64,
    /// The size beyond which a physical partition is split.
    pub physical_partition_bytes: u64,
    /// Limits of single databases, in place of the two above.
    pub database_limits: Vec<DatabaseLimits>,
    /// The time-outs after which a script is refused.
    pub script_denial: ScriptDenial,
    /// Seconds for which every container keeps the versions of its items; `None` for none.
    pub version_seconds: Option<u64>,
}

/// The log of the server.
#[derive(Debug)]
pub struct LogConfig {
    /// The least severe level that is logged.
    pub level: LogLevel,
    /// The format of the lines.
    pub format: LogFormat,
    /// `None` if slow requests are not logged.
    pub slow_requests: Option<SlowRequests>,
}

/// Databases, containers and items that exist when the server is ready.
#[derive(Debug)]
pub struct DefinitionConfig {
    /// The file or folder with the definition.
    pub path: PathBuf,
    /// The treatment of resources that exist.
    pub mode: ExistingMode,
}

/// The settings of a node of a fleet.
#[derive(Debug)]
pub struct FleetConfig {
    /// The file that names the PostgreSQL clusters.
    pub cluster_file: PathBuf,
    /// The name of the node; `None` for that of the machine.
    pub node: Option<String>,
    /// The URL at which other nodes reach this one; `None` for the address of the port.
    pub advertise: Option<String>,
    /// True if partitions move between the clusters by themselves.
    pub balances: bool,
    /// True if standbys answer reads while another node holds the lease.
    pub reads_standbys: bool,
    /// The load in RU/s from which on another node may own a partition; `None` for never.
    pub spread_load_ru: Option<u64>,
    /// The seconds for which a renewal of the lease is good, while this node holds the lease.
    pub lease_seconds: u64,
}

/// Settings that only a server in the place of the emulator has.
#[derive(Clone, Debug)]
pub struct EmulatorSettings {
    /// Primary key of the account, from a variable.
    pub key: Option<Secret>,
    /// True if the user chose the account's key.
    pub has_own_key: bool,
    /// Listen address of the port for probes of health.
    pub health: Option<Listen>,
    /// File to which the certificate is written.
    pub certificate_file: Option<PathBuf>,
    /// True if a failure to write that file ends the start: the user named the file.
    pub needs_certificate_file: bool,
    /// Folder with scripts and definitions that are applied to an empty account.
    pub seeds: Option<PathBuf>,
    /// True to export by OpenTelemetry, false never to; `None` if the address decides.
    pub otlp: Option<bool>,
}

impl EmulatorSettings {
    /// Returns true if the account has the key that is known to all.
    pub fn is_open(&self) -> bool {
        !self.has_own_key
    }
}

/// Bytes that the versions of a physical partition may take in a server that keeps its data in
/// memory, and in one that stands in for the emulator.
const VERSION_BYTES_MAX: u64 = 64 << 20;

impl ServerConfig {
    /// Returns the versions that containers without a policy of their own keep.
    pub fn account_versions(&self) -> Option<AccountVersions> {
        let is_bounded = self.data.in_memory || self.emulator.is_some();
        Some(AccountVersions {
            retention_seconds: self.engine.version_seconds?,
            partition_bytes: is_bounded.then_some(VERSION_BYTES_MAX),
        })
    }

    /// Returns the memory that the server may use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        Memory::new(self.memory_limit).limit
    }

    /// Returns the file that names the clusters of a node.
    pub fn cluster_file(&self) -> Option<&Path> {
        Some(&self.fleet.as_ref()?.cluster_file)
    }

    /// Returns the files that the configuration names, which may lie in the data directory.
    pub fn files(&self) -> Vec<&Path> {
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
