//! `cargo xtask history`: the recorded runs of `ci` and of the benchmarks, as tables of the last
//! runs side by side.
//!
//! Promises: a file with a line of another form is refused with the number of the line.
//! Leaves out: writing, which is in `history/line.rs`, and files of counts that add up, which
//! `history/rows.rs` reads and writes.

pub(crate) mod line;
pub(crate) mod rows;

use crate::run::{Outcome, root};
use crate::sdk_tools::read;
use line::{Facts, HEADING, Line};

/// The recorded runs of `ci`.
pub(crate) const CI_FILE: &str = "docs/history/ci.tsv";
/// The recorded runs of the benchmarks.
const BENCH_FILE: &str = "docs/history/bench.tsv";

/// Number of runs side by side, if the caller names none.
const RUNS: usize = 5;

/// Runs `history [ci | bench] [N]`.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (files, count) = choice(arguments)?;
    for file in files {
        let lines = parsed(file, &read(&root().join(file))?)?;
        if lines.is_empty() {
            println!("{file} has no runs yet\n");
        }
        print!("{}", trends(&lines, count));
    }
    Ok(())
}

/// Returns the help text of the command.
pub(crate) fn help() -> String {
    format!(
        "Prints the last N recorded runs side by side, {RUNS} without N: of the tiers of ci from\n\
         {CI_FILE}, in seconds, and of the benchmarks from\n{BENCH_FILE}. `ci` or `bench` chooses \
         one of the files.\n\n\
         `cargo xtask ci --record` and\n\
         `cargo run --profile bench -p orrery-bench -- COMMAND --record` write the lines.\n"
    )
}

/// Reads the arguments: the files and the number of runs.
fn choice(arguments: &[String]) -> Result<(Vec<&'static str>, usize), String> {
    let mut files = vec![CI_FILE, BENCH_FILE];
    let mut count = RUNS;
    for argument in arguments {
        match argument.as_str() {
            "ci" => files = vec![CI_FILE],
            "bench" => files = vec![BENCH_FILE],
            other => match other.parse() {
                Ok(number) if number > 0 => count = number,
                _ => {
                    return Err(format!(
                        "history takes `ci` or `bench` and a number of runs, not `{other}`"
                    ));
                }
            },
        }
    }
    Ok((files, count))
}

/// Returns the lines of a file.
///
/// # Errors
/// The file and the number of a line that is none.
pub(crate) fn parsed(file: &str, text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if place == 0 && line == HEADING.trim_end() {
            continue;
        }
        match parsed_line(line) {
            Some(line) => lines.push(line),
            None => return Err(format!("{file}:{}: this is no recorded run", place + 1)),
        }
    }
    Ok(lines)
}

fn parsed_line(line: &str) -> Option<Line> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [date, commit, cores, cpu, subject, state, result, figures] = cells[..] else {
        return None;
    };
    let mut named = Vec::new();
    for figure in figures.split("; ").filter(|figure| !figure.is_empty()) {
        let (name, value) = figure.split_once('=')?;
        named.push((name.to_owned(), value.to_owned()));
    }
    Some(Line {
        facts: Facts {
            date: date.to_owned(),
            commit: commit.to_owned(),
            cores: cores.parse().ok()?,
            cpu: cpu.to_owned(),
        },
        subject: subject.to_owned(),
        state: state.to_owned(),
        result: result.to_owned(),
        figures: named,
    })
}

/// Returns a table for each subject, in the order of their first runs.
fn trends(lines: &[Line], count: usize) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    for line in lines {
        if !subjects.contains(&line.subject.as_str()) {
            subjects.push(&line.subject);
        }
    }
    let mut text = String::new();
    for subject in subjects {
        let of_subject: Vec<&Line> = lines
            .iter()
            .filter(|line| line.subject == subject)
            .collect();
        let first = of_subject.len().saturating_sub(count);
        text.push_str(&trend(subject, &of_subject[first..]));
        text.push('\n');
    }
    text
}

/// Returns the table of a subject: a column for each run, a row for each figure.
fn trend(subject: &str, runs: &[&Line]) -> String {
    let cells = |cell: fn(&Line) -> String| runs.iter().map(|run| cell(run)).collect();
    let mut rows: Vec<(&str, Vec<String>)> = vec![
        (subject, cells(|run| run.facts.date.clone())),
        ("commit", cells(|run| run.facts.commit.clone())),
        ("state", cells(|run| run.state.clone())),
        ("cores", cells(|run| run.facts.cores.to_string())),
        ("result", cells(|run| first_word(&run.result).to_owned())),
    ];
    // The figures of the last run come first, in its order; figures that are gone come behind.
    for run in runs.iter().rev() {
        for (name, _) in &run.figures {
            if rows.iter().skip(5).all(|(known, _)| known != name) {
                rows.push((name, runs.iter().map(|run| figure(run, name)).collect()));
            }
        }
    }

    let width = rows.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for (name, cells) in rows {
        text.push_str(&format!("{name:<width$}"));
        for cell in cells {
            text.push_str(&format!(" {cell:>11}"));
        }
        text.push('\n');
    }
    let mut machines: Vec<&str> = runs.iter().map(|run| run.facts.cpu.as_str()).collect();
    machines.dedup();
    text.push_str(&format!("on {}\n", machines.join(", then ")));
    text
}

