use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gatewright_base::{Grants, Secret};
use gatewright_entities::TENANT_HEADER;
use http::HeaderName;

use super::read::Section;

/// `[email]`: how mails leave. Without it there is no sender.
#[derive(Debug, Clone)]
pub struct Email {
    /// `smtp://`, `smtps://` or `smtp+starttls://`, with credentials inside.
    pub smtp_url: Secret,
    /// The sender, such as `Gatewright <noreply@example.com>`.
    pub from: String,
    /// A folder of templates that replace built-in ones by file name.
    pub templates: Option<PathBuf>,
}

impl Email {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            smtp_url: section.required_secret("smtp_url"),
            from: section.required("from"),
            templates: section.optional::<String>("templates").map(PathBuf::from),
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
    /// What signed them before: tokens that are out hold on while the secret is changed.
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
            enabled: section.value("enabled", default.enabled),
            secret: section.value("secret", default.secret),
            previous_secrets: section.value("previous_secrets", default.previous_secrets),
        }
    }
}

/// `[browser_backend]`: the posture for a single-page application on another origin.
#[derive(Debug, Clone)]
pub struct BrowserBackend {
    /// Exact origins that may call with credentials.
    pub allowed_origins: Vec<String>,
}

impl BrowserBackend {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self { allowed_origins: section.value("allowed_origins", Vec::new()) }
    }
}

/// `[tenancy]`: how a request names its tenant, and what accounts do about tenants.
#[derive(Debug, Clone)]
pub struct Tenancy {
    /// The header.
    pub header: String,
    /// Whether accounts make tenants of their own.
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
            header: section.value("header", default.header),
            self_service: section.value("self_service", default.self_service),
            roles: section.entries("roles"),
        }
    }

    /// The header. A name that is none was refused by the checks; the default stands in for it.
    pub fn header(&self) -> HeaderName {
        self.header.parse().unwrap_or(TENANT_HEADER)
    }
}

const DAY: Duration = Duration::from_hours(24);

/// `[audit]`: the record of what happened to accounts and, on request, to entities.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Whether authentication is recorded.
    pub enabled: bool,
    /// Whether entity writes are recorded too.
    pub entities: bool,
    /// How long events are kept; `None`: for ever.
    pub retention: Option<Duration>,
}

impl Default for Audit {
    fn default() -> Self {
        Self { enabled: true, entities: false, retention: Some(DAY * 400) }
    }
}

impl Audit {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value("enabled", default.enabled),
            entities: section.value("entities", default.entities),
            retention: match section.optional::<u32>("retention_days") {
                Some(0) => None,
                Some(days) => Some(DAY * days),
                None => default.retention,
            },
        }
    }
}
