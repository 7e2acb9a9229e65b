//! The OpenAPI 3.1 description, generated from the routes.

use crate::route::{ResponseBody, Route};
use crate::schema::{Schema, ValueType, reference_to, required};
use orrery_model::{Json, Object, object};

/// The body of every error response.
const PROBLEM: Schema = Schema {
    name: "Problem",
    members: &[
        required(
            "code",
            ValueType::Text,
            "a code word that programs can compare",
        ),
        required(
            "message",
            ValueType::Text,
            "the defect and its location in the request",
        ),
    ],
};

/// Returns the description of `routes`.
pub(crate) fn document(routes: &[Route]) -> Object {
    // OpenAPI groups operations by path; the table lists one route for each method of a path.
    let mut paths = Object::new();
    for route in routes {
        let mut methods = match paths.remove(route.path) {
            Some(Json::Object(methods)) => methods,
            _ => Object::new(),
        };
        methods.set(route.method.to_lowercase(), operation(route));
        paths.set(route.path, methods);
    }

    let bearer = object! {
        "type" => "http",
        "scheme" => "bearer",
        "description" => "An admin key of the server.",
    };
    let description =
        "Health, metrics, faults, time, snapshots and physical partitions of an Orrery server.";
    object! {
        "openapi" => "3.1.0",
        "info" => object! {
            "title" => "Orrery management API",
            "version" => env!("CARGO_PKG_VERSION"),
            "description" => description,
            "license" => object! {
                "name" => "MIT OR Apache-2.0", "identifier" => "MIT OR Apache-2.0",
            },
        },
        "security" => vec![object! { "adminKey" => Vec::<Json>::new() }.into()],
        "paths" => paths,
        "components" => object! {
            "securitySchemes" => object! { "adminKey" => bearer },
            "schemas" => schemas(routes),
        },
    }
}

/// Returns the description of one route.
fn operation(route: &Route) -> Object {
    let mut operation = object! {
        "operationId" => route.operation_id,
        "summary" => route.summary,
    };
    // An empty list overrides the document's requirement of an admin key.
    if route.is_public {
        operation.set("security", Vec::<Json>::new());
    }

    let parameters = parameters(route);
    if !parameters.is_empty() {
        operation.set("parameters", parameters);
    }

    // A body without required members may be absent.
    if let Some(body) = route.body {
        let is_required = body.members.iter().any(|member| member.is_required);
        operation.set(
            "requestBody",
            object! { "required" => is_required, "content" => json_content(body) },
        );
    }

    let mut success = object! { "description" => "Success." };
    match route.response {
        ResponseBody::None => {}
        ResponseBody::Json(schema) => success.set("content", json_content(schema)),
        ResponseBody::Text => success.set("content", untyped_content("text/plain", "string")),
        ResponseBody::OpenApi => {
            success.set("content", untyped_content("application/json", "object"));
        }
    }
    let failure = object! {
        "description" => "Failure; the body states the reason.",
        "content" => json_content(&PROBLEM),
    };
    operation.set(
        "responses",
        object! { route.status.to_string() => success, "default" => failure },
    );
    operation
}

/// Returns the descriptions of a route's path and query parameters.
fn parameters(route: &Route) -> Vec<Json> {
    let mut parameters = Vec::new();
    for name in route.path_parameters() {
        let parameter = object! {
            "name" => name,
            "in" => "path",
            "required" => true,
            "schema" => object! { "type" => "string" },
        };
        parameters.push(parameter.into());
    }
    for member in route.query.members {
        let parameter = object! {
            "name" => member.name,
            "in" => "query",
            "required" => member.is_required,
            "schema" => member.to_json_schema(),
        };
        parameters.push(parameter.into());
    }
    parameters
}

/// Returns the description of a JSON body of a schema.
fn json_content(schema: &Schema) -> Object {
    object! { "application/json" => object! { "schema" => reference_to(schema) } }
}

/// Returns the description of a body of which only the JSON type is described.
fn untyped_content(content_type: &str, json_type: &str) -> Object {
    object! { content_type => object! { "schema" => object! { "type" => json_type } } }
}

/// Returns every schema that a route names and the schemas nested in these, by name.
fn schemas(routes: &[Route]) -> Object {
    let mut pending: Vec<&Schema> = vec![&PROBLEM];
    for route in routes {
        pending.extend(route.body);
        if let ResponseBody::Json(schema) = route.response {
            pending.push(schema);
        }
    }

    let mut schemas = Object::new();
    while let Some(schema) = pending.pop() {
        if schemas.get(schema.name).is_some() {
            continue;
        }
        schemas.set(schema.name, schema.to_json_schema());
        for member in schema.members {
            pending.extend(member.value.nested_schema());
        }
    }
    schemas
}
