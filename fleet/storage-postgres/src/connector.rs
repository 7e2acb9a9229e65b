//! Connections to the primary of a cluster, and to its standbys.
//!
//! Patroni is asked for the primary if the description names its addresses; otherwise the servers
//! themselves are asked (`primaries.rs`). A server that was named
//! after an unknown outcome is tried after the others for a while, since an old primary that hangs
//! would be found first otherwise; a server that Patroni names is tried first in any case.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use orrery_model::error::with_causes;
use orrery_model::sync::lock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::backup_facts::BackupFacts;
use crate::config::{ClusterConfig, Tls};
use crate::identity::{self, ClusterId, Expected, Found, Membership, Place, Verdict};
use crate::notices::{Listener, Warnings};
use crate::outage::Outage;
use crate::patroni::{self, Role};
use crate::primaries::SeenServers;
use crate::schema;
use crate::statements::Statements;

/// The time for which a suspected server is tried last.
pub(crate) const SUSPICION: Duration = Duration::from_secs(30);

/// The pause between two attempts of a search for a primary.
const SEARCH_PERIOD: Duration = Duration::from_millis(100);

/// The least time for the creation of the tables.
const CREATION_TIMEOUT: Duration = Duration::from_secs(60);

/// The most steps that make a schema the expected cluster: the tables, the id, the fleet, and the
/// look after each; more if other programs do the same.
const MOST_STEPS: usize = 8;

/// Settings without which a warning could be missed, or a lost client would keep its locks.
const SETTINGS: &str = "SET statement_timeout = 0; SET client_min_messages = warning; \
                        SET idle_in_transaction_session_timeout = ";
/// Settings that only PostgreSQL and YugabyteDB have: plans stay on the primary key, and the server
/// soon notices that a client has vanished, whose snapshot would keep old rows.
const OPTIONAL_SETTINGS: [&str; 8] = [
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET enable_sort = off",
    "SET jit = off",
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
    "SET client_connection_check_interval = '1s'",
];

/// The use of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Snapshots, which may be held for long.
    Read,
    /// Snapshots on this server of the description, which must be a standby.
    Follow(usize),
    /// Commits. The server ends a transaction that stays open, because its locks stop the next
    /// owner of the partition.
    Write,
}

/// Makes connections to one cluster.
pub(crate) struct Connector {
    pub(crate) config: ClusterConfig,
    tls: Option<Arc<ClientConfig>>,
    /// For each server, when it was last suspected.
    suspected: Mutex<Vec<Option<Instant>>>,
    pub(crate) seen: Mutex<SeenServers>,
    /// The search for a primary that can be used, while there is none.
    pub(crate) outage: Outage,
    /// The search for a commit that is answered, while there is none.
    pub(crate) stall: Outage,
    wanted: Mutex<Wanted>,
    has_connected: AtomicBool,
    /// True once the log has the warning of [`Connector::check_feedback`].
    has_warned: AtomicBool,
    runtime: Handle,
}

/// The cluster that connections must have.
struct Wanted {
    expected: Expected,
    /// The cluster of the first connection.
    found: Option<ClusterId>,
}

/// One connection, with its prepared statements. Dropping the session closes the connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
    /// The number of the server in the description.
    pub(crate) host: usize,
    warnings: Arc<Warnings>,
    /// True from the first failure on: the connection is not used again.
    is_broken: AtomicBool,
    connection: AbortHandle,
    pub(crate) opened: Instant,
}

/// The servers that were tried in vain, with their reasons.
#[derive(Default)]
struct Tried {
    hosts: Vec<usize>,
    reasons: Vec<String>,
}

impl Tried {
    fn add(&mut self, host: usize, reason: String) {
        self.hosts.push(host);
        self.reasons.push(reason);
    }
}

impl Session {
    pub(crate) fn mark_broken(&self) {
        self.is_broken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.is_broken.load(Ordering::Relaxed) && !self.client.is_closed()
    }

