//! The relying party: a domain, its origins, and the checks of a ceremony (`WebAuthn` Level 3, section 7).

use gatewright_base::UserId;
use passki::{
    AuthenticationCredential, AuthenticationOptions, Passki, PasskiError, RegistrationCredential, RegistrationOptions,
    ResidentKeyRequirement, StoredPasskey, UserVerificationRequirement,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::{Host, Url};

use super::Passkey;
use super::challenge::{Challenge, LIFETIME};
use crate::init_error::AuthInitError;
use crate::users::User;

/// The algorithms that options offer: `EdDSA`, ES256, ES384, RS256, RS384.
const ALGORITHMS: [i32; 5] = [-8, -7, -35, -257, -258];
/// `WebAuthn` Level 3, section 5.1.3: longer ids are refused.
const LONGEST_ID: usize = 1023;

pub(super) struct RelyingParty {
    passki: Passki,
}

/// A passkey created by an authenticator.
pub(super) struct Made {
    pub(super) credential_id: Vec<u8>,
    pub(super) public_key: Vec<u8>,
    pub(super) algorithm: i32,
    pub(super) counter: u32,
    pub(super) transports: String,
    pub(super) backed_up: bool,
}

/// A valid assertion.
pub(super) struct Asserted {
    pub(super) counter: u32,
    pub(super) backed_up: bool,
}

/// Where the service is reached, as far as passkeys are concerned.
pub(super) struct Place<'a> {
    pub(super) public_url: &'a Url,
    pub(super) dev_mode: bool,
    /// A parent domain instead of the host.
    pub(super) rp_id: Option<&'a str>,
    /// Further origins.
    pub(super) origins: &'a [String],
}

impl RelyingParty {
    /// `None` at an address without a name: browsers create no passkeys for those. In dev mode a loopback address is
    /// also `localhost`.
    pub(super) fn new(place: &Place<'_>, name: &str) -> Result<Option<Self>, AuthInitError> {
        let wrong = |setting, problem: String| AuthInitError::Setting { setting, problem };
        let loopback = match place.public_url.host() {
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(ip)) if place.dev_mode && ip.is_loopback() => Some("localhost"),
            Some(Host::Ipv6(ip)) if place.dev_mode && ip.is_loopback() => Some("localhost"),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => return Ok(None),
        };
        let mut url = place.public_url.clone();
        if let Some(host) = loopback
            && url.set_host(Some(host)).is_err()
        {
            return Ok(None);
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        let rp_id = place.rp_id.unwrap_or(&host).to_owned();
        if !is_within(&host, &rp_id) {
            let problem =
                format!("\"{rp_id}\" is neither {host}, the host of `server.public_url`, nor a parent domain of it");
            return Err(wrong("passkeys.rp_id", problem));
        }
        let mut origins = vec![url.origin().ascii_serialization()];
        for text in place.origins {
            let origin = Url::parse(text).ok().filter(|url| url.origin().ascii_serialization() == *text);
            let fits = origin.as_ref().and_then(Url::host_str).is_some_and(|host| is_within(host, &rp_id));
            let safe =
                origin.as_ref().is_some_and(|url| url.scheme() == "https" || url.host_str() == Some("localhost"));
            if !fits || !safe {
                let problem = format!("\"{text}\" is no https:// origin of {rp_id} or of a domain below it");
                return Err(wrong("passkeys.origins", problem));
            }
            origins.push(text.clone());
        }
        Ok(Some(Self { passki: Passki::new(&rp_id, &origins, name) }))
    }

    /// `PublicKeyCredentialCreationOptionsJSON`.
    pub(super) fn creation_options(
        &self,
        user: &User,
        existing: &[Passkey],
        challenge: &Challenge,
    ) -> Result<Value, PasskiError> {
        let existing: Vec<_> = existing.iter().map(stored).collect();
        let mut options = RegistrationOptions::default();
        options.timeout = millis();
        options.resident_key = ResidentKeyRequirement::Required;
        options.user_verification = UserVerificationRequirement::Required;
        options.exclude_credentials = Some(&existing);
        let (handle, email) = (self.handle(&user.id), user.email.as_str());
        let (mut made, _) = self.passki.start_passkey_registration(&handle, email, email, options)?;
        made.challenge = Passki::base64_encode(&challenge.bytes);
        let mut options = serde_json::to_value(made)?;
        // For browsers of Level 1.
        options["authenticatorSelection"]["requireResidentKey"] = true.into();
        options["extensions"] = json!({ "credProps": true });
        Ok(options)
    }

    /// Checks a browser's answer to creation options: origin, challenge, relying party, presence and verification of the
    /// user, and whether the algorithm was offered.
    pub(super) fn created(
        &self,
        user: &User,
        credential: &RegistrationCredential,
        challenge: &Challenge,
    ) -> Result<Made, PasskiError> {
        let mut options = RegistrationOptions::default();
        options.user_verification = UserVerificationRequirement::Required;
        let (_, mut state) = self.passki.start_passkey_registration(&self.handle(&user.id), "", "", options)?;
        state.challenge = challenge.bytes.to_vec();
        let made = self.passki.finish_passkey_registration(credential, &state)?;
        if !ALGORITHMS.contains(&made.algorithm) {
            return Err(PasskiError::UnsupportedAlgorithm(made.algorithm));
        }
        if made.credential_id.is_empty() || made.credential_id.len() > LONGEST_ID {
            return Err(PasskiError::InvalidAuthenticatorData);
        }
        Ok(Made {
            transports: serde_json::to_string(&made.transports)?,
            credential_id: made.credential_id,
            public_key: made.public_key,
            algorithm: made.algorithm,
            counter: made.counter,
            backed_up: made.bs,
        })
    }

