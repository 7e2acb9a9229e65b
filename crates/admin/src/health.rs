//! Whether the server lives, and whether requests succeed.

use crate::admin::Stage;
use crate::call::Answer;
use crate::problem::Problem;
use crate::shape::{Shape, Value, must};
use orrery_model::object;

/// What the health of a good server looks like.
pub(crate) const SHAPE: Shape = Shape {
    name: "Health",
    members: &[must(
        "status",
        Value::OneOf(&["alive", "ready"]),
        "what it is",
    )],
};

/// The process answers.
pub(crate) fn alive(_: Stage) -> Result<Answer, Problem> {
    Answer::json(200, object! { "status" => "alive" })
}

/// Requests succeed: the store takes part, and a query is answered.
pub(crate) fn ready(stage: Stage) -> Result<Answer, Problem> {
    match stage {
        Stage::Recovering => Err(recovering()),
        Stage::Draining(_) => Err(Problem::new(
            503,
            "Draining",
            "the server is stopping and takes no new connections",
        )),
        Stage::Serving(parts) => match parts.engine.probe() {
            Ok(()) => Answer::json(200, object! { "status" => "ready" }),
            Err(error) => {
                let mut problem =
                    Problem::new(503, "Failing", "a query does not succeed; the log says why");
                problem.cause = format!("{error}: {}", error.cause_chain());
                Err(problem)
            }
        },
    }
}

/// What a server says that does not serve yet.
pub(crate) fn recovering() -> Problem {
    Problem::new(503, "Recovering", "the server is opening its data")
}
