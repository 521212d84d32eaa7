//! The headers of the protocol.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_http::Problem;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

use crate::resumable::Checksum;

pub(super) const VERSION: &str = "1.0.0";
pub(super) const EXTENSIONS: &str = "creation,creation-with-upload,termination,expiration,checksum";

/// The type of bytes that continue an upload.
const BYTES: &str = "application/offset+octet-stream";
/// The most bytes of what a client says about an upload.
const METADATA: usize = 4 * 1024;

/// The names of headers.
pub(super) struct Names;

impl Names {
    pub(super) const RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
    pub(super) const VERSION: HeaderName = HeaderName::from_static("tus-version");
    pub(super) const EXTENSION: HeaderName = HeaderName::from_static("tus-extension");
    pub(super) const MAX_SIZE: HeaderName = HeaderName::from_static("tus-max-size");
    pub(super) const CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("tus-checksum-algorithm");
    pub(super) const CHECKSUM: HeaderName = HeaderName::from_static("upload-checksum");
    pub(super) const LENGTH: HeaderName = HeaderName::from_static("upload-length");
    pub(super) const OFFSET: HeaderName = HeaderName::from_static("upload-offset");
    pub(super) const METADATA: HeaderName = HeaderName::from_static("upload-metadata");
    pub(super) const EXPIRES: HeaderName = HeaderName::from_static("upload-expires");
    pub(super) const METHOD_OVERRIDE: HeaderName = HeaderName::from_static("x-http-method-override");
}

/// Whether the body continues an upload.
pub(super) fn is_bytes(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|content_type| content_type == BYTES)
}

/// The value of a header that is there once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().map(HeaderValue::to_str).transpose();
    match (line, lines.next()) {
        (Ok(line), None) => Ok(line),
        _ => Err(Problem::bad_request(format!("{name} is malformed, or there more than once"))),
    }
}

/// A number of bytes.
pub(super) fn number(headers: &HeaderMap, name: &HeaderName) -> Result<u64, Problem> {
    let text = one(headers, name)?.unwrap_or_default();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<i64>().ok().filter(|_| is_plain);
    number.map(i64::unsigned_abs).ok_or_else(|| Problem::bad_request(format!("{name} is a number of bytes")))
}

/// What a client says about an upload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) keep_metadata: bool,
    pub(super) sent: String,
}

/// Reads `Upload-Metadata`. The type of the file is read from its content.
pub(super) fn metadata(headers: &HeaderMap) -> Result<Described, Problem> {
    let sent = one(headers, &Names::METADATA)?.unwrap_or_default();
    let wrong = || {
        Problem::bad_request(
            "Upload-Metadata has keys and values in Base64, with commas between, in at most 4096 bytes",
        )
    };
    if sent.len() > METADATA {
        return Err(wrong());
    }
    let mut described = Described { sent: sent.to_owned(), ..Described::default() };
    for pair in sent.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once(' ').unwrap_or((pair, ""));
        let value = STANDARD.decode(value.trim()).map_err(|_| wrong())?;
        let value = String::from_utf8(value).map_err(|_| wrong())?;
        match key {
            "filename" => described.name = value,
            "keepMetadata" | "keep_metadata" => described.keep_metadata = matches!(&*value, "1" | "true"),
            _ => {}
        }
    }
    Ok(described)
}

/// Reads `Upload-Checksum`.
pub(super) fn checksum(headers: &HeaderMap) -> Result<Option<Checksum>, Problem> {
    let Some(text) = one(headers, &Names::CHECKSUM)? else { return Ok(None) };
    let wrong = || Problem::bad_request("Upload-Checksum is sha1 or sha256, and the checksum in Base64");
    let (algorithm, checksum) = text.split_once(' ').ok_or_else(wrong)?;
    let checksum = STANDARD.decode(checksum.trim()).map_err(|_| wrong())?;
    match (algorithm, checksum.len()) {
        ("sha1", 20) => Ok(Some(Checksum::Sha1(checksum))),
        ("sha256", 32) => Ok(Some(Checksum::Sha256(checksum))),
        _ => Err(wrong()),
    }
}

/// A time as HTTP writes it.
pub(super) fn date(at: Timestamp) -> Result<HeaderValue, Problem> {
    let text = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    HeaderValue::from_str(&text).map_err(|error| Problem::internal(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        std::iter::once((name, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn numbers_are_digits_alone() {
        for (text, expected) in [
            ("0", Some(0)),
            ("12", Some(12)),
            ("9223372036854775807", Some(9_223_372_036_854_775_807)),
            ("9223372036854775808", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            (" 1", Some(1)),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(number(&headers(Names::LENGTH, text.trim_start()), &Names::LENGTH).ok(), expected, "{text:?}");
        }
        let mut twice = headers(Names::LENGTH, "1");
        twice.append(Names::LENGTH, HeaderValue::from_static("1"));
        assert!(number(&twice, &Names::LENGTH).is_err());
        assert!(number(&HeaderMap::new(), &Names::LENGTH).is_err());
    }

    #[test]
    fn a_name_is_read_from_the_metadata() {
        let read = |text: &str| metadata(&headers(Names::METADATA, text)).ok();
        assert_eq!(read("filename YS50eHQ=,filetype dGV4dC9wbGFpbg==").unwrap().name, "a.txt");
        assert_eq!(read("is_confidential, filename YQ==").unwrap().name, "a");
        assert!(read("keepMetadata MQ==").unwrap().keep_metadata);
        assert_eq!(metadata(&HeaderMap::new()).unwrap(), Described::default());
        for wrong in ["filename a.txt", "filename /w==", &format!("a {}", "YWFh".repeat(2000))] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_checksum_has_the_length_of_its_algorithm() {
        let read = |text: &str| checksum(&headers(Names::CHECKSUM, text)).ok().flatten().is_some();
        assert!(read(&format!("sha1 {}", STANDARD.encode([0; 20]))));
        assert!(read(&format!("sha256 {}", STANDARD.encode([0; 32]))));
        assert!(!read(&format!("sha1 {}", STANDARD.encode([0; 32]))));
        for wrong in ["sha1", "sha1 ?", "md5 AAAAAAAAAAAAAAAAAAAAAA==", ""] {
            assert!(!read(wrong), "{wrong}");
        }
        assert!(matches!(checksum(&HeaderMap::new()), Ok(None)));
    }

    #[test]
    fn a_time_is_written_as_http_does() {
        let date = date(Timestamp::from_second(784_111_777).unwrap()).unwrap();
        assert_eq!(date, "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
