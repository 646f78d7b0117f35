//! Generates the reference of the interface as Markdown from its description and the table of what routes demand, so that
//! it is never out of date.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{
    super::edge::access::{self, Whose},
    TAGS, document, shape,
};

/// The text before the routes.
const HEAD: &str = "\
# The HTTP interface

Made by `recapd openapi --markdown`; a test holds it to the program. A daemon says the same as data at `/v1/openapi.json` (OpenAPI
3.1). [Ways in](integration.md) says which two calls an agent needs.

- Times are RFC 3339 in UTC, tokens are integers, units stand last in names.
- Unknown query parameters and unknown members of a body are refused, since a typo would lose data in silence. Messages may have
  any, which are stored with them, and motorhead's routes pass them over, as motorhead does. Unknown members of an answer are to be
  ignored: there may be more of them at any time.
- Every answer has an `x-request-id`, the client's own if it sent one. A `traceparent` that comes along is taken over in logs and
  traces.
- Whatever goes wrong is answered with `application/problem+json` (RFC 9457, [Problem](#problem)): `code` is for programs, `hint`
  says what to do. 400, 401, 403, 429, 500 and 503 may come from every route; further ones are named where they may come.

What a route demands is a scope, where tokens are demanded at all ([security](security.md)), and for whom a token has to be:

| for | |
|---|---|
| agent | the agent in the path |
| project | the project in the path |
| caller | anybody: the answer shows what the token may see |
| all | everything: a token that names no agent and no project |
| open | no token is asked for |

Beside these, `/mcp` speaks the Model Context Protocol ([mcp](mcp.md)), and `/ui/` has pages for people ([dashboard](dashboard.md)).
";

/// Answers that every route may give, so that they are mentioned only once.
const EVERYWHERE: [&str; 6] = ["400", "401", "403", "429", "500", "503"];

/// A route with what it demands.
struct Operation<'a> {
    method: &'static str,
    path: &'static str,
    /// `write, agent`
    demand: String,
    described: &'a Value,
}

pub fn reference() -> String {
    let document = document();
    let operations = operations(&document);
    let mut text = HEAD.to_owned();
    for (tag, about) in TAGS {
        let here: Vec<_> = operations.iter().filter(|one| one.is_of(tag)).collect();
        area(tag, about, &here, &mut text);
    }
    shape::chapter(&document, &mut text);
    text
}

/// Returns every route, in reading order.
fn operations(document: &Value) -> Vec<Operation<'_>> {
    let described = |method: &str, path: &str| document["paths"].get(path)?.get(method.to_lowercase());
    access::demands()
        .filter_map(|(method, path, scope, whose)| {
            Some(Operation {
                method,
                path,
                demand: match whose {
                    Whose::Open => "open".to_owned(),
                    whose => format!("{}, {}", scope.name(), whose.name()),
                },
                described: described(method, path)?,
            })
        })
        .collect()
}

impl Operation<'_> {
    fn is_of(&self, tag: &str) -> bool {
        self.described["tags"][0] == tag
    }

    fn heading(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn said(&self, member: &str) -> &str {
        self.described[member].as_str().unwrap_or_default()
    }
}

fn area(tag: &str, about: &str, operations: &[&Operation<'_>], text: &mut String) {
    write!(
        text,
        "\n## Routes: {tag}\n\n{about}\n\n| route | demands | |\n|---|---|---|\n"
    )
    .ok();
    for operation in operations {
        let heading = operation.heading();
        let (demand, said) = (&operation.demand, operation.said("summary"));
        writeln!(
            text,
            "| [{heading}](#{}) | {demand} | {said} |",
            shape::anchor(&heading)
        )
        .ok();
    }
    for operation in operations {
        section(operation, text);
    }
}

fn section(operation: &Operation<'_>, text: &mut String) {
    let summary = operation.said("summary");
    write!(text, "\n### {}\n\n{summary}", operation.heading()).ok();
    let more = operation.said("description").replace('\n', " ");
    if !more.is_empty() {
        write!(text, " {more}").ok();
    }
    text.push_str("\n\n");
    let parameters = operation.described["parameters"].as_array();
    for parameter in parameters.into_iter().flatten() {
        self::parameter(parameter, text);
    }
    body(&operation.described["requestBody"], text);
    if let Some(answers) = operation.described["responses"].as_object() {
        self::answers(answers, text);
    }
}

fn parameter(parameter: &Value, text: &mut String) {
    let name = parameter["name"].as_str().unwrap_or_default();
    let place = parameter["in"].as_str().unwrap_or_default();
    // The path shows whether `{id}` is an agent's or a project's.
    if (place, name) == ("path", "id") {
        return;
    }
    let kind = shape::kind(&parameter["schema"]);
    let example = parameter["example"].as_str();
    let example = example.map_or(String::new(), |example| format!(", such as `{example}`"));
    let is_needed = parameter["required"] == true && place != "path";
    let need = if is_needed { ", needed" } else { "" };
    let said = shape::line(parameter["description"].as_str().unwrap_or_default());
    writeln!(text, "- `{name}` ({place}, {kind}{example}{need}): {said}").ok();
}

fn body(body: &Value, text: &mut String) {
    let Some(content) = body["content"].as_object() else {
        return;
    };
    let said = shape::line(body["description"].as_str().unwrap_or_default());
    let said = if said.is_empty() {
        said
    } else {
        format!(": {said}")
    };
    let need = if body["required"] == true {
        ""
    } else {
        ", may be left out"
    };
    writeln!(text, "- body ({}{need}){said}", contents(content)).ok();
}

fn answers(answers: &Map<String, Value>, text: &mut String) {
    let mut also = Vec::new();
    for (status, answer) in answers {
        if answer.get("$ref").is_some() {
            also.extend((!EVERYWHERE.contains(&status.as_str())).then_some(status.as_str()));
            continue;
        }
        let content = answer["content"].as_object().map(contents);
        let content = content.map_or(String::new(), |content| format!(" ({content})"));
        let said = shape::line(answer["description"].as_str().unwrap_or_default());
        writeln!(text, "- **{status}**{content}: {said}").ok();
        headers(answer, text);
    }
    if !also.is_empty() {
        writeln!(text, "- also {}", also.join(", ")).ok();
    }
}

fn headers(answer: &Value, text: &mut String) {
    let headers = answer["headers"].as_object().into_iter().flatten();
    for (name, header) in headers.filter(|(name, _)| *name != "x-request-id") {
        let said = shape::line(header["description"].as_str().unwrap_or_default());
        writeln!(text, "  - header `{name}`: {said}").ok();
    }
}

/// Returns the formats of a body: a shape, or a media type if it isn't JSON.
fn contents(content: &Map<String, Value>) -> String {
    let kinds = content.iter().map(|(media, described)| match media.as_str() {
        "application/json" | "application/problem+json" => shape::kind(&described["schema"]),
        media => format!("`{media}`"),
    });
    kinds.collect::<Vec<_>>().join(" or ")
}
