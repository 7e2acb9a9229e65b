//! The programs of PostgreSQL that make and check base backups, and the settings of a recovery.

use super::record::{CONTROL_FILE, OF_FILE_SYSTEM};
use orrery_client::files::read_text;
use orrery_server::{Failure, private_file};
use orrery_storage_postgres::{ClusterConfig, Tls};
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that names the folder of the programs.
const FOLDER_VARIABLE: &str = "PG_BIN";
/// The folder of the versions of PostgreSQL on Debian and its relatives.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Certificates of the system, for libraries before PostgreSQL 16.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
const BACK_UP: &str = "pg_basebackup";
const VERIFY: &str = "pg_verifybackup";

/// Variables by which libpq connects to something else than it is told.
const OTHER_SERVERS: [&str; 3] = ["PGHOSTADDR", "PGSERVICE", "PGOPTIONS"];
/// The folder with the links of tablespaces.
const TABLESPACES: &str = "pg_tblspc";
/// Files that say that a data directory is a standby or recovers, which a restore decides.
const SIGNALS: [&str; 2] = ["standby.signal", "recovery.signal"];

/// The folder with the programs.
pub(super) struct Programs(PathBuf);

/// The server of a cluster that is copied.
pub(super) struct Source<'a> {
    /// The role, if not that of the cluster file.
    pub(super) user: Option<&'a str>,
    /// True if a standby is copied if one answers, which may be behind.
    pub(super) is_standby_preferred: bool,
}

impl Programs {
    /// Finds the programs: in the folder that `PG_BIN` names, in the path of commands, or in that
    /// of the newest version of Debian's packages.
    ///
    /// # Errors
    /// [`Failure::Failed`] if they are nowhere.
    pub(super) fn find() -> Result<Self, Failure> {
        let mut folders: Vec<PathBuf> = Vec::new();
        folders.extend(std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from));
        if folders.is_empty() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            folders.extend(std::env::split_paths(&path));
            folders.extend(debian_folders());
        }
        // Some systems have the check in the package of the server, and the copy in the client.
        let has_both = |folder: &PathBuf| {
            [BACK_UP, VERIFY]
                .iter()
                .all(|name| folder.join(name).is_file())
        };
        folders.into_iter().find(has_both).map(Self).ok_or_else(|| {
            Failure::Failed(format!(
                "{BACK_UP} and {VERIFY} are not here: install PostgreSQL of the version of the \
                 clusters, or name the folder of its programs in {FOLDER_VARIABLE}"
            ))
        })
    }

    /// Makes a base backup of the primary of a cluster, or of a standby if one answers.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the program fails; its message stands on standard error.
    pub(super) fn back_up(
        &self,
        cluster: &ClusterConfig,
        source: &Source<'_>,
        bytes_per_second: u64,
        data: &Path,
    ) -> Result<(), Failure> {
        let user = source.user;
        let mut command = Command::new(self.0.join(BACK_UP));
        // Variables of the user would name another server than the cluster file.
        for variable in OTHER_SERVERS {
            command.env_remove(variable);
        }
        command
            .arg("--dbname")
            .arg(connection_text(cluster, source)?)
            .arg("--pgdata")
            .arg(data)
            .args(["--format=plain", "--wal-method=stream", "--checkpoint=fast"])
            .args(["--manifest-checksums=SHA256", "--no-password"]);
        if bytes_per_second > 0 {
            command.arg(format!("--max-rate={}", bytes_per_second / 1024));
        }
        if io::stderr().is_terminal() {
            command.arg("--progress");
        }
        // A role of its own has its password where PostgreSQL looks for it.
        if let (None, Some(file)) = (user, &cluster.password_file) {
            let text = read_text(file)
                .map_err(|e| Failure::Failed(format!("cannot read {}: {e}", file.display())))?;
            command.env("PGPASSWORD", text.lines().next().unwrap_or_default());
        }
        match run(&mut command)? {
            true => Ok(()),
            false => Err(Failure::Failed(format!(
                "{BACK_UP} of the cluster {} failed; its message stands above. If it refuses the \
                 role: a role needs REPLICATION and a line 'replication' in pg_hba.conf, and \
                 --user names another one",
                cluster.name
            ))),
        }
    }

    /// Compares the files of a base backup with its manifest, `without` one of them.
    ///
    /// # Errors
    /// [`Failure::Data`] if they differ or cannot be read.
    pub(super) fn verify(&self, data: &Path, without: Option<&str>) -> Result<(), Failure> {
        if !data.is_dir() {
            return Err(Failure::Data(format!("{} is missing", data.display())));
        }
        let mut command = Command::new(self.0.join(VERIFY));
        command.args(without.map(|file| format!("--ignore={file}")));
        match run(command.arg("--quiet").arg(data))? {
            true => Ok(()),
            false => Err(Failure::Data(format!(
                "{VERIFY} found faults in {}; its messages stand above",
                data.display()
            ))),
        }
    }
}

