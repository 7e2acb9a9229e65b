//! A server in the process of another command, on threads of its own.

use crate::{announce, start};
use orrery_console::Console;
use orrery_server::address::reachable;
use orrery_server::config::ServerConfig;
use orrery_server::{AdminServer, Announcement, Failure};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The facts about a server that is ready.
#[derive(Clone)]
pub(crate) struct Facts {
    /// Address of the port for clients.
    pub(crate) address: SocketAddr,
    /// Primary key of the account.
    pub(crate) key: String,
    /// True if the key is the well-known key of the emulator, which is no secret.
    pub(crate) has_well_known_key: bool,
    /// Data directory; `None` if the data is kept in memory.
    pub(crate) data_dir: Option<PathBuf>,
    /// URL and key of the management API, and a text with both for people.
    pub(crate) admin: Option<(String, String, String)>,
    /// Address of the console that signs one browser in; `None` if the console is off.
    pub(crate) console: Option<String>,
    /// The console, to which the blog announces itself.
    pub(crate) console_service: Option<Arc<Console>>,
}

impl Facts {
    fn of(announcement: &Announcement<'_>) -> Self {
        let admin = announcement.admin.map(|admin| {
            (
                admin.endpoint(),
                admin.key().to_owned(),
                announce::management(admin),
            )
        });
        Facts {
            address: announcement.address,
            key: announcement.primary_key.to_owned(),
            has_well_known_key: announcement.has_well_known_key,
            data_dir: announcement.data_dir.map(PathBuf::from),
            admin,
            console: announcement.admin.and_then(AdminServer::console_address),
            console_service: announcement.admin.and_then(AdminServer::console).cloned(),
        }
    }

    /// Returns the address of the console without a token.
    pub(crate) fn console_base(&self) -> Option<String> {
        self.console_service.as_ref()?;
        self.admin.as_ref().map(|(endpoint, _, _)| endpoint.clone())
    }

    /// Returns the URL of the database on this machine.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}/", reachable(self.address))
    }
}

/// A server that runs on threads of its own. [`ServerInside::stop`] must be called before the
/// process ends: accepted writes are durable only then.
pub(crate) struct ServerInside {
    /// The facts about the server.
    pub(crate) facts: Facts,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl ServerInside {
    /// Starts a server and waits until it accepts requests.
    ///
    /// # Errors
    /// Those of [`start::run_server`].
    pub(crate) fn start(config: ServerConfig) -> Result<Self, Failure> {
        let (stop, stopped) = oneshot::channel();
        let (announce, announced) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stopped = || {
                Ok(async {
                    // A dropped sender means the same as a message.
                    let _ = stopped.await;
                })
            };
            let ready = |announcement: &Announcement<'_>| {
                // The receiver waits for this message or for the end of the thread.
                let _ = announce.send(Facts::of(announcement));
                Ok(())
            };
            start::run_server(config, stopped, ready)
        });
        match announced.recv() {
            Ok(facts) => Ok(ServerInside {
                facts,
                stop,
                thread,
            }),
            // The server ended before it was ready.
            Err(_) => Err(match join(thread) {
                Err(failure) => failure,
                Ok(()) => Failure::Failed("the server ended before it was ready".into()),
            }),
        }
    }

    /// Stops the server: requests in progress finish, and accepted writes become durable.
    ///
    /// # Errors
    /// The data cannot be closed.
    pub(crate) fn stop(self) -> Result<(), Failure> {
        // The server may have ended already.
        let _ = self.stop.send(());
        join(self.thread)
    }
}

/// Waits for the end of the server's thread.
fn join(thread: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    match thread.join() {
        Ok(result) => result,
        // The panic hook has reported the panic.
        Err(_) => Err(Failure::Failed("the server ended with a panic".into())),
    }
}
