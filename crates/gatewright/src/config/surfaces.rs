use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gatewright_base::{Grants, Secret};
use gatewright_entities::TENANT_HEADER;
use http::HeaderName;

use super::read::Section;

/// `[email]`: the mail server. Without it no mail is sent.
#[derive(Debug, Clone)]
pub struct Email {
    /// `smtp://`, `smtps://` or `smtp+starttls://`, with the credentials in the URL.
    pub smtp_url: Secret,
    /// The sender, such as `Gatewright <noreply@example.com>`.
    pub from: String,
    /// A folder of templates that replace built-in ones by file name.
    pub templates: Option<PathBuf>,
}

impl Email {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            smtp_url: section.required_secret(
                "smtp_url",
                "`smtps://user:password@host` (TLS), `smtp+starttls://…` or `smtp://…`. User name and password \
                 are percent-encoded.",
            ),
            from: section.required(
                "from",
                "The sender: `\"Gatewright <noreply@example.com>\"`. Without `branding.name`, mails use this name for \
                 the service.",
            ),
            templates: section
                .derived::<String>(
                    "templates",
                    "built in",
                    "Folder whose files replace the built-in templates by name: `magic_link.txt`, `.html`, \
                     `.subject.txt`, and the same for `email_code`, `email_verification`, `password_reset`, `email_change`, \
                     `email_changed`, `email_change_undone`, `passkey_added`, `two_factor_enabled`, \
                     `two_factor_disabled`, `backup_codes_replaced`, `new_device`, `invitation`, `token_created`, \
                     `program_connected`, `provider_linked`, `members_changed`; `layout.html`; and `.txt` and `.html` \
                     files that they include. A file with another name is refused. Their variables are \
                     `product`, `email`, `lifetime`, `link` and `code` (empty if there is none). `new_device` also \
                     has `time`, `device` and `address`; `invitation` has `tenant` and `inviter` (the sender's address), \
                     each empty if there is none; `email_change` has `account`, the account's present address; \
                     `email_changed` and `email_change_undone` have `credentials`, a list of lines; `members_changed` \
                     has `tenant` and `change`. Checked at start.",
                )
                .map(PathBuf::from),
        }
    }
}

/// `[csrf]`: tokens on mutating requests.
#[derive(Debug, Clone)]
pub struct Csrf {
    /// Whether the middleware is mounted. `[browser_backend]` mounts it too.
    pub enabled: bool,
    /// Signs the tokens.
    pub secret: Secret,
    /// Earlier secrets. Tokens that they signed stay valid during a rotation.
    pub previous_secrets: Vec<Secret>,
}

impl Default for Csrf {
    fn default() -> Self {
        Self { enabled: false, secret: Secret::new(""), previous_secrets: Vec::new() }
    }
}

impl Csrf {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value(
                "enabled",
                default.enabled,
                "Whether requests that change something need a token. `[browser_backend]` enables it.",
            ),
            secret: section.value(
                "secret",
                default.secret,
                "Key that signs the tokens. Required outside dev mode if tokens are enabled; at least 32 bytes \
                 (`gatewright secret`).",
            ),
            previous_secrets: section.value(
                "previous_secrets",
                default.previous_secrets,
                "Earlier secrets whose tokens are still accepted, for a rotation.",
            ),
        }
    }
}

/// `[browser_backend]`: settings for a single-page application on another origin.
#[derive(Debug, Clone)]
pub struct BrowserBackend {
    /// Exact origins that may call with credentials.
    pub allowed_origins: Vec<String>,
}

impl BrowserBackend {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            allowed_origins: section.value(
                "allowed_origins",
                Vec::new(),
                "The exact origins of pages that may send requests with cookies.",
            ),
        }
    }
}

/// `[tenancy]`: how a request names its tenant, and how accounts manage tenants.
#[derive(Debug, Clone)]
pub struct Tenancy {
    /// The header.
    pub header: String,
    /// Whether accounts may create tenants.
    pub self_service: bool,
    /// What each role within a tenant may do there.
    pub roles: BTreeMap<String, Grants>,
}

impl Default for Tenancy {
    fn default() -> Self {
        Self { header: "X-Tenant-ID".to_owned(), self_service: true, roles: BTreeMap::new() }
    }
}

impl Tenancy {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            header: section.value("header", default.header, "The header with the [tenant](tenants.md) of a request."),
            self_service: section.value(
                "self_service",
                default.self_service,
                "Whether accounts may create tenants with `POST /auth/tenants`.",
            ),
            roles: section.entries("roles", "The permissions of the role within its tenant."),
        }
    }

    /// The header. The checks refuse an invalid name; here the default replaces it.
    pub fn header(&self) -> HeaderName {
        self.header.parse().unwrap_or(TENANT_HEADER)
    }
}

const DAY: Duration = Duration::from_hours(24);
const RETENTION_DAYS: u32 = 400;

/// `[audit]`: the audit log of accounts and, if enabled, of entity writes.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Whether authentication is recorded.
    pub enabled: bool,
    /// Whether entity writes are recorded too.
    pub entities: bool,
    /// How long events are kept; `None`: without limit.
    pub retention: Option<Duration>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, entities: false, retention: Some(DAY * RETENTION_DAYS) }
    }
}

impl Audit {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        let days = section.value(
            "retention_days",
            RETENTION_DAYS,
            "Days until an event is removed from `audit_log`, including entity writes. 0: without limit.",
        );
        Self {
            enabled: section.value(
                "enabled",
                default.enabled,
                "Record the events of accounts in the table `audit_log`.",
            ),
            entities: section.value(
                "entities",
                default.entities,
                "Also record entity writes, each in its own transaction: kind, account, address, entity, id, and the \
                 fields that were set with their new values. Hidden fields are omitted, with name and value. For a \
                 deleted record only the id is recorded. Needs `auth.enabled`.",
            ),
            retention: match days {
                0 => None,
                days => Some(DAY * days),
            },
        }
    }
}
