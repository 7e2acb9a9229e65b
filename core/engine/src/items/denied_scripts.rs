//! Scripts that ran out of their time again and again, and are not run any more.
//!
//! A stored procedure, trigger or user-defined function that times out several times within a
//! window is denied: requests that would run the script get 403. A replace of the script, or its
//! deletion and creation, ends the denial, because the list knows a script by its resource id and
//! its etag.
//!
//! Promises:
//! 1. The list has at most [`SCRIPTS_MAX`] scripts. A further script takes the place of the script
//!    whose last time-out is the oldest, of those that are not denied if there is one.
//! 2. A script that was replaced starts without time-outs.
//!
//! Leaves out: the store. A restart forgets the list, and each process that owns partitions has its
//! own.

use crate::catalog::Script;
use crate::request::ScriptKind;
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result, Rid, limits};
use std::collections::HashMap;
use std::sync::Mutex;

/// Scripts in the list.
const SCRIPTS_MAX: usize = 1_000;

/// The rule by which a script is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptDenial {
    /// Time-outs that deny a script; 0 if no script is denied.
    pub timeouts: u32,
    /// Milliseconds within which these time-outs happen.
    pub window_ms: u64,
}

impl Default for ScriptDenial {
    /// Returns the rule of the service.
    fn default() -> Self {
        ScriptDenial {
            timeouts: limits::SCRIPT_TIMEOUTS,
            window_ms: limits::SCRIPT_TIMEOUT_WINDOW_MS,
        }
    }
}

/// The list of the scripts that timed out.
#[derive(Debug)]
pub(crate) struct DeniedScripts {
    rule: ScriptDenial,
    scripts: Mutex<HashMap<Rid, Entry>>,
}

/// A script that timed out.
#[derive(Debug)]
struct Entry {
    /// The random number in the etag of the script that timed out.
    etag: u64,
    /// The milliseconds of the time-outs within the window; empty once the script is denied.
    timeouts_ms: Vec<u64>,
    last_ms: u64,
    is_denied: bool,
}

impl Entry {
    fn new(etag: u64) -> Self {
        Entry {
            etag,
            timeouts_ms: Vec::new(),
            last_ms: 0,
            is_denied: false,
        }
    }
}

impl DeniedScripts {
    pub(crate) fn new(rule: ScriptDenial) -> Self {
        DeniedScripts {
            rule,
            scripts: Mutex::default(),
        }
    }

    /// Checks that a script may run.
    ///
    /// # Errors
    /// 403 if the script is denied.
    pub(crate) fn check(&self, script: &Script) -> Result<()> {
        let scripts = lock(&self.scripts);
        match scripts.get(&script.meta.rid) {
            Some(entry) if entry.is_denied && entry.etag == script.meta.etag => {
                Err(denied(script, self.rule))
            }
            _ => Ok(()),
        }
    }

    /// Adds a time-out of a script, which may deny the script.
    pub(crate) fn add_timeout(&self, script: &Script, now_ms: u64) {
        if self.rule.timeouts == 0 {
            return;
        }
        let (rid, etag) = (script.meta.rid, script.meta.etag);
        let mut scripts = lock(&self.scripts);
        if scripts.len() >= SCRIPTS_MAX && !scripts.contains_key(&rid) {
            remove_one(&mut scripts);
        }
        let entry = scripts.entry(rid).or_insert_with(|| Entry::new(etag));
        if entry.etag != etag {
            *entry = Entry::new(etag);
        }
        if entry.is_denied {
            return;
        }
        let window_ms = self.rule.window_ms;
        entry
            .timeouts_ms
            .retain(|at| now_ms.saturating_sub(*at) < window_ms);
        entry.timeouts_ms.push(now_ms);
        entry.last_ms = now_ms;
        if entry.timeouts_ms.len() >= self.rule.timeouts as usize {
            entry.timeouts_ms = Vec::new();
            entry.is_denied = true;
        }
    }
}

