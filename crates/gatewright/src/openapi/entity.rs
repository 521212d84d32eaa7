//! The endpoints of one entity.

use std::collections::BTreeSet;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::access::Demand;
use gatewright_entities::{Action, Plan, PlanField};
use gatewright_http::entity_tag;
use serde_json::{Map, Value, json};
use utoipa::openapi::path::{HttpMethod, Parameter};
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaFormat, SchemaType, Type,
};
use utoipa::openapi::{RefOr, Schema};

use super::names::Page;
use super::subject::Subject;
use super::words::{
    Described, Part, boolean, content, empty, header, in_header, in_path, instant, integer, json, json_body, list_of,
    named, object, or_null, patch_body, query, string, typed,
};
use super::{Draft, batch, files, list, schema, streams};
use crate::Config;

pub(super) fn describe(draft: &mut Draft, config: &Config, plan: &Arc<Plan>, plans: &[Arc<Plan>]) {
    let subject = Subject::new(config, plan, plans);
    draft.tag(plan.name(), &subject.about());
    subject.schemas(draft);
    if plan.is_read_only() {
        for described in [subject.list(draft), subject.get(draft)] {
            draft.add(described);
        }
        return;
    }
    for described in [
        subject.list(draft),
        subject.create(draft),
        subject.get(draft),
        subject.update(draft, HttpMethod::Put),
        subject.update(draft, HttpMethod::Patch),
        subject.delete(draft),
        subject.events(draft),
    ] {
        draft.add(described);
    }
    // Last: the plain operations are what most readers look for.
    if plan.soft_delete() {
        let restore = subject.restore(draft);
        draft.add(restore);
    }
    for described in subject.files(draft) {
        draft.add(described);
    }
    for described in batch::describe(draft, &subject) {
        draft.add(described);
    }
}

