//! The declared entities as types of a client's language: `gatewright types`.

mod names;
mod typescript;

use gatewright_entities::{DeclarationErrors, Declarations};

use crate::Config;
use crate::app::profiles;

/// The types of a configuration's entities in TypeScript: one module without imports, the same bytes for the same
/// configuration. Fails where its entities are declared wrong.
///
/// Each entity that has endpoints is an interface for its records, one for what creates a record and one for what
/// changes it. `Schema` lists them by path, which is what `@gatewright/client` is typed with. Hidden fields are left out.
pub fn typescript(config: &Config) -> Result<String, DeclarationErrors> {
    let declarations = Declarations::check(&config.entities)?;
    let (case, profile) = (config.server.json_case, profiles::declared(config));
    Ok(typescript::module(case, &declarations.plans(case), profile.as_deref()))
}
