//! Generates types for clients from the declared entities: `gatewright types`.

mod functions;
mod names;
mod typescript;

use gatewright_entities::{DeclarationErrors, Declarations};

use crate::Config;
use crate::app::profiles;

/// The types of a configuration's entities in TypeScript: one module without imports, the same bytes for the same
/// configuration. Fails if a declaration is invalid.
///
/// Each entity with endpoints has three interfaces: for its records, for the body that creates one and for the body
/// that changes one. `Schema` lists them by path, as the type parameter of `@gatewright/client`. Hidden fields are
/// omitted.
pub fn typescript(config: &Config) -> Result<String, DeclarationErrors> {
    let declarations = Declarations::check(&config.declared())?;
    let (case, profile) = (config.server.json_case, profiles::declared(config));
    Ok(typescript::module(case, &declarations.plans(case), profile.as_deref()))
}

/// The module `gatewright` for functions, typed by the declared entities: a declaration file (`.d.ts`). Fails if a declaration is
/// invalid.
pub fn for_functions(config: &Config) -> Result<String, DeclarationErrors> {
    let declarations = Declarations::check(&config.declared())?;
    let (case, profile) = (config.server.json_case, profiles::declared(config));
    Ok(functions::module(case, &declarations.plans(case), profile.as_deref()))
}
