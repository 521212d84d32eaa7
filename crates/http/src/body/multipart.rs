use std::convert::Infallible;

use axum::body::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;

use super::fields::Fields;
use super::form::MAX_FIELDS;
use crate::Problem;

/// The text fields of a `multipart/form-data` body that is in memory already, and so within the body limit. Files are
/// refused, and more than 256 parts.
pub(super) async fn parse(headers: &HeaderMap, bytes: Bytes) -> Result<Fields, Problem> {
    let malformed = |_| Problem::bad_request("the multipart form is malformed");
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type)
        .map_err(|_| Problem::bad_request("the multipart content type names no boundary"))?;
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(bytes)]), boundary);
    let mut fields = Fields::default();
    let mut count = 0;
    while let Some(part) = parts.next_field().await.map_err(malformed)? {
        count += 1;
        if count > MAX_FIELDS {
            return Err(Problem::bad_request(format!("the form has more than {MAX_FIELDS} fields")));
        }
        if part.file_name().is_some() {
            return Err(Problem::bad_request("files are not accepted here"));
        }
        let name =
            part.name().map(str::to_owned).ok_or_else(|| Problem::bad_request("a part of the form has no name"))?;
        let text = part.bytes().await.map_err(malformed)?;
        let text = String::from_utf8(text.into()).map_err(|_| Problem::bad_request("the form is not valid UTF-8"))?;
        fields.append(name, text)?;
    }
    Ok(fields)
}
