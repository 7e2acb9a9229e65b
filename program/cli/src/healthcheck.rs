//! `orrery healthcheck`: checks that a server answers, or waits until it is ready. For containers
//! without a shell.

use crate::command::HealthcheckArguments;
use orrery_server::Failure;
use orrery_server::address::{Listen, reachable};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Timeout of connecting, of writing and of reading.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Asks the server until it answers or the time to wait is over. Without `--ready` every status
/// below 500 shows that the server answers; the usual one is 401, because the request has no
/// signature. With `--ready` the server must say that it is ready.
///
/// # Errors
/// No response in time, or a status that shows a failure.
pub(crate) fn run(arguments: &HealthcheckArguments) -> Result<(), Failure> {
    let address = reachable(listen(arguments)?.first());
    let path = if arguments.ready { "/ready" } else { "/" };
    let deadline = Instant::now() + Duration::from_secs(arguments.wait);
    loop {
        let failure = match request_status(address, path) {
            Ok(200) => return Ok(()),
            Ok(100..=499) if !arguments.ready => return Ok(()),
            Ok(status) => format!("{address} answers with status {status}"),
            Err(error) => format!("no answer from {address}: {error}"),
        };
        if Instant::now() >= deadline {
            return Err(Failure::Failed(failure));
        }
        pause();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this command does nothing but wait, and has no runtime"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}

/// Returns the address: that of `--listen`, or the port in the variable of the emulator's image.
fn listen(arguments: &HealthcheckArguments) -> Result<Listen, Failure> {
    if let Some(listen) = arguments.listen.first() {
        return Ok(*listen);
    }
    match std::env::var("PORT") {
        Ok(port) if !port.trim().is_empty() => match port.trim().parse() {
            Ok(port) => Ok(Listen::Localhost(port)),
            Err(_) => Err(Failure::Usage(format!(
                "the variable PORT is '{port}', and no port"
            ))),
        },
        _ => Ok(Listen::Localhost(8081)),
    }
}

/// Sends a request and returns the status of the response. The port answers plain text whichever
/// protocol it announces.
fn request_status(address: SocketAddr, path: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;

    // The first 12 bytes of a response are the version and the status, "HTTP/1.1 401".
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    head.strip_prefix(b"HTTP/1.1 ")
        .and_then(|status| std::str::from_utf8(status).ok()?.parse().ok())
        .ok_or_else(|| io::Error::other("the response is not HTTP/1.1"))
}
