use std::fmt::Write as _;
use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{Includable, Kind, Plan, PlanField, Profile, SeenFields};
use serde_json::Value;

use super::names::{Names, spelled};

/// The start of every module.
const HEAD: &str = "\
// Made by `gatewright types --lang ts` from the declared entities. Do not edit: run it again instead.

/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
";

/// The fields that a record of users shows.
fn user(profile: Option<&Profile>, directory: Option<&Plan>) -> String {
    let mut user =
        "\n/** An account, as a relation to it shows it. */\nexport interface User {\n  readonly id: string;\n"
            .to_owned();
    let public = profile.into_iter().flat_map(Profile::fields).filter(|(_, is_public)| *is_public);
    let public = public.map(|(field, _)| (field, "For signed-in callers."));
    let listed = directory.into_iter().flat_map(Plan::fields).map(|field| (field, "For readers of the directory."));
    let mut fields: Vec<(&PlanField, &str)> = public.collect();
    for (field, about) in listed {
        if fields.iter().all(|(known, _)| known.key() != field.key()) {
            fields.push((field, about));
        }
    }
    for (field, about) in fields {
        let kind = match field.kind() {
            Kind::Int | Kind::Float => "number".to_owned(),
            Kind::Bool => "boolean".to_owned(),
            // A profile has no files.
            Kind::Json | Kind::File => "Json".to_owned(),
            Kind::List => list(&of_profile(field)),
            Kind::Enum => words(field),
            Kind::String | Kind::Text | Kind::Decimal | Kind::Date | Kind::Timestamp | Kind::Uuid | Kind::Relation => {
                "string".to_owned()
            }
        };
        line(&mut user, &format!("  /** {about} */"));
        line(&mut user, &format!("  readonly {}?: {kind} | null;", field.key()));
    }
    user.push_str("}\n");
    user
}

/// The name of the type of files.
const FILE: &str = "StoredFile";

/// A file that a record has, and how a body names one.
fn file(case: JsonCase) -> String {
    let content_type = case.spell("content_type");
    format!(
        "\n/** A file of a record. `url` is the path of its download. */\nexport interface {FILE} {{\n  readonly id: string;\n  \
         readonly name: string;\n  readonly size: number;\n  readonly {content_type}: string;\n  readonly sha256: string;\n  \
         readonly url: string;\n}}\n"
    )
}

/// A file in a body.
const NAMED_FILE: &str = "{ id: string }";

/// The suffixes of an entity's further types.
const SUFFIXES: [&str; 2] = ["Create", "Update"];

/// The whole module.
pub(super) fn module(case: JsonCase, plans: &[Arc<Plan>], profile: Option<&Profile>) -> String {
    let served: Vec<&Arc<Plan>> = plans.iter().filter(|plan| plan.crud()).collect();
    let (mut module, entities) = interfaces(case, plans, &served, profile, "number");
    module.insert_str(0, HEAD);
    module.push_str("\n/** Every entity by its path, for `@gatewright/client`. */\nexport interface Schema {\n");
    for (plan, name) in &entities {
        let relations = relations(plan, plans, case).join("; ");
        let relations = if relations.is_empty() { "{}".to_owned() } else { format!("{{ {relations} }}") };
        line(&mut module, &format!("  {}: {{", quoted(plan.table())));
        let [create, update] = if plan.is_read_only() {
            ["never".to_owned(), "never".to_owned()]
        } else {
            [format!("{name}Create"), format!("{name}Update")]
        };
        line(&mut module, &format!("    record: {name};\n    create: {create};\n    update: {update};"));
        line(&mut module, &format!("    relations: {relations};\n    trash: {};\n  }};", plan.soft_delete()));
    }
    module.push_str("}\n");
    module
}

