/// The check that an `id_token` failed. The variants are in the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdToken {
    /// Longer than the limit.
    #[error("it is longer than 16 KiB")]
    Oversized,
    /// Not three parts of base64url with JSON objects in the first two.
    #[error("it is not a signed JWT")]
    NotAJwt,
    /// The header names critical extensions (RFC 7515, section 4.1.11); none is supported.
    #[error("its header has critical extensions")]
    Critical,
    /// The algorithm is not exactly RS256 or ES256.
    #[error("its algorithm is neither RS256 nor ES256")]
    Algorithm,
    /// The issuer's cached keys do not contain the key.
    #[error("its key is not among the issuer's")]
    UnknownKey,
    /// Ambiguous signing key: several keys match.
    #[error("ambiguous signing key: several keys of the issuer match")]
    AmbiguousKey,
    /// The key does not fit the algorithm, or is not for signatures.
    #[error("its key is not one for its algorithm")]
    KeyMismatch,
    /// The key is an RSA key of fewer than 2048 bits.
    #[error("its key is an RSA key of fewer than 2048 bits")]
    WeakKey,
    /// The key is not on its curve, or is not a key.
    #[error("its key is malformed")]
    MalformedKey,
    /// The signature does not verify with the key.
    #[error("its signature is wrong")]
    Signature,
    /// The claims do not have the types that the standard requires.
    #[error("its claims are malformed")]
    MalformedClaims,
    /// `iss` is another issuer.
    #[error("iss is not the configured issuer")]
    Issuer,
    /// `aud` does not contain this client.
    #[error("aud does not contain the client id")]
    Audience,
    /// `azp` is another client, or absent beside several audiences.
    #[error("azp is not the client id")]
    AuthorizedParty,
    /// `exp` is more than 60 seconds past.
    #[error("it has expired")]
    Expired,
    /// `nbf` is more than 60 seconds in the future.
    #[error("nbf is in the future: do the clocks agree?")]
    NotYetValid,
    /// `iat` is more than 60 seconds in the future.
    #[error("iat is in the future: do the clocks agree?")]
    IssuedInFuture,
    /// `nonce` is absent, or is not the one that this browser's flow sent.
    #[error("nonce is not the one of this sign-in")]
    Nonce,
    /// `sub`, or the claim mapped to it, is empty, absent or too long.
    #[error("it has no subject")]
    Subject,
}
