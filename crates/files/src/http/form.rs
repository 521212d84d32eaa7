//! Forms with files on the endpoints of records: the files are stored, and the record's endpoint gets JSON that names them.
//!
//! So rules, errors and answers are those of a JSON request. Files that the write does not attach are given up.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State as FromState};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gatewright_entities::files::Uploads;
use gatewright_entities::{Action, Kind, Plan, PlanField};
use gatewright_http::{ContentType, Problem};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Value as Json, json};

use super::caller::{client, request_account, split};
use super::parts::{boundary, malformed};
use super::{State, has_files};
use crate::ledger::{self, Account};
use crate::upload::{Limits, Paced};

/// The most parts of a form.
const MOST_PARTS: usize = 2_000;
/// How long a file of a form can be attached: only the write of its own request attaches it.
const TTL: std::time::Duration = std::time::Duration::from_hours(1);

pub(super) async fn take(FromState(state): FromState<Arc<State>>, request: Request, next: Next) -> Response {
    let Some((table, is_new)) = addressed(&state, &request) else { return next.run(request).await };
    match forward(&state, &table, is_new, request, next).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

/// The table of a write whose body is a form, and whether it makes a record.
fn addressed(state: &State, request: &Request) -> Option<(String, bool)> {
    if ContentType::of(request.headers()) != ContentType::Multipart {
        return None;
    }
    let mut segments = request.uri().path().trim_start_matches('/').split('/');
    let (table, id) = (segments.next()?, segments.next());
    let is_new = match (request.method(), id, segments.next()) {
        (&Method::POST, None, None) => true,
        (&Method::PUT | &Method::PATCH, Some(id), None) if !id.starts_with('_') => false,
        _ => return None,
    };
    let plan = state.entities.plans().iter().find(|plan| plan.table() == table && plan.crud())?;
    has_files(plan).then(|| (table.to_owned(), is_new))
}

async fn forward(state: &State, table: &str, is_new: bool, request: Request, next: Next) -> Result<Response, Problem> {
    let (head, body) = split(request);
    let call = state.call(&head);
    let of = state.entities.table(table).map_err(|error| Problem::internal(&error))?;
    of.reach(&call, if is_new { Action::Create } else { Action::Update }).await?;
    if head.headers().contains_key("idempotency-key") {
        let detail =
            "a form with files takes no Idempotency-Key; upload the files first, and send JSON that names them";
        return Err(Problem::bad_request(detail));
    }
    let uploads: Arc<str> = format!("request:{}", state.files.new_id()).into();
    let account = request_account(&call, client(&head), &uploads);
    let _turn = state.files.turn_to_upload(&account).await?;
    let form = multer::Multipart::new(body.into_data_stream(), boundary(head.headers())?);
    let reading = Reading { state, plan: of.plan(), account: &account, is_new, values: BTreeMap::new(), text_bytes: 0 };
    // Whatever happens to the request from here on, what it uploaded and did not attach is given up.
    let given_up = GivenUp { state, account: &account };
    let body = reading.all(form).await?.to_string();
    let (mut parts, ()) = head.into_parts();
    parts.headers.remove(TRANSFER_ENCODING);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    parts.extensions.insert(Uploads(uploads.clone()));
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    if response.status().is_success() {
        std::mem::forget(given_up);
    }
    Ok(response)
}

/// Gives the files of a request up when it is dropped.
struct GivenUp<'a> {
    state: &'a State,
    account: &'a Account,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let (files, account) = (self.state.files.clone(), self.account.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let now = files.0.ambient.now();
                if let Err(error) = ledger::discard(&files.0.db, account.share, &account.uploader, now).await {
                    tracing::debug!(%error, "the files of a refused form were not given up; they expire");
                }
            });
        }
    }
}

/// What a form gives to one field.
#[derive(Default)]
struct Given {
    texts: Vec<String>,
    files: Vec<Json>,
    /// Whether the files are added to those of the record.
    is_appended: bool,
}

/// A form that is read.
struct Reading<'a> {
    state: &'a State,
    plan: &'a Plan,
    account: &'a Account,
    is_new: bool,
    /// By the key on the wire.
    values: BTreeMap<String, Given>,
    text_bytes: usize,
}