fn debian_folders() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir(VERSIONS).into_iter().flatten().flatten() {
        let version = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        versions.extend(version.map(|version: u32| (version, entry.path().join("bin"))));
    }
    versions.sort();
    versions
        .into_iter()
        .rev()
        .map(|(_, folder)| folder)
        .collect()
}

/// Runs a program whose output is for the user. Returns true if it succeeded.
fn run(command: &mut Command) -> Result<bool, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) => Ok(status.success()),
        Err(error) => Err(Failure::Failed(format!("cannot run {program}: {error}"))),
    }
}

/// Returns the text by which libpq connects to a host of a cluster.
fn connection_text(cluster: &ClusterConfig, source: &Source<'_>) -> Result<String, Failure> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for host in &cluster.hosts {
        let (name, port) = host.parts().map_err(Failure::Usage)?;
        hosts.push(name);
        ports.push(port.to_string());
    }
    let user = source.user.unwrap_or(&cluster.user);
    let kind = match source.is_standby_preferred {
        true => "prefer-standby",
        false => "read-write",
    };
    let seconds = cluster
        .connect_timeout_ms
        .div_ceil(1_000)
        .max(2)
        .to_string();
    let mut settings = vec![
        ("host", hosts.join(",")),
        ("port", ports.join(",")),
        ("user", user.to_owned()),
        ("connect_timeout", seconds),
        ("target_session_attrs", kind.to_owned()),
    ];
    match cluster.tls {
        Tls::Off => settings.push(("sslmode", "disable".to_owned())),
        Tls::Verify => {
            let roots = cluster.ca_file.clone();
            let roots = roots.unwrap_or_else(|| PathBuf::from(SYSTEM_ROOTS));
            settings.push(("sslmode", "verify-full".to_owned()));
            settings.push(("sslrootcert", roots.display().to_string()));
        }
    }
    let quoted = settings.iter().map(|(name, value)| {
        let value = value.replace('\\', r"\\").replace('\'', r"\'");
        format!("{name}='{value}'")
    });
    Ok(quoted.collect::<Vec<_>>().join(" "))
}

/// Refuses a data directory with tablespaces, whose files are elsewhere.
///
/// # Errors
/// [`Failure::Failed`] if it has some.
pub(super) fn refuse_tablespaces(data: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(data.join(TABLESPACES));
    match entries.into_iter().flatten().next() {
        None => Ok(()),
        Some(_) => Err(Failure::Failed(format!(
            "{} has tablespaces, which are not supported: move the tables of Orrery out of them",
            data.display()
        ))),
    }
}

