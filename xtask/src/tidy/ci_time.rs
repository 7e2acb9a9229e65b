//! A warning if the first tier of `ci` takes too long on a machine without a build.
//!
//! The time is that of the last cold run in `docs/history/ci.tsv` that passed.
//!
//! Leaves out: a complaint. A recorded time is a fact of the past, which a change cannot mend.

use super::tree::Tree;
use crate::ci::{COLD, FIRST_TIER, PASSED, WALL};
use crate::history::{CI_FILE, parsed};

/// The time that a cold run of the first tier may take.
const COLD_MINUTES_MAX: f64 = 30.0;

/// Returns the warning, if there is one.
pub(super) fn warning(tree: &Tree) -> Option<String> {
    let text = tree.text(CI_FILE).unwrap_or_default();
    let lines = match parsed(CI_FILE, text) {
        Ok(lines) => lines,
        Err(reason) => return Some(reason),
    };
    let last = lines
        .iter()
        .rev()
        .find(|line| line.subject == FIRST_TIER && line.state == COLD && line.result == PASSED)?;
    let (_, seconds) = last.figures.iter().find(|(name, _)| name == WALL)?;
    let minutes = seconds.parse::<f64>().ok()? / 60.0;
    (minutes > COLD_MINUTES_MAX).then(|| {
        format!(
            "the first tier took {minutes:.0} minutes without a build on {}, at {}; the limit is \
             {COLD_MINUTES_MAX} (`.second()` in xtask/src/ci/steps.rs moves a step)",
            last.facts.date, last.facts.commit
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warning for a file with these runs: subject, state, result, seconds.
    fn judged(runs: &[(&str, &str, &str, &str)]) -> Option<String> {
        let mut text = String::new();
        for (subject, state, result, seconds) in runs {
            text.push_str(&format!(
                "2026-11-26\t1a2b3c4\t2\ta CPU\t{subject}\t{state}\t{result}\twall s={seconds}\n"
            ));
        }
        warning(&Tree::of(&[(CI_FILE, text.as_str())]))
    }

    #[test]
    fn a_first_tier_over_the_limit_is_a_warning() {
        let warning = judged(&[("first", "cold", "passed", "1860.0")]).unwrap();
        assert!(
            warning.contains("31 minutes") && warning.contains("at 1a2b3c4"),
            "{warning}"
        );
        assert_eq!(judged(&[("first", "cold", "passed", "1800.0")]), None);
    }

    #[test]
    fn only_the_last_cold_run_of_the_first_tier_that_passed_counts() {
        let long = ("first", "cold", "passed", "3600.0");
        assert_eq!(judged(&[long, ("first", "cold", "passed", "600.0")]), None);
        for other in [
            ("first", "warm", "passed", "600.0"),
            ("second", "cold", "passed", "600.0"),
            ("first", "cold", "failed: fmt", "600.0"),
        ] {
            assert!(judged(&[long, other]).is_some(), "{other:?}");
        }
    }

    #[test]
    fn a_tree_without_runs_has_no_warning_and_a_line_of_another_form_is_one() {
        assert_eq!(judged(&[]), None);
        assert_eq!(warning(&Tree::of(&[])), None);
        let reason = warning(&Tree::of(&[(CI_FILE, "a")])).unwrap();
        assert!(reason.contains("ci.tsv:1"), "{reason}");
    }
}
