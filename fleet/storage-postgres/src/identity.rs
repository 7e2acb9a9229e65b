//! The identity of a cluster: a random id, and the fleet to which the cluster belongs.
//!
//! Every new connection is checked before anything is read or written through it: the cluster must
//! be the one that is expected. From the first connection of a store on that is the cluster with
//! the id that was found, so a store never creates tables a second time and never goes on in
//! another cluster.

use std::fmt;

use orrery_model::hex;
use orrery_storage::PartitionId;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::connector::explain;
use crate::history::new_opener;
use crate::schema;

/// The partitions that only the first cluster of a fleet has, with their names for people.
const IN_FIRST: [(PartitionId, &str); 3] = [
    (PartitionId(0), "the catalog"),
    (PartitionId(u64::MAX - 2), "the list of partitions"),
    (PartitionId(u64::MAX - 3), "the lease"),
];

/// The bit in the numbers of partitions that were moved to this cluster.
const COPY: u64 = 1 << 62;

/// The random id of a cluster, made with its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl Expected {
    /// Returns true if the contents of a cluster of no fleet count.
    pub(crate) fn wants_contents(self) -> bool {
        matches!(self, Expected::First { .. } | Expected::Member(_))
    }
}

impl ClusterId {
    fn new() -> ClusterId {
        ClusterId(new_opener())
    }
}

/// The place of a cluster in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id of the first cluster of the fleet, which is also the id of the fleet.
    pub fleet: ClusterId,
    /// The name of the cluster in that fleet.
    pub name: String,
}

/// The row of the table `identity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the cluster.
    pub id: ClusterId,
    /// The fleet of the cluster; `None` for a cluster that no fleet uses.
    pub member: Option<Member>,
}

/// The tables at the place that a cluster's description names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No tables.
    Nothing,
    /// The tables of a store.
    Tables {
        /// `None` for tables of a program that knew no identity.
        identity: Option<Identity>,
        /// At least one partition has a row.
        has_rows: bool,
        /// The partition with the list of a fleet's partitions, or the catalog, has commits: the
        /// first cluster of a fleet.
        has_list: bool,
    },
}

/// The cluster that a store expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Any cluster. Tables are created if there are none.
    #[default]
    Any,
    /// The cluster with this id.
    Id(ClusterId),
    /// The first cluster of a fleet, which becomes one if it belongs to no fleet.
    First {
        /// Tables are created if there are none.
        may_create: bool,
    },
    /// Another cluster of a fleet.
    Member(Membership),
}

/// The knowledge that a fleet has of one of its clusters besides the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The id of the fleet.
    pub fleet: ClusterId,
    /// The id that the cluster had before, if the fleet remembers one.
    pub known: Option<ClusterId>,
    /// The partitions of the fleet that are in the cluster.
    pub partitions: usize,
    /// Tables may be created, and a cluster of no fleet may become one of this fleet.
    pub may_join: bool,
}

/// The next step with a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The cluster is the one that is expected.
    Use(ClusterId),
    /// The tables are to be created.
    Create,
    /// The cluster is to get an id.
    Identify,
    /// The cluster is to become a member of the fleet of this id, or if there is none, the first
    /// cluster of a fleet.
    Join(Option<ClusterId>),
}

/// Returns a partition as messages name it.
pub(crate) fn name_of(partition: PartitionId) -> String {
    let own = IN_FIRST.iter().find(|(id, _)| *id == partition);
    match own {
        Some((_, name)) => (*name).to_owned(),
        // The list of partitions has the number, and the partition that was moved.
        None if partition.0 & COPY != 0 => {
            format!("the copy {} of a moved partition", partition.0 & !COPY)
        }
        None => format!("partition {partition}"),
    }
}

/// A cluster as its description and its connection name it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) schema: &'a str,
}

