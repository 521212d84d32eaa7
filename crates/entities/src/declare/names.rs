//! The allowed names of entities, tables and fields.
//!
//! Names become paths, columns, JSON keys and tool names, so they are lower-case words without surprises. The names of
//! the service's own tables and route words are refused: an entity must not shadow `/auth`, nor its table be the one
//! that holds the sessions.

/// Route words of the service, and words that it keeps for later.
const ROUTES: [&str; 31] = [
    "account",
    "admin",
    "api",
    "assets",
    "auth",
    "csrf",
    "dev",
    "docs",
    "favicon",
    "forgot_password",
    "graphql",
    "health",
    "healthz",
    "live",
    "login",
    "logout",
    "mcp",
    "metrics",
    "oauth",
    "openapi",
    "ready",
    "readyz",
    "register",
    "reset_password",
    "robots",
    "screens",
    "static",
    "tokens",
    "two_factor",
    "verify_email",
    "well_known",
];

/// Tables of the service.
const TABLES: [&str; 17] = [
    "account_invitations",
    "api_tokens",
    "audit_log",
    "device_owners",
    "known_devices",
    "mail_queue",
    "rate_buckets",
    "rate_limits",
    "service_accounts",
    "sessions",
    "single_use_tokens",
    "tenant_invitations",
    "tenant_members",
    "tenant_names",
    "two_factor",
    "two_factor_backup_codes",
    "users",
];

/// Beginnings of table names that belong to the service or to an engine.
const PREFIXES: [&str; 11] = [
    "auth_",
    "event_fanout",
    "event_log",
    "event_outbox",
    "gatewright_",
    "oauth2_",
    "oauth_",
    "passkey",
    "pg_",
    "sqlite_",
    "users_",
];

/// Columns that every entity has.
pub(crate) const OWN_COLUMNS: [&str; 3] = ["id", "created_at", "updated_at"];

/// The column of a record's tenant, on multi-tenant entities.
pub(crate) const TENANT_COLUMN: &str = "tenant_id";
/// When a record was deleted, on entities with soft delete.
pub(crate) const DELETED_COLUMN: &str = "deleted_at";

/// The member of a batch's item that is the condition of its change.
const CONDITION: &str = "if_match";

/// The relation target that is not an entity.
pub(crate) const USERS: &str = "users";

/// Why `name` cannot be an entity or a table, if it cannot.
pub(super) fn refuse_entity(name: &str) -> Option<String> {
    if !fits(name, 48) {
        return Some(format!(
            "\"{}\" is not a valid name for an entity or a table: use 1 to 48 of a-z, 0-9 and underscore, a letter first",
            shortened(name)
        ));
    }
    let taken = ROUTES.contains(&name) || TABLES.contains(&name) || PREFIXES.iter().any(|word| name.starts_with(word));
    taken.then(|| format!("the name \"{name}\" is reserved for the service; choose another one"))
}

/// Why `name` cannot be a field, if it cannot.
pub(super) fn refuse_field(name: &str) -> Option<String> {
    if name == CONDITION {
        return Some(format!("\"{name}\" is the condition of a change in a batch; choose another name"));
    }
    if !fits(name, 63) {
        return Some(format!(
            "\"{}\" is not a valid name for a field: use 1 to 63 of a-z, 0-9 and underscore, a letter first",
            shortened(name)
        ));
    }
    OWN_COLUMNS.contains(&name).then(|| format!("every entity has \"{name}\" already; it cannot be declared"))
}

fn fits(name: &str, longest: usize) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name.len() <= longest && name.bytes().all(word) && name.starts_with(|c: char| c.is_ascii_lowercase())
}

fn shortened(name: &str) -> String {
    name.chars().take(80).collect()
}

/// The end of a message about an unknown name, which names a similar one.
pub(super) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    gatewright_base::nearest(name, known).map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default()
}

/// What a message shows of a name of any length.
pub(super) fn cut(name: &str) -> String {
    name.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_words_and_not_reserved() {
        let long = "a".repeat(49);
        for good in ["posts", "a", "order", "line_items", "x9", "userspace", &"a".repeat(48)] {
            assert_eq!(refuse_entity(good), None, "{good}");
        }
        for bad in [
            "",
            "Posts",
            "9lives",
            "_x",
            "a-b",
            "a b",
            "posts\"; DROP TABLE users; --",
            "é",
            "auth",
            "mcp",
            "users",
            "sessions",
            "single_use_tokens",
            "two_factor_backup_codes",
            "users_oauth_links",
            "event_outbox_delivery",
            "sqlite_master",
            "pg_class",
            "healthz",
            &long,
        ] {
            assert!(refuse_entity(bad).is_some(), "{bad}");
        }
        for good in ["title", "user_id", "a1", &"f".repeat(63)] {
            assert_eq!(refuse_field(good), None, "{good}");
        }
        for bad in ["id", "created_at", "updated_at", "createdAt", "x.y", &"f".repeat(64)] {
            assert!(refuse_field(bad).is_some(), "{bad}");
        }
    }
}