/// The interfaces of entities, and the name of each. `wide` is the type of integers that a number does not hold exactly.
pub(super) fn interfaces<'a>(
    case: JsonCase,
    plans: &'a [Arc<Plan>],
    shown: &[&'a Arc<Plan>],
    profile: Option<&Profile>,
    wide: &'static str,
) -> (String, Vec<(&'a Plan, String)>) {
    let mut names = Names::new(["Json", "User", "Schema", FILE, "Entities", "Caller", "Database", "Refusal"]);
    let entities: Vec<(&Plan, String)> = shown.iter().map(|plan| (&***plan, names.of(plan.name(), SUFFIXES))).collect();
    let directory = plans.iter().find(|plan| plan.is_directory());
    let mut module = user(profile, directory.map(|plan| &**plan));
    if shown.iter().any(|plan| plan.fields().any(|field| field.files().is_some())) {
        module.push_str(&file(case));
    }
    for (plan, name) in &entities {
        let entity = Entity { plan, plans, name, case, wide, enums: enums(plan, name, &mut names) };
        entity.write(&mut module);
    }
    (module, entities)
}

/// One entity, prepared for the module.
struct Entity<'a> {
    plan: &'a Plan,
    plans: &'a [Arc<Plan>],
    name: &'a str,
    case: JsonCase,
    wide: &'static str,
    /// The names of the enums by the keys of their fields.
    enums: Vec<(&'a str, String)>,
}

impl Entity<'_> {
    fn write(&self, out: &mut String) {
        for (key, name) in &self.enums {
            let words =
                self.plan.fields().filter(|field| field.key() == *key).flat_map(|field| field.constraints().values);
            let words = words.map(|word| quoted(word)).collect::<Vec<_>>().join(" | ");
            line(out, &format!("\nexport type {name} = {words};"));
        }
        self.record(out);
        if self.plan.is_read_only() {
            return;
        }
        self.body(out, "Create", "What creates a record", true);
        self.body(out, "Update", "What changes a record", false);
    }

    fn record(&self, out: &mut String) {
        let about = self.plan.description().map(comment).unwrap_or_default();
        line(out, &format!("\n/** A record of {}.{about} */\nexport interface {} {{", self.plan.name(), self.name));
        line(out, "  readonly id: string;");
        for field in self.plan.fields() {
            self.about(out, field);
            let readonly = if field.is_writable() { "" } else { "readonly " };
            // Other callers get no such member.
            let optional = if self.plan.is_read_by_some(field) { "?" } else { "" };
            line(out, &format!("  {readonly}{}{optional}: {};", field.key(), self.read(field)));
        }
        for name in self.plan.times() {
            line(out, &format!("  readonly {}: string;", self.case.spell(name)));
        }
        if self.plan.soft_delete() {
            line(out, &format!("  readonly {}: string | null;", self.case.spell("deleted_at")));
        }
        line(out, "}");
    }

    fn body(&self, out: &mut String, suffix: &str, about: &str, is_whole: bool) {
        line(out, &format!("\n/** {about} of {}. */\nexport interface {}{suffix} {{", self.plan.name(), self.name));
        if is_whole && self.plan.client_ids() {
            line(out, "  /** A UUID of version 7 or 4. */\n  id?: string;");
        }
        for field in self.plan.fields().filter(|field| field.is_writable()) {
            self.about(out, field);
            let is_needed =
                is_whole && field.is_required() && !field.has_default() && !self.plan.is_read_by_some(field);
            let kind = if is_whole { self.written(field) } else { self.changed(field) };
            line(out, &format!("  {}{}: {kind};", field.key(), if is_needed { "" } else { "?" }));
        }
        line(out, "}");
    }

    /// Constraints that the type cannot express.
    fn about(&self, out: &mut String, field: &PlanField) {
        let target = || self.plan.target(field, self.plans).map_or("users", |target| target.name());
        let about = match field.kind() {
            Kind::Decimal => "An exact decimal number.".to_owned(),
            Kind::Date => "A day, `YYYY-MM-DD`.".to_owned(),
            Kind::Timestamp => "A point in time, RFC 3339.".to_owned(),
            Kind::Uuid => "A UUID.".to_owned(),
            Kind::Relation => format!("The id of one of {}.", target()),
            Kind::String | Kind::Text | Kind::Int | Kind::Float | Kind::Bool | Kind::Enum | Kind::Json => String::new(),
            Kind::File => "A file; a change names it by the id of its upload.".to_owned(),
            Kind::List if self.plan.names_many(field) => format!("The ids of {}. {}", target(), items_about(field)),
            Kind::List => items_about(field),
        };
        let about = format!("{about}{}", field.description().map(comment).unwrap_or_default());
        if !about.is_empty() {
            line(out, &format!("  /** {} */", about.trim_start()));
        }
    }

    fn read(&self, field: &PlanField) -> String {
        or_null(field, &self.kind(field))
    }

    fn written(&self, field: &PlanField) -> String {
        match field.kind() {
            Kind::Decimal => or_null(field, "string | number"),
            Kind::List if field.files().is_some() => list(NAMED_FILE),
            Kind::List => list(&self.item(field, "string | number")),
            Kind::File => or_null(field, NAMED_FILE),
            _ => self.read(field),
        }
    }

    /// A value, or an operator.
    fn changed(&self, field: &PlanField) -> String {
        let operand = match field.kind() {
            Kind::Decimal => "string | number".to_owned(),
            Kind::List => self.written(field),
            _ => self.kind(field),
        };
        let operators = field.operators().iter().map(|name| format!(" | {{ {name}: {operand} }}"));
        format!("{}{}", self.written(field), operators.collect::<String>())
    }

    fn kind(&self, field: &PlanField) -> String {
        match field.kind() {
            Kind::List => list(&self.item(field, "string")),
            Kind::Int if field.is_wide() => self.wide.to_owned(),
            Kind::Json if field.is_required() => "Exclude<Json, null>".to_owned(),
            Kind::Json => "Json".to_owned(),
            Kind::Enum => self.named(field),
            kind => plain(kind).to_owned(),
        }
    }

    /// The type of a list's items; `decimal` is that of exact decimals.
    fn item(&self, field: &PlanField, decimal: &str) -> String {
        match field.items().map(|items| items.kind) {
            Some(Kind::Decimal) => decimal.to_owned(),
            Some(Kind::Enum) => self.named(field),
            Some(Kind::Int) => self.wide.to_owned(),
            Some(kind) => plain(kind).to_owned(),
            None => "never".to_owned(),
        }
    }

    /// The name of an enum's type.
    fn named(&self, field: &PlanField) -> String {
        let named = self.enums.iter().find(|(key, _)| *key == field.key());
        named.map_or_else(|| "string".to_owned(), |(_, name)| name.clone())
    }
}

