//! Strong entity tags (RFC 9110, section 8.8.3) of JSON objects, and their place in bodies.

use sha2::{Digest, Sha256};

/// The key of the entity tag of an object in a body.
pub const KEY: &str = "_etag";

const DIGITS: [u8; 16] = *b"0123456789abcdef";

/// The tag of an object, in its quotes: the first 128 bits of the SHA-256 of its bytes, so that it changes with every
/// byte that a client could see.
pub fn of(json: &[u8]) -> String {
    let digest = Sha256::digest(json);
    let mut tag = [b'"'; 34];
    for (pair, byte) in tag[1..33].chunks_exact_mut(2).zip(&digest[..16]) {
        pair.copy_from_slice(&[byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]));
    }
    String::from_utf8_lossy(&tag).into_owned()
}

/// Writes a tag into the object that `out` ends in, as its last member: `"_etag":"\"…\""`, the value of the `ETag`
/// header. The object has other members.
pub fn append(tag: &str, out: &mut Vec<u8>) {
    if out.pop() != Some(b'}') {
        debug_assert!(false, "an object ends here");
        return;
    }
    let tag = serde_json::Value::from(tag);
    out.extend_from_slice(format!(",\"{KEY}\":{tag}}}").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_the_hash_of_the_bytes_and_changes_with_each() {
        assert_eq!(of(b""), "\"e3b0c44298fc1c149afbf4c8996fb924\"");
        assert_ne!(of(br#"{"a":1}"#), of(br#"{"a": 1}"#));
    }

    #[test]
    fn a_carried_tag_is_the_headers_value() {
        let mut json = br#"{"a":1}"#.to_vec();
        append(&of(br#"{"a":1}"#), &mut json);
        let read: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(read[KEY], of(br#"{"a":1}"#));
        assert_eq!(read["a"], 1);
    }
}
