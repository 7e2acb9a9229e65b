//! The server of the management API: its address, its key and its lifetime.
//!
//! The management API listens before the data is open and until the last request of a client has
//! finished, so that it can report recovery and shutdown.

use crate::address::{self, Listen, reachable};
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::descriptors::ADMIN_CONNECTIONS;
use crate::failure::Failure;
use crate::hosts::hosts;
use crate::private_file;
use orrery_admin::{Admin, AdminKeys, Components, Fleet, Options};
use orrery_client::files::read_text;
use orrery_console::{Base, Console, Database, RemoteDatabase, WithConsole};
use orrery_gateway::{ConnectionLimits, Patience, Port, serve};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Time that requests to the management API get to finish, after those of clients have finished.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The admin keys of a server and their origin.
struct LoadedKeys {
    keys: AdminKeys,
    /// Text of the first key.
    first: String,
    /// File with the keys; `None` if the key exists in memory only.
    file: Option<PathBuf>,
}

/// The management API of a server, with its console: what a program tells its user of them.
pub struct AdminServer {
    admin: Arc<Admin>,
    console: Option<Arc<Console>>,
    address: SocketAddr,
    keys: LoadedKeys,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

impl AdminServer {
    /// Starts the management API; returns `None` if the configuration switches it off.
    ///
    /// # Errors
    /// The address cannot be used, or there is no usable key.
    pub(crate) async fn start(
        config: &ServerConfig,
        context: &ServerContext,
    ) -> Result<Option<Self>, Failure> {
        let Some(listen) = config.admin.listen else {
            return Ok(None);
        };
        let keys = load_keys(
            config.admin.key_file.as_deref(),
            context.data_dir.as_deref(),
        )?;

        // The port is open by default, so the user may not know of it. The message therefore names
        // the option that changes it.
        let is_emulator = config.emulator.is_some();
        let cannot_listen = |(listen, error)| cannot_listen(listen, &error, is_emulator);
        let listeners = address::listen(&[listen], config.admin.takes_free_port).await;
        let listeners = listeners.map_err(cannot_listen)?;
        let address =
            address::first_of(&listeners).map_err(|error| cannot_listen((listen, error)))?;

        let admin = Arc::new(Admin::new(Options {
            keys: keys.keys.clone(),
            world: context.world.clone(),
            log: context.log.clone(),
            hosts: hosts(config),
        }));
        let console = console(config, &admin);
        let service = WithConsole::new(admin.clone(), console.clone(), Base::Root);
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            // A dropped sender means the same as a message.
            let _ = stopped.await;
        };
        let port = Port {
            service: Arc::new(service),
            tls: Some(context.tls.config.clone()),
            limits: ConnectionLimits {
                total: ADMIN_CONNECTIONS,
                per_address: ADMIN_CONNECTIONS,
            },
            patience: Patience::default(),
            spin: Duration::ZERO,
            drain: DRAIN_TIMEOUT,
            direct: None,
        };
        let serving = tokio::spawn(serve(port, listeners, shutdown));
        Ok(Some(AdminServer {
            admin,
            console,
            address,
            keys,
            stop,
            serving,
        }))
    }

    /// Announces that the requests of clients are forwarded to another node.
    pub(crate) fn begin_forwarding(&self, fleet: Arc<dyn Fleet>) {
        self.admin.begin_forwarding(fleet);
    }

    /// Announces to the console the way to the data while another node holds the lease.
    pub(crate) fn begin_remote_console(&self, remote: RemoteDatabase) {
        if let Some(console) = &self.console {
            console.begin_forwarding(remote);
        }
    }

    /// Announces that this node may own partitions.
    pub(crate) fn begin_owning(&self, components: Components) {
        self.admin.begin_owning(components);
    }

    /// Announces that the data is open.
    pub(crate) fn begin_serving(&self, components: Components) {
        self.admin.begin_serving(components);
    }

    /// Returns the management API without its port.
    pub(crate) fn admin(&self) -> &Arc<Admin> {
        &self.admin
    }

    /// Returns the console, unless it is switched off.
    pub fn console(&self) -> Option<&Arc<Console>> {
        self.console.as_ref()
    }

    /// Returns true unless the console is switched off.
    pub fn has_console(&self) -> bool {
        self.console.is_some()
    }

    /// Announces that clients are served, and by which database.
    pub(crate) fn begin_console(&self, database: Database) {
        if let Some(console) = &self.console {
            console.begin_serving(database);
        }
    }

    /// Returns a new address of the console that signs one browser in; `None` if the console is
    /// switched off. The address before it becomes invalid.
    pub fn console_address(&self) -> Option<String> {
        let token = self.console.as_ref()?.one_time_token()?;
        Some(format!("{}?token={token}", self.endpoint()))
    }

    /// Announces that the server is stopping.
    pub(crate) fn begin_draining(&self) {
        self.admin.begin_draining();
    }

