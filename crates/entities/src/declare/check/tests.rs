use gatewright_db::Value;
use gatewright_db::json::Json;
use serde_json::json;

use super::*;
use crate::Literal;
use crate::access::Action;
use crate::declare::Language;

fn errors(entities: &[Entity]) -> Vec<String> {
    match Declarations::check(entities) {
        Ok(_) => Vec::new(),
        Err(DeclarationErrors(errors)) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn refused(entity: Entity, expected: &str) {
    let errors = errors(&[entity]);
    assert!(errors.iter().any(|error| error.contains(expected)), "{expected:?} is not among {errors:?}");
}

fn with(field: Field) -> Entity {
    Entity::new("posts").field(field)
}

#[test]
fn every_type_and_attribute_can_be_declared() {
    let posts = Entity::new("posts")
        .table("blog_posts")
        .owner("user_id")
        .access(Action::Read, "posts:read")
        .cross_owner_read("posts:audit")
        .max_list_limit(1000)
        .field(Field::string("title").required().unique().min(1).max(200).pattern("^[A-Z]"))
        .field(Field::text("body").default("").index())
        .field(Field::int("views").default(0).min(0).max(i64::MAX))
        .field(Field::float("score").min(0).max(1.5))
        .field(Field::decimal("price").min("0.01").max(1_000).default(9.99))
        .field(Field::boolean("pinned").default(false).required().hidden())
        .field(Field::choice("state", ["draft", "published"]).default("draft"))
        .field(Field::date("day").min("2020-01-01"))
        .field(Field::timestamp("at").max("2100-01-01T00:00:00Z").read_only())
        .field(Field::uuid("key").unique())
        .field(Field::json("meta").default(serde_json::json!({"a": [1]})))
        .field(Field::relation("parent", "posts").on_delete(OnDelete::SetNull))
        .field(Field::relation("user_id", "users").required().hidden().on_delete(OnDelete::Cascade));
    let checked = Declarations::check(&[posts]).unwrap();
    let model = &checked.models[0];
    assert_eq!((&*model.name, &*model.table), ("posts", "blog_posts"));
    assert_eq!(model.owner, Some(12));
    let default = |name: &str| model.fields.iter().find(|field| field.name == name).unwrap().default.clone();
    assert_eq!(default("price"), Some(Value::Text("9.99".into())));
    assert_eq!(default("meta"), Some(Value::Json(Json::read("{\"a\":[1]}").unwrap())));
    assert_eq!(default("title"), None);
}

#[test]
fn an_undeclared_owner_column_is_added_and_hidden() {
    let checked = Declarations::check(&[Entity::new("notes").owner("user_id")]).unwrap();
    let model = &checked.models[0];
    assert_eq!(model.owner_column(), Some("user_id"));
    assert!(model.fields[0].hidden);
}

#[test]
fn errors_have_their_positions() {
    let cases = vec![
        (Entity::new("Posts"), "entity \"Posts\": \"Posts\" is not a valid name"),
        (Entity::new("users"), "is reserved for the service"),
        (Entity::new("posts").table("sessions"), "is reserved for the service"),
        (Entity::new("posts").table("x; DROP TABLE users"), "is not a valid name"),
        (Entity::new("posts").public().owner("user_id"), "keep one of them"),
        (Entity::new("posts").owner("user_id").access(Action::Read, "public"), "keep one of them"),
        (Entity::new("posts").public().access(Action::Create, "posts:write"), "write access alone"),
        (Entity::new("posts").access(Action::Read, "posts"), "write resource:verb"),
        (Entity::new("posts").access(Action::Read, "posts:*"), "wildcard"),
        (Entity::new("posts").cross_owner_read("posts:audit"), "owner_field, which is not set"),
        (Entity::new("posts").owner("created_at"), "cannot be declared"),
        (Entity::new("posts").owner("User Id"), "is not a valid name"),
        (Entity::new("posts").max_list_limit(0), "max_list_limit is 1 to"),
        (Entity::new("posts").max_list_limit(1001), "max_list_limit is 1 to"),
        (with(Field::string("id")), "entity \"posts\", field \"id\": every entity has"),
        (with(Field::string("userName")), "is not a valid name for a field"),
        (with(Field::string("a")).field(Field::int("a")), "declared already"),
        (with(Field::string("a").min(3).max(2)), "entity \"posts\", field \"a\": min 3 is above max 2"),
        (with(Field::string("a").min(-1)), "0 or more"),
        (with(Field::string("a").max("ten")), "0 or more"),
        (with(Field::string("a").pattern("(")), "no regular expression"),
        (with(Field::string("a").default(1)), "the default must be text"),
        (with(Field::string("a").max(2).default("abc")), "the default must have at most 2 characters"),
        (with(Field::string("a").values(["x"])), "values has no meaning for the type string"),
        (with(Field::string("a").required().hidden()), "required and hidden needs a default"),
        (with(Field::string("a").required().read_only()), "required and read_only needs a default"),
        (with(Field::string("a").unique().default("x")), "a unique field has no default"),
        (with(Field::int("a").default("x")), "the default must be a whole number"),
        (with(Field::int("a").min(1.5)), "min must be a whole number"),
        (with(Field::int("a").pattern("x")), "pattern has no meaning"),
        (with(Field::int("a").min(1).default(0)), "the default must be at least 1"),
        (with(Field::float("a").max(f64::INFINITY)), "max must be a number"),
        (with(Field::decimal("a").min("1,5")), "min must be a decimal"),
        (with(Field::boolean("a").default("yes")), "the default must be true or false"),
        (with(Field::boolean("a").min(1)), "min has no meaning"),
        (with(Field::new("a", Kind::Enum)), "an enum needs values"),
        (with(Field::choice("a", ["x", "x"])), "is there twice"),
        (with(Field::choice("a", [""])), "1 to 200 bytes"),
        (with(Field::choice("a", ["x"]).default("y")), "the default must be one of x"),
        (with(Field::date("a").default("2023-02-29")), "the default must be a date"),
        (with(Field::timestamp("a").default("now")), "the default must be a timestamp"),
        (with(Field::json("a").unique()), "unique has no meaning"),
        (with(Field::json("a").default(Literal::Text("a\0".into()))), "U+0000"),
        (with(Field::new("a", Kind::List)), "a list needs of = the type of its items: string, int"),
        (with(Field::list("a", Kind::Json)), "items of a list cannot be json; they can be string, int"),
        (with(Field::list("a", Kind::List)), "items of a list cannot be list"),
        (with(Field::list("a", Kind::Relation)), "items of a list cannot be relation"),
        (with(Field::list("a", Kind::Enum)), "an enum needs values"),
        (with(Field::list("a", Kind::String).values(["x"])), "values has no meaning"),
        (with(Field::list("a", Kind::String).max_items(0)), "max_items is 1 to 10000"),
        (with(Field::list("a", Kind::String).max_items(10_001)), "max_items is 1 to 10000"),
        (with(Field::list("a", Kind::String).required()), "a list always has a value, which may be []"),
        (with(Field::list("a", Kind::String).max(3)), "max_items limits the number of items"),
        (with(Field::list("a", Kind::String).unique()), "unique has no meaning"),
        (with(Field::list("a", Kind::String).index()), "index has no meaning"),
        (with(Field::list("a", Kind::String).default("x")), "the default must be an array of string values"),
        (with(Field::list("a", Kind::String).default("@me")), "this default is the id of an account"),
        (with(Field::list("a", Kind::Int).default(json!([1, "x"]))), "the default must be a whole number"),
        (with(Field::list("a", Kind::Int).max_items(1).default(json!([1, 2]))), "must have at most 1 item"),
        (with(Field::list("a", Kind::String)).label("a"), "no text for readers"),
        (with(Field::list("a", Kind::String)).owner("a"), "the owner's field holds an account's id"),
        (with(Field::list("a", Kind::String)).cursor_fields(["a"]), "a list and has no order"),
        (with(Field::list("a", Kind::String)).search_fields(["a"]), "is not text"),
        (with(Field::list("a", Kind::String)).unique(["a", "b"]), "a list and has no order"),
        (with(Field::string("a").of(Kind::Int)), "of has no meaning for the type string"),
        (with(Field::json("a").max_items(3)), "max_items has no meaning for the type json"),
        (with(Field::json("a").unique_items()), "unique_items has no meaning for the type json"),
        (with(Field::new("a", Kind::Relation)), "a relation needs to"),
        (with(Field::relation("a", "post")), "did you mean \"posts\"?"),
        (with(Field::relation("a", "posts").required().on_delete(OnDelete::SetNull)), "leave a required field empty"),
        (with(Field::relation("a", "posts").default("x")), "default has no meaning"),
        (with(Field::int("a")).owner("a"), "the owner's field holds an account's id"),
        (with(Field::relation("a", "posts")).owner("a"), "the owner's field holds an account's id"),
        (with(Field::string("a").default("u1")).owner("a"), "stamped from the request"),
        (with(Field::string("name")).label("nam"), "there is no field \"nam\"; did you mean \"name\"?"),
        (with(Field::string("a").hidden()).label("a"), "no text for readers"),
        (with(Field::json("a")).label("a"), "no text for readers"),
        (with(Field::relation("a", "posts")).label("a"), "no text for readers"),
        (with(Field::string("a").description("x".repeat(1001))), "field \"a\": a description has at most 1000"),
        (Entity::new("posts").description("é".repeat(1001)), "a description has at most 1000"),
    ];
    for (entity, expected) in cases {
        refused(entity, expected);
    }
}

#[test]
fn contradictory_tenant_declarations_are_refused() {
    let cases = [
        (Entity::new("posts").public().multi_tenant(), "keep one of them"),
        (Entity::new("posts").multi_tenant().access(Action::Read, "public"), "multi_tenant keeps every record"),
        (Entity::new("posts").multi_tenant().owner("tenant_id"), "the owner needs another column"),
        (with(Field::int("tenant_id")).multi_tenant(), "make it a string"),
        (with(Field::string("tenant_id").unique()).multi_tenant(), "a tenant has more than one record"),
        (with(Field::string("tenant_id").default("acme")).multi_tenant(), "stamped from the request"),
        (Entity::new("tenant_members"), "is reserved for the service"),
    ];
    for (entity, expected) in cases {
        refused(entity, expected);
    }
}

#[test]
fn invalid_search_and_cursor_fields_are_refused() {
    let cases = [
        (with(Field::timestamp("deleted_at")).soft_delete(), "it cannot be declared"),
        (with(Field::string("title")).search(Language::SIMPLE, [("titel", 1)]), "did you mean \"title\"?"),
        (with(Field::int("a")).search(Language::SIMPLE, [("a", 1)]), "is not text"),
        (with(Field::string("a").hidden()).search(Language::SIMPLE, [("a", 1)]), "would reveal its values"),
        (with(Field::string("a")).search(Language::SIMPLE, [("a", 1), ("a", 2)]), "search names \"a\" twice"),
        (with(Field::string("a")).search(Language::SIMPLE, [("a", 0)]), "a whole number from 1 to 1000"),
        (with(Field::string("a")).search(Language::SIMPLE, [("a", 1001)]), "a whole number from 1 to 1000"),
        (with(Field::string("a")).search(Language::SIMPLE, [("", 0); 0]), "from 1 to 8 fields"),
        (with(Field::string("a")).search(Language::SIMPLE, ["a"; 9].map(|name| (name, 1))), "from 1 to 8 fields"),
        (with(Field::string("title")).search_fields(["titel"]), "did you mean \"title\"?"),
        (with(Field::int("a")).search_fields(["a"]), "is not text"),
        (with(Field::string("a").hidden()).search_fields(["a"]), "would reveal its values"),
        (with(Field::string("a")).search_fields(["a", "a"]), "twice"),
        (with(Field::string("a").hidden()).cursor_fields(["a"]), "would reveal its values"),
        (with(Field::json("a")).cursor_fields(["a"]), "JSON and has no order"),
        (with(Field::int("a")).cursor_fields(["a", "a"]), "twice"),
        (with(Field::int("a")).cursor_fields(["id", "a"]), "the id comes last"),
        (with(Field::int("a")).cursor_fields(["b", "id"]), "there is no field \"b\""),
        (with(Field::int("a")).owner("user_id").cursor_fields(["user_id"]), "there is no field \"user_id\""),
    ];
    for (entity, expected) in cases {
        refused(entity, expected);
    }
}

#[test]
fn two_entities_share_neither_name_nor_table() {
    let twice = errors(&[Entity::new("posts"), Entity::new("posts")]);
    assert_eq!(twice, ["entity \"posts\": an entity of this name is declared already"]);
    let table = errors(&[Entity::new("posts"), Entity::new("notes").table("posts")]);
    assert_eq!(table, ["entity \"notes\": its table \"posts\" is the one of entity \"posts\""]);
}

#[test]
fn all_errors_are_reported_at_once_with_their_positions() {
    let entities = [
        Entity::new("posts").field(Field::string("title")).field(Field::int("views").min(2).max(1)),
        Entity::new("notes").field(Field::new("state", Kind::Enum)).public().owner("user_id"),
    ];
    let DeclarationErrors(errors) = Declarations::check(&entities).unwrap_err();
    let places: Vec<_> = errors.iter().map(|error| error.location).collect();
    let place = |entity, field, attribute| Location { entity, field, attribute: Some(attribute) };
    assert_eq!(places, [place(0, Some(1), "min"), place(1, Some(0), "values"), place(1, None, "public")]);
}
