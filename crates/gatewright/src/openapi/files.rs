//! The endpoints of files.

use std::sync::Arc;

use gatewright_entities::{Action, Plan};
use serde_json::json;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{Required, ResponseBuilder};

use super::names::{API_TOKEN, JWT, Page, SESSION};
use super::subject::Subject;
use super::words::{
    Described, boolean, content, empty, header, in_header, in_path, instant, integer, json, json_body, object, query,
    string, typed,
};
use super::{Draft, schema};
use crate::Config;

/// `POST /_files`, if an entity has files.
pub(super) fn describe(draft: &mut Draft, config: &Config, plans: &[Arc<Plan>]) {
    if !plans.iter().any(|plan| plan.crud() && has_files(plan)) {
        return;
    }
    let about = "One file, as a part of a form or as the body itself. A later write attaches it with `{\"id\": …}`: only the \
                 same caller may, within `storage.upload_ttl_seconds`.";
    let path = format!("{}/_files", config.api_prefix());
    draft.tag("files", "Files, before they are attached to records.");
    let described = draft.operation(HttpMethod::Post, &path, "uploadFile".to_owned(), "files", "Upload a file");
    let described = described
        .about(about)
        .parameter(query("name", "The name of the file, if the body is the file itself.", string()))
        .parameter(query(
            "keepMetadata",
            "`1`: leave EXIF, XMP and IPTC in an image, for fields with `keep_metadata`.",
            string(),
        ))
        .body(upload())
        .answers(201, json("The file.", schema::uploaded(draft.case), None))
        .fails(&[401, 403, 413, 429], Page::Never);
    let all = std::iter::once(described).chain(resumable(draft, &format!("{path}/tus")));
    for described in all.collect::<Vec<_>>() {
        let described = if draft.signs_in { described.open_to(&[SESSION, JWT, API_TOKEN], false) } else { described };
        draft.add(described);
    }
}

/// The requests of tus.
fn resumable(draft: &Draft, path: &str) -> [Described; 3] {
    let version = || in_header("Tus-Resumable", "`1.0.0`.", string());
    let bytes = || {
        let content_type = "application/offset+octet-stream";
        RequestBodyBuilder::new().content(content_type, content(binary(), None)).build()
    };
    let moved = |description: &str| {
        let header = |about: &str| header(about, string());
        ResponseBuilder::new()
            .description(description)
            .header("Upload-Offset", header("How many bytes are stored."))
            .header("Upload-Expires", header("Until when the upload is kept."))
    };
    let one = format!("{path}/{{id}}");
    let id = || in_path("id", "The id of the file: the last segment of `Location`.", string());
    let operation = |method, path: &str, id: &str, title: &str| {
        draft.operation(method, path, id.to_owned(), "files", title).parameter(version())
    };
    [
        operation(HttpMethod::Post, path, "createUpload", "Begin a resumable upload")
            .about("By the protocol [tus 1.0](https://tus.io/protocols/resumable-upload), which clients such as `tus-js-client` speak.")
            .parameter(in_header("Upload-Length", "The size of the file.", string()))
            .parameter(in_header("Upload-Metadata", "`filename`, and `keepMetadata`, with values in Base64.", string()))
            .body(bytes())
            .answers(
                201,
                moved("The upload.").header("Location", header("Where it continues, a path.", string())),
            )
            .fails(&[400, 401, 403, 412, 413, 429, 503], Page::Never),
        operation(HttpMethod::Patch, &one, "continueUpload", "Send bytes of a resumable upload")
            .about(
                "With the last bytes, the file can be attached. While another request continues the upload, the answer is 423; \
                 bytes that are not those of `Upload-Checksum` are 460. `HEAD` on this address returns `Upload-Offset`.",
            )
            .parameter(id())
            .parameter(in_header("Upload-Offset", "How many bytes are stored.", string()))
            .parameter(in_header("Upload-Checksum", "`sha1` or `sha256`, and the checksum in Base64.", string()))
            .body(bytes())
            .answers(204, moved("The bytes are stored."))
            .fails(&[400, 401, 403, 404, 409, 410, 412, 415, 422, 429, 503], Page::Never),
        operation(HttpMethod::Delete, &one, "endUpload", "End a resumable upload")
            .about("Nothing of it is kept.")
            .parameter(id())
            .answers(204, empty("It has ended."))
            .fails(&[401, 403, 404, 410, 412], Page::Never),
    ]
}

