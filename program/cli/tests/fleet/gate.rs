//! A port before a server of a cluster, which a test closes and opens.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// The connections that pass; `None` while the gate is closed.
type Passing = Option<Vec<TcpStream>>;

/// A gate, which is open at first. Its threads end with their connections.
pub(crate) struct Gate {
    pub(crate) port: u16,
    passing: Arc<Mutex<Passing>>,
}

impl Gate {
    /// Puts a gate before the server at this port.
    pub(crate) fn before(server: u16) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let passing = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = passing.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Some(passing) = &mut *shared.lock().expect("no panic") {
                    // A server that ends meanwhile closes its side.
                    let _ = join(client, server, passing);
                }
            }
        });
        Gate { port, passing }
    }

    /// Cuts all connections, and refuses new ones.
    pub(crate) fn close(&self) {
        let cut = self.passing.lock().expect("no panic").take();
        for stream in cut.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets connections pass again.
    pub(crate) fn open(&self) {
        *self.passing.lock().expect("no panic") = Some(Vec::new());
    }
}

/// Connects a client with the server.
fn join(client: TcpStream, server: u16, passing: &mut Vec<TcpStream>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server))?;
    passing.extend([client.try_clone()?, server.try_clone()?]);
    let back = (server.try_clone()?, client.try_clone()?);
    for (mut from, mut to) in [(client, server), back] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
