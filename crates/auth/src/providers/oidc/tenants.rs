//! Microsoft's issuers: each tenant is one, and the accounts of several may sign in.

use serde_json::Value;
use uuid::Uuid;

use super::InvalidIdToken;
use crate::providers::fields::{self, Fields};

/// The tenants whose accounts may sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MicrosoftTenant {
    /// Work, school and personal accounts: `common`.
    Common,
    /// Work and school accounts: `organizations`.
    Organizations,
    /// Personal accounts: `consumers`.
    Consumers,
    /// The accounts of one tenant, by its id.
    One(Uuid),
}

/// The issuers of these tenants at one authority.
#[derive(Debug, Clone)]
pub(in crate::providers) struct Tenants {
    /// The beginning of every issuer, without a slash at its end.
    authority: String,
    tenant: MicrosoftTenant,
}

/// The tenant of personal accounts.
const PERSONAL: Uuid = Uuid::from_u128(0x9188_040d_6c67_4c5b_b112_36a3_04b6_6dad);
/// The place of the tenant in issuers of several.
const PLACEHOLDER: &str = "{tenantid}";
/// The claim that [`Tenants::complete`] adds: the user's identifier.
pub(in crate::providers) const SUBJECT: &str = "tid.oid";
/// The claim that says whether the owner of the domain has proven the address's domain.
const VERIFIED: &str = "xms_edov";

impl MicrosoftTenant {
    /// Reads `common`, `organizations`, `consumers`, or a tenant's id.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "common" => Some(Self::Common),
            "organizations" => Some(Self::Organizations),
            "consumers" => Some(Self::Consumers),
            id => (id.len() == 36).then(|| Uuid::parse_str(id).ok().map(Self::One))?,
        }
    }

    fn allows(self, tenant: Uuid) -> bool {
        match self {
            Self::Common => true,
            Self::Organizations => tenant != PERSONAL,
            Self::Consumers => tenant == PERSONAL,
            Self::One(only) => tenant == only,
        }
    }
}

impl Tenants {
    pub(in crate::providers) fn new(authority: &str, tenant: MicrosoftTenant) -> Self {
        Self { authority: authority.trim_end_matches('/').to_owned(), tenant }
    }

    /// The issuer by whose address the metadata is found.
    pub(in crate::providers) fn found_at(&self) -> String {
        match self.tenant {
            MicrosoftTenant::Common => self.issuer("common"),
            MicrosoftTenant::Organizations => self.issuer("organizations"),
            MicrosoftTenant::Consumers => self.issuer("consumers"),
            MicrosoftTenant::One(id) => self.issuer(&id.to_string()),
        }
    }

    /// The issuer that the metadata names.
    pub(in crate::providers) fn published(&self) -> String {
        match self.tenant {
            MicrosoftTenant::Common | MicrosoftTenant::Organizations => self.issuer(PLACEHOLDER),
            MicrosoftTenant::Consumers => self.issuer(&PERSONAL.to_string()),
            MicrosoftTenant::One(id) => self.issuer(&id.to_string()),
        }
    }

    /// Whether `issuer` is the one of an allowed tenant.
    pub(super) fn has(&self, issuer: &str) -> bool {
        let tenant = issuer.strip_prefix(&self.authority).and_then(|rest| rest.strip_prefix('/'));
        let tenant = tenant.and_then(|rest| rest.strip_suffix("/v2.0")).and_then(|id| Uuid::parse_str(id).ok());
        tenant.is_some_and(|id| self.tenant.allows(id) && self.issuer(&id.to_string()) == issuer)
    }

    /// The issuer that a token of these claims must have: that of its tenant, which must be allowed, and whose tokens its key may
    /// sign. `signs_for` is the issuer that is published with the key.
    pub(super) fn issuer_of(&self, claims: &Fields, signs_for: Option<&str>) -> Result<String, InvalidIdToken> {
        let tenant = tenant(claims).filter(|id| self.tenant.allows(*id)).ok_or(InvalidIdToken::Issuer)?;
        let issuer = self.issuer(&tenant.to_string());
        let fits = signs_for.is_none_or(|key| key.replace(PLACEHOLDER, &tenant.to_string()) == issuer);
        if fits { Ok(issuer) } else { Err(InvalidIdToken::Issuer) }
    }

    /// Adds the user's identifier to checked claims, and reads the one of the address's verification. `sub` is another one for
    /// each program, and `oid` one within its tenant.
    pub(super) fn complete(claims: &mut Fields) -> Result<(), InvalidIdToken> {
        let tenant = tenant(claims).ok_or(InvalidIdToken::Subject)?;
        let object = fields::identifier(claims, "oid").ok_or(InvalidIdToken::Subject)?;
        claims.insert(SUBJECT.to_owned(), format!("{tenant}.{object}").into());
        // It is a boolean in the documentation, and "1" in tokens.
        if claims.get(VERIFIED).is_some_and(|said| *said == "1" || *said == 1) {
            claims.insert(VERIFIED.to_owned(), Value::Bool(true));
        }
        Ok(())
    }