impl Place<'_> {
    /// Decides about a cluster that was found in place of the expected one.
    ///
    /// # Errors
    /// A sentence with the remedy, if the cluster must not be used.
    pub(crate) fn judge(self, expected: Expected, found: &Found) -> Result<Verdict, String> {
        let (identity, has_rows, has_list) = match found {
            Found::Nothing => return self.judge_nothing(expected),
            Found::Tables {
                identity,
                has_rows,
                has_list,
            } => (identity.as_ref(), *has_rows, *has_list),
        };
        match (expected, identity) {
            (Expected::Any, Some(identity)) => Ok(Verdict::Use(identity.id)),
            (Expected::Any, None) => Ok(Verdict::Identify),
            (Expected::Id(id), identity) => self.judge_id(id, identity),
            (Expected::First { .. }, identity) => self.judge_first(identity, has_rows && !has_list),
            (Expected::Member(of), Some(Identity { id, member })) => match member {
                Some(member) => self.judge_member(of, *id, member),
                None => self.judge_free(of, Some(*id), has_rows, has_list),
            },
            (Expected::Member(of), None) => self.judge_free(of, None, has_rows, has_list),
        }
    }

    fn judge_nothing(self, expected: Expected) -> Result<Verdict, String> {
        let schema = self.schema;
        match expected {
            Expected::Any | Expected::First { may_create: true } => Ok(Verdict::Create),
            Expected::Id(_) | Expected::First { may_create: false } => Err(self.lost()),
            Expected::Member(of) if of.partitions > 0 => Err(format!(
                "there are no tables in the schema '{schema}', and the fleet has {} there: restore \
                 the cluster '{}'",
                match of.partitions {
                    1 => "a partition".to_owned(),
                    count => format!("{count} partitions"),
                },
                self.name
            )),
            Expected::Member(of) if of.known.is_some() => Err(format!(
                "there are no tables in the schema '{schema}', and there were before: restore the \
                 cluster '{}'; if it was empty, take it out of the cluster file, start the nodes \
                 again, and add it once more",
                self.name
            )),
            Expected::Member(of) if of.may_join => Ok(Verdict::Create),
            Expected::Member(_) => Err(format!(
                "the schema '{schema}' has no tables yet: the leaseholder creates them"
            )),
        }
    }

    /// Returns the sentence about tables that have gone.
    fn lost(self) -> String {
        format!(
            "the tables in the schema '{}' are gone: restore the cluster '{}'",
            self.schema, self.name
        )
    }

    fn judge_id(self, id: ClusterId, identity: Option<&Identity>) -> Result<Verdict, String> {
        match identity {
            Some(identity) if identity.id == id => Ok(Verdict::Use(id)),
            Some(identity) => Err(self.replaced(id, Some(identity.id))),
            None => Err(self.replaced(id, None)),
        }
    }

    fn replaced(self, known: ClusterId, found: Option<ClusterId>) -> String {
        let found = match found {
            Some(found) => format!("is the cluster with the id {found}"),
            None => "has no id of a cluster".to_owned(),
        };
        format!(
            "the schema '{}' {found}, and the cluster '{}' of this fleet has the id {known}: \
             correct its address in the cluster file, or restore it",
            self.schema, self.name
        )
    }

    fn judge_first(
        self,
        identity: Option<&Identity>,
        has_other_rows: bool,
    ) -> Result<Verdict, String> {
        let (schema, name) = (self.schema, self.name);
        let Some(Identity { id, member }) = identity else {
            return match has_other_rows {
                true => Err(self.not_first()),
                false => Ok(Verdict::Identify),
            };
        };
        match member {
            Some(member) if member.fleet != *id => Err(format!(
                "the schema '{schema}' is the cluster '{}' of the fleet {}, and not the first \
                 cluster of a fleet: put the clusters of the cluster file in the order in which \
                 the other nodes have them, or correct the address of the cluster '{name}'",
                member.name, member.fleet
            )),
            Some(member) if member.name != name => Err(format!(
                "the schema '{schema}' is the first cluster of a fleet, in which it has the name \
                 '{}': give it this name in the cluster file",
                member.name
            )),
            Some(_) => Ok(Verdict::Use(*id)),
            None if has_other_rows => Err(self.not_first()),
            None => Ok(Verdict::Join(None)),
        }
    }

    fn not_first(self) -> String {
        format!(
            "the schema '{}' has data, and neither a catalog nor a list of partitions, so it is \
             not the first cluster of a fleet: put the clusters of the cluster file in the order \
             in which the other nodes have them",
            self.schema
        )
    }

    fn judge_member(
        self,
        of: Membership,
        id: ClusterId,
        member: &Member,
    ) -> Result<Verdict, String> {
        let (schema, name) = (self.schema, self.name);
        let found = format!("the schema '{schema}' is the cluster '{}'", member.name);
        if member.fleet != of.fleet {
            let which = match member.fleet == id {
                true => "the first cluster ",
                false => "",
            };
            let found = format!(
                "the schema '{schema}' is {which}'{}' of another fleet, {}",
                member.name, member.fleet
            );
            return Err(format!(
                "{found}: correct the address of the cluster '{name}' in the cluster file. If that \
                 fleet does not use the cluster any more and it has no rows, free it with: {}",
                free(schema)
            ));
        }
        if member.fleet == id {
            return Err(format!(
                "{found}, the first one of this fleet: correct the address of the cluster '{name}' \
                 in the cluster file"
            ));
        }
        if member.name != name {
            return Err(format!(
                "{found} of this fleet: correct the addresses and the names in the cluster file"
            ));
        }
        match of.known {
            Some(known) if known != id => Err(self.replaced(known, Some(id))),
            _ => Ok(Verdict::Use(id)),
        }
    }

    /// Decides about a cluster that belongs to no fleet.
    fn judge_free(
        self,
        of: Membership,
        id: Option<ClusterId>,
        has_rows: bool,
        has_list: bool,
    ) -> Result<Verdict, String> {
        let (schema, name) = (self.schema, self.name);
        match of.known {
            Some(known) if id != Some(known) => return Err(self.replaced(known, id)),
            _ => {}
        }
        if has_list {
            return Err(format!(
                "the schema '{schema}' is the first cluster of another fleet: correct the address \
                 of the cluster '{name}' in the cluster file"
            ));
        }
        if has_rows && of.partitions == 0 {
            return Err(format!(
                "the schema '{schema}' has data, and no partition of this fleet is there: correct \
                 the address of the cluster '{name}' in the cluster file, or empty the cluster"
            ));
        }
        match of.may_join {
            true if id.is_none() => Ok(Verdict::Identify),
            true => Ok(Verdict::Join(Some(of.fleet))),
            false => Err(format!(
                "the schema '{schema}' does not belong to the fleet yet: the leaseholder adds it"
            )),
        }
    }
}

