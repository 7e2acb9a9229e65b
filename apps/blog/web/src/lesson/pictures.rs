//! The data of pictures: physical partitions as columns of a chart, and lines.
//!
//! Templates draw the pictures as SVG from these numbers.

use super::figures;
use orrery_blog::client::PartitionKeyRange;
use orrery_blog::lesson::lab::{ContainerState, PartitionState, Second};
use orrery_blog::lesson::mix::CostLine;

/// Returns the first digits of a range of the hash space, e.g. `00–1F`.
pub(crate) fn hash_range(range: &PartitionKeyRange) -> String {
    let digits = |epk: &str, default: &str| match epk.get(..4) {
        Some(digits) => digits.to_owned(),
        None if epk.is_empty() => default.to_owned(),
        None => epk.to_owned(),
    };
    format!("{}–{}", digits(&range.min, "00"), digits(&range.max, "FF"))
}

/// A physical partition in the picture of a load.
pub(crate) struct Column {
    pub(crate) load_y: String,
    pub(crate) load_height: String,
    pub(crate) refused_y: String,
    pub(crate) refused_height: String,
    pub(crate) range: String,
    pub(crate) from_to: String,
    pub(crate) ru: String,
    pub(crate) throttled: String,
    /// The used part of the partition's share, in percent: its normalised RU consumption.
    pub(crate) percent: String,
    pub(crate) is_throttled: bool,
    pub(crate) kilobytes: String,
}

/// The load of the physical partitions of a container, in one second or in the mean of all.
pub(crate) struct LoadPicture {
    pub(crate) columns: Vec<Column>,
    pub(crate) limit_y: String,
}

/// Returns the column of a physical partition; `height` scales RU/s.
fn column(
    partition: &PartitionState,
    load: &Load,
    share: f64,
    height: impl Fn(f64) -> f64,
) -> Column {
    let (used, refused) = (height(load.ru), height(load.refused_ru));
    let kilobytes = match partition.kilobytes {
        Some(kilobytes) => figures::bytes(kilobytes as f64 * 1024.0),
        None => "unknown".to_owned(),
    };
    Column {
        load_y: figures::plain(100.0 - used),
        load_height: figures::plain(used),
        refused_y: figures::plain(100.0 - used - refused),
        refused_height: figures::plain(refused),
        range: partition.range.id.clone(),
        from_to: hash_range(&partition.range),
        ru: figures::grouped(load.ru),
        throttled: figures::plain((load.throttled * 10.0).round() / 10.0),
        percent: figures::percent(load.ru / share.max(1.0)),
        is_throttled: load.throttled > 0.0,
        kilobytes,
    }
}

impl LoadPicture {
    /// Returns the picture of a container. `second` is the number of the shown second; `None` shows
    /// the mean of all.
    pub(crate) fn of(container: &ContainerState, second: Option<usize>) -> Self {
        let share = container.share();
        let loads: Vec<Load> = container
            .partitions
            .iter()
            .map(|partition| Load::of(partition, second, mean_charge(container)))
            .collect();
        let highest = loads.iter().map(|load| load.ru + load.refused_ru);
        let scale = highest.fold(share, f64::max) * 1.1;
        let height = |ru: f64| if scale > 0.0 { ru * 100.0 / scale } else { 0.0 };
        let mut columns = Vec::new();
        for (partition, load) in container.partitions.iter().zip(&loads) {
            columns.push(column(partition, load, share, height));
        }
        Self {
            columns,
            limit_y: figures::plain(100.0 - height(share)),
        }
    }
}

/// Returns the mean charge of a served request in RU. A partition that refuses every request has
/// none of its own, so that of the container stands for all.
fn mean_charge(container: &ContainerState) -> f64 {
    let totals = container.partitions.iter().map(PartitionState::total);
    let (served, ru) = totals.fold((0, 0.0), |(served, ru), total| {
        (served + total.served, ru + total.ru)
    });
    ru / f64::from(served).max(1.0)
}

/// The load of one partition per second.
struct Load {
    ru: f64,
    throttled: f64,
    /// An estimate of the charge that the refused requests would have had.
    refused_ru: f64,
}

impl Load {
    /// Returns the load of a partition; `mean_charge` is that of a request in its container.
    fn of(partition: &PartitionState, second: Option<usize>, mean_charge: f64) -> Self {
        let (figures, seconds) = match second {
            Some(second) => (partition.seconds.get(second).copied(), 1.0),
            None => (
                Some(partition.total()),
                partition.seconds.len().max(1) as f64,
            ),
        };
        let figures = figures.unwrap_or_default();
        let Second { throttled, ru, .. } = figures;
        let throttled = f64::from(throttled) / seconds;
        Self {
            ru: ru / seconds,
            throttled,
            refused_ru: throttled * mean_charge,
        }
    }
}

/// Size of the chart of costs, and of its margins for labels.
const CHART: (f64, f64) = (640.0, 280.0);
const MARGIN: (f64, f64, f64, f64) = (64.0, 16.0, 56.0, 44.0);
/// Ticks of an axis.
const TICKS: usize = 4;

