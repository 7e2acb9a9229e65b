//! Throughput: what is provisioned for a container or a database, which clients can say too, by its offer; and beyond
//! that whether budgets are enforced, how physical partitions share them, and the ceilings of throughput buckets.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Member, Shape, Value, joined, may, must};
use orrery_engine::Container;
use orrery_engine::request::{
    ContainerThroughput, Distribution, OfferChange, Offered, PartitionThroughput, Throughput,
};
use orrery_model::{Json, Object, object};

const RU: Value = Value::Number(0.0, f64::MAX);

/// What a physical partition may spend, and what it served since the server began or it came to be.
pub(crate) const SERVED: [Member; 7] = [
    may(
        "ruPerSecond",
        RU,
        "what it may spend; left out if it is not limited",
    ),
    must(
        "lastSecondRequestUnits",
        RU,
        "what it spent in the last whole second",
    ),
    must("normalized", RU, "the share of its budget that this is"),
    must("requestUnits", RU, "what its requests were charged"),
    must("requests", COUNT, "requests that it carried out"),
    must(
        "throttled",
        COUNT,
        "requests that were refused with 429 for lack of budget",
    ),
    must(
        "wouldThrottle",
        COUNT,
        "requests that would have been refused, had budgets been enforced",
    ),
];
const PARTITION_MEMBERS: [Member; 8] = joined(
    [must("id", Value::Text, "the partition key range id")],
    SERVED,
);

/// A physical partition's part.
const PARTITION: Shape = Shape {
    name: "PartitionThroughput",
    members: &PARTITION_MEMBERS,
};

const BUCKET: Shape = Shape {
    name: "ThroughputBucket",
    members: &[
        must("id", Value::Whole(1, 5), "its number"),
        must(
            "maxPercent",
            Value::Whole(1, 100),
            "what it may spend, in percent of the container's RU/s",
        ),
    ],
};

const SHARE: Shape = Shape {
    name: "PartitionShare",
    members: &[
        must("id", Value::Text, "the partition key range id"),
        must("ruPerSecond", Value::Whole(1, 10_000), "what it may spend"),
    ],
};

const MODE: Value = Value::OneOf(&["manual", "autoscale"]);
const YES: Value = Value::OneOf(&["yes", "no"]);

/// What an offer says.
const OFFERED: [Member; 5] = [
    may(
        "ruPerSecond",
        COUNT,
        "what may be spent at most; left out if nobody has said",
    ),
    may("mode", MODE, "whether that is fixed"),
    may(
        "incrementPercent",
        COUNT,
        "by how many percent the maximum of autoscale rises when more is stored",
    ),
    may(
        "minimumRuPerSecond",
        COUNT,
        "the least that it can be set to; left out if it is the database's",
    ),
    may(
        "replacePending",
        YES,
        "whether partitions are still being split to carry it",
    ),
];

/// What [`read_database`] gives.
pub(crate) const DATABASE: Shape = Shape {
    name: "DatabaseThroughput",
    members: &OFFERED,
};

const DECIDED: [Member; 6] = [
    may(
        "shared",
        YES,
        "whether it is the database's, shared with other containers",
    ),
    must(
        "enforced",
        Value::OneOf(&["on", "off"]),
        "whether requests beyond it are refused",
    ),
    must(
        "enforcement",
        ENFORCEMENT_VALUE,
        "what is decided about that for the container",
    ),
    must(
        "distribution",
        Value::OneOf(&["equal", "custom"]),
        "how partitions share it",
    ),
    must(
        "buckets",
        Value::Objects(&BUCKET),
        "the throughput buckets that have a ceiling",
    ),
    must(
        "partitions",
        Value::Objects(&PARTITION),
        "the live physical partitions, in order of their ranges",
    ),
];
const MEMBERS: [Member; 11] = joined(OFFERED, DECIDED);

/// What is said of a container.
pub(crate) const SHAPE: Shape = Shape {
    name: "Throughput",
    members: &MEMBERS,
};

