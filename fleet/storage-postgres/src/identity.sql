-- A part of schema.sql, which has the rules and the other tables.
-- One row: the id of the cluster, and the fleet to which the cluster belongs. Programs before this
-- table read and write the other tables alike, so the format is the same.
-- cluster: random; made with the tables, or for older tables at their next opening.
-- fleet: the id of the first cluster of the fleet, its own id for that one; empty for none.
-- name: the name of the cluster in its fleet, in UTF-8.
CREATE TABLE IF NOT EXISTS {schema}.identity (
    one int PRIMARY KEY,
    cluster bytea NOT NULL,
    fleet bytea NOT NULL,
    name bytea NOT NULL
);
