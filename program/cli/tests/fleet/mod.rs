//! PostgreSQL servers as clusters of the program, and commands that use them.

pub(crate) mod gate;

use crate::servers::{self, server};
use gate::Gate;
use orrery_storage_postgres::ClusterConfig;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clusters in one PostgreSQL server, each in a schema of its own, and the file that names them.
pub(crate) struct Fleet {
    folder: tempfile::TempDir,
    /// Names and schemas.
    clusters: Vec<(String, String)>,
}

impl Fleet {
    /// Creates clusters of these names, without data.
    pub(crate) fn new(names: &[&str]) -> Fleet {
        Fleet::create(names, |_, config| config)
    }

    /// Creates two clusters, the second behind a gate.
    pub(crate) fn with_gate(first: &str, second: &str) -> (Fleet, Gate) {
        let gate = Gate::before(server().port);
        let fleet = Fleet::create(&[first, second], |name, config| {
            let port = if name == second {
                gate.port
            } else {
                server().port
            };
            let hosts = server().config_at(&[port]).hosts;
            ClusterConfig { hosts, ..config }
        });
        (fleet, gate)
    }

    /// Creates clusters of these names, whose descriptions `change` changes.
    fn create(names: &[&str], change: impl Fn(&str, ClusterConfig) -> ClusterConfig) -> Fleet {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut clusters, mut configs) = (Vec::new(), Vec::new());
        for name in names {
            let mut config = server().config();
            (*name).clone_into(&mut config.name);
            clusters.push(((*name).to_owned(), config.schema.clone()));
            configs.push(change(name, config));
        }
        let text = servers::cluster_file(&configs);
        std::fs::write(folder.path().join("clusters.toml"), text).expect("the file is written");
        Fleet { folder, clusters }
    }

    /// Returns the path of the cluster file.
    pub(crate) fn file(&self) -> String {
        self.path("clusters.toml")
    }

    /// Returns a path in the folder of the test.
    pub(crate) fn path(&self, name: &str) -> String {
        let path: PathBuf = self.folder.path().join(name);
        path.to_str().expect("UTF-8").to_owned()
    }

    /// Starts a node, with the data directory `node-NAME`.
    pub(crate) fn start(&self, name: &str) -> Result<crate::program::Server, crate::program::Exit> {
        self.start_with(name, &[])
    }

    /// Starts a node with further arguments.
    pub(crate) fn start_with(
        &self,
        name: &str,
        more: &[&str],
    ) -> Result<crate::program::Server, crate::program::Exit> {
        self.start_on_file(name, &self.file(), more)
    }

    /// Returns the parts of the cluster file about the first cluster and about the second.
    pub(crate) fn parts_of_file(&self) -> (String, String) {
        let text = std::fs::read_to_string(self.file()).expect("the cluster file");
        let second = text.rfind("[[cluster]]").expect("a second cluster");
        let (first, second) = text.split_at(second);
        (first.to_owned(), second.to_owned())
    }

    /// Starts a node with a cluster file of its own, and with further arguments.
    pub(crate) fn start_on(
        &self,
        name: &str,
        clusters: &str,
        more: &[&str],
    ) -> Result<crate::program::Server, crate::program::Exit> {
        let file = self.path(&format!("clusters-{name}.toml"));
        std::fs::write(&file, clusters).expect("the file is written");
        self.start_on_file(name, &file, more)
    }

    fn start_on_file(
        &self,
        name: &str,
        file: &str,
        more: &[&str],
    ) -> Result<crate::program::Server, crate::program::Exit> {
        let directory = self.path(&format!("node-{name}"));
        let own = [
            "--store",
            "postgres",
            "--cluster-file",
            file,
            "--node",
            name,
            "--data-dir",
            &directory,
        ];
        // The machines of tests are busy: a node that is not served for seconds keeps its lease.
        let lease: &[&str] = match more.contains(&"--lease-seconds") {
            true => &[],
            false => &["--lease-seconds", "6"],
        };
        crate::program::start(&[&own, lease, more].concat())
    }

    /// Returns the first value of a statement in the schema of a cluster.
    pub(crate) fn value(&self, cluster: &str, sql: &str) -> String {
        self.sql(cluster, sql)[0][0].clone()
    }

    /// Returns the schema of a cluster.
    pub(crate) fn schema(&self, cluster: &str) -> &str {
        let found = self.clusters.iter().find(|(name, _)| name == cluster);
        &found.expect("a cluster of this name").1
    }

    /// Runs a statement in the schema of a cluster.
    pub(crate) fn sql(&self, cluster: &str, sql: &str) -> Vec<Vec<String>> {
        server().sql(&sql.replace("SCHEMA", self.schema(cluster)))
    }

    /// Removes all data of the clusters.
    pub(crate) fn empty(&self) {
        for (_, schema) in &self.clusters {
            server().sql(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"));
        }
    }
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program with arguments.
pub(crate) fn run(arguments: &[&str]) -> Done {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(arguments)
        .output()
        .expect("it runs");
    Done {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Returns the arguments of a migration.
pub(crate) fn migration<'a>(to: &'a str, directory: &'a str, file: &'a str) -> [&'a str; 7] {
    [
        "migrate-store",
        "--to",
        to,
        "--data-dir",
        directory,
        "--cluster-file",
        file,
    ]
}

/// Returns true if a folder has no entry or does not exist.
pub(crate) fn is_empty(folder: &str) -> bool {
    std::fs::read_dir(Path::new(folder)).is_ok_and(|mut entries| entries.next().is_none())
        || !Path::new(folder).exists()
}
