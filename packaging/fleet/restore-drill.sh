#!/bin/bash
# Restores a base backup and its archive of WAL into an empty folder, and counts what came back.
#
#   restore-drill.sh BASE_BACKUP WAL_ARCHIVE NEW_FOLDER [SCHEMA]
#
# Run as the user of PostgreSQL. BASE_BACKUP is a folder of `pg_basebackup --format=plain`,
# WAL_ARCHIVE the folder to which `archive_command` copies. Neither is changed. The restored server
# listens on a socket in NEW_FOLDER alone, and is stopped at the end. PG_BIN names the folder of
# PostgreSQL's programs. Exit code 0 only if the files of the backup agree with its manifest, the
# server came up, every question was answered, and no partition has rows without a head.
set -euo pipefail
base=${1:?folder of the base backup} archive=${2:?folder of the WAL archive} target=${3:?new folder}
schema=${4:-orrery}
bin=${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)}
mkdir -m 700 "$target"
archive=$(realpath "$archive") target=$(realpath "$target")

# The backup is judged by its own manifest before it is used.
"$bin/pg_verifybackup" --no-parse-wal --quiet "$base"
cp -a "$base/." "$target/data"
chmod 700 "$target/data"
rm -f "$target/data/standby.signal"
touch "$target/data/recovery.signal"

# The restored server follows no standby and archives nothing: it is a copy for a test.
cat >> "$target/data/postgresql.auto.conf" <<END
restore_command = 'cp $archive/%f %p'
recovery_target_action = 'promote'
archive_mode = 'off'
synchronous_standby_names = ''
listen_addresses = ''
port = 5432
unix_socket_directories = '$target'
hba_file = '$target/hba.conf'
END
echo 'local all all trust' > "$target/hba.conf"
trap '"$bin/pg_ctl" -D "$target/data" -m fast stop > "$target/stop.log" 2>&1 || true' EXIT
began=$SECONDS
"$bin/pg_ctl" -D "$target/data" -l "$target/server.log" -t 86400 -w start > "$target/start.log" 2>&1 ||
  { tail -n 20 "$target/server.log" >&2; exit 1; }
ask() {
  "$bin/psql" -XAtq -h "$target" -p 5432 -U postgres -d "${DATABASE:-orrery}" \
    -v ON_ERROR_STOP=1 -c "$1"
}

# An assignment ends the script if its command fails; a command inside of a test does not.
is_behind=$(ask 'SELECT pg_is_in_recovery()')
while [ "$is_behind" = t ]; do
  sleep 1
  is_behind=$(ask 'SELECT pg_is_in_recovery()')
done
partitions=$(ask "SELECT count(*) FROM $schema.head")
commits=$(ask "SELECT coalesce(sum(lsn), 0) FROM $schema.head")
rows=$(ask "SELECT count(*) FROM $schema.kv")
orphans=$(ask "SELECT count(DISTINCT p) FROM $schema.kv WHERE p NOT IN (SELECT p FROM $schema.head)")
echo "restored in $((SECONDS - began)) s"
echo "partitions: $partitions, commits: $commits, rows: $rows"
echo "partitions with rows and no head: $orphans"
[ "$orphans" = 0 ]
