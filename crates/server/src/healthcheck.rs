//! `orrery healthcheck`: does a server answer? For containers without a shell.

use crate::command::HealthcheckArguments;
use crate::failure::Failure;
use crate::start::reachable;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks for the account without credentials. Any answer that is not the server's own failure is a sign of life; to be
/// told that we may not is the usual one.
///
/// # Errors
/// No answer, or a 5xx.
pub(crate) fn run(arguments: &HealthcheckArguments) -> Result<(), Failure> {
    let address = reachable(arguments.listen);
    let status = ask(address)
        .map_err(|error| Failure::Failed(format!("no answer from {address}: {error}")))?;
    match status {
        100..=499 => Ok(()),
        _ => Err(Failure::Failed(format!(
            "{address} answers with status {status}"
        ))),
    }
}

fn ask(address: std::net::SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let status = head
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| std::str::from_utf8(rest).ok()?.parse().ok());
    status.ok_or_else(|| std::io::Error::other("it does not speak HTTP"))
}
