//! Fault rules, which delay requests or make them fail, so that a test can observe how a client
//! handles faults. The gateway keeps and applies the rules; this file translates them to JSON.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Member, Schema, ValueType, joined, optional, required};
use orrery_gateway::{ArmedFault, FaultAnswer, FaultOutcome, FaultRule, FaultTime, Operation};
use orrery_model::{Json, Object, object};
use std::time::Duration;

/// Delays in milliseconds, at most an hour.
const DELAY: ValueType = ValueType::Integer(0, 3_600_000);

const RULE_MEMBERS: [Member; 12] = [
    optional(
        "operations",
        ValueType::TextList,
        "names of the affected operations, such as read_item; all operations if absent",
    ),
    optional(
        "database",
        ValueType::Text,
        "id of the database whose requests are affected; all databases if absent",
    ),
    optional(
        "container",
        ValueType::Text,
        "id of the container whose requests are affected; all containers if absent",
    ),
    optional(
        "share",
        ValueType::Number(0.0, 1.0),
        "share of the matching requests that is affected; 1 if absent",
    ),
    optional(
        "count",
        ValueType::Integer(1, i64::MAX),
        "maximum number of affected requests; unlimited if absent",
    ),
    optional(
        "expiresInSeconds",
        ValueType::Integer(0, 31_622_400),
        "seconds until the rule expires; never if absent",
    ),
    optional(
        "when",
        ValueType::OneOf(&["before", "after"]),
        "before: the operation is not carried out; after: the operation is carried out first; \
         before if absent",
    ),
    optional(
        "delayMilliseconds",
        DELAY,
        "delay of the response in milliseconds",
    ),
    optional(
        "status",
        ValueType::Integer(408, 503),
        "status of the response: 408, 410, 429, 449 or 503",
    ),
    optional(
        "subStatus",
        ValueType::Integer(0, 99_999),
        "sub-status of the response, 0 for none; the usual one of the status if absent",
    ),
    optional(
        "retryAfterMilliseconds",
        DELAY,
        "milliseconds after which the client is asked to retry",
    ),
    optional(
        "answer",
        ValueType::OneOf(&["none"]),
        "none: no response; the connection is closed, or the stream of HTTP/2 is reset",
    ),
];

/// Body of [`create`].
pub(crate) const RULE: Schema = Schema {
    name: "FaultRule",
    members: &RULE_MEMBERS,
};

const COUNTERS: [Member; 3] = [
    required("id", ValueType::Integer(1, i64::MAX), "number of the rule"),
    required(
        "seen",
        COUNT,
        "requests that matched the rule's operations, database and container",
    ),
    required("struck", COUNT, "requests to which the rule was applied"),
];
const ARMED_RULE_MEMBERS: [Member; 15] = joined(COUNTERS, RULE_MEMBERS);

/// A fault rule with its counters.
pub(crate) const ARMED_RULE: Schema = Schema {
    name: "ArmedFaultRule",
    members: &ARMED_RULE_MEMBERS,
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "FaultRules",
    members: &[required(
        "rules",
        ValueType::ObjectList(&ARMED_RULE),
        "fault rules, the oldest first; only the first rule that matches a request is applied",
    )],
};

/// Adds a fault rule.
///
/// # Errors
/// 400 for a rule without an effect, with contradicting members, with an unknown operation or
/// status, or if there are too many rules.
pub(crate) fn create(call: &Call) -> Result<Answer, Problem> {
    let gateway = &call.components.gateway;
    let expires_at_ms = call
        .unsigned("expiresInSeconds")
        .map(|seconds| gateway.now_ms() + 1000 * seconds);
    let time = if call.text("when") == Some("after") {
        FaultTime::After
    } else {
        FaultTime::Before
    };
    let mut rule = FaultRule {
        operations: Vec::new(),
        database: call.text("database").map(str::to_owned),
        container: call.text("container").map(str::to_owned),
        share: call.number("share").unwrap_or(1.0),
        count: call.unsigned("count"),
        expires_at_ms,
        time,
        delay: Duration::from_millis(call.unsigned("delayMilliseconds").unwrap_or(0)),
        outcome: outcome(call)?,
    };

    // A rule that neither delays nor replaces the response is most likely a mistake.
    if rule.outcome == FaultOutcome::OperationReply && rule.delay.is_zero() {
        return Err(Problem::bad_request(
            "the body: a rule needs a 'status', an 'answer' or a 'delayMilliseconds'",
        ));
    }
    rule.operations = operations(call)?;
    match gateway.faults().arm(rule) {
        Ok(armed) => Answer::json(201, rule_json(&armed, call)),
        Err(message) => Err(Problem::bad_request(format!("the body: {message}"))),
    }
}

