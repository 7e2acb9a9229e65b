//! The promises as tests, one or more for each promise of `store.rs`, for every engine.
//!
//! Each test function gets a function that creates an empty store. `for_every_promise!` hands the
//! list of all of them to a macro. An engine in a crate of its own includes this folder.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_storage::testing::{Failing, Fault};
use orrery_storage::{Commit, CommitOutcome, Direction, Head, Limits, PartitionId, Store};

use super::{ALL, P, PartitionWriter, commit, everything, pairs, rows, token};

/// Creates an empty store.
pub(crate) type NewStore<'a> = &'a dyn Fn() -> Box<dyn Store>;

/// Promise 1 without a crash. `crash.rs` and the test at the end of this file test it with crashes.
pub(crate) fn a_commit_becomes_visible_whole_or_not_at_all(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let receipt = store.submit(&lease, commit(1, &[(b"a", b"1"), (b"\x90b", b"1")]));
    let between = store.snapshot(P).unwrap();
    let seen = rows(&*between, ALL, Direction::Forward);
    match between.head().lsn {
        0 => assert!(seen.is_empty()),
        head => assert_eq!((head, seen.len()), (1, 2)),
    }
    assert_eq!(receipt.wait(), CommitOutcome::Ok);
    let after = store.snapshot(P).unwrap();
    assert_eq!(
        after.head(),
        Head {
            lsn: 1,
            token: token(1)
        }
    );
    assert_eq!(rows(&*after, ALL, Direction::Forward).len(), 2);
}

/// Promise 2.
pub(crate) fn opening_fences_every_earlier_lease_at_once(new_store: NewStore<'_>) {
    let store = new_store();
    let first = store.open(P).unwrap();
    assert_eq!(
        store.submit(&first, commit(1, &[(b"a", b"first")])).wait(),
        CommitOutcome::Ok
    );
    let second = store.open(P).unwrap();
    assert!(second.epoch() > first.epoch());
    assert_eq!(
        second.head(),
        Head {
            lsn: 1,
            token: token(1)
        }
    );
    assert_eq!(
        store.submit(&first, commit(2, &[(b"a", b"late")])).wait(),
        CommitOutcome::Fenced
    );
    assert_eq!(
        store
            .submit(&second, commit(2, &[(b"b", b"second")]))
            .wait(),
        CommitOutcome::Ok
    );
    assert_eq!(
        everything(&*store, P),
        pairs(&[(b"a", b"first"), (b"b", b"second")])
    );
}

/// Promise 2: the comparison of the head, without a second writer.
pub(crate) fn a_commit_at_the_wrong_head_is_fenced_and_changes_nothing(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    assert_eq!(
        store.submit(&lease, commit(1, &[(b"a", b"1")])).wait(),
        CommitOutcome::Ok
    );
    for wrong in [1, 3, u64::MAX] {
        assert_eq!(
            store.submit(&lease, commit(wrong, &[(b"x", b"x")])).wait(),
            CommitOutcome::Fenced
        );
    }
    assert_eq!(everything(&*store, P), pairs(&[(b"a", b"1")]));
    assert_eq!(
        store.submit(&lease, commit(2, &[])).wait(),
        CommitOutcome::Ok
    );
}

/// Promise 3: the rule for an unknown outcome tells whether the commit was lost or applied.
pub(crate) fn an_unknown_outcome_is_resolved_by_a_newer_epoch_and_the_feed_row(
    new_store: NewStore<'_>,
) {
    for (fault, was_applied) in [(Fault::Lost, false), (Fault::Applied, true)] {
        let store = Failing::after(2, fault, new_store());
        let lease = store.open(P).unwrap();
        let feed = |lsn: u64| [b"feed".as_slice(), &lsn.to_be_bytes()].concat();
        assert_eq!(
            store
                .submit(&lease, commit(1, &[(&feed(1), &token(1))]))
                .wait(),
            CommitOutcome::Ok
        );
        assert_eq!(
            store
                .submit(&lease, commit(2, &[(&feed(2), &token(2))]))
                .wait(),
            CommitOutcome::Unknown
        );
        store.repair();

        // Another writer moves the head on meanwhile. Its commit must not be mistaken for the
        // attempt above.
        let other = store.open(P).unwrap();
        let next = other.head().lsn + 1;
        let other_commit = Commit {
            token: token(99),
            ..commit(next, &[(&feed(next), &token(99))])
        };
        assert_eq!(store.submit(&other, other_commit).wait(), CommitOutcome::Ok);

        let newer = store.open(P).unwrap();
        assert!(newer.epoch() > lease.epoch());
        let row = store.snapshot(P).unwrap().get(&feed(2)).unwrap().unwrap();
        assert_eq!(row == token(2).as_slice(), was_applied, "{fault:?}");
        assert!(newer.head().lsn >= 2);
    }
}

