//! The figures of the article, and notes on those that cannot be compared directly.

use crate::models::{Model, Request};

/// For each request, milliseconds and RU of V1, V2 and V3, measured in spring 2019 with 100,000
/// users and the default indexing policy.
const PUBLISHED: [(Request, [(f64, f64); 3]); 10] = [
    (Request::C1, [(7.0, 5.71), (7.0, 5.71), (7.0, 5.71)]),
    (Request::Q1, [(2.0, 1.0), (2.0, 1.0), (2.0, 1.0)]),
    (Request::C2, [(9.0, 8.76), (9.0, 8.76), (9.0, 8.76)]),
    (Request::Q2, [(9.0, 19.54), (2.0, 1.0), (2.0, 1.0)]),
    (Request::Q3, [(130.0, 619.41), (28.0, 201.54), (4.0, 6.46)]),
    (Request::C3, [(7.0, 8.57), (7.0, 15.27), (7.0, 15.27)]),
    (Request::Q4, [(23.0, 27.72), (4.0, 7.72), (4.0, 7.72)]),
    (Request::C4, [(6.0, 7.05), (7.0, 14.67), (7.0, 14.67)]),
    (Request::Q5, [(59.0, 58.92), (4.0, 8.92), (4.0, 8.92)]),
    (
        Request::Q6,
        [(306.0, 2063.54), (83.0, 532.33), (9.0, 16.97)],
    ),
];

/// Returns the published latency in milliseconds and the published charge in RU.
pub(crate) fn published(request: Request, model: Model) -> (f64, f64) {
    PUBLISHED[request as usize].1[model as usize]
}

/// Returns a note if the published figures cannot be compared directly with a measurement.
pub(crate) fn note(request: Request, model: Model) -> Option<&'static str> {
    match (request, model) {
        (Request::C1, Model::V2) => {
            Some("carried over from V1 by the article; the item is the same")
        }
        (Request::C1, Model::V3) => {
            Some("carried over from V1 by the article; users of V3 have two more properties")
        }
        (Request::C2, Model::V2 | Model::V3) => {
            Some("carried over from V1 by the article; the post now has a name and two counts")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_requests() {
        for (index, (request, _)) in PUBLISHED.iter().enumerate() {
            assert_eq!(*request as usize, index);
            assert_eq!(Request::ALL[index], *request);
        }
        assert_eq!(published(Request::Q6, Model::V1), (306.0, 2063.54));
        assert_eq!(published(Request::Q3, Model::V3), (4.0, 6.46));
    }
}
