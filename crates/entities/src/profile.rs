//! Fields of profiles of accounts: declared, parsed and checked like those of entities, as one JSON object for each
//! account. This crate neither stores profiles nor decides who may change them.

use std::borrow::Cow;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_db::{Engine, Sql, Value, dialect};
use serde_json::{Map, Value as Json};

use crate::declare::{DeclarationError, DeclarationErrors, Declarations, DefaultWord, Entity, Field, Kind, Location};
use crate::fragment::quoted;
use crate::plan::{Field as PlanField, Fields, wire_value};
use crate::readable::Readable;
use crate::value::body::{MAX_ERRORS, Mode, malformed};
use crate::value::json::Members;
use crate::value::{BodyError, Draft, Fault, FieldError, code, merge};

/// The most bytes of JSON that the profile of one account has.
pub const MAX_PROFILE_BYTES: usize = 16 * 1024;
/// The most fields of profiles.
const MAX_FIELDS: usize = 50;
/// The member of a request's body.
const PROFILE: &str = "profile";

/// A field of profiles, as declared: nothing is checked before [`Profile::declare`].
///
/// ```
/// use gatewright_entities::{Field, ProfileField};
/// let name = ProfileField::new(Field::string("display_name").max(60)).public();
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileField {
    field: Field,
    public: bool,
}

impl ProfileField {
    /// A field that only its account sees.
    pub fn new(field: Field) -> Self {
        Self { field, public: false }
    }

    /// Every signed-in caller sees it in records that include the account.
    pub fn public(self) -> Self {
        Self { public: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.field.name
    }
}

/// The fields of profiles, checked.
#[derive(Debug)]
pub struct Profile {
    fields: Fields,
    /// By the field's position.
    public: Vec<bool>,
}

impl Profile {
    /// Checks the declared fields. Returns all errors together, like those of the fields of one entity.
    pub fn declare(declared: &[ProfileField], case: JsonCase) -> Result<Self, DeclarationErrors> {
        let mut errors = meaningless(declared);
        if declared.len() > MAX_FIELDS {
            errors.push(wrong(None, None, format!("a profile has at most {MAX_FIELDS} fields")));
        }
        let entity = declared.iter().fold(Entity::new(PROFILE), |entity, field| entity.field(field.field.clone()));
        let declarations = match Declarations::check(&[entity]) {
            Ok(declarations) => declarations,
            Err(DeclarationErrors(more)) => {
                // A field that is refused for profiles has one error only.
                let of = |error: &DeclarationError| error.location.field;
                let more: Vec<_> = more.into_iter().filter(|new| !errors.iter().any(|e| of(e) == of(new))).collect();
                errors.extend(more);
                return Err(DeclarationErrors(errors));
            }
        };
        match declarations.models.first() {
            Some(model) if errors.is_empty() => Ok(Self {
                fields: Fields::declared(model, case),
                public: declared.iter().map(|field| field.public).collect(),
            }),
            Some(_) | None => Err(DeclarationErrors(errors)),
        }
    }

    /// The fields in the order of their declaration, each with whether it is public.
    pub fn fields(&self) -> impl Iterator<Item = (&PlanField, bool)> {
        self.fields.iter().zip(self.public.iter().copied())
    }

    /// The profile `stored` with the changes of a request's body `{"profile": {…}}`. Fields that the body does not name
    /// stay unchanged, and null clears a field. With `is_merge_patch`, an object for a JSON field is merged into what is
    /// stored (RFC 7396). Returns all errors of the body.
    pub fn merge(&self, stored: Option<&str>, body: &[u8], is_merge_patch: bool) -> Result<String, BodyError> {
        let Draft { mut values, .. } = self.read(body, Mode::Update)?;
        let kept = stored.and_then(|stored| serde_json::from_str(stored).ok());
        let Members(mut kept) = kept.unwrap_or(Members(Vec::new()));
        if is_merge_patch {
            let partial = |value: &Option<Value>| value.as_ref().is_some_and(merge::is_partial);
            for (field, value) in self.fields.iter().zip(&mut values).filter(|(_, value)| partial(value)) {
                if let Some(Value::Json(patch)) = value {
                    let stored = kept.iter().find(|(name, _)| *name == field.column).map(|(_, json)| *json);
                    let whole = merge::merged(stored, patch).map_err(|fault| fault.at(&field.key));
                    *value = Some(whole.map_err(|error| BodyError::Invalid(vec![error]))?);
                }
            }
        }
        let changed = self.fields.iter().zip(&values).filter_map(|(field, value)| Some((field, value.as_ref()?)));
        let changed: Vec<(&str, String)> = changed
            .map(|(field, value)| (&*field.column, wire_value(value).unwrap_or(Json::Null).to_string()))
            .collect();
        // What stays keeps its text.
        for (name, json) in &changed {
            match kept.iter_mut().find(|(kept, _)| kept == name) {
                Some((_, kept)) => *kept = json,
                None => kept.push((Cow::Borrowed(name), json)),
            }
        }
        let kept: Vec<String> = kept.iter().map(|(name, json)| format!("{}:{json}", Json::from(&**name))).collect();
        bounded(format!("{{{}}}", kept.join(",")))
    }

