//! Numbers: IEEE doubles for arithmetic, exact 64-bit integers and the sender's text for the round trip.

use std::fmt::Write as _;

/// A JSON number.
///
/// Whole numbers in the range of `i64` are kept exactly. Any other number is a double, and keeps the text it came
/// with when the double's shortest form reads differently (`1.0`, `1e2`, thirty digits).
#[derive(Clone, Debug)]
pub struct Number(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Integer(i64),
    Double(f64),
    Text(Box<(f64, String)>),
}

impl Number {
    /// Reads the text of a JSON number. `None` if it is not one, or beyond the range of a double.
    pub fn from_text(text: &str) -> Option<Self> {
        let whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-');
        if whole
            && text != "-0"
            && let Ok(integer) = text.parse::<i64>()
        {
            return Some(Number(Repr::Integer(integer)));
        }
        let double: f64 = text.parse().ok()?;
        if !double.is_finite() {
            return None;
        }
        let plain = Number(Repr::Double(double));
        if plain.text() == text {
            return Some(plain);
        }
        Some(Number(Repr::Text(Box::new((double, text.to_owned())))))
    }

    /// The nearest double.
    pub fn as_f64(&self) -> f64 {
        match &self.0 {
            Repr::Integer(i) => *i as f64,
            Repr::Double(d) => *d,
            Repr::Text(both) => both.0,
        }
    }

    /// The value as an integer if it is whole and fits `i64`; `1.0` is 1.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.0 {
            Repr::Integer(i) => Some(*i),
            _ => whole_i64(self.as_f64()),
        }
    }

    /// The text that goes on the wire. NaN and infinities have none in JSON; they print as `NaN`, `Infinity`,
    /// `-Infinity`, and whoever answers a client refuses them first (see [`Number::is_finite`]).
    pub fn text(&self) -> String {
        let mut out = String::new();
        match &self.0 {
            Repr::Integer(i) => write!(out, "{i}").expect("writing to a string"),
            Repr::Double(d) => write_double(*d, &mut out),
            Repr::Text(both) => out.push_str(&both.1),
        }
        out
    }

    /// Whether it can stand in a JSON text.
    pub fn is_finite(&self) -> bool {
        self.as_f64().is_finite()
    }

    /// The integer if that is how it is kept; such numbers compare exactly with each other.
    pub fn exact_integer(&self) -> Option<i64> {
        match &self.0 {
            Repr::Integer(i) => Some(*i),
            _ => None,
        }
    }
}

/// The whole number a double stands for, if it is one and fits.
fn whole_i64(double: f64) -> Option<i64> {
    // 2^63 itself is a double but not an i64.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&double);
    (fits && double.fract() == 0.0).then_some(double as i64)
}

/// The shortest text that reads back as the same double, spelled as JavaScript does: exponents only from 1e21 up and
/// below 1e-6.
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
    let size = double.abs();
    if double == 0.0 {
        out.push_str(if double.is_sign_negative() { "-0" } else { "0" });
    } else if (1e-6..1e21).contains(&size) {
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
        i64::try_from(v).map_or_else(
            |_| Number(Repr::Text(Box::new((v as f64, v.to_string())))),
            Number::from,
        )
    }
}
impl From<f64> for Number {
    /// Whole doubles that an `i64` and a double both hold exactly become integers, so that sums of integers print as
    /// integers.
    fn from(v: f64) -> Self {
        match whole_i64(v) {
            Some(i) if i.unsigned_abs() <= 1 << 53 && !(v == 0.0 && v.is_sign_negative()) => {
                Number(Repr::Integer(i))
            }
            _ => Number(Repr::Double(v)),
        }
    }
}
