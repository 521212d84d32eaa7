use crate::providers::fields::{self, Fields};
use crate::providers::{ProviderError, ProviderIdentity};

use super::InvalidIdToken;

/// The names of the claims that describe a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimNames {
    /// The identifier: `sub`. Another claim is read only from the `id_token`. The issuer must keep it unique and never
    /// reuse it for another person.
    pub subject: String,
    /// The address: `email`.
    pub email: String,
    /// The name to show: `name`.
    pub name: String,
    /// A picture's address: `picture`.
    pub picture: String,
    /// Whether the issuer has verified the address: `email_verified`.
    pub email_verified: String,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self {
            subject: "sub".to_owned(),
            email: "email".to_owned(),
            name: "name".to_owned(),
            picture: "picture".to_owned(),
            email_verified: "email_verified".to_owned(),
        }
    }
}

impl ClaimNames {
    /// The user of a checked `id_token`.
    pub(super) fn identity(&self, claims: &Fields) -> Result<ProviderIdentity, InvalidIdToken> {
        let email = fields::text(claims, &self.email);
        Ok(ProviderIdentity {
            provider_id: fields::identifier(claims, &self.subject).ok_or(InvalidIdToken::Subject)?,
            email_verified: email.as_deref().is_some_and(|email| self.is_vouched_for(claims, email)),
            email,
            name: fields::text(claims, &self.name),
            avatar_url: fields::picture(claims, &self.picture),
        })
    }

    /// Whether `claims`, which contain this address, report it as verified.
    ///
    /// The standard's `email_verified` refers to the standard's `email`. It does not apply to another address from
    /// another claim.
    fn is_vouched_for(&self, claims: &Fields, email: &str) -> bool {
        let standard = Self::default();
        let of_another = self.email_verified == standard.email_verified
            && fields::text(claims, &standard.email).is_some_and(|other| !other.eq_ignore_ascii_case(email));
        fields::flag(claims, &self.email_verified) == Some(true) && !of_another
    }