impl Subject<'_> {
    fn about(&self) -> String {
        let plan = self.plan;
        let owned = if plan.rules().owned { " Each caller reads and changes only their own records." } else { "" };
        let relations: Vec<String> = plan
            .fields()
            .filter_map(|field| Some((field.key(), plan.target(field, self.plans).filter(|to| to.crud())?.name())))
            .map(|(key, target)| format!(" `{key}` is the id of a record of {target}."))
            .collect();
        let ruled: Vec<&str> =
            Action::ALL.into_iter().filter(|action| plan.is_ruled(*action)).map(Action::as_str).collect();
        let ruled = match ruled.as_slice() {
            [] => String::new(),
            actions => format!(
                " Access rules decide for each record who may {}. A record that the caller may not read returns 404.",
                actions.join(", ")
            ),
        };
        let declared = plan.description().map(|text| format!("{text} ")).unwrap_or_default();
        format!("{declared}The records of {}.{owned}{ruled}{}", plan.name(), relations.concat())
    }

    fn schemas(&self, draft: &mut Draft) {
        let (plan, case, name) = (self.plan, draft.case, &self.name);
        let schemas = &mut draft.components.schemas;
        let mut add = |suffix: &str, schema: ObjectBuilder| {
            schemas.insert(format!("{name}{suffix}"), schema.into());
        };
        let members = members(plan, case);
        let read_by_some: BTreeSet<&str> =
            plan.fields().filter(|field| plan.is_read_by_some(field)).map(PlanField::key).collect();
        let (always, sometimes): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|(key, _)| !read_by_some.contains(&**key));
        let view = typed(Type::Object);
        let view = self::members(plan, case).into_iter().fold(view, |view, (key, schema)| view.property(key, schema));
        let included = typed(Type::Object).description(Some("The requested related records, by field."));
        let view = view.property("_included", included).property(entity_tag::KEY, carried_tag());
        let view = if plan.has_index_of_words() { view.property("_highlights", highlights()) } else { view };
        add("View", view.examples([self.example(case)]));
        let record = sometimes.into_iter().fold(object(always), |record, (key, schema)| record.property(key, schema));
        add("", record.examples([self.example(case)]));
        if plan.is_read_only() {
            return;
        }
        let writable = || plan.fields().filter(|field| field.is_writable());
        let body = |required: bool| {
            writable().fold(
                typed(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false))),
                |body, field| {
                    let value = schema::write(field);
                    let value: Part = if required {
                        value.into()
                    } else {
                        schema::change(field, value, &[Type::String, Type::Number]).into()
                    };
                    let body = body.property(field.key(), value);
                    let needed =
                        required && field.is_required() && !field.has_default() && !read_by_some.contains(field.key());
                    if needed { body.required(field.key()) } else { body }
                },
            )
        };
        let sendable =
            |body: ObjectBuilder| ignored(plan, case).fold(body, |body, (key, schema)| body.property(key, schema));
        let create = sendable(body(true));
        let create = if plan.client_ids() { create.property("id", schema::new_id()) } else { create };
        add("Create", create.examples([self.example_body()]));
        add("Update", sendable(body(false)).examples([self.example_body()]));
    }

    fn list(&self, draft: &Draft) -> Described {
        let case = draft.case;
        let common = || -> [(String, Part); 2] {
            let more = boolean().description(Some("Whether there is another page in the direction of reading."));
            [("data".to_owned(), list_of(named(&self.view())).into()), (case.spell("has_more"), more.into())]
        };
        let numbered: [(String, Part); 2] = [
            ("page".to_owned(), integer().minimum(Some(1)).into()),
            ("limit".to_owned(), integer().minimum(Some(1)).into()),
        ];
        let cursor = or_null(Type::String).description(Some("The cursor of the next page, if there is one."));
        let page = OneOfBuilder::new()
            .item(
                object(common().into_iter().chain(numbered))
                    .property(
                        "total",
                        integer()
                            .minimum(Some(0))
                            .description(Some("The number of records on all pages, unless `total=none`.")),
                    )
                    .property(
                        case.spell("total_is_estimate"),
                        boolean().description(Some(
                            "True if `total=estimate` stopped counting: there are at least this many records.",
                        )),
                    )
                    .property(
                        "cursor",
                        string().description(Some(
                            "The cursor to continue with, if the page ended early because it would be too large.",
                        )),
                    ),
            )
            .item(object(common().into_iter().chain([("cursor".to_owned(), cursor.into())])))
            .item(groups(case));
        let example = json!({
            "data": [self.example(case)], "total": 1, "page": 1, "limit": 25, (case.spell("has_more")): false,
        });
        self.operation(draft, HttpMethod::Get, &self.collection, "list", Action::Read)
            .parameters(list::parameters(self.plan, self.plans, case))
            .about(export(self.plan))
            .answers(
                200,
                json("One page of the records that the caller may read.", page, Some(example))
                    .content("text/csv", content(string(), None))
                    .content("application/x-ndjson", content(string(), None))
                    .header("Event-Cursor", event_cursor()),
            )
            .fails(&[429, 503], Page::Never)
    }

    fn create(&self, draft: &Draft) -> Described {
        let made = self.one("The created record.", draft.case).header("Location", header("Its path.", string()));
        let described = self.operation(draft, HttpMethod::Post, &self.collection, "create", Action::Create);
        let described = if self.plan.takes_upserts() {
            let found =
                "With `on_conflict`: the record that exists, as it is now. A caller who may not read it gets 409.";
            let found = self.some(found, &self.view(), draft.case);
            described.parameters(upsert()).answers(200, found)
        } else {
            described
        };
        described
            .body(files::or_form(
                self.plan,
                json_body(named(&format!("{}Create", self.name)), Some(self.example_body())),
            ))
            .answers(201, made)
            .fails(&[409, 413, 415, 422], Page::Never)
    }

    fn get(&self, draft: &Draft) -> Described {
        let known = in_header("If-None-Match", "Entity tags of the versions that the caller already has.", string());
        self.operation(draft, HttpMethod::Get, &self.record, "get", Action::Read)
            .parameter(id())
            .parameter(if_match())
            .parameter(known)
            .parameters(list::view(self.plan, self.plans))
            .answers(200, self.some("The record.", &self.view(), draft.case).header("Event-Cursor", event_cursor()))
            .answers(304, empty("The caller already has the current version.").header("ETag", etag()))
            .fails(&[404, 412, 413], Page::Never)
    }

    fn restore(&self, draft: &Draft) -> Described {
        let path = format!("{}/_restore", self.record);
        self.operation(draft, HttpMethod::Post, &path, "restore", Action::Update)
            .about("Undoes a deletion.")
            .parameter(id())
            .answers(
                200,
                self.some(
                    "The restored record. A caller who may not read it gets its id and its times.",
                    &self.view(),
                    draft.case,
                ),
            )
            .fails(&[404, 409, 422], Page::Never)
    }

    fn update(&self, draft: &Draft, method: HttpMethod) -> Described {
        let is_put = method == HttpMethod::Put;
        let verb = if is_put { "put" } else { "update" };
        let (schema, example) = (named(&format!("{}Update", self.name)), Some(self.example_body()));
        let body = if is_put { json_body(schema, example) } else { patch_body(schema, example) };
        self.operation(draft, method, &self.record, verb, Action::Update)
            .about(
                "Changes the fields in the body and leaves the others unchanged, with PUT and with PATCH. A merge patch also \
                 merges objects inside of JSON fields.",
            )
            .parameter(id())
            .parameter(if_match())
            .parameter(if_none_match())
            .body(files::or_form(self.plan, body))
            .answers(
                200,
                self.some(
                    "The updated record. A caller who may not read it gets its id, its times and the fields they \
                     sent.",
                    &self.view(),
                    draft.case,
                ),
            )
            .fails(&[404, 409, 412, 413, 415, 422], Page::Never)
    }

    fn delete(&self, draft: &Draft) -> Described {
        self.operation(draft, HttpMethod::Delete, &self.record, "delete", Action::Delete)
            .parameter(id())
            .parameter(if_match())
            .parameter(if_none_match())
            .answers(204, empty("The record is deleted."))
            .fails(&[404, 409, 412, 422], Page::Never)
    }

    fn events(&self, draft: &Draft) -> Described {
        let path = format!("{}/_events", self.collection);
        let described = self
            .operation(draft, HttpMethod::Get, &path, "events", Action::Read)
            .about(
                "Server-sent events, one for each write of a record that the caller could read: `entity.created`, \
                 `entity.updated` and `entity.deleted`. The stream stays open until the client disconnects or loses \
                 access. If `events.replay_seconds` is not 0, it starts with `ready`, each frame has a position as \
                 its `id`, and `gap` means that events may be missing.",
            )
            .parameter(list::filter());
        streams::stream(described)
    }

    /// `{"data":{…}}`
    fn one(&self, about: &str, case: JsonCase) -> ResponseBuilder {
        self.some(about, &self.name, case)
    }

    fn some(&self, about: &str, schema: &str, case: JsonCase) -> ResponseBuilder {
        let data = object([("data".to_owned(), named(schema))]);
        json(about, data, Some(json!({ "data": self.example(case) }))).header("ETag", etag())
    }

    fn example(&self, case: JsonCase) -> Value {
        let mut record = Map::from_iter([("id".to_owned(), Value::from(schema::ID))]);
        record.extend(
            self.plan
                .fields()
                .filter(|field| !self.plan.is_read_by_some(field))
                .map(|field| (field.key().to_owned(), schema::example(field))),
        );
        let now = "2026-01-31T12:00:00.000000Z";
        record.extend(self.plan.times().iter().map(|name| (case.spell(name), now.into())));
        record.extend(self.plan.soft_delete().then(|| (case.spell("deleted_at"), Value::Null)));
        record.into()
    }

    fn example_body(&self) -> Value {
        let known = self.plan.fields().filter(|field| !self.plan.is_read_by_some(field));
        let writable = known.filter(|field| field.is_writable());
        writable.map(|field| (field.key().to_owned(), schema::example(field))).collect::<Map<_, _>>().into()
    }
}

