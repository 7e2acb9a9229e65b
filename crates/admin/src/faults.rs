//! Fault rules: which requests are delayed or fail, so that clients can be seen to bear it.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Member, Shape, Value, joined, may, must};
use orrery_gateway::{ArmedFault, FaultAnswer, FaultOutcome, FaultRule, FaultTime};
use orrery_model::{Json, Object, object};
use std::time::Duration;

const TIMES: Value = Value::OneOf(&["before", "after"]);
/// An hour, in milliseconds.
const DELAY: Value = Value::Whole(0, 3_600_000);
const SUB_STATUS: Value = Value::Whole(0, 99_999);

const MEMBERS: [Member; 12] = [
    may(
        "operations",
        Value::Texts,
        "operations that suffer, such as read_item; all if left out",
    ),
    may(
        "database",
        Value::Text,
        "the id of the database whose requests suffer",
    ),
    may(
        "container",
        Value::Text,
        "the id of the container whose requests suffer",
    ),
    may(
        "share",
        Value::Number(0.0, 1.0),
        "the share of these requests that suffers; 1 if left out",
    ),
    may(
        "count",
        Value::Whole(1, i64::MAX),
        "how many requests suffer at most",
    ),
    may(
        "expiresInSeconds",
        Value::Whole(0, 31_622_400),
        "seconds after which nothing suffers any more",
    ),
    may(
        "when",
        TIMES,
        "before the operation is carried out, so that nothing is done, or after it; before if left out",
    ),
    may(
        "delayMilliseconds",
        DELAY,
        "how long the answer is held back",
    ),
    may(
        "status",
        Value::Whole(408, 503),
        "what is answered: 408, 410, 429, 449 or 503",
    ),
    may(
        "subStatus",
        SUB_STATUS,
        "the sub-status beside it, 0 for none; the usual one if left out",
    ),
    may(
        "retryAfterMilliseconds",
        DELAY,
        "when the client is told to come back",
    ),
    may(
        "answer",
        Value::OneOf(&["none"]),
        "none: the connection is closed, of HTTP/2 the stream is reset",
    ),
];

/// What [`create`] takes.
pub(crate) const RULE: Shape = Shape {
    name: "FaultRule",
    members: &MEMBERS,
};

const COUNTED: [Member; 3] = [
    must("id", Value::Whole(1, i64::MAX), "the number of the rule"),
    must(
        "seen",
        COUNT,
        "requests of these operations, database and container",
    ),
    must("struck", COUNT, "requests that suffered"),
];
const ARMED_MEMBERS: [Member; 15] = joined(COUNTED, MEMBERS);

/// A rule in force.
pub(crate) const ARMED: Shape = Shape {
    name: "ArmedFaultRule",
    members: &ARMED_MEMBERS,
};

/// What [`list`] gives.
pub(crate) const LIST: Shape = Shape {
    name: "FaultRules",
    members: &[must(
        "rules",
        Value::Objects(&ARMED),
        "the rules, the oldest first; the first that strikes is the only one",
    )],
};

/// Puts a rule in force.
pub(crate) fn create(call: &Call) -> Result<Answer, Problem> {
    let texts = |name: &str| {
        let list = call
            .asked
            .get(name)
            .and_then(Json::as_array)
            .unwrap_or_default();
        list.iter()
            .filter_map(Json::as_str)
            .map(str::to_owned)
            .collect()
    };
    let natural = |name: &str| {
        call.whole(name)
            .and_then(|number| u64::try_from(number).ok())
    };
    let rule = FaultRule {
        operations: texts("operations"),
        database: call.text("database").map(str::to_owned),
        container: call.text("container").map(str::to_owned),
        share: call.number("share").unwrap_or(1.0),
        count: natural("count"),
        expires_at_ms: natural("expiresInSeconds")
            .map(|seconds| call.parts.gateway.now_ms() + 1000 * seconds),
        time: if call.text("when") == Some("after") {
            FaultTime::After
        } else {
            FaultTime::Before
        },
        delay: Duration::from_millis(natural("delayMilliseconds").unwrap_or(0)),
        outcome: outcome(call)?,
    };
    if rule.outcome == FaultOutcome::OperationReply && rule.delay.is_zero() {
        return Err(Problem::bad(
            "the body: a rule needs a 'status', an 'answer' or a 'delayMilliseconds'",
        ));
    }
    let armed = call
        .parts
        .gateway
        .faults()
        .arm(rule)
        .map_err(|told| Problem::bad(format!("the body: {told}")))?;
    Answer::json(201, shown(&armed, call))
}

