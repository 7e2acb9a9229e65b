//! The door of the management API: its address, its key, and its server, which lives longer than the gateway's, so that
//! it can tell of the beginning and the end.

use crate::command::{AdminListen, StartArguments};
use crate::failure::Failure;
use crate::start::reachable;
use crate::tls::write_private;
use orrery_admin::{Admin, AdminKeys, Options};
use orrery_gateway::{Log, serve};
use orrery_model::world::World;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How long requests of the management API may take once everything else has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// An admin key, and where it can be found.
pub(crate) struct AdminKey {
    keys: AdminKeys,
    /// The first key's text.
    pub(crate) text: String,
    /// The file it is kept in; none if the data are in memory.
    pub(crate) file: Option<PathBuf>,
}

/// The management API of a server, once it listens.
pub(crate) struct AdminDoor {
    /// Answers its requests.
    pub(crate) admin: Arc<Admin>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What opens it.
    pub(crate) key: AdminKey,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

/// Opens the door, unless the operator wants none.
///
/// # Errors
/// The address is taken, or there is no usable key.
pub(crate) async fn open(
    arguments: &StartArguments,
    data_dir: Option<&Path>,
    tls: Arc<ServerConfig>,
    world: Arc<dyn World>,
    log: Arc<Log>,
) -> Result<Option<AdminDoor>, Failure> {
    let AdminListen::At(listen) = arguments.admin_listen else {
        return Ok(None);
    };
    let key = load_key(arguments.admin_key_file.as_deref(), data_dir)?;
    let cannot = |error: io::Error| {
        Failure::Failed(format!(
            "cannot listen on {listen} for the management API: {error}; name another address with --admin-listen, or 'off'"
        ))
    };
    let listener = TcpListener::bind(listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let admin = Arc::new(Admin::new(Options {
        keys: key.keys.clone(),
        world,
        log,
    }));
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        // That nobody is left to say it says the same.
        let _ = stopped.await;
    };
    let serving = tokio::spawn(serve(admin.clone(), listener, Some(tls), shutdown, DRAIN));
    Ok(Some(AdminDoor {
        admin,
        address,
        key,
        stop,
        serving,
    }))
}

impl AdminDoor {
    /// Its URL on this machine.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/", reachable(self.address))
    }

    /// What the banner says of it.
    pub(crate) fn told(&self) -> String {
        let key = match &self.key.file {
            Some(file) => format!("the key in {}", file.display()),
            None => format!("the key {}", self.key.text),
        };
        format!("http://{} with {key}", self.address)
    }

    /// Closes it.
    pub(crate) async fn close(self) {
        // It may have ended by itself.
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

/// The operator's key; or the one of the data directory, made at the first start; or one for the life of the process.
fn load_key(file: Option<&Path>, data_dir: Option<&Path>) -> Result<AdminKey, Failure> {
    let own = data_dir.map(|directory| directory.join("admin.key"));
    let Some(file) = file.or(own.as_deref()) else {
        let text = new_key()?;
        return usable(text, None);
    };
    if own.as_deref() == Some(file) && !file.exists() {
        let text = format!(
            "# The key of the management API of this server.\n{}\n",
            new_key()?
        );
        write_private(file, text.as_bytes()).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {error}", file.display()))
        })?;
    }
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::Failed(format!(
            "cannot read the admin key file {}: {error}",
            file.display()
        ))
    })?;
    usable(text, Some(file.to_owned()))
}

fn usable(text: String, file: Option<PathBuf>) -> Result<AdminKey, Failure> {
    let keys = AdminKeys::read(&text).map_err(|why| {
        let file = file.as_deref().unwrap_or(Path::new("memory"));
        Failure::Failed(format!(
            "the admin key file {} is not usable: {why}",
            file.display()
        ))
    })?;
    let first = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(AdminKey {
        keys,
        text: first.unwrap_or_default().to_owned(),
        file,
    })
}

/// 256 random bits as hexadecimal text.
fn new_key() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::Failed(format!(
            "the system gives no random numbers for an admin key: {error}"
        ))
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_for_a_data_directory_and_only_its_owner_reads_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = load_key(None, Some(directory.path())).expect("a key");
        let again = load_key(None, Some(directory.path())).expect("a key");
        assert_eq!((first.text.len(), &first.text), (64, &again.text));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(directory.path().join("admin.key"))
                .expect("a file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_ne!(load_key(None, None).expect("a key").text, first.text);
    }

    #[test]
    fn a_file_of_the_operator_is_read_and_never_made() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("own.key");
        assert!(load_key(Some(&file), Some(directory.path())).is_err());
        std::fs::write(&file, "# mine\nmy-own-admin-key-2026\n").expect("written");
        assert_eq!(
            load_key(Some(&file), None).expect("a key").text,
            "my-own-admin-key-2026"
        );
        std::fs::write(&file, "short\n").expect("written");
        let told = load_key(Some(&file), None)
            .err()
            .expect("refused")
            .to_string();
        assert!(told.contains("line 1"), "{told}");
    }
}