/// Promise 4: a commit that was accepted before `open` and is answered after it is part of the head
/// that `open` returned, or never becomes visible.
pub(crate) fn no_commit_of_an_earlier_lease_becomes_visible_after_open(new_store: NewStore<'_>) {
    let store = new_store();
    let first = store.open(P).unwrap();
    let pending = store.submit(&first, commit(1, &[(b"early", b"1")]));
    let second = store.open(P).unwrap();
    let at_open = everything(&*store, P);
    assert_eq!(at_open.len() as u64, second.head().lsn);
    let late = store.submit(&first, commit(second.head().lsn + 1, &[(b"late", b"1")]));
    assert_eq!(late.wait(), CommitOutcome::Fenced);
    assert_eq!(pending.wait() == CommitOutcome::Ok, second.head().lsn == 1);
    store.sync().unwrap();
    assert_eq!(everything(&*store, P), at_open);
}

/// Promise 5.
pub(crate) fn the_head_only_rises(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let step = |expect_lsn, new_lsn| Commit {
        expect_lsn,
        new_lsn,
        ..Commit::default()
    };
    assert_eq!(
        store.submit(&lease, step(0, 0)).wait(),
        CommitOutcome::Fenced
    );
    assert_eq!(store.submit(&lease, step(0, 10)).wait(), CommitOutcome::Ok);
    for lower in [0, 9, 10] {
        assert_eq!(
            store.submit(&lease, step(10, lower)).wait(),
            CommitOutcome::Fenced
        );
    }
    assert_eq!(store.open(P).unwrap().head().lsn, 10);
    assert_eq!(store.snapshot(P).unwrap().head().lsn, 10);
}

/// Promise 6.
pub(crate) fn pages_join_without_gap_or_repeat_in_both_directions(new_store: NewStore<'_>) {
    let store = new_store();
    let mut writer = PartitionWriter::open(&*store, P);
    // Rows and index entries, so that pages cross from one class to the other; then deletes spread
    // over all keys.
    let keys: Vec<Vec<u8>> = (0u16..600)
        .map(|n| vec![(n % 3 * 100) as u8, (n >> 8) as u8, n as u8])
        .collect();
    let puts = keys.iter().map(|key| (key.clone(), key.clone())).collect();
    assert_eq!(
        writer.commit(Commit {
            puts,
            ..Commit::default()
        }),
        CommitOutcome::Ok
    );
    let mut kept = keys.clone();
    kept.sort();
    let deletes: Vec<Vec<u8>> = kept
        .iter()
        .enumerate()
        .filter(|(i, _)| i % 7 < 4)
        .map(|(_, key)| key.clone())
        .collect();
    kept.retain(|key| !deletes.contains(key));
    assert_eq!(
        writer.commit(Commit {
            deletes,
            ..Commit::default()
        }),
        CommitOutcome::Ok
    );

    let snapshot = store.snapshot(P).unwrap();
    for page in [1, 2, 7, 64, 1000] {
        let mut forward: Vec<Vec<u8>> = Vec::new();
        let mut backward: Vec<Vec<u8>> = Vec::new();
        loop {
            let start = forward
                .last()
                .map_or(Unbounded, |key| Excluded(key.as_slice()));
            let next: Vec<_> = snapshot
                .scan((start, Unbounded), Direction::Forward)
                .take(page)
                .collect();
            if next.is_empty() {
                break;
            }
            forward.extend(next.into_iter().map(|row| row.unwrap().0.to_vec()));
        }
        loop {
            let end = backward
                .last()
                .map_or(Unbounded, |key| Excluded(key.as_slice()));
            let next: Vec<_> = snapshot
                .scan((Unbounded, end), Direction::Reverse)
                .take(page)
                .collect();
            if next.is_empty() {
                break;
            }
            backward.extend(next.into_iter().map(|row| row.unwrap().0.to_vec()));
        }
        backward.reverse();
        assert_eq!(forward, kept, "pages of {page}");
        assert_eq!(backward, kept, "pages of {page}, backward");
    }
}

