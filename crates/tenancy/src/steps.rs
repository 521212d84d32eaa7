use gatewright_db::Step;

/// What the steps belong to, for `migrate` and `pending` of `gatewright_db`.
pub const COMPONENT: &str = "tenancy";

/// The steps that make the tables.
pub const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "tenant members",
        sql: "CREATE TABLE tenant_members (
            tenant_id {text} NOT NULL,
            member_kind {text} NOT NULL,
            member_id {text} NOT NULL,
            created_at {time} NOT NULL,
            PRIMARY KEY (tenant_id, member_kind, member_id)
          );
          CREATE INDEX tenant_members_member ON tenant_members (member_kind, member_id)",
    },
    Step {
        version: 2,
        name: "tenant roles and invitations",
        sql: "ALTER TABLE tenant_members ADD COLUMN roles {text} NOT NULL DEFAULT '[]';
          CREATE TABLE tenant_names (
            tenant_id {text} PRIMARY KEY,
            name {text} NOT NULL,
            created_at {time} NOT NULL
          );
          CREATE TABLE tenant_invitations (
            id {text} PRIMARY KEY,
            tenant_id {text} NOT NULL,
            email {text} NOT NULL,
            roles {text} NOT NULL,
            token_hash {bytes} NOT NULL UNIQUE,
            invited_by {text} NOT NULL,
            created_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            UNIQUE (tenant_id, email)
          );
          CREATE INDEX tenant_invitations_expires ON tenant_invitations (expires_at);
          CREATE INDEX tenant_invitations_email ON tenant_invitations (email);
          CREATE INDEX tenant_invitations_invited_by ON tenant_invitations (invited_by)",
    },
];
