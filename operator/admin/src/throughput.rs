//! Throughput of containers and databases.
//!
//! Clients can read and replace the provisioned throughput too, through offers. The other settings
//! belong to the operator: enforcement of budgets, distribution over the physical partitions, and
//! limits of throughput buckets. They are stored with the container.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{
    COUNT, Member, Schema, ValueType, YES_OR_NO, joined, optional, required, yes_or_no,
};
use orrery_engine::Container;
use orrery_engine::request::{
    ContainerThroughput, Distribution, OfferChange, Offered, PartitionThroughput, Throughput,
};
use orrery_model::{Json, Object, object};

/// Request units or RU/s.
pub(crate) const RU: ValueType = ValueType::Number(0.0, f64::MAX);

/// Budget and usage of a physical partition. Usage is counted since the server started or the
/// partition was created.
pub(crate) const USAGE: [Member; 7] = [
    optional(
        "ruPerSecond",
        RU,
        "budget in RU/s; absent if the partition is not limited",
    ),
    required(
        "lastSecondRequestUnits",
        RU,
        "request units spent in the last whole second",
    ),
    required(
        "normalized",
        RU,
        "share of the budget spent in the last whole second",
    ),
    required("requestUnits", RU, "sum of all request charges"),
    required("requests", COUNT, "requests carried out"),
    required(
        "throttled",
        COUNT,
        "requests refused with 429 because the budget was spent",
    ),
    required(
        "wouldThrottle",
        COUNT,
        "requests that would have been refused if the budget were enforced",
    ),
];
const PARTITION_MEMBERS: [Member; 8] = joined(
    [required("id", ValueType::Text, "partition key range id")],
    USAGE,
);

const PARTITION: Schema = Schema {
    name: "PartitionThroughput",
    members: &PARTITION_MEMBERS,
};

const BUCKET: Schema = Schema {
    name: "ThroughputBucket",
    members: &[
        required("id", ValueType::Integer(1, 5), "number of the bucket"),
        required(
            "maxPercent",
            ValueType::Integer(1, 100),
            "limit in percent of the container's RU/s",
        ),
    ],
};

const SHARE: Schema = Schema {
    name: "PartitionShare",
    members: &[
        required("id", ValueType::Text, "partition key range id"),
        required(
            "ruPerSecond",
            ValueType::Integer(1, 10_000),
            "budget of the partition in RU/s",
        ),
    ],
};

const MODE: ValueType = ValueType::OneOf(&["manual", "autoscale"]);

/// The provisioned throughput of a container or database.
const PROVISIONED: [Member; 5] = [
    optional(
        "ruPerSecond",
        COUNT,
        "maximum RU/s; absent if no throughput is provisioned",
    ),
    optional("mode", MODE, "manual: fixed RU/s; autoscale: scaled RU/s"),
    optional(
        "incrementPercent",
        COUNT,
        "percentage by which the autoscale maximum rises with the amount of stored data",
    ),
    optional(
        "minimumRuPerSecond",
        COUNT,
        "lowest RU/s that can be provisioned; absent if the throughput is the database's",
    ),
    optional(
        "replacePending",
        YES_OR_NO,
        "yes while partitions are split to carry the provisioned throughput",
    ),
];

/// Response of [`read_database`].
pub(crate) const DATABASE: Schema = Schema {
    name: "DatabaseThroughput",
    members: &PROVISIONED,
};

const SETTINGS: [Member; 6] = [
    optional(
        "shared",
        YES_OR_NO,
        "yes if the throughput is the database's and shared with other containers",
    ),
    required(
        "enforced",
        ValueType::OneOf(&["on", "off"]),
        "on if requests beyond the throughput are refused",
    ),
    required(
        "enforcement",
        ENFORCEMENT_SETTING,
        "setting of the container: on, off, or the default of the server",
    ),
    required(
        "distribution",
        ValueType::OneOf(&["equal", "custom"]),
        "distribution of the throughput over the physical partitions",
    ),
    required(
        "buckets",
        ValueType::ObjectList(&BUCKET),
        "throughput buckets that have a limit",
    ),
    required(
        "partitions",
        ValueType::ObjectList(&PARTITION),
        "live physical partitions in order of their EPK ranges",
    ),
];
const CONTAINER_MEMBERS: [Member; 11] = joined(PROVISIONED, SETTINGS);

/// Response of the routes for a container.
pub(crate) const CONTAINER: Schema = Schema {
    name: "Throughput",
    members: &CONTAINER_MEMBERS,
};

