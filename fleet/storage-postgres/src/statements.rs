//! The SQL of the store, and its prepared form. `schema.sql` has the rules of the dialect.

use tokio_postgres::{Client, Row, Statement};

use crate::connector::explain;
use crate::head::{HeadRow, hex};
use crate::partitions::CommitWork;
use crate::schema::FORMAT;

/// The prepared statements of a connection.
pub(crate) struct Statements {
    schema: String,
    pub(crate) format: Statement,
    pub(crate) open: Statement,
    pub(crate) raise: Statement,
    pub(crate) record: Statement,
    pub(crate) forget: Statement,
    pub(crate) openings: Statement,
    pub(crate) mark_lost: Statement,
    pub(crate) head: Statement,
    pub(crate) put: Statement,
    pub(crate) put_many: Statement,
    pub(crate) delete: Statement,
    pub(crate) delete_ranges: Statement,
    pub(crate) get: Statement,
    pub(crate) rows: Statement,
    pub(crate) scan_forward: Statement,
    pub(crate) scan_reverse: Statement,
    pub(crate) start_destroy: Statement,
    pub(crate) destroy_until: Statement,
    pub(crate) destroy_piece: Statement,
    pub(crate) end_destroy: Statement,
}

/// True only inside the transaction that moved the head, or after it: the statements of a commit
/// whose head did not match change nothing.
const AT_HEAD: &str =
    "EXISTS (SELECT 1 FROM {s}.head WHERE p = $1 AND epoch = $2 AND lsn = $3 AND token = $4)";
/// Fails with [`SqlState::DIVISION_BY_ZERO`] for tables of another format, which ends the
/// transaction.
///
/// [`SqlState::DIVISION_BY_ZERO`]: tokio_postgres::error::SqlState::DIVISION_BY_ZERO
const CHECK_FORMAT: &str =
    "SELECT 1 / CASE WHEN version = {format} THEN 1 ELSE 0 END FROM {s}.format WHERE one = 1";
const COLUMNS: &str = "incarnation, epoch, lsn, token, state";

impl Statements {
    /// Prepares all statements in one round trip.
    ///
    /// # Errors
    /// The answer of the server, as a sentence.
    pub(crate) async fn prepare(client: &Client, schema: &str) -> Result<Statements, String> {
        let sql = |text: &str| {
            text.replace("{at_head}", AT_HEAD)
                .replace("{columns}", COLUMNS)
                .replace("{s}", schema)
        };
        let (open, raise, mark_lost, head) = (sql(OPEN), sql(RAISE), sql(MARK_LOST), sql(HEAD));
        let (put, delete, delete_ranges) = (sql(PUT), sql(DELETE), sql(DELETE_RANGES));
        let (get, forward, reverse) = (sql(GET), sql(SCAN_FORWARD), sql(SCAN_REVERSE));
        let (start, until) = (sql(START_DESTROY), sql(DESTROY_UNTIL));
        let (piece, end) = (sql(DESTROY_PIECE), sql(END_DESTROY));
        let (rows, put_many) = (sql(ROWS), sql(PUT_MANY));
        let format = sql(CHECK_FORMAT).replace("{format}", &FORMAT.to_string());
        let (record, forget, openings) = (sql(RECORD), sql(FORGET), sql(OPENINGS));
        let prepared = tokio::try_join!(
            client.prepare(&open),
            client.prepare(&raise),
            client.prepare(&mark_lost),
            client.prepare(&head),
            client.prepare(&put),
            client.prepare(&delete),
            client.prepare(&delete_ranges),
            client.prepare(&get),
            client.prepare(&forward),
            client.prepare(&reverse),
            client.prepare(&start),
            client.prepare(&until),
            client.prepare(&piece),
            client.prepare(&end),
            client.prepare(&record),
            client.prepare(&forget),
            client.prepare(&openings),
            client.prepare(&rows),
            client.prepare(&put_many),
            client.prepare(&format),
        );
        let prepared = prepared.map_err(|error| explain(&error))?;
        Ok(Statements {
            schema: schema.to_owned(),
            open: prepared.0,
            raise: prepared.1,
            mark_lost: prepared.2,
            head: prepared.3,
            put: prepared.4,
            delete: prepared.5,
            delete_ranges: prepared.6,
            get: prepared.7,
            scan_forward: prepared.8,
            scan_reverse: prepared.9,
            start_destroy: prepared.10,
            destroy_until: prepared.11,
            destroy_piece: prepared.12,
            end_destroy: prepared.13,
            record: prepared.14,
            forget: prepared.15,
            openings: prepared.16,
            rows: prepared.17,
            put_many: prepared.18,
            format: prepared.19,
        })
    }