/// Promise 6: every kind of bound, also of empty ranges.
pub(crate) fn scans_keep_their_bounds_across_rows_and_index_entries(new_store: NewStore<'_>) {
    let store = new_store();
    let keys: [&[u8]; 7] = [
        b"",
        b"\x00",
        b"a",
        b"\x7f\xff",
        b"\x80",
        b"\x80\x00",
        b"\xff\xff\xff",
    ];
    let mut writer = PartitionWriter::open(&*store, P);
    writer.put(&keys.map(|key| (key, key)));
    // The keys of the partitions before and after must not appear.
    for other in [P.0 - 1, P.0 + 1] {
        PartitionWriter::open(&*store, PartitionId(other))
            .put(&[(b"", b"no"), (b"\xff\xff\xff\xff", b"no")]);
    }
    let snapshot = store.snapshot(P).unwrap();
    let ends: Vec<&[u8]> = [keys.as_slice(), &[b"b", b"\x7f", b"\x81", b"\xff"]].concat();
    let starts = ends
        .iter()
        .flat_map(|key| [Included(*key), Excluded(*key)])
        .chain([Unbounded]);
    for start in starts {
        for end in ends
            .iter()
            .flat_map(|key| [Included(*key), Excluded(*key)])
            .chain([Unbounded])
        {
            let inside = |key: &&[u8]| {
                let after = match start {
                    Included(start) => *key >= start,
                    Excluded(start) => *key > start,
                    Unbounded => true,
                };
                let before = match end {
                    Included(end) => *key <= end,
                    Excluded(end) => *key < end,
                    Unbounded => true,
                };
                after && before
            };
            let mut expected: Vec<Vec<u8>> = keys
                .iter()
                .copied()
                .filter(|key| inside(key))
                .map(<[u8]>::to_vec)
                .collect();
            let found = |direction| {
                rows(&*snapshot, (start, end), direction)
                    .into_iter()
                    .map(|(key, _)| key)
                    .collect::<Vec<_>>()
            };
            assert_eq!(found(Direction::Forward), expected, "{start:?}..{end:?}");
            expected.reverse();
            assert_eq!(
                found(Direction::Reverse),
                expected,
                "{start:?}..{end:?} reversed"
            );
        }
    }
}

/// Promise 7: each limit minus one, exact, and plus one.
pub(crate) fn the_envelope_is_exact(new_store: NewStore<'_>) {
    let Limits {
        key_bytes,
        value_bytes,
        commit_bytes,
        commit_keys,
    } = Limits::ENVELOPE;
    assert_eq!(
        (key_bytes, value_bytes, commit_bytes, commit_keys),
        (2048, 65_536, 8_388_608, 100_000)
    );
    let store = new_store();
    assert_eq!(store.limits(), Limits::ENVELOPE);
    let mut writer = PartitionWriter::open(&*store, P);
    let mut check_limit = |what: &str, make: &dyn Fn(usize) -> Commit, limit: usize| {
        for (size, expected) in [
            (limit - 1, CommitOutcome::Ok),
            (limit, CommitOutcome::Ok),
            (limit + 1, CommitOutcome::TooLarge),
        ] {
            assert_eq!(writer.commit(make(size)), expected, "{what} of {size}");
        }
    };
    let put = |key: usize, value: usize| Commit {
        puts: vec![(vec![1; key], vec![2; value])],
        ..Commit::default()
    };
    check_limit("a key", &|n| put(n, 1), key_bytes);
    check_limit(
        "a deleted key",
        &|n| Commit {
            deletes: vec![vec![1; n]],
            ..Commit::default()
        },
        key_bytes,
    );
    check_limit(
        "a range end",
        &|n| Commit {
            range_deletes: vec![vec![3]..vec![4; n]],
            ..Commit::default()
        },
        key_bytes,
    );
    check_limit("a value", &|n| put(1, n), value_bytes);
    assert_eq!(commit_of_bytes(commit_bytes).bytes(), commit_bytes);
    check_limit("a commit", &commit_of_bytes, commit_bytes);
    check_limit("a commit in keys", &commit_of_keys, commit_keys);
}