/// Body of [`set`] and [`set_database`]: one of `ruPerSecond`, `autoscaleMaximum` and `mode`.
pub(crate) const PROVISION: Schema = Schema {
    name: "ProvisionedThroughput",
    members: &[
        optional("ruPerSecond", COUNT, "fixed RU/s"),
        optional(
            "autoscaleMaximum",
            COUNT,
            "maximum RU/s of autoscale throughput",
        ),
        optional(
            "incrementPercent",
            COUNT,
            "with 'autoscaleMaximum': percentage by which the maximum rises with the amount of \
             stored data; 0 if absent",
        ),
        optional(
            "mode",
            MODE,
            "new mode; the server derives the RU/s from the current throughput, as it does for \
             clients",
        ),
    ],
};

const ENFORCEMENT_SETTING: ValueType = ValueType::OneOf(&["on", "off", "server"]);

/// Body of [`enforce`].
pub(crate) const ENFORCEMENT: Schema = Schema {
    name: "Enforcement",
    members: &[required(
        "enforcement",
        ENFORCEMENT_SETTING,
        "on: requests beyond the throughput are refused; off: they are not; server: the option \
         --enforce-throughput of the server decides",
    )],
};

/// Body of [`set_buckets`].
pub(crate) const BUCKETS: Schema = Schema {
    name: "ThroughputBuckets",
    members: &[required(
        "buckets",
        ValueType::ObjectList(&BUCKET),
        "buckets with a limit; all other buckets lose theirs",
    )],
};

/// Body of [`distribute`].
pub(crate) const SHARES: Schema = Schema {
    name: "PartitionShares",
    members: &[required(
        "partitions",
        ValueType::ObjectList(&SHARE),
        "RU/s of each live partition; the sum must be the container's RU/s",
    )],
};

/// Returns the throughput of a container.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    container_answer(call, &container)
}

/// Returns the response with the throughput, settings and usage of a container.
fn container_answer(call: &Call, container: &Container) -> Result<Answer, Problem> {
    let offered = call.engine().provisioned(container.rid())?;
    container_response(call, container, offered.as_ref())
}

/// Returns the response with `offered` and with the settings and usage of a container.
fn container_response(
    call: &Call,
    container: &Container,
    offered: Option<&Offered>,
) -> Result<Answer, Problem> {
    let mut json = container_json(&call.engine().throughput_of(container));
    if let Some(offered) = offered {
        set_offered(offered, &mut json);
    }
    Answer::json(200, json)
}

/// Returns the throughput of a database.
pub(crate) fn read_database(call: &Call) -> Result<Answer, Problem> {
    let offered = call.engine().provisioned(call.database()?.rid())?;
    database_response(offered.as_ref())
}

fn database_response(offered: Option<&Offered>) -> Result<Answer, Problem> {
    let mut json = Object::new();
    if let Some(offered) = offered {
        set_offered(offered, &mut json);
    }
    Answer::json(200, json)
}

/// Provisions throughput for a container. The response reports a replacement as pending if the
/// replacement began a split, even if the split has already ended.
pub(crate) fn set(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let offered = call
        .engine()
        .provision(container.rid(), &offer_change(call)?)?;
    container_response(call, &container, Some(&offered))
}

/// Provisions throughput for a database.
pub(crate) fn set_database(call: &Call) -> Result<Answer, Problem> {
    let offered = call
        .engine()
        .provision(call.database()?.rid(), &offer_change(call)?)?;
    database_response(Some(&offered))
}

/// Returns the change that a body of the schema [`PROVISION`] describes.
///
/// # Errors
/// 400 unless exactly one of `ruPerSecond`, `autoscaleMaximum` and `mode` is present, and if
/// `incrementPercent` stands without `autoscaleMaximum`.
fn offer_change(call: &Call) -> Result<OfferChange, Problem> {
    let manual = call.integer("ruPerSecond");
    let autoscale = call.integer("autoscaleMaximum");
    let mode = call.text("mode");
    let increment_percent = call.integer("incrementPercent");

    let is_autoscale_only = manual.is_none() && mode.is_none() && autoscale.is_some();
    if increment_percent.is_some() && !is_autoscale_only {
        return Err(Problem::bad_request(
            "the body, 'incrementPercent': allowed only together with 'autoscaleMaximum'",
        ));
    }
    match (manual, autoscale, mode) {
        (Some(ru), None, None) => Ok(OfferChange::manual(ru)),
        (None, Some(max), None) => Ok(OfferChange::autoscale(max, increment_percent)),
        (None, None, Some("autoscale")) => Ok(OfferChange::ToAutoscale),
        (None, None, Some(_)) => Ok(OfferChange::ToManual),
        _ => Err(Problem::bad_request(
            "the body: exactly one of 'ruPerSecond', 'autoscaleMaximum' and 'mode' is required",
        )),
    }
}

/// Sets whether requests beyond the throughput of a container are refused.
pub(crate) fn enforce(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let setting = match call.text("enforcement") {
        Some("on") => Some(true),
        Some("off") => Some(false),
        _ => None,
    };
    call.engine().enforce_throughput(&container, setting)?;
    container_answer(call, &container)
}

