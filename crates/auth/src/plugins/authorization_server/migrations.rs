//! The tables of the authorization server: registered clients, what users consented to, grants and refresh tokens, devices, and
//! programs that are told when a session ends.

use gatewright_db::Step;

pub(super) const MIGRATIONS: &[Step] = &[
    Step {
    version: 1,
    name: "authorization server",
    sql: "CREATE TABLE oauth2_clients (
            id {text} PRIMARY KEY,
            name {text} NOT NULL,
            source {text} NOT NULL,
            secret_hash {bytes},
            service_id {text},
            redirect_uris {text} NOT NULL,
            scopes {text},
            created_at {time} NOT NULL
          );
          CREATE INDEX oauth2_clients_source ON oauth2_clients (source, created_at);
          CREATE TABLE oauth2_consents (
            id {text} PRIMARY KEY,
            user_id {text} NOT NULL,
            client_id {text} NOT NULL,
            resource {text} NOT NULL,
            client_name {text} NOT NULL,
            client_host {text},
            scopes {text} NOT NULL,
            created_at {time} NOT NULL,
            last_used_at {time},
            UNIQUE (user_id, client_id, resource)
          );
          CREATE INDEX oauth2_consents_client ON oauth2_consents (client_id);
          CREATE TABLE oauth2_grants (
            id {text} PRIMARY KEY,
            user_id {text} NOT NULL,
            client_id {text} NOT NULL,
            resource {text} NOT NULL,
            scopes {text} NOT NULL,
            code_hash {bytes} NOT NULL UNIQUE,
            redirect_uri {text},
            challenge {text} NOT NULL,
            created_at {time} NOT NULL,
            code_expires_at {time} NOT NULL,
            code_used_at {time},
            ended_at {time},
            expires_at {time} NOT NULL
          );
          CREATE INDEX oauth2_grants_user ON oauth2_grants (user_id, client_id, created_at);
          CREATE INDEX oauth2_grants_expires_at ON oauth2_grants (expires_at);
          CREATE TABLE oauth2_refresh_tokens (
            token_hash {bytes} PRIMARY KEY,
            grant_id {text} NOT NULL,
            created_at {time} NOT NULL,
            used_at {time},
            expires_at {time} NOT NULL
          );
          CREATE INDEX oauth2_refresh_tokens_grant ON oauth2_refresh_tokens (grant_id);
          CREATE INDEX oauth2_refresh_tokens_expires_at ON oauth2_refresh_tokens (expires_at)",
    },
    Step {
        version: 2,
        name: "tenants of consents and grants",
        // The unique constraint of a consent must include the tenant. SQLite cannot change constraints, so the table is created
        // again.
        sql: "ALTER TABLE oauth2_grants ADD COLUMN tenant_id {text};
          CREATE TABLE oauth2_consents_of_tenants (
            id {text} PRIMARY KEY,
            user_id {text} NOT NULL,
            client_id {text} NOT NULL,
            resource {text} NOT NULL,
            tenant_id {text} NOT NULL,
            client_name {text} NOT NULL,
            client_host {text},
            scopes {text} NOT NULL,
            created_at {time} NOT NULL,
            last_used_at {time},
            UNIQUE (user_id, client_id, resource, tenant_id)
          );
          INSERT INTO oauth2_consents_of_tenants SELECT id, user_id, client_id, resource, '', client_name, client_host, scopes,
            created_at, last_used_at FROM oauth2_consents;
          DROP TABLE oauth2_consents;
          ALTER TABLE oauth2_consents_of_tenants RENAME TO oauth2_consents;
          CREATE INDEX oauth2_consents_client ON oauth2_consents (client_id)",
    },
    Step {
        version: 3,
        name: "networks of clients",
        sql: "ALTER TABLE oauth2_clients ADD COLUMN network {text};
          CREATE INDEX oauth2_clients_network ON oauth2_clients (network, created_at)",
    },
    Step {
        version: 4,
        name: "devices that wait for a user",
        sql: "CREATE TABLE oauth2_devices (
            id {text} PRIMARY KEY,
            device_hash {bytes} NOT NULL UNIQUE,
            user_tag {bytes} NOT NULL UNIQUE,
            client_id {text} NOT NULL,
            resource {text} NOT NULL,
            scopes {text} NOT NULL,
            tenant_id {text},
            address {text},
            agent {text},
            created_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            interval_seconds {int} NOT NULL,
            polled_at {time},
            decision {text}
          );
          CREATE INDEX oauth2_devices_expires_at ON oauth2_devices (expires_at)",
    },
    Step {
        version: 5,
        name: "sign-ins of other programs",
        sql: "ALTER TABLE oauth2_clients ADD COLUMN relying_party {text};
          ALTER TABLE oauth2_grants ADD COLUMN login {text};
          ALTER TABLE oauth2_refresh_tokens ADD COLUMN answer {bytes};
          CREATE INDEX oauth2_refresh_tokens_answers ON oauth2_refresh_tokens (used_at) WHERE answer IS NOT NULL;
          CREATE TABLE oauth2_logouts (
            id {text} PRIMARY KEY,
            client_id {text} NOT NULL,
            user_id {text} NOT NULL,
            session_id {text} NOT NULL,
            signed_in_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            uri {text} NOT NULL,
            private_networks {bool} NOT NULL,
            algorithm {text} NOT NULL,
            ended_at {time},
            next_at {time},
            attempts {int} NOT NULL,
            UNIQUE (client_id, session_id)
          );
          CREATE INDEX oauth2_logouts_user ON oauth2_logouts (user_id, signed_in_at);
          CREATE INDEX oauth2_logouts_next_at ON oauth2_logouts (next_at)",
    },
];
