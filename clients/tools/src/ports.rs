//! The program that holds a port of this machine, as far as the system tells.
//!
//! Linux tells it in `/proc`: the table of sockets has the owner of each, and the folders of
//! processes that this user may read have the name. Other systems, and processes of other users,
//! give less or nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// State of a socket that listens, in the tables of Linux.
const LISTENS: &str = "0A";
/// Characters of a command that are shown.
const COMMAND_SHOWN: usize = 120;

/// A program that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Number of the user.
    user: u32,
    /// The process, if this user may see it.
    process: Option<Process>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    id: u32,
    /// The command with its arguments.
    command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some(Process { id, command }) => write!(f, "process {id} ({command})"),
            None if self.user == 0 => write!(f, "a process of the user root"),
            None => write!(f, "a process of the user with the number {}", self.user),
        }
    }
}

/// A listener in a table of the system.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    user: u32,
    /// Number that the descriptor of the process names.
    socket: String,
}

/// Returns the program whose listener keeps others from `wanted`.
pub fn holder_of(wanted: SocketAddr) -> Option<Holder> {
    let found = listeners(wanted.port());
    let stands_in_the_way = |one: &&Listener| {
        let is_same = one.address == wanted.ip();
        is_same || one.address.is_unspecified() || wanted.ip().is_unspecified()
    };
    let listener = found.iter().find(stands_in_the_way)?;
    Some(Holder {
        user: listener.user,
        process: process_of(&listener.socket),
    })
}

/// Returns true if a program of this machine listens on a port for other machines. Systems without
/// `/proc` tell nothing.
pub(crate) fn listens_for_others(port: u16) -> bool {
    listeners(port).iter().any(|one| !one.address.is_loopback())
}

/// Returns the listeners of a port.
fn listeners(port: u16) -> Vec<Listener> {
    let mut found = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let table = std::fs::read_to_string(file).unwrap_or_default();
        found.extend(table.lines().filter_map(|line| listener(line, port)));
    }
    found
}

/// Parses a line: number, local address, remote address, state, queues, timer, repetitions, user,
/// timeout, socket.
fn listener(line: &str, port: u16) -> Option<Listener> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, state, _, _, _, user, _, socket, ..] = columns[..] else {
        return None;
    };
    let (address, found) = local.split_once(':')?;
    if state != LISTENS || u16::from_str_radix(found, 16).ok()? != port {
        return None;
    }
    Some(Listener {
        address: address_of(address)?,
        user: user.parse().ok()?,
        socket: socket.to_owned(),
    })
}

/// Parses an address: words of four bytes, each as a number of this machine in hexadecimal.
fn address_of(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for at in (0..text.len()).step_by(8) {
        let word = u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

/// Returns the process with a descriptor of a socket.
fn process_of(socket: &str) -> Option<Process> {
    let wanted = format!("socket:[{socket}]");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The descriptors of other users' processes cannot be read.
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else {
            continue;
        };
        let is_holder = descriptors.flatten().any(|descriptor| {
            let target = std::fs::read_link(descriptor.path());
            target.is_ok_and(|target| target.to_str() == Some(&wanted))
        });
        if is_holder {
            let command = command_in(&entry.path());
            return Some(Process { id, command });
        }
    }
    None
}

/// Returns the command in the folder of a process.
fn command_in(folder: &std::path::Path) -> String {
    let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let command = shown_command(&line);
    if !command.is_empty() {
        return command;
    }
    let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// Returns arguments that zeros end as a text: the name of the program without its folders, and the
/// first argument, which names a command or a script.
fn shown_command(line: &str) -> String {
    let mut arguments = line.split('\0').filter(|text| !text.is_empty());
    let program = arguments.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    let mut shown = program.to_owned();
    if let Some(first) = arguments.next().filter(|first| !first.starts_with('-')) {
        shown.push(' ');
        shown.push_str(first);
    }
    let is_printable = |c: &char| !c.is_control();
    shown
        .chars()
        .filter(is_printable)
        .take(COMMAND_SHOWN)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_line_of_the_table_is_a_listener_of_its_port() {
        let line = "   0: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  \
                    1000        0 42 1 0000000000000000 100 0 0 10 0";
        // The words of an address are numbers of this machine.
        let address = IpAddr::from(u32::to_ne_bytes(0x0100_007F));
        let expected = Listener {
            address,
            user: 1000,
            socket: "42".into(),
        };
        assert_eq!(listener(line, 8081), Some(expected));
        assert_eq!(listener(line, 8082), None);
        assert_eq!(listener(&line.replace(" 0A ", " 01 "), 8081), None);
        assert_eq!(listener("  sl  local_address rem_address   st", 8081), None);
    }

    #[test]
    fn a_command_is_shown_without_its_folders_and_options() {
        for (line, shown) in [
            ("/usr/bin/orrery\0start\0--memory\0", "orrery start"),
            ("/usr/bin/python3\0-m\0http.server\0", "python3"),
            ("node\0server.js\0--key=secret\0", "node server.js"),
            ("", ""),
        ] {
            assert_eq!(shown_command(line), shown);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_holds_its_ports_also_for_an_address_of_all_interfaces() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let everywhere = SocketAddr::new([0, 0, 0, 0].into(), address.port());
        let own = format!("process {} (", std::process::id());
        for wanted in [address, everywhere] {
            let holder = holder_of(wanted).expect("a holder").to_string();
            assert!(holder.starts_with(&own), "{holder}");
        }
        drop(taken);
        assert_eq!(holder_of(address), None);
    }

    #[test]
    fn a_listener_for_this_machine_alone_is_told_from_others() {
        let local = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!listens_for_others(local.local_addr().unwrap().port()));
        let open = TcpListener::bind("0.0.0.0:0").unwrap();
        let is_seen = listens_for_others(open.local_addr().unwrap().port());
        assert_eq!(is_seen, cfg!(target_os = "linux"));
    }
}
