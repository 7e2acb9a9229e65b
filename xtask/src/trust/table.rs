//! The tables of `docs/reliability.md`: the figures of each version, and the command of each check.
//!
//! ```text
//! <!-- trust figures -->
//! Version 0.1.0:
//!
//! | check | done | … |
//! <!-- end -->
//! ```
//!
//! Promises: the tables follow from the text of the file of parts and from the list of checks
//! alone, so that `cargo xtask tidy` can compare them.
//! Leaves out: everything outside of the marks.

use super::checks::{CHECKS, Check};
use super::tally::{Tallies, Tally};

/// Path of the document.
pub(crate) const DOCUMENT: &str = "docs/reliability.md";

const MARK: &str = "<!-- trust figures -->\n";
const END: &str = "<!-- end -->";

/// Returns the document with the tables of a file of parts.
pub(crate) fn written(document: &str, parts: &str) -> Result<String, String> {
    let tallies = Tallies::parsed(parts)?;
    let missing = || format!("{DOCUMENT} lacks `{}` or `{END}`", MARK.trim_end());
    let (before, rest) = document.split_once(MARK).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let tables = tables(&tallies);
    Ok(format!("{before}{MARK}{tables}{END}{after}"))
}

/// Returns a table for each version, the newest first, and the table of the commands.
fn tables(tallies: &Tallies) -> String {
    let mut text = String::new();
    for version in tallies.versions().into_iter().rev() {
        text.push_str(&format!("Version {version}:\n\n"));
        text.push_str(
            "| check | cases that passed | goal | failed parts | minutes | first part | \
             last part |\n|---|---|---|---|---|---|---|\n",
        );
        for check in CHECKS {
            text.push_str(&row(check, tallies.get(check.name, version)));
        }
        text.push('\n');
    }
    text.push_str(
        "One part of each check, from the first seed:\n\n| check | command |\n|---|---|\n",
    );
    for check in CHECKS {
        text.push_str(&format!(
            "| {} | `{}` |\n",
            check.name,
            check.command_line()
        ));
    }
    text
}

/// Returns the row of a check.
fn row(check: &Check, tally: Option<&Tally>) -> String {
    let (name, unit, goal) = (check.name, check.unit, grouped(check.goal));
    let Some(tally) = tally else {
        return format!("| {name} | 0 {unit} | {goal} | | | | |\n");
    };
    let failed = match tally.failures {
        0 => "0".to_owned(),
        failures => format!("{failures}: {}", tally.failed_seeds.join(", ")),
    };
    format!(
        "| {name} | {} {unit} | {goal} | {failed} | {:.1} | {} | {} |\n",
        grouped(tally.cases),
        tally.seconds / 60.0,
        tally.first,
        tally.last
    )
}

/// Returns a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str = "check\tversion\tcases\tfailures\tnext seed\tseconds\tfirst part\t\
                           last part\tfailed seeds\n";
    const EMPTY: &str = "a\n<!-- trust figures -->\nold\n<!-- end -->\nb\n";

    fn with(lines: &str) -> String {
        written(EMPTY, &format!("{HEADING}{lines}")).unwrap()
    }

    #[test]
    fn the_table_has_each_check_with_its_figures_and_its_failed_parts() {
        let document = with("kills\t0.1.0\t12300\t1\t12400\t90.0\tday a\tday b\t700..800\n");
        let row = "| kills | 12,300 deaths of a server by SIGKILL under writers | 10,000 | \
                   1: 700..800 | 1.5 | day a | day b |\n";
        assert!(document.contains(row), "{document}");
        assert!(
            document.contains("| worlds | 0 simulated worlds of 300 steps | 100,000 | | | | |")
        );
        assert!(document.starts_with("a\n<!-- trust figures -->\nVersion 0.1.0:\n"));
        assert!(document.ends_with("|\n<!-- end -->\nb\n") && !document.contains("old"));
    }

    #[test]
    fn the_newest_version_is_first_and_the_commands_are_there_without_figures() {
        let line = |version| format!("kills\t{version}\t1\t0\t1\t1.0\ta\tb\t\n");
        let document = with(&(line("0.1.0") + &line("0.2.0")));
        let place = |text: &str| document.find(text).expect("the version");
        assert!(place("Version 0.2.0") < place("Version 0.1.0"));
        for check in CHECKS {
            let commands = with("");
            assert!(commands.contains(&check.command_line()), "{}", check.name);
        }
    }

    #[test]
    fn a_written_document_stays_as_it_is() {
        let parts = format!("{HEADING}kills\t0.1.0\t1\t0\t1\t1.0\ta\tb\t\n");
        let once = written(EMPTY, &parts).unwrap();
        assert_eq!(written(&once, &parts).unwrap(), once);
    }

    #[test]
    fn a_document_without_marks_and_a_damaged_file_are_refused() {
        assert!(written("a", HEADING).unwrap_err().contains("trust figures"));
        let refusal = written(EMPTY, "a\tb\n").unwrap_err();
        assert!(refusal.contains("trust.tsv:1"), "{refusal}");
    }

    #[test]
    fn numbers_have_commas_between_groups() {
        let texts = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