    /// Returns the address on which the management API listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the management API on this machine.
    pub fn endpoint(&self) -> String {
        format!("http://{}/", reachable(self.address))
    }

    /// Returns the first key.
    pub fn key(&self) -> &str {
        &self.keys.first
    }

    /// Returns the file with the keys; `None` if the key exists in memory only.
    pub fn key_file(&self) -> Option<&Path> {
        self.keys.file.as_deref()
    }

    /// Stops listening and waits for the requests in progress.
    pub(crate) async fn stop(self) {
        // Both fail only if the task has already ended.
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

/// Returns the failure to listen, with the option that helps.
fn cannot_listen(listen: Listen, error: &io::Error, is_emulator: bool) -> Failure {
    let (subject, remedy) = match is_emulator {
        true => (
            "the explorer",
            "choose another port with --explorer-port (EXPLORER_PORT), or switch it off with \
             --enable-explorer false (ENABLE_EXPLORER=false)",
        ),
        false => (
            "the management API",
            "choose another port with --admin-listen (ORRERY_ADMIN_LISTEN), or switch it off with \
             --admin-listen off",
        ),
    };
    address::cannot_listen(listen, subject, error, remedy)
}

/// Creates the console, unless the configuration switches it off.
fn console(config: &ServerConfig, admin: &Arc<Admin>) -> Option<Arc<Console>> {
    let access = config.admin.console?;
    let open = match &config.emulator {
        Some(emulator) => emulator.is_open(),
        None => false,
    };
    Some(Arc::new(Console::new(orrery_console::Options {
        admin: admin.clone(),
        access,
        open,
        hosts: hosts(config),
        files: config.admin.console_files.clone(),
        version: env!("CARGO_PKG_VERSION"),
    })))
}

/// Loads the admin keys from the first of these sources that exists:
///
/// 1. The file that the user names.
/// 2. The file `admin.key` in the data directory, which is created with a new key at the first
///    start.
/// 3. A new key that is valid until the process ends, if the data is kept in memory.
fn load_keys(user_file: Option<&Path>, data_dir: Option<&Path>) -> Result<LoadedKeys, Failure> {
    let default_file = data_dir.map(|directory| directory.join("admin.key"));
    let Some(file) = user_file.or(default_file.as_deref()) else {
        return parse_keys(&new_key()?)
            .map_err(|cause| Failure::Failed(format!("the new admin key is not usable: {cause}")));
    };

    // A missing file of the user's is a mistake, such as a typing error in its path.
    if default_file.as_deref() == Some(file) && !file.exists() {
        let text = format!(
            "# The key of this server's management API.\n{}\n",
            new_key()?
        );
        private_file::write(file, text.as_bytes()).map_err(|error| {
            Failure::Failed(format!(
                "cannot write the admin key file {}: {error}",
                file.display()
            ))
        })?;
    }

    let text = read_text(file).map_err(|error| {
        Failure::Failed(format!(
            "cannot read the admin key file {}: {error}",
            file.display()
        ))
    })?;
    let keys = parse_keys(&text).map_err(|cause| {
        Failure::Failed(format!(
            "the admin key file {} is not usable: {cause}",
            file.display()
        ))
    })?;
    Ok(LoadedKeys {
        file: Some(file.to_owned()),
        ..keys
    })
}

/// Parses a text with admin keys.
fn parse_keys(text: &str) -> Result<LoadedKeys, orrery_admin::AdminKeysError> {
    let keys = AdminKeys::parse(text)?;
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    Ok(LoadedKeys {
        keys,
        first: first.to_owned(),
        file: None,
    })
}

/// Returns 256 random bits as hexadecimal digits.
#[expect(
    clippy::disallowed_methods,
    reason = "a key needs the randomness of the system"
)]
fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::Failed(format!(
            "cannot get random numbers from the system for an admin key: {error}"
        ))
    })?;
    Ok(orrery_model::hex::encode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_gets_one_key_that_only_its_owner_may_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = load_keys(None, Some(directory.path())).expect("a key");
        let second = load_keys(None, Some(directory.path())).expect("a key");
        assert_eq!((first.first.len(), &first.first), (64, &second.first));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.path().join("admin.key"))
                .expect("a file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let in_memory = load_keys(None, None).expect("a key");
        assert_ne!(in_memory.first, first.first);
    }

    #[test]
    fn a_key_file_of_the_user_is_read_and_never_created() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("own.key");
        assert!(load_keys(Some(&file), Some(directory.path())).is_err());
        std::fs::write(&file, "# mine\nmy-own-admin-key-2026\n").expect("written");
        assert_eq!(
            load_keys(Some(&file), None).expect("a key").first,
            "my-own-admin-key-2026"
        );
        std::fs::write(&file, "short\n").expect("written");
        let message = load_keys(Some(&file), None)
            .err()
            .expect("refused")
            .to_string();
        assert!(message.contains("line 1"), "{message}");
    }
}
