//! Files of records: what a field of the kind `file` holds, and the store that it needs.
//!
//! This crate knows the value of such a field and a trait. A record's column holds what describes its files ([`FileInfo`]); the
//! store keeps the bytes, and says in the transaction of the write whether a file may be attached to a record
//! ([`FileStore::attach`]). Triggers of the database note in the same transaction which files no record has any more
//! ([`RELEASED`]), whatever removes them: an update, a delete, a cascade, or a statement of another program.

mod thumbnail;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use gatewright_base::JsonCase;
use gatewright_db::{Error as DatabaseError, Tx};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::Field;

pub use thumbnail::{Thumbnail, Trim};

/// The table in which triggers note that no record has a file any more: its column `id` is the file's, and `at` the time.
pub const RELEASED: &str = "gatewright_released_files";

/// The default of [`FileRules::max_bytes`].
const MAX_BYTES: u64 = 10 * 1024 * 1024;
/// Bytes of a path's segment that need no escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What files a field takes, and who may download them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRules {
    /// The most bytes of one file. Default: 10 MiB.
    pub max_bytes: u64,
    /// The accepted types, as the content tells them: `image/png`, `image/*`. Empty: all. `image/*` does not include SVG.
    pub accept: Vec<String>,
    /// Whether anybody may download the files by their addresses.
    pub public: bool,
    /// Whether EXIF, XMP and IPTC stay in images.
    pub keep_metadata: bool,
    /// Whether formats are refused from which metadata cannot be removed.
    pub require_removal: bool,
    /// The sizes of thumbnails that callers may request: see [`Thumbnail::parse`].
    pub thumbnails: Vec<String>,
}

impl Default for FileRules {
    fn default() -> Self {
        Self {
            max_bytes: MAX_BYTES,
            accept: Vec::new(),
            public: false,
            keep_metadata: false,
            require_removal: false,
            thumbnails: Vec::new(),
        }
    }
}

impl FileRules {
    /// Whether a file of this type is accepted.
    pub fn accepts(&self, content_type: &str) -> bool {
        let fits = |accepted: &String| match accepted.strip_suffix('*') {
            Some(group) => content_type.starts_with(group) && content_type != "image/svg+xml",
            None => content_type == accepted,
        };
        self.accept.is_empty() || self.accept.iter().any(fits)
    }

    /// The thumbnail of this size, if the field declares it.
    pub fn thumbnail(&self, size: &str) -> Option<Thumbnail> {
        let declared = self.thumbnails.iter().find(|declared| *declared == size)?;
        Thumbnail::parse(declared)
    }

    /// The attribute that is wrong, and why.
    pub(crate) fn check(&self, field: &Field) -> Result<(), (&'static str, String)> {
        if self.max_bytes == 0 {
            return Err(("max_bytes", "max_bytes is at least 1".to_owned()));
        }
        if let Some(wrong) = self.accept.iter().find(|accepted| !is_type(accepted)) {
            let message =
                format!("\"{wrong}\" is no type of content; write for example \"image/*\" or \"application/pdf\"");
            return Err(("accept", message));
        }
        if self.public && field.hidden {
            return Err(("public", "public lets anybody download the files, hidden shows them to nobody".to_owned()));
        }
        if self.public && field.read.is_some() {
            return Err(("public", "public lets anybody download the files, read limits who may; keep one".to_owned()));
        }
        if self.keep_metadata && self.require_removal {
            let message = "keep_metadata keeps what metadata = \"require_removal\" removes; keep one".to_owned();
            return Err(("keep_metadata", message));
        }
        thumbnail::check(&self.thumbnails).map_err(|message| ("thumbnails", message))
    }
}

/// Whether text is `type/subtype` or `type/*`, in lower case.
fn is_type(text: &str) -> bool {
    let is_name = |name: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$&^_.+-".contains(&byte);
        (1..=100).contains(&name.len()) && name.bytes().all(fits)
    };
    text.split_once('/').is_some_and(|(group, name)| is_name(group) && (name == "*" || is_name(name)))
}

/// What describes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// A UUID.
    pub id: String,
    /// The name that its uploader gave it.
    pub name: String,
    /// The number of stored bytes.
    pub size: u64,
    /// The type of its content, such as `image/png`.
    #[serde(rename = "contentType", alias = "content_type")]
    pub content_type: String,
    /// The SHA-256 of the stored bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A file as the record's column has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeldFile {
    #[serde(flatten)]
    pub(crate) info: FileInfo,
    /// The id of the record.
    pub(crate) record: String,
}

