-- The tables of format 2.
--
-- The SQL of this crate stays within what PostgreSQL, YugabyteDB and CockroachDB do alike:
-- * tables with a primary key, bytea, bigint, smallint and int columns; no other type;
-- * INSERT .. SELECT .. ON CONFLICT, UPDATE, DELETE .. USING, unnest of arrays, RETURNING;
-- * FOR UPDATE SKIP LOCKED, ARRAY(SELECT ..), || of arrays and of bytea;
-- * no advisory lock, no LISTEN, no ctid, no unlogged or partitioned table, no data-modifying WITH,
--   no server-side function, no trigger, no sequence;
-- * READ COMMITTED for writes whose every statement compares the head, REPEATABLE READ for
--   snapshots; SQLSTATE 40001 is repeated by the client.
-- bytea has no collation: keys are in the order of their bytes.
--
-- "{schema}" is replaced by the name of the schema.

CREATE SCHEMA IF NOT EXISTS {schema};

-- One row: the format of the tables. A program refuses a format that is newer than its own.
CREATE TABLE IF NOT EXISTS {schema}.format (
    one int PRIMARY KEY,
    version int NOT NULL
);

-- identity.sql has one more table.

-- One row for each partition that was ever opened. Numbers without a sign are stored as bigint with
-- the same bits.
-- incarnation: rises when the partition is destroyed. epoch: rises with every lease.
-- lsn, token: the last commit.
-- state: 0 takes commits, 1 is being destroyed, 2 is read-only after a loss of data.
CREATE TABLE IF NOT EXISTS {schema}.head (
    p bigint PRIMARY KEY,
    incarnation bigint NOT NULL,
    epoch bigint NOT NULL,
    lsn bigint NOT NULL,
    token bytea NOT NULL,
    state smallint NOT NULL
);

-- One row for each of the last openings of a partition: the head when the epoch began.
-- opener: a number that no other opening has.
CREATE TABLE IF NOT EXISTS {schema}.history (
    p bigint NOT NULL,
    epoch bigint NOT NULL,
    incarnation bigint NOT NULL,
    lsn bigint NOT NULL,
    token bytea NOT NULL,
    opener bytea NOT NULL,
    PRIMARY KEY (p, epoch)
);

CREATE TABLE IF NOT EXISTS {schema}.kv (
    p bigint NOT NULL,
    k bytea NOT NULL,
    v bytea NOT NULL,
    PRIMARY KEY (p, k)
);

INSERT INTO {schema}.format (one, version) VALUES (1, 2) ON CONFLICT (one) DO NOTHING;