/// Returns a commit of so many bytes: 127 of the largest values under keys of one byte, and the
/// rest in one more put.
fn commit_of_bytes(bytes: usize) -> Commit {
    let value_bytes = Limits::ENVELOPE.value_bytes;
    let mut puts: Vec<_> = (0..127u8)
        .map(|n| (vec![n], vec![n; value_bytes]))
        .collect();
    let rest = bytes - 127 * (value_bytes + 1);
    let key_bytes = rest.saturating_sub(value_bytes).max(1);
    puts.push((vec![200; key_bytes], vec![0; rest - key_bytes]));
    Commit {
        puts,
        ..Commit::default()
    }
}

/// Returns a commit of so many keys, one of them an index entry and one a delete.
fn commit_of_keys(keys: usize) -> Commit {
    let mut puts: Vec<_> = (0..keys as u32 - 2)
        .map(|n| (n.to_be_bytes().to_vec(), Vec::new()))
        .collect();
    puts.push((vec![0x80], Vec::new()));
    Commit {
        puts,
        deletes: vec![vec![9, 9]],
        ..Commit::default()
    }
}

/// Promise 7: a commit that is refused as too large leaves the accepted head as it was.
pub(crate) fn a_refused_commit_does_not_move_the_accepted_head(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let large = commit(1, &[(b"k", &vec![0; Limits::ENVELOPE.value_bytes + 1])]);
    let refused = store.submit(&lease, large);
    let accepted = store.submit(&lease, commit(1, &[(b"k", b"v")]));
    assert_eq!(
        (refused.wait(), accepted.wait()),
        (CommitOutcome::TooLarge, CommitOutcome::Ok)
    );
}

/// Promise 8.
pub(crate) fn range_deletes_empty_exactly_their_range_and_come_before_deletes_and_puts(
    new_store: NewStore<'_>,
) {
    let store = new_store();
    let mut writer = PartitionWriter::open(&*store, P);
    writer.put(&[
        (b"a", b"1"),
        (b"b", b"1"),
        (b"c", b"1"),
        (b"\x85x", b"1"),
        (b"\x90", b"1"),
        (b"\x91", b"1"),
    ]);
    let range = |start: &[u8], end: &[u8]| start.to_vec()..end.to_vec();
    let change = Commit {
        range_deletes: vec![
            range(b"b", b"\x90"),
            range(b"\x91", b"\x91"),
            range(b"z", b"a"),
        ],
        deletes: vec![
            b"a".to_vec(),
            b"nowhere".to_vec(),
            b"c".to_vec(),
            b"d".to_vec(),
        ],
        puts: vec![
            (b"c".to_vec(), b"old".to_vec()),
            (b"c".to_vec(), b"new".to_vec()),
            (b"d".to_vec(), b"1".to_vec()),
        ],
        ..Commit::default()
    };
    assert_eq!(writer.commit(change), CommitOutcome::Ok);
    assert_eq!(
        everything(&*store, P),
        pairs(&[
            (b"c", b"new"),
            (b"d", b"1"),
            (b"\x90", b"1"),
            (b"\x91", b"1")
        ])
    );
}

/// Promises 8 and 13: a range delete covers every commit accepted before it, durable or not.
pub(crate) fn a_range_delete_covers_commits_that_are_pending(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let delete_all = Commit {
        range_deletes: vec![Vec::new()..vec![0xff]],
        ..commit(2, &[])
    };
    let receipts = [
        commit(1, &[(b"a", b"1"), (b"\x90", b"1")]),
        delete_all,
        commit(3, &[(b"b", b"1")]),
    ]
    .map(|commit| store.submit(&lease, commit));
    assert_eq!(
        receipts.map(|receipt| receipt.wait()),
        [CommitOutcome::Ok; 3]
    );
    assert_eq!(everything(&*store, P), pairs(&[(b"b", b"1")]));
}