/// Copies a data directory into one that is new or empty, without the control file: no server opens
/// the copy before [`finish_copy`].
///
/// # Errors
/// [`Failure::Data`] if the target is not empty, [`Failure::Failed`] for a tablespace or a file
/// that cannot be copied.
pub(super) fn copy_data(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("{}: {error}", to.display()));
    refuse_tablespaces(from)?;
    fs::create_dir_all(to).map_err(failed)?;
    let mut entries = fs::read_dir(to).map_err(failed)?.flatten();
    if entries.any(|entry| entry.file_name() != OF_FILE_SYSTEM) {
        return Err(Failure::Data(format!(
            "the directory {} is not empty: a cluster is restored into a new directory",
            to.display()
        )));
    }
    copy_folder(from, to, &from.join(CONTROL_FILE))?;
    for signal in SIGNALS {
        match fs::remove_file(to.join(signal)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    // PostgreSQL refuses a data directory that others may read.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(to, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Copies the control file, with which a server opens the copy.
///
/// # Errors
/// [`Failure::Failed`] if the file cannot be copied.
pub(super) fn finish_copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let target = to.join(CONTROL_FILE);
    copy_file(&from.join(CONTROL_FILE), &target)
        .and_then(|()| private_file::sync_directory_of(&target))
        .map_err(|error| Failure::Failed(format!("{}: {error}", target.display())))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

/// Copies a folder without one file.
fn copy_folder(from: &Path, to: &Path, without: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, e: io::Error| Failure::Failed(format!("{}: {e}", path.display()));
    for entry in fs::read_dir(from).map_err(|e| failed(from, e))? {
        let entry = entry.map_err(|e| failed(from, e))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|e| failed(&source, e))?;
        if kind.is_symlink() {
            return Err(Failure::Failed(format!(
                "{} is a link, which is not supported",
                source.display()
            )));
        } else if kind.is_dir() {
            fs::create_dir(&target).map_err(|e| failed(&target, e))?;
            copy_folder(&source, &target, without)?;
        } else if source != without {
            copy_file(&source, &target).map_err(|e| failed(&target, e))?;
        }
    }
    let synced = fs::File::open(to).and_then(|folder| folder.sync_all());
    synced.map_err(|e| failed(to, e))
}

/// Returns the command by which PostgreSQL fetches a file of an archive, quoted for its settings.
///
/// # Errors
/// [`Failure::Usage`] for a path that has a character which is special to the shell or to the
/// command.
pub(super) fn copy_command(archive: &Path) -> Result<String, Failure> {
    let path = archive.to_str().filter(|path| {
        let is_special =
            |c: char| c.is_control() || matches!(c, '\'' | '"' | '%' | '\\' | '$' | '`');
        !path.chars().any(is_special)
    });
    match path {
        Some(path) => Ok(format!(r#"'cp "{path}/%f" "%p"'"#)),
        None => Err(Failure::Usage(format!(
            "{}: the archive needs a path without quotes, %, $, ` and \\",
            archive.display()
        ))),
    }
}

/// Adds the settings of a recovery to a data directory, and orders the recovery.
///
/// # Errors
/// [`Failure::Failed`] if a file cannot be written.
pub(super) fn set_recovery(data: &Path, settings: &str) -> Result<(), Failure> {
    let file = data.join("postgresql.auto.conf");
    let failed = |error: io::Error| Failure::Failed(format!("{}: {error}", file.display()));
    let mut options = OpenOptions::new();
    let mut opened = options
        .append(true)
        .create(true)
        .open(&file)
        .map_err(failed)?;
    // The last line of the file may have no end.
    let settings = format!("\n{settings}");
    opened.write_all(settings.as_bytes()).map_err(failed)?;
    opened.sync_all().map_err(failed)?;
    private_file::write(&data.join("recovery.signal"), b"").map_err(failed)
}

/// Returns a note for a person who must give the files to the user of PostgreSQL.
pub(super) fn owner_note(data: &Path) -> String {
    #[cfg(unix)]
    if rustix::process::geteuid().is_root() {
        return format!(
            "The files belong to root, as whom no PostgreSQL runs: chown -R postgres: {}\n",
            data.display()
        );
    }
    let _ = data;
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_storage_postgres::HostConfig;

    #[test]
    fn the_hosts_of_a_cluster_are_asked_in_one_connection() {
        let host = |address: &str| HostConfig {
            address: address.to_owned(),
            patroni: None,
        };
        let hosts = vec![host("db1:5433"), host("[::1]:5432"), host("/run/pg")];
        let mut cluster = ClusterConfig::new("main", hosts, "o'rrery", "postgres");
        cluster.tls = Tls::Off;
        cluster.connect_timeout_ms = 2_500;
        let mut source = Source {
            user: None,
            is_standby_preferred: false,
        };
        assert_eq!(
            connection_text(&cluster, &source).expect("a text"),
            "host='db1,::1,/run/pg' port='5433,5432,5432' user='o\\'rrery' connect_timeout='3' \
             target_session_attrs='read-write' sslmode='disable'"
        );
        cluster.tls = Tls::Verify;
        source.user = Some("copier");
        source.is_standby_preferred = true;
        let text = connection_text(&cluster, &source).expect("a text");
        assert!(text.contains("user='copier'"), "{text}");
        assert!(text.contains("'prefer-standby'"), "{text}");
        assert!(
            text.contains("sslmode='verify-full' sslrootcert='/etc/ssl"),
            "{text}"
        );
    }

    #[test]
    fn an_archive_whose_path_the_shell_would_change_is_refused() {
        assert_eq!(
            copy_command(Path::new("/var/wal of main")).expect("a command"),
            r#"'cp "/var/wal of main/%f" "%p"'"#
        );
        for path in ["/a'b", "/a%b", "/a$b", "/a\"b", "/a\nb"] {
            assert!(copy_command(Path::new(path)).is_err(), "{path}");
        }
    }
}
