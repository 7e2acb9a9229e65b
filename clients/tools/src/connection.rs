//! The client of a tool, from options and the environment.

use orrery_client::{Client, ClientError, Connection, ConnectionOptions};

/// Returns a client for the options of a command, completed by the environment of the process, and
/// the connection that it uses. No request is sent.
///
/// # Errors
/// [`ClientError::InvalidOption`] for an option, a file or a variable that is not usable.
pub fn client(options: &ConnectionOptions) -> Result<(Client, Connection), ClientError> {
    let connection = options.resolve(&|name| std::env::var(name).ok())?;
    let client = Client::new(&connection)?;
    Ok((client, connection))
}

/// Returns a runtime for the requests of a tool.
///
/// # Errors
/// The system starts no thread.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}
