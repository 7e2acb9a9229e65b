//! The effort of an approximate search by VectorDistance, as its third and fourth arguments ask for
//! it.
//!
//! The arguments change which items an index proposes, and no score.

use orrery_model::json::{Json, Object};
use orrery_model::object;

/// The effort of an approximate search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchEffort {
    /// True if all vectors are compared: the third argument of VectorDistance.
    pub is_exact: bool,
    /// Candidates of the search, for each row of the answer: from 1 to 100, 10 if not stated.
    pub search_list_size_multiplier: u64,
    /// Candidates whose whole vectors are compared, for each row of the answer: from 1 to 100, 5 if
    /// not stated.
    pub quantized_vector_list_multiplier: u64,
    /// The preference of a query with a condition for candidates of the index over a comparison of
    /// all vectors: from 0 to 1, 0.5 if not stated.
    pub filter_priority: f64,
}

/// The names of the options, as the service has them.
const SEARCH_LIST: &str = "searchListSizeMultiplier";
const QUANTIZED_LIST: &str = "quantizedVectorListMultiplier";
const FILTER_PRIORITY: &str = "filterPriority";
const EXACT: &str = "exact";

impl Default for SearchEffort {
    fn default() -> Self {
        SearchEffort {
            is_exact: false,
            search_list_size_multiplier: 10,
            quantized_vector_list_multiplier: 5,
            filter_priority: 0.5,
        }
    }
}

impl SearchEffort {
    /// Returns the effort of a call with these checked options.
    pub(crate) fn of(is_exact: bool, options: Option<&Object>) -> Self {
        let default = SearchEffort::default();
        let member = |name: &str| options.and_then(|options| options.get(name));
        let multiplier = |name: &str, default: u64| {
            let value = member(name).and_then(Json::as_i64);
            value.map_or(default, i64::unsigned_abs)
        };
        SearchEffort {
            is_exact,
            search_list_size_multiplier: multiplier(
                SEARCH_LIST,
                default.search_list_size_multiplier,
            ),
            quantized_vector_list_multiplier: multiplier(
                QUANTIZED_LIST,
                default.quantized_vector_list_multiplier,
            ),
            filter_priority: member(FILTER_PRIORITY)
                .and_then(Json::as_f64)
                .unwrap_or(default.filter_priority),
        }
    }

    /// Returns the effort as a constant of a bound call.
    pub(crate) fn to_json(self) -> Json {
        Json::Object(object! {
            EXACT => self.is_exact,
            SEARCH_LIST => self.search_list_size_multiplier,
            QUANTIZED_LIST => self.quantized_vector_list_multiplier,
            FILTER_PRIORITY => self.filter_priority,
        })
    }

    /// Reads the constant of [`SearchEffort::to_json`].
    pub(crate) fn from_json(constant: &Json) -> Self {
        let is_exact = constant.get(EXACT).and_then(Json::as_bool);
        Self::of(is_exact.unwrap_or(false), constant.as_object())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    #[test]
    fn options_that_are_not_stated_have_the_defaults_of_the_service() {
        let effort = |text: &str| {
            let options = parse(text.as_bytes()).expect("JSON");
            SearchEffort::of(false, options.as_object())
        };
        assert_eq!(effort("{}"), SearchEffort::default());
        let stated = effort(
            r#"{"searchListSizeMultiplier":20,"quantizedVectorListMultiplier":8,
                "filterPriority":1}"#,
        );
        assert_eq!(
            (
                stated.search_list_size_multiplier,
                stated.quantized_vector_list_multiplier,
                stated.filter_priority,
            ),
            (20, 8, 1.0)
        );
        for effort in [stated, SearchEffort::of(true, None)] {
            assert_eq!(SearchEffort::from_json(&effort.to_json()), effort);
        }
    }
}
