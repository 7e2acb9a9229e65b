//! The report of a comparison, as text and as JSON.

use crate::Model;
use serde_json::{Value, json};
use std::fmt;

/// One difference between a copy and its source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The model that contains the copy.
    pub model: Model,
    /// The item: its kind and its id.
    pub item: String,
    /// The difference in words.
    pub text: String,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct DriftReport {
    /// The compared models.
    pub models: Vec<Model>,
    /// Number of items read.
    pub items: u64,
    /// Number of users and posts that differed at first sight and were compared again, item by
    /// item. Most of them were changed while the comparison was running.
    pub suspects: u64,
    /// Number of differences.
    pub count: u64,
    /// The first differences, at most as many as the options ask for.
    pub differences: Vec<Difference>,
}

impl DriftReport {
    /// Returns true if there is no difference.
    pub fn is_equal(&self) -> bool {
        self.count == 0
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let differences: Vec<_> = self
            .differences
            .iter()
            .map(|difference| {
                json!({
                    "model": difference.model.to_string(),
                    "item": difference.item,
                    "difference": difference.text,
                })
            })
            .collect();
        let models: Vec<_> = self.models.iter().map(Model::to_string).collect();
        json!({
            "models": models,
            "items": self.items,
            "suspects": self.suspects,
            "count": self.count,
            "differences": differences,
        })
    }
}

impl fmt::Display for DriftReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: Vec<_> = self.models.iter().map(Model::to_string).collect();
        let models = models.join(", ");
        if self.is_equal() {
            return write!(
                f,
                "{models}: no difference in {} items ({} compared twice because they were changed \
                 meanwhile)",
                self.items, self.suspects
            );
        }
        let noun = if self.count == 1 {
            "difference"
        } else {
            "differences"
        };
        write!(f, "{models}: {} {noun} in {} items", self.count, self.items)?;
        for difference in &self.differences {
            let Difference { model, item, text } = difference;
            write!(f, "\n  {model} {item}: {text}")?;
        }
        let more = self.count - self.differences.len() as u64;
        if more > 0 {
            write!(f, "\n  and {more} more")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_the_first_differences_and_counts_the_rest() {
        let mut report = DriftReport {
            models: vec![Model::V1, Model::V3],
            items: 12,
            suspects: 1,
            count: 0,
            differences: Vec::new(),
        };
        assert!(
            report
                .to_string()
                .starts_with("V1, V3: no difference in 12 items")
        );
        report.count = 3;
        report.differences.push(Difference {
            model: Model::V3,
            item: "comment c1 of post p1".into(),
            text: "missing".into(),
        });
        assert_eq!(
            report.to_string(),
            "V1, V3: 3 differences in 12 items\n  V3 comment c1 of post p1: missing\n  and 2 more"
        );
        assert_eq!(report.to_json()["differences"][0]["model"], "V3");
    }
}
