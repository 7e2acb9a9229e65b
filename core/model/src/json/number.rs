//! Numbers: IEEE doubles for arithmetic, exact 64-bit integers, and the original text for the round
//! trip.

use std::fmt::Write as _;

/// A JSON number.
///
/// Integers in the range of `i64` are stored exactly. Any other number is a double, stored together
/// with its original text if the shortest form of the double differs (`1.0`, `1e2`, thirty digits).
#[derive(Clone, Debug)]
pub struct Number(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Integer(i64),
    Double(f64),
    Text(Box<(f64, String)>),
}

impl Number {
    /// Parses the text of a JSON number. `None` if the text is not a number or exceeds the range of
    /// a double.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_integer = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        // An integer has no negative zero; the double keeps the sign.
        if is_integer
            && text != "-0"
            && let Ok(integer) = text.parse::<i64>()
        {
            return Some(Number(Repr::Integer(integer)));
        }
        let double: f64 = text.parse().ok()?;
        if !double.is_finite() {
            return None;
        }
        let without_text = Number(Repr::Double(double));
        if without_text.text() == text {
            return Some(without_text);
        }
        Some(Number(Repr::Text(Box::new((double, text.to_owned())))))
    }

    /// Returns the nearest double.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            Repr::Integer(i) => *i as f64,
            Repr::Double(d) => *d,
            Repr::Text(both) => both.0,
        }
    }

    /// Returns the value as an integer if it has no fraction and fits `i64`; `1.0` is 1.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Integer(i) => Some(*i),
            _ => whole_i64(self.as_f64()),
        }
    }

    /// Returns the text for JSON output. JSON has no NaN and no infinities: they give `NaN`,
    /// `Infinity` and `-Infinity`, and code that writes a response must refuse them first, see
    /// [`Number::is_finite`].
    pub fn text(&self) -> String {
        let mut out = String::new();
        match &self.0 {
            Repr::Integer(i) => write!(out, "{i}").expect("writing to a string"),
            Repr::Double(d) => write_double(*d, &mut out),
            Repr::Text(both) => out.push_str(&both.1),
        }
        out
    }

    /// Appends the text for JSON output to `out`, as [`Number::text`] returns it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Repr::Text(both) => out.extend_from_slice(both.1.as_bytes()),
            _ => self.write_shortest(out),
        }
    }

    /// Appends the shortest text of the number to `out`, whatever the original text.
    pub(crate) fn write_shortest(&self, out: &mut Vec<u8>) {
        let mut text = String::new();
        match &self.0 {
            Repr::Integer(i) => write!(text, "{i}").expect("writing to a string"),
            Repr::Double(d) => write_double(*d, &mut text),
            Repr::Text(both) => write_double(both.0, &mut text),
        }
        out.extend_from_slice(text.as_bytes());
    }

    /// Returns true if JSON can represent the number, that is, if it is neither NaN nor infinite.
    pub fn is_finite(&self) -> bool {
        self.as_f64().is_finite()
    }

    /// Returns the integer if the number is stored as one. Two such numbers compare exactly.
    pub fn exact_integer(&self) -> Option<i64> {
        match &self.0 {
            Repr::Integer(i) => Some(*i),
            _ => None,
        }
    }
}

/// Returns the double as an integer if it has no fraction and fits `i64`.
fn whole_i64(double: f64) -> Option<i64> {
    // 2^63 itself is a double but not an i64.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&double);
    (fits && double.fract() == 0.0).then_some(double as i64)
}

/// Appends the shortest text that parses to the same double, in the form of JavaScript's
/// `Number.prototype.toString`: with an exponent only from 1e21 upward and below 1e-6.
fn write_double(double: f64, out: &mut String) {
    if double.is_nan() {
        return out.push_str("NaN");
    }
    if double.is_infinite() {
        return out.push_str(if double > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        });
    }
    let magnitude = double.abs();
    if double == 0.0 {
        out.push_str(if double.is_sign_negative() { "-0" } else { "0" });
    } else if (1e-6..1e21).contains(&magnitude) {
        write!(out, "{double}").expect("writing to a string");
    } else {
        let text = format!("{double:e}");
        let (digits, exponent) = text.split_once('e').expect("exponent form has an e");
        let sign = if exponent.starts_with('-') { "" } else { "+" };
        write!(out, "{digits}e{sign}{exponent}").expect("writing to a string");
    }
}

impl From<i64> for Number {
    fn from(v: i64) -> Self {
        Number(Repr::Integer(v))
    }
}
impl From<u64> for Number {
    fn from(v: u64) -> Self {
        match i64::try_from(v) {
            Ok(integer) => Number::from(integer),
            Err(_) => Number(Repr::Text(Box::new((v as f64, v.to_string())))),
        }
    }
}
impl From<f64> for Number {
    /// Converts a double. A double without a fraction becomes an integer if its magnitude is at
    /// most 2^53, so that sums of integers print as integers.
    fn from(v: f64) -> Self {
        match whole_i64(v) {
            Some(i) if i.unsigned_abs() <= 1 << 53 && !(v == 0.0 && v.is_sign_negative()) => {
                Number(Repr::Integer(i))
            }
            _ => Number(Repr::Double(v)),
        }
    }
}
