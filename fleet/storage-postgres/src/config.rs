//! The description of a PostgreSQL cluster, and the file that holds descriptions.
//!
//! A description names hosts, user and database. The password is in a file of its own, which is
//! read at each connection, so that a new password needs no restart. No password is kept in a
//! value that can be printed.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// The port of a server whose address names none.
const DEFAULT_PORT: u16 = 5432;

/// The most bytes that a file with clusters or with a password may have.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The most memory for rows, in MiB.
const CACHE_MB_MAX: u64 = 1 << 20;

/// Reads a file that is not too long.
fn read_bounded(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file)?;
    opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 1 MiB"));
    }
    Ok(bytes)
}

/// One server of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// `host`, `host:port` or `[v6]:port`; a path names the directory of a Unix socket.
    pub address: String,
    /// The REST address of the server's Patroni, such as `http://10.0.0.1:8008`.
    pub patroni: Option<String>,
}

impl HostConfig {
    /// Returns the name and the port of the server.
    ///
    /// # Errors
    /// A sentence, if the address has no name or its port is no number.
    pub fn parts(&self) -> Result<(String, u16), String> {
        let wrong = || format!("'{}' is no address of the form host:port", self.address);
        let (name, port) = match self.address.rsplit_once(':') {
            Some((name, port)) if !name.contains(':') || name.starts_with('[') => (name, port),
            _ => (self.address.as_str(), ""),
        };
        let port = match port {
            "" => DEFAULT_PORT,
            port => port.parse().map_err(|_| wrong())?,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if name.is_empty() {
            return Err(wrong());
        }
        Ok((name.to_owned(), port))
    }
}

/// The encryption of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tls {
    /// TLS, with a certificate that is valid for the host and leads to a known root.
    #[default]
    Verify,
    /// No TLS.
    Off,
}

/// The description of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The name of the cluster in messages.
    pub name: String,
    /// The servers, in the order in which they are tried.
    #[serde(rename = "host")]
    pub hosts: Vec<HostConfig>,
    /// The role that owns the schema.
    pub user: String,
    /// The file with the password; `None` if the servers ask for none.
    pub password_file: Option<PathBuf>,
    /// The database.
    pub database: String,
    /// The schema of the tables: lower-case letters, digits and `_`.
    #[serde(default = "default_schema")]
    pub schema: String,
    /// The encryption of connections to the servers.
    #[serde(default)]
    pub tls: Tls,
    /// The file with root certificates in PEM; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Connections that write.
    #[serde(default = "default_write_connections")]
    pub write_connections: usize,
    /// Connections that read: one for each snapshot that is held.
    #[serde(default = "default_read_connections")]
    pub read_connections: usize,
    /// MiB of memory for rows of the partitions that this process owns; 0 for no such memory.
    #[serde(default = "default_cache_mb")]
    pub cache_mb: u64,
    /// Milliseconds after which the outcome of a commit counts as unknown.
    #[serde(default = "default_commit_timeout_ms")]
    pub commit_timeout_ms: u64,
    /// Milliseconds after which a read counts as not answered.
    #[serde(default = "default_read_timeout_ms")]
    pub read_timeout_ms: u64,
    /// Milliseconds by which reads from standbys are behind on purpose, so that applications can be
    /// tried with old data; 0 for the newest data of a standby.
    #[serde(default)]
    pub follower_delay_ms: u64,
    /// Milliseconds after which an attempt to connect to one server ends.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
}

fn default_schema() -> String {
    "orrery".to_owned()
}

fn default_write_connections() -> usize {
    8
}

fn default_read_connections() -> usize {
    64
}

fn default_cache_mb() -> u64 {
    64
}

fn default_commit_timeout_ms() -> u64 {
    8_000
}

fn default_read_timeout_ms() -> u64 {
    10_000
}

fn default_connect_timeout_ms() -> u64 {
    3_000
}

/// A description that cannot be used: a sentence that names the file or the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    cluster: Vec<ClusterConfig>,
}

impl ClusterConfig {
    /// Creates the description of a cluster with default settings.
    pub fn new(name: &str, hosts: Vec<HostConfig>, user: &str, database: &str) -> ClusterConfig {
        ClusterConfig {
            name: name.to_owned(),
            hosts,
            user: user.to_owned(),
            password_file: None,
            database: database.to_owned(),
            schema: default_schema(),
            tls: Tls::default(),
            ca_file: None,
            write_connections: default_write_connections(),
            read_connections: default_read_connections(),
            cache_mb: default_cache_mb(),
            commit_timeout_ms: default_commit_timeout_ms(),
            read_timeout_ms: default_read_timeout_ms(),
            follower_delay_ms: 0,
            connect_timeout_ms: default_connect_timeout_ms(),
        }
    }

