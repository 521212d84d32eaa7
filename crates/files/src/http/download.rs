//! `GET /{table}/{id}/_files/{field}/{file}/{name}`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State as FromState};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use gatewright_base::canonical_id;
use gatewright_entities::files::{FileInfo, Thumbnail};
use gatewright_entities::{Call, PlanField, RecordQuery};
use gatewright_http::{Counted, Problem, Segments};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::caller::{Head, split};
use super::range::{self, Asked as Ranged};
use super::{State, caller};
use crate::signature::{Asked, Signed};
use crate::thumbnail::{self, Made};
use crate::{problem, sniff};

/// What a browser may do with a file that it shows: nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; media-src 'self'; img-src 'self'; sandbox";
/// Safari shows no PDF in a sandbox.
const PDF_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; object-src 'self'; plugin-types application/pdf";
/// Rights may end, so that each use asks again.
const PRIVATE: &str = "private, no-cache";
const PUBLIC: &str = "public, max-age=3600";

/// The parts of the address: record, field, file, name.
type Place = Segments<4>;

pub(super) async fn download(
    FromState(state): FromState<Arc<State>>,
    table: Arc<str>,
    place: Place,
    request: Request,
) -> Result<Response, Problem> {
    let (request, _) = split(request);
    let parameters = Parameters::read(request.uri().query().unwrap_or_default())?;
    let found = found(&state, &table, &place, &parameters, &request).await?;
    let whose = whose(&state, &request);
    let mut sent = Sent::of(&found.file);
    if let Some(size) = &parameters.asked.thumbnail {
        let thumbnail = found.thumbnail(size)?;
        // Of what is no image, the file itself.
        if let Some(made) = state.files.thumbnail(&found.file, (size, thumbnail), &whose).await? {
            sent = Sent::thumbnail(&found.file, size, made);
        }
    }
    answer(&state, &sent, &found, (whose, parameters.asked.download), &request).await
}

/// The caller, whose turns it takes.
fn whose(state: &State, request: &Head) -> String {
    let network = || Counted::Bytes.share_key(caller::client(request)).unwrap_or_default();
    state.call(request).uploaders().pop().unwrap_or_else(network)
}

/// The bytes of an answer.
struct Sent {
    /// In the store.
    key: String,
    name: String,
    size: u64,
    content_type: String,
    sha256: String,
}

impl Sent {
    fn of(file: &FileInfo) -> Self {
        let FileInfo { id, name, size, content_type, sha256 } = file.clone();
        Self { key: id, name, size, content_type, sha256 }
    }

    fn thumbnail(file: &FileInfo, size: &str, made: Made) -> Self {
        let Made { bytes, content_type, sha256 } = made;
        let name = if content_type == file.content_type {
            file.name.clone()
        } else {
            let stem = file.name.rsplit_once('.').map_or(&*file.name, |(stem, _)| stem);
            format!("{stem}.{}", content_type.trim_start_matches("image/").replace("jpeg", "jpg"))
        };
        Self { key: thumbnail::key(&file.id, size), name, size: bytes, content_type, sha256 }
    }
}

/// The parameters of a download.
#[derive(Debug, Default)]
pub(super) struct Parameters {
    pub(super) asked: Asked,
    /// The time and the tag of a signed address.
    signature: Option<(i64, String)>,
}

impl Parameters {
    /// Reads a query. Each parameter may be there once; a signed address has no others.
    fn read(query: &str) -> Result<Self, Problem> {
        let (mut read, mut expires, mut signature, mut others) = (Self::default(), None, None, false);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            let is_twice = match &*key {
                "thumbnail" => read.asked.thumbnail.replace(value).is_some(),
                "tenant" => read.asked.tenant.replace(value).is_some(),
                "download" => {
                    let is_on = matches!(&*value, "1" | "true");
                    if !is_on && !matches!(&*value, "" | "0" | "false") {
                        return Err(Problem::bad_request("download is 1 or 0"));
                    }
                    std::mem::replace(&mut read.asked.download, is_on)
                }
                "expires" => expires.replace(value).is_some(),
                "signature" => signature.replace(value).is_some(),
                _ => {
                    std::mem::replace(&mut others, false) | {
                        others = true;
                        false
                    }
                }
            };
            if is_twice {
                return Err(Problem::bad_request(format!("{key} is given more than once")));
            }
        }
        match (expires, signature) {
            (None, None) => Ok(read),
            (Some(expires), Some(signature)) if !others => {
                let expires = expires.parse().map_err(|_| invalid_signature())?;
                Ok(Self { signature: Some((expires, signature)), ..read })
            }
            _ => Err(invalid_signature()),
        }
    }
}

fn invalid_signature() -> Problem {
    Problem::forbidden("the signed address is not valid, or its time has passed").with_code("invalid_signature")
}

/// A file that the caller may download.
pub(super) struct Found<'a> {
    pub(super) file: FileInfo,
    pub(super) field: &'a PlanField,
    /// Whether anybody may.
    is_public: bool,
}

impl Found<'_> {
    /// The thumbnail of a size that the field declares.
    pub(super) fn thumbnail(&self, size: &str) -> Result<Thumbnail, Problem> {
        let declared = self.field.files().and_then(|rules| rules.thumbnail(size));
        declared.ok_or_else(|| {
            let size: String = size.chars().take(64).collect();
            let detail = format!("the field declares no thumbnail \"{size}\"");
            Problem::bad_request(detail).with_code("unknown_thumbnail")
        })
    }
}

