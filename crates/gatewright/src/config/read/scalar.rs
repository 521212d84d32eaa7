use std::net::SocketAddr;

use gatewright_base::{Grants, JsonCase, Secret, nearest};
use gatewright_http::TrustedProxies;
use url::Url;

use super::node::{Node, Value};
use super::report::Report;
use super::secret;
use super::setting::SECRET;

/// A type that one setting can be read into.
pub(crate) trait FromNode: Sized {
    /// The value, or a problem in `report`.
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self>;

    /// The type as the reference names it, in Markdown.
    fn kind() -> String;

    /// The plural of the type's name.
    fn kinds() -> String {
        format!("{}s", Self::kind())
    }
}

/// A setting whose value is one of a few words.
pub(crate) trait Keyword: Sized + Copy + PartialEq + 'static {
    /// Each word and what it means.
    const WORDS: &'static [(&'static str, Self)];
}

pub(super) fn text<'a>(node: &'a Node, report: &Report<'_>, expected: &str) -> Option<&'a str> {
    match (&node.value, &node.raw) {
        (Value::Text(text), _)
        | (Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Datetime(_), Some(text)) => Some(text),
        _ => {
            report.expected(node, expected);
            None
        }
    }
}

fn parsed<T>(node: &Node, report: &Report<'_>, expected: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let value = parse(text(node, report, expected)?);
    if value.is_none() {
        report.add(node, &format!("expected {expected}"));
    }
    value
}

impl FromNode for String {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        text(node, report, "text").map(str::to_owned)
    }

    fn kind() -> String {
        "string".to_owned()
    }
}

impl FromNode for Secret {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        match &node.value {
            Value::Table(table) => secret::elsewhere(table, node, report),
            _ => secret::in_place(text(node, report, secret::EXPECTED)?, node, report),
        }
    }

    fn kind() -> String {
        SECRET.to_owned()
    }
}

impl FromNode for bool {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        match node.value {
            Value::Bool(truth) => Some(truth),
            _ => {
                report.expected(node, "true or false");
                None
            }
        }
    }

    fn kind() -> String {
        "boolean".to_owned()
    }
}

impl FromNode for i64 {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        match node.value {
            Value::Integer(number) => Some(number),
            _ => {
                report.expected(node, "a whole number");
                None
            }
        }
    }

    fn kind() -> String {
        "whole number".to_owned()
    }
}

fn unsigned<T: TryFrom<i64>>(node: &Node, report: &Report<'_>, most: &str) -> Option<T> {
    let number = i64::from_node(node, report)?;
    let value = T::try_from(number).ok();
    if value.is_none() {
        report.add(node, &format!("expected a whole number of 0 to {most}, got {number}"));
    }
    value
}

impl FromNode for u32 {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        unsigned(node, report, "4294967295")
    }

    fn kind() -> String {
        "whole number".to_owned()
    }
}

impl FromNode for u64 {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        unsigned(node, report, "9223372036854775807")
    }

    fn kind() -> String {
        "whole number".to_owned()
    }
}

impl FromNode for usize {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        unsigned(node, report, "9223372036854775807")
    }

    fn kind() -> String {
        "whole number".to_owned()
    }
}

impl FromNode for f64 {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        match node.value {
            #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
            Value::Integer(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => {
                report.expected(node, "a number");
                None
            }
        }
    }

    fn kind() -> String {
        "number".to_owned()
    }
}

impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            report.expected(node, "a list, such as [\"a\", \"b\"]");
            return None;
        };
        let read: Vec<Option<T>> =
            items.iter().enumerate().map(|(index, item)| T::from_node(item, &report.item(index))).collect();
        read.into_iter().collect()
    }

    fn kind() -> String {
        format!("list of {}", T::kinds())
    }
}

/// A description of a listening address, for messages.
pub const LISTEN_ADDRESS: &str = "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\"";

/// Parses a listening address; `localhost` is 127.0.0.1.
pub fn listen_address(text: &str) -> Option<SocketAddr> {
    text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}")).parse().ok()
}

impl FromNode for SocketAddr {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        parsed(node, report, LISTEN_ADDRESS, listen_address)
    }

    fn kind() -> String {
        "address and port".to_owned()
    }
}

impl FromNode for Url {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        parsed(node, report, "a URL, such as \"https://example.com\"", |text| text.parse().ok())
    }

    fn kind() -> String {
        "URL".to_owned()
    }
}

impl FromNode for TrustedProxies {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let networks: Vec<Network> = FromNode::from_node(node, report)?;
        Self::parse(&networks).ok()
    }

    fn kind() -> String {
        Vec::<Network>::kind()
    }
}

/// The text of a network that [`TrustedProxies`] accepts.
struct Network(String);

impl FromNode for Network {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        parsed(node, report, "a network or an address, such as \"10.0.0.0/8\" or \"::1\"", |text| {
            TrustedProxies::parse(&[text]).ok().map(|_| Self(text.to_owned()))
        })
    }

    fn kind() -> String {
        "network".to_owned()
    }
}

impl AsRef<str> for Network {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromNode for Grants {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let texts = Vec::<String>::from_node(node, report)?;
        Self::parse(&texts).map_err(|error| report.add(node, &error.to_string())).ok()
    }

    fn kind() -> String {
        "list of permissions".to_owned()
    }
}

impl<K: Keyword> FromNode for K {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let words = K::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let expected = format!("one of {words}");
        let text = text(node, report, &expected)?;
        let meaning = K::WORDS.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if meaning.is_none() {
            let suggestion = nearest(text, K::WORDS.iter().map(|(word, _)| *word))
                .map(|near| format!("; did you mean \"{near}\"?"))
                .unwrap_or_default();
            report.add(node, &format!("expected {expected}, got {text:?}{suggestion}"));
        }
        meaning
    }

    fn kind() -> String {
        words(K::WORDS.iter().map(|(word, _)| *word))
    }

    fn kinds() -> String {
        Self::kind()
    }
}

/// The allowed words, as the reference shows them.
pub(crate) fn words(words: impl Iterator<Item = &'static str>) -> String {
    words.map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}

impl Keyword for JsonCase {
    const WORDS: &'static [(&'static str, Self)] = &[("camel", Self::Camel), ("snake", Self::Snake)];
}

/// The value as JSON; dates and times become text.
pub(crate) fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Text(text) | Value::Datetime(text) => text.clone().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Table(table) => table.0.iter().map(|(key, entry)| (key.clone(), json(&entry.node))).collect(),
    }
}