/// Returns the figure of this name, or a dash if the run has none.
fn figure(run: &Line, name: &str) -> String {
    let found = run.figures.iter().find(|(known, _)| known == name);
    found.map_or_else(|| "-".to_owned(), |(_, value)| value.clone())
}

fn first_word(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(commit: &str, result: &str, figures: &[(&str, &str)]) -> Line {
        Line {
            facts: Facts {
                date: "2026-11-26".to_owned(),
                commit: commit.to_owned(),
                cores: 2,
                cpu: "a CPU".to_owned(),
            },
            subject: "first".to_owned(),
            state: "cold".to_owned(),
            result: result.to_owned(),
            figures: figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn a_line_that_was_written_is_read_back() {
        let line = run_of("1a2b3c4+", "failed: fmt, docs", &[("scenarios go", "12.5")]);
        let text = format!("{HEADING}{}", line.text());
        assert_eq!(parsed("a.tsv", &text).unwrap(), [line]);
    }

    #[test]
    fn a_line_is_appended_to_a_file_that_begins_with_the_heading() {
        let path = std::env::temp_dir().join(format!("xtask-history-{}", std::process::id()));
        let file = path.to_str().unwrap();
        let runs = [
            run_of("1a2b3c4", "passed", &[("fmt", "1.5")]),
            run_of("5d6e7f8", "failed: fmt", &[("fmt", "2.5")]),
        ];
        for run in &runs {
            run.append(file).unwrap();
        }
        let text = read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.starts_with(HEADING), "{text}");
        assert_eq!(parsed(file, &text).unwrap(), runs);
    }

    #[test]
    fn a_name_cannot_end_its_cell() {
        let line = run_of("1a2b3c4", "passed", &[("a;\tb=c\n", "1")]);
        let read = parsed("a.tsv", &line.text()).unwrap();
        assert_eq!(read[0].figures, [("a  b c".to_owned(), "1".to_owned())]);
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_its_number() {
        let text = format!("{HEADING}2026-11-26\t1a2b3c4\n");
        assert_eq!(
            parsed("a.tsv", &text).unwrap_err(),
            "a.tsv:2: this is no recorded run"
        );
    }

    #[test]
    fn the_last_runs_stand_side_by_side_and_a_missing_figure_is_a_dash() {
        let runs = [
            run_of("aaaaaaa", "passed", &[("fmt", "9.0")]),
            run_of("bbbbbbb", "passed", &[("fmt", "1.0"), ("gone", "2.0")]),
            run_of("ccccccc", "failed: fmt", &[("fmt", "1.5"), ("new", "3.0")]),
        ];
        let table = trends(&runs, 2);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "commit     bbbbbbb     ccccccc");
        assert_eq!(lines[4], "result      passed      failed");
        assert_eq!(lines[5], "fmt            1.0         1.5");
        assert_eq!(lines[6], "new              -         3.0");
        assert_eq!(lines[7], "gone           2.0           -");
        assert!(!table.contains("aaaaaaa"), "{table}");
    }

    #[test]
    fn days_become_dates_of_the_calendar() {
        for (days, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_512, "2026-02-28"),
            (20_513, "2026-03-01"),
            (20_783, "2026-11-26"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(line::date_of(days), date);
        }
    }

    #[test]
    fn the_facts_of_this_machine_are_those_of_a_line() {
        let facts = Facts::now();
        assert!(facts.date.as_str() > "2026-01-01" && facts.date.len() == 10);
        assert!(facts.cores > 0 && !facts.cpu.is_empty() && !facts.commit.is_empty());
    }

    #[test]
    fn the_arguments_choose_a_file_and_a_number() {
        let arguments = ["bench".to_owned(), "3".to_owned()];
        assert_eq!(choice(&arguments).unwrap(), (vec![BENCH_FILE], 3));
        assert!(choice(&["0".to_owned()]).unwrap_err().contains("`0`"));
    }

    #[test]
    fn the_files_of_the_repository_can_be_read() {
        for file in [CI_FILE, BENCH_FILE] {
            parsed(file, &read(&root().join(file)).unwrap()).unwrap();
        }
    }
}