    /// Reads the clusters of a file in TOML. Relative paths in the file start at its directory.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, describes a cluster that cannot be used, or
    /// names a cluster or a place twice.
    pub fn read_file(file: &Path) -> Result<Vec<ClusterConfig>, ConfigError> {
        let failed = |detail: String| ConfigError(format!("{}: {detail}", file.display()));
        let bytes = read_bounded(file).map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| failed(error.to_string()))?;
        let parsed: ClusterFile =
            toml::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut clusters = parsed.cluster;
        for cluster in &mut clusters {
            for path in [&mut cluster.password_file, &mut cluster.ca_file] {
                *path = path.take().map(|path| folder.join(path));
            }
            cluster.check().map_err(|error| failed(error.0))?;
        }
        if clusters.is_empty() {
            return Err(failed("there is no [[cluster]]".to_owned()));
        }
        for (at, cluster) in clusters.iter().enumerate() {
            for earlier in &clusters[..at] {
                cluster.check_beside(earlier).map_err(failed)?;
            }
        }
        Ok(clusters)
    }

    /// Checks that another cluster has another name, and that its tables are at another place.
    fn check_beside(&self, other: &ClusterConfig) -> Result<(), String> {
        let name = &self.name;
        if *name == other.name {
            let first_host = |cluster: &ClusterConfig| cluster.hosts[0].address.clone();
            return Err(format!(
                "two clusters have the name '{name}', the one at {} and the one at {}: give each \
                 a name of its own",
                first_host(other),
                first_host(self)
            ));
        }
        let is_there = |host: &&HostConfig| {
            let place = host.parts();
            other.hosts.iter().any(|there| there.parts() == place)
        };
        match self.hosts.iter().find(is_there) {
            Some(host) if self.database == other.database && self.schema == other.schema => {
                Err(format!(
                    "the clusters '{}' and '{name}' have the same tables, those of the schema '{}' \
                     in the database '{}' at {}: correct one of them",
                    other.name, self.schema, self.database, host.address
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks the description.
    ///
    /// # Errors
    /// A sentence about the first value that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        let failed =
            |detail: String| Err(ConfigError(format!("cluster '{}': {detail}", self.name)));
        if self.hosts.is_empty() {
            return failed("there is no [[cluster.host]]".to_owned());
        }
        for host in &self.hosts {
            if let Err(detail) = host.parts() {
                return failed(detail);
            }
            if let Some(url) = &host.patroni
                && let Err(detail) = crate::patroni::parse(url)
            {
                return failed(detail);
            }
        }
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = self.schema.starts_with(|c: char| c.is_ascii_lowercase());
        if !starts_well || !self.schema.chars().all(is_word) || self.schema.len() > 63 {
            return failed(format!(
                "the schema '{}' must be of lower-case letters, digits and _, and start with a \
                 letter",
                self.schema
            ));
        }
        if self.tls == Tls::Off && self.ca_file.is_some() {
            return failed("ca_file has no use with tls = \"off\"".to_owned());
        }
        let counts = [self.write_connections, self.read_connections];
        let times = [
            self.commit_timeout_ms,
            self.read_timeout_ms,
            self.connect_timeout_ms,
        ];
        if counts.iter().any(|count| !(1..=1_000).contains(count)) {
            return failed("connections must be between 1 and 1000".to_owned());
        }
        if times.iter().any(|ms| !(1..=3_600_000).contains(ms)) {
            return failed("timeouts must be between 1 ms and 1 hour".to_owned());
        }
        if self.cache_mb > CACHE_MB_MAX {
            return failed("cache_mb must be at most 1048576 (1 TiB)".to_owned());
        }
        if self.follower_delay_ms > 60_000 {
            return failed("follower_delay_ms must be at most one minute".to_owned());
        }
        Ok(())
    }

    pub(crate) fn commit_timeout(&self) -> Duration {
        Duration::from_millis(self.commit_timeout_ms)
    }

    pub(crate) fn read_timeout(&self) -> Duration {
        Duration::from_millis(self.read_timeout_ms)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    /// Reads the password file, without the end of its line.
    pub(crate) fn password(&self) -> Result<Option<Vec<u8>>, String> {
        let Some(file) = &self.password_file else {
            return Ok(None);
        };
        let mut password = read_bounded(file).map_err(|error| {
            format!("cannot read the password file {}: {error}", file.display())
        })?;
        while password.last().is_some_and(|byte| b"\r\n".contains(byte)) {
            password.pop();
        }
        Ok(Some(password))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(address: &str) -> HostConfig {
        HostConfig {
            address: address.to_owned(),
            patroni: None,
        }
    }

    #[test]
    fn addresses_are_names_with_and_without_ports() {
        for (address, name, port) in [
            ("db1", "db1", 5432),
            ("db1:6000", "db1", 6000),
            ("[::1]:6000", "::1", 6000),
            ("::1", "::1", 5432),
            ("/var/run/postgresql", "/var/run/postgresql", 5432),
        ] {
            assert_eq!(host(address).parts(), Ok((name.to_owned(), port)));
        }
        assert!(host("db1:x").parts().is_err() && host(":5432").parts().is_err());
    }

    #[test]
    fn a_file_describes_clusters_and_its_paths_start_at_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clusters.toml");
        let text = r#"
            [[cluster]]
            name = "main"
            user = "orrery"
            database = "orrery"
            password_file = "main.password"
            [[cluster.host]]
            address = "db1:5432"
            patroni = "http://db1:8008"
            [[cluster.host]]
            address = "db2"
        "#;
        std::fs::write(&file, text).unwrap();
        std::fs::write(folder.path().join("main.password"), "secret\r\n").unwrap();
        let clusters = ClusterConfig::read_file(&file).unwrap();
        let [main] = clusters.as_slice() else {
            panic!("{clusters:?}")
        };
        assert_eq!((main.hosts.len(), main.tls), (2, Tls::Verify));
        assert_eq!(main.password(), Ok(Some(b"secret".to_vec())));
        assert!(!format!("{main:?}").contains("secret"));
    }

    #[test]
    fn a_file_names_each_cluster_and_each_place_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clusters.toml");
        let cluster = |name: &str, schema: &str, host: &str| {
            format!(
                "[[cluster]]\nname = '{name}'\nuser = 'u'\ndatabase = 'd'\nschema = '{schema}'\n\
                 [[cluster.host]]\naddress = '{host}'\n[[cluster.host]]\naddress = 'spare{name}'\n"
            )
        };
        let read = |first: String, second: String| {
            std::fs::write(&file, first + &second).unwrap();
            ClusterConfig::read_file(&file)
        };
        let first = || cluster("first", "s", "db1");
        for second in [
            cluster("second", "other", "db1"),
            cluster("second", "s", "db2"),
            cluster("second", "s", "db1:6000"),
        ] {
            assert!(read(first(), second).is_ok());
        }
        let twice = read(first(), cluster("first", "s", "db2:5432")).unwrap_err();
        let expected = "two clusters have the name 'first', the one at db1 and the one at db2:5432";
        assert!(twice.to_string().contains(expected), "{twice}");
        let same = read(first(), cluster("second", "s", "db1:5432")).unwrap_err();
        let expected = "the clusters 'first' and 'second' have the same tables, those of the \
                        schema 's' in the database 'd' at db1:5432";
        assert!(same.to_string().contains(expected), "{same}");
        assert!(same.to_string().contains("clusters.toml"), "{same}");
    }

    const PAGE: &str = include_str!("../../../docs/reference/cluster-file.md");

    /// Returns the keys of a table of the file, from the error about an unknown key.
    fn keys_of(text: &str) -> Vec<String> {
        let error = toml::from_str::<ClusterFile>(text)
            .err()
            .map(|error| error.to_string());
        let error = error.expect("an unknown key is refused");
        let (_, known) = error.split_once("expected ").expect("the known keys");
        known
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the keys and defaults in the tables behind a heading of the page.
    fn rows_of(heading: &str) -> Vec<(String, String)> {
        let (_, section) = PAGE.split_once(heading).expect("the heading");
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let cell = |row: &str, at| row.split('|').nth(at).map(|c| c.trim().replace('`', ""));
        rows.map(|row| (cell(row, 1).unwrap(), cell(row, 4).unwrap()))
            .collect()
    }

    #[test]
    fn the_reference_has_every_key_and_its_default() {
        let cluster = rows_of("## Keys of a cluster");
        let of_host = rows_of("## Keys of a host");
        for (rows, text) in [
            (&cluster, "[[cluster]]\nunknown = 1\n"),
            (&of_host, "[[cluster]]\n[[cluster.host]]\nunknown = 1\n"),
        ] {
            let mut documented: Vec<String> = rows.iter().map(|(key, _)| key.clone()).collect();
            let mut known = keys_of(text);
            documented.sort();
            known.sort();
            assert_eq!(documented, known);
        }
        let made = ClusterConfig::new("c", vec![host("db1")], "u", "d");
        for (key, value) in [
            ("schema", made.schema.clone()),
            ("tls", format!("{:?}", made.tls).to_lowercase()),
            ("write_connections", made.write_connections.to_string()),
            ("read_connections", made.read_connections.to_string()),
            ("cache_mb", made.cache_mb.to_string()),
            ("commit_timeout_ms", made.commit_timeout_ms.to_string()),
            ("read_timeout_ms", made.read_timeout_ms.to_string()),
            ("connect_timeout_ms", made.connect_timeout_ms.to_string()),
            ("follower_delay_ms", made.follower_delay_ms.to_string()),
        ] {
            assert!(
                cluster.contains(&(key.to_owned(), value.clone())),
                "{key}: {value}"
            );
        }
    }

    #[test]
    fn wrong_descriptions_are_refused_with_the_reason() {
        let good = || ClusterConfig::new("c", vec![host("db1")], "u", "d");
        assert_eq!(good().check(), Ok(()));
        let mut wrong = [good(), good(), good(), good(), good(), good()];
        wrong[0].hosts.clear();
        wrong[1].schema = "a; drop".to_owned();
        wrong[2].hosts[0].patroni = Some("ftp://x".to_owned());
        wrong[3].read_connections = 0;
        (wrong[4].tls, wrong[4].ca_file) = (Tls::Off, Some("x".into()));
        wrong[5].commit_timeout_ms = 0;
        let parts = [
            "host",
            "schema",
            "ftp://x",
            "connections",
            "ca_file",
            "timeouts",
        ];
        for (config, part) in wrong.iter().zip(parts) {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("'c'"), "{error}");
        }
    }
}
