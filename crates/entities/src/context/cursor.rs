//! Cursors: a [`Place`] as text that only this service can create.
//!
//! The text is the place, authenticated by HMAC-SHA256 together with the entity and the columns of the order, so that a
//! cursor is valid for one entity and one order. It contains only values that the caller saw: hidden fields cannot be
//! part of the key. A cursor grants no access: with another caller's cursor, callers still see only their own records.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Key, Secret, SigningKey};
use gatewright_db::Value;
use serde_json::Value as Json;

use crate::plan::{Keyset, Place, Plan};

/// The purpose of the key.
const LABEL: &str = "gatewright/cursor/v1";
/// Bytes of the tag: half of the output of HMAC-SHA256.
const TAG: usize = 16;
/// Longer text is not one of our cursors.
const LONGEST: usize = 32 * 1024;

/// The key that cursors are authenticated with.
#[derive(Debug, Clone)]
pub(crate) struct CursorKey(SigningKey);

impl CursorKey {
    /// Accepts the cursors of these secrets too.
    pub(crate) fn accepting(self, secrets: &[Secret]) -> Self {
        Self(self.0.accepting(secrets, LABEL))
    }

    /// Derives the key from a secret that replicas share.
    pub(crate) fn derive(secret: &Secret) -> Self {
        Self(SigningKey::new(secret.derive_key(LABEL)))
    }

    /// A random key, valid only in this process.
    pub(crate) fn random(bytes: [u8; 32]) -> Self {
        Self(SigningKey::new(Key::new(bytes)))
    }

    /// The position as text; `None` if its values are too long for a cursor.
    pub(crate) fn seal(&self, plan: &Plan, order: &Keyset, place: &Place) -> Option<String> {
        let mut parts = vec![Json::Bool(place.after)];
        parts.extend(place.values.iter().map(to_json));
        let payload = Json::Array(parts).to_string();
        let tag = self.0.tag(&parts_of(plan, &order.parts().collect::<Vec<_>>(), payload.as_bytes()));
        let mut bytes = Vec::with_capacity(TAG + payload.len());
        bytes.extend_from_slice(&tag[..TAG]);
        bytes.extend_from_slice(payload.as_bytes());
        let text = URL_SAFE_NO_PAD.encode(bytes);
        (text.len() <= LONGEST).then_some(text)
    }

    /// The place that this service wrote into `text`, for this entity in this order.
    pub(crate) fn open(&self, plan: &Plan, order: &Keyset, text: &str) -> Option<Place> {
        if text.len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (tag, payload) = bytes.split_at_checked(TAG)?;
        if !self.0.is_tag(tag, &parts_of(plan, &order.parts().collect::<Vec<_>>(), payload)) {
            return None;
        }
        let Json::Array(parts) = serde_json::from_slice(payload).ok()? else { return None };
        let (after, values) = parts.split_first()?;
        let values = values.iter().map(from_json).collect::<Option<Vec<_>>>()?;
        (values.len() == order.names().count()).then_some(Place { after: after.as_bool()?, values })
    }
}

/// The input of a cursor's tag.
fn parts_of<'a>(plan: &'a Plan, order: &'a [Cow<'_, str>], payload: &'a [u8]) -> Vec<&'a [u8]> {
    let order = order.iter().map(|part| part.as_bytes());
    std::iter::once(plan.table.as_bytes()).chain(order).chain([payload]).collect()
}

/// Floats are written by their bits, so that the same value is read back.
fn to_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        // Only where another program has written them into a column of another type.
        Value::Bytes(bytes) => serde_json::json!({ "bytes": URL_SAFE_NO_PAD.encode(bytes) }),
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Float(value) => Json::Array(vec![value.to_bits().into()]),
        Value::Text(value) => value.as_str().into(),
        Value::Json(value) => value.as_str().into(),
        Value::Time(value) => gatewright_base::time::format(*value).into(),
    }
}