    /// Returns the text that starts a transaction and moves heads, and returns the partitions whose
    /// heads were moved. One text, so that no head can move outside of a transaction if `BEGIN`
    /// fails. The tokens are compared too: a cluster that lost commits may come to the same epoch
    /// and number by other commits.
    ///
    /// Of several heads, those that another transaction has locked are passed over.
    pub(crate) fn move_heads(&self, works: &[CommitWork]) -> String {
        let mut rows = Vec::with_capacity(works.len());
        for CommitWork { id, from, to, .. } in works {
            rows.push(format!(
                "({}::bigint, {}::bigint, {}::bigint, {}::bigint, '{}'::bytea, {}::bigint, \
                 '{}'::bytea)",
                id.0 as i64,
                from.incarnation as i64,
                from.epoch as i64,
                from.lsn as i64,
                hex(&from.token),
                to.lsn as i64,
                hex(&to.token),
            ));
        }
        let schema = &self.schema;
        let mut unlocked = String::new();
        if works.len() > 1 {
            let ids = works.iter().map(|work| (work.id.0 as i64).to_string());
            let ids = ids.collect::<Vec<_>>().join(", ");
            unlocked = format!(
                "AND h.p IN (SELECT p FROM {schema}.head WHERE p IN ({ids}) \
                 FOR UPDATE SKIP LOCKED)"
            );
        }
        format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; UPDATE {schema}.head AS h \
             SET lsn = d.new_lsn, token = d.new_token FROM (VALUES {}) \
             AS d(p, incarnation, epoch, lsn, token, new_lsn, new_token) \
             WHERE h.p = d.p AND h.incarnation = d.incarnation AND h.epoch = d.epoch \
             AND h.lsn = d.lsn AND h.token = d.token AND h.state = 0 {unlocked} RETURNING h.p",
            rows.join(", "),
        )
    }
}

const OPEN: &str = "INSERT INTO {s}.head (p, incarnation, epoch, lsn, token, state) \
                    VALUES ($1, 1, 1, 0, $2, 0) \
                    ON CONFLICT (p) DO UPDATE SET epoch = head.epoch + 1 RETURNING {columns}";
// Only from the epoch of the attempt: an owner who has opened the partition since is not fenced.
// The row is written in any case, so that the answer is as durable as a commit.
const RAISE: &str = "UPDATE {s}.head SET epoch = CASE WHEN incarnation = $2 AND epoch = $3 \
                     THEN epoch + 1 ELSE epoch END WHERE p = $1 RETURNING {columns}";
const RECORD: &str = "INSERT INTO {s}.history (p, epoch, incarnation, lsn, token, opener) \
                      SELECT p, epoch, incarnation, lsn, token, $2 FROM {s}.head WHERE p = $1 \
                      ON CONFLICT (p, epoch) DO NOTHING";
const FORGET: &str = "DELETE FROM {s}.history WHERE p = $1 \
                      AND epoch < (SELECT epoch FROM {s}.head WHERE p = $1) - 32";
const OPENINGS: &str = "SELECT incarnation, epoch, lsn, token, opener FROM {s}.history \
                        WHERE p = $1 ORDER BY epoch";
const MARK_LOST: &str =
    "UPDATE {s}.head SET epoch = $2, state = 2 WHERE p = $1 AND state <> 1 AND epoch < $2";
const HEAD: &str = "SELECT {columns} FROM {s}.head WHERE p = $1";
const PUT: &str = "INSERT INTO {s}.kv (p, k, v) \
                   SELECT $1, d.k, d.v FROM unnest($5::bytea[], $6::bytea[]) AS d(k, v) \
                   WHERE {at_head} ON CONFLICT (p, k) DO UPDATE SET v = excluded.v";