/// A line of the chart.
pub(crate) struct ChartLine {
    /// `v1`, `v2` or `v3`.
    pub(crate) model: String,
    pub(crate) name: String,
    pub(crate) points: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
}

/// A tick of an axis, or a crossing of two lines.
pub(crate) struct Mark {
    pub(crate) at: String,
    pub(crate) other: String,
    pub(crate) text: String,
}

/// The chart of the cost of one write with its reads, as a function of the reads.
pub(crate) struct Chart {
    pub(crate) lines: Vec<ChartLine>,
    pub(crate) x_ticks: Vec<Mark>,
    pub(crate) y_ticks: Vec<Mark>,
    pub(crate) crosses: Vec<Mark>,
    /// The heights of their labels, one above the other.
    pub(crate) cross_labels: Vec<String>,
    /// The reads for each write of the reader's traffic, if they lie in the chart.
    pub(crate) own: Option<Mark>,
    /// The cost of the reader's traffic in each model: model, place, text.
    pub(crate) own_points: Vec<(String, Mark)>,
    /// The costs at the ratios of the axis, for the table: ratio, then one cost for each line.
    pub(crate) rows: Vec<(String, Vec<String>)>,
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
}

/// Returns the end of the axis of ratios. The chart shows all crossings with room behind; a ratio
/// of the reader far beyond the crossings does not squeeze the rest.
fn highest_ratio(crossings: &[f64], own: Option<f64>) -> f64 {
    let farthest = crossings.iter().copied().fold(0.0, f64::max);
    let own = own.unwrap_or(1.0).min(farthest * 4.0 + 10.0);
    nice(1.0f64.max(farthest * 1.5).max(own))
}

/// Returns a mark of the chart with these coordinates.
fn mark(at: f64, other: f64, text: String) -> Mark {
    Mark {
        at: figures::plain(at),
        other: figures::plain(other),
        text,
    }
}

impl ChartLine {
    /// Returns the drawn line of a model between two points.
    fn of(line: &CostLine, start: (f64, f64), end: (f64, f64)) -> Self {
        let point = |(x, y): (f64, f64)| format!("{},{}", figures::plain(x), figures::plain(y));
        Self {
            model: line.model.to_string().to_lowercase(),
            name: line.model.to_string(),
            points: format!("{} {}", point(start), point(end)),
            label_x: figures::plain(end.0 + 6.0),
            label_y: figures::plain(end.1 + 4.0),
        }
    }
}

impl Chart {
    /// Returns the chart of `lines`; `own` is the reader's own ratio. `None` without lines.
    pub(crate) fn of(lines: &[CostLine], crossings: &[f64], own: Option<f64>) -> Option<Self> {
        let x_max = highest_ratio(crossings, own);
        let highest = lines.iter().map(|line| line.at(x_max)).fold(0.0, f64::max);
        if lines.is_empty() || highest <= 0.0 {
            return None;
        }
        let y_max = nice(highest);
        let (left, top, right_margin, bottom_margin) = MARGIN;
        let (right, bottom) = (CHART.0 - right_margin, CHART.1 - bottom_margin);
        let x = |value: f64| left + value / x_max * (right - left);
        let y = |value: f64| bottom - value / y_max * (bottom - top);
        let mut chart = Self {
            lines: Vec::new(),
            x_ticks: Vec::new(),
            y_ticks: Vec::new(),
            crosses: Vec::new(),
            cross_labels: Vec::new(),
            own: own
                .filter(|own| *own <= x_max)
                .map(|own| mark(x(own), top, figures::plain(own))),
            own_points: Vec::new(),
            rows: Vec::new(),
            left: figures::plain(left),
            right: figures::plain(right),
            top: figures::plain(top),
            bottom: figures::plain(bottom),
        };
        for tick in 0..=TICKS {
            let part = tick as f64 / TICKS as f64;
            let (reads, cost) = (x_max * part, y_max * part);
            chart
                .x_ticks
                .push(mark(x(reads), bottom, figures::plain(reads)));
            chart
                .y_ticks
                .push(mark(y(cost), left, figures::plain(cost)));
            let costs = lines.iter().map(|line| figures::ru(line.at(reads)));
            chart.rows.push((figures::plain(reads), costs.collect()));
        }
        for line in lines {
            let (start, end) = (y(line.at(0.0)), y(line.at(x_max)));
            if let Some(own) = own.filter(|own| *own <= x_max) {
                let cost = line.at(own);
                let point = mark(x(own), y(cost), figures::ru(cost));
                chart
                    .own_points
                    .push((line.model.to_string().to_lowercase(), point));
            }
            chart
                .lines
                .push(ChartLine::of(line, (left, start), (right, end)));
        }
        // The labels stand one above the other, the leftmost on top: crossings may lie close.
        let crossings = crossings_within(lines, x_max);
        let count = crossings.len();
        for (place, (reads, cost, names)) in crossings.into_iter().enumerate() {
            let above = 20.0 + 16.0 * (count - place) as f64;
            let label_y = (y(cost) - above).max(top + 12.0);
            chart.cross_labels.push(figures::plain(label_y));
            let text = format!("{names} at {}", figures::plain(reads));
            chart.crosses.push(mark(x(reads), y(cost), text));
        }
        chart.spread_labels();
        Some(chart)
    }