/// Promise 9.
pub(crate) fn snapshots_never_change_and_hold_every_acknowledged_commit(new_store: NewStore<'_>) {
    let store = new_store();
    assert_eq!(store.snapshot(P).unwrap().head(), Head::default());
    let mut writer = PartitionWriter::open(&*store, P);
    let mut held = Vec::new();
    for n in 1..=50u64 {
        writer.put(&[
            (b"counter", &n.to_be_bytes()),
            (&n.to_be_bytes(), b"row"),
            (b"\x80i", &n.to_be_bytes()),
        ]);
        let snapshot = store.snapshot(P).unwrap();
        assert_eq!(
            snapshot.head().lsn,
            n,
            "the snapshot holds every commit acknowledged before it"
        );
        held.push(snapshot);
    }
    store.destroy(P).unwrap();
    for (snapshot, n) in held.iter().zip(1u64..) {
        assert_eq!(
            snapshot.head(),
            Head {
                lsn: n,
                token: token(n)
            }
        );
        assert_eq!(
            snapshot.get(b"counter").unwrap().unwrap(),
            n.to_be_bytes().as_slice()
        );
        assert_eq!(
            snapshot.get(b"\x80i").unwrap().unwrap(),
            n.to_be_bytes().as_slice()
        );
        assert_eq!(
            rows(&**snapshot, ALL, Direction::Forward).len() as u64,
            n + 2
        );
        let several = snapshot.multi_get(&[b"none", b"\x80i"]).unwrap();
        assert_eq!((several[0].is_none(), several[1].is_some()), (true, true));
    }
}

/// Promise 14, for an engine or a cluster without copies.
pub(crate) fn without_followers_there_is_no_follower_snapshot(new_store: NewStore<'_>) {
    let store = new_store();
    PartitionWriter::open(&*store, P).put(&[(b"a", b"1")]);
    assert!(!store.capabilities().followers);
    assert!(store.follower_snapshots(&[(P, 0)]).unwrap().is_none());
    assert!(store.follower_lag().is_empty());
}

/// Promise 9, of snapshots that are taken by one call while their partitions are written.
pub(crate) fn snapshots_taken_together_hold_every_acknowledged_commit(new_store: NewStore<'_>) {
    const PARTITIONS: u64 = 5;
    const COMMITS: u64 = 60;
    let store = &*new_store();
    let answered: Vec<AtomicU64> = (0..PARTITIONS).map(|_| AtomicU64::new(0)).collect();
    // The last one was never opened.
    let ids: Vec<PartitionId> = (0..=PARTITIONS).rev().map(PartitionId).collect();
    std::thread::scope(|scope| {
        for (id, answered) in answered.iter().enumerate() {
            scope.spawn(move || {
                let mut writer = PartitionWriter::open(store, PartitionId(id as u64));
                for lsn in 1..=COMMITS {
                    writer.put(&[(b"a", &lsn.to_be_bytes()), (b"\xc0b", &lsn.to_be_bytes())]);
                    answered.store(lsn, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                let mut is_complete = false;
                while !is_complete {
                    let least = |at: &AtomicU64| at.load(Ordering::SeqCst);
                    let least: Vec<u64> = answered.iter().map(least).collect();
                    let snapshots = store.snapshots(&ids).unwrap();
                    assert_eq!(snapshots.len(), ids.len());
                    for (id, snapshot) in ids.iter().zip(&snapshots) {
                        let lsn = snapshot.head().lsn;
                        assert!(lsn >= least.get(id.0 as usize).copied().unwrap_or(0));
                        let expected = (lsn > 0).then(|| lsn.to_be_bytes().to_vec());
                        for key in [&b"a"[..], b"\xc0b"] {
                            let value = snapshot.get(key).unwrap();
                            assert_eq!(value.map(|value| value.to_vec()), expected);
                        }
                    }
                    is_complete = least.iter().all(|&lsn| lsn == COMMITS);
                }
            });
        }
    });
    assert!(store.snapshots(&[]).unwrap().is_empty());
    assert!(store.snapshots(&[P, PartitionId(u64::MAX)]).is_err());
}

/// Promise 11.
pub(crate) fn partitions_written_by_several_threads_stay_independent(new_store: NewStore<'_>) {
    const COMMITS: u64 = 40;
    let store = &*new_store();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                let partitions = [thread * 2, thread * 2 + 1].map(PartitionId);
                let mut writer =
                    partitions.map(|partition| PartitionWriter::open(store, partition));
                for n in 1..=COMMITS {
                    for writer in &mut writer {
                        let id = writer.lease.partition().0.to_be_bytes();
                        writer.put(&[(&n.to_be_bytes(), &id), (b"\xc0last", &n.to_be_bytes())]);
                        let snapshot = store.snapshot(writer.lease.partition()).unwrap();
                        assert_eq!(snapshot.head().lsn, n);
                        assert_eq!(
                            snapshot.get(b"\xc0last").unwrap().unwrap(),
                            n.to_be_bytes().as_slice()
                        );
                    }
                }
            });
        }
    });
    for id in 0..8u64 {
        let found = everything(store, PartitionId(id));
        assert_eq!(found.len() as u64, COMMITS + 1);
        assert!(
            found
                .iter()
                .take(COMMITS as usize)
                .all(|(_, value)| *value == id.to_be_bytes())
        );
    }
}

