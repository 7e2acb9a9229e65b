//! Health of the server: liveness of the process and readiness for requests.

use crate::call::Answer;
use crate::problem::Problem;
use crate::schema::{Schema, ValueType, required};
use crate::stage::{self, Stage};
use orrery_model::object;

/// Response of a healthy server.
pub(crate) const HEALTH: Schema = Schema {
    name: "Health",
    members: &[required(
        "status",
        ValueType::OneOf(&["alive", "ready", "forwarding"]),
        "the state of the server; forwarding for a node that forwards requests to the leaseholder",
    )],
};

/// Reports that the process answers.
pub(crate) fn alive(_: Stage) -> Result<Answer, Problem> {
    Answer::json(200, object! { "status" => "alive" })
}

/// Reports readiness: the server is serving, and a probe of the engine succeeds; or the server is a
/// node that forwards requests.
pub(crate) fn ready(stage: Stage) -> Result<Answer, Problem> {
    let components = match stage {
        Stage::Serving(components) => components,
        Stage::Recovering => return Err(stage::recovering()),
        Stage::Forwarding(..) => return Answer::json(200, object! { "status" => "forwarding" }),
        Stage::Draining(_) => {
            return Err(Problem::new(
                503,
                "Draining",
                "the server is stopping and accepts no new connections",
            ));
        }
    };
    match components.engine.probe() {
        Ok(()) => Answer::json(200, object! { "status" => "ready" }),
        Err(error) => {
            let message = "a query failed; the log of the server states the cause";
            let mut problem = Problem::new(503, "Failing", message);
            problem.cause = format!("{error}: {}", error.cause_chain());
            Err(problem)
        }
    }
}
