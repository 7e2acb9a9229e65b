//! Random histories of commits, opens, removals, moves and restarts against a plain model, with a
//! cluster that fails at any write: nothing is lost, nothing is doubled, no LSN is missing, epochs
//! rise, and no copy is left over.

use crate::support::{Clusters, Owner, copies};
use orrery_placement::{PlacedStore, PlacementState};
use orrery_storage::testing::Fault;
use orrery_storage::{Commit, PartitionId};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
enum Step {
    Commit(usize, Commit),
    Open(usize),
    Destroy(usize),
    /// A move, with what happens after each snapshot that the move takes.
    Move(usize, usize, Vec<During>),
    Drain(usize),
    /// The cluster fails at its write after this many.
    FailAfter(usize, u64),
    Restart,
}

#[derive(Clone, Debug)]
enum During {
    Commit(Commit),
    Open,
    Destroy,
}

const PARTITIONS: usize = 3;
const CLUSTERS: usize = 3;

fn key() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        prop_oneof![Just(0u8), Just(1), Just(0x80), Just(0xff)],
        0..3,
    )
}

fn change() -> impl Strategy<Value = Commit> {
    let value = proptest::collection::vec(any::<u8>(), 0..4);
    let puts = proptest::collection::vec((key(), value), 0..5);
    let deletes = proptest::collection::vec(key(), 0..3);
    let ranges =
        proptest::collection::vec((key(), key()).prop_map(|(start, end)| start..end), 0..2);
    (puts, deletes, ranges).prop_map(|(puts, deletes, range_deletes)| Commit {
        puts,
        deletes,
        range_deletes,
        ..Commit::default()
    })
}

fn during() -> impl Strategy<Value = During> {
    prop_oneof![
        6 => change().prop_map(During::Commit),
        1 => Just(During::Open),
        1 => Just(During::Destroy),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0..PARTITIONS;
    prop_oneof![
        8 => (one.clone(), change()).prop_map(|(one, change)| Step::Commit(one, change)),
        1 => one.clone().prop_map(Step::Open),
        1 => one.clone().prop_map(Step::Destroy),
        5 => (one, 0..CLUSTERS, proptest::collection::vec(during(), 0..3))
            .prop_map(|(one, to, during)| Step::Move(one, to, during)),
        1 => (1..CLUSTERS).prop_map(Step::Drain),
        3 => (0..CLUSTERS, 0..12u64).prop_map(|(one, writes)| Step::FailAfter(one, writes)),
        1 => Just(Step::Restart),
    ]
}

/// Returns the number of histories: that of `PROPTEST_CASES`, or 400.
fn cases() -> u32 {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(400)
}

/// Plans what happens after each snapshot that the next move of a partition takes.
fn plan(
    clusters: &Clusters,
    store: &Arc<PlacedStore>,
    owner: &Arc<Mutex<Owner>>,
    during: Vec<During>,
) -> PartitionId {
    let partition = owner.lock().unwrap().partition;
    for act in during.into_iter().rev() {
        let (store, owner) = (store.clone(), owner.clone());
        clusters.after_snapshot(partition, move || {
            let mut owner = owner.lock().unwrap();
            // The move takes its first snapshot, which looks for the partition, in its turn.
            let is_moving = store.placements().into_iter().any(|placement| {
                placement.partition == partition
                    && matches!(placement.state, PlacementState::Moving { .. })
            });
            if !is_moving {
                return;
            }
            match act {
                During::Commit(change) => owner.commit(&*store, change),
                During::Open => {
                    owner.open(&*store);
                }
                During::Destroy => owner.destroy(&*store),
            }
        });
    }
    partition
}

fn run(fault: Fault, steps: Vec<Step>) {
    let mut clusters = Clusters::new(CLUSTERS, fault);
    let mut store = clusters.open().expect("no failure yet");
    let owners: Vec<_> = (1..=PARTITIONS as u64)
        .map(|id| Arc::new(Mutex::new(Owner::new(id))))
        .collect();
    for step in steps {
        let is_restart = matches!(step, Step::Restart);
        match step {
            Step::Commit(one, change) => owners[one].lock().unwrap().commit(&*store, change),
            Step::Open(one) => {
                owners[one].lock().unwrap().open(&*store);
            }
            Step::Destroy(one) => owners[one].lock().unwrap().destroy(&*store),
            Step::Move(one, to, during) => {
                let name = clusters.name(to);
                let partition = plan(&clusters, &store, &owners[one], during);
                // The outcome is of no interest: the model knows what must be there.
                let _ = store.move_partition(partition, &name);
                clusters.forget_hooks();
            }
            Step::Drain(one) => {
                let name = clusters.name(one);
                let _ = store
                    .drain(&name)
                    .and_then(|_| store.set_drained(&name, false));
            }
            Step::FailAfter(one, writes) => clusters.fail_after(one, writes),
            Step::Restart => {}
        }
        // A failure ends with the cluster's repair, and every second time with the process.
        let was_broken = clusters.repair_broken();
        if is_restart || was_broken == Some(true) {
            clusters.repair_all();
            drop(store);
            store = clusters.open().expect("all clusters are repaired");
            for owner in &owners {
                owner.lock().unwrap().forget_lease();
            }
        }
        if was_broken.is_some() || is_restart {
            for owner in &owners {
                let mut owner = owner.lock().unwrap();
                assert!(owner.open(&*store), "all clusters are repaired");
                owner.check(&*store);
            }
        }
    }
    clusters.repair_all();
    drop(store);
    let store = clusters.open().expect("all clusters are repaired");
    for owner in &owners {
        let mut owner = owner.lock().unwrap();
        owner.forget_lease();
        assert!(owner.open(&*store));
        owner.check(&*store);
    }
    let expected = owners.iter().filter(|owner| owner.lock().unwrap().head > 0);
    assert_eq!(copies(&clusters), expected.count(), "no copy is left over");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn histories_with_refused_writes(steps in proptest::collection::vec(step(), 1..40)) {
        run(Fault::Refused, steps);
    }

    #[test]
    fn histories_with_lost_commits(steps in proptest::collection::vec(step(), 1..40)) {
        run(Fault::Lost, steps);
    }

    #[test]
    fn histories_with_lost_answers(steps in proptest::collection::vec(step(), 1..40)) {
        run(Fault::Applied, steps);
    }
}
