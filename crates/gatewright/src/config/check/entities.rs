use std::collections::BTreeMap;

use gatewright_base::{Grants, RolePermissions, nearest};
use gatewright_entities::{DeclarationError, Declarations, Location};

use super::Faults;
use crate::config::Config;

pub(super) fn check(config: &Config, faults: &mut Faults) {
    match Declarations::check(&config.entities) {
        Ok(declarations) => {
            for (index, table) in declarations.tables().enumerate() {
                paths(config, index, table, faults);
            }
            consumers(config, &declarations, faults);
        }
        Err(errors) => {
            for DeclarationError { location, message, place, .. } in errors.0 {
                faults.add_at(path_of(location), without_attribute(location, message), place);
            }
        }
    }
}

/// Warns about entities that are probably open by mistake, and about the declarations.
pub(super) fn warn(config: &Config, warnings: &mut Faults) {
    for (index, entity) in config.entities.iter().enumerate() {
        if entity.is_public() {
            let message = "opens every operation to everybody: anonymous callers can read, change and delete every \
                           record; `access = { read = \"public\" }` opens only reading";
            warnings.add(format!("entity[{index}].public"), message);
        } else if !entity.is_owned() && !entity.has_access() && !entity.has_rules() && !entity.is_multi_tenant() {
            let message = "has no `owner_field`, `access` or `rules`: everybody who registers can read, change and \
                           delete every record";
            warnings.add(format!("entity[{index}]"), message);
        }
    }
    if let Ok(declarations) = Declarations::check(&config.entities) {
        for DeclarationError { location, message, place, .. } in declarations.warnings() {
            warnings.add_at(path_of(location), without_attribute(location, message), place);
        }
        permissions(config, &declarations, warnings);
    }
}

/// Warns about required permissions that no role holds: nobody may do what they protect. Roles within a tenant count
/// if records belong to tenants.
fn permissions(config: &Config, declarations: &Declarations, warnings: &mut Faults) {
    let permit = |roles: &BTreeMap<String, Grants>, permission| {
        RolePermissions::new(roles.clone()).permit(&roles.keys().map(String::as_str).collect(), permission)
    };
    for (index, attribute, permission) in declarations.permissions() {
        let in_tenants = config.entities[index].is_multi_tenant();
        if permit(&config.roles, permission) || (in_tenants && permit(&config.tenancy.roles, permission)) {
            continue;
        }
        let tenancy = config.tenancy.roles.values().filter(|_| in_tenants);
        let held: Vec<String> =
            config.roles.values().chain(tenancy).flat_map(Grants::scopes).map(ToString::to_string).collect();
        let near = nearest(&permission.to_string(), held.iter().map(String::as_str));
        let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
        let sections = if in_tenants { "[roles] or [tenancy.roles]" } else { "[roles]" };
        warnings.add(
            format!("entity[{index}].{attribute}"),
            format!("no role in {sections} has the permission \"{permission}\": nobody can do this{hint}"),
        );
    }
}

/// An entity's path must not overlap the path of authentication.
fn paths(config: &Config, index: usize, table: &str, faults: &mut Faults) {
    let path = format!("{}/{table}", config.api_prefix());
    let base = &*config.auth.base_path;
    faults.require(
        !config.outbox.has_pulls() || path != "/consumers",
        format!("entity[{index}].name"),
        "its path /consumers is where consumers with `pull = true` get their events; set `server.api_prefix` or `table`",
    );
    faults.require(
        !config.auth.enabled || !(base == path || base.starts_with(&format!("{path}/"))),
        format!("entity[{index}].name"),
        format!("its path {path} contains `auth.base_path` ({base})"),
    );
}

/// A consumer's entities must be declared.
fn consumers(config: &Config, declarations: &Declarations, faults: &mut Faults) {
    for (index, consumer) in config.outbox.consumers.iter().enumerate() {
        for (position, entity) in consumer.entities.iter().flatten().enumerate() {
            if declarations.names().all(|name| name != entity) {
                let hint = nearest(entity, declarations.names()).map(|near| format!("; did you mean {near:?}?"));
                let message = format!("there is no entity {entity:?}{}", hint.unwrap_or_default());
                faults.add(format!("outbox.consumer[{index}].entities[{position}]"), message);
            }
        }
    }
}

/// The path of the setting that a declaration's error is about.
fn path_of(Location { entity, field, attribute }: Location) -> String {
    let field = field.map(|field| format!(".field[{field}]")).unwrap_or_default();
    let attribute = attribute.map(|attribute| format!(".{attribute}")).unwrap_or_default();
    format!("entity[{entity}]{field}{attribute}")
}

/// The message without the attribute that it begins with: the path names it.
fn without_attribute(Location { attribute, .. }: Location, message: String) -> String {
    let rest = attribute.and_then(|attribute| message.strip_prefix(attribute)?.strip_prefix(": "));
    rest.map(str::to_owned).unwrap_or(message)
}
