use std::collections::BTreeMap;

use gatewright_base::{Grants, RolePermissions, nearest};
use gatewright_entities::schema::ViewFinding;
use gatewright_entities::{DeclarationError, Declarations, Entity, Location};

use super::Faults;
use crate::config::{Config, DirectoryScope};

pub(super) fn check(config: &Config, faults: &mut Faults) {
    if let Err((key, message)) = config.directory() {
        faults.add(key, message);
    }
    match Declarations::check(&config.declared()) {
        Ok(declarations) => {
            for (index, table) in declarations.tables().enumerate() {
                paths(config, index, table, faults);
            }
            consumers(config, &declarations, faults);
            for finding in tried(config, &declarations).into_iter().filter(|finding| finding.is_error) {
                faults.add(format!("{}.sql", place_of(config, finding.entity)), finding.message);
            }
        }
        Err(errors) => {
            for DeclarationError { location, message, place, .. } in errors.0 {
                faults.add_at(path_of(config, location), without_attribute(location, message), place);
            }
        }
    }
}

/// What a view reads, as an empty SQLite database sees it. Postgres is asked by `gatewright migrate`.
fn tried(config: &Config, declarations: &Declarations) -> Vec<ViewFinding> {
    if config.database.is_sqlite() { declarations.try_views() } else { Vec::new() }
}

/// Warns about what views show, and about views that were not tried.
fn views(config: &Config, declarations: &Declarations, warnings: &mut Faults) {
    for finding in tried(config, declarations).into_iter().filter(|finding| !finding.is_error) {
        warnings.add(format!("{}.sql", place_of(config, finding.entity)), finding.message);
    }
    if !config.database.is_sqlite() {
        for index in 0..config.views.len() {
            let message = "was not tried: `gatewright migrate` and the start ask the Postgres server about it";
            warnings.add(format!("view[{index}].sql"), message);
        }
    }
    for (index, view) in config.views.iter().enumerate() {
        if view.shows_all_tenants() && !view.has_access() && !view.has_rules() && !view.is_owned() {
            let message = "every signed-in caller can read the rows of all tenants; `access = { read = \"PERMISSION\" }` limits it";
            warnings.add(format!("view[{index}].all_tenants"), message);
        }
    }
    let has_tenants = config.entities.iter().any(Entity::is_multi_tenant);
    if has_tenants && config.auth.directory.as_ref().is_some_and(|it| it.scope == Some(DirectoryScope::All)) {
        let message = "callers of one tenant can list the accounts of all tenants";
        warnings.add("auth.directory.scope", message);
    }
    if config.auth.directory.as_ref().is_some_and(|directory| directory.read.trim() == "true") {
        let message = "every signed-in account, also one that registered just now, can list the others";
        warnings.add("auth.directory.read", message);
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
    if let Ok(declarations) = Declarations::check(&config.declared()) {
        for DeclarationError { location, message, place, .. } in declarations.warnings() {
            warnings.add_at(path_of(config, location), without_attribute(location, message), place);
        }
        permissions(config, &declarations, warnings);
        views(config, &declarations, warnings);
    }
}

/// Warns about required permissions that no role holds: nobody may do what they protect. Roles within a tenant count
/// if records belong to tenants.
fn permissions(config: &Config, declarations: &Declarations, warnings: &mut Faults) {
    let permit = |roles: &BTreeMap<String, Grants>, permission| {
        RolePermissions::new(roles.clone()).permit(&roles.keys().map(String::as_str).collect(), permission)
    };
    let declared = config.declared();
    for (index, attribute, permission) in declarations.permissions() {
        let in_tenants = declared[index].is_multi_tenant();
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
            format!("{}.{attribute}", place_of(config, index)),
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
        format!("{}.name", place_of(config, index)),
        "its path /consumers is where consumers with `pull = true` get their events; set `server.api_prefix` or `table`",
    );
    faults.require(
        !config.auth.enabled || !(base == path || base.starts_with(&format!("{path}/"))),
        format!("{}.name", place_of(config, index)),
        format!("its path {path} contains `auth.base_path` ({base})"),
    );
}

/// Whether it is a view or the directory, whose records change without events.
fn has_no_events(config: &Config, name: &str) -> bool {
    config.declared().iter().any(|entity| entity.is_read_only() && entity.name() == name)
}

/// A consumer's entities must be declared, and have events.
fn consumers(config: &Config, declarations: &Declarations, faults: &mut Faults) {
    for (index, consumer) in config.outbox.consumers.iter().enumerate() {
        for (position, entity) in consumer.entities.iter().flatten().enumerate() {
            if declarations.names().all(|name| name != entity) || has_no_events(config, entity) {
                let hint = nearest(entity, declarations.names()).map(|near| format!("; did you mean {near:?}?"));
                let message = format!("there is no entity {entity:?}{}", hint.unwrap_or_default());
                faults.add(format!("outbox.consumer[{index}].entities[{position}]"), message);
            }
        }
    }
}

/// The path of the setting that a declaration's error is about.
fn path_of(config: &Config, Location { entity, field, attribute }: Location) -> String {
    let field = field.map(|field| format!(".field[{field}]")).unwrap_or_default();
    let attribute = attribute.map(|attribute| format!(".{attribute}")).unwrap_or_default();
    format!("{}{field}{attribute}", place_of(config, entity))
}

/// The section that declares what is served as records at this position.
fn place_of(config: &Config, index: usize) -> String {
    match index.checked_sub(config.entities.len()) {
        None => format!("entity[{index}]"),
        Some(view) if view < config.views.len() => format!("view[{view}]"),
        Some(_) => "auth.directory".to_owned(),
    }
}

/// The message without the attribute that it begins with: the path names it.
fn without_attribute(Location { attribute, .. }: Location, message: String) -> String {
    let rest = attribute.and_then(|attribute| message.strip_prefix(attribute)?.strip_prefix(": "));
    rest.map(str::to_owned).unwrap_or(message)
}