fn outcome(call: &Call) -> Result<FaultOutcome, Problem> {
    let small = |name: &str| {
        call.whole(name)
            .and_then(|number| u32::try_from(number).ok())
    };
    let retry_after_ms = small("retryAfterMilliseconds").map(u64::from);
    let is_silent = call.text("answer").is_some();
    match small("status").and_then(|status| u16::try_from(status).ok()) {
        Some(_) if is_silent => Err(Problem::bad(
            "the body: a 'status' is an answer, and 'answer' says there is none",
        )),
        Some(status) => Ok(FaultOutcome::Replacement(FaultAnswer {
            status,
            sub_status: small("subStatus"),
            retry_after_ms,
        })),
        None => match ["subStatus", "retryAfterMilliseconds"]
            .into_iter()
            .find(|name| call.asked.get(name).is_some())
        {
            Some(name) => Err(Problem::bad(format!(
                "the body, '{name}': it goes with a 'status', and there is none"
            ))),
            None => Ok(if is_silent {
                FaultOutcome::NoReply
            } else {
                FaultOutcome::OperationReply
            }),
        },
    }
}

/// The rules.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let rules: Vec<Json> = call
        .parts
        .gateway
        .faults()
        .rules()
        .iter()
        .map(|armed| shown(armed, call).into())
        .collect();
    Answer::json(200, object! { "rules" => rules })
}

/// One rule.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let rules = call.parts.gateway.faults().rules();
    let armed = rules
        .iter()
        .find(|armed| armed.id.to_string() == call.id(0))
        .ok_or_else(|| missing(call))?;
    Answer::json(200, shown(armed, call))
}

/// Takes one rule out of force.
pub(crate) fn delete(call: &Call) -> Result<Answer, Problem> {
    let id = call.id(0).parse().map_err(|_| missing(call))?;
    match call.parts.gateway.faults().disarm(Some(id)) {
        0 => Err(missing(call)),
        _ => Answer::empty(),
    }
}

/// Takes all rules out of force.
pub(crate) fn delete_all(call: &Call) -> Result<Answer, Problem> {
    call.parts.gateway.faults().disarm(None);
    Answer::empty()
}

fn missing(call: &Call) -> Problem {
    Problem::not_found(format!("there is no fault rule '{}'", call.id(0)))
}

fn shown(armed: &ArmedFault, call: &Call) -> Object {
    let rule = &armed.rule;
    let mut shown = object! { "id" => armed.id };
    if !rule.operations.is_empty() {
        shown.set(
            "operations",
            rule.operations
                .iter()
                .map(|name| Json::from(name.as_str()))
                .collect::<Vec<_>>(),
        );
    }
    let mut set = |name: &str, value: Option<Json>| {
        value.into_iter().for_each(|value| shown.set(name, value))
    };
    set("database", rule.database.as_deref().map(Json::from));
    set("container", rule.container.as_deref().map(Json::from));
    set("share", Some(rule.share.into()));
    set("count", rule.count.map(Json::from));
    let left_ms = |end: u64| end.saturating_sub(call.parts.gateway.now_ms());
    set(
        "expiresInSeconds",
        rule.expires_at_ms
            .map(|end| left_ms(end).div_ceil(1000).into()),
    );
    set(
        "when",
        Some(if rule.time == FaultTime::After {
            "after".into()
        } else {
            "before".into()
        }),
    );
    let delay = u64::try_from(rule.delay.as_millis()).unwrap_or(u64::MAX);
    set(
        "delayMilliseconds",
        Some(delay).filter(|delay| *delay > 0).map(Json::from),
    );
    match rule.outcome {
        FaultOutcome::OperationReply => {}
        FaultOutcome::Replacement(answer) => {
            set("status", Some(u32::from(answer.status).into()));
            set("subStatus", answer.sub_status.map(Json::from));
            set(
                "retryAfterMilliseconds",
                answer.retry_after_ms.map(Json::from),
            );
        }
        FaultOutcome::NoReply => set("answer", Some("none".into())),
    }
    set("seen", Some(armed.seen().into()));
    set("struck", Some(armed.struck().into()));
    shown
}
