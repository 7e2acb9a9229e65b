#!/bin/sh
# Measures an import of a million items of 1 KB, killed once in the middle and continued, and the
# export of the result.
#
#   bench/import-million.sh PROGRAM [ITEMS]
#
# PROGRAM is the program orrery; a server with data in memory runs for the measurement. The script
# fails unless the export has each item once.
set -eu
program=$1
items=${2:-1000000}
folder=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$folder"' EXIT

# Items of 1 KB: an id, a partition key with 10,000 values, and text.
awk -v n="$items" 'BEGIN {
    text = sprintf("%0940d", 0)
    for (i = 0; i < n; i++)
        printf "{\"id\":\"item-%08d\",\"pk\":\"p%d\",\"n\":%d,\"text\":\"%s\"}\n", i, i % 10000, i, text
}' > "$folder/items.jsonl"

"$program" start --memory --listen 127.0.0.1:0 --admin-listen off --ready-json > "$folder/ready" &
server=$!
until [ -s "$folder/ready" ]; do kill -0 "$server"; done
ORRERY_ENDPOINT=$(sed -n 's/.*"endpoint_http": *"\([^"]*\)".*/\1/p' "$folder/ready" | head -n 1)
export ORRERY_ENDPOINT

set -- "$program" import "$folder/items.jsonl" --database bench --create-container \
    --partition-key /pk --throughput 20000

echo "an import without interruption"
"$@" --container whole --resume "$folder/whole.checkpoint"

echo "an import that is killed, and goes on"
"$@" --container killed --resume "$folder/killed.checkpoint" &
import=$!
until grep -q '"records": [1-9]' "$folder/killed.checkpoint" 2>/dev/null; do kill -0 "$import"; done
kill -9 "$import"
wait "$import" || true
grep '"records"' "$folder/killed.checkpoint"
"$@" --container killed --resume "$folder/killed.checkpoint"

for container in whole killed; do
    "$program" export --database bench --container "$container" --output "$folder/$container.jsonl"
    found=$(sed 's/.*"id":"\([^"]*\)".*/\1/' "$folder/$container.jsonl" | sort -u | wc -l)
    lines=$(wc -l < "$folder/$container.jsonl")
    echo "$container: $lines lines, $found different ids"
    [ "$found" -eq "$items" ] && [ "$lines" -eq "$items" ]
done
