//! A session in a pseudo terminal: completion, statements of several lines, history, Ctrl-C and
//! Ctrl-D.
//!
//! `setsid --ctty` makes the pseudo terminal the one that controls the session, so that Ctrl-C
//! becomes a signal.

use super::{shell, start};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time limit of one expectation.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which Ctrl-C is pressed again.
const PRESS_AGAIN: Duration = Duration::from_millis(200);

/// A session, and what it has written.
struct Terminal {
    process: Child,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    /// Output that no expectation has passed yet.
    pending: String,
}

impl Terminal {
    fn open(shell: &Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let controller = openpt(flags).expect("a pseudo terminal");
        grantpt(&controller).expect("rights");
        unlockpt(&controller).expect("unlocked");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let name = name.into_string().expect("UTF-8");
        let side = || {
            let opened = OpenOptions::new().read(true).write(true).open(&name);
            opened.expect("the terminal")
        };
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(shell.get_program())
            .args(shell.get_args());
        for (name, value) in shell.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let process = command
            .env("TERM", "xterm")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("setsid of util-linux");
        let keyboard = File::from(controller);
        let mut screen = keyboard.try_clone().expect("a second handle");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The terminal ends with an error when the session has closed it.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            process,
            keyboard,
            output,
            pending: String::new(),
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("keys");
    }

    /// Returns true if the session writes a text within a time. The text and all before it are
    /// passed.
    fn shows(&mut self, text: &str, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            if let Some(at) = self.pending.find(text) {
                self.pending.drain(..at + text.len());
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.pending.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => return false,
            }
        }
    }

    fn expect(&mut self, text: &str) {
        assert!(
            self.shows(text, TIMEOUT),
            "no '{text}' in {:?}",
            self.pending
        );
    }

    /// Waits for the prompt of a place, types a line and ends it with Enter.
    fn at(&mut self, prompt: &str, line: &str) {
        self.expect(prompt);
        self.press(&format!("{line}\r"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A session that a failed test left behind.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const ROOT: &str = "orrery> ";
const ORDERS: &str = "orrery shop/orders> ";

#[test]
fn a_person_completes_edits_recalls_and_cancels() {
    let (server, folder) = (start(), tempfile::tempdir().expect("a directory"));
    let command = shell(&server, folder.path());
    let mut terminal = Terminal::open(&command);

    // Completion of a command, a database and a container.
    terminal.at(ROOT, ".datab\t");
    terminal.expect("shop\r\n");
    terminal.at(ROOT, ".containers shop");
    terminal.expect("orders  /customer");
    terminal.at(ROOT, ".use sh\t or\t");

    // A query of several lines ends with an empty one; Ctrl-C gives a line up.
    terminal.at(ORDERS, "SELECT VALUE c.n");
    terminal.press("FROM c WHERE c.id = '1'\r\r");
    terminal.expect("1.5");
    terminal.expect("1 item, ");
    terminal.expect(ORDERS);
    terminal.press("SELECT nonsense\x03");
    terminal.at(
        ORDERS,
        "SELECT c.customer, c.n FROM c WHERE c.customer = 'cy';",
    );
    terminal.expect("1.2345678901234568e+22");

    // Names of properties come from rows that were seen; the history has the last query.
    terminal.at(
        ORDERS,
        "SELECT VALUE UPPER(c.cust\t) FROM c WHERE c.n = 20 OR c.id = '1';",
    );
    terminal.expect("ADA");
    terminal.at(ORDERS, "\x1b[A");
    terminal.expect("ADA");

    cancel_a_query(&mut terminal, folder.path());

    // Deletions ask.
    terminal.at(ORDERS, ".delete 1 ada");
    terminal.expect("delete item 1 with partition key [\"ada\"]? [y/N] ");
    terminal.press("n\r");
    terminal.expect("nothing was deleted");

    // A key stays out of the history; Ctrl-D ends the session.
    let address = &server.address;
    let key = orrery_gateway::WELL_KNOWN_KEY;
    let connect = format!(".connect AccountEndpoint=http://{address}/;AccountKey={key};");
    terminal.at(ORDERS, &connect);
    terminal.expect("connected to ");
    terminal.expect(ROOT);
    terminal.press("\x04");
    let ended = terminal.process.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0));
    check_history(&folder.path().join("orrery/shell-history"));
}

/// Cancels a query that joins a thousand numbers four times.
fn cancel_a_query(terminal: &mut Terminal, folder: &Path) {
    let numbers: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let item = format!(
        "{{\"id\":\"l\",\"customer\":\"l\",\"l\":[{}]}}",
        numbers.join(",")
    );
    let file = folder.join("long.jsonl");
    std::fs::write(&file, item).expect("a file");
    terminal.at(ORDERS, &format!(".import {}", file.display()));
    terminal.expect("1 created");
    let long = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.l JOIN b IN c.l JOIN d IN c.l \
                JOIN e IN c.l WHERE a + b + d + e < 0;";
    terminal.at(ORDERS, long);
    let deadline = Instant::now() + TIMEOUT;
    while !terminal.shows("cancelled", PRESS_AGAIN) {
        assert!(Instant::now() < deadline, "{:?}", terminal.pending);
        terminal.press("\x03");
    }
}

fn check_history(file: &Path) {
    let history = std::fs::read_to_string(file).expect("a history");
    assert!(
        history.contains(".databases") && history.contains("UPPER"),
        "{history}"
    );
    assert!(!history.to_lowercase().contains("accountkey"), "{history}");
    let mode = std::fs::metadata(file)
        .expect("metadata")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
