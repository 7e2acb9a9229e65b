//! The account that a tool uses: from its options, the environment, or the local server.
//!
//! The first source that names an endpoint is taken, with the key of the same source:
//!
//! | source | endpoint | key |
//! |---|---|---|
//! | options | `endpoint` | `key` or `key_file`, else the variables with a key below |
//! | options | `connection_string` | in the string, else as above |
//! | environment | `ORRERY_ENDPOINT` | `ORRERY_KEY` |
//! | environment | `ORRERY_CONNECTION_STRING`, `AZURE_COSMOS_CONNECTION_STRING` | in the string |
//! | environment | `COSMOS_ENDPOINT` | `COSMOS_KEY` |
//! | environment | `ACCOUNT_HOST` | `ACCOUNT_KEY` |
//! | none | `http://127.0.0.1:8081/` | `ORRERY_KEY`, else the well-known key of emulators |
//!
//! Without a key, a loopback host gets the well-known key, and any other host is refused. The
//! connection string `emulator` is the local server. `key` and `key_file` replace the key of each
//! source.
//! `AZURE_COSMOS_ALLOW_INVALID_CERT` = `true` accepts any certificate.

use crate::connection_string::{ConnectionString, truth};
use crate::error::ClientError;
use crate::files::read_text;
use crate::tls::{Trust, is_loopback};
use std::fmt;
use std::path::{Path, PathBuf};

/// The key of every emulator of the service. It is public and protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
/// The endpoint of a server that was started without options.
pub const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:8081/";
/// Connections of a client, unless the options say otherwise.
const CONNECTIONS_DEFAULT: usize = 64;

/// A text that is not shown in messages and logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl Secret {
    /// Creates a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The options of a command that name an account.
#[derive(Debug, Clone, Default)]
pub struct ConnectionOptions {
    /// Address of the account; without a scheme, `http://` is added for this machine and `https://`
    /// for others.
    pub endpoint: Option<String>,
    /// Account key.
    pub key: Option<Secret>,
    /// File with the account key: its first line, or the line `primary: <key>`.
    pub key_file: Option<PathBuf>,
    /// Connection string, or `emulator`.
    pub connection_string: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// File in PEM with the root certificates that are accepted.
    pub ca_file: Option<PathBuf>,
    /// Connections at most; 64 if 0.
    pub connections: usize,
}

/// An account to connect to.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Address of the account, with its scheme.
    pub endpoint: String,
    /// Master key in base64.
    pub key: Secret,
    /// The place from which the key was taken, for messages.
    pub key_source: String,
    /// Certificates that are accepted.
    pub trust: Trust,
    /// Connections at most.
    pub connections: usize,
    /// Database that a connection string names.
    pub database: Option<String>,
    /// Container that a connection string names.
    pub container: Option<String>,
}

/// Reads one environment variable; empty ones count as absent.
type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An endpoint and the rest of its source.
#[derive(Default)]
struct Found {
    endpoint: String,
    /// The key and its place.
    key: Option<(Secret, String)>,
    database: Option<String>,
    container: Option<String>,
    accepts_any_certificate: bool,
}

impl ConnectionOptions {
    /// Returns the account that the options and the environment name.
    ///
    /// # Errors
    /// [`ClientError::InvalidOption`], never with the text of a key.
    pub fn resolve(&self, environment: Environment<'_>) -> Result<Connection, ClientError> {
        self.resolved(environment)
            .map_err(ClientError::InvalidOption)
    }

    fn resolved(&self, environment: Environment<'_>) -> Result<Connection, String> {
        let environment = |name: &str| {
            let value = environment(name)?;
            Some(value.trim().to_owned()).filter(|text| !text.is_empty())
        };
        if self.endpoint.is_some() && self.connection_string.is_some() {
            return Err("an endpoint and a connection string exclude each other".into());
        }
        if self.key.is_some() && self.key_file.is_some() {
            return Err("--key and --key-file exclude each other".into());
        }
        if self.insecure && self.ca_file.is_some() {
            return Err("--insecure and --ca-file exclude each other".into());
        }
        let found = self.found(&environment)?;
        let endpoint = with_scheme(&found.endpoint)?;
        let uri: http::Uri = endpoint.parse().map_err(|_| not_an_address(&endpoint))?;
        let host = uri.host().ok_or_else(|| not_an_address(&endpoint))?;
        let is_local = is_loopback(host.trim_start_matches('[').trim_end_matches(']'));

        // A key among the options counts before a key of the environment.
        let (key, key_source) = match (&self.key, &self.key_file, found.key) {
            (Some(key), _, _) => (trimmed(key), "--key".to_owned()),
            (None, Some(file), _) => (key_in(file)?, format!("the key file {}", file.display())),
            (None, None, Some(key)) => key,
            (None, None, None) => match environment("ORRERY_KEY") {
                Some(key) => (Secret::new(key), "ORRERY_KEY".to_owned()),
                None if is_local => (Secret::new(WELL_KNOWN_KEY), "emulators".to_owned()),
                None => {
                    return Err(format!(
                        "there is no account key for {endpoint}: name a file with --key-file, give \
                         --key, or set ORRERY_KEY"
                    ));
                }
            },
        };
        let allows_any = environment("AZURE_COSMOS_ALLOW_INVALID_CERT");
        let allows_any = allows_any.is_some_and(|text| truth(&text) == Some(true));
        let trust = match &self.ca_file {
            Some(file) => Trust::File(file.clone()),
            None if self.insecure || found.accepts_any_certificate || allows_any => Trust::Any,
            None => Trust::System,
        };
        Ok(Connection {
            endpoint,
            key,
            key_source,
            trust,
            connections: match self.connections {
                0 => CONNECTIONS_DEFAULT,
                connections => connections,
            },
            database: found.database,
            container: found.container,
        })
    }

