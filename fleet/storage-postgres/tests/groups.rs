//! Commits of several partitions in one transaction: each partition has its own outcome.

use crate::servers::server;
use crate::stores::{commit, everything, pairs};
use orrery_storage::{Commit, CommitOutcome, Lease, PartitionId, Receipt, Store};
use orrery_storage_postgres::PostgresStore;
use orrery_test_wait::wait_until;

const PARTITIONS: u64 = 17;

fn open_all(store: &PostgresStore) -> Vec<Lease> {
    let open = |n| store.open(PartitionId(n)).unwrap();
    (1..=PARTITIONS).map(open).collect()
}

/// Submits a commit to each partition at once, and returns the outcomes.
fn submit_all(
    store: &PostgresStore,
    leases: &[Lease],
    change: impl Fn(u64) -> Commit,
) -> Vec<CommitOutcome> {
    let submit = |lease: &Lease| store.submit(lease, change(lease.partition().0));
    let receipts: Vec<Receipt> = leases.iter().map(submit).collect();
    receipts.into_iter().map(Receipt::wait).collect()
}

#[test]
fn commits_of_many_partitions_need_few_transactions() {
    let config = server().config();
    let store = PostgresStore::open(config.clone()).unwrap();
    let leases = open_all(&store);
    let mut lsn: u64 = 0;
    // Other threads may delay the submissions, which then go apart.
    wait_until("a group of commits", || {
        lsn += 1;
        let value = lsn.to_be_bytes();
        let outcomes = submit_all(&store, &leases, |_| commit(lsn, &[(b"a", &value)]));
        assert_eq!(outcomes, vec![CommitOutcome::Ok; leases.len()]);
        let query = format!(
            "SELECT count(DISTINCT xmin::text) FROM {}.kv",
            config.schema
        );
        let transactions: u64 = server().sql(&query)[0][0].parse().unwrap();
        match transactions < PARTITIONS / 2 {
            true => Ok(()),
            false => Err(transactions),
        }
    });
    for lease in &leases {
        let rows = everything(&store, lease.partition());
        assert_eq!(rows, pairs(&[(b"a", &lsn.to_be_bytes())]));
        assert_eq!(store.snapshot(lease.partition()).unwrap().head().lsn, lsn);
    }
}

/// Partitions of another owner among those of a transaction are fenced, and the others are not.
/// Keys are deleted and ranges emptied in the partition that says so only.
#[test]
fn each_partition_of_a_transaction_has_its_own_outcome_and_rows() {
    let config = server().config();
    let (store, other) = (
        PostgresStore::open(config.clone()).unwrap(),
        PostgresStore::open(config).unwrap(),
    );
    let leases = open_all(&store);
    let rows: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"1")];
    let outcomes = submit_all(&store, &leases, |_| commit(1, &rows));
    assert_eq!(outcomes, vec![CommitOutcome::Ok; leases.len()]);
    let is_taken = |n: u64| n % 5 == 3;
    for n in (1..=PARTITIONS).filter(|n| is_taken(*n)) {
        other.open(PartitionId(n)).unwrap();
    }

    let outcomes = submit_all(&store, &leases, |n| {
        let mut change = commit(2, &[(b"e", b"2")]);
        match n % 4 {
            0 => change.deletes = vec![b"a".to_vec(), b"c".to_vec()],
            1 => change.range_deletes = vec![b"b".to_vec()..b"d".to_vec()],
            2 => change.puts.clear(),
            _ => {}
        }
        change
    });
    for (lease, outcome) in leases.iter().zip(outcomes) {
        let n = lease.partition().0;
        let (outcome_expected, rows_expected): (_, &[(&[u8], &[u8])]) = match (is_taken(n), n % 4) {
            (true, _) => (CommitOutcome::Fenced, &rows),
            (_, 0) => (
                CommitOutcome::Ok,
                &[(b"b", b"1"), (b"d", b"1"), (b"e", b"2")],
            ),
            (_, 1) => (
                CommitOutcome::Ok,
                &[(b"a", b"1"), (b"d", b"1"), (b"e", b"2")],
            ),
            (_, 2) => (CommitOutcome::Ok, &rows),
            _ => {
                let all: &[(&[u8], &[u8])] = &[
                    (b"a", b"1"),
                    (b"b", b"1"),
                    (b"c", b"1"),
                    (b"d", b"1"),
                    (b"e", b"2"),
                ];
                (CommitOutcome::Ok, all)
            }
        };
        assert_eq!(outcome, outcome_expected, "partition {n}");
        assert_eq!(
            everything(&other, lease.partition()),
            pairs(rows_expected),
            "partition {n}"
        );
    }
}