/// Returns the statement that frees a cluster without rows from its fleet.
fn free(schema: &str) -> String {
    format!("DELETE FROM {schema}.identity WHERE NOT EXISTS (SELECT 1 FROM {schema}.kv)")
}

/// Reads the identity of tables. `None` if there is no row, or no table for it.
async fn read(client: &Client, schema: &str) -> Result<Option<Identity>, String> {
    let query = format!("SELECT cluster, fleet, name FROM {schema}.identity WHERE one = 1");
    let row = match client.query_opt(&query, &[]).await {
        Ok(Some(row)) => row,
        Ok(None) => return Ok(None),
        Err(error) if schema::is_missing(&error) => return Ok(None),
        Err(error) => return Err(explain(&error)),
    };
    let bytes = |column: usize| -> Result<Vec<u8>, String> {
        row.try_get(column).map_err(|error| explain(&error))
    };
    let id = |bytes: Vec<u8>| {
        let id = bytes.try_into().map(ClusterId);
        id.map_err(|_| format!("the table {schema}.identity has an id of another form"))
    };
    let fleet = bytes(1)?;
    let member = match fleet.is_empty() {
        true => None,
        false => Some(Member {
            fleet: id(fleet)?,
            name: String::from_utf8_lossy(&bytes(2)?).into_owned(),
        }),
    };
    Ok(Some(Identity {
        id: id(bytes(0)?)?,
        member,
    }))
}

