//! Throughput beyond what clients can say: whether budgets are enforced, how physical partitions share them, and the
//! ceilings of throughput buckets.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Member, Shape, Value, joined, may, must};
use orrery_engine::Container;
use orrery_engine::request::{ContainerThroughput, Distribution, PartitionThroughput, Throughput};
use orrery_model::{Json, Object, object};

const RU: Value = Value::Number(0.0, f64::MAX);

/// What a physical partition may spend, and what it served since the server began or it came to be.
pub(crate) const SERVED: [Member; 7] = [
    may("ruPerSecond", RU, "what it may spend; left out if it is not limited"),
    must("lastSecondRequestUnits", RU, "what it spent in the last whole second"),
    must("normalized", RU, "the share of its budget that this is"),
    must("requestUnits", RU, "what its requests were charged"),
    must("requests", COUNT, "requests that it carried out"),
    must("throttled", COUNT, "requests that were refused with 429 for lack of budget"),
    must("wouldThrottle", COUNT, "requests that would have been refused, had budgets been enforced"),
];
const PARTITION_MEMBERS: [Member; 8] = joined([must("id", Value::Text, "the partition key range id")], SERVED);

/// A physical partition's part.
const PARTITION: Shape = Shape { name: "PartitionThroughput", members: &PARTITION_MEMBERS };

const BUCKET: Shape = Shape {
    name: "ThroughputBucket",
    members: &[
        must("id", Value::Whole(1, 5), "its number"),
        must("maxPercent", Value::Whole(1, 100), "what it may spend, in percent of the container's RU/s"),
    ],
};

const SHARE: Shape = Shape {
    name: "PartitionShare",
    members: &[
        must("id", Value::Text, "the partition key range id"),
        must("ruPerSecond", Value::Whole(1, 10_000), "what it may spend"),
    ],
};

/// What all of them give.
pub(crate) const SHAPE: Shape = Shape {
    name: "Throughput",
    members: &[
        may("ruPerSecond", COUNT, "what the container may spend at most; left out if nobody has said"),
        may("mode", Value::OneOf(&["manual", "autoscale"]), "whether that is fixed"),
        may("shared", Value::OneOf(&["yes", "no"]), "whether it is the database's, shared with other containers"),
        must("enforced", Value::OneOf(&["on", "off"]), "whether requests beyond it are refused"),
        must("enforcement", ENFORCEMENT_VALUE, "what is decided about that for the container"),
        must("distribution", Value::OneOf(&["equal", "custom"]), "how partitions share it"),
        must("buckets", Value::Objects(&BUCKET), "the throughput buckets that have a ceiling"),
        must("partitions", Value::Objects(&PARTITION), "the live physical partitions, in order of their ranges"),
    ],
};

const ENFORCEMENT_VALUE: Value = Value::OneOf(&["on", "off", "server"]);

/// What [`enforce`] takes.
pub(crate) const ENFORCEMENT: Shape = Shape {
    name: "Enforcement",
    members: &[must(
        "enforcement",
        ENFORCEMENT_VALUE,
        "whether requests are refused; 'server' leaves it to the server",
    )],
};

/// What [`set_buckets`] takes.
pub(crate) const BUCKETS: Shape = Shape {
    name: "ThroughputBuckets",
    members: &[must("buckets", Value::Objects(&BUCKET), "the buckets that get a ceiling; the others have none")],
};

/// What [`distribute`] takes.
pub(crate) const SHARES: Shape = Shape {
    name: "PartitionShares",
    members: &[must(
        "partitions",
        Value::Objects(&SHARE),
        "what each live partition gets; they add up to the container's",
    )],
};

/// What is decided, and what was served.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    told(call, &container)
}

fn told(call: &Call, container: &Container) -> Result<Answer, Problem> {
    Answer::json(200, shown(&call.engine().throughput_of(container)))
}

/// Decides whether requests beyond the budget are refused.
pub(crate) fn enforce(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let decided = match call.text("enforcement") {
        Some("on") => Some(true),
        Some("off") => Some(false),
        _ => None,
    };
    call.engine().enforce_throughput(&container, decided)?;
    told(call, &container)
}

/// Sets the ceilings of throughput buckets.
pub(crate) fn set_buckets(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let mut buckets = [None; 5];
    for bucket in call.objects("buckets") {
        let number = |name: &str| bucket.get(name).and_then(Json::as_i64).and_then(|n| u8::try_from(n).ok());
        let (Some(id), Some(percent)) = (number("id"), number("maxPercent")) else { continue };
        let place = &mut buckets[usize::from(id) - 1];
        if place.replace(percent).is_some() {
            return Err(Problem::bad(format!("the body, 'buckets': bucket {id} is named twice")));
        }
    }
    call.engine().set_throughput_buckets(&container, buckets)?;
    told(call, &container)
}

/// Gives each physical partition RU/s of its own.
pub(crate) fn distribute(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let mut shares = Vec::new();
    for share in call.objects("partitions") {
        let id = share.get("id").and_then(Json::as_str).unwrap_or_default();
        let range = id.parse().map_err(|_| Problem::bad(format!("the body, 'partitions': '{id}' is no range id")))?;
        let ru = share.get("ruPerSecond").and_then(Json::as_i64).and_then(|ru| u32::try_from(ru).ok());
        shares.push((range, ru.unwrap_or(0)));
    }
    if shares.is_empty() {
        return Err(Problem::bad("the body, 'partitions': name each live partition; DELETE gives all the same again"));
    }
    call.engine().distribute_throughput(&container, Some(&shares))?;
    told(call, &container)
}

/// Gives all physical partitions the same again.
pub(crate) fn distribute_equally(call: &Call) -> Result<Answer, Problem> {
    call.engine().distribute_throughput(&*call.container()?, None)?;
    Answer::empty()
}

fn shown(throughput: &ContainerThroughput) -> Object {
    let mut shown = Object::new();
    if let Some(provisioned) = throughput.provisioned {
        shown.set("ruPerSecond", provisioned.throughput.most());
        let manual = matches!(provisioned.throughput, Throughput::Manual(_));
        shown.set("mode", if manual { "manual" } else { "autoscale" });
        shown.set("shared", if provisioned.shared { "yes" } else { "no" });
    }
    let on = |on: bool| if on { "on" } else { "off" };
    shown.set("enforced", on(throughput.enforced));
    shown.set("enforcement", throughput.decided.map_or("server", on));
    shown.set("distribution", if throughput.distribution == Distribution::Equal { "equal" } else { "custom" });
    let ceiling = |(id, percent): (u32, &Option<u8>)| {
        percent.map(|percent| Json::from(object! { "id" => id, "maxPercent" => u32::from(percent) }))
    };
    shown.set("buckets", (1u32..).zip(&throughput.buckets).filter_map(ceiling).collect::<Vec<_>>());
    let partitions = throughput.partitions.iter().map(|partition| {
        let mut shown = object! { "id" => partition.id.to_string() };
        show_served(partition, &mut shown);
        Json::from(shown)
    });
    shown.set("partitions", partitions.collect::<Vec<_>>());
    shown
}

/// Sets the members of [`SERVED`].
pub(crate) fn show_served(partition: &PartitionThroughput, shown: &mut Object) {
    if let Some(ru) = partition.ru_per_second {
        shown.set("ruPerSecond", ru);
    }
    shown.set("lastSecondRequestUnits", partition.last_second);
    shown.set("normalized", partition.normalized);
    shown.set("requestUnits", partition.charged.as_ru());
    shown.set("requests", partition.requests);
    shown.set("throttled", partition.throttled);
    shown.set("wouldThrottle", partition.would_throttle);
}