/// Where a store attaches files to.
#[derive(Debug, Clone, Copy)]
pub struct Attaching<'a> {
    /// The table of the record.
    pub table: &'a str,
    /// The column of the field.
    pub field: &'a str,
    /// The id of the record.
    pub record: &'a str,
    /// Who may have uploaded the files: [`Call::uploaders`](crate::Call::uploaders).
    pub uploaders: &'a [String],
    /// What files the field takes.
    pub rules: &'a FileRules,
    /// The time.
    pub now: Timestamp,
}

/// Why a file cannot be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unattachable {
    /// This caller has uploaded no such file, or it belongs to a record already, or its time has passed.
    NotFound,
    /// It has more bytes than the field takes.
    TooLarge,
    /// The field does not take its type of content.
    Type,
    /// It has metadata, and the field demands their removal.
    Metadata,
}

/// What keeps the bytes of files.
#[async_trait]
pub trait FileStore: fmt::Debug + Send + Sync + 'static {
    /// Makes files that were uploaded those of a record, inside of the transaction of the record's write: after it, no other
    /// record can have them. One result for each id.
    async fn attach(
        &self,
        tx: &Tx,
        to: Attaching<'_>,
        ids: &[String],
    ) -> Result<Vec<Result<FileInfo, Unattachable>>, DatabaseError>;
}

/// In a request's extensions: who uploaded the files that came with the request itself. See
/// [`Call::uploading`](crate::Call::uploading).
#[derive(Debug, Clone)]
pub struct Uploads(pub Arc<str>);

/// How the column of a field with files is written on the wire.
#[derive(Debug)]
pub(crate) struct FileAddress {
    /// The path of the entity's endpoints, with a slash at its end.
    table: String,
    field: String,
    content_type: String,
}

impl FileAddress {
    pub(crate) fn new(api_prefix: &str, table: &str, field: &str, case: JsonCase) -> Self {
        let content_type = case.spell("content_type");
        Self { table: format!("{api_prefix}/{table}/"), field: field.to_owned(), content_type }
    }

    /// Writes what a column holds. False if it is something else.
    pub(crate) fn write(&self, stored: &str, out: &mut Vec<u8>) -> bool {
        if !stored.starts_with('[') {
            let Ok(file) = serde_json::from_str::<HeldFile>(stored) else { return false };
            self.one(&file, out);
            return true;
        }
        let Ok(files) = serde_json::from_str::<Vec<HeldFile>>(stored) else { return false };
        out.push(b'[');
        for (index, file) in files.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.one(file, out);
        }
        out.push(b']');
        true
    }

    fn one(&self, HeldFile { info, record }: &HeldFile, out: &mut Vec<u8>) {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let segment = |text| utf8_percent_encode(text, SEGMENT);
        let (table, field) = (&self.table, &self.field);
        let path = format!("{table}{}/_files/{field}/{}/{}", segment(record), info.id, segment(&info.name));
        let json = format!(
            "{{\"id\":{},\"name\":{},\"size\":{},\"{}\":{},\"sha256\":{},\"url\":{}}}",
            text(&info.id),
            text(&info.name),
            info.size,
            self.content_type,
            text(&info.content_type),
            text(&info.sha256),
            text(&path)
        );
        out.extend_from_slice(json.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_types_are_exact_or_a_group_and_no_group_includes_svg() {
        let rules = |accept: &[&str]| FileRules {
            accept: accept.iter().map(|accepted| (*accepted).to_owned()).collect(),
            ..FileRules::default()
        };
        for (accept, content_type, expected) in [
            (&[][..], "text/html", true),
            (&["image/*"], "image/png", true),
            (&["image/*"], "image/svg+xml", false),
            (&["image/*", "image/svg+xml"], "image/svg+xml", true),
            (&["image/png"], "image/jpeg", false),
            (&["application/pdf"], "application/pdf", true),
        ] {
            assert_eq!(rules(accept).accepts(content_type), expected, "{accept:?} {content_type}");
        }
        for wrong in ["image", "*/*", "image/", "/png", "Image/png", "image/p ng", "image/*/x"] {
            assert!(rules(&[wrong]).check(&Field::file("a")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_segment_of_the_address() {
        let address = FileAddress::new("/api", "notes", "cover", JsonCase::Camel);
        let mut out = Vec::new();
        let stored =
            r#"{"id":"i","name":"../a?b#c/\"é","size":3,"contentType":"text/plain","sha256":"s","record":"r/1"}"#;
        assert!(address.write(stored, &mut out));
        let wire: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(wire["url"], "/api/notes/r%2F1/_files/cover/i/..%2Fa%3Fb%23c%2F%22%C3%A9");
        assert_eq!(wire["name"], "../a?b#c/\"é");
        assert!(!address.write("\"text\"", &mut out) && !address.write("[1]", &mut out));
    }
}
