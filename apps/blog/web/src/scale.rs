//! The scale of every bar that shows the price of a page or a request: logarithmic, so that 1 RU
//! and 2,064 RU can both be read. Pages say that each line is ten times the line before.

/// The charge at the left end of the scale.
const START_RU: f64 = 0.5;
/// The charge up to which all pages have the same scale.
const USUAL_END_RU: f64 = 5_000.0;

/// A scale from half a request unit to the first end that holds every bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    /// Powers of ten from the left to the right end.
    decades: f64,
}

/// A line of the scale.
pub(crate) struct Tick {
    /// Place in percent of the width.
    pub(crate) x: String,
    pub(crate) label: String,
}

impl Scale {
    /// Returns the scale for bars of which the longest is `highest` RU.
    pub(crate) fn up_to(highest: f64) -> Self {
        let mut end = USUAL_END_RU;
        while end < highest && end < 1e12 {
            end *= 10.0;
        }
        Self {
            decades: (end / START_RU).log10().round(),
        }
    }

    /// Returns the place of a charge in percent of the width, at least 0.5.
    pub(crate) fn place(self, ru: f64) -> f64 {
        let part = (ru.max(START_RU) / START_RU).log10() / self.decades;
        (part * 100.0).clamp(0.5, 100.0)
    }

    /// Returns the length of a bar as SVG takes it; 0 for a charge of 0.
    pub(crate) fn width(self, ru: f64) -> String {
        match ru > 0.0 {
            true => format!("{:.1}", self.place(ru)),
            false => "0".to_owned(),
        }
    }

    /// Returns the lines at 1, 10, 100 and so on.
    pub(crate) fn ticks(self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        for exponent in 0..self.decades as u32 {
            let ru = 10u64.pow(exponent);
            ticks.push(Tick {
                x: format!("{:.1}", self.place(ru as f64)),
                label: crate::text::count(ru),
            });
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_two_thousand_are_both_readable_and_in_order() {
        let scale = Scale::up_to(2_063.54);
        let places: Vec<f64> = [1.0, 17.0, 532.0, 2_063.54]
            .into_iter()
            .map(|ru| scale.place(ru))
            .collect();
        assert!(places.is_sorted());
        assert!(places[0] > 5.0 && places[3] < 95.0, "{places:?}");
        assert_eq!(
            (scale.width(0.0).as_str(), scale.width(0.01).as_str()),
            ("0", "0.5")
        );
    }

    #[test]
    fn each_line_is_ten_times_the_line_before_at_the_same_distance() {
        let labels = |scale: Scale| -> Vec<String> {
            scale.ticks().into_iter().map(|tick| tick.label).collect()
        };
        assert_eq!(labels(Scale::up_to(0.0)), ["1", "10", "100", "1,000"]);
        let long = Scale::up_to(30_000.0);
        assert_eq!(labels(long).len(), 5);
        assert_eq!(long.place(50_000.0), 100.0);
        let distances = |from: f64| long.place(from * 10.0) - long.place(from);
        assert!((distances(1.0) - distances(100.0)).abs() < 1e-9);
    }
}