    /// Fills in what the `id_token` left out from the userinfo answer, which must be about the same subject (OpenID
    /// Connect Core, section 5.3.2).
    /// An address from there is verified only if userinfo says so: the `id_token`'s statement about an address that it
    /// does not contain does not apply to this one. If the `id_token` says that it is not verified, it is not.
    pub(super) fn merge(
        &self,
        identity: ProviderIdentity,
        claims: &Fields,
        userinfo: &Fields,
    ) -> Result<ProviderIdentity, ProviderError> {
        let subject = claims.get("sub").filter(|subject| subject.is_string());
        if subject.is_none() || userinfo.get("sub") != subject {
            return Err(ProviderError::Malformed("its userinfo and its id_token have different subjects"));
        }
        let (email, email_verified) = match identity.email {
            Some(email) => (Some(email), identity.email_verified),
            None => {
                let email = fields::text(userinfo, &self.email);
                let said = email.as_deref().is_some_and(|email| self.is_vouched_for(userinfo, email));
                let denied = fields::flag(claims, &self.email_verified) == Some(false);
                (email, said && !denied)
            }
        };
        Ok(ProviderIdentity {
            provider_id: identity.provider_id,
            email,
            email_verified,
            name: identity.name.or_else(|| fields::text(userinfo, &self.name)),
            avatar_url: identity.avatar_url.or_else(|| fields::picture(userinfo, &self.picture)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(value: &Value) -> Fields {
        value.as_object().unwrap().clone()
    }

    fn merged(claims: &Value, userinfo: &Value) -> Result<ProviderIdentity, ProviderError> {
        let (names, claims) = (ClaimNames::default(), fields(claims));
        names.merge(names.identity(&claims).unwrap(), &claims, &fields(userinfo))
    }

    #[test]
    fn claims_are_read_by_the_configured_names() {
        let names = ClaimNames {
            subject: "oid".into(),
            email: "upn".into(),
            name: "display".into(),
            picture: "photo".into(),
            email_verified: "xms_edov".into(),
        };
        let claims = json!({
            "sub": "pairwise", "oid": "7f3a", "upn": "ann@example.com", "xms_edov": "true", "display": "Ann",
            "photo": "https://example.com/a.png", "email": "other@example.com", "name": "Other",
        });
        let identity = names.identity(&fields(&claims)).unwrap();
        let expected = ProviderIdentity {
            provider_id: "7f3a".into(),
            email: Some("ann@example.com".into()),
            email_verified: true,
            name: Some("Ann".into()),
            avatar_url: Some("https://example.com/a.png".into()),
        };
        assert_eq!(identity, expected);
        assert_eq!(names.identity(&fields(&json!({ "sub": "pairwise" }))), Err(InvalidIdToken::Subject));
    }

    #[test]
    fn a_missing_verification_counts_as_unverified() {
        for (claims, verified) in [
            (json!({ "sub": "1", "email": "a@x", "email_verified": true }), true),
            (json!({ "sub": "1", "email": "a@x", "email_verified": "true" }), true),
            (json!({ "sub": "1", "email": "a@x", "email_verified": "yes" }), false),
            (json!({ "sub": "1", "email": "a@x", "email_verified": false }), false),
            (json!({ "sub": "1", "email": "a@x" }), false),
            (json!({ "sub": "1", "email_verified": true }), false),
        ] {
            assert_eq!(ClaimNames::default().identity(&fields(&claims)).unwrap().email_verified, verified, "{claims}");
        }
    }

    /// `email_verified` of an address that its owner may have chosen, next to an assigned one.
    #[test]
    fn email_verified_applies_only_to_the_standard_email_claim() {
        let mapped = ClaimNames { email: "upn".into(), ..ClaimNames::default() };
        let own = ClaimNames { email_verified: "xms_edov".into(), ..mapped.clone() };
        let rows = [
            (&mapped, json!({ "upn": "ann@x", "email": "eve@x", "email_verified": true }), false),
            (&mapped, json!({ "upn": "ann@x", "email": "Ann@x", "email_verified": true }), true),
            (&mapped, json!({ "upn": "ann@x", "email_verified": true }), true),
            (&own, json!({ "upn": "ann@x", "email": "eve@x", "email_verified": true }), false),
            (&own, json!({ "upn": "ann@x", "email": "eve@x", "xms_edov": true }), true),
        ];
        for (names, mut said, verified) in rows {
            said["sub"] = json!("1");
            let identity = names.identity(&fields(&said)).unwrap();
            assert_eq!((identity.email.as_deref(), identity.email_verified), (Some("ann@x"), verified), "{said}");
            let claims = fields(&json!({ "sub": "1" }));
            let merged = names.merge(names.identity(&claims).unwrap(), &claims, &fields(&said)).unwrap();
            assert_eq!((merged.email.as_deref(), merged.email_verified), (Some("ann@x"), verified), "{said}");
        }
    }

    #[test]
    fn userinfo_fills_in_and_overrides_nothing() {
        let claims = json!({ "sub": "1", "name": "Ann" });
        let userinfo = json!({ "sub": "1", "email": "a@x", "email_verified": true, "name": "Eve",
            "picture": "https://example.com/a.png" });
        let identity = merged(&claims, &userinfo).unwrap();
        assert_eq!((identity.email.as_deref(), identity.email_verified), (Some("a@x"), true));
        assert_eq!(identity.name.as_deref(), Some("Ann"));
        assert!(identity.avatar_url.is_some());
    }

    #[test]
    fn an_address_is_verified_only_by_the_answer_that_contains_it() {
        for (claimed, said, verified) in [
            (json!(null), json!(true), true),
            (json!(true), json!(true), true),
            // About no address, or another one.
            (json!(true), json!(null), false),
            (json!(true), json!(false), false),
            (json!(false), json!(true), false),
            (json!(null), json!(null), false),
        ] {
            let mut claims = json!({ "sub": "1", "email_verified": claimed });
            let mut userinfo = json!({ "sub": "1", "email": "a@x", "email_verified": said });
            for object in [&mut claims, &mut userinfo] {
                object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            }
            assert_eq!(merged(&claims, &userinfo).unwrap().email_verified, verified, "{claims} {userinfo}");
        }
    }

    #[test]
    fn userinfo_of_another_subject_ends_the_sign_in() {
        for userinfo in [json!({ "sub": "2", "email": "eve@x" }), json!({ "email": "eve@x" }), json!({ "sub": 1 })] {
            assert!(
                matches!(merged(&json!({ "sub": "1" }), &userinfo), Err(ProviderError::Malformed(_))),
                "{userinfo}"
            );
        }
    }
}
