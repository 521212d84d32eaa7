//! The code that the descriptions of an entity's endpoints share.

use std::sync::Arc;

use gatewright_entities::access::Demand;
use gatewright_entities::{Action, Plan};
use utoipa::openapi::Required;
use utoipa::openapi::path::{HttpMethod, Parameter};

use super::Draft;
use super::names::{API_TOKEN, JWT, Page, SESSION};
use super::words::{Described, Part, in_header, named, string};
use crate::Config;

/// An entity, prepared for the document.
pub(super) struct Subject<'a> {
    pub(super) plan: &'a Plan,
    /// All entities, to which its relations lead.
    pub(super) plans: &'a [Arc<Plan>],
    /// Its name as types are spelled: `BlogPost`.
    pub(super) name: String,
    pub(super) collection: String,
    pub(super) record: String,
    /// Whether a token bucket limits its routes.
    pub(super) limited: bool,
    /// The header that names a tenant, if its records have tenants.
    pub(super) tenant: Option<&'a str>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(config: &'a Config, plan: &'a Plan, plans: &'a [Arc<Plan>]) -> Self {
        let collection = format!("{}/{}", config.api_prefix(), plan.table());
        Self {
            plan,
            plans,
            name: type_name(plan.name()),
            record: format!("{collection}/{{id}}"),
            collection,
            limited: config.rate_limit.api.is_some(),
            tenant: plan.rules().multi_tenant.then_some(&*config.tenancy.header),
        }
    }

    /// Its name as types are spelled, before which the names of its schemas begin.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The path for writing many of its records at once.
    pub(super) fn batch_path(&self) -> String {
        format!("{}/_batch", self.collection)
    }

    /// The schema of a whole record.
    pub(super) fn record_schema(&self) -> Part {
        named(&self.name)
    }

    /// An operation with the description of its access.
    pub(super) fn operation(
        &self,
        draft: &Draft,
        method: HttpMethod,
        path: &str,
        verb: &str,
        action: Action,
    ) -> Described {
        let plan = self.plan;
        let rules = plan.rules();
        let demand = rules.demand(action);
        let summary = format!("{} {}", title(verb), plan.name());
        let id = format!("{verb}{}", self.name);
        let mut described = draft.operation(method, path, id, plan.name(), &summary).fails(&[401, 403], Page::Never);
        if self.limited {
            described = described.fails(&[429, 503], Page::Never);
        }
        if let Some(name) = self.tenant {
            described = described.parameter(
                in_header(name, "The tenant. The caller must be a member.", string()).required(Required::True),
            );
        }
        if draft.signs_in && action != Action::Read {
            described = described.parameter(idempotency_key()).fails(&[409, 410, 422], Page::Never);
        }
        if let Demand::Permission(permission) = demand {
            described = described.about(format!("Needs the permission `{permission}`."));
        }
        if draft.signs_in {
            let optional = *demand == Demand::Public && !rules.owned;
            described = described.open_to(&[SESSION, JWT, API_TOKEN], optional);
        }
        described
    }

    /// The schema of a record with only the requested fields.
    pub(super) fn view(&self) -> String {
        format!("{}View", self.name)
    }
}

/// The key under which a write happens once.
pub(super) fn idempotency_key() -> Parameter {
    let about = "A key of the caller's choice. A repeat of the request with the same key within 24 hours writes nothing and \
        returns the same answer, with `Idempotent-Replayed: true`.";
    in_header("Idempotency-Key", about, string().min_length(Some(1)).max_length(Some(255))).build()
}

fn title(verb: &str) -> &'static str {
    match verb {
        "list" => "List",
        "create" => "Create a record of",
        "get" => "Read a record of",
        "delete" => "Delete a record of",
        "download" => "Download a file of",
        "sign" => "Sign the address of a file of",
        "restore" => "Restore a record of",
        "events" => "Stream changes to",
        "createMany" => "Create records of",
        "updateMany" => "Update records of",
        "deleteMany" => "Delete records of",
        _ => "Update a record of",
    }
}

/// `blog_posts` as `BlogPosts`.
fn type_name(name: &str) -> String {
    let word = |word: &str| {
        let mut chars = word.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    name.split('_').map(word).collect()
}