/// The words of an enum as a type.
fn words(field: &PlanField) -> String {
    field.constraints().values.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" | ")
}

/// The type of the items of a profile's list, whose words have no type of their own.
fn of_profile(field: &PlanField) -> String {
    match field.items().map(|items| items.kind) {
        Some(Kind::Enum) => words(field),
        kind => plain(kind.unwrap_or(Kind::Json)).to_owned(),
    }
}

/// The type of values that need no words.
fn plain(kind: Kind) -> &'static str {
    match kind {
        Kind::Int | Kind::Float => "number",
        Kind::Bool => "boolean",
        Kind::Json | Kind::List => "Json",
        Kind::File => FILE,
        Kind::String
        | Kind::Text
        | Kind::Decimal
        | Kind::Date
        | Kind::Timestamp
        | Kind::Uuid
        | Kind::Enum
        | Kind::Relation => "string",
    }
}

/// What the type of a list's items cannot express.
fn items_about(field: &PlanField) -> String {
    let Some(items) = field.items() else { return String::new() };
    let of = match items.kind {
        Kind::Decimal => "Exact decimal numbers. ",
        Kind::Date => "Days, `YYYY-MM-DD`. ",
        Kind::Timestamp => "Points in time, RFC 3339. ",
        Kind::Uuid => "UUIDs. ",
        _ => "",
    };
    format!("{of}At most {} items{}.", items.most, if items.unique { ", each once" } else { "" })
}

/// An array of that type.
fn list(item: &str) -> String {
    if item.contains(' ') { format!("({item})[]") } else { format!("{item}[]") }
}

/// Whether the field is an enum, or a list of one.
fn has_words(field: &PlanField) -> bool {
    field.items().map_or(field.kind(), |items| items.kind) == Kind::Enum
}

fn enums<'a>(plan: &'a Plan, name: &str, names: &mut Names) -> Vec<(&'a str, String)> {
    let fields = plan.fields().filter(|field| has_words(field));
    fields.map(|field| (field.key(), names.one(&format!("{name}{}", spelled(field.column()))))).collect()
}

/// The relations whose records can be included, by their keys: the paths of their entities, or the type of accounts; in brackets
/// where there are many.
fn relations(plan: &Plan, plans: &[Arc<Plan>], case: JsonCase) -> Vec<String> {
    let one = |(key, way, target): (String, Includable, Option<&Arc<Plan>>)| {
        let to = target.map_or_else(|| "User".to_owned(), |target| quoted(target.table()));
        match way {
            Includable::One => format!("{key}: {to}"),
            Includable::Many => format!("{key}: [{to}]"),
            Includable::Back => {
                format!("{}: {{ back: {to}; more: {} }}", quoted(&key), quoted(&case.spell("has_more")))
            }
        }
    };
    plan.includable(plans, &SeenFields::ALL, Plan::crud).into_iter().map(one).collect()
}

fn or_null(field: &PlanField, kind: &str) -> String {
    // Any JSON has null already.
    let is_nullable = !field.is_required() && field.kind() != Kind::Json;
    if is_nullable { format!("{kind} | null") } else { kind.to_owned() }
}

/// A declared text inside a comment, after a space. It cannot end the comment.
fn comment(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!(" {}", line.replace("*/", "*\u{200a}/"))
}

/// A string literal.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

pub(super) fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("text is written to memory");
}
