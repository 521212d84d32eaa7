use std::fmt;

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use gatewright_base::Secret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Padding may be left out.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// The fewest bytes of a key. The specification recommends 24 to 64.
const SHORTEST: usize = 16;

/// A symmetric signing key: `whsec_` and its bytes in base64.
#[derive(Clone)]
pub struct SigningSecret(Zeroizing<Vec<u8>>);

/// Text that is not a signing secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a webhook's secret is whsec_ and at least {SHORTEST} random bytes in base64, such as the output of: echo whsec_$(openssl rand -base64 32)"
)]
pub struct InvalidSecret;

impl SigningSecret {
    /// Reads a secret.
    pub fn parse(secret: &Secret) -> Result<Self, InvalidSecret> {
        let encoded = secret.expose().trim().strip_prefix("whsec_").ok_or(InvalidSecret)?;
        let key = Zeroizing::new(LENIENT.decode(encoded).map_err(|_| InvalidSecret)?);
        if key.len() < SHORTEST { Err(InvalidSecret) } else { Ok(Self(key)) }
    }

    /// One signature for the header: `v1,` and the HMAC-SHA256 of id, time and body in base64.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_specification() {
        let secret = SigningSecret::parse(&Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")).unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn an_invalid_secret_is_refused() {
        for text in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZ!"] {
            assert_eq!(SigningSecret::parse(&Secret::new(text)).unwrap_err(), InvalidSecret, "{text}");
        }
        assert!(SigningSecret::parse(&Secret::new("whsec_AAAAAAAAAAAAAAAAAAAAAA")).is_ok(), "without padding");
        assert!(SigningSecret::parse(&Secret::new("whsec_AAAAAAAAAAAAAAAAAAAAAA==")).is_ok(), "with padding");
    }
}