    /// Returns the first source that names an endpoint.
    fn found(&self, environment: Environment<'_>) -> Result<Found, String> {
        let variable = |name: &str| environment(name).map(|key| (Secret::new(key), name.into()));
        if let Some(endpoint) = &self.endpoint {
            let keys = ["ORRERY_KEY", "COSMOS_KEY", "ACCOUNT_KEY"];
            return Ok(Found {
                endpoint: endpoint.clone(),
                key: keys.into_iter().find_map(variable),
                ..Found::default()
            });
        }
        if let Some(text) = &self.connection_string {
            return of_connection_string(text, "the connection string");
        }
        if let Some(endpoint) = environment("ORRERY_ENDPOINT") {
            return Ok(Found {
                endpoint,
                key: variable("ORRERY_KEY"),
                ..Found::default()
            });
        }
        for name in ["ORRERY_CONNECTION_STRING", "AZURE_COSMOS_CONNECTION_STRING"] {
            if let Some(text) = environment(name) {
                return of_connection_string(&text, name)
                    .map_err(|fault| format!("the variable {name}: {fault}"));
            }
        }
        for (endpoint_name, key_name) in [
            ("COSMOS_ENDPOINT", "COSMOS_KEY"),
            ("ACCOUNT_HOST", "ACCOUNT_KEY"),
        ] {
            if let Some(endpoint) = environment(endpoint_name) {
                return Ok(Found {
                    endpoint,
                    key: variable(key_name),
                    ..Found::default()
                });
            }
        }
        Ok(Found {
            endpoint: DEFAULT_ENDPOINT.into(),
            ..Found::default()
        })
    }
}

/// Returns the parts of a connection string, or the local server for `emulator`.
fn of_connection_string(text: &str, place: &str) -> Result<Found, String> {
    if text.trim().eq_ignore_ascii_case("emulator") {
        return Ok(Found {
            endpoint: DEFAULT_ENDPOINT.into(),
            key: Some((Secret::new(WELL_KNOWN_KEY), "emulators".into())),
            ..Found::default()
        });
    }
    let parsed = ConnectionString::parse(text)?;
    Ok(Found {
        endpoint: parsed.endpoint,
        key: parsed.key.map(|key| (key, place.to_owned())),
        database: parsed.database,
        container: parsed.container,
        accepts_any_certificate: parsed.accepts_any_certificate,
    })
}

/// Returns an endpoint with its scheme.
fn with_scheme(endpoint: &str) -> Result<String, String> {
    let endpoint = endpoint.trim();
    if endpoint.starts_with("http://") || endpoint.starts_with("https://") {
        return Ok(endpoint.to_owned());
    }
    if endpoint.contains("://") || endpoint.is_empty() {
        return Err(not_an_address(endpoint));
    }
    let guess: http::Uri = format!("http://{endpoint}")
        .parse()
        .map_err(|_| not_an_address(endpoint))?;
    let host = guess.host().unwrap_or_default();
    let is_local = is_loopback(host.trim_start_matches('[').trim_end_matches(']'));
    let scheme = if is_local { "http" } else { "https" };
    Ok(format!("{scheme}://{endpoint}"))
}

fn not_an_address(endpoint: &str) -> String {
    format!(
        "the endpoint '{endpoint}' is not an address: the form is https://HOST:PORT/ or \
         http://HOST:PORT/"
    )
}

/// Returns a key without spaces around it.
fn trimmed(key: &Secret) -> Secret {
    Secret::new(key.reveal().trim())
}