/// Sets the limits of a container's throughput buckets.
pub(crate) fn set_buckets(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let mut limits = [None; 5];
    for bucket in call.list("buckets") {
        // The schema has checked that both numbers are present and within bounds.
        let (Some(id), Some(percent)) = (
            small_number(bucket, "id"),
            small_number(bucket, "maxPercent"),
        ) else {
            continue;
        };
        let limit = &mut limits[usize::from(id) - 1];
        if limit.replace(percent).is_some() {
            return Err(Problem::bad_request(format!(
                "the body, 'buckets': bucket {id} is named twice"
            )));
        }
    }
    call.engine().set_throughput_buckets(&container, limits)?;
    container_answer(call, &container)
}

fn small_number(json: &Json, name: &str) -> Option<u8> {
    u8::try_from(json.get(name)?.as_i64()?).ok()
}

/// Sets the RU/s of each physical partition of a container.
pub(crate) fn distribute(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let mut shares = Vec::new();
    for share in call.list("partitions") {
        let id = share.get("id").and_then(Json::as_str).unwrap_or_default();
        let Ok(range) = id.parse() else {
            return Err(Problem::bad_request(format!(
                "the body, 'partitions': '{id}' is not a partition key range id"
            )));
        };
        let ru_per_second = share
            .get("ruPerSecond")
            .and_then(Json::as_i64)
            .and_then(|ru| u32::try_from(ru).ok())
            .unwrap_or(0);
        shares.push((range, ru_per_second));
    }
    if shares.is_empty() {
        return Err(Problem::bad_request(
            "the body, 'partitions': every live partition must be listed; DELETE distributes the \
             RU/s equally",
        ));
    }
    call.engine()
        .distribute_throughput(&container, Some(&shares))?;
    container_answer(call, &container)
}

/// Distributes the RU/s of a container equally over its physical partitions.
pub(crate) fn distribute_equally(call: &Call) -> Result<Answer, Problem> {
    call.engine()
        .distribute_throughput(&*call.container()?, None)?;
    Answer::empty()
}

/// Returns the JSON form of a container's throughput, settings and usage.
fn container_json(throughput: &ContainerThroughput) -> Object {
    let mut json = Object::new();
    if let Some(provisioned) = throughput.provisioned {
        set_provisioned(provisioned.throughput, &mut json);
        json.set("shared", yes_or_no(provisioned.shared));
    }

    // `enforced` is the effective value, `enforcement` the setting that leads to it.
    json.set("enforced", on_or_off(throughput.enforced));
    json.set(
        "enforcement",
        throughput.decided.map_or("server", on_or_off),
    );
    let distribution = if throughput.distribution == Distribution::Equal {
        "equal"
    } else {
        "custom"
    };
    json.set("distribution", distribution);

    let mut buckets: Vec<Json> = Vec::new();
    for (id, limit) in (1u32..).zip(&throughput.buckets) {
        if let Some(percent) = limit {
            buckets.push(object! { "id" => id, "maxPercent" => u32::from(*percent) }.into());
        }
    }
    json.set("buckets", buckets);

    let mut partitions: Vec<Json> = Vec::new();
    for partition in &throughput.partitions {
        let mut partition_json = object! { "id" => partition.id.to_string() };
        set_usage(partition, &mut partition_json);
        partitions.push(partition_json.into());
    }
    json.set("partitions", partitions);
    json
}

/// Sets the members `ruPerSecond`, `mode` and `incrementPercent` of [`PROVISIONED`].
fn set_provisioned(throughput: Throughput, json: &mut Object) {
    json.set("ruPerSecond", throughput.ru_max());
    match throughput {
        Throughput::Manual(_) => json.set("mode", "manual"),
        Throughput::Autoscale {
            increment_percent, ..
        } => {
            json.set("mode", "autoscale");
            json.set("incrementPercent", increment_percent.unwrap_or(0));
        }
    }
}

/// Sets all members of [`PROVISIONED`].
fn set_offered(offered: &Offered, json: &mut Object) {
    set_provisioned(offered.throughput, json);
    json.set("minimumRuPerSecond", offered.ru_min);
    json.set("replacePending", yes_or_no(offered.is_pending));
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Sets the members of [`USAGE`].
pub(crate) fn set_usage(partition: &PartitionThroughput, json: &mut Object) {
    if let Some(ru_per_second) = partition.ru_per_second {
        json.set("ruPerSecond", ru_per_second);
    }
    json.set("lastSecondRequestUnits", partition.last_second);
    json.set("normalized", partition.normalized);
    json.set("requestUnits", partition.charged.as_ru());
    json.set("requests", partition.requests);
    json.set("throttled", partition.throttled);
    json.set("wouldThrottle", partition.would_throttle);
}
