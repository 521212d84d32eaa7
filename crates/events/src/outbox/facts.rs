//! What the outbox stores of an event beside its public data.

use std::time::Duration;

use gatewright_db::Share;
use serde::Serialize;

/// Who has made a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Actor {
    /// The kind.
    pub kind: ActorKind,
    /// The id of the account, or the name of the function. Absent for the system, and for operators without an account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// The kinds of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ActorKind {
    /// An account of a person.
    User,
    /// A service account.
    Service,
    /// An operator, with the operators' rights.
    Operator,
    /// A function, or a hook of the program.
    Function,
    /// The program itself.
    System,
}

/// What is known of the event of a write.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    /// The id of the record. Consumers that are [ordered](super::Consumer::ordered) get the events of a record one after the other.
    pub record: Option<&'a str>,
    /// Who made the write. It is part of the event's data.
    pub actor: Option<&'a Actor>,
    /// The earlier values of the fields that changed, a JSON object, for consumers that want it.
    pub previous: Option<&'a str>,
    /// How many events led to this one.
    pub chain: u8,
}

/// How an event of the program's own is staged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Appending {
    /// For whom its bytes count.
    pub share: Share,
    /// How many events led to this one.
    pub chain: u8,
    /// It is delivered after this time.
    pub delay: Duration,
}

/// `data`, a JSON object, with one more value at its end. `value` is JSON.
pub(super) fn with(data: &str, key: &str, value: &str) -> Option<String> {
    let open = data.trim_end().strip_suffix('}')?;
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    Some(format!("{open}{comma}\"{key}\":{value}}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_added_to_an_object() {
        assert_eq!(with("{}", "a", "1").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(with(r#"{"b":{"c":2}}"#, "a", r#"{"d":[]}"#).as_deref(), Some(r#"{"b":{"c":2},"a":{"d":[]}}"#));
        assert_eq!(with("[]", "a", "1"), None);
    }

    #[test]
    fn an_actor_without_an_id_has_no_id() {
        let json = |actor: &Actor| serde_json::to_string(actor).unwrap();
        assert_eq!(json(&Actor { kind: ActorKind::System, id: None }), r#"{"kind":"system"}"#);
        let function = Actor { kind: ActorKind::Function, id: Some("notify".to_owned()) };
        assert_eq!(json(&function), r#"{"kind":"function","id":"notify"}"#);
    }
}
