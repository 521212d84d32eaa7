use super::oidc::InvalidIdToken;

/// Why a sign-in with a provider failed. Its text is for logs: it contains no secret, and of the provider's answer only
/// an error code of plain letters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The provider refused with an error code, of RFC 6749, section 5.2, or its own. `invalid_grant`: the code or the
    /// refresh token is used, expired or not ours.
    #[error("the provider refused: {code}")]
    Refused {
        /// 1 to 64 letters, digits, `_`, `-` and `.`.
        code: String,
    },
    /// The provider answered with a server error. Retry later.
    #[error("the provider failed: {0}")]
    Failed(&'static str),
    /// The provider did not answer, or limits requests. Retry later.
    #[error("the provider is unavailable: {0}")]
    Unavailable(&'static str),
    /// The provider's answer does not conform to the protocol or to its documentation.
    #[error("the provider's answer is not usable: {0}")]
    Malformed(&'static str),
    /// The provider's discovery document is not that of the configured issuer.
    #[error("the provider is not the configured one: {0}")]
    Misconfigured(&'static str),
    /// The callback does not name this provider as its issuer (RFC 9207): its code is another provider's.
    #[error("the callback is not from this provider")]
    OtherIssuer,
    /// The `id_token` failed a check.
    #[error("the id_token is refused: {0}")]
    IdToken(#[from] InvalidIdToken),
}

impl ProviderError {
    /// The refusal with the provider's error code. A text that is not a plain code is replaced by `unknown_error`.
    pub fn refused(code: &str) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let sane = (1..=64).contains(&code.len()) && code.bytes().all(plain);
        Self::Refused { code: if sane { code } else { "unknown_error" }.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_error_code_is_left_out() {
        let code = |text: &str| match ProviderError::refused(text) {
            ProviderError::Refused { code } => code,
            other => panic!("{other}"),
        };
        for sane in ["invalid_grant", "bad_verification_code", "interaction_required", "AADSTS50011", "x.y-z"] {
            assert_eq!(code(sane), sane);
        }
        for text in ["", "two words", "<script>", "a\nb", "é", &"a".repeat(65)] {
            assert_eq!(code(text), "unknown_error", "{text}");
        }
    }
}