/// What [`set`] and [`set_database`] take.
pub(crate) const WANTED: Shape = Shape {
    name: "ProvisionedThroughput",
    members: &[
        may("ruPerSecond", COUNT, "RU/s, if they are fixed"),
        may("autoscaleMaximum", COUNT, "RU/s at most, if they scale"),
        may(
            "incrementPercent",
            COUNT,
            "beside it: by how many percent it rises when more is stored; 0 if left out",
        ),
        may(
            "mode",
            MODE,
            "whether they are fixed from now on; the server finds the number, as for clients",
        ),
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
    members: &[must(
        "buckets",
        Value::Objects(&BUCKET),
        "the buckets that get a ceiling; the others have none",
    )],
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
    let mut shown = shown(&call.engine().throughput_of(container));
    if let Some(offered) = call.engine().provisioned(container.rid())? {
        show_offered(&offered, &mut shown);
    }
    Answer::json(200, shown)
}

/// What is provisioned for a database.
pub(crate) fn read_database(call: &Call) -> Result<Answer, Problem> {
    let offered = call.engine().provisioned(call.database()?.rid())?;
    let mut shown = Object::new();
    offered
        .iter()
        .for_each(|offered| show_offered(offered, &mut shown));
    Answer::json(200, shown)
}

/// Provisions throughput for a container.
pub(crate) fn set(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    call.engine().provision(container.rid(), &wanted(call)?)?;
    told(call, &container)
}

/// Provisions throughput for a database.
pub(crate) fn set_database(call: &Call) -> Result<Answer, Problem> {
    call.engine()
        .provision(call.database()?.rid(), &wanted(call)?)?;
    read_database(call)
}

/// The change that a body of [`WANTED`] asks for.
fn wanted(call: &Call) -> Result<OfferChange, Problem> {
    let percent = call.whole("incrementPercent");
    match (
        call.whole("ruPerSecond"),
        call.whole("autoscaleMaximum"),
        call.text("mode"),
    ) {
        (None, Some(max), None) => Ok(OfferChange::autoscale(max, percent.unwrap_or(0))),
        _ if percent.is_some() => Err(Problem::bad(
            "the body, 'incrementPercent': it goes with an 'autoscaleMaximum'",
        )),
        (Some(ru), None, None) => Ok(OfferChange::manual(ru)),
        (None, None, Some("autoscale")) => Ok(OfferChange::ToAutoscale),
        (None, None, Some(_)) => Ok(OfferChange::ToManual),
        _ => Err(Problem::bad(
            "the body: it needs one of 'ruPerSecond', 'autoscaleMaximum' and 'mode'",
        )),
    }
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
        let number = |name: &str| {
            bucket
                .get(name)
                .and_then(Json::as_i64)
                .and_then(|n| u8::try_from(n).ok())
        };
        let (Some(id), Some(percent)) = (number("id"), number("maxPercent")) else {
            continue;
        };
        let place = &mut buckets[usize::from(id) - 1];
        if place.replace(percent).is_some() {
            return Err(Problem::bad(format!(
                "the body, 'buckets': bucket {id} is named twice"
            )));
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
        let range = id
            .parse()
            .map_err(|_| Problem::bad(format!("the body, 'partitions': '{id}' is no range id")))?;
        let ru = share
            .get("ruPerSecond")
            .and_then(Json::as_i64)
            .and_then(|ru| u32::try_from(ru).ok());
        shares.push((range, ru.unwrap_or(0)));
    }
    if shares.is_empty() {
        return Err(Problem::bad(
            "the body, 'partitions': name each live partition; DELETE gives all the same again",
        ));
    }
    call.engine()
        .distribute_throughput(&container, Some(&shares))?;
    told(call, &container)
}

/// Gives all physical partitions the same again.
pub(crate) fn distribute_equally(call: &Call) -> Result<Answer, Problem> {
    call.engine()
        .distribute_throughput(&*call.container()?, None)?;
    Answer::empty()
}

fn shown(throughput: &ContainerThroughput) -> Object {
    let mut shown = Object::new();
    if let Some(provisioned) = throughput.provisioned {
        show_provisioned(provisioned.throughput, &mut shown);
        shown.set("shared", yes(provisioned.shared));
    }
    let on = |on: bool| if on { "on" } else { "off" };
    shown.set("enforced", on(throughput.enforced));
    shown.set("enforcement", throughput.decided.map_or("server", on));
    shown.set(
        "distribution",
        if throughput.distribution == Distribution::Equal {
            "equal"
        } else {
            "custom"
        },
    );
    let ceiling = |(id, percent): (u32, &Option<u8>)| {
        percent
            .map(|percent| Json::from(object! { "id" => id, "maxPercent" => u32::from(percent) }))
    };
    shown.set(
        "buckets",
        (1u32..)
            .zip(&throughput.buckets)
            .filter_map(ceiling)
            .collect::<Vec<_>>(),
    );
    let partitions = throughput.partitions.iter().map(|partition| {
        let mut shown = object! { "id" => partition.id.to_string() };
        show_served(partition, &mut shown);
        Json::from(shown)
    });
    shown.set("partitions", partitions.collect::<Vec<_>>());
    shown
}

fn show_provisioned(throughput: Throughput, shown: &mut Object) {
    shown.set("ruPerSecond", throughput.most());
    match throughput {
        Throughput::Manual(_) => shown.set("mode", "manual"),
        Throughput::Autoscale {
            increment_percent, ..
        } => {
            shown.set("mode", "autoscale");
            shown.set("incrementPercent", increment_percent);
        }
    }
}

/// Sets the members of [`OFFERED`].
fn show_offered(offered: &Offered, shown: &mut Object) {
    show_provisioned(offered.throughput, shown);
    shown.set("minimumRuPerSecond", offered.least);
    shown.set("replacePending", yes(offered.is_pending));
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
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
