//! A proxy between the store and a server that breaks connections at a chosen moment of a commit.
//!
//! The proxy reads the messages of the client just well enough to find the text `COMMIT`, and those
//! of the server to find that it has answered.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// A fault of the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is cut, and the server never sees `COMMIT`.
    BeforeCommit,
    /// The connection is cut after the server has answered `COMMIT`, before the client sees that.
    AfterCommit,
    /// The server answers `COMMIT`, and the client never hears of it.
    NoAnswer,
    /// The whole transaction stays on its way until it is released, and the client gives up.
    Late,
}

/// A proxy before one server. Its threads end with their connections.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    fault: Arc<Mutex<Option<Fault>>>,
    /// Locked while a late transaction is held.
    hold: Arc<Mutex<()>>,
    landed: Receiver<()>,
}

/// The text of a query message without its type and length.
const COMMIT: &[u8] = b"COMMIT\0";
/// The start of the text with which a commit begins.
const BEGIN: &[u8] = b"BEGIN ISOLATION LEVEL READ COMMITTED";

impl Proxy {
    /// Starts a proxy before the server at this port.
    pub(crate) fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fault = Arc::new(Mutex::new(None));
        let shared = fault.clone();
        let hold = Arc::new(Mutex::new(()));
        let (held, (lands, landed)) = (hold.clone(), channel());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                join(client, server, &shared, &held, &lands);
            }
        });
        Proxy {
            port,
            fault,
            hold,
            landed,
        }
    }

    /// Arranges that the next commit fails.
    pub(crate) fn fail_next(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// Holds the next transaction until the guard is dropped.
    pub(crate) fn hold_next(&self) -> MutexGuard<'_, ()> {
        self.fail_next(Fault::Late);
        self.hold.lock().unwrap()
    }

    /// Waits until the server has answered the transaction that was held.
    pub(crate) fn wait_for_landing(&self) {
        self.landed.recv().unwrap();
    }

    /// Returns true if the arranged fault has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.lock().unwrap().is_none()
    }
}

/// Connects both sides. The fault that has struck a connection is shared by its two threads.
fn join(
    client: TcpStream,
    server: TcpStream,
    fault: &Arc<Mutex<Option<Fault>>>,
    hold: &Arc<Mutex<()>>,
    lands: &Sender<()>,
) {
    let (hold, lands) = (hold.clone(), lands.clone());
    let (answered, answer) = channel();
    let struck = Arc::new(Mutex::new(None));
    let (mut from_client, mut to_server) =
        (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (arranged, marks) = (fault.clone(), struck.clone());
    thread::spawn(move || {
        let (mut is_first, mut is_write) = (true, false);
        while let Some(message) = read_message(&mut from_client, !is_first) {
            is_first = false;
            // Snapshots end with COMMIT as well.
            is_write = is_of_write(&message).unwrap_or(is_write);
            let is_late = *arranged.lock().unwrap() == Some(Fault::Late);
            if is_late && message[0] == b'Q' && message[5..].starts_with(BEGIN) {
                *arranged.lock().unwrap() = None;
                *marks.lock().unwrap() = Some(Fault::Late);
                let mut transaction = message;
                while !transaction.ends_with(COMMIT) {
                    match read_message(&mut from_client, true) {
                        Some(next) => transaction.extend(next),
                        None => break,
                    }
                }
                drop(hold.lock().unwrap());
                let _ = to_server.write_all(&transaction);
                if answer.recv().is_ok() {
                    let _ = lands.send(());
                }
                break;
            }
            let is_commit = is_write && message[0] == b'Q' && message.ends_with(COMMIT);
            if is_commit && let Some(fault) = arranged.lock().unwrap().take() {
                if fault == Fault::BeforeCommit {
                    break;
                }
                *marks.lock().unwrap() = Some(fault);
            }
            if to_server.write_all(&message).is_err() {
                break;
            }
        }
        close(&from_client, &to_server);
    });
    let (mut to_client, mut from_server) = (client, server);
    thread::spawn(move || {
        while let Some(message) = read_message(&mut from_server, true) {
            let is_committed = message[0] == b'C' && message.ends_with(COMMIT);
            let fault = *struck.lock().unwrap();
            match fault {
                // Everything before the answer to COMMIT is swallowed too.
                Some(Fault::AfterCommit) if is_committed => break,
                Some(Fault::Late) if is_committed => {
                    let _ = answered.send(());
                }
                Some(_) => continue,
                None if to_client.write_all(&message).is_err() => break,
                None => {}
            }
        }
        close(&to_client, &from_server);
    });
}

/// Returns true for the start of a commit, and false for that of a snapshot.
fn is_of_write(message: &[u8]) -> Option<bool> {
    let is_start = message[0] == b'Q' && message[5..].starts_with(b"BEGIN");
    is_start.then(|| message[5..].starts_with(BEGIN))
}

fn close(one: &TcpStream, other: &TcpStream) {
    let _ = one.shutdown(Shutdown::Both);
    let _ = other.shutdown(Shutdown::Both);
}

/// Reads one message; the first message of a client has no type.
fn read_message(stream: &mut TcpStream, has_type: bool) -> Option<Vec<u8>> {
    let head = if has_type { 5 } else { 4 };
    let mut message = vec![0; head];
    stream.read_exact(&mut message).ok()?;
    let length = u32::from_be_bytes(message[head - 4..].try_into().unwrap()) as usize;
    message.resize(head - 4 + length, 0);
    stream.read_exact(&mut message[head..]).ok()?;
    Some(message)
}
