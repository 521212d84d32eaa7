/// Which check an `id_token` failed. The order is that in which they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdToken {
    /// Longer than any that is looked at.
    #[error("it is longer than 16 KiB")]
    Oversized,
    /// Not three parts of base64url with JSON objects in the first two.
    #[error("it is not a signed JWT")]
    NotAJwt,
    /// The header names extensions that must be understood (RFC 7515, section 4.1.11); none is.
    #[error("its header has critical extensions")]
    Critical,
    /// The algorithm is neither RS256 nor ES256, to the letter.
    #[error("its algorithm is neither RS256 nor ES256")]
    Algorithm,
    /// The issuer has no such key, as far as it was asked lately.
    #[error("its key is not among the issuer's")]
    UnknownKey,
    /// Several keys could be meant.
    #[error("ambiguous signing key: several keys of the issuer match")]
    AmbiguousKey,
    /// The key is not of the kind that the algorithm needs, or not for signatures.
    #[error("its key is not one for its algorithm")]
    KeyMismatch,
    /// The key is an RSA one of fewer than 2048 bits.
    #[error("its key is an RSA key of fewer than 2048 bits")]
    WeakKey,
    /// The key is not on its curve, or no key at all.
    #[error("its key is malformed")]
    MalformedKey,
    /// The signature is not the key's.
    #[error("its signature is wrong")]
    Signature,
    /// The claims do not have the types that the standard gives them.
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
    /// `nbf` lies ahead.
    #[error("nbf lies in the future: do the clocks agree?")]
    NotYetValid,
    /// `iat` lies ahead.
    #[error("iat lies in the future: do the clocks agree?")]
    IssuedInFuture,
    /// `sub`, or the claim mapped to it, is empty, absent or too long.
    #[error("it does not say whom it is about")]
    Subject,
}
