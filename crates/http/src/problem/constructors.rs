//! One constructor for each status that the service answers with.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use http::header::{ALLOW, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};

use super::Problem;

type Text = Cow<'static, str>;

impl Problem {
    /// A problem of `status` with the usual code and sentence of that status.
    pub fn of(status: StatusCode) -> Self {
        let (code, detail) = match status.as_u16() {
            400 => ("bad_request", "the request is malformed"),
            401 => ("unauthorized", "authentication is required"),
            403 => ("forbidden", "forbidden"),
            404 => ("not_found", "not found"),
            405 => ("method_not_allowed", "this path does not support that method"),
            408 => ("request_timeout", "the request took too long to arrive"),
            409 => ("conflict", "the request conflicts with what is stored"),
            412 => ("precondition_failed", "the record has changed since it was read"),
            413 => ("too_large", "the request body is too large"),
            415 => ("unsupported_media_type", "the content type is not supported here"),
            422 => ("validation_failed", "the request does not pass validation"),
            500 => ("internal", "an internal error occurred"),
            503 => ("unavailable", "the service cannot answer right now"),
            _ => ("error", status.canonical_reason().unwrap_or("error")),
        };
        Self::new(status, code, detail)
    }

    /// 400: the request is malformed.
    pub fn bad_request(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::BAD_REQUEST).with_detail(detail)
    }

    /// 401: no identity, or not the right kind of credential. Has the `WWW-Authenticate` that RFC 9110, section 11.6.1,
    /// requires.
    pub fn unauthorized(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::UNAUTHORIZED)
            .with_detail(detail)
            .with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 403: an identity without the right.
    pub fn forbidden(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::FORBIDDEN).with_detail(detail)
    }

    /// 403: a token without the scope `resource:verb`. The header `WWW-Authenticate` names it (RFC 6750, section 3.1).
    pub fn out_of_scope(detail: impl Into<Text>, resource: &str, verb: &str) -> Self {
        let problem = Self::forbidden(detail);
        match HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{resource}:{verb}\"")) {
            Ok(value) => problem.with_header(WWW_AUTHENTICATE, value),
            Err(_) => problem,
        }
    }

    /// 404: missing, or not the caller's.
    pub fn not_found(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::NOT_FOUND).with_detail(detail)
    }

    /// 405, with `Allow` naming the methods that the path takes.
    pub fn method_not_allowed(allowed: &[Method]) -> Self {
        let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
        let problem = Self::of(StatusCode::METHOD_NOT_ALLOWED);
        match HeaderValue::from_str(&names.join(", ")) {
            Ok(value) => problem.with_header(ALLOW, value),
            Err(_) => problem,
        }
    }

    /// 409: a conflict with stored data.
    pub fn conflict(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::CONFLICT).with_detail(detail)
    }

    /// 412: `If-Match` does not match.
    pub fn precondition_failed(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::PRECONDITION_FAILED).with_detail(detail)
    }

    /// 413: over the body limit.
    pub fn too_large() -> Self {
        Self::of(StatusCode::PAYLOAD_TOO_LARGE)
    }

    /// 415: an unsupported content type.
    pub fn unsupported_media_type(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::UNSUPPORTED_MEDIA_TYPE).with_detail(detail)
    }

    /// 422: well formed, but not valid. Name the fields with [`Problem::with_field`].
    pub fn unprocessable(detail: impl Into<Text>) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY).with_detail(detail)
    }

    /// 422 for one field: `code` and `message` say what is wrong with it.
    pub fn invalid_field(field: impl Into<Text>, code: impl Into<Text>, message: impl Into<Text>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self::unprocessable(format!("{field}: {message}")).with_field(field, code, message)
    }

    /// 503: cannot answer now; try again after `wait`.
    pub fn unavailable(detail: impl Into<Text>, wait: Duration) -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE).with_detail(detail).retry_after(wait)
    }

    /// 500 `record_unreadable`: a stored value of the record is of no form that the service reads. The cause names it, and is
    /// only logged.
    pub fn record_unreadable(cause: &dyn Error) -> Self {
        tracing::error!(error = %chain(cause), "a record is unreadable; mend the value");
        let detail = "the record holds a value that cannot be read; the server's log names its id and its column";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "record_unreadable", detail)
    }

    /// 500: logs `cause` with its chain of sources. The answer contains nothing of it.
    pub fn internal(cause: &dyn Error) -> Self {
        tracing::error!(error = %chain(cause), "the request failed");
        Self::of(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

/// `cause` and its sources, joined by colons. A source is left out if its parent's message already ends in it.
fn chain(cause: &dyn Error) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(error) = next {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the table")]
    struct Outer(#[source] io::Error);

    #[test]
    fn an_internal_problem_hides_its_cause_from_the_caller() {
        let problem = Problem::internal(&Outer(io::Error::other("canary-disk-path")));
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(problem.status(), 500);
        assert!(!text.contains("canary") && !text.contains("table"), "{text}");
    }

    #[test]
    fn the_log_gets_the_whole_chain() {
        let error = Outer(io::Error::other("disk on fire"));
        assert_eq!(chain(&error), "cannot read the table: disk on fire");
    }

    #[test]
    fn allow_names_the_methods() {
        let problem = Problem::method_not_allowed(&[Method::GET, Method::POST]);
        assert_eq!(problem.headers()[ALLOW], "GET, POST");
    }

    #[test]
    fn every_status_has_its_own_code() {
        let statuses = [400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 500, 503];
        let codes: std::collections::HashSet<String> = statuses
            .iter()
            .map(|status| Problem::of(StatusCode::from_u16(*status).unwrap()).code().to_owned())
            .collect();
        assert_eq!(codes.len(), statuses.len());
        assert!(!codes.contains("error"));
    }
}