/// Returns the operations that the body names; an empty list stands for all operations.
///
/// # Errors
/// 400 for an unknown operation, with a list of those that exist.
fn operations(call: &Call) -> Result<Vec<&'static Operation>, Problem> {
    let mut operations = Vec::new();
    for name in call.list("operations").iter().filter_map(Json::as_str) {
        match Operation::from_name(name) {
            Ok(operation) => operations.push(operation),
            Err(message) => return Err(Problem::bad_request(format!("the body: {message}"))),
        }
    }
    Ok(operations)
}

/// Returns the outcome of a rule from the members `status`, `subStatus`, `retryAfterMilliseconds`
/// and `answer`.
fn outcome(call: &Call) -> Result<FaultOutcome, Problem> {
    let is_silent = call.text("answer").is_some();
    let status = call
        .unsigned("status")
        .and_then(|status| u16::try_from(status).ok());
    if let Some(status) = status {
        if is_silent {
            return Err(Problem::bad_request(
                "the body: 'status' sets a response, but 'answer' says there is none",
            ));
        }
        return Ok(FaultOutcome::Replacement(FaultAnswer {
            status,
            sub_status: call
                .unsigned("subStatus")
                .and_then(|sub_status| u32::try_from(sub_status).ok()),
            retry_after_ms: call.unsigned("retryAfterMilliseconds"),
        }));
    }

    // These two members change the response that 'status' sets; without it they have no meaning.
    for name in ["subStatus", "retryAfterMilliseconds"] {
        if call.arguments.get(name).is_some() {
            return Err(Problem::bad_request(format!(
                "the body, '{name}': requires the member 'status', which is missing"
            )));
        }
    }
    if is_silent {
        Ok(FaultOutcome::NoReply)
    } else {
        Ok(FaultOutcome::OperationReply)
    }
}

/// Lists the fault rules.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let rules: Vec<Json> = call
        .components
        .gateway
        .faults()
        .rules()
        .iter()
        .map(|armed| rule_json(armed, call).into())
        .collect();
    Answer::json(200, object! { "rules" => rules })
}

/// Returns a fault rule.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let rules = call.components.gateway.faults().rules();
    let found = rules
        .iter()
        .find(|armed| armed.id.to_string() == call.path_parameter(0));
    match found {
        Some(armed) => Answer::json(200, rule_json(armed, call)),
        None => Err(no_such_rule(call)),
    }
}

/// Removes a fault rule.
pub(crate) fn delete(call: &Call) -> Result<Answer, Problem> {
    let Ok(id) = call.path_parameter(0).parse() else {
        return Err(no_such_rule(call));
    };
    match call.components.gateway.faults().disarm(Some(id)) {
        0 => Err(no_such_rule(call)),
        _ => Answer::empty(),
    }
}

/// Removes all fault rules.
pub(crate) fn delete_all(call: &Call) -> Result<Answer, Problem> {
    call.components.gateway.faults().disarm(None);
    Answer::empty()
}

fn no_such_rule(call: &Call) -> Problem {
    Problem::not_found(format!(
        "there is no fault rule '{}'",
        call.path_parameter(0)
    ))
}

/// Returns the JSON form of a rule and its counters. Members that the rule leaves open are absent.
fn rule_json(armed: &ArmedFault, call: &Call) -> Object {
    let rule = &armed.rule;
    let mut json = object! { "id" => armed.id };
    let mut set = |name: &str, value: Json| json.set(name, value);

    // The requests that the rule matches.
    if !rule.operations.is_empty() {
        let operations: Vec<Json> = rule
            .operations
            .iter()
            .map(|operation| operation.name().into())
            .collect();
        set("operations", operations.into());
    }
    if let Some(database) = &rule.database {
        set("database", database.as_str().into());
    }
    if let Some(container) = &rule.container {
        set("container", container.as_str().into());
    }
    set("share", rule.share.into());
    if let Some(count) = rule.count {
        set("count", count.into());
    }
    if let Some(expires_at_ms) = rule.expires_at_ms {
        let remaining_ms = expires_at_ms.saturating_sub(call.components.gateway.now_ms());
        set("expiresInSeconds", remaining_ms.div_ceil(1000).into());
    }

    // The effect of the rule.
    let when = match rule.time {
        FaultTime::Before => "before",
        FaultTime::After => "after",
    };
    set("when", when.into());
    if !rule.delay.is_zero() {
        let delay_ms = u64::try_from(rule.delay.as_millis()).unwrap_or(u64::MAX);
        set("delayMilliseconds", delay_ms.into());
    }
    match rule.outcome {
        FaultOutcome::OperationReply => {}
        FaultOutcome::NoReply => set("answer", "none".into()),
        FaultOutcome::Replacement(answer) => {
            set("status", u32::from(answer.status).into());
            if let Some(sub_status) = answer.sub_status {
                set("subStatus", sub_status.into());
            }
            if let Some(retry_after_ms) = answer.retry_after_ms {
                set("retryAfterMilliseconds", retry_after_ms.into());
            }
        }
    }

    set("seen", armed.seen().into());
    set("struck", armed.struck().into());
    json
}