/// Promise 11: a partition is moved as a split moves it: fenced by a new epoch, copied, destroyed.
pub(crate) fn a_partition_is_moved_while_others_are_written(new_store: NewStore<'_>) {
    let store = &*new_store();
    let (from, to, busy) = (PartitionId(1), PartitionId(2), PartitionId(3));
    let mut parent = PartitionWriter::open(store, from);
    for n in 0..30u8 {
        parent.put(&[(&[n], &[n]), (&[0x80, n], &[n])]);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = PartitionWriter::open(store, busy);
            (0..60u8).for_each(|n| writer.put(&[(&[n], &[n])]));
        });
        let before = everything(store, from);
        let fenced = store.open(from).unwrap();
        assert_eq!(
            parent.commit(commit(1, &[(b"late", b"late")])),
            CommitOutcome::Fenced
        );
        let child = store.open(to).unwrap();
        let copy = Commit {
            puts: before.clone(),
            expect_lsn: 0,
            new_lsn: fenced.head().lsn,
            ..Commit::default()
        };
        assert_eq!(store.submit(&child, copy).wait(), CommitOutcome::Ok);
        store.destroy(from).unwrap();
        assert_eq!(everything(store, to), before);
        assert_eq!(store.snapshot(to).unwrap().head().lsn, fenced.head().lsn);
        assert_eq!(
            store
                .submit(&fenced, commit(fenced.head().lsn + 1, &[]))
                .wait(),
            CommitOutcome::Fenced
        );
    });
    assert!(everything(store, from).is_empty());
    assert_eq!(everything(store, busy).len(), 60);
}

/// Promise 12.
pub(crate) fn a_paused_writer_is_fenced_after_another_open(new_store: NewStore<'_>) {
    let store = &*new_store();
    let paused = PartitionWriter::open(store, P);
    std::thread::scope(|scope| {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let commit_after_pause = scope.spawn(move || {
            woken.recv().unwrap();
            paused
                .store
                .submit(&paused.lease, commit(1, &[(b"stale", b"stale")]))
                .wait()
        });
        // The other writer only opens: with the same head, the epoch alone must fence the paused
        // one.
        store.open(P).unwrap();
        wake.send(()).unwrap();
        assert_eq!(commit_after_pause.join().unwrap(), CommitOutcome::Fenced);
    });
    assert!(everything(store, P).is_empty());
}

/// Promise 13.
pub(crate) fn commits_are_accepted_in_call_order_before_any_is_durable(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let receipts: Vec<_> = (1..=20)
        .map(|lsn| store.submit(&lease, commit(lsn, &[(b"last", &[lsn as u8])])))
        .collect();
    // Waiting for the last commit makes every commit before it durable.
    assert_eq!(
        receipts.into_iter().next_back().unwrap().wait(),
        CommitOutcome::Ok
    );
    let snapshot = store.snapshot(P).unwrap();
    assert_eq!(
        (
            snapshot.head().lsn,
            snapshot.get(b"last").unwrap().unwrap().to_vec()
        ),
        (20, vec![20])
    );
}

/// Promise 13: `sync` makes commits durable even if no caller waits for their receipts.
pub(crate) fn sync_makes_every_accepted_commit_durable(new_store: NewStore<'_>) {
    let store = new_store();
    let lease = store.open(P).unwrap();
    let receipts: Vec<_> = (1..=5)
        .map(|lsn| store.submit(&lease, commit(lsn, &[])))
        .collect();
    store.sync().unwrap();
    assert_eq!(store.snapshot(P).unwrap().head().lsn, 5);
    assert!(
        receipts
            .into_iter()
            .all(|receipt| receipt.wait() == CommitOutcome::Ok)
    );
}

