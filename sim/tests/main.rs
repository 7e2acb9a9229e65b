//! Worlds of many seeds, the same seeds twice, seeds that found something, and planted faults.
//!
//! `ORRERY_SIM_SEEDS` and `ORRERY_SIM_STEPS` make the runs longer.

mod fleet;

use orrery_sim::{Plan, PlantedFault, Report, RowFault, run};

/// Returns the number in an environment variable, or `default`.
fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn steps() -> u64 {
    setting("ORRERY_SIM_STEPS", 300)
}

/// Runs a seed, and panics with the last events and the command that replays it.
#[track_caller]
fn passes(seed: u64, steps: u64) -> Report {
    match run(&Plan::new(seed, steps), None) {
        Ok(report) => report,
        Err(failure) => panic!("\n{failure}"),
    }
}

#[test]
fn random_worlds_are_as_the_model_says() {
    let mut sum = (0, 0, 0);
    for seed in 0..setting("ORRERY_SIM_SEEDS", 200) {
        let report = passes(seed, steps());
        sum.0 += report.crashes;
        sum.1 += report.answered;
        sum.2 += report.unknown;
    }
    // A world in which nothing happens proves nothing.
    let (crashes, answered, unknown) = sum;
    assert!(
        crashes > 100 && answered > 10_000 && unknown > 100,
        "{sum:?}"
    );
}

fn on_files(seed: u64) -> Plan {
    Plan {
        is_on_files: true,
        ..Plan::new(seed, steps())
    }
}

/// The same with journals and tables on a simulated disk that loses power, and with backups.
#[test]
fn random_worlds_on_files_are_as_the_model_says() {
    let mut sum = (0, 0, 0);
    for seed in 0..setting("ORRERY_SIM_SEEDS", 200) / 10 {
        match run(&on_files(seed), None) {
            Ok(report) => {
                sum.0 += report.crashes;
                sum.1 += report.answered;
                sum.2 += report.backups;
            }
            Err(failure) => panic!("\n{failure}"),
        }
    }
    let (crashes, answered, backups) = sum;
    assert!(crashes > 10 && answered > 1_000 && backups > 10, "{sum:?}");
}

/// A commit that is answered before it is durable is lost by a power loss.
#[test]
fn a_commit_on_files_that_is_answered_early_is_found() {
    let is_found = |seed: &u64| {
        let plan = Plan {
            fault: Some(PlantedFault::AnsweredEarly),
            ..on_files(*seed)
        };
        run(&plan, None).is_err()
    };
    assert!((0..10).filter(is_found).count() > 3);
}

#[test]
fn long_worlds_are_as_the_model_says() {
    for seed in 1_000_000..1_000_000 + setting("ORRERY_SIM_SEEDS", 200) / 20 {
        passes(seed, 10 * steps());
    }
}

#[test]
fn a_seed_has_the_same_events_each_time() {
    for seed in 0..20 {
        assert_eq!(passes(seed, steps()), passes(seed, steps()));
    }
}

#[test]
fn different_seeds_have_different_events() {
    assert_ne!(passes(1, 50).hash, passes(2, 50).hash);
}

/// Returns the seeds, of the first ones, in which a fault is found.
fn found(fault: PlantedFault, is_verified: bool) -> Vec<u64> {
    let is_found = |seed: &u64| {
        let plan = Plan {
            fault: Some(fault),
            is_verified,
            ..Plan::new(*seed, 300)
        };
        run(&plan, None).is_err()
    };
    (0..20).filter(is_found).collect()
}

/// Checks that a fault is found in most worlds, by clients alone.
#[track_caller]
fn is_found(fault: PlantedFault) {
    let seeds = found(fault, false);
    assert!(seeds.len() > 10, "found in {seeds:?} of 20 seeds");
}

/// A forgotten or wrong write of each kind of rows is found in one of the first worlds.
#[test]
fn each_fault_of_the_rows_of_each_kind_is_found() {
    let mut missed = Vec::new();
    for (name, fault) in RowFault::all() {
        let mut plans = (0..20).map(|seed| Plan {
            fault: Some(PlantedFault::Row(fault)),
            ..Plan::new(seed, 300)
        });
        if !plans.any(|plan| run(&plan, None).is_err()) {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

#[test]
fn a_dropped_delete_of_an_index_entry_is_found() {
    // Clients seldom meet the entry of an item that is gone; the verification reads every row.
    let seeds = found(PlantedFault::IndexDeleteDropped, true);
    assert!(seeds.len() > 10, "found in {seeds:?} of 20 seeds");
    let seeds = found(PlantedFault::IndexDeleteDropped, false);
    assert!(!seeds.is_empty(), "no client has found it");
}

#[test]
fn a_lost_commit_is_found() {
    is_found(PlantedFault::CommitLost);
}

#[test]
fn a_dropped_row_of_the_change_feed_is_found() {
    is_found(PlantedFault::FeedRowDropped);
}

#[test]
fn a_batch_that_took_place_in_half_is_found() {
    is_found(PlantedFault::BatchInHalf);
}

#[test]
fn a_commit_that_is_answered_before_it_is_durable_is_found() {
    is_found(PlantedFault::AnsweredEarly);
}

// A seed whose world needs a rule of the model. A change of the choices changes the worlds of all
// seeds; then it is a seed like others.

#[test]
fn an_expired_value_behind_an_unknown_outcome_comes_back_without_a_time_to_live() {
    passes(694, 300);
}