fn from_json(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(value) => Value::Int(value.as_i64()?),
        Json::String(value) => Value::Text(value.clone()),
        Json::Array(bits) => Value::Float(f64::from_bits(bits.first()?.as_u64()?)),
        Json::Object(bytes) => Value::Bytes(URL_SAFE_NO_PAD.decode(bytes.get("bytes")?.as_str()?).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatewright_base::JsonCase;
    use gatewright_db::Engine;

    use super::*;
    use crate::declare::Declarations;
    use crate::readable::FieldRights;
    use crate::{Entity, Field};

    fn plans() -> Vec<Arc<Plan>> {
        let entity = |name: &str, fields: &[&str]| {
            let entity = Entity::new(name).field(Field::float("weight")).field(Field::string("title"));
            entity.cursor_fields(fields.iter().copied())
        };
        let entities = [
            entity("posts", &["weight"]),
            entity("notes", &["weight"]),
            entity("titles", &["title"]),
            entity("weighttitle", &[]),
            entity("plain", &["weight", "title"]),
        ];
        Plan::compile(&Declarations::check(&entities).unwrap(), Engine::Sqlite, JsonCase::Camel, "")
    }

    #[test]
    fn a_position_can_be_read_back() {
        let (plans, key) = (plans(), CursorKey::derive(&Secret::new("s")));
        let weights = [0.1, -5e-324, f64::MAX, f64::INFINITY].map(Value::Float);
        for weight in weights.into_iter().chain([Value::Null, Value::Bytes(vec![0, 255])]) {
            for after in [true, false] {
                let place = Place { after, values: vec![weight.clone(), Value::Text("\"é\u{1}".into())] };
                assert_eq!(
                    key.open(&plans[0], &plans[0].keyset, &key.seal(&plans[0], &plans[0].keyset, &place).unwrap()),
                    Some(place)
                );
            }
        }
    }

    #[test]
    fn a_cursor_is_valid_only_for_its_list_and_its_key() {
        let (plans, key) = (plans(), CursorKey::derive(&Secret::new("s")));
        let place = Place { after: true, values: vec![Value::Float(1.5), Value::Text("x".into())] };
        let text = key.seal(&plans[0], &plans[0].keyset, &place).unwrap();
        assert!(key.open(&plans[0], &plans[0].keyset, &text).is_some());
        for other in &plans[1..] {
            assert_eq!(key.open(other, &other.keyset, &text), None, "{}", other.name());
        }
        assert_eq!(CursorKey::derive(&Secret::new("t")).open(&plans[0], &plans[0].keyset, &text), None);
        assert_eq!(CursorKey::random([0; 32]).open(&plans[0], &plans[0].keyset, &text), None);
    }

    #[test]
    fn a_cursor_is_valid_only_for_its_order_and_has_a_maximum_length() {
        let (plans, key) = (plans(), CursorKey::derive(&Secret::new("s")));
        let (plan, order) = (&plans[4], |text: &str| plans[4].order.parse(text, &FieldRights::ALL).unwrap());
        let place = Place { after: true, values: vec![Value::Text("x".into()), Value::Text("id".into())] };
        let text = key.seal(plan, &order("-title"), &place).unwrap();
        assert_eq!(key.open(plan, &order("-title"), &text), Some(place));
        for other in ["title", "weight", "-weight", "-title,weight", "id"] {
            assert_eq!(key.open(plan, &order(other), &text), None, "{other}");
        }
        let long = Place { after: true, values: vec![Value::Text("x".repeat(LONGEST)), Value::Text("id".into())] };
        assert_eq!(key.seal(plan, &order("-title"), &long), None);
    }

    #[test]
    fn a_changed_cursor_is_invalid() {
        let (plans, key) = (plans(), CursorKey::derive(&Secret::new("s")));
        let place = Place { after: true, values: vec![Value::Float(1.5), Value::Text("x".into())] };
        let text = key.seal(&plans[0], &plans[0].keyset, &place).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(&plans[0], &plans[0].keyset, &URL_SAFE_NO_PAD.encode(changed)), None, "{bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(key.open(&plans[0], &plans[0].keyset, &URL_SAFE_NO_PAD.encode(&bytes[..cut])), None, "{cut}");
        }
        for text in ["x", "'; DROP TABLE posts; --", &format!("{text}="), &format!("{text}A"), &"A".repeat(LONGEST + 1)]
        {
            assert_eq!(key.open(&plans[0], &plans[0].keyset, text), None);
        }
    }
}
