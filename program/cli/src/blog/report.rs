//! The announcement on standard output that a blog is ready: a text for people, or a line of JSON
//! for programs.

use super::place::Place;
use crate::server_inside::Facts;
use orrery_blog::Model;
use orrery_model::{Json, object};
use orrery_server::Failure;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddr;

/// The facts that the announcement states.
pub(super) struct Report<'a> {
    /// URL of the application.
    pub(super) application: String,
    /// Place of the database.
    pub(super) place: &'a Place,
    /// The server in this process, if there is one.
    pub(super) server: Option<&'a Facts>,
    /// Ports that were in use, so that free ports were taken: what they are for, and the port.
    pub(super) replaced_ports: Vec<(&'static str, SocketAddr)>,
    /// Home model.
    pub(super) home: Model,
    /// Present models.
    pub(super) models: Vec<Model>,
    /// Number of pipeline workers.
    pub(super) workers: u8,
}

impl Report<'_> {
    /// Writes the announcement.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn write(&self, as_json: bool) -> Result<(), Failure> {
        let text = if as_json {
            self.ready_line()
        } else {
            self.text()
        };
        write_out(&text)
    }

    /// Returns the text for people.
    fn text(&self) -> String {
        let place = self.place;
        // The user's own key is a secret and must not appear in terminals and logs.
        let key = match self.server {
            Some(facts) if facts.has_well_known_key => &place.key,
            _ => "<the account key>",
        };
        let data = match self.server.map(|facts| &facts.data_dir) {
            Some(Some(directory)) => directory.display().to_string(),
            Some(None) => "memory (lost on exit)".into(),
            None => format!("the databases {}-* of that server", place.database),
        };
        let models: Vec<String> = self.models.iter().map(Model::to_string).collect();
        let mut text = format!(
            "Orrery blog {version}\n\
             \n\
             Open:             {application}\n\
             Models:           {models}, home is {home}\n\
             Pipelines:        {workers} in this process\n\
             Database:         AccountEndpoint={endpoint};AccountKey={key};\n",
            version = env!("CARGO_PKG_VERSION"),
            application = self.application,
            models = models.join(", "),
            home = self.home,
            workers = self.workers,
            endpoint = place.endpoint,
        );
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(text, "{name:<18}{value}");
        };
        if let Some((_, _, description)) = self.server.and_then(|facts| facts.admin.as_ref()) {
            line("Management API:", description);
        }
        if let Some(console) = self.server.and_then(|facts| facts.console.as_ref()) {
            line("Console:", &format!("{console} (signs in once)"));
        }
        line("Data:", &data);
        for (purpose, address) in &self.replaced_ports {
            let value = format!("{address} is in use, so the {purpose} has a free port");
            line("Note:", &value);
        }
        line("Stop with:", "Ctrl-C");
        text.push_str("\nStarted\n");
        text
    }

    /// Returns the line of JSON for programs.
    fn ready_line(&self) -> String {
        let mut line = object! {
            "ready" => true,
            "application" => self.application.as_str(),
            "endpoint_http" => self.place.endpoint.as_str(),
            "key" => self.place.key.as_str(),
            "database" => self.place.database.as_str(),
        };
        let facts = self.server;
        if let Some((endpoint, key, _)) = facts.and_then(|facts| facts.admin.as_ref()) {
            line.set("admin_endpoint", endpoint.as_str());
            line.set("admin_key", key.as_str());
        }
        if let Some(console) = facts.and_then(|facts| facts.console.as_ref()) {
            line.set("console", console.as_str());
        }
        if let Some(directory) = facts.and_then(|facts| facts.data_dir.as_ref()) {
            line.set("data_dir", directory.display().to_string());
        }
        format!("{}\n", Json::Object(line).to_text())
    }
}

/// Writes a text to standard output, whose reader may be a program that waits for the text.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn write_out(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(has_well_known_key: bool) -> String {
        let facts = Facts {
            address: SocketAddr::from(([127, 0, 0, 1], 9)),
            key: "secret".into(),
            has_well_known_key,
            data_dir: None,
            admin: None,
            console: None,
            console_service: None,
        };
        let place = Place {
            endpoint: facts.endpoint(),
            key: "secret".into(),
            database: "blog".into(),
            throughput: None,
        };
        let report = Report {
            application: "http://127.0.0.1:8083/".into(),
            place: &place,
            server: Some(&facts),
            replaced_ports: vec![("database", SocketAddr::from(([127, 0, 0, 1], 8081)))],
            home: Model::V3,
            models: Model::ALL.to_vec(),
            workers: 1,
        };
        assert_eq!(report.ready_line().matches('\n').count(), 1);
        report.text()
    }

    #[test]
    fn a_key_of_the_user_is_not_printed_and_a_replaced_port_is() {
        let own = text(false);
        assert!(!own.contains("secret"), "{own}");
        assert!(own.contains("127.0.0.1:8081 is in use"), "{own}");
        assert!(text(true).contains("AccountKey=secret;"));
    }
}
