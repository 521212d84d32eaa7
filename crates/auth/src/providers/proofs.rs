use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Secret, SigningKey};
use sha2::{Digest, Sha256};
use url::Url;

/// What binds the code of a provider to the browser that began the flow: a verifier for PKCE (RFC 7636) and a nonce
/// (OpenID Connect Core, section 3.1.2.1).
///
/// Both are derived from a secret that only this browser has, and from the flow's state. A redirect contains the state, the
/// challenge and the nonce, and none of them reveals the verifier. So a code that somebody else has stolen, with or without
/// its state, works in no other browser (RFC 9700, sections 2.1.1 and 4.5).
#[derive(Debug, Clone)]
pub struct Proofs {
    verifier: Secret,
    challenge: String,
    nonce: String,
}

/// Part of the derivation: another use of the same secret gets other texts.
const LABEL: &str = "gatewright/oauth-proofs/v1";

impl Proofs {
    /// The proofs of the flow with this state, in the browser that has this secret.
    pub fn new(secret: &Secret, state: &str) -> Self {
        let key = SigningKey::new(secret.derive_key(LABEL));
        let text = |purpose: &[u8]| URL_SAFE_NO_PAD.encode(key.tag(&[purpose, state.as_bytes()]));
        let verifier = text(b"verifier");
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        Self { challenge, nonce: text(b"nonce"), verifier: Secret::new(verifier) }
    }

    /// `code_verifier` of the token request: 43 characters.
    pub fn verifier(&self) -> &Secret {
        &self.verifier
    }

    /// The parameters of the redirect: the S256 challenge of the verifier, and its method.
    pub fn challenge(&self) -> [(&str, &str); 2] {
        [("code_challenge", &self.challenge), ("code_challenge_method", "S256")]
    }

    /// `nonce` of the redirect. An `id_token` must contain the same text.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// Whether the query of a redirect has the challenge.
    pub(crate) fn challenge_is_in(&self, redirect: &Url) -> bool {
        let has = |(name, value): &(&str, &str)| redirect.query_pairs().any(|(n, v)| n == *name && v == *value);
        self.challenge().iter().all(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_browser_and_each_state_has_its_own_proofs() {
        let proofs = |secret: &str, state: &str| Proofs::new(&Secret::new(secret), state);
        let one = proofs("a", "s");
        let again = proofs("a", "s");
        assert_eq!((one.verifier(), one.nonce()), (again.verifier(), again.nonce()));
        for other in [proofs("b", "s"), proofs("a", "t")] {
            assert_ne!(one.verifier(), other.verifier());
            assert_ne!(one.nonce(), other.nonce());
            assert_ne!(one.challenge(), other.challenge());
        }
        assert_ne!(one.verifier().expose(), one.nonce());
        assert_eq!((one.verifier().len(), one.nonce().len()), (43, 43));
        assert!(!format!("{one:?}").contains(one.verifier().expose()));
    }

    #[test]
    fn a_redirect_without_the_challenge_of_the_flow_is_noticed() {
        let (own, other) = (Proofs::new(&Secret::new("a"), "s"), Proofs::new(&Secret::new("b"), "s"));
        let url = |pairs: &[(&str, &str)]| Url::parse_with_params("https://idp.example/auth?x=1", pairs).unwrap();
        assert!(own.challenge_is_in(&url(&own.challenge())));
        for pairs in [&[][..], &other.challenge(), &own.challenge()[..1], &own.challenge()[1..]] {
            assert!(!own.challenge_is_in(&url(pairs)), "{pairs:?}");
        }
    }
}