/// How a list becomes an export, and who may.
fn export(plan: &Plan) -> String {
    let by_parameter = if plan.takes_format() { "`format` or " } else { "" };
    let needs = match plan.rules().export.as_ref().and_then(Demand::permission) {
        Some(permission) => {
            format!(" An export needs the permission `{permission}`, and a token the scope `{}:export`.", plan.table())
        }
        None => String::new(),
    };
    format!(
        "With {by_parameter}`Accept`, all records that match are returned as a file, of one moment, in the list's order.{needs}"
    )
}

/// The cursor for a stream that receives everything that happens after this answer.
fn event_cursor() -> utoipa::openapi::Header {
    header("A position for `since` of event streams, unless `events.replay_seconds` is 0.", string())
}

/// The members of a record in their order.
fn members(plan: &Plan, case: JsonCase) -> Vec<(String, Part)> {
    let made = if plan.client_ids() { "Chosen by the client or the server." } else { "Generated by the server." };
    let id = ("id".to_owned(), string().description(Some(made)).read_only(true));
    let fields = plan.fields().map(|field| (field.key().to_owned(), schema::read(field).into()));
    let deleted = or_null(Type::String)
        .format(Some(SchemaFormat::Custom("date-time".to_owned())))
        .description(Some("When the record was deleted; null if it is not deleted."))
        .read_only(true);
    let trash = plan.soft_delete().then(|| (case.spell("deleted_at"), deleted));
    let own = |(key, schema): (String, ObjectBuilder)| (key, Part::from(schema));
    let id = [id].into_iter().map(own);
    id.chain(fields).chain(times(plan, case).map(own)).chain(trash.map(own)).collect()
}

