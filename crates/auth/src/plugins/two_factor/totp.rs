//! Time-based one-time passwords (RFC 6238): SHA-1, 6 digits, steps of 30 seconds, one step of tolerance either way.
//! Authenticator apps do not reliably support other parameters.

use gatewright_base::{Ambient, Secret};
use jiff::Timestamp;
use totp_rs::{Builder, Totp};

/// The secret of an authenticator app: 20 random bytes, as 32 characters of base32 (RFC 4648, section 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TotpSecret(Secret);

/// The service's name as authenticator apps show it.
#[derive(Debug, Clone)]
pub(super) struct Issuer(String);

/// An invalid stored secret: another program wrote into the store.
#[derive(Debug, thiserror::Error)]
#[error("a stored TOTP secret cannot be used: {0}")]
pub(crate) struct CorruptSecret(String);

impl TotpSecret {
    /// A fresh one.
    pub(super) fn generate(ambient: &Ambient) -> Self {
        Self(Secret::new(totp_rs::Secret::from(ambient.bytes::<20>()).to_base32()))
    }

    /// The secret with this base32 text, from a store.
    pub fn from_base32(text: impl Into<String>) -> Self {
        Self(Secret::new(text))
    }

    /// The base32 text, for a store and to show to the user once.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The step of this code, if it is that of `at` or of its neighbours. The store decides whether it is used.
    pub(super) fn step_of(&self, code: &str, at: Timestamp) -> Result<Option<i64>, CorruptSecret> {
        let seconds = u64::try_from(at.as_second()).unwrap_or(0);
        let step = self.builder()?.build().map_err(|error| CorruptSecret(error.to_string()))?.check(code, seconds);
        Ok(step.and_then(|step| i64::try_from(step).ok()))
    }

    /// The `otpauth://` address in the picture for the app. It contains the secret.
    pub(super) fn url(&self, issuer: &Issuer, account: &str) -> Result<Secret, CorruptSecret> {
        let named = self.builder()?.with_issuer(Some(issuer.0.as_str())).with_account_name(label(account));
        let url = named.build().and_then(|totp: Totp| totp.to_url());
        url.map(Secret::new).map_err(|error| CorruptSecret(error.to_string()))
    }

    fn builder(&self) -> Result<Builder, CorruptSecret> {
        let secret = totp_rs::Secret::try_from_base32(self.expose());
        let secret = secret.map_err(|_| CorruptSecret("it is not base32".to_owned()))?;
        Ok(Builder::new().with_secret(secret))
    }
}

impl Issuer {
    /// Checks `text`; the error describes the problem.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.chars().count() > 64 {
            return Err("it has 1 to 64 characters".to_owned());
        }
        if text.contains(':') || text.chars().any(char::is_control) {
            return Err("it has no colon, with which apps end it, and no control characters".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

/// The account's name as apps take it: a colon would end the issuer's.
fn label(account: &str) -> String {
    account.replace(':', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238, appendix B, whose secret is the 20 bytes `12345678901234567890`; the last six of its eight digits.
    const RFC: &str = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

    fn step_of(code: &str, seconds: i64) -> Option<i64> {
        TotpSecret::from_base32(RFC).step_of(code, Timestamp::from_second(seconds).unwrap()).unwrap()
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        let vectors = [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ];
        for (seconds, code) in vectors {
            assert_eq!(step_of(code, seconds), Some(seconds / 30), "{seconds}");
        }
    }

    #[test]
    fn a_code_may_be_off_by_at_most_one_step() {
        let step = 1_111_111_111 / 30;
        for (offset, expected) in [(-2, None), (-1, Some(step)), (0, Some(step)), (1, Some(step)), (2, None)] {
            assert_eq!(step_of("050471", (step + offset) * 30), expected, "{offset}");
            assert_eq!(step_of("050471", (step + offset) * 30 + 29), expected, "{offset}");
        }
    }

    #[test]
    fn an_invalid_code_has_no_step() {
        for code in ["", "05047", "0504711", "05047a", "+50471", "٠٥٠٤٧١", " 050471", "-050471"] {
            assert_eq!(step_of(code, 1_111_111_111), None, "{code}");
        }
        assert_eq!(step_of("050471", -62_135_596_800), None);
    }

    #[test]
    fn an_invalid_stored_secret_is_an_error_and_not_a_wrong_code() {
        for text in ["", "not base32!", "GEZDGNBV"] {
            assert!(TotpSecret::from_base32(text).step_of("000000", Timestamp::UNIX_EPOCH).is_err(), "{text}");
        }
    }

    #[test]
    fn the_address_names_issuer_and_account() {
        let issuer = Issuer::parse(" Blog & Co ").unwrap();
        let url = TotpSecret::from_base32(RFC).url(&issuer, "ann+\"a:b\"@example.com").unwrap();
        let parsed = url::Url::parse(url.expose()).unwrap();
        assert_eq!((parsed.scheme(), parsed.host_str()), ("otpauth", Some("totp")));
        let query: Vec<_> = parsed.query_pairs().collect();
        assert!(
            query.contains(&("secret".into(), RFC.into())) && query.contains(&("issuer".into(), "Blog & Co".into()))
        );
        let again = Totp::from_url(url.expose()).unwrap();
        assert_eq!((again.issuer(), again.account_name()), (Some("Blog & Co"), "ann+\"a_b\"@example.com"));
        assert_eq!(again.generate(1_111_111_111).to_string(), "050471");
    }

    #[test]
    fn issuers_that_apps_would_misread_are_refused() {
        for text in ["", "  ", "a:b", "a\nb", &"x".repeat(65)] {
            assert!(Issuer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_new_secret_has_160_bits_and_debug_shows_none() {
        let ambient = Ambient::system();
        let (one, two) = (TotpSecret::generate(&ambient), TotpSecret::generate(&ambient));
        assert_eq!(one.expose().len(), 32);
        assert_ne!(one, two);
        assert!(!format!("{one:?}").contains(one.expose()));
    }
}
