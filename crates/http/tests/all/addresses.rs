//! The address of a request: its query, and the parameter of its path.

use axum::Router;
use axum::routing::get;
use gatewright_base::{JsonCase, Secret};
use gatewright_http::{Query, Segment};
use http::Request;
use serde::Deserialize;

use crate::support::{Answer, send};

#[derive(Deserialize)]
struct Link {
    token: Option<Secret>,
    device_id: Option<i64>,
    #[serde(default)]
    scopes: Vec<String>,
}

#[derive(Deserialize)]
struct Needed {
    #[expect(dead_code, reason = "only its absence matters")]
    display_name: String,
}

fn router() -> Router {
    let link = async |Query(link): Query<Link>| {
        let token = link.token.as_ref().map(Secret::expose);
        format!("{token:?} {:?} {:?}", link.device_id, link.scopes)
    };
    Router::new()
        .route("/", get(link))
        .route("/needed", get(async |_: Query<Needed>| ""))
        .route("/things/{id}", get(async |Segment(id): Segment| id))
}

async fn ask(path: &str, accept: &str) -> Answer {
    send(&router(), Request::get(path).header("accept", accept).body("".into()).unwrap()).await
}

#[tokio::test]
async fn a_query_is_read_in_either_case_and_unknown_keys_are_ignored() {
    for (path, expected) in [
        ("/", "None None []"),
        ("/?", "None None []"),
        ("/?token=a%20b&deviceId=7&scopes=x&scopes=y&other=1&other=2", "Some(\"a b\") Some(7) [\"x\", \"y\"]"),
        ("/?device_id=7&token=", "None Some(7) []"),
    ] {
        assert_eq!(ask(path, "*/*").await.text, expected, "{path}");
    }
}

#[tokio::test]
async fn a_query_that_cannot_be_read_is_a_problem_for_programs_and_a_page_for_people() {
    let many = format!("/?{}", "a=b&".repeat(300));
    for (path, detail) in [
        ("/?token=a&token=canary", "the query parameter token is given more than once"),
        ("/?device_id=7&deviceId=8", "the field \"deviceId\" is given more than once"),
        ("/?deviceId=canary", "the query parameter deviceId is not valid: expected a whole number, not text"),
        ("/?token=%00canary", "the query parameter token is not valid: must not contain a null character"),
        ("/?token=%ff", "the query is not valid UTF-8"),
        ("/needed", "the query parameter displayName is required"),
        (&many, "the query has more than 256 fields"),
    ] {
        let problem = ask(path, "*/*").await;
        assert_eq!((problem.status.as_u16(), problem.detail().as_str()), (400, detail), "{path}");
        assert_eq!(problem.header("content-type"), "application/problem+json");
        assert!(!problem.text.contains("canary"));
        let page = ask(path, "text/html").await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (400, "text/html; charset=utf-8"));
    }
}

#[tokio::test]
async fn a_missing_parameter_is_named_in_the_case_of_the_wire() {
    let request = Request::get("/needed").body("".into()).unwrap();
    let answer = send(&router().layer(axum::Extension(JsonCase::Snake)), request).await;
    assert_eq!(answer.detail(), "the query parameter display_name is required");
}

#[tokio::test]
async fn a_segment_is_decoded_and_empty_where_it_cannot_be_an_identifier() {
    for (path, expected) in
        [("/things/a%2Fb", "a/b"), ("/things/%C3%A9", "\u{e9}"), ("/things/%ff", ""), ("/things/a%00", "")]
    {
        let answer = ask(path, "*/*").await;
        assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, expected), "{path}");
    }
}