/// Members that may be sent back but are ignored.
fn ignored(plan: &Plan, case: JsonCase) -> impl Iterator<Item = (String, ObjectBuilder)> {
    let anything = |about: &str| {
        ObjectBuilder::new().schema_type(SchemaType::AnyValue).read_only(true).description(Some(about.to_owned()))
    };
    let trash = plan.soft_delete().then_some("deleted_at");
    let own = ["id", "created_at", "updated_at"]
        .into_iter()
        .chain(trash)
        .map(move |name| (case.spell(name), anything("Ignored.")));
    let unwritable = |field: &&PlanField| !field.is_writable();
    let own = own.chain([(entity_tag::KEY.to_owned(), anything("Ignored."))]);
    own.chain(plan.fields().filter(unwritable).map(move |field| (field.key().to_owned(), anything("Ignored."))))
}

fn times(plan: &Plan, case: JsonCase) -> impl Iterator<Item = (String, ObjectBuilder)> {
    plan.times().iter().map(move |name| (case.spell(name), instant().read_only(true)))
}

/// The answer of a list with `group`, `sum`, `min`, `max` or `avg`.
fn groups(case: JsonCase) -> ObjectBuilder {
    let group = typed(Type::Object)
        .property("count", integer().minimum(Some(0)).description(Some("The number of records in the group.")))
        .required("count");
    let more = boolean().description(Some("Whether there are more groups than the 1,000 of a response."));
    let members: [(String, Part); 2] =
        [("data".to_owned(), list_of(group).into()), (case.spell("has_more"), more.into())];
    object(members).additional_properties(Some(AdditionalProperties::FreeForm(false)))
}

/// What makes a create an upsert.
pub(super) fn upsert() -> [Parameter; 2] {
    let fields = "The fields of a declared `unique`, separated by commas. If a record has the same values, it is changed \
                  instead; operators apply to it.";
    let resolution = "`ignore`: leaves the record that exists as it is.";
    let words = string().enum_values(Some(["update", "ignore"]));
    [query("on_conflict", fields, string()).build(), query("resolution", resolution, words).build()]
}

fn id() -> Parameter {
    in_path("id", "The record's id.", string().min_length(Some(1))).example(Some(schema::ID.into())).build()
}

fn if_none_match() -> Parameter {
    let about = "Entity tags that the record must not have; 412 otherwise. `*`: the record must not exist.";
    in_header("If-None-Match", about, string()).build()
}

fn if_match() -> Parameter {
    in_header("If-Match", "The entity tag that the record must still have; 412 otherwise.", string()).build()
}

fn etag() -> utoipa::openapi::Header {
    header("The record's entity tag.", string())
}

fn carried_tag() -> ObjectBuilder {
    string().description(Some("The record's entity tag, with `etag=true`.")).read_only(true)
}

/// What a search found in a record.
fn highlights() -> ObjectBuilder {
    let place = ArrayBuilder::new().items(typed(Type::Integer)).min_items(Some(2)).max_items(Some(2));
    let places = ArrayBuilder::new().items(place).build();
    let about = "With `highlight=true`: by field, start and end of each word that was found, in Unicode code points.";
    typed(Type::Object)
        .description(Some(about))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Array(places)))))
}