/// Returns the primary key in a key file of the server, or the first line of any other file.
fn key_in(file: &Path) -> Result<Secret, String> {
    let failed = |cause: String| format!("the key file {}: {cause}", file.display());
    let text = read_text(file).map_err(|e| failed(e.to_string()))?;
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let line = lines
        .find(|line| !line.is_empty() && !line.starts_with('#'))
        .ok_or_else(|| failed("it is empty".into()))?;
    let key = match line.split_once(':') {
        None => line,
        Some((name, key)) if name.trim() == "primary" => key.trim(),
        Some(_) => return Err(failed("its first line is not the primary key".into())),
    };
    Ok(Secret::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "c2VjcmV0LXNlY3JldA==";

    fn resolve(
        options: &ConnectionOptions,
        variables: &[(&str, &str)],
    ) -> Result<Connection, ClientError> {
        options.resolve(&|name| {
            let found = variables.iter().find(|(given, _)| *given == name)?;
            Some(found.1.to_owned())
        })
    }

    fn at(endpoint: &str) -> ConnectionOptions {
        ConnectionOptions {
            endpoint: Some(endpoint.into()),
            ..ConnectionOptions::default()
        }
    }

    #[test]
    fn without_options_and_variables_the_local_server_is_used() {
        let connection = resolve(&ConnectionOptions::default(), &[]).unwrap();
        assert_eq!(connection.endpoint, DEFAULT_ENDPOINT);
        assert_eq!(connection.key.reveal(), WELL_KNOWN_KEY);
        assert_eq!(connection.trust, Trust::System);
    }

    #[test]
    fn the_environment_names_the_account_in_the_ways_of_the_sdks() {
        let string = format!("AccountEndpoint=https://a.example/;AccountKey={KEY}");
        for variables in [
            vec![
                ("ORRERY_ENDPOINT", "https://a.example/"),
                ("ORRERY_KEY", KEY),
            ],
            vec![("AZURE_COSMOS_CONNECTION_STRING", string.as_str())],
            vec![
                ("COSMOS_ENDPOINT", "https://a.example/"),
                ("COSMOS_KEY", KEY),
            ],
            vec![("ACCOUNT_HOST", "https://a.example/"), ("ACCOUNT_KEY", KEY)],
        ] {
            let connection = resolve(&ConnectionOptions::default(), &variables).unwrap();
            assert_eq!(connection.endpoint, "https://a.example/", "{variables:?}");
            assert_eq!(connection.key.reveal(), KEY);
        }
        let emulator = [("AZURE_COSMOS_CONNECTION_STRING", "emulator")];
        let connection = resolve(&ConnectionOptions::default(), &emulator).unwrap();
        assert_eq!(connection.endpoint, DEFAULT_ENDPOINT);
    }

    #[test]
    fn options_come_before_the_environment() {
        let variables = [
            ("COSMOS_ENDPOINT", "https://a.example/"),
            ("COSMOS_KEY", KEY),
        ];
        let connection = resolve(&at("localhost:9000"), &variables).unwrap();
        assert_eq!(connection.endpoint, "http://localhost:9000");
        let connection = resolve(&at("db.example"), &variables).unwrap();
        assert_eq!(connection.endpoint, "https://db.example");
        assert_eq!(connection.key.reveal(), KEY);
    }

    #[test]
    fn a_remote_host_needs_a_key_and_a_key_file_gives_it() {
        let refused = resolve(&at("https://db.example/"), &[]).unwrap_err();
        assert!(refused.to_string().contains("--key-file"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("account.key");
        std::fs::write(&file, format!("# mine\nprimary: {KEY}\nsecondary: x\n")).unwrap();
        let options = ConnectionOptions {
            key_file: Some(file),
            ..at("https://db.example/")
        };
        assert_eq!(resolve(&options, &[]).unwrap().key.reveal(), KEY);
    }

    #[test]
    fn a_key_among_the_options_counts_before_the_environment_and_is_not_shown() {
        let options = ConnectionOptions {
            key: Some(Secret::new(format!(" {KEY}\n"))),
            ..at("https://db.example/")
        };
        let connection = resolve(&options, &[("ORRERY_KEY", "b3RoZXI=")]).unwrap();
        assert_eq!(connection.key.reveal(), KEY);
        assert!(!format!("{options:?}{connection:?}").contains(KEY));
        let both = ConnectionOptions {
            key_file: Some("a.key".into()),
            ..options
        };
        let fault = resolve(&both, &[]).unwrap_err().to_string();
        assert!(fault.contains("exclude each other"), "{fault}");
    }

    #[test]
    fn faults_of_options_are_told_without_the_key() {
        for (options, part) in [
            (at("ftp://a/"), "https://HOST"),
            (at(""), "https://HOST"),
            (
                ConnectionOptions {
                    connection_string: Some(format!("AccountKey={KEY}")),
                    ..ConnectionOptions::default()
                },
                "AccountEndpoint",
            ),
            (
                ConnectionOptions {
                    insecure: true,
                    ca_file: Some("a".into()),
                    ..at("https://a/")
                },
                "--ca-file",
            ),
        ] {
            let fault = resolve(&options, &[]).unwrap_err().to_string();
            assert!(fault.contains(part), "{fault}");
            assert!(!fault.contains("c2Vj"), "{fault}");
        }
    }
}
