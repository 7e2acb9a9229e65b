//! `orrery healthcheck`: checks that a server answers. For containers without a shell.

use crate::address::reachable;
use crate::command::HealthcheckArguments;
use crate::failure::Failure;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of connecting, of writing and of reading.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Requests the account without credentials. Every status below 500 shows that the server answers;
/// the usual one is 401, because the request has no signature.
///
/// # Errors
/// No response, or a status of 500 or above.
pub(crate) fn run(arguments: &HealthcheckArguments) -> Result<(), Failure> {
    let address = reachable(arguments.listen);
    match request_status(address) {
        Ok(100..=499) => Ok(()),
        Ok(status) => Err(Failure::Failed(format!(
            "{address} answers with status {status}"
        ))),
        Err(error) => Err(Failure::Failed(format!(
            "no answer from {address}: {error}"
        ))),
    }
}

/// Sends a request for the account and returns the status of the response.
fn request_status(address: SocketAddr) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;

    // The first 12 bytes of a response are the version and the status, "HTTP/1.1 401".
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    head.strip_prefix(b"HTTP/1.1 ")
        .and_then(|status| std::str::from_utf8(status).ok()?.parse().ok())
        .ok_or_else(|| io::Error::other("the response is not HTTP/1.1"))
}