impl Reading<'_> {
    /// The record's JSON.
    async fn all(mut self, mut form: multer::Multipart<'_>) -> Result<Json, Problem> {
        let mut count = 0;
        while let Some(part) = form.next_field().await.map_err(|error| malformed(&error))? {
            count += 1;
            if count > MOST_PARTS {
                return Err(Problem::bad_request(format!("the form has more than {MOST_PARTS} parts")));
            }
            let Some(name) = part.name().map(str::to_owned) else {
                return Err(Problem::bad_request("a part of the form has no name"));
            };
            self.part(&name, part).await?;
        }
        let mut record = serde_json::Map::new();
        for (key, given) in std::mem::take(&mut self.values) {
            let field = self.plan.fields().find(|field| field.key() == key);
            let value = match field {
                Some(field) if field.files().is_some() => files(field, given, self.is_new)?,
                Some(field) => text(field, given.texts),
                // The record's endpoint says that there is no such field.
                None => given.texts.into_iter().next().map_or(Json::Null, Json::from),
            };
            record.insert(key, value);
        }
        Ok(Json::Object(record))
    }

    async fn part(&mut self, name: &str, mut part: multer::Field<'_>) -> Result<(), Problem> {
        let (base, is_appended) = match name.strip_suffix('+') {
            Some(base) => (base, true),
            None => (name, false),
        };
        let snake = gatewright_base::to_snake(base);
        let field = self.plan.fields().find(|field| field.key() == base || field.column() == snake);
        let Some(file_name) = part.file_name().map(str::to_owned) else {
            let text = self.text(&mut part).await?;
            if name != "_csrf" {
                let key = field.map_or(name, |field| field.key());
                self.values.entry(key.to_owned()).or_default().texts.push(text);
            }
            return Ok(());
        };
        let rules = field.filter(|field| field.is_writable()).and_then(|field| Some((field, field.files()?)));
        let Some((field, rules)) = rules else {
            let detail = "the form has a file for a field that takes none";
            let name: String = name.chars().take(64).collect();
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", detail);
            return Err(problem.with_field(name, "unknown_field", "takes no files"));
        };
        let limits = Limits {
            max_bytes: rules.max_bytes,
            rules: Some(rules.clone()),
            expected: None,
            ttl: TTL,
            keep_metadata: rules.keep_metadata,
        };
        let most = field.items().map_or(1, |items| items.most);
        let given = self.values.entry(field.key().to_owned()).or_default();
        given.is_appended |= is_appended;
        if given.files.len() >= most {
            let detail = format!("{} takes at most {most} file{}", field.key(), if most == 1 { "" } else { "s" });
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", detail.clone());
            return Err(problem.with_field(field.key().to_owned(), "max", detail));
        }
        // A form in which no file was chosen sends one without name and bytes.
        let mut bytes = Paced::new(part);
        let first = if file_name.is_empty() { bytes.next().await? } else { None };
        if file_name.is_empty() && first.is_none() {
            return Ok(());
        }
        let mut bytes = bytes.after(first);
        let file = self.state.files.store(self.account, &file_name, &limits, &mut bytes).await;
        let file = file.map_err(|refused| refused_of(refused, field))?;
        if let Some(given) = self.values.get_mut(field.key()) {
            given.files.push(json!({ "id": file.id }));
        }
        Ok(())
    }

    /// The text of a part. All of them together are limited.
    async fn text(&mut self, part: &mut multer::Field<'_>) -> Result<String, Problem> {
        let most = self.state.files.0.options.max_body_bytes;
        let mut text = Vec::new();
        while let Some(piece) = part.chunk().await.map_err(|error| malformed(&error))? {
            self.text_bytes += piece.len();
            if self.text_bytes > most {
                let detail = format!("the parts of the form that are no files have more than {most} bytes in all");
                return Err(Problem::too_large().with_detail(detail));
            }
            text.extend_from_slice(&piece);
        }
        String::from_utf8(text).map_err(|_| Problem::bad_request("the form is not valid UTF-8"))
    }
}

/// A refusal that is about one field names it.
fn refused_of(refused: Problem, field: &PlanField) -> Problem {
    let code = refused.code().to_owned();
    match &*code {
        "file_too_large" | "file_type" => {
            let detail = refused.detail().to_owned();
            refused.with_field(field.key().to_owned(), code, detail)
        }
        _ => refused,
    }
}

/// The value of a field with files: those that stay, as its text names them, and those of the form.
fn files(field: &PlanField, given: Given, is_new: bool) -> Result<Json, Problem> {
    let Given { texts, mut files, is_appended } = given;
    let text = texts.into_iter().next_back().filter(|text| !text.trim().is_empty());
    let named = text.map(|text| serde_json::from_str::<Json>(&text)).transpose();
    let named = named.map_err(|_| {
        let detail = format!("{} takes files, or JSON that names them", field.key());
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "validation_failed", detail.clone()).with_field(
            field.key().to_owned(),
            "type",
            detail,
        )
    })?;
    let is_many = field.kind() == Kind::List;
    if !is_many {
        return Ok(files.pop().or(named).unwrap_or(Json::Null));
    }
    if is_appended && !is_new {
        return Ok(json!({ "$append": files }));
    }
    match named {
        None => Ok(files.into()),
        Some(Json::Array(mut kept)) => {
            kept.append(&mut files);
            Ok(kept.into())
        }
        // An operator.
        Some(other) if files.is_empty() => Ok(other),
        Some(_) => Err(Problem::bad_request(format!("{} has an operator and files", field.key()))),
    }
}

/// The value of another field, from the texts of a form.
fn text(field: &PlanField, texts: Vec<String>) -> Json {
    let json = |text: &str| serde_json::from_str::<Json>(text).ok();
    let is_text = |kind| matches!(kind, Kind::String | Kind::Text);
    let one = |kind: Kind, text: String| match kind {
        kind if is_text(kind) => text.into(),
        _ if text.is_empty() => Json::Null,
        Kind::Int | Kind::Float | Kind::Bool | Kind::Json | Kind::Decimal => json(&text).unwrap_or_else(|| text.into()),
        _ => text.into(),
    };
    match field.items() {
        Some(items) => match &*texts {
            [text] if text.is_empty() => Json::Array(Vec::new()),
            [text] if text.starts_with(['[', '{']) => json(text).unwrap_or_else(|| text.clone().into()),
            _ => texts.into_iter().map(|text| one(items.kind, text)).collect(),
        },
        None => {
            let text = texts.into_iter().next_back().unwrap_or_default();
            // An operator.
            let operator = json(&text).filter(|_| text.starts_with("{\"$") && !field.operators().is_empty());
            operator.unwrap_or_else(|| one(field.kind(), text))
        }
    }
}
