//! Fleets of many seeds, the same seeds twice, and planted faults of fleets.

use crate::setting;
use orrery_sim::{FleetCounts, FleetFault, FleetPlan, FleetReport, run_fleet};

fn requests() -> u64 {
    setting("ORRERY_SIM_REQUESTS", 400)
}

/// Runs a seed, and panics with the last events and the command that replays it.
#[track_caller]
fn passes(seed: u64) -> FleetReport {
    match run_fleet(&FleetPlan::new(seed, requests()), None) {
        Ok(report) => report,
        Err(failure) => panic!("\n{failure}"),
    }
}

#[test]
fn random_fleets_are_as_their_clients_may_expect() {
    let mut sum = FleetCounts::default();
    for seed in 0..setting("ORRERY_SIM_FLEETS", 40) {
        let FleetCounts {
            answered,
            by_owners,
            unknown,
            leases,
            granted,
            expired,
            ..
        } = passes(seed).counts;
        sum.answered += answered;
        sum.by_owners += by_owners;
        sum.unknown += unknown;
        sum.leases += leases;
        sum.granted += granted;
        sum.expired += expired;
    }
    // A fleet in which nothing happens proves nothing.
    let is_busy = sum.answered > 10_000 && sum.by_owners > 1_000 && sum.unknown > 1_000;
    let changes_hands = sum.leases > 200 && sum.granted > 400 && sum.expired > 50;
    assert!(is_busy && changes_hands, "{sum:?}");
}

#[test]
fn a_seed_has_the_same_events_each_time() {
    for seed in 0..6 {
        assert_eq!(passes(seed), passes(seed));
    }
}

/// Each fault is found in some of the first fleets, which pass without the fault.
#[test]
fn each_planted_fault_is_found() {
    let mut missed = Vec::new();
    for fault in FleetFault::ALL {
        let is_found = |seed: &u64| {
            let plan = FleetPlan {
                fault: Some(fault),
                ..FleetPlan::new(*seed, requests())
            };
            let found = run_fleet(&plan, None).err();
            if let Some(failure) = &found {
                eprintln!("{fault:?} {seed}: {}", failure.message);
            }
            found.is_some()
        };
        let count = (0..15).filter(is_found).count();
        eprintln!("{fault:?}: {count} of 15");
        if count < 2 {
            missed.push((fault, count));
        }
    }
    assert!(missed.is_empty(), "seldom found: {missed:?}");
}
