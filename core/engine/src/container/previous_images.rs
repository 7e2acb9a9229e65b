//! `previousImageRetentionPolicy` of a container: the changes for which the change feed with all
//! versions and deletes also has the item before the change.
//!
//! Promises: a mode that is kept holds; features of the service that this server does not have, and
//! single paths, are refused by name.
//! Leaves out: what is kept, see `partition/versions.rs`.

use crate::request::properties::member;
use orrery_model::{Error, Json, Object, Result};

/// The changes that keep the item before the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreviousImages {
    /// A replace, a patch and an upsert of an item that exists.
    pub of_replaces: bool,
    /// A deletion by a request.
    pub of_deletions: bool,
    /// A deletion by the time to live. The service has such images only if they are asked for.
    pub of_expiries: bool,
}

/// The changes of a container without the policy.
const DEFAULT: PreviousImages = PreviousImages {
    of_replaces: false,
    of_deletions: true,
    of_expiries: false,
};

/// The features of the policy that the service has beside the change feed.
const OTHER_FEATURES: [&str; 3] = [
    "globalSecondaryIndex",
    "containerCopy",
    "embeddingGeneratorService",
];
const FEATURE: &str = "allVersionsAndDeletes";

impl PreviousImages {
    /// Reads the policy from the body of a container.
    ///
    /// # Errors
    /// 400 that names the member.
    pub(crate) fn from_body(body: &Object) -> Result<PreviousImages> {
        let Some(policy) = member(body, "previousImageRetentionPolicy") else {
            return Ok(DEFAULT);
        };
        let policy = object_of(policy)?;
        check_members(policy, &["mode", "supportedFeatures"])?;
        // The member of an earlier preview, before the policy had features.
        let mut mode = policy.get("mode").map(read_mode).transpose()?;
        if let Some(features) = policy.get("supportedFeatures") {
            let features = object_of(features)?;
            if let Some(name) = OTHER_FEATURES
                .iter()
                .find(|name| features.get(name).is_some())
            {
                return Err(Error::unsupported(format!(
                    "The feature '{name}' of the 'previousImageRetentionPolicy'"
                )));
            }
            check_members(features, &[FEATURE])?;
            if let Some(feature) = features.get(FEATURE) {
                mode = read_feature(object_of(feature)?)?.or(mode);
            }
        }
        Ok(mode.unwrap_or(DEFAULT))
    }
}

/// Reads the part of the policy for the change feed; `None` if the part states no mode.
fn read_feature(feature: &Object) -> Result<Option<PreviousImages>> {
    check_members(feature, &["mode", "includedPaths"])?;
    match feature.get("includedPaths").map(Json::as_array) {
        None | Some(Some([])) => {}
        Some(Some(_)) => {
            return Err(Error::bad(
                "'includedPaths' of a 'previousImageRetentionPolicy' are not supported by this \
                 server: leave them out, and the whole item is kept.",
            ));
        }
        Some(None) => return Err(invalid()),
    }
    feature.get("mode").map(read_mode).transpose()
}

/// Reads a mode: the sum of 1 for replaces and 2 for deletions.
fn read_mode(mode: &Json) -> Result<PreviousImages> {
    match mode.as_i64() {
        Some(bits @ 0..=3) => Ok(PreviousImages {
            of_replaces: bits & 1 != 0,
            of_deletions: bits & 2 != 0,
            of_expiries: bits & 2 != 0,
        }),
        _ => Err(invalid()),
    }
}

fn object_of(value: &Json) -> Result<&Object> {
    value.as_object().ok_or_else(invalid)
}

fn check_members(object: &Object, known: &[&str]) -> Result<()> {
    match object.iter().all(|(name, _)| known.contains(&name)) {
        true => Ok(()),
        false => Err(invalid()),
    }
}

fn invalid() -> Error {
    Error::bad(
        "The previous image retention policy is invalid. Its form is \
         {\"supportedFeatures\": {\"allVersionsAndDeletes\": {\"mode\": 3}}}, where the mode is 0 \
         for no previous images, 1 for those of replaces, 2 for those of deletions and 3 for both.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn read(policy: &str) -> Result<PreviousImages> {
        let body = format!(r#"{{"previousImageRetentionPolicy":{policy}}}"#);
        let body = parse(body.as_bytes()).expect("JSON");
        PreviousImages::from_body(body.as_object().expect("an object"))
    }

    fn feature(members: &str) -> String {
        format!(r#"{{"supportedFeatures":{{"allVersionsAndDeletes":{members}}}}}"#)
    }

    #[test]
    fn the_mode_has_a_bit_for_replaces_and_one_for_deletions() {
        for (mode, of_replaces, of_deletions) in [
            (0, false, false),
            (1, true, false),
            (2, false, true),
            (3, true, true),
        ] {
            let expected = PreviousImages {
                of_replaces,
                of_deletions,
                of_expiries: of_deletions,
            };
            let member = format!(r#"{{"mode":{mode}}}"#);
            assert_eq!(read(&feature(&member)).expect("a policy"), expected);
            assert_eq!(read(&member).expect("the earlier form"), expected);
        }
        let both = r#"{"mode":0,"supportedFeatures":{"allVersionsAndDeletes":
            {"mode":1,"includedPaths":[]}}}"#;
        assert!(read(both).expect("a policy").of_replaces);
    }

    #[test]
    fn a_policy_without_a_mode_is_as_none() {
        let empty = feature("{}");
        for policy in ["null", "{}", r#"{"supportedFeatures":{}}"#, &empty] {
            assert_eq!(read(policy).expect("a policy"), DEFAULT, "{policy}");
        }
    }

    #[test]
    fn a_policy_that_would_not_hold_is_refused() {
        let wrong = [
            "5".to_owned(),
            r#"{"modes":1}"#.to_owned(),
            r#"{"mode":null}"#.to_owned(),
            r#"{"supportedFeatures":[]}"#.to_owned(),
            r#"{"supportedFeatures":{"changeFeed":{}}}"#.to_owned(),
            feature("3"),
            feature(r#"{"mode":-1}"#),
            feature(r#"{"mode":4}"#),
            feature(r#"{"mode":"3"}"#),
            feature(r#"{"mode":1.5}"#),
            feature(r#"{"mode":true}"#),
            feature(r#"{"mode":1,"more":1}"#),
            feature(r#"{"mode":1,"includedPaths":"/a"}"#),
        ];
        for policy in wrong {
            let error = read(&policy).expect_err("invalid");
            assert!(error.message().contains("is invalid"), "{policy}: {error}");
        }
        let paths = read(&feature(r#"{"mode":1,"includedPaths":["/a"]}"#));
        let message = paths.expect_err("refused").to_string();
        assert!(message.contains("includedPaths"), "{message}");
        let copy = read(r#"{"supportedFeatures":{"containerCopy":{"mode":2}}}"#);
        let message = copy.expect_err("refused").to_string();
        assert!(message.contains("containerCopy"), "{message}");
    }
}
