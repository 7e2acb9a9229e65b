//! The OpenAPI description, made from the table of routes.

use crate::admin::Stage;
use crate::call::Answer;
use crate::problem::Problem;
use crate::routes::{Gives, ROUTES, Route};
use crate::shape::{Shape, Value, must};
use orrery_model::{Json, Object, object};

/// What every error looks like.
const PROBLEM: Shape = Shape {
    name: "Problem",
    members: &[
        must("code", Value::Text, "a word that programs can compare"),
        must("message", Value::Text, "what was wrong, and where"),
    ],
};

/// The description.
pub(crate) fn read(_: Stage) -> Result<Answer, Problem> {
    Answer::json(200, document())
}

fn document() -> Object {
    let mut paths = Object::new();
    for route in ROUTES {
        let mut methods = paths
            .remove(route.path)
            .and_then(|m| m.as_object().cloned())
            .unwrap_or_default();
        methods.set(route.method.to_lowercase(), operation(route));
        paths.set(route.path, methods);
    }
    let bearer = object! { "type" => "http", "scheme" => "bearer", "description" => "An admin key of the server." };
    object! {
        "openapi" => "3.1.0",
        "info" => object! {
            "title" => "Orrery management API",
            "version" => env!("CARGO_PKG_VERSION"),
            "description" => "Health, metrics, faults, time, snapshots and physical partitions of an Orrery server.",
            "license" => object! { "name" => "MIT OR Apache-2.0", "identifier" => "MIT OR Apache-2.0" },
        },
        "security" => vec![object! { "adminKey" => Vec::<Json>::new() }.into()],
        "paths" => paths,
        "components" => object! {
            "securitySchemes" => object! { "adminKey" => bearer },
            "schemas" => schemas(),
        },
    }
}

fn operation(route: &Route) -> Object {
    let mut operation = object! { "operationId" => route.name, "summary" => route.told };
    if route.open {
        operation.set("security", Vec::<Json>::new());
    }
    let in_path = route.parameters().map(|name| {
        let schema = object! { "type" => "string" };
        object! { "name" => name, "in" => "path", "required" => true, "schema" => schema }.into()
    });
    let in_query = route.query.members.iter().map(|member| {
        object! {
            "name" => member.name, "in" => "query", "required" => member.required, "schema" => member.schema(),
        }
        .into()
    });
    let parameters: Vec<Json> = in_path.chain(in_query).collect();
    if !parameters.is_empty() {
        operation.set("parameters", parameters);
    }
    if let Some(body) = route.body {
        let required = body.members.iter().any(|member| member.required);
        operation.set(
            "requestBody",
            object! { "required" => required, "content" => json_of(body) },
        );
    }
    let (status, gives) = route.gives;
    let mut good = object! { "description" => "Done." };
    match gives {
        Gives::Nothing => {}
        Gives::Json(shape) => good.set("content", json_of(shape)),
        Gives::Text => {
            let schema = object! { "schema" => object! { "type" => "string" } };
            good.set("content", object! { "text/plain" => schema });
        }
        Gives::Description => {
            let schema = object! { "schema" => object! { "type" => "object" } };
            good.set("content", object! { "application/json" => schema });
        }
    }
    let bad =
        object! { "description" => "Not done; the body says why.", "content" => json_of(&PROBLEM) };
    operation.set(
        "responses",
        object! { status.to_string() => good, "default" => bad },
    );
    operation
}

fn json_of(shape: &Shape) -> Object {
    let schema = object! { "$ref" => format!("#/components/schemas/{}", shape.name) };
    object! { "application/json" => object! { "schema" => schema } }
}

/// Every shape that a route names, and those within.
fn schemas() -> Object {
    let mut schemas = Object::new();
    let mut rest: Vec<&Shape> = vec![&PROBLEM];
    for route in ROUTES {
        rest.extend(route.body);
        if let (_, Gives::Json(shape)) = route.gives {
            rest.push(shape);
        }
    }
    while let Some(shape) = rest.pop() {
        if schemas.get(shape.name).is_none() {
            schemas.set(shape.name, shape.schema());
            rest.extend(
                shape
                    .members
                    .iter()
                    .filter_map(|member| member.value.inner()),
            );
        }
    }
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_and_every_reference_leads_somewhere() {
        let document = Json::Object(document());
        for route in ROUTES {
            let described = document
                .get("paths")
                .and_then(|p| p.get(route.path))
                .and_then(|m| m.get(&route.method.to_lowercase()));
            assert_eq!(
                described
                    .and_then(|d| d.get("operationId"))
                    .and_then(Json::as_str),
                Some(route.name)
            );
        }
        let text = document.to_text();
        let schemas = document
            .get("components")
            .and_then(|c| c.get("schemas"))
            .expect("schemas");
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().expect("a name");
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}