    /// The profile of a new account, from a body `{"profile": {…}}`. Each required field must be there or have a default.
    /// Returns all errors of the body.
    pub fn begin(&self, body: &[u8]) -> Result<String, BodyError> {
        let Draft { values, .. } = self.read(body, Mode::Create)?;
        let given = self.fields.iter().zip(&values);
        let given = given.filter_map(|(field, value)| Some((&*field.column, wire_value(value.as_ref()?)?)));
        let given = given.filter(|(_, json)| !json.is_null());
        let members: Vec<String> = given.map(|(name, json)| format!("{}:{json}", Json::from(name))).collect();
        bounded(format!("{{{}}}", members.join(",")))
    }

    /// The keys of required fields that a stored profile does not have. Fields become required, and some ways to sign in
    /// create an account without a profile.
    pub fn missing(&self, stored: Option<&str>) -> Vec<String> {
        let shown = self.shown(stored);
        let required = self.fields.iter().filter(|field| field.is_required());
        required.map(|field| field.key.clone()).filter(|key| shown.get(key).is_none_or(Json::is_null)).collect()
    }

    /// A stored profile as its account sees it: every field, with its default or null if nothing is stored.
    pub fn shown(&self, stored: Option<&str>) -> Map<String, Json> {
        self.select(stored, |_| true)
    }

    fn read(&self, body: &[u8], mode: Mode) -> Result<Draft, BodyError> {
        let Members(members) = serde_json::from_slice(body).map_err(|error| malformed(&error))?;
        let (mut profile, mut errors) = (None, Vec::<FieldError>::new());
        for (key, json) in members {
            if errors.len() == MAX_ERRORS {
                break;
            }
            if key != PROFILE {
                let name: String = key.chars().take(64).collect();
                let message = "cannot be changed here; send {\"profile\": {…}}";
                errors.push(Fault::new(code::UNKNOWN_FIELD, message).at(&name));
            } else if profile.replace(json).is_some() {
                errors.push(Fault::new(code::DUPLICATE, "is given more than once").at(PROFILE));
            }
        }
        match profile {
            _ if !errors.is_empty() => Err(BodyError::Invalid(errors)),
            None => Err(BodyError::Invalid(vec![Fault::new(code::REQUIRED, "is required").at(PROFILE)])),
            Some(json) if !json.starts_with('{') => {
                Err(BodyError::Invalid(vec![Fault::new(code::TYPE, "must be an object").at(PROFILE)]))
            }
            Some(json) => {
                Draft::read(&self.fields, Readable::all(), json.as_bytes(), mode).map_err(|invalid| invalid.error)
            }
        }
    }

    fn has_public(&self) -> bool {
        self.public.contains(&true)
    }

    /// The user as signed-in callers see them: the id and the public fields.
    fn public(&self, id: &str, stored: Option<&str>) -> Vec<u8> {
        let mut user = Map::new();
        user.insert("id".to_owned(), id.into());
        user.extend(self.select(stored, |index| self.public[index]));
        Json::Object(user).to_string().into_bytes()
    }

