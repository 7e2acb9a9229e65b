//! The announcement on standard output that a server is ready: a banner for people, or a line of
//! JSON for programs.

use orrery_model::{Json, object};
use orrery_server::address::reachable;
use orrery_server::{AdminServer, Announcement};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Writes the announcement.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn write(announcement: &Announcement<'_>, as_json: bool) -> io::Result<()> {
    let text = if as_json {
        let admin = announcement.admin.map(|admin| ManagementFacts {
            endpoint: admin.endpoint(),
            key: admin.key(),
            console: admin.console_address(),
        });
        let key = announcement.primary_key;
        ready_line(key, announcement.address, announcement.health, admin)
    } else {
        banner(announcement)
    };
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    // The reader may be a program that waits for the announcement.
    stdout.flush()
}

/// Returns the URLs of all addresses, for each of `schemes`.
pub(crate) fn listening(announcement: &Announcement<'_>, schemes: &[&str]) -> String {
    let mut urls = Vec::new();
    for scheme in schemes {
        let addresses = announcement.addresses.iter();
        urls.extend(addresses.map(|address| format!("{scheme}://{address}")));
    }
    urls.join(", ")
}

/// Returns the connection strings for `schemes`, the first one for all clients, and a line on the
/// certificate.
pub(crate) fn connections(announcement: &Announcement<'_>, schemes: &[&str]) -> String {
    // The user's own key is a secret and must not appear in terminals and logs.
    let key = match announcement.has_well_known_key {
        true => announcement.primary_key,
        false => "<the key in your key file>",
    };
    let address = reachable(announcement.address);
    let string = |scheme: &str| format!("AccountEndpoint={scheme}://{address}/;AccountKey={key};");
    let mut lines = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(lines, "{name:<18}{value}");
    };
    for (at, scheme) in schemes.iter().enumerate() {
        match at {
            0 => line("Connect with:", &string(scheme)),
            _ => line(&format!("  over {scheme}:"), &string(scheme)),
        }
    }
    if announcement.has_self_signed_certificate && schemes.contains(&"https") {
        let accepts_any = "DisableServerCertificateValidation=True;";
        line("  from .NET:", &format!("{}{accepts_any}", string("https")));
        line(
            "Certificate:",
            "self-signed: Node, Java, Go and Rust must trust it, or use http (see orrery cert \
             --help)",
        );
    }
    lines
}

/// Returns the banner for people.
fn banner(announcement: &Announcement<'_>) -> String {
    let data = match announcement.data_dir {
        Some(directory) => directory.display().to_string(),
        None => "memory (lost on exit)".into(),
    };
    let management = match announcement.admin {
        Some(admin) => management(admin),
        None => "off".into(),
    };
    let console = match announcement.admin.and_then(AdminServer::console_address) {
        Some(address) => format!("{address} (signs in once)"),
        None => "off".into(),
    };
    format!(
        "Orrery {version}\n\
         \n\
         Now listening on: {listening}\n\
         Data:             {data}\n\
         {connections}\
         Management API:   {management}\n\
         Console:          {console}\n\
         Stop with:        Ctrl-C\n\
         \n\
         Started\n",
        version = env!("CARGO_PKG_VERSION"),
        listening = listening(announcement, &["https", "http"]),
        connections = connections(announcement, &["https", "http"]),
    )
}

/// Returns the URL of the management API and the key, or the file with the key.
pub(crate) fn management(admin: &AdminServer) -> String {
    let address = admin.address();
    match admin.key_file() {
        Some(file) => format!("http://{address}, key in {}", file.display()),
        None => format!("http://{address}, key {}", admin.key()),
    }
}

/// The facts about the management API.
struct ManagementFacts<'a> {
    endpoint: String,
    key: &'a str,
    /// Address of the console that signs one browser in.
    console: Option<String>,
}

/// Returns the line of JSON for programs.
fn ready_line(
    key: &str,
    address: SocketAddr,
    health: Option<SocketAddr>,
    admin: Option<ManagementFacts<'_>>,
) -> String {
    let address = reachable(address);
    let mut line = object! {
        "ready" => true,
        "endpoint" => format!("https://{address}/"),
        "endpoint_http" => format!("http://{address}/"),
        "key" => key,
    };
    if let Some(health) = health {
        line.set("health_endpoint", format!("http://{}/", reachable(health)));
    }
    if let Some(admin) = admin {
        line.set("admin_endpoint", admin.endpoint);
        line.set("admin_key", admin.key);
        if let Some(console) = admin.console {
            line.set("console", console);
        }
    }
    format!("{}\n", Json::Object(line).to_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(has_self_signed_certificate: bool) -> Announcement<'static> {
        Announcement {
            address: SocketAddr::from(([0, 0, 0, 0], 9000)),
            addresses: Vec::new(),
            health: None,
            primary_key: "k==",
            has_well_known_key: true,
            has_self_signed_certificate,
            data_dir: None,
            admin: None,
        }
    }

    #[test]
    fn connection_strings_are_stated_for_each_scheme_and_for_clients_that_check_certificates() {
        let own = announcement(true);
        assert_eq!(
            connections(&own, &["https", "http"]),
            "Connect with:     AccountEndpoint=https://127.0.0.1:9000/;AccountKey=k==;\n\
             \u{20}\u{20}over http:      AccountEndpoint=http://127.0.0.1:9000/;AccountKey=k==;\n\
             \u{20}\u{20}from .NET:      AccountEndpoint=https://127.0.0.1:9000/;AccountKey=k==;\
             DisableServerCertificateValidation=True;\n\
             Certificate:      self-signed: Node, Java, Go and Rust must trust it, or use http \
             (see orrery cert --help)\n"
        );
        let plain = "Connect with:     AccountEndpoint=http://127.0.0.1:9000/;AccountKey=k==;\n";
        assert_eq!(connections(&own, &["http"]), plain);
        // A certificate of the user's is trusted, and a key of the user's is not shown.
        let mut users = announcement(false);
        users.has_well_known_key = false;
        let lines = connections(&users, &["https"]);
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(
            lines.contains("AccountKey=<the key in your key file>;"),
            "{lines}"
        );
    }

    #[test]
    fn the_ready_line_is_one_line_of_json_with_a_reachable_address() {
        let admin = Some(ManagementFacts {
            endpoint: "http://127.0.0.1:9001/".to_owned(),
            key: "secret",
            console: Some("http://127.0.0.1:9001/?token=t".to_owned()),
        });
        let line = ready_line("k==", SocketAddr::from(([0, 0, 0, 0], 9000)), None, admin);
        assert_eq!(line.matches('\n').count(), 1);
        let json = orrery_model::json::parse(line.as_bytes()).expect("JSON");
        assert_eq!(json.get("ready").and_then(Json::as_bool), Some(true));
        for (name, value) in [
            ("endpoint", "https://127.0.0.1:9000/"),
            ("endpoint_http", "http://127.0.0.1:9000/"),
            ("key", "k=="),
            ("admin_endpoint", "http://127.0.0.1:9001/"),
            ("admin_key", "secret"),
            ("console", "http://127.0.0.1:9001/?token=t"),
        ] {
            assert_eq!(json.get(name).and_then(Json::as_str), Some(value), "{name}");
        }
    }
}
