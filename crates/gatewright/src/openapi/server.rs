//! The endpoints about the server itself.

use serde_json::json as value;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::Type;

use super::Draft;
use super::names::{API_TOKEN, JWT, Page, SESSION};
use super::words::{
    Described, Part, content, empty, in_header, json, json_body, list_of, object, string, textual, typed,
};
use crate::Config;
use crate::config::LogoPlace;

const TAG: &str = "server";

pub(super) fn describe(draft: &mut Draft, config: &Config) {
    draft.tag(TAG, "Health, metrics and documentation. No credentials are needed.");
    if config.mcp.enabled {
        draft.tag("mcp", "The entities as tools.");
    }
    let get = |draft: &Draft, path: &str, id: &str, summary: &str| {
        draft.operation(HttpMethod::Get, path, id.to_owned(), TAG, summary)
    };
    let healthz = get(draft, "/healthz", "healthz", "Whether the process runs")
        .answers(200, textual("The process runs.", "text/plain"));
    let degraded = "The unavailable services: `carrier` (`events.fanout`), `limits` (`rate_limit.store`). `settings`: servers on \
                    the database differ in settings that must be equal.";
    let ready = object([
        ("status".to_owned(), string().enum_values(Some(["ready", "degraded"])).into()),
        ("degraded".to_owned(), Part::from(list_of(string()).description(Some(degraded)))),
    ]);
    let example = value!({ "status": "ready", "degraded": [] });
    let readyz = get(draft, "/readyz", "readyz", "Whether the server is ready")
        .answers(200, json("The server is ready, or most requests work.", ready, Some(example)));
    let metrics = get(draft, "/metrics", "metrics", "Metrics for Prometheus")
        .answers(200, textual("The metrics in the text format of Prometheus.", "text/plain"));
    let openapi = get(draft, "/openapi.json", "openapi", "This document")
        .answers(304, empty("The caller already has the current version."))
        .answers(200, json("An OpenAPI 3.1 document.", typed(Type::Object), None));
    for described in [healthz, readyz, metrics, openapi] {
        draft.add(described);
    }
    if config.docs {
        let docs = get(draft, "/api/docs", "docs", "This document as a page");
        draft.add(docs.answers(200, textual("The page.", "text/html")));
    }
    let logos = [
        ("/branding/logo", "logo", "The product's logo"),
        ("/branding/logo-dark", "logoDark", "The product's logo for dark mode"),
    ];
    for ((path, id, summary), logo) in logos.into_iter().zip(config.branding.logos()) {
        if matches!(logo.map(LogoPlace::of), Some(LogoPlace::File(_))) {
            let logo = get(draft, path, id, summary);
            draft.add(logo.answers(200, textual("The image.", "image/*")));
        }
    }
    if config.mcp.enabled {
        let mcp = mcp(draft, !config.authorization_server.enabled || config.mcp.anonymous);
        let mcp = if config.rate_limit.api.is_some() { mcp.fails(&[429], Page::Never) } else { mcp };
        draft.add(mcp);
    }
}

/// The tool interface uses JSON-RPC. The protocol describes its messages, this document does not. `anonymous`: callers
/// without credentials may use it.
fn mcp(draft: &Draft, anonymous: bool) -> Described {
    let example = value!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let message = || typed(Type::Object).property("jsonrpc", string()).required("jsonrpc");
    let described = draft
        .operation(HttpMethod::Post, "/mcp", "mcp".to_owned(), "mcp", "The entities as tools (Model Context Protocol)")
        .about("Accepts one JSON-RPC message for each request. There are no protocol sessions.")
        .parameter(in_header("MCP-Protocol-Version", "The negotiated protocol version.", string()))
        .body(json_body(message(), Some(example)))
        .answers(200, json("The response to a request.", message(), None))
        .answers(202, empty("The notification was accepted."))
        .answers(400, refusal())
        .answers(404, json("The method does not exist.", message(), None))
        .fails(&[403, 406, 413, 415], Page::Never);
    if draft.signs_in {
        described.open_to(&[SESSION, JWT, API_TOKEN], anonymous).fails(&[401], Page::Never)
    } else {
        described
    }
}

/// A body that is not a message is answered with a problem; an incorrect message is answered by the protocol.
fn refusal() -> ResponseBuilder {
    let error = content(typed(Type::Object), None);
    json("The body is not a valid message.", typed(Type::Object), None).content("application/problem+json", error)
}