    fn select(&self, stored: Option<&str>, wanted: impl Fn(usize) -> bool) -> Map<String, Json> {
        let Members(members) = stored.and_then(|json| serde_json::from_str(json).ok()).unwrap_or(Members(Vec::new()));
        let found = |field: &PlanField| members.iter().find(|(key, _)| *key == field.column).map(|(_, json)| *json);
        let fields = self.fields.iter().enumerate().filter(|(index, _)| wanted(*index));
        fields.map(|(_, field)| (field.key.clone(), value_of(field, found(field)))).collect()
    }
}

/// A profile that is not too large to be stored.
fn bounded(profile: String) -> Result<String, BodyError> {
    if profile.len() <= MAX_PROFILE_BYTES {
        return Ok(profile);
    }
    let message = format!("must have at most {MAX_PROFILE_BYTES} bytes in all");
    Err(BodyError::Invalid(vec![Fault::new(code::MAX, message).at(PROFILE)]))
}

/// The value that is shown for a field. A stored value of a type other than the declared one counts as absent; one that
/// only violates a newer bound is shown, and so is any JSON.
fn value_of(field: &PlanField, stored: Option<&str>) -> Json {
    let fits = |json: &str| match field.rule.read(json) {
        _ if field.kind == Kind::Json => true,
        Ok(_) => true,
        Err(fault) => [code::MIN, code::MAX, code::PATTERN, code::DUPLICATE].contains(&fault.code),
    };
    match stored {
        // A list is never null.
        Some("null") if field.kind != Kind::List => Json::Null,
        Some(json) if fits(json) => serde_json::from_str(json).unwrap_or(Json::Null),
        Some(_) | None => field.default_value().unwrap_or(Json::Null),
    }
}

/// Attributes of entities' fields that mean nothing here: a silent one would be a rule that its author believes in.
fn meaningless(declared: &[ProfileField]) -> Vec<DeclarationError> {
    let mut errors = Vec::new();
    for (index, ProfileField { field, .. }) in declared.iter().enumerate() {
        if field.kind == Kind::Relation {
            let message = "a profile has no relations: the type string or uuid keeps an id".to_owned();
            errors.push(wrong(Some((index, field)), Some("type"), message));
        }
        if field.kind == Kind::File {
            errors.push(wrong(Some((index, field)), Some("type"), "a profile has no files".to_owned()));
        }
        // No page asks for JSON, so that an account of a form, a provider or a mailed link would stay without it.
        if field.kind == Kind::Json && field.required && field.default.is_none() {
            let message = "a JSON field of profiles cannot be required without a default: no page can ask for it";
            errors.push(wrong(Some((index, field)), Some("required"), message.to_owned()));
        }
        for (attribute, given) in [
            ("unique", field.unique),
            ("index", field.index),
            ("hidden", field.hidden),
            ("read_only", field.read_only),
            ("renamed_from", field.renamed_from.is_some()),
            ("read", field.read.is_some()),
            ("write", field.write.is_some()),
            ("sequence", field.sequence.is_some()),
            ("default", DefaultWord::of(field).is_some()),
        ] {
            if given {
                let message = format!("{attribute} has no meaning for a field of profiles");
                errors.push(wrong(Some((index, field)), Some(attribute), message));
            }
        }
    }
    errors
}

fn wrong(field: Option<(usize, &Field)>, attribute: Option<&'static str>, message: String) -> DeclarationError {
    DeclarationError {
        location: Location { entity: 0, field: field.map(|(index, _)| index), attribute },
        entity: PROFILE.to_owned(),
        field: field.map(|(_, field)| field.name.chars().take(80).collect()),
        message,
        place: None,
    }
}

/// The public fields of users, as `include` shows them.
#[derive(Debug, Clone)]
pub(crate) struct PublicUsers {
    profile: Arc<Profile>,
    /// Reads the profiles of the users whose ids are in a JSON array.
    pub(crate) sql: Sql,
    /// The same without closed accounts.
    pub(crate) open: Sql,
}

impl PublicUsers {
    /// From the column `profile` of `table`; `None` if no field is public. `closed` is a condition of closed accounts.
    pub(crate) fn new(profile: Arc<Profile>, table: &str, closed: Option<&str>, engine: Engine) -> Option<Self> {
        let among = dialect::is_among(engine, "\"id\"", "?1");
        let sql = format!("SELECT \"id\", \"profile\" FROM {} WHERE {among}", quoted(table));
        let open = closed.map_or_else(|| sql.clone(), |closed| format!("{sql} AND NOT ({closed})"));
        profile.has_public().then_some(Self { profile, sql: sql.into(), open: open.into() })
    }

