use gatewright_db::Step;

/// The component of the steps, for `migrate` and `pending` of `gatewright_db`.
pub const COMPONENT: &str = "tenancy";

/// The table of invitations, to an account, to a tenant or to both. Sign-in (`gatewright_auth`) maintains it; memberships remove from it
/// the invitations of a member who may not invite any more. Each of the two creates the table if it is missing, and moves the rows of its
/// own former table, in either order.
///
/// `sender` is `operator` for trusted code, and `member` for a member of the tenant. `tenant` is empty for none.
macro_rules! invitations {
    ($then:literal) => {
        concat!(
            "CREATE TABLE IF NOT EXISTS account_invitations (
            id {text} PRIMARY KEY,
            token_hash {bytes} NOT NULL UNIQUE,
            email {text} NOT NULL,
            roles {text},
            tenant {text} NOT NULL,
            tenant_roles {text} NOT NULL,
            sender {text} NOT NULL,
            invited_by {text},
            created_at {time} NOT NULL,
            expires_at {time} NOT NULL
          );
          CREATE INDEX IF NOT EXISTS account_invitations_email ON account_invitations (email);
          CREATE INDEX IF NOT EXISTS account_invitations_invited_by ON account_invitations (invited_by);
          CREATE INDEX IF NOT EXISTS account_invitations_tenant ON account_invitations (tenant);
          CREATE INDEX IF NOT EXISTS account_invitations_expires_at ON account_invitations (expires_at);
          INSERT INTO account_invitations
            (id, token_hash, email, roles, tenant, tenant_roles, sender, invited_by, created_at, expires_at) ",
            $then
        )
    };
}

/// The component of invitations.
pub const INVITATIONS: &str = "invitations";

/// The steps that create the table of invitations, for a program with sign-in.
pub const INVITATION_STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "invitations",
        sql: "CREATE TABLE users_invitations (
            id {text} PRIMARY KEY,
            token_hash {bytes} NOT NULL UNIQUE,
            email {text} NOT NULL,
            roles {text},
            tenant {text} NOT NULL,
            tenant_roles {text} NOT NULL,
            invited_by {text},
            created_at {time} NOT NULL,
            expires_at {time} NOT NULL
          );
          CREATE INDEX users_invitations_email ON users_invitations (email);
          CREATE INDEX users_invitations_invited_by ON users_invitations (invited_by);
          CREATE INDEX users_invitations_tenant ON users_invitations (tenant);
          CREATE INDEX users_invitations_expires_at ON users_invitations (expires_at)",
    },
    Step {
        version: 2,
        name: "one table of invitations",
        sql: invitations!(
            "SELECT id, token_hash, email, roles, tenant, tenant_roles, 'operator', invited_by, created_at, expires_at
            FROM users_invitations;
          DROP TABLE users_invitations"
        ),
    },
    // Only these steps add columns: the steps of memberships may create the table without them, before or after.
    Step {
        version: 3,
        name: "invitations that are being accepted",
        sql: "ALTER TABLE account_invitations ADD COLUMN claimed_until {time}",
    },
    Step {
        version: 4,
        name: "who is accepting an invitation",
        sql: "ALTER TABLE account_invitations ADD COLUMN claimed_by {text}",
    },
];

/// The steps that create the tables of memberships.
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
    Step {
        version: 3,
        name: "one table of invitations",
        sql: invitations!(
            "SELECT id, token_hash, email, NULL, tenant_id, roles, 'member', invited_by, created_at, expires_at
            FROM tenant_invitations;
          DROP TABLE tenant_invitations"
        ),
    },
];
