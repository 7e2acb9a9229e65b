//! The parts of a server that exist before its data is open.

use crate::config::ServerConfig;
use crate::data_dir;
use crate::descriptors::{self, Shares};
use crate::failure::Failure;
use crate::key_users::KeyUsers;
use crate::library_log;
use crate::memory::Memory;
use crate::tls::{self, ServerTls, UserCertificate};
use crate::world::SystemWorld;
use orrery_client::Secret;
use orrery_gateway::{Field, Log, LogLevel};
use orrery_model::world::World;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// The parts of a server that exist before its data is open.
#[derive(Clone)]
pub(crate) struct ServerContext {
    /// Start of the process.
    pub(crate) started: Instant,
    /// Shares of the memory.
    pub(crate) memory: Memory,
    /// Shares of the file descriptors.
    pub(crate) descriptors: Shares,
    /// Certificate of all ports.
    pub(crate) tls: ServerTls,
    /// Clock and random numbers of the system.
    pub(crate) world: Arc<dyn World>,
    /// Log of the server, on standard error.
    pub(crate) log: Arc<Log>,
    /// Data directory; `None` if the data is kept in memory.
    pub(crate) data_dir: Option<PathBuf>,
    /// Gateways that check signatures with the account keys.
    pub(crate) key_users: Arc<KeyUsers>,
    /// True once the server is announced.
    announced: Arc<watch::Sender<bool>>,
}

impl ServerContext {
    /// Shares out the memory and the descriptors, creates the data directory and the log, and loads
    /// or creates the certificate.
    ///
    /// # Errors
    /// Those of [`descriptors::share_out`], [`data_dir::prepare`], [`tls::from_files`] and
    /// [`tls::self_signed`].
    pub(crate) fn new(config: &ServerConfig) -> Result<Self, Failure> {
        let started = Instant::now();
        let memory = Memory::new(config.memory_limit);
        let (wanted, reserved) = (
            config.clients.max_connections,
            config.clients.reserved_descriptors,
        );
        let descriptors = descriptors::share_out(wanted, reserved)?;
        let data_dir = data_dir::prepare(config)?;
        let tls = match &config.tls.certificate {
            Some(certificate) => tls::from_files(UserCertificate {
                certificate,
                key: config.tls.key.as_deref(),
                password_file: config.tls.password_file.as_deref(),
                password: config.tls.password.as_ref().map(Secret::reveal),
            })?,
            None => tls::self_signed(data_dir.as_deref(), &config.tls.hosts)?,
        };
        let log = Log::new(config.log.level, config.log.format, io::stderr());
        let (log, world) = (Arc::new(log), Arc::new(SystemWorld::new()));
        library_log::collect(log.clone(), world.clone());
        Ok(ServerContext {
            started,
            memory,
            descriptors,
            tls,
            world,
            log,
            data_dir,
            key_users: Arc::default(),
            announced: Arc::new(watch::Sender::new(false)),
        })
    }

    /// Notes that the server is announced.
    pub(crate) fn set_announced(&self) {
        self.announced.send_replace(true);
    }

    /// Returns once the server is announced.
    #[cfg(unix)]
    pub(crate) async fn wait_until_announced(&self) {
        // The sender lives as long as `self`.
        let _ = self.announced.subscribe().wait_for(|told| *told).await;
    }

    /// Writes a line to the log.
    pub(crate) fn log(&self, level: LogLevel, message: &str) {
        self.log.write(self.world.now_ms(), level, message, &[]);
    }

    /// Writes a line with a cause to the log.
    pub(crate) fn log_with_cause(&self, level: LogLevel, message: &str, cause: &str) {
        let fields = [("cause", Field::Text(cause))];
        self.log.write(self.world.now_ms(), level, message, &fields);
    }
}