    /// Runs work on the connection. If the caller stops waiting and drops the work, the connection
    /// counts as broken, since its answers are not read.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let was_broken = self.is_broken.swap(true, Ordering::Relaxed);
        let output = work.await;
        self.is_broken.store(was_broken, Ordering::Relaxed);
        output
    }

    /// Takes the warnings that arrived since the last call, apart from those of commits.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        self.warnings.kept()
    }

    /// Hands the warnings that arrive from now on to the caller.
    pub(crate) fn listen(&self) -> Listener {
        self.warnings.listen()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A broken connection may never answer again; a sound one says goodbye by itself.
        if !self.is_usable() {
            self.connection.abort();
        }
    }
}

/// A connection that is not set up yet.
pub(crate) struct NewConnection {
    pub(crate) client: Client,
    warnings: Arc<Warnings>,
    driver: AbortOnDrop,
}

/// Ends a task when dropped: a server that does not answer would keep it, and its connection.
struct AbortOnDrop(Option<AbortHandle>);

impl AbortOnDrop {
    fn keep(mut self) -> AbortHandle {
        self.0.take().expect("taken once")
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

impl Connector {
    /// # Errors
    /// When the root certificates cannot be read.
    pub(crate) fn new(
        config: ClusterConfig,
        expected: Expected,
        runtime: Handle,
    ) -> Result<Connector, String> {
        let needs_tls = config.tls == Tls::Verify
            || config.hosts.iter().any(|host| {
                let url = host.patroni.as_deref().unwrap_or_default();
                url.starts_with("https:")
            });
        Ok(Connector {
            tls: needs_tls.then(|| tls_config(&config)).transpose()?,
            suspected: Mutex::new(vec![None; config.hosts.len()]),
            seen: Mutex::default(),
            outage: Outage::default(),
            stall: Outage::default(),
            wanted: Mutex::new(Wanted {
                expected,
                found: None,
            }),
            has_connected: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
            config,
            runtime,
        })
    }

    /// Makes a server the last to be tried for a while.
    pub(crate) fn suspect(&self, host: usize) {
        lock(&self.suspected)[host] = Some(Instant::now());
    }

    /// Returns true if a connection may be used again: its server was not suspected after it was
    /// opened.
    pub(crate) fn is_trusted(&self, session: &Session) -> bool {
        let suspected = lock(&self.suspected)[session.host];
        session.is_usable() && suspected.is_none_or(|at| at < session.opened)
    }

    /// Returns true if any server has accepted a connection.
    pub(crate) fn has_connected(&self) -> bool {
        self.has_connected.load(Ordering::Relaxed)
    }

    /// Returns the reason while no primary can be reached.
    pub(crate) fn failure(&self) -> Option<String> {
        self.outage.reason()
    }

    /// Connects to the primary, or to one standby, on the store's own threads. Waits for the search
    /// of another caller for a primary.
    ///
    /// # Errors
    /// A sentence with the reason of each server.
    pub(crate) async fn connect(self: &Arc<Self>, purpose: Purpose) -> Result<Session, String> {
        let this = self.clone();
        let task = self.runtime.spawn(async move {
            if matches!(purpose, Purpose::Follow(_)) {
                return this.find_primary(purpose).await;
            }
            this.outage.wait().await?;
            let found = this.find_primary(purpose).await;
            if let Err(reason) = &found {
                this.search(reason);
            }
            found
        });
        // A caller that waits no longer gives its place to another, so the attempt ends as well.
        let _attempt = AbortOnDrop(Some(task.abort_handle()));
        match task.await {
            Ok(result) => result,
            Err(_) => Err("the store was closed".to_owned()),
        }
    }

    /// Searches for a primary in the background, unless that is done already.
    fn search(self: &Arc<Self>, reason: &str) {
        if !self.outage.note(reason.to_owned()) {
            return;
        }
        log::warn!("{reason}; its partitions are not served until there is one");
        let connector = Arc::downgrade(self);
        self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(SEARCH_PERIOD).await;
                let Some(this) = connector.upgrade() else {
                    return;
                };
                match this.find_primary(Purpose::Write).await {
                    Ok(_) => return this.end_search(),
                    Err(reason) => _ = this.outage.note(reason),
                }
            }
        });
    }

    /// Tries commits in the background after one that was not answered, unless that is done
    /// already.
    pub(crate) fn search_for_commits(self: &Arc<Self>, reason: &str) {
        if !self.stall.note(reason.to_owned()) {
            return;
        }
        let connector = Arc::downgrade(self);
        self.runtime.spawn(async move {
            while let Some(this) = connector.upgrade() {
                match this.try_commit().await {
                    Ok(()) => {
                        this.stall.end();
                        return;
                    }
                    Err(reason) => _ = this.stall.note(reason),
                }
                drop(this);
                tokio::time::sleep(SEARCH_PERIOD).await;
            }
        });
    }

    /// Notes a statement that the server has refused, as a sentence about it says. Commits are
    /// tried in the background until they are accepted. Returns the sentence for callers, with the
    /// remedy if the role lacks a right.
    pub(crate) fn note_refusal(self: &Arc<Self>, code: &SqlState, detail: &str) -> String {
        let reason = self.explain_refusal(code, detail);
        // The class of wrong statements: a right, a table or a column is missing.
        if code.code().starts_with("42") {
            self.search_for_commits(&reason);
        }
        reason
    }

    /// Returns a sentence about a refused statement, with the remedy if the role lacks a right.
    pub(crate) fn explain_refusal(&self, code: &SqlState, detail: &str) -> String {
        let ClusterConfig {
            name, user, schema, ..
        } = &self.config;
        if *code != SqlState::INSUFFICIENT_PRIVILEGE {
            return detail.to_owned();
        }
        format!(
            "the role '{user}' may not write in the cluster '{name}': {detail}; GRANT SELECT, \
             INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO \"{user}\""
        )
    }

    /// Checks that the role may write, and changes nothing.
    ///
    /// # Errors
    /// A sentence, if the server refuses a statement. A server that does not answer is no error.
    pub(crate) async fn check_rights(&self) -> Result<(), String> {
        let Ok(session) = self.find_primary(Purpose::Write).await else {
            return Ok(());
        };
        let text = schema::writes(&self.config.schema);
        let writes = session.run(session.client.batch_execute(&text));
        match tokio::time::timeout(self.config.commit_timeout(), writes).await {
            Ok(Err(error)) => match error.code() {
                Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                    Err(self.explain_refusal(code, &explain(&error)))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Makes a commit without an effect, which waits for the standbys as any other does.
    async fn try_commit(&self) -> Result<(), String> {
        let limit = self.config.commit_timeout();
        let session = self.find_primary(Purpose::Write).await?;
        // A commit that writes no row does not wait for a standby.
        let schema = &self.config.schema;
        let write = format!("UPDATE {schema}.format SET version = version WHERE one = 1;");
        let write = write + &schema::writes(schema);
        let commit = session.client.batch_execute(&write);
        match tokio::time::timeout(limit, session.run(commit)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(match error.code() {
                Some(code) => self.explain_refusal(code, &explain(&error)),
                None => explain(&error),
            }),
            Err(_) => Err(format!(
                "{}: no commit was answered within {} ms",
                self.config.hosts[session.host].address,
                limit.as_millis()
            )),
        }
    }

    fn end_search(&self) {
        if let Some(length) = self.outage.end() {
            log::warn!(
                "the cluster '{}' has a primary again, after {:.1} seconds",
                self.config.name,
                length.as_secs_f64()
            );
        }
    }

    async fn find_primary(&self, purpose: Purpose) -> Result<Session, String> {
        if let Purpose::Follow(host) = purpose {
            let session = self.connect_to(host, purpose).await;
            return session.map_err(|reason| self.at(host, &reason));
        }
        let mut reasons = Vec::new();
        if self.asks_servers() {
            return match self.connect_to_newest(purpose, &mut reasons).await {
                Some((host, connection)) => {
                    let session = self.begin_session(host, connection, purpose).await;
                    session.map_err(|reason| self.no_primary(&[self.at(host, &reason)]))
                }
                None => Err(self.no_primary(&reasons)),
            };
        }
        for host in self.candidates(&mut reasons).await {
            match self.connect_to(host, purpose).await {
                Ok(session) => return Ok(session),
                Err(reason) => reasons.push(self.at(host, &reason)),
            }
        }
        Err(self.no_primary(&reasons))
    }

    fn no_primary(&self, reasons: &[String]) -> String {
        format!(
            "no primary of the cluster '{}' can be used: {}",
            self.config.name,
            reasons.join("; ")
        )
    }

    pub(crate) fn at(&self, host: usize, reason: &str) -> String {
        format!("{}: {reason}", self.config.hosts[host].address)
    }

    /// Returns the servers to try, in order: primaries by Patroni, then servers of which Patroni
    /// says nothing; suspected ones last. Adds a reason for each server that is left out.
    async fn candidates(&self, reasons: &mut Vec<String>) -> Vec<usize> {
        let mut found = Vec::new();
        for (host, role) in self.roles().await.into_iter().enumerate() {
            match role {
                Role::Other => reasons.push(self.at(host, "Patroni says that it is no primary")),
                role => found.push((role, host)),
            }
        }
        let suspected = lock(&self.suspected).clone();
        let suspicion = |host: usize| suspected[host].filter(|at| at.elapsed() < SUSPICION);
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(role, host)| (role, suspicion(host), host))
            .collect();
        found.sort_by_key(order);
        found.into_iter().map(|(_, _, host)| host).collect()
    }

    /// Returns true for each server that may be the primary by what Patroni says: the one that
    /// Patroni names, or if it names none, each that Patroni does not exclude. Without
    /// Patroni, that with the newest timeline.
    pub(crate) async fn possible_primaries(&self) -> Vec<bool> {
        if self.asks_servers() {
            let newest = self
                .connect_to_newest(Purpose::Write, &mut Vec::new())
                .await;
            let newest = newest.map(|(host, _)| host);
            let hosts = 0..self.config.hosts.len();
            return hosts.map(|host| newest == Some(host)).collect();
        }
        let roles = self.roles().await;
        let wanted = match roles.contains(&Role::Primary) {
            true => Role::Primary,
            false => Role::Unknown,
        };
        roles.into_iter().map(|role| role == wanted).collect()
    }

    /// Asks Patroni for the role of each server, of all at the same time.
    async fn roles(&self) -> Vec<Role> {
        let mut questions = Vec::new();
        for host in &self.config.hosts {
            let (url, tls) = (host.patroni.clone(), self.tls.clone());
            questions.push(tokio::spawn(async move {
                match url {
                    Some(url) => patroni::role(&url, tls).await,
                    None => Role::Unknown,
                }
            }));
        }
        let mut roles = Vec::new();
        for question in questions {
            roles.push(question.await.unwrap_or(Role::Unknown));
        }
        roles
    }

    /// Connects to one server. Each step has a bound of its own: tables that are created take
    /// longer than a connection.
    async fn connect_to(&self, host: usize, purpose: Purpose) -> Result<Session, String> {
        let limit = self.config.connect_timeout();
        let connection = bounded(limit, self.open_connection(host, purpose)).await?;
        self.begin_session(host, connection, purpose).await
    }

    /// Checks a new connection, and prepares its statements.
    async fn begin_session(
        &self,
        host: usize,
        connection: NewConnection,
        purpose: Purpose,
    ) -> Result<Session, String> {
        let limit = self.config.connect_timeout();
        self.has_connected.store(true, Ordering::Relaxed);
        let (client, schema) = (&connection.client, self.config.schema.as_str());
        match purpose {
            Purpose::Follow(_) => self.check_standby(client).await?,
            Purpose::Read | Purpose::Write => self.admit(client).await?,
        }
        if matches!(purpose, Purpose::Follow(_)) && self.config.follower_delay_ms > 0 {
            bounded(limit, self.check_feedback(client, host)).await?;
        }
        let statements = bounded(limit, Statements::prepare(client, schema)).await?;
        connection.warnings.kept();
        Ok(Session {
            client: connection.client,
            statements,
            host,
            warnings: connection.warnings,
            is_broken: AtomicBool::new(false),
            connection: connection.driver.keep(),
            opened: Instant::now(),
        })
    }

    /// Checks that the server has the cluster that is expected, and makes it so where that is
    /// allowed. From then on no other cluster is accepted.
    async fn admit(&self, client: &Client) -> Result<(), String> {
        let schema = self.config.schema.as_str();
        let limit = self.config.connect_timeout();
        let long = limit.max(CREATION_TIMEOUT);
        let place = Place {
            name: &self.config.name,
            schema,
        };
        for _ in 0..MOST_STEPS {
            let expected = self.expected();
            let look = identity::look(client, schema, expected.wants_contents());
            match place.judge(expected, &bounded(limit, look).await?)? {
                Verdict::Use(id) => return self.keep_to(id),
                Verdict::Create => bounded(long, schema::create(client, schema)).await?,
                Verdict::Identify => bounded(long, identity::ensure(client, schema)).await?,
                Verdict::Join(fleet) => {
                    let join = identity::join(client, schema, fleet, &self.config.name);
                    bounded(limit, join).await?;
                }
            }
        }
        Err(format!("another program changes the schema '{schema}'"))
    }

    /// Checks that a standby is of the cluster that the store uses.
    async fn check_standby(&self, client: &Client) -> Result<(), String> {
        let schema = self.config.schema.as_str();
        let limit = self.config.connect_timeout();
        let found = match bounded(limit, identity::look(client, schema, false)).await? {
            Found::Nothing => return Err("the standby has no tables yet".to_owned()),
            Found::Tables { identity, .. } => identity.map(|identity| identity.id),
        };
        match self.id() {
            Some(id) if found != Some(id) => Err(match found {
                None => "the standby has no id of the cluster yet".to_owned(),
                Some(other) => format!("it is of another cluster, {other}"),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the cluster that a new connection must have.
    fn expected(&self) -> Expected {
        let wanted = lock(&self.wanted);
        wanted.found.map_or(wanted.expected, Expected::Id)
    }

    /// Sets the cluster that is expected. Returns false if connections were made that are to
    /// another one.
    pub(crate) fn expect(&self, expected: Expected) -> bool {
        let mut wanted = lock(&self.wanted);
        wanted.expected = expected;
        let known = match expected {
            Expected::Id(id) => Some(id),
            Expected::Member(Membership { known, .. }) => known,
            Expected::Any | Expected::First { .. } => None,
        };
        match (wanted.found, known) {
            (Some(found), Some(known)) if found != known => {
                wanted.found = Some(known);
                false
            }
            _ => true,
        }
    }

    /// Returns the id of the cluster, once there was a connection.
    pub(crate) fn id(&self) -> Option<ClusterId> {
        lock(&self.wanted).found
    }

    /// Accepts no cluster but this one from now on.
    fn keep_to(&self, id: ClusterId) -> Result<(), String> {
        let mut wanted = lock(&self.wanted);
        match *wanted.found.get_or_insert(id) {
            found if found == id => Ok(()),
            found => Err(format!("the cluster is {id}, and was {found} a moment ago")),
        }
    }

    /// Returns what is at the primary, and changes nothing.
    ///
    /// # Errors
    /// A sentence with the reason of each server.
    pub(crate) async fn look(&self) -> Result<Found, String> {
        let mut tried = Tried::default();
        loop {
            let (host, connection) = self.open_primary(&mut tried).await?;
            let look = identity::look(&connection.client, &self.config.schema, true);
            match bounded(self.config.connect_timeout(), look).await {
                Ok(found) => return Ok(found),
                Err(reason) => tried.add(host, self.at(host, &reason)),
            }
        }
    }

    /// Returns what a base backup of the cluster depends on.
    ///
    /// # Errors
    /// As [`Connector::look`].
    pub(crate) async fn backup_facts(&self) -> Result<BackupFacts, String> {
        let mut tried = Tried::default();
        loop {
            let (host, connection) = self.open_primary(&mut tried).await?;
            let facts = BackupFacts::read(&connection.client);
            match bounded(self.config.connect_timeout(), facts).await {
                Ok(facts) => return Ok(facts),
                Err(reason) => tried.add(host, self.at(host, &reason)),
            }
        }
    }

    /// Connects to a server that was not tried and takes writes, whatever cluster it is of.
    ///
    /// # Errors
    /// A sentence with the reasons of all servers, if none is left.
    async fn open_primary(&self, tried: &mut Tried) -> Result<(usize, NewConnection), String> {
        let limit = self.config.connect_timeout();
        if self.asks_servers() {
            // The newest of all is the primary, and no other one takes its place.
            let newest = match tried.hosts.is_empty() {
                true => {
                    self.connect_to_newest(Purpose::Write, &mut tried.reasons)
                        .await
                }
                false => None,
            };
            return newest.ok_or_else(|| self.no_primary(&tried.reasons));
        }
        let mut reasons = Vec::new();
        for host in self.candidates(&mut reasons).await {
            if tried.hosts.contains(&host) {
                continue;
            }
            let connection = self.open_connection(host, Purpose::Write);
            match bounded(limit, connection).await {
                Ok(connection) => return Ok((host, connection)),
                Err(reason) => tried.add(host, self.at(host, &reason)),
            }
        }
        reasons.append(&mut tried.reasons);
        Err(self.no_primary(&reasons))
    }

    pub(crate) async fn open_connection(
        &self,
        host: usize,
        purpose: Purpose,
    ) -> Result<NewConnection, String> {
        let (name, port) = self.config.hosts[host].parts()?;
        let mut options = Config::new();
        options
            .host(name)
            .port(port)
            .user(&self.config.user)
            .dbname(&self.config.database)
            .application_name("orrery")
            .keepalives_idle(Duration::from_secs(10))
            .connect_timeout(self.config.connect_timeout())
            .tcp_user_timeout(self.config.commit_timeout())
            .target_session_attrs(match purpose {
                Purpose::Follow(_) => TargetSessionAttrs::ReadOnly,
                _ => TargetSessionAttrs::ReadWrite,
            });
        if let Some(password) = self.config.password()? {
            options.password(password);
        }
        let refused = |error: tokio_postgres::Error| match &self.config.password_file {
            Some(file) if error.code() == Some(&SqlState::INVALID_PASSWORD) => {
                let file = file.display();
                format!("{}; the password is that of {file}", explain(&error))
            }
            _ => explain(&error),
        };
        let warnings = Arc::new(Warnings::default());
        let (client, driver) = match (&self.tls, self.config.tls) {
            (Some(tls), Tls::Verify) => {
                options.ssl_mode(SslMode::Require);
                let tls = MakeRustlsConnect::new((**tls).clone());
                let (client, connection) = options.connect(tls).await.map_err(refused)?;
                (client, tokio::spawn(drive(connection, warnings.clone())))
            }
            _ => {
                options.ssl_mode(SslMode::Disable);
                let (client, connection) = options.connect(NoTls).await.map_err(refused)?;
                (client, tokio::spawn(drive(connection, warnings.clone())))
            }
        };
        let connection = NewConnection {
            client,
            warnings,
            driver: AbortOnDrop(Some(driver.abort_handle())),
        };
        self.set_up(&connection.client, purpose).await?;
        Ok(connection)
    }

    /// Checks that a standby tells the primary which rows its snapshots need. Otherwise the primary
    /// removes rows that a delayed read holds, and the standby stops applying its log until the
    /// read has ended.
    async fn check_feedback(&self, client: &Client, host: usize) -> Result<(), String> {
        let row = client.query_one("SHOW hot_standby_feedback", &[]).await;
        let setting = row.and_then(|row| row.try_get::<_, String>(0));
        if setting.map_err(|error| explain(&error))? == "on" {
            return Ok(());
        }
        let reason = "follower_delay_ms needs hot_standby_feedback = on at the standby, because \
                      delayed reads hold snapshots, which would stop the standby from applying its \
                      log; reads go to the primary until then";
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            log::warn!("{}", self.at(host, reason));
        }
        Err(reason.to_owned())
    }

    /// Sets up a new connection. The settings are sent together, in one round trip.
    async fn set_up(&self, client: &Client, purpose: Purpose) -> Result<(), String> {
        let idle_ms = match purpose {
            Purpose::Read | Purpose::Follow(_) => 0,
            Purpose::Write => self.config.commit_timeout_ms,
        };
        let settings = format!("{SETTINGS}{idle_ms}");
        let optional = OPTIONAL_SETTINGS.map(|setting| client.batch_execute(setting));
        let (required, optional, durability) = tokio::join!(
            client.batch_execute(&settings),
            join_all(optional),
            set_synchronous_commit(client),
        );
        required.map_err(|error| explain(&error))?;
        for result in optional {
            // Another engine may lack the setting, and needs it for no result.
            if let Err(error) = result
                && error.as_db_error().is_none()
            {
                return Err(explain(&error));
            }
        }
        durability
    }
}

/// The order in which servers are tried: those that Patroni names first, also if one of them is
/// suspected; then those that are not suspected.
fn order(&(role, suspicion, host): &(Role, Option<Instant>, usize)) -> impl Ord + use<> {
    (role != Role::Primary, suspicion, host)
}

/// Waits for a step on a connection, for `limit` at most.
pub(crate) async fn bounded<T>(
    limit: Duration,
    step: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, step).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
    }
}

/// Sets the durability of commits for the connection, so that the server's settings do not lower it
/// later. A server that waits for standbys to apply commits goes on doing so.
async fn set_synchronous_commit(client: &Client) -> Result<(), String> {
    let row = client
        .query_one("SELECT current_setting('synchronous_commit')", &[])
        .await;
    let level = match row {
        Ok(row) => match row.try_get(0) {
            Ok("remote_apply") => "remote_apply",
            _ => "on",
        },
        // An engine without the setting has no commit that is not durable.
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_OBJECT) => return Ok(()),
        Err(error) => return Err(explain(&error)),
    };
    let set = format!("SET synchronous_commit = {level}");
    let done = client.batch_execute(&set).await;
    done.map_err(|error| explain(&error))
}

/// Runs a connection until it ends, and hands on the warnings of the server.
async fn drive<S>(mut connection: Connection<Socket, S>, warnings: Arc<Warnings>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(notice))) => warnings.take(&notice).await,
            Some(Ok(_)) => {}
            // The requests that wait get the error as well.
            Some(Err(_)) | None => return,
        }
    }
}

