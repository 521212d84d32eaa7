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
                "The sender: `\"Gatewright <noreply@example.com>\"`. Without `branding.name`, the name is what \
                 mails call the service.",
            ),
            templates: section
                .derived::<String>(
                    "templates",
                    "built in",
                    "Folder whose files replace the built-in templates by name: `magic_link.txt`, `.html`, \
                 `.subject.txt`, likewise `email_verification`, `password_reset`, `passkey_added`, \
                 `new_device`; `layout.html`. They know `product`, `email`, `lifetime`, \
                 `link` and `code` (empty where there is none); those of `new_device` also `time`, `device` and \
                 `address`. Tried at start.",
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
                "Whether requests that change something need a token. `[browser_backend]` turns it on.",
            ),
            secret: section.value(
                "secret",
                default.secret,
                "Signs the tokens. Required when they are on, outside dev mode, at least 32 bytes (`gatewright \
                 secret`).",
            ),
            previous_secrets: section.value(
                "previous_secrets",
                default.previous_secrets,
                "Secrets whose tokens are still accepted, during a change of the secret.",
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
                "Exact origins of the pages that may call with cookies.",
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
            header: section.value(
                "header",
                default.header,
                "The header in which a request names its [tenant](tenants.md).",
            ),
            self_service: section.value(
                "self_service",
                default.self_service,
                "Let accounts create tenants with `POST /auth/tenants`.",
            ),
            roles: section.entries("roles", "The permissions that a role gives within its tenant."),
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
            "Days until an event is removed from `audit_log`, entity writes included. 0 keeps all events.",
        );
        Self {
            enabled: section.value(
                "enabled",
                default.enabled,
                "Record what happens to accounts in the table `audit_log`.",
            ),
            entities: section.value(
                "entities",
                default.entities,
                "Record entity writes too, each in its own transaction: kind, account, address, entity, id, and \
                 the fields that were set with their new values. Hidden fields are left out, by name and value; \
                 of a deleted record only the id is kept. Needs `auth.enabled`.",
            ),
            retention: match days {
                0 => None,
                days => Some(DAY * days),
            },
        }
    }
}
