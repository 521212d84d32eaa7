//! `GET /openapi.json` and `gatewright openapi`: the whole HTTP surface as an OpenAPI 3.1 document.
//!
//! `document` needs only the configuration. A running server describes the entities that it serves, which a program may
//! have changed. Each part of the surface is one file: `entity` with the parameters of lists (`list`) and `batch`,
//! `auth` with a file for each plugin, `server` for the operators' endpoints. They use the helpers of `words` and the
//! shared `components`. `schema` converts fields into schemas, for the tool surface too.
//!
//! The document is the same for every caller: it contains all declared parts that are not hidden.

mod admin;
mod auth;
mod batch;
mod components;
mod consumers;
mod entity;
mod files;
mod list;
mod names;
mod route;
pub(crate) mod schema;
mod server;
mod streams;
mod subject;
mod words;

use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{DeclarationErrors, Declarations, Plan};
use utoipa::openapi::{Components, Info, InfoBuilder, OpenApi, OpenApiBuilder, Paths, Server, Tag, tag::TagBuilder};

use crate::Config;

#[cfg(feature = "mcp")]
pub(crate) use list::search_text;
pub(crate) use route::routes;

/// The document of a configuration. Fails if a declaration is invalid.
pub fn document(config: &Config) -> Result<OpenApi, DeclarationErrors> {
    let declarations = Declarations::check(&config.declared())?;
    Ok(describe(config, &declarations.plans(config.server.json_case)))
}

/// The document of the served API.
pub(crate) fn describe(config: &Config, plans: &[Arc<Plan>]) -> OpenApi {
    let mut draft = Draft {
        case: config.server.json_case,
        signs_in: config.auth.enabled,
        paths: Paths::new(),
        components: components::shared(config),
        tags: Vec::new(),
    };
    for plan in plans.iter().filter(|plan| plan.crud()) {
        entity::describe(&mut draft, config, plan, plans);
    }
    files::describe(&mut draft, config, plans);
    let limited = config.rate_limit.api.is_some();
    batch::mixed(&mut draft, &format!("{}/_batch", config.api_prefix()), limited);
    streams::several(&mut draft, &format!("{}/_events", config.api_prefix()), plans, limited);
    if config.auth.enabled {
        auth::describe(&mut draft, config);
    }
    if config.outbox.has_pulls() {
        consumers::describe(&mut draft, config);
    }
    if config.has_admin() {
        admin::describe(&mut draft, config);
    }
    server::describe(&mut draft, config);
    OpenApiBuilder::new()
        .info(info(config))
        .servers(Some([Server::new(config.public_url().as_str().trim_end_matches('/'))]))
        .paths(draft.paths)
        .components(Some(draft.components))
        .tags(Some(draft.tags))
        .build()
}

/// The document in progress.
struct Draft {
    case: JsonCase,
    /// Whether callers can authenticate.
    signs_in: bool,
    paths: Paths,
    components: Components,
    tags: Vec<Tag>,
}

impl Draft {
    fn tag(&mut self, name: &str, about: &str) {
        self.tags.push(TagBuilder::new().name(name).description(Some(about)).build());
    }
}

fn info(config: &Config) -> Info {
    InfoBuilder::new()
        .title(config.branding.name.as_deref().unwrap_or("Gatewright"))
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Accounts, records and event streams. Request bodies accept the keys of this document in snake case and \
             in camel case; responses use the keys as they are here.",
        ))
        .build()
}