/// Gives tables an id if they have none.
///
/// # Errors
/// A sentence, if the role may not do so or the server does not answer.
pub(crate) async fn ensure(client: &Client, schema: &str) -> Result<(), String> {
    let failed = |error: &tokio_postgres::Error| {
        let error = explain(error);
        format!("the schema '{schema}' cannot be given the id of a cluster: {error}")
    };
    let statement = format!(
        "INSERT INTO {schema}.identity (one, cluster, fleet, name) VALUES (1, $1, $2, $2) \
         ON CONFLICT (one) DO NOTHING"
    );
    let (id, nothing) = (ClusterId::new().0, [0u8; 0]);
    let parameters: [&(dyn ToSql + Sync); 2] = [&id.as_slice(), &nothing.as_slice()];
    match client.execute(&statement, &parameters).await {
        Ok(_) => return Ok(()),
        // Tables of an earlier version. A role without the right to create the table can use one
        // that another role has created.
        Err(error) if schema::is_missing(&error) => {}
        Err(error) => return Err(failed(&error)),
    }
    let table = schema::identity_table(schema);
    match client.batch_execute(&table).await {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            return Err(format!(
                "{}; let a role that may do so execute the statements of identity.sql in the \
                 sources, and GRANT SELECT, INSERT, UPDATE ON {schema}.identity to the role of the \
                 cluster file",
                failed(&error)
            ));
        }
        Err(error) if error.code() != Some(&SqlState::UNIQUE_VIOLATION) => {
            return Err(failed(&error));
        }
        _ => {}
    }
    let done = client.execute(&statement, &parameters).await;
    done.map(|_| ()).map_err(|error| failed(&error))
}

/// Makes a cluster with an id, and of no fleet, a member of one: of `fleet`, or as the first
/// cluster of its own. Does nothing if the cluster has joined a fleet meanwhile.
///
/// # Errors
/// As [`ensure`].
pub(crate) async fn join(
    client: &Client,
    schema: &str,
    fleet: Option<ClusterId>,
    name: &str,
) -> Result<(), String> {
    let nothing = [0u8; 0];
    let name = name.as_bytes();
    let done = match fleet {
        Some(fleet) => {
            let statement = format!(
                "UPDATE {schema}.identity SET fleet = $1, name = $2 WHERE one = 1 AND fleet = $3"
            );
            let fleet = fleet.0;
            client
                .execute(&statement, &[&fleet.as_slice(), &name, &nothing.as_slice()])
                .await
        }
        None => {
            let statement = format!(
                "UPDATE {schema}.identity SET fleet = cluster, name = $1 \
                 WHERE one = 1 AND fleet = $2"
            );
            client
                .execute(&statement, &[&name, &nothing.as_slice()])
                .await
        }
    };
    done.map(|_| ()).map_err(|error| explain(&error))
}

/// Looks at what is there. `wants_contents`: also at the rows of a cluster of no fleet.
///
/// # Errors
/// A sentence, if the server does not answer, or the tables have another format.
pub(crate) async fn look(
    client: &Client,
    schema: &str,
    wants_contents: bool,
) -> Result<Found, String> {
    let (is_present, identity) =
        tokio::join!(schema::is_present(client, schema), read(client, schema));
    if !is_present? {
        return Ok(Found::Nothing);
    }
    let identity = identity?;
    let is_member = identity.as_ref().is_some_and(|one| one.member.is_some());
    let (has_rows, has_list) = match wants_contents && !is_member {
        true => contents(client, schema).await?,
        false => (false, false),
    };
    Ok(Found::Tables {
        identity,
        has_rows,
        has_list,
    })
}

/// Returns whether tables have a row of a partition that is not being removed, and whether they
/// have what only the first cluster of a fleet has.
async fn contents(client: &Client, schema: &str) -> Result<(bool, bool), String> {
    let query = format!(
        "SELECT (SELECT count(*) FROM (SELECT 1 FROM {schema}.head AS h WHERE h.state <> 1 \
         AND EXISTS (SELECT 1 FROM {schema}.kv WHERE kv.p = h.p) LIMIT 1) AS r), \
         (SELECT count(*) FROM {schema}.head WHERE p = ANY($1) AND lsn <> 0)"
    );
    let lists = IN_FIRST.map(|(partition, _)| partition.0 as i64);
    let row = client.query_one(&query, &[&lists.as_slice()]).await;
    let row = row.map_err(|error| explain(&error))?;
    let is_any = |column: usize| -> Result<bool, String> {
        let count: i64 = row.try_get(column).map_err(|error| explain(&error))?;
        Ok(count > 0)
    };
    Ok((is_any(0)?, is_any(1)?))
}