    fn issuer(&self, tenant: &str) -> String {
        format!("{}/{tenant}/v2.0", self.authority)
    }
}

fn tenant(claims: &Fields) -> Option<Uuid> {
    Uuid::parse_str(claims.get("tid")?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AUTHORITY: &str = "https://login.example.com";
    const CONTOSO: &str = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490";
    const OTHER: &str = "00000000-1111-4222-8333-444444444444";

    fn tenants(text: &str) -> Tenants {
        Tenants::new(AUTHORITY, MicrosoftTenant::parse(text).unwrap())
    }

    #[test]
    fn a_tenant_is_a_word_or_an_id() {
        for text in ["common", "organizations", "consumers", CONTOSO] {
            assert!(MicrosoftTenant::parse(text).is_some(), "{text}");
        }
        for text in ["", "Common", "everyone", "contoso.com", "8eaef0232b344da19baa8bc8c9d6a490", "{tenantid}"] {
            assert_eq!(MicrosoftTenant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_word_has_its_tenants() {
        let personal = PERSONAL.to_string();
        for (word, contoso, other, own) in [
            ("common", true, true, true),
            ("organizations", true, true, false),
            ("consumers", false, false, true),
            (CONTOSO, true, false, false),
        ] {
            let tenants = tenants(word);
            for (id, expected) in [(CONTOSO, contoso), (OTHER, other), (&*personal, own)] {
                let issuer = format!("{AUTHORITY}/{id}/v2.0");
                let claims = json!({ "tid": id });
                let found = tenants.issuer_of(claims.as_object().unwrap(), None);
                assert_eq!(found, expected.then(|| issuer.clone()).ok_or(InvalidIdToken::Issuer), "{word} {id}");
                assert_eq!(tenants.has(&issuer), expected, "{word} {id}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_an_issuer_is_none() {
        let tenants = tenants("common");
        for text in [
            format!("{AUTHORITY}/{CONTOSO}/v1.0"),
            format!("{AUTHORITY}/{CONTOSO}/v2.0/"),
            format!("{AUTHORITY}/{}/v2.0", CONTOSO.to_uppercase()),
            format!("{AUTHORITY}.evil.example/{CONTOSO}/v2.0"),
            format!("https://evil.example/{CONTOSO}/v2.0"),
            format!("{AUTHORITY}/common/v2.0"),
            format!("{AUTHORITY}/{PLACEHOLDER}/v2.0"),
            String::new(),
        ] {
            assert!(!tenants.has(&text), "{text}");
        }
    }

    /// The keys of personal accounts are in the same set as those of all tenants.
    #[test]
    fn a_key_signs_only_for_its_issuer() {
        let tenants = tenants("common");
        for (key, expected) in [
            (None, true),
            (Some(format!("{AUTHORITY}/{PLACEHOLDER}/v2.0")), true),
            (Some(format!("{AUTHORITY}/{CONTOSO}/v2.0")), true),
            (Some(format!("{AUTHORITY}/{PERSONAL}/v2.0")), false),
        ] {
            let claims = json!({ "tid": CONTOSO });
            let found = tenants.issuer_of(claims.as_object().unwrap(), key.as_deref());
            assert_eq!(found.is_ok(), expected, "{key:?}");
        }
    }

    #[test]
    fn the_subject_is_of_tenant_and_object() {
        let completed = |claims: Value| {
            let mut claims = claims.as_object().unwrap().clone();
            Tenants::complete(&mut claims).map(|()| claims)
        };
        let claims = completed(json!({ "tid": CONTOSO, "oid": "o", "sub": "s", "xms_edov": "1" })).unwrap();
        assert_eq!((&claims[SUBJECT], &claims[VERIFIED]), (&json!(format!("{CONTOSO}.o")), &json!(true)));
        for claims in
            [json!({ "tid": CONTOSO, "sub": "s" }), json!({ "tid": CONTOSO, "oid": "" }), json!({ "oid": "o" })]
        {
            assert_eq!(completed(claims.clone()), Err(InvalidIdToken::Subject), "{claims}");
        }
        for said in [json!(false), json!("0"), json!(0), json!(2), json!("yes"), json!(null), json!([1])] {
            let claims = completed(json!({ "tid": CONTOSO, "oid": "o", "xms_edov": said })).unwrap();
            assert_ne!(claims[VERIFIED], json!(true), "{said}");
        }
    }
}