/// Promise 13: a barrier is answered when the commits before it are durable, also if no caller
/// waits for their receipts.
pub(crate) fn a_barrier_is_answered_after_the_commits_before_it(new_store: NewStore<'_>) {
    let store = new_store();
    assert_eq!(store.barrier(P).wait(), CommitOutcome::Ok);
    let lease = store.open(P).unwrap();
    let receipts: Vec<_> = (1..=5)
        .map(|lsn| store.submit(&lease, commit(lsn, &[])))
        .collect();
    let barrier = store.barrier(P);
    assert_eq!(barrier.wait(), CommitOutcome::Ok);
    assert_eq!(store.snapshot(P).unwrap().head().lsn, 5);
    assert!(
        receipts
            .into_iter()
            .all(|receipt| receipt.wait() == CommitOutcome::Ok)
    );
    assert_eq!(store.barrier(P).wait(), CommitOutcome::Ok);
}

pub(crate) fn a_destroyed_partition_is_empty_and_its_old_leases_stay_fenced(
    new_store: NewStore<'_>,
) {
    let store = new_store();
    let mut writer = PartitionWriter::open(&*store, P);
    writer.put(&[(b"a", b"1"), (b"\x90", b"1")]);
    PartitionWriter::open(&*store, PartitionId(P.0 + 1)).put(&[(b"", b"other")]);
    let old = writer.lease.clone();
    store.destroy(P).unwrap();
    assert_eq!(
        (everything(&*store, P), store.snapshot(P).unwrap().head()),
        (vec![], Head::default())
    );
    assert_eq!(writer.commit(Commit::default()), CommitOutcome::Fenced);
    let new = store.open(P).unwrap();
    assert!(new.epoch() > old.epoch());
    assert_eq!(new.head(), Head::default());
    assert_eq!(
        store.submit(&old, commit(1, &[])).wait(),
        CommitOutcome::Fenced
    );
    assert_eq!(everything(&*store, PartitionId(P.0 + 1)).len(), 1);
    store.destroy(PartitionId(12345)).unwrap();
}

pub(crate) fn the_reserved_partition_is_refused(new_store: NewStore<'_>) {
    let (store, reserved) = (new_store(), PartitionId(u64::MAX));
    assert!(
        store.open(reserved).is_err()
            && store.snapshot(reserved).is_err()
            && store.destroy(reserved).is_err()
    );
    let mut highest = PartitionWriter::open(&*store, PartitionId(u64::MAX - 1));
    highest.put(&[(b"\xff", b"1")]);
    assert_eq!(everything(&*store, PartitionId(u64::MAX - 1)).len(), 1);
    assert!(store.approximate_bytes() > 0);
}

/// Calls a macro with the names of all promises.
#[allow(unused_macros)] // not every test binary runs the contract
macro_rules! for_every_promise {
    ($call:ident) => {
        $call!(
            a_commit_becomes_visible_whole_or_not_at_all,
            opening_fences_every_earlier_lease_at_once,
            a_commit_at_the_wrong_head_is_fenced_and_changes_nothing,
            an_unknown_outcome_is_resolved_by_a_newer_epoch_and_the_feed_row,
            no_commit_of_an_earlier_lease_becomes_visible_after_open,
            the_head_only_rises,
            pages_join_without_gap_or_repeat_in_both_directions,
            scans_keep_their_bounds_across_rows_and_index_entries,
            the_envelope_is_exact,
            a_refused_commit_does_not_move_the_accepted_head,
            range_deletes_empty_exactly_their_range_and_come_before_deletes_and_puts,
            a_range_delete_covers_commits_that_are_pending,
            snapshots_never_change_and_hold_every_acknowledged_commit,
            snapshots_taken_together_hold_every_acknowledged_commit,
            without_followers_there_is_no_follower_snapshot,
            partitions_written_by_several_threads_stay_independent,
            a_partition_is_moved_while_others_are_written,
            a_paused_writer_is_fenced_after_another_open,
            commits_are_accepted_in_call_order_before_any_is_durable,
            sync_makes_every_accepted_commit_durable,
            a_barrier_is_answered_after_the_commits_before_it,
            a_destroyed_partition_is_empty_and_its_old_leases_stay_fenced,
            the_reserved_partition_is_refused,
        );
    };
}
#[allow(unused_imports)] // not every test binary runs the contract
pub(crate) use for_every_promise;