    /// One user as signed-in callers see them.
    pub(crate) fn show(&self, id: &str, stored: Option<&str>) -> Vec<u8> {
        self.profile.public(id, stored)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile() -> Profile {
        let fields = [
            ProfileField::new(Field::string("display_name").required().min(2).max(9)).public(),
            ProfileField::new(Field::int("birth_year").min(1900)),
            ProfileField::new(Field::decimal("balance")),
            ProfileField::new(Field::choice("theme", ["light", "dark"]).default("light")).public(),
            ProfileField::new(Field::timestamp("seen_at")),
            ProfileField::new(Field::json("extra")),
        ];
        Profile::declare(&fields, JsonCase::Camel).unwrap()
    }

    fn faults(result: Result<String, BodyError>) -> Vec<(String, &'static str)> {
        match result {
            Err(BodyError::Invalid(errors)) => errors.into_iter().map(|error| (error.field, error.code)).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_is_merged_into_what_is_stored() {
        let profile = profile();
        let first =
            br#"{"profile": {"displayName": "Ann", "balance": 12345678901234567890.25, "extra": {"a_b": [1]}}}"#;
        let first = profile.merge(None, first, false).unwrap();
        let second = br#"{"profile": {"birth_year": 1990, "extra": null, "seenAt": "2026-01-31T13:00:00+01:00"}}"#;
        let second = profile.merge(Some(&first), second, false).unwrap();
        assert_eq!(
            Json::from(profile.shown(Some(&second))),
            json!({
                "displayName": "Ann", "birthYear": 1990, "balance": "12345678901234567890.25", "theme": "light",
                "seenAt": "2026-01-31T12:00:00.000000Z", "extra": null,
            })
        );
        let cleared = profile.merge(Some(&second), br#"{"profile": {"theme": null}}"#, false).unwrap();
        assert_eq!(profile.shown(Some(&cleared))["theme"], Json::Null, "null wins over the default");
        let public: Json = serde_json::from_slice(&profile.public("u1", Some(&second))).unwrap();
        assert_eq!(public, json!({ "id": "u1", "displayName": "Ann", "theme": "light" }));
        let public: Json = serde_json::from_slice(&profile.public("u1", None)).unwrap();
        assert_eq!(public, json!({ "id": "u1", "displayName": null, "theme": "light" }));
    }

    #[test]
    fn every_refusal_names_its_field() {
        let profile = profile();
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("{}", &[("profile", code::REQUIRED)]),
            (r#"{"profile": []}"#, &[("profile", code::TYPE)]),
            (r#"{"profile": null}"#, &[("profile", code::TYPE)]),
            (r#"{"profile": {}, "profile": {}}"#, &[("profile", code::DUPLICATE)]),
            (
                r#"{"profile": {}, "roles": ["admin"], "email": "a@b.c"}"#,
                &[("roles", code::UNKNOWN_FIELD), ("email", code::UNKNOWN_FIELD)],
            ),
            (r#"{"profile": {"displayName": null}}"#, &[("displayName", code::REQUIRED)]),
            (r#"{"profile": {"displayName": "A"}}"#, &[("displayName", code::MIN)]),
            (
                r#"{"profile": {"birthYear": "x", "theme": "red", "roles": [], "id": "x", "_included": {}}}"#,
                &[
                    ("birthYear", code::TYPE),
                    ("theme", code::ENUM),
                    ("roles", code::UNKNOWN_FIELD),
                    ("id", code::UNKNOWN_FIELD),
                    ("_included", code::UNKNOWN_FIELD),
                ],
            ),
            (r#"{"profile": {"birthYear": 1990, "birth_year": 1991}}"#, &[("birthYear", code::DUPLICATE)]),
        ];
        for (body, expected) in cases {
            let found = faults(profile.merge(None, body.as_bytes(), false));
            let found: Vec<_> = found.iter().map(|(field, code)| (field.as_str(), *code)).collect();
            assert_eq!(found, *expected, "{body}");
        }
        for body in ["", "[]", "{", "null"] {
            assert!(matches!(profile.merge(None, body.as_bytes(), false), Err(BodyError::Malformed(_))), "{body}");
        }
        let half = "x".repeat(MAX_PROFILE_BYTES / 2);
        let stored = json!({ "left_over": half }).to_string();
        let body = json!({ "profile": { "extra": half } }).to_string();
        assert_eq!(faults(profile.merge(Some(&stored), body.as_bytes(), false)), [("profile".to_owned(), code::MAX)]);
        profile.merge(None, body.as_bytes(), false).unwrap();
    }

    #[test]
    fn stored_values_that_no_longer_fit_are_not_shown_and_not_lost() {
        let profile = profile();
        let stored = r#"{"display_name":"A","birth_year":"long ago","gone":1}"#;
        let shown = profile.shown(Some(stored));
        assert_eq!((&shown["displayName"], &shown["birthYear"]), (&json!("A"), &Json::Null));
        assert!(!shown.contains_key("gone"));
        let merged = profile.merge(Some(stored), br#"{"profile": {"displayName": "Ann"}}"#, false).unwrap();
        let merged: Json = serde_json::from_str(&merged).unwrap();
        assert_eq!(merged, json!({ "display_name": "Ann", "birth_year": "long ago", "gone": 1 }));
    }

    #[test]
    fn declarations_are_checked_like_those_of_entities() {
        let cases = [
            (Field::relation("boss", "users"), "type"),
            (Field::string("code").unique(), "unique"),
            (Field::string("code").index(), "index"),
            (Field::string("code").hidden(), "hidden"),
            (Field::string("code").read_only(), "read_only"),
            (Field::string("code").renamed_from("word"), "renamed_from"),
            (Field::json("settings").required(), "required"),
            (Field::string("id"), "name"),
            (Field::string("Bad"), "name"),
            (Field::string("code").min(5).max(2), "min"),
            (Field::string("code").pattern("("), "pattern"),
            (Field::int("count").default("x"), "default"),
            (Field::new("state", Kind::Enum), "values"),
        ];
        for (field, attribute) in cases {
            let declared = [ProfileField::new(Field::string("fine")), ProfileField::new(field)];
            let DeclarationErrors(errors) = Profile::declare(&declared, JsonCase::Camel).unwrap_err();
            let found: Vec<_> = errors.iter().map(|error| (error.location.field, error.location.attribute)).collect();
            assert_eq!(found, [(Some(1), Some(attribute))], "{errors:?}");
        }
        let many: Vec<_> = (0..51).map(|n| ProfileField::new(Field::int(format!("n{n}")))).collect();
        Profile::declare(&many, JsonCase::Camel).unwrap_err();
        Profile::declare(&many[..50], JsonCase::Camel).unwrap();
    }

    #[test]
    fn a_list_of_a_profile_is_an_array_or_empty() {
        let tags = Field::list("tags", Kind::String).max_items(2).unique_items();
        let profile = Profile::declare(&[ProfileField::new(tags)], JsonCase::Camel).unwrap();
        let empty = json!({ "tags": [] });
        for stored in [None, Some("{}"), Some(r#"{"tags":null}"#), Some(r#"{"tags":7}"#)] {
            assert_eq!(Json::from(profile.shown(stored)), empty, "{stored:?}");
        }
        assert_eq!(profile.missing(None), [""; 0]);
        let stored = profile.merge(None, br#"{"profile": {"tags": ["b", "a"]}}"#, false).unwrap();
        assert_eq!(Json::from(profile.shown(Some(&stored))), json!({ "tags": ["b", "a"] }));
        // One that a later limit forbids is shown.
        let older = r#"{"tags":["a","a","b"]}"#;
        assert_eq!(Json::from(profile.shown(Some(older))), json!({ "tags": ["a", "a", "b"] }));
        for (value, code) in [("null", code::TYPE), (r#"["a","a"]"#, code::DUPLICATE), (r#"["a","b","c"]"#, code::MAX)]
        {
            let body = format!(r#"{{"profile": {{"tags": {value}}}}}"#);
            let Err(BodyError::Invalid(errors)) = profile.merge(Some(&stored), body.as_bytes(), false) else {
                panic!("{value} is refused");
            };
            assert_eq!((&*errors[0].field, errors[0].code), ("tags", code), "{value}");
        }
    }
}
