//! The difference of two texts, line by line.

/// Unchanged lines that are shown before and after a change.
const CONTEXT: usize = 2;

/// A line of the old text, of the new text, or of both.
#[derive(Clone, Copy)]
enum Line<'a> {
    Both(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Returns the changed lines with their neighbours; each group begins with the file and its line in
/// the old text. Returns nothing if the texts are equal.
pub(super) fn difference(file: &str, old: &str, new: &str) -> Option<String> {
    if old == new {
        return None;
    }
    let lines = compared(old, new);
    let is_changed = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let is_near = |at: usize| {
        let end = lines.len().min(at + CONTEXT + 1);
        lines[at.saturating_sub(CONTEXT)..end]
            .iter()
            .any(is_changed)
    };
    let mut out = String::new();
    let (mut number, mut is_inside) = (1, false);
    for (at, line) in lines.iter().enumerate() {
        let shows = is_near(at);
        if shows && !is_inside {
            out.push_str(&format!("{file}:{number}\n"));
        }
        is_inside = shows;
        let (sign, text) = match line {
            Line::Both(text) => (' ', text),
            Line::Old(text) => ('-', text),
            Line::New(text) => ('+', text),
        };
        if shows {
            out.push_str(&format!("  {sign} {text}\n"));
        }
        if !matches!(line, Line::New(_)) {
            number += 1;
        }
    }
    Some(out)
}

/// Returns the lines of both texts in order, with as many common lines as possible.
fn compared<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    // Common lines from each pair of places to the ends.
    let mut common = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            common[o][n] = if old[o] == new[n] {
                common[o + 1][n + 1] + 1
            } else {
                common[o + 1][n].max(common[o][n + 1])
            };
        }
    }
    let (mut o, mut n, mut lines) = (0, 0, Vec::new());
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            lines.push(Line::Both(old[o]));
            (o, n) = (o + 1, n + 1);
        } else if n == new.len() || (o < old.len() && common[o + 1][n] >= common[o][n + 1]) {
            lines.push(Line::Old(old[o]));
            o += 1;
        } else {
            lines.push(Line::New(new[n]));
            n += 1;
        }
    }
    lines
}

#[test]
fn a_difference_names_the_line_and_shows_both_texts() {
    let old = "a\nb\nc\nd\ne\nf\ng\n";
    let new = "a\nb\nc\nd\nE\nf\ng\n";
    let shown = difference("x.txt", old, new).expect("they differ");
    assert_eq!(shown, "x.txt:3\n    c\n    d\n  - e\n  + E\n    f\n    g\n");
    assert_eq!(difference("x.txt", old, old), None);
}

#[test]
fn inserted_lines_leave_the_others_equal() {
    let shown = difference("x.txt", "a\nb\n", "a\nx\ny\nb\n").expect("they differ");
    assert_eq!(shown, "x.txt:1\n    a\n  + x\n  + y\n    b\n");
}
