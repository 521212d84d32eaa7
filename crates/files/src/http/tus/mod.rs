//! The protocol of resumable uploads, tus 1.0.0: <https://tus.io/protocols/resumable-upload>.

mod headers;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State as FromState};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on, options};
use gatewright_http::{Problem, layers};
use http::header::{ALLOW, CACHE_CONTROL, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body::Body as _;
use jiff::Timestamp;

use super::caller::{Head, split};
use super::{State, has_files};
use crate::ledger::Account;
use crate::resumable::{Brought, Resumable, Wanted};
use crate::upload::Paced;
use headers::{EXTENSIONS, Names, VERSION, date, metadata, number};

/// The path, without the prefix.
pub(super) const PATH: &str = "/_files/tus";

pub(super) fn router() -> Router<Arc<State>> {
    let uploads = on(MethodFilter::POST, create).merge(options(describe)).fallback(layers::method_not_allowed);
    let upload = on(MethodFilter::HEAD, show)
        .merge(on(MethodFilter::PATCH, append))
        .merge(on(MethodFilter::DELETE, end))
        .merge(on(MethodFilter::POST, overridden))
        .merge(options(describe))
        .fallback(layers::method_not_allowed);
    let router = Router::new().route(PATH, uploads).route(&format!("{PATH}/{{id}}"), upload);
    router.layer(from_fn(versioned))
}

/// Refuses other versions of the protocol, and names this one.
async fn versioned(request: Request, next: Next) -> Response {
    let is_asking = *request.method() == Method::OPTIONS;
    let version = request.headers().get(Names::RESUMABLE);
    let mut response = if is_asking || version.is_some_and(|version| version == VERSION) {
        next.run(request).await
    } else {
        let problem = Problem::precondition_failed("the request needs the header Tus-Resumable: 1.0.0");
        problem.with_header(Names::VERSION, HeaderValue::from_static(VERSION)).into_response()
    };
    response.headers_mut().insert(Names::RESUMABLE, HeaderValue::from_static(VERSION));
    response
}

/// `OPTIONS`: what the server can do.
async fn describe(FromState(state): FromState<Arc<State>>) -> Response {
    let plans = state.entities.plans().iter().filter(|plan| plan.crud() && has_files(plan));
    let sizes = plans.flat_map(|plan| plan.fields().filter_map(|field| field.files()).map(|rules| rules.max_bytes));
    let most = sizes.max().unwrap_or(0);
    let headers = [
        (Names::VERSION, HeaderValue::from_static(VERSION)),
        (Names::EXTENSION, HeaderValue::from_static(EXTENSIONS)),
        (Names::MAX_SIZE, most.into()),
        (Names::CHECKSUM_ALGORITHM, HeaderValue::from_static("sha1,sha256")),
        (ALLOW, HeaderValue::from_static("OPTIONS, POST, HEAD, PATCH, DELETE")),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// `POST /_files/tus`: an upload, and its first bytes if the request has some.
async fn create(FromState(state): FromState<Arc<State>>, request: Request) -> Result<Response, Problem> {
    let (head, body) = split(request);
    let (account, most) = state.uploader(&head).await?;
    let headers = head.headers();
    if headers.contains_key("upload-concat") || headers.contains_key("upload-defer-length") {
        return Err(Problem::bad_request("the server knows neither Upload-Concat nor Upload-Defer-Length"));
    }
    let length = number(headers, &Names::LENGTH)?;
    if length > most {
        return Err(crate::problem::too_large(most));
    }
    let described = metadata(headers)?;
    let wanted =
        Wanted { name: &described.name, length, metadata: &described.sent, keep_metadata: described.keep_metadata };
    let has_bytes = headers::is_bytes(headers);
    if has_bytes && body.size_hint().exact().is_some_and(|bytes| bytes > length) {
        return Err(Problem::bad_request("the request has more bytes than Upload-Length"));
    }
    let brought = Brought { offset: 0, expected: body.size_hint().exact(), checksum: headers::checksum(headers)? };
    // Without bytes, an empty file is whole already.
    let is_continued = has_bytes || length == 0;
    let _turn = if is_continued { Some(state.files.turn_to_upload(&account).await?) } else { None };
    let upload = state.files.begin_resumable(&account, &wanted).await?;
    let (mut received, mut expires_at) = (0, upload.expires_at);
    if is_continued {
        let mut bytes = Paced::new(body.into_data_stream());
        match state.files.append(&account, &upload, brought, &mut bytes).await {
            Ok(appended) => (received, expires_at) = appended,
            Err(refused) => {
                // Its client does not know where it is.
                state.files.end_resumable(&account, &upload.id).await?;
                return Err(refused);
            }
        }
    }
    let location = format!("{}{PATH}/{}", state.prefix, upload.id);
    let mut answer = progress(received, expires_at)?;
    answer.insert(LOCATION, HeaderValue::from_str(&location).map_err(|error| Problem::internal(&error))?);
    Ok((StatusCode::CREATED, answer).into_response())
}

/// `HEAD`: how many bytes are stored.
async fn show(
    FromState(state): FromState<Arc<State>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = split(request);
    let (account, _) = state.uploader(&head).await?;
    let upload = state.files.resumable(&account, &id).await?;
    let mut answer = progress(upload.received, upload.expires_at)?;
    answer.insert(Names::LENGTH, upload.length.into());
    if !upload.metadata.is_empty() {
        answer.extend(HeaderValue::from_str(&upload.metadata).map(|sent| (Names::METADATA, sent)));
    }
    Ok((StatusCode::OK, answer).into_response())
}

/// `PATCH`: more bytes.
async fn append(
    FromState(state): FromState<Arc<State>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = split(request);
    let (account, _) = state.uploader(&head).await?;
    if !headers::is_bytes(head.headers()) {
        return Err(Problem::unsupported_media_type("the body is application/offset+octet-stream"));
    }
    let offset = number(head.headers(), &Names::OFFSET)?;
    let checksum = headers::checksum(head.headers())?;
    let _turn = state.files.turn_to_upload(&account).await?;
    let upload: Resumable = state.files.resumable(&account, &id).await?;
    let brought = Brought { offset, expected: body.size_hint().exact(), checksum };
    let mut bytes = Paced::new(body.into_data_stream());
    let (received, expires_at) = state.files.append(&account, &upload, brought, &mut bytes).await?;
    Ok((StatusCode::NO_CONTENT, progress(received, expires_at)?).into_response())
}

/// How many bytes are stored, and until when.
fn progress(received: u64, expires_at: Timestamp) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    headers.insert(Names::OFFSET, received.into());
    headers.insert(Names::EXPIRES, date(expires_at)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(headers)
}

/// `DELETE`: nothing of the upload is kept.
async fn end(
    FromState(state): FromState<Arc<State>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = split(request);
    let (account, _) = state.uploader(&head).await?;
    state.files.end_resumable(&account, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `POST` of a client that can send neither `PATCH` nor `DELETE`.
async fn overridden(state: FromState<Arc<State>>, id: Path<String>, request: Request) -> Result<Response, Problem> {
    let meant = request.headers().get(Names::METHOD_OVERRIDE).and_then(|method| method.to_str().ok());
    match meant {
        Some("PATCH") => append(state, id, request).await,
        Some("DELETE") => end(state, id, request).await,
        _ => Err(Problem::method_not_allowed(&[Method::HEAD, Method::PATCH, Method::DELETE])),
    }
}

impl State {
    /// The account of a request, and the most bytes of a file.
    async fn uploader(&self, head: &Head) -> Result<(Account, u64), Problem> {
        Box::pin(self.stager(&self.call(head))).await
    }
}