/// The file of an address, if the caller may download it.
pub(super) async fn found<'a>(
    state: &'a State,
    table: &str,
    Segments([record, field, file, name]): &Place,
    parameters: &Parameters,
    request: &Head,
) -> Result<Found<'a>, Problem> {
    let none = || Problem::not_found("no such file");
    let of = state.entities.table(table).map_err(|error| Problem::internal(&error))?;
    let mut call = state.call(request);
    if let Some(tenant) = parameters.asked.tenant.as_deref() {
        call.tenant = caller::tenant(tenant);
    }
    let field = of.plan().fields().find(|known| known.column() == field || known.key() == field);
    let declared = field.and_then(|field| Some((field, field.files()?)));
    if let Some((expires, signature)) = &parameters.signature {
        let column = declared.map_or("", |(field, _)| field.column());
        let asked = &parameters.asked;
        let signed = Signed { table, record, field: column, file, asked, expires: *expires };
        if !signed.is_valid(&state.files.0.signing, signature, state.files.0.ambient.now()) {
            return Err(invalid_signature());
        }
    }
    let is_public = declared.is_some_and(|(_, rules)| rules.public);
    let is_free = is_public || parameters.signature.is_some();
    // The record must be there, for whoever may download the file without rights too.
    let call = if is_free { operator(&call) } else { call };
    let viewed = of.view(&call, record, &RecordQuery::parse("")).await?;
    let Some((field, _)) = declared else { return Err(none()) };
    let json: serde_json::Value = serde_json::from_slice(&viewed.json).map_err(|error| Problem::internal(&error))?;
    let files = match json.get(field.key()) {
        Some(serde_json::Value::Array(files)) => files.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    let files = files.into_iter().filter_map(|file| serde_json::from_value::<FileInfo>(file).ok());
    // A name in the form of an id is read like one.
    let file = files.into_iter().find(|held| held.id == *file && canonical_id(&held.name) == **name);
    Ok(Found { file: file.ok_or_else(none)?, field, is_public })
}

/// The record is read without the caller's rights, in the tenant that the address names.
fn operator(call: &Call) -> Call {
    let mut operator = Call::default().through(call.surface).as_operator();
    operator.tenant.clone_from(&call.tenant);
    operator
}

/// Sends a file, or a part of it.
async fn answer(
    state: &State,
    file: &Sent,
    found: &Found<'_>,
    (whose, download): (String, bool),
    request: &Head,
) -> Result<Response, Problem> {
    let etag = format!("\"{}\"", file.sha256);
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        headers.extend(HeaderValue::from_str(value).map(|value| (name, value)));
    };
    set(ETAG, &etag);
    set(CACHE_CONTROL, if found.is_public { PUBLIC } else { PRIVATE });
    set(ACCEPT_RANGES, "bytes");
    set(CONTENT_TYPE, &shown_type(&file.content_type));
    set(CONTENT_DISPOSITION, &disposition(&file.name, download || !sniff::is_shown(&file.content_type)));
    set(CONTENT_SECURITY_POLICY, if file.content_type == "application/pdf" { PDF_POLICY } else { POLICY });
    set(HeaderName::from_static("x-content-type-options"), "nosniff");
    if names(request.headers(), &IF_NONE_MATCH, &etag) {
        headers.remove(CONTENT_TYPE);
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
    let holds = !request.headers().contains_key(IF_RANGE) || names(request.headers(), &IF_RANGE, &etag);
    let (status, part) = match range::read(range.filter(|_| holds), file.size) {
        Ranged::All => (StatusCode::OK, 0..file.size),
        Ranged::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Ranged::Nothing => {
            let problem = Problem::of(StatusCode::RANGE_NOT_SATISFIABLE);
            let range =
                HeaderValue::from_str(&format!("bytes */{}", file.size)).unwrap_or(HeaderValue::from_static("*"));
            return Err(problem.with_header(CONTENT_RANGE, range));
        }
    };
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{}", part.start, part.end - 1, file.size);
        headers.extend(HeaderValue::from_str(&range).map(|range| (CONTENT_RANGE, range)));
    }
    headers.insert(CONTENT_LENGTH, (part.end - part.start).into());
    if request.method() == Method::HEAD || part.is_empty() {
        return Ok((status, headers).into_response());
    }
    let turn = state.files.0.downloads.try_take(whose).ok_or_else(|| {
        let detail = "too many downloads are under way for this caller or in all";
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_downloads", detail);
        problem.retry_after(std::time::Duration::from_secs(1))
    })?;
    let range = (status == StatusCode::PARTIAL_CONTENT).then_some(part);
    let bytes = state.files.0.store.read(&file.key, range).await.map_err(|error| problem::storage(&error))?;
    let body = Body::from_stream(bytes.map(move |piece| {
        let _until_the_end = &turn;
        piece
    }));
    Ok((status, headers, body).into_response())
}

fn shown_type(content_type: &str) -> String {
    if content_type == "text/plain" { "text/plain; charset=utf-8".to_owned() } else { content_type.to_owned() }
}

/// The name, for old clients in ASCII.
fn disposition(name: &str, is_attachment: bool) -> String {
    let kind = if is_attachment { "attachment" } else { "inline" };
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') || c == ' ' { c } else { '_' })
        .collect();
    format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// Whether a header names the entity tag.
fn names(headers: &HeaderMap, header: &HeaderName, etag: &str) -> bool {
    let lines = headers.get_all(header).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" && *header == IF_NONE_MATCH || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
