//! What is promised.

use std::fmt::Write;

/// A kind of entity.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// Its declaration, without its fields.
    pub(super) declared: &'static str,
    pub(super) multi_tenant: bool,
    pub(super) soft_delete: bool,
}

const fn kind(name: &'static str, declared: &'static str) -> Kind {
    Kind { name, declared, multi_tenant: false, soft_delete: false }
}

impl Kind {
    const fn of_tenants(self) -> Self {
        Self { multi_tenant: true, ..self }
    }

    const fn with_trash(self) -> Self {
        Self { soft_delete: true, ..self }
    }
}

const BY_ROLE: &str = r#"access = { read = "x:read", create = "x:write", update = "x:write", delete = "x:write" }"#;
const HALF_OPEN: &str = r#"access = { read = "public", create = "x:write", update = "x:write", delete = "x:write" }"#;
const AUDITED: &str = r#"owner_field = "user_id"
cross_owner_read = "x:audit"
access = { read = "x:read", create = "x:write", update = "x:write", delete = "x:write" }"#;

/// The columns of the table. Some have a trash, which checks the same rights once more.
pub(super) const ENTITIES: [Kind; 11] = [
    kind("open", "public = true"),
    kind("plain", "").with_trash(),
    kind("by_role", BY_ROLE),
    kind("half_open", HALF_OPEN).with_trash(),
    kind("mixed", r#"access = { delete = "x:write" }"#),
    kind("owned", r#"owner_field = "user_id""#),
    kind("owned_by_role", "owner_field = \"user_id\"\naccess = { read = \"x:read\", create = \"x:write\", update = \"x:write\", delete = \"x:write\" }").with_trash(),
    kind("audited", AUDITED).with_trash(),
    kind("team", "").of_tenants().with_trash(),
    kind("team_by_role", BY_ROLE).of_tenants(),
    kind("team_owned", "owner_field = \"user_id\"\ncross_owner_read = \"x:audit\"").of_tenants().with_trash(),
];

/// For each identity, and each entity in the order of [`ENTITIES`], the result of reading, creating, updating and
/// deleting: `+` every record (of the tenant), `o` only their own, `0` 400, `1` 401, `3` 403.
#[rustfmt::skip]
pub(super) const TABLE: [(&str, &str); 26] = [
    //                                         open plain by_r half mixd ownd o_by_r audi team t_by_r t_own
    ("anonymous",                             "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("a stranger",                            "++++ ++++ 3333 +333 +++3 o+oo 3333 3333 3333 3333 3333"),
    ("a member",                              "++++ ++++ 3333 +333 +++3 o+oo 3333 3333 ++++ 3333 o+oo"),
    ("a member by JWT",                       "++++ ++++ 3333 +333 +++3 o+oo 3333 3333 ++++ 3333 o+oo"),
    ("a reader",                              "++++ ++++ +333 +333 +++3 o+oo o333 o333 ++++ +333 o+oo"),
    ("a writer",                              "++++ ++++ 3+++ ++++ ++++ o+oo 3+oo 3+oo ++++ 3+++ o+oo"),
    ("an editor",                             "++++ ++++ ++++ ++++ ++++ o+oo o+oo o+oo ++++ ++++ o+oo"),
    ("an auditor",                            "++++ ++++ +333 +333 +++3 o+oo o333 +333 ++++ +333 ++oo"),
    ("an admin",                              "++++ ++++ ++++ ++++ ++++ o+oo o+oo ++oo ++++ ++++ ++oo"),
    ("an admin of another tenant",            "++++ ++++ ++++ ++++ ++++ o+oo o+oo ++oo 3333 3333 3333"),
    ("an admin who names no tenant",          "++++ ++++ ++++ ++++ ++++ o+oo o+oo ++oo 0000 0000 0000"),
    ("a member's token to read",              "+333 +333 3333 +333 +333 o333 3333 3333 +333 3333 o333"),
    ("an admin's token to read",              "+333 +333 +333 +333 +333 o333 o333 +333 +333 +333 +333"),
    ("an editor's token to write",            "3+++ 3+++ 3+++ 3+++ 3+++ 3+oo 3+oo 3+oo 3+++ 3+++ 3+oo"),
    ("an editor's token for everything",      "++++ ++++ ++++ ++++ ++++ o+oo o+oo o+oo ++++ ++++ o+oo"),
    ("an editor's token for one table",       "3333 ++++ 3333 3333 3333 3333 3333 3333 3333 3333 3333"),
    ("an admin's token for something else",   "3333 3333 3333 3333 3333 3333 3333 3333 3333 3333 3333"),
    ("an admin's token for nothing",          "3333 3333 3333 3333 3333 3333 3333 3333 3333 3333 3333"),
    ("a service that edits",                  "++++ ++++ ++++ ++++ ++++ o+oo o+oo o+oo ++++ ++++ o+oo"),
    ("a disabled service",                    "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("an admin who owes a second factor",     "++++ 3333 3333 +333 3333 3333 3333 3333 3333 3333 3333"),
    ("a deleted admin's session",             "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("a deleted admin's JWT",                 "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("a deleted admin's token",               "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("an admin's session that ended",         "++++ 1111 1111 +111 1111 1111 1111 1111 1111 1111 1111"),
    ("an editor's grant to read",             "+333 +333 +333 +333 +333 o333 o333 o333 +333 +333 o333"),
];

/// Roles, the entities, and `doors`, which everybody may read and which refer to a record of each.
pub(super) fn configuration() -> String {
    let mut text = String::from(
        "[roles]\nreader = [\"x:read\"]\nwriter = [\"x:write\"]\neditor = [\"x:read\", \"x:write\"]\n\
         auditor = [\"x:read\", \"x:audit\"]\nadmin = [\"*\"]\n",
    );
    for Kind { name, declared, multi_tenant, soft_delete } in &ENTITIES {
        let _infallible = write!(
            text,
            "[[entity]]\nname = \"{name}\"\nmulti_tenant = {multi_tenant}\nsoft_delete = {soft_delete}\n{declared}\n\
             [[entity.field]]\nname = \"mark\"\ntype = \"string\"\nindex = true\n\
             [[entity.field]]\nname = \"text\"\ntype = \"string\"\n"
        );
    }
    text.push_str(
        "[[entity]]\nname = \"doors\"\npublic = true\n[[entity.field]]\nname = \"mark\"\ntype = \"string\"\n",
    );
    for Kind { name, .. } in &ENTITIES {
        let _infallible =
            write!(text, "[[entity.field]]\nname = \"to_{name}\"\ntype = \"relation\"\nto = \"{name}\"\n");
    }
    text
}