/// Returns an error with its causes, as the part of a sentence. Such errors hold no password.
pub(crate) fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", refusal.message(), refusal.code().code());
    }
    with_causes(error)
}

/// Returns the TLS settings of a cluster.
fn tls_config(config: &ClusterConfig) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match &config.ca_file {
        Some(file) => {
            let failed = |detail: &dyn std::fmt::Display| {
                format!(
                    "cannot read root certificates from {}: {detail}",
                    file.display()
                )
            };
            let pem = CertificateDer::pem_file_iter(file).map_err(|error| failed(&error))?;
            for certificate in pem {
                let certificate = certificate.map_err(|error| failed(&error))?;
                roots.add(certificate).map_err(|error| failed(&error))?;
            }
            if roots.is_empty() {
                return Err(failed(&"it has no certificate"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no root certificates: set ca_file".to_owned());
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(
        builder.with_root_certificates(roots).with_no_client_auth(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_that_patroni_names_is_tried_first_even_if_it_is_suspected() {
        let (early, late) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut servers = [
            (Role::Unknown, Some(late), 0),
            (Role::Unknown, Some(early), 1),
            (Role::Unknown, None, 2),
            (Role::Primary, Some(late), 3),
            (Role::Primary, None, 4),
        ];
        servers.sort_by_key(order);
        assert_eq!(servers.map(|(_, _, host)| host), [4, 3, 2, 1, 0]);
    }
}
