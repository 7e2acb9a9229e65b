//! Metrics, and vectors in the form in which they are compared.

/// The largest absolute value of a component: sums of squares stay finite.
pub(crate) const COMPONENT_MAX: f32 = 1e15;

/// The order of vectors beside another one. A distance is an f32, and a smaller one is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The squared Euclidean distance of normalised vectors. A zero vector stays zero.
    Cosine,
    /// The negative inner product.
    DotProduct,
    /// The squared Euclidean distance.
    Euclidean,
}

impl Metric {
    pub(crate) fn to_byte(self) -> u8 {
        match self {
            Self::Cosine => 0,
            Self::DotProduct => 1,
            Self::Euclidean => 2,
        }
    }

    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Cosine),
            1 => Some(Self::DotProduct),
            2 => Some(Self::Euclidean),
            _ => None,
        }
    }
}

/// Returns a vector as it is compared: with as many components as dimensions, all of them finite,
/// and normalised for the cosine.
pub(crate) fn prepared(metric: Metric, dimensions: usize, vector: &[f32]) -> Vec<f32> {
    let bounded = vector.iter().map(|&component| {
        if component.is_nan() {
            0.0
        } else {
            component.clamp(-COMPONENT_MAX, COMPONENT_MAX)
        }
    });
    let mut vector: Vec<f32> = bounded
        .chain(std::iter::repeat(0.0))
        .take(dimensions)
        .collect();
    if metric == Metric::Cosine {
        normalise(&mut vector);
    }
    vector
}

/// Divides a vector by its norm. A zero vector stays zero.
pub(crate) fn normalise(vector: &mut [f32]) {
    let squares: f64 = vector
        .iter()
        .map(|&component| f64::from(component).powi(2))
        .sum();
    if squares > 0.0 {
        let norm = squares.sqrt();
        for component in vector {
            *component = (f64::from(*component) / norm) as f32;
        }
    }
}

/// Returns the squared Euclidean distance, with the same bits on every machine.
pub(crate) fn squared_distance(left: &[f32], right: &[f32]) -> f32 {
    let (left, last_left) = left.as_chunks::<8>();
    let (right, last_right) = right.as_chunks::<8>();
    let mut sums = [0.0_f32; 8];
    for (left, right) in left.iter().zip(right) {
        for lane in 0..8 {
            let difference = left[lane] - right[lane];
            sums[lane] += difference * difference;
        }
    }
    let mut sum: f32 = sums.iter().sum();
    for (left, right) in last_left.iter().zip(last_right) {
        sum += (left - right) * (left - right);
    }
    sum
}
