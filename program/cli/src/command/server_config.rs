//! The configuration of a server from the arguments of `orrery start`.

use super::direct;
use super::start::{
    AdminListen, Balance, ConsoleMode, CrossPartitionQueries, Entra, Profile, StandbyReads,
    StartArguments, StoreKind, Switch,
};
use crate::script_host;
use orrery_console::Access;
use orrery_engine::{ScriptDenial, ThroughputOptions};
use orrery_gateway::SlowRequests;
use orrery_server::Failure;
use orrery_server::config::{
    AccountConfig, AdminConfig, ClientsConfig, ContinuousBackupConfig, DataConfig,
    DefinitionConfig, EngineConfig, EntraConfig, FleetConfig, LogConfig, ServerConfig, TlsConfig,
};
use std::time::Duration;

/// The option that names the port for clients, for messages.
const LISTEN_OPTION: &str = "--listen (ORRERY_LISTEN)";

impl StartArguments {
    /// Returns the configuration that the arguments describe. No file is read.
    ///
    /// # Errors
    /// [`Failure::Usage`] for options that contradict each other; [`Failure::Failed`] if the path
    /// of this program is not known.
    pub(crate) fn into_config(self) -> Result<ServerConfig, Failure> {
        let fleet = self.fleet()?;
        let is_local = self.listen.iter().all(|listen| listen.is_loopback());
        let (direct, advertise) = (self.direct, self.direct_advertise.clone());
        Ok(ServerConfig {
            engine: self.engine(),
            log: self.log(),
            admin: self.admin(),
            data: DataConfig {
                in_memory: self.memory,
                as_of_ms: None,
                reserve_bytes: u64::from(self.disk_reserve) << 20,
                scrub_bytes_per_second: u64::from(self.scrub_rate) << 20,
                accepts_stale: self.accept_stale,
                directory: self.data_dir,
                continuous_backup: self.continuous_backup.map(|folder| ContinuousBackupConfig {
                    folder,
                    interval: Duration::from_secs(self.continuous_backup_interval.into()),
                    retention_ms: self.retention.0 * 1_000,
                }),
            },
            clients: ClientsConfig {
                listen: self.listen,
                listen_option: LISTEN_OPTION,
                takes_free_port: false,
                max_connections: self.max_connections,
                max_connections_per_address: self.max_connections_per_address,
                reserved_descriptors: 0,
                spin: Duration::from_micros(self.spin),
                allowed_hosts: [self.allow_hosts, self.console_hosts].concat(),
                cors: self.cors,
                direct: direct::config(direct, advertise, is_local, fleet.is_some())?,
            },
            fleet,
            tls: TlsConfig {
                certificate: self.tls_cert,
                key: self.tls_key,
                password_file: self.tls_password_file,
                password: None,
                hosts: self.cert_hosts,
            },
            account: AccountConfig {
                endpoint: self.endpoint,
                consistency: self.consistency.into(),
                regions: self.regions,
                key_file: self.key_file,
                entra: self.entra.map(|mode| EntraConfig {
                    verifies: mode == Entra::Verify,
                    audiences: self.entra_audiences,
                    issuer: self.entra_issuer,
                    keys_file: self.entra_keys,
                }),
            },
            definition: self.init.map(|path| DefinitionConfig {
                path,
                mode: self.init_mode.into(),
            }),
            settings_file: self.config,
            memory_limit: self.memory_limit,
            otlp_endpoint: self.otlp_endpoint,
            notes: Vec::new(),
            script_host: script_host::command()?,
            emulator: None,
        })
    }

    /// Returns the options of the engine.
    fn engine(&self) -> EngineConfig {
        EngineConfig {
            profile: self.profile.into(),
            cross_partition_queries: self.cross_partition_queries.into(),
            throughput: ThroughputOptions {
                enforce: self.enforce_throughput == Switch::On,
                burst_capacity: self.burst_capacity,
                priorities: self.priority_based_execution,
            },
            container_ru: self.throughput,
            logical_partition_bytes: self.logical_partition_limit.0,
            physical_partition_bytes: self.physical_partition_limit.0,
            database_limits: Vec::new(),
            script_denial: ScriptDenial {
                timeouts: self.script_timeouts,
                window_ms: u64::from(self.script_timeout_window) * 1_000,
            },
            version_seconds: self.all_versions_and_deletes.and_then(|kept| kept.0),
        }
    }

    /// Returns the settings of the log.
    fn log(&self) -> LogConfig {
        LogConfig {
            level: self.log_level.into(),
            format: self.log_format.into(),
            slow_requests: (self.slow_request_ms > 0).then(|| SlowRequests {
                min_microseconds: u64::from(self.slow_request_ms) * 1_000,
                shows_values: self.log_parameters,
            }),
        }
    }

    /// Returns the settings of the management API and the console.
    fn admin(&self) -> AdminConfig {
        AdminConfig {
            listen: match self.admin_listen {
                AdminListen::Off => None,
                AdminListen::At(listen) => Some(listen),
            },
            takes_free_port: false,
            key_file: self.admin_key_file.clone(),
            console: match self.console {
                ConsoleMode::On => Some(Access::Full),
                ConsoleMode::ReadOnly => Some(Access::ReadOnly),
                ConsoleMode::Off => None,
            },
            console_files: self.console_files.clone(),
        }
    }

    /// Returns the settings of a node; `None` for a server with data of its own.
    fn fleet(&self) -> Result<Option<FleetConfig>, Failure> {
        let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
        match (self.store, &self.cluster_file) {
            (StoreKind::Directory, None) => Ok(None),
            (StoreKind::Directory, Some(_)) => wrong("--cluster-file is for --store postgres"),
            (StoreKind::Postgres, None) => wrong("--store postgres needs --cluster-file"),
            (StoreKind::Postgres, Some(_)) if self.memory => {
                wrong("--store postgres and --memory exclude each other")
            }
            (StoreKind::Postgres, Some(_)) if self.regions.len() > 1 => {
                wrong("a node is in one region: give --region once")
            }
            (StoreKind::Postgres, Some(file)) => Ok(Some(FleetConfig {
                cluster_file: file.clone(),
                node: self.node.clone(),
                advertise: self.advertise.clone(),
                balances: self.balance == Balance::On,
                reads_standbys: self.standby_reads == StandbyReads::On,
                spread_load_ru: self.spread_load.0,
                lease_seconds: self.lease_seconds,
            })),
        }
    }
}

impl From<Profile> for orrery_engine::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Modern => Self::Modern,
            Profile::Y2019 => Self::Y2019,
        }
    }
}

impl From<CrossPartitionQueries> for orrery_engine::CrossPartitionQueries {
    fn from(side: CrossPartitionQueries) -> Self {
        match side {
            CrossPartitionQueries::Merge => Self::Merge,
            CrossPartitionQueries::Refuse => Self::Refuse,
        }
    }
}