/// Whether the entity has files that clients see.
pub(super) fn has_files(plan: &Plan) -> bool {
    plan.fields().any(|field| field.files().is_some())
}

/// Any bytes.
fn binary() -> ObjectBuilder {
    string().format(Some(SchemaFormat::Custom("binary".to_owned())))
}

/// A form with one file, or any bytes.
fn upload() -> RequestBody {
    let form = object([("file".to_owned(), binary())]);
    RequestBodyBuilder::new()
        .content("multipart/form-data", content(form, None))
        .content("application/octet-stream", content(binary(), None))
        .required(Some(Required::True))
        .build()
}

/// A body that writes a record: of an entity with files, a form too, whose parts are the fields.
pub(super) fn or_form(plan: &Plan, mut body: RequestBody) -> RequestBody {
    if has_files(plan) {
        let fields = plan.fields().filter(|field| field.is_writable());
        let form = fields.fold(typed(Type::Object), |form, field| {
            let value = if field.files().is_some() { binary() } else { string() };
            form.property(field.key(), value)
        });
        body.content.insert("multipart/form-data".to_owned(), content(form, None).into());
    }
    body
}

/// The sizes of thumbnails that the entity declares.
fn thumbnails(plan: &Plan) -> String {
    let declared = plan.fields().filter_map(|field| Some((field.key(), field.files()?)));
    let declared: Vec<String> = declared
        .filter(|(_, rules)| !rules.thumbnails.is_empty())
        .map(|(field, rules)| format!("of `{field}` {}", rules.thumbnails.join(", ")))
        .collect();
    match &*declared {
        [] => "The size of a thumbnail. No field declares one.".to_owned(),
        declared => format!("The size of a thumbnail: {}.", declared.join("; ")),
    }
}

impl Subject<'_> {
    /// The downloads of its files.
    pub(super) fn files(&self, draft: &Draft) -> Vec<Described> {
        if !has_files(self.plan) {
            return Vec::new();
        }
        let path = format!("{}/_files/{{field}}/{{file}}/{{name}}", self.record);
        let place = || {
            [
                in_path("id", "The id of the record.", string()).build(),
                in_path("field", "The field.", string()).build(),
                in_path("file", "The id of the file.", string()).build(),
                in_path("name", "The name of the file.", string()).build(),
            ]
        };
        let bytes = || content(binary(), None);
        let download = self
            .operation(draft, HttpMethod::Get, &path, "download", Action::Read)
            .about("The bytes of a file, for callers who may read the record and the field. The address is the file's `url`.")
            .parameters(place())
            .parameter(query("download", "`1`: as a file to save.", string()))
            .parameter(query("thumbnail", &thumbnails(self.plan), string()))
            .parameter(query("tenant", "The tenant, for clients that cannot send its header.", string()))
            .parameter(query("expires", "Of a signed address.", string()))
            .parameter(query("signature", "Of a signed address.", string()))
            .parameter(in_header("Range", "One range of bytes.", string()))
            .parameter(in_header("If-None-Match", "The entity tag that the caller has.", string()))
            .answers(200, ResponseBuilder::new().description("The file.").content("*/*", bytes()).header("ETag", header("The file's entity tag.", string())))
            .answers(206, ResponseBuilder::new().description("A part of the file.").content("*/*", bytes()))
            .answers(304, empty("The caller has the file."))
            .fails(&[400, 403, 404, 416, 422, 429, 503], Page::Never);
        let wanted = typed(Type::Object)
            .property(draft.case.spell("expires_in_seconds"), integer().minimum(Some(1)).maximum(Some(604_800)))
            .property("download", boolean())
            .property("thumbnail", string());
        let answer = object([("url".to_owned(), string()), (draft.case.spell("expires_at"), instant())]);
        let sign = self
            .operation(draft, HttpMethod::Post, &format!("{path}/_sign"), "sign", Action::Read)
            .about("An address of the file that needs no rights, until its time.")
            .parameters(place())
            .body(json_body(wanted, Some(json!({ (draft.case.spell("expires_in_seconds")): 60 }))))
            .answers(200, json("The address.", answer, None))
            .fails(&[400, 404], Page::Never);
        vec![download, sign]
    }
}
