//! Helpers for descriptions, on top of utoipa's types.

use serde_json::Value;
use utoipa::openapi::content::{Content, ContentBuilder};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaFormat, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Required, Schema};

use super::Draft;
use super::names::{self, Page};

/// Any part of a schema.
pub(super) type Part = RefOr<Schema>;

/// An operation being described.
pub(super) struct Described {
    method: HttpMethod,
    path: String,
    operation: OperationBuilder,
}

impl Draft {
    /// Begins an operation. Every request can be malformed, and every answer fail to come.
    #[expect(clippy::unused_self, reason = "it reads as what is done to the draft")]
    pub(super) fn operation(&self, method: HttpMethod, path: &str, id: String, tag: &str, summary: &str) -> Described {
        let operation = OperationBuilder::new().operation_id(Some(id)).tag(tag).summary(Some(summary));
        Described { method, path: path.to_owned(), operation }.fails(&[400, 500, 503], Page::Never)
    }

    /// Adds a finished operation.
    pub(super) fn add(&mut self, described: Described) {
        let Described { method, path, operation } = described;
        self.paths.add_path_operation(path, vec![method], operation);
    }
}

impl Described {
    pub(super) fn about(mut self, text: impl Into<String>) -> Self {
        self.operation = self.operation.description(Some(text));
        self
    }

    pub(super) fn parameter(mut self, parameter: impl Into<Parameter>) -> Self {
        self.operation = self.operation.parameter(parameter);
        self
    }

    pub(super) fn parameters(self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        parameters.into_iter().fold(self, Self::parameter)
    }

    pub(super) fn body(mut self, body: RequestBody) -> Self {
        self.operation = self.operation.request_body(Some(body));
        self
    }

    pub(super) fn answers(mut self, status: u16, response: impl Into<RefOr<Response>>) -> Self {
        self.operation = self.operation.response(status.to_string(), response);
        self
    }

    /// The statuses of failures, with the problem that each answers.
    pub(super) fn fails(self, statuses: &[u16], page: Page) -> Self {
        let answer = |described: Self, status: &u16| {
            let name = names::failure_name(*status, page);
            described.answers(*status, RefOr::Ref(Ref::from_response_name(name)))
        };
        statuses.iter().fold(self, answer)
    }

    /// The ways in which a caller may authenticate; `optional` if anonymous callers are allowed.
    pub(super) fn open_to(mut self, schemes: &[&str], optional: bool) -> Self {
        self.operation = self.operation.securities(Some(names::requirements(schemes, optional)));
        self
    }
}

/// A response with a JSON body.
pub(super) fn json(description: &str, schema: impl Into<Part>, example: Option<Value>) -> ResponseBuilder {
    ResponseBuilder::new().description(description).content("application/json", content(schema, example))
}

/// A response without a body.
pub(super) fn empty(description: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(description)
}

/// A response of text of some type.
pub(super) fn textual(description: &str, media_type: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(description).content(media_type, content(string(), None))
}

pub(super) fn content(schema: impl Into<Part>, example: Option<Value>) -> Content {
    ContentBuilder::new().schema(Some(schema)).example(example).build()
}

/// A body that must be there, as JSON.
pub(super) fn json_body(schema: impl Into<Part>, example: Option<Value>) -> RequestBody {
    RequestBodyBuilder::new()
        .content("application/json", content(schema, example))
        .required(Some(Required::True))
        .build()
}

/// A body that must be there, of a `PATCH`: JSON, or a merge patch (RFC 7396).
pub(super) fn patch_body(schema: impl Into<Part>, example: Option<Value>) -> RequestBody {
    let content = content(schema, example);
    RequestBodyBuilder::new()
        .content("application/json", content.clone())
        .content("application/merge-patch+json", content)
        .required(Some(Required::True))
        .build()
}

pub(super) fn header(about: &str, schema: impl Into<Part>) -> Header {
    HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
}

pub(super) fn query(name: &str, about: &str, schema: impl Into<Part>) -> ParameterBuilder {
    parameter(ParameterIn::Query, name, about, schema)
}

pub(super) fn in_header(name: &str, about: &str, schema: impl Into<Part>) -> ParameterBuilder {
    parameter(ParameterIn::Header, name, about, schema)
}

pub(super) fn in_path(name: &str, about: &str, schema: impl Into<Part>) -> ParameterBuilder {
    parameter(ParameterIn::Path, name, about, schema).required(Required::True)
}

fn parameter(place: ParameterIn, name: &str, about: &str, schema: impl Into<Part>) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(about))
        .required(Required::False)
        .schema(Some(schema))
}

/// A named schema of the components.
pub(super) fn named(name: &str) -> Part {
    RefOr::Ref(Ref::from_schema_name(name))
}

pub(super) fn typed(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(kind)
}

pub(super) fn string() -> ObjectBuilder {
    typed(Type::String)
}

pub(super) fn boolean() -> ObjectBuilder {
    typed(Type::Boolean)
}

pub(super) fn integer() -> ObjectBuilder {
    typed(Type::Integer)
}

pub(super) fn instant() -> ObjectBuilder {
    string().format(Some(SchemaFormat::Custom("date-time".to_owned())))
}

/// A value of this type, or null.
pub(super) fn or_null(kind: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type([kind, Type::Null].into_iter().collect::<SchemaType>())
}

pub(super) fn list_of(schema: impl Into<Part>) -> ArrayBuilder {
    ArrayBuilder::new().items(schema.into())
}

/// An object whose listed members are all required.
pub(super) fn object<S: Into<Part>>(members: impl IntoIterator<Item = (String, S)>) -> ObjectBuilder {
    members
        .into_iter()
        .fold(typed(Type::Object), |object, (name, schema)| object.property(name.clone(), schema).required(name))
}