// Rows of several partitions, in those whose heads are at the commit.
const PUT_MANY: &str = "INSERT INTO {s}.kv (p, k, v) SELECT d.p, d.k, d.v \
                        FROM unnest($5::bigint[], $6::bytea[], $7::bytea[]) AS d(p, k, v) \
                        WHERE d.p IN (SELECT h.p FROM {s}.head AS h, \
                        unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[]) \
                        AS m(p, epoch, lsn, token) WHERE h.p = m.p AND h.epoch = m.epoch \
                        AND h.lsn = m.lsn AND h.token = m.token) \
                        ON CONFLICT (p, k) DO UPDATE SET v = excluded.v";
const DELETE: &str = "DELETE FROM {s}.kv WHERE p = $1 AND k = ANY($5::bytea[]) AND {at_head}";
const DELETE_RANGES: &str = "DELETE FROM {s}.kv \
                             USING unnest($5::bytea[], $6::bytea[]) AS r(a, b) \
                             WHERE kv.p = $1 AND kv.k >= r.a AND kv.k < r.b AND {at_head}";
const GET: &str = "SELECT k, v FROM {s}.kv WHERE p = $1 AND k = ANY($2::bytea[])";
// The head, and rows by their keys: those of $2, and those whose keys are a prefix of $4 followed
// by the value of a row of $3. The keys are computed once, so that the index finds them.
const ROWS: &str = "SELECT {columns}, NULL::bytea AS k, NULL::bytea AS v \
                    FROM {s}.head WHERE p = $1 UNION ALL \
                    SELECT NULL, NULL, NULL, NULL, NULL, k, v FROM {s}.kv \
                    WHERE p = $1 AND k = ANY($2::bytea[] || ARRAY(SELECT l.prefix || \
                    (SELECT f.v FROM {s}.kv AS f WHERE f.p = $1 AND f.k = l.origin) \
                    FROM unnest($3::bytea[], $4::bytea[]) AS l(origin, prefix)))";
const SCAN_FORWARD: &str = "SELECT k, v FROM {s}.kv WHERE p = $1 AND k >= $2 AND k < $3 \
                            ORDER BY k LIMIT $4";
const SCAN_REVERSE: &str = "SELECT k, v FROM {s}.kv WHERE p = $1 AND k >= $2 AND k < $3 \
                            ORDER BY k DESC LIMIT $4";
const START_DESTROY: &str = "UPDATE {s}.head SET epoch = epoch + 1, \
                             incarnation = incarnation + 1, lsn = 0, token = $2, state = 1 \
                             WHERE p = $1 RETURNING {columns}";
const DESTROY_UNTIL: &str =
    "SELECT k FROM {s}.kv WHERE p = $1 AND k >= $2 ORDER BY k LIMIT 1 OFFSET 4999";
const DESTROY_PIECE: &str = "DELETE FROM {s}.kv WHERE p = $1 AND k >= $3 AND k < $4 AND EXISTS \
                             (SELECT 1 FROM {s}.head WHERE p = $1 AND epoch = $2 AND state = 1)";
const END_DESTROY: &str = "UPDATE {s}.head SET state = 0 WHERE p = $1 AND epoch = $2 AND state = 1";

/// Returns the row of a head.
///
/// # Errors
/// When the row has other columns than those of this format.
pub(crate) fn head_row(row: &Row) -> Result<HeadRow, tokio_postgres::Error> {
    let token: &[u8] = row.try_get(3)?;
    let mut head = HeadRow {
        incarnation: row.try_get::<_, i64>(0)? as u64,
        epoch: row.try_get::<_, i64>(1)? as u64,
        lsn: row.try_get::<_, i64>(2)? as u64,
        token: [0; 16],
        state: row.try_get(4)?,
    };
    // Another length never occurs; such a token equals no token of a commit.
    if let Ok(token) = token.try_into() {
        head.token = token;
    }
    Ok(head)
}
