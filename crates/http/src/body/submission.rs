use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use gatewright_base::JsonCase;
use http::HeaderMap;
use serde::de::DeserializeOwned;

use super::read::read;
use super::{ContentType, Fields, form, json, multipart};
use crate::{Next, Problem, RedirectUrls};

/// The body of a sign-in request: from a script as JSON, or from a browser's form in either form type.
///
/// `T` spells its fields in `snake_case`; callers may use camelCase too. In forms, numbers and booleans are read from their
/// text, a repeated name is a list, and an empty input is `None` for an `Option`. With `T = ()` the body does not matter.
///
/// Fails with 415 for other content types or without one, unless the body is empty and `T` needs no field; with 413
/// over the body limit; with 400 for a malformed body; and with 422 naming the field if the body is not a `T`. The
/// error is a page for forms and a [`Problem`] for everything else, including JSON with a form's content type, which
/// programs send if they forget the header.
#[derive(Debug, Clone)]
pub struct Submission<T> {
    /// The kind of the request, which determines the kind of the answer.
    pub kind: Kind,
    /// The fields.
    pub value: T,
    /// The target of the redirect afterwards: `next` of the body or, without one, of the query. If it is neither a path
    /// on this origin nor allowed by the [`RedirectUrls`] in the request's extensions, this is their front end or, without
    /// one, [`Next::default`].
    pub next: Option<Next>,
}

/// How a submission came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON, or no body at all: answered with JSON.
    Json,
    /// `application/x-www-form-urlencoded`: answered with a redirect, or a page.
    Form,
    /// `multipart/form-data`: answered like a form.
    Multipart,
}

impl Kind {
    /// Whether a browser's form sent it.
    pub fn is_form(self) -> bool {
        self != Self::Json
    }

    /// A failure in the caller's language: a page for forms, `application/problem+json` otherwise.
    pub fn refuse(self, problem: Problem) -> Response {
        if self.is_form() { problem.into_page() } else { problem.into_response() }
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Submission<T> {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let shape = ContentType::of(request.headers());
        let kind = match shape {
            ContentType::Form => Kind::Form,
            ContentType::Multipart => Kind::Multipart,
            _ => Kind::Json,
        };
        let refuse = |problem| kind.refuse(problem);
        let known = matches!(shape, ContentType::Json | ContentType::Form | ContentType::Multipart);
        if !known && shape != ContentType::Missing {
            return Err(refuse(Problem::unsupported_media_type(WRONG_TYPE)));
        }
        let head = Head {
            case: request.extensions().get::<JsonCase>().copied().unwrap_or_default(),
            next: request.uri().query().and_then(next_of_query),
            redirects: request.extensions().get::<RedirectUrls>().cloned().unwrap_or_default(),
            headers: request.headers().clone(),
        };
        let bytes = read(request).await.map_err(refuse)?;
        let (value, next) = match (shape, bytes.trim_ascii()) {
            // A program sent it, whatever its header says, so a page would be useless.
            (ContentType::Form, [b'{', b'}']) => {
                let (value, next) =
                    parse(ContentType::Missing, head, Bytes::new()).await.map_err(|_| json_as_form())?;
                return Ok(Self { kind: Kind::Json, value, next });
            }
            // As no form begins: browsers write these characters as `%7B`, `%5B`.
            (ContentType::Form, [b'{' | b'[', ..]) => return Err(json_as_form()),
            _ => parse(shape, head, bytes).await.map_err(refuse)?,
        };
        Ok(Self { kind, value, next })
    }
}

const WRONG_TYPE: &str = "send the body as application/json, application/x-www-form-urlencoded or multipart/form-data";

fn json_as_form() -> Response {
    let detail =
        "the body looks like JSON, but its Content-Type is that of a form: send Content-Type: application/json";
    Problem::unsupported_media_type(detail).into_response()
}

/// The parts of a request that are read in addition to its body.
struct Head {
    case: JsonCase,
    next: Option<String>,
    redirects: RedirectUrls,
    headers: HeaderMap,
}

async fn parse<T: DeserializeOwned>(
    shape: ContentType,
    head: Head,
    bytes: Bytes,
) -> Result<(T, Option<Next>), Problem> {
    let mut fields = match shape {
        ContentType::Form => form::parse("form", &bytes)?,
        ContentType::Multipart => multipart::parse(&head.headers, bytes).await?,
        _ if bytes.is_empty() => Fields::default(),
        ContentType::Json => json::parse_object(&bytes)?,
        _ => return Err(Problem::unsupported_media_type(WRONG_TYPE)),
    };
    // A CSRF middleware has checked it, if there is one.
    fields.take_text("_csrf");
    let next = fields.take_text("next").or(head.next).map(|text| {
        let redirects = &head.redirects;
        redirects.next(&text).unwrap_or_else(|| redirects.fallback())
    });
    let value = fields.parse(head.case).map_err(|error| match shape {
        ContentType::Missing => Problem::unsupported_media_type(WRONG_TYPE),
        _ => Problem::from(error),
    })?;
    Ok((value, next))
}

/// `next` of a query string; nothing, if there are several.
fn next_of_query(query: &str) -> Option<String> {
    form::parse("query", query.as_bytes()).ok()?.take_text("next")
}
