//! The arguments of a call as they were sent. The SDK reads every number as a float, so that an operation could not refuse
//! a number that a float does not hold.

use std::collections::BTreeMap;

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message of the protocol, in its bytes. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Sent(Bytes);

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, default)]
    arguments: Option<BTreeMap<String, &'a RawValue>>,
}

impl Sent {
    pub(super) fn new(message: Bytes) -> Self {
        Self(message)
    }

    /// The arguments with these names, as the body of a request. `None` if the message is not a single call that has them.
    pub(super) fn body<'a>(&self, names: impl Iterator<Item = &'a String>) -> Option<Vec<u8>> {
        let message: Message<'_> = serde_json::from_slice(&self.0).ok()?;
        let arguments = message.params.arguments.unwrap_or_default();
        let mut body = Vec::with_capacity(self.0.len());
        for name in names {
            body.push(if body.is_empty() { b'{' } else { b',' });
            body.extend_from_slice(serde_json::to_string(name).ok()?.as_bytes());
            body.push(b':');
            body.extend_from_slice(arguments.get(name)?.get().as_bytes());
        }
        body.extend_from_slice(if body.is_empty() { b"{}" } else { b"}" });
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_text() {
        let sent = |text: &'static str| Sent::new(Bytes::from_static(text.as_bytes()));
        let message = r#"{"id":1,"params":{"name":"t","arguments":{"id":"x","n":18446744073709551617,"b":[1.0,-0]}}}"#;
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let body = sent(message).body(names(&["n", "b"]).iter()).unwrap();
        assert_eq!(body, br#"{"n":18446744073709551617,"b":[1.0,-0]}"#);
        assert_eq!(sent(r#"{"params":{"name":"t"}}"#).body([].iter()).unwrap(), b"{}");
        assert_eq!(sent(message).body(names(&["other"]).iter()), None);
        for other in ["[]", "{}", r#"{"params":{"arguments":{},"arguments":{}}}"#] {
            assert_eq!(sent(other).body([].iter()), None, "{other}");
        }
    }
}