/// Removes the script whose last time-out is the oldest, of those that are not denied if there is
/// one.
fn remove_one(scripts: &mut HashMap<Rid, Entry>) {
    let order = |entry: &Entry| (entry.is_denied, entry.last_ms);
    let oldest = scripts.iter().min_by_key(|(_, entry)| order(entry));
    if let Some(rid) = oldest.map(|(rid, _)| *rid) {
        scripts.remove(&rid);
    }
}

/// Returns the error for a denied script, in the words of the service, which are not the same for
/// functions.
fn denied(script: &Script, rule: ScriptDenial) -> Error {
    let limit = match script.kind {
        ScriptKind::Procedure | ScriptKind::Trigger => "resource limit",
        ScriptKind::Function => "resources limit",
    };
    let message = format!(
        "The script with id '{}' is blocked for execution because it has violated its allowed \
         {limit} several times.",
        script.id()
    );
    Error::new(Kind::Forbidden, message).with_help(format!(
        "Within {} s it ran out of its time as often as is allowed. Replace it by a script that \
         ends in time, such as one that returns a continuation.",
        rule.window_ms / 1_000
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: ScriptDenial = ScriptDenial {
        timeouts: 3,
        window_ms: 1_000,
    };

    fn script(number: u32, etag: u64) -> Script {
        let mut script = Script::procedure("slow", "function () { for (;;); }");
        script.meta.rid = Rid::database(number);
        script.meta.etag = etag;
        script
    }

    fn is_denied(list: &DeniedScripts, script: &Script) -> bool {
        list.check(script).is_err()
    }

    #[test]
    fn time_outs_deny_a_script_if_they_are_within_the_window() {
        let list = DeniedScripts::new(RULE);
        let slow = script(1, 1);
        for at_ms in [0, 600, 1_200, 1_700] {
            list.add_timeout(&slow, at_ms);
            assert!(!is_denied(&list, &slow), "{at_ms}");
        }
        list.add_timeout(&slow, 2_100);
        let error = list.check(&slow).expect_err("it is denied");
        assert_eq!((error.status(), error.sub_status()), (403, 0));
        assert!(!is_denied(&list, &script(2, 1)), "another script");
    }

    #[test]
    fn a_replaced_script_starts_without_time_outs() {
        let list = DeniedScripts::new(RULE);
        for _ in 0..3 {
            list.add_timeout(&script(1, 1), 5);
        }
        assert!(is_denied(&list, &script(1, 1)));
        for _ in 0..2 {
            assert!(!is_denied(&list, &script(1, 2)));
            list.add_timeout(&script(1, 2), 6);
        }
        assert!(!is_denied(&list, &script(1, 2)));
        list.add_timeout(&script(1, 2), 7);
        assert!(is_denied(&list, &script(1, 2)));
    }

    #[test]
    fn without_a_number_of_time_outs_no_script_is_denied() {
        let list = DeniedScripts::new(ScriptDenial {
            timeouts: 0,
            ..RULE
        });
        for _ in 0..100 {
            list.add_timeout(&script(1, 1), 5);
        }
        assert!(!is_denied(&list, &script(1, 1)));
        assert!(lock(&list.scripts).is_empty());
    }

    #[test]
    fn the_list_is_bounded_and_keeps_denied_scripts_longest() {
        let list = DeniedScripts::new(RULE);
        for _ in 0..3 {
            list.add_timeout(&script(0, 1), 0);
        }
        let others = 2 * SCRIPTS_MAX as u32;
        for number in 1..=others {
            list.add_timeout(&script(number, 1), u64::from(number));
        }
        assert!(is_denied(&list, &script(0, 1)));
        let scripts = lock(&list.scripts);
        assert_eq!(scripts.len(), SCRIPTS_MAX);
        assert!(scripts.contains_key(&Rid::database(others)));
        assert!(!scripts.contains_key(&Rid::database(1)));
    }
}
