//! The announcement of a server in the place of the emulator.
//!
//! Programs wait for these lines on standard output: `Now listening on: `, the legacy line of the
//! vendor's emulator, and `Started` with a carriage return at the end of all output.

use crate::announce;
use orrery_server::address::reachable;
use orrery_server::{AdminServer, Announcement, Failure};
use std::io::{self, Write};

/// The legacy line of the vendor's emulator.
const LEGACY: &str = "System is now fully ready to accept requests";

/// The form of the announcement.
pub(super) struct AnnouncementOptions {
    /// True for one line of JSON.
    pub(super) as_json: bool,
    /// True if the console needs no sign-in.
    pub(super) is_open: bool,
    /// Schemes of the connection strings.
    pub(super) schemes: &'static [&'static str],
    /// Scheme of the console's address.
    pub(super) explorer_scheme: &'static str,
}

/// Writes the announcement, as one line of JSON or as the lines that programs wait for.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn write(
    options: &AnnouncementOptions,
    announcement: &Announcement<'_>,
) -> Result<(), Failure> {
    let written = match options.as_json {
        true => announce::write(announcement, true),
        false => write_lines(&text(options, announcement)),
    };
    written.map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

/// Writes the lines. The last one goes out by itself: programs look at each piece of output.
fn write_lines(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    stdout.write_all(b"Started\r\n")?;
    stdout.flush()
}

/// Returns all lines but the last.
fn text(options: &AnnouncementOptions, announcement: &Announcement<'_>) -> String {
    let data = match announcement.data_dir {
        Some(directory) => directory.display().to_string(),
        None => "memory (lost on exit)".into(),
    };
    let mut text = format!(
        "Orrery {} in the place of the emulator\n\
         \n\
         Now listening on: {}\n\
         Data:             {data}\n\
         {}",
        env!("CARGO_PKG_VERSION"),
        announce::listening(announcement, options.schemes),
        announce::connections(announcement, options.schemes),
    );
    if let Some(health) = announcement.health {
        text.push_str(&format!(
            "Health:           http://{}/ready\n",
            reachable(health)
        ));
    }
    match announcement.admin {
        Some(admin) if admin.has_console() => {
            text.push_str(&format!("Explorer:         {}\n", explorer(options, admin)));
        }
        _ => text.push_str("Explorer:         off\n"),
    }
    if announcement.has_well_known_key {
        text.push_str(
            "The account has the well-known key, which is public: every program that can reach \
             this port can read and change all data.\n",
        );
    }
    text.push_str(&format!("{LEGACY}\n"));
    text
}

/// Returns the address of the console; with a token that signs one browser in, unless the console
/// is open.
fn explorer(options: &AnnouncementOptions, admin: &AdminServer) -> String {
    let address = match options.is_open {
        true => admin.endpoint(),
        false => admin.console_address().unwrap_or_else(|| admin.endpoint()),
    };
    let address = address.trim_start_matches("http").to_owned();
    format!("{}{address}", options.explorer_scheme)
}
