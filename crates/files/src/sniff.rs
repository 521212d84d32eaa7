//! The type of a file, from its content alone: names and headers can lie.

use std::str;

/// How many bytes of the beginning tell the type.
pub(crate) const HEAD: usize = 8 * 1024;

const UNKNOWN: &str = "application/octet-stream";
const TEXT: &str = "text/plain";
const SVG: &str = "image/svg+xml";

/// Reads the content of a file as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Sniffer {
    head: Vec<u8>,
    /// The beginning of a character at the end of what has been read.
    rest: Vec<u8>,
    is_binary: bool,
}

impl Sniffer {
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let wanted = HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(wanted)]);
        if self.is_binary {
            return;
        }
        let mut text = std::mem::take(&mut self.rest);
        text.extend_from_slice(bytes);
        match str::from_utf8(&text) {
            Ok(text) => self.is_binary = text.bytes().any(is_of_no_text),
            Err(error) => {
                let (valid, rest) = text.split_at(error.valid_up_to());
                self.is_binary = error.error_len().is_some() || valid.iter().copied().any(is_of_no_text);
                self.rest = rest.to_vec();
            }
        }
    }

    /// Whether more bytes cannot change the type.
    pub(crate) fn is_certain(&self) -> bool {
        self.is_binary && self.head.len() >= HEAD
    }

    /// The type of all that was read.
    pub(crate) fn content_type(&self) -> &'static str {
        let is_text = !self.is_binary && self.rest.is_empty();
        let known = infer::get(&self.head).map(|known| known.mime_type());
        match known {
            Some("text/html") => "text/html",
            _ if is_text && is_svg(&self.head) => SVG,
            Some("text/xml") => "application/xml",
            // A script, and what begins like a binary format and is text.
            Some(known) if is_text && !is_of_inert_text(known) => TEXT,
            Some(known) => known,
            None if is_text => TEXT,
            None => UNKNOWN,
        }
    }
}

/// Formats that are text and have a type of their own.
fn is_of_inert_text(content_type: &str) -> bool {
    matches!(content_type, "application/pdf" | "application/rtf")
}

/// Control characters that no text has.
fn is_of_no_text(byte: u8) -> bool {
    matches!(byte, 0..=8 | 14..=26 | 28..=31 | 127)
}

/// Whether a text is XML whose root is SVG, or has an SVG element near its beginning.
fn is_svg(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let start = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    start.starts_with('<') && start.contains("<svg")
}

/// Whether a browser may show the type in its own window: raster images, audio, video, PDF and plain text.
pub(crate) fn is_shown(content_type: &str) -> bool {
    let group = content_type.split('/').next().unwrap_or_default();
    match content_type {
        SVG => false,
        "application/pdf" | TEXT => true,
        _ => matches!(group, "image" | "audio" | "video"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(bytes: &[u8]) -> &'static str {
        let mut sniffer = Sniffer::default();
        bytes.chunks(3).for_each(|chunk| sniffer.read(chunk));
        sniffer.content_type()
    }

    #[test]
    fn the_content_tells_the_type() {
        let long_text = "é".repeat(HEAD);
        let cases: &[(&[u8], &str)] = &[
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0\x01\0\x80", "image/gif"),
            (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
            (b"PK\x03\x04\x14\0\0\0", "application/zip"),
            (b"hello", "text/plain"),
            (b"", "text/plain"),
            (long_text.as_bytes(), "text/plain"),
            ("half a character é".as_bytes().split_last().unwrap().1, "application/octet-stream"),
            (b"hel\0lo", "application/octet-stream"),
            (b"<!DOCTYPE html><script>alert(1)</script>", "text/html"),
            (b"  <html><body>", "text/html"),
            (b"<script>alert(1)</script>", "text/html"),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"alert(1)\">", "image/svg+xml"),
            (b"<?xml version=\"1.0\"?><!-- x --><SVG onload=\"alert(1)\"/>", "image/svg+xml"),
            (b"<?xml version=\"1.0\"?><feed/>", "application/xml"),
            (b"#!/bin/sh\nrm -rf /", "text/plain"),
            (b"MZ is how this sentence begins", "text/plain"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(sniffed(bytes), *expected, "{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)]));
        }
    }

    #[test]
    fn only_inert_types_are_shown() {
        for (content_type, shown) in [
            ("image/png", true),
            ("video/mp4", true),
            ("audio/mpeg", true),
            ("application/pdf", true),
            ("text/plain", true),
            ("image/svg+xml", false),
            ("text/html", false),
            ("application/xml", false),
            ("application/zip", false),
            ("application/octet-stream", false),
            ("text/javascript", false),
        ] {
            assert_eq!(is_shown(content_type), shown, "{content_type}");
        }
    }
}
