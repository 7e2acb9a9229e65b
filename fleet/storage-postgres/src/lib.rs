//! The store in a PostgreSQL cluster.
//!
//! [`PostgresStore`] keeps the promises of [`orrery_storage::store`] on a cluster of one primary
//! and its standbys, which [`ClusterConfig`] describes. A partition is one row of the table `head`
//! and its rows of the table `kv`; a commit is one transaction that compares the head.
//!
//! - `config.rs`: the description of a cluster; `connector.rs`, `patroni.rs` and `primaries.rs`:
//!   the way to its primary; `schema.rs`, `schema.sql` and `statements.rs`: the tables and the SQL;
//!   `pool.rs`: connections that are kept;
//! - `identity.rs`: the id of a cluster, and the check that a connection is to the expected one;
//! - `backup_facts.rs`: the facts on which a base backup depends;
//! - `history.rs`: the record of openings; `partitions.rs`: which commits are accepted;
//!   `workers.rs`: their way to the server; `slot.rs`: their answers; `steps.rs`: openings,
//!   removals, and the look-up of outcomes;
//! - `batch.rs`, `transaction.rs` and `notices.rs`: several commits as one transaction;
//! - `reads.rs`: the way of reads to the primary; `snapshot.rs`: whole partitions;
//!   `row_snapshot.rs`: single rows; `row_cache.rs` and `recent_keys.rs`:
//!   rows that are known; `idle.rs`: their transactions between two callers; `followers.rs`: reads
//!   from standbys; `wait.rs`: plain threads that wait for the store's own threads.
//!
//! Promised beyond the trait: a commit counts as durable only if the server waited for its
//! synchronous standbys; a transaction that was not answered is looked up under a newer epoch; a
//! partition whose head went back behind a commit that this store has seen durable is read-only
//! until a person accepts the loss, also if another owner has committed since. A store creates
//! tables at its first connection or never, and uses the cluster with the id that it found first.
//!
//! Left out: partitions in several clusters. A loss that happened while no
//! process had the partition open is not noticed. A primary that was replaced and does not know it
//! may answer a snapshot of another process than the writer's from old data.

mod backup_facts;
mod batch;
mod config;
mod connector;
mod followers;
mod head;
mod history;
mod identity;
mod idle;
mod notices;
mod outage;
mod partitions;
mod patroni;
mod pool;
mod primaries;
mod reads;
mod recent_keys;
mod row_cache;
mod row_snapshot;
mod schema;
mod slot;
mod snapshot;
mod statements;
mod steps;
mod store;
mod transaction;
mod wait;
mod workers;

pub use backup_facts::{BackupFacts, WalArchive};
pub use config::{ClusterConfig, ConfigError, HostConfig, Tls};
pub use identity::{ClusterId, Expected, Found, Identity, Member, Membership};
pub use store::{PostgresStore, PreparedStore, StoreOptions};