    /// Moves the labels of lines that end close together apart.
    fn spread_labels(&mut self) {
        const APART: f64 = 14.0;
        let place = |line: &ChartLine| line.label_y.parse::<f64>().unwrap_or_default();
        let mut order: Vec<usize> = (0..self.lines.len()).collect();
        order.sort_by(|a, b| place(&self.lines[*b]).total_cmp(&place(&self.lines[*a])));
        // From the lowest label upward: each one is at least a text line above the one before.
        let mut lowest = f64::INFINITY;
        for index in order {
            let at = place(&self.lines[index]).min(lowest - APART);
            self.lines[index].label_y = figures::plain(at);
            lowest = at;
        }
    }
}

/// Returns the reads and the cost at which two of the lines cross, up to `reads_max`, with the
/// names of the two, the fewest reads first.
fn crossings_within(lines: &[CostLine], reads_max: f64) -> Vec<(f64, f64, String)> {
    let mut crossings = Vec::new();
    for (index, a) in lines.iter().enumerate() {
        for b in &lines[index + 1..] {
            if let Some(reads) = a.break_even(b).filter(|reads| *reads <= reads_max) {
                let names = format!("{} = {}", a.model, b.model);
                crossings.push((reads, a.at(reads), names));
            }
        }
    }
    crossings.sort_by(|a, b| a.0.total_cmp(&b.0));
    crossings
}

/// Returns the next number of the form 1, 2, 4, 5 or 8 times a power of ten.
pub(crate) fn nice(value: f64) -> f64 {
    let power = 10f64.powf(value.max(1e-6).log10().floor());
    for factor in [1.0, 2.0, 4.0, 5.0, 8.0] {
        if factor * power >= value {
            return factor * power;
        }
    }
    10.0 * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::Model;

    fn range(id: &str, min: &str, max: &str) -> PartitionKeyRange {
        PartitionKeyRange {
            id: id.to_owned(),
            min: min.to_owned(),
            max: max.to_owned(),
            parents: Vec::new(),
        }
    }

    #[test]
    fn a_hash_range_shows_its_first_digits() {
        assert_eq!(hash_range(&range("1", "20", "FF")), "20–FF");
    }

    #[test]
    fn a_refused_load_stands_above_the_used_one() {
        let second = Second {
            served: 10,
            throttled: 30,
            failed: 0,
            ru: 100.0,
        };
        let partition = |id: &str, seconds: Vec<Second>| PartitionState {
            range: range(id, "", "FF"),
            seconds,
            kilobytes: None,
        };
        let container = ContainerState {
            link: String::new(),
            name: "hot".to_owned(),
            key_path: "/postId",
            ru_per_second: 200,
            partitions: vec![partition("0", vec![second, second]), partition("1", vec![])],
            replaced: Vec::new(),
        };
        for shown in [None, Some(1)] {
            let picture = LoadPicture::of(&container, shown);
            let hot = &picture.columns[0];
            assert_eq!((hot.ru.as_str(), hot.throttled.as_str()), ("100", "30"));
            // 100 RU/s of 440 at the scale: used and share 22.7, refused 68.2.
            assert_eq!(picture.limit_y, hot.load_y);
            assert_eq!(hot.refused_height, "68.18");
            assert_eq!(picture.columns[1].load_height, "0");
        }
    }

    #[test]
    fn the_chart_shows_where_two_models_cost_the_same() {
        let line = |model: Model, read: f64, write: f64| CostLine { model, read, write };
        let lines = [line(Model::V1, 10.0, 5.0), line(Model::V3, 1.0, 32.0)];
        let chart = Chart::of(&lines, &[3.0], Some(2.0)).expect("a chart");
        assert_eq!((chart.lines.len(), chart.crosses.len()), (2, 1));
        assert_eq!(chart.crosses[0].text, "V1 = V3 at 3");
        assert!(chart.own.is_some());
        let own: Vec<&str> = chart
            .own_points
            .iter()
            .map(|(_, point)| point.text.as_str())
            .collect();
        assert_eq!(own, ["25.00", "34.00"], "5 + 2 × 10 and 32 + 2 × 1");
        assert_eq!(
            chart.rows[0],
            ("0".to_owned(), vec!["5.00".to_owned(), "32.00".to_owned()])
        );
        assert!(Chart::of(&[], &[], None).is_none());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (1.0, 1.0),
            (3.1, 4.0),
            (430.0, 500.0),
            (90.0, 100.0),
            (0.07, 0.08),
        ] {
            assert!((nice(value) - end).abs() < 1e-9, "{value}");
        }
    }
}