    /// `PublicKeyCredentialRequestOptionsJSON`: for `allowed` or, without any, for any passkey that the user chooses.
    pub(super) fn request_options(&self, allowed: &[Passkey], challenge: &Challenge) -> Result<Value, PasskiError> {
        let allowed: Vec<_> = allowed.iter().map(stored).collect();
        let mut options = AuthenticationOptions::default();
        options.timeout = millis();
        options.user_verification = UserVerificationRequirement::Required;
        let (mut asked, _) = self.passki.start_passkey_authentication(&allowed, options)?;
        asked.challenge = Passki::base64_encode(&challenge.bytes);
        Ok(serde_json::to_value(asked)?)
    }

    /// Checks an assertion of `passkey`: origin, challenge, relying party, presence and verification of the user, counter,
    /// signature, and that it names the passkey's own user.
    pub(super) fn asserted(
        &self,
        passkey: &Passkey,
        credential: &AuthenticationCredential,
        challenge: &Challenge,
    ) -> Result<Asserted, PasskiError> {
        let mut options = AuthenticationOptions::default();
        options.user_verification = UserVerificationRequirement::Required;
        let stored = stored(passkey);
        let (_, mut state) = self.passki.start_passkey_authentication(std::slice::from_ref(&stored), options)?;
        state.challenge = challenge.bytes.to_vec();
        let result = self.passki.finish_passkey_authentication(credential, &state, &stored)?;
        // An authenticator that got a list of credentials may omit their user.
        if result.user_handle.as_ref().is_some_and(|handle| *handle != self.handle(&passkey.user)) {
            return Err(PasskiError::CredentialNotAllowed);
        }
        let data = Passki::base64_decode(&credential.response.authenticator_data)?;
        let backed_up = data.get(32).is_some_and(|flags| flags & 0x10 != 0);
        Ok(Asserted { counter: result.counter, backed_up })
    }

    /// The user handle for authenticators. It does not reveal the user.
    fn handle(&self, user: &UserId) -> Vec<u8> {
        let hash = Sha256::new().chain_update("gatewright passkey user").chain_update([0]);
        let hash = hash.chain_update(&self.passki.rp_id).chain_update([0]).chain_update(user.as_str());
        hash.finalize().to_vec()
    }
}

fn millis() -> u64 {
    u64::try_from(LIFETIME.as_millis()).unwrap_or(u64::MAX)
}

/// Whether `host` is `domain` or below it.
fn is_within(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && domain.contains('.'))
}

fn stored(passkey: &Passkey) -> StoredPasskey {
    let mut stored = StoredPasskey::default();
    stored.credential_id.clone_from(&passkey.credential_id);
    stored.public_key.clone_from(&passkey.public_key);
    stored.algorithm = passkey.algorithm;
    stored.counter = passkey.counter;
    stored.transports = serde_json::from_str(&passkey.transports).unwrap_or_default();
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(url: &str, dev_mode: bool, rp_id: Option<&str>, origins: &[&str]) -> Result<Option<Passki>, String> {
        let (url, origins) =
            (Url::parse(url).unwrap(), origins.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let place = Place { public_url: &url, dev_mode, rp_id, origins: &origins };
        RelyingParty::new(&place, "Test")
            .map(|party| party.map(|party| party.passki))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_relying_party_is_a_domain_and_never_an_address() {
        for (url, dev_mode, expected) in [
            ("https://app.example.com", false, Some(("app.example.com", "https://app.example.com"))),
            ("https://app.example.com:8443/x", false, Some(("app.example.com", "https://app.example.com:8443"))),
            ("http://localhost:8080", false, Some(("localhost", "http://localhost:8080"))),
            ("http://127.0.0.1:8080", true, Some(("localhost", "http://localhost:8080"))),
            ("http://127.0.0.1:8080", false, None),
            ("https://[2001:db8::1]", true, None),
            ("https://192.0.2.1", true, None),
        ] {
            let found = party(url, dev_mode, None, &[]).unwrap();
            let found = found.as_ref().map(|found| (&*found.rp_id, &*found.rp_origins[0]));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn other_domains_and_origins_are_refused() {
        let ok = |rp_id, origins: &[&str]| party("https://api.example.com", false, rp_id, origins).is_ok();
        assert!(ok(Some("example.com"), &["https://app.example.com", "https://example.com"]));
        assert!(ok(None, &["https://x.api.example.com"]));
        for (rp_id, origins) in [
            (Some("evil.com"), &[][..]),
            (Some("ample.com"), &[]),
            (Some("com"), &[]),
            (Some(""), &[]),
            (Some("app.example.com"), &[]),
            (None, &["https://app.example.com"]),
            (Some("example.com"), &["https://example.com.evil.com"]),
            (Some("example.com"), &["https://evilexample.com"]),
            (Some("example.com"), &["http://app.example.com"]),
            (Some("example.com"), &["https://app.example.com/"]),
            (Some("example.com"), &["*"]),
        ] {
            assert!(!ok(rp_id, origins), "{rp_id:?} {origins:?}");
        }
    }
}
