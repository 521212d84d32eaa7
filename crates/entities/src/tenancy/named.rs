use gatewright_base::TenantId;
use http::{HeaderMap, HeaderName};

/// The default header in which requests name their tenant.
pub const TENANT_HEADER: HeaderName = HeaderName::from_static("x-tenant-id");

/// Which tenant a request names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Named {
    /// No tenant.
    #[default]
    Nothing,
    /// This one. The caller need not belong to it.
    Tenant(TenantId),
    /// An invalid name, or more than one tenant.
    Unreadable,
}

impl Named {
    /// The tenant that a text names.
    pub(crate) fn parse(text: &str) -> Self {
        TenantId::parse(text).map_or(Self::Unreadable, Self::Tenant)
    }

    /// Reads the header called `name`. Two headers with it are [`Named::Unreadable`].
    pub fn read(headers: &HeaderMap, name: &HeaderName) -> Self {
        let mut lines = headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (None, _) => Self::Nothing,
            (Some(line), None) if line.is_empty() => Self::Nothing,
            (Some(line), None) => {
                let tenant = line.to_str().ok().and_then(|text| TenantId::parse(text).ok());
                tenant.map_or(Self::Unreadable, Self::Tenant)
            }
            (Some(_), Some(_)) => Self::Unreadable,
        }
    }
}

impl From<TenantId> for Named {
    fn from(tenant: TenantId) -> Self {
        Self::Tenant(tenant)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_request_names_one_tenant_or_none() {
        let long = "a".repeat(201);
        for (lines, named) in [
            (&[][..], Named::Nothing),
            (&[""], Named::Nothing),
            (&["acme"], Named::Tenant(TenantId::parse("acme").unwrap())),
            (&["a'; DROP TABLE posts; --"], Named::Unreadable),
            (&["acme, other"], Named::Unreadable),
            (&["acme", "acme"], Named::Unreadable),
            (&["acme", ""], Named::Unreadable),
            (&["\u{e9}"], Named::Unreadable),
            (&[&*long], Named::Unreadable),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-tenant-id", HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            assert_eq!(Named::read(&headers, &HeaderName::from_static("x-tenant-id")), named, "{lines:?}");
        }
    }
}
