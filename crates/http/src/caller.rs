use std::convert::Infallible;

use axum::extract::FromRequestParts;
use gatewright_base::Identity;
use http::request::Parts;

/// The caller: the [`Identity`] that authentication put into the request's extensions, or [`Identity::Anonymous`]
/// without one. It never fails; the handler or a guard refuses callers.
#[derive(Debug, Clone)]
pub struct Caller(pub Identity);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Identity>().cloned().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::UserId;
    use http::Request;

    use super::*;

    #[tokio::test]
    async fn the_identity_comes_from_the_extensions_and_is_anonymous_without() {
        let (mut parts, ()) = Request::new(()).into_parts();
        let Caller(identity) = Caller::from_request_parts(&mut parts, &()).await.unwrap();
        assert!(matches!(identity, Identity::Anonymous));

        parts.extensions.insert(Identity::Pending(UserId::parse("u1").unwrap()));
        let Caller(identity) = Caller::from_request_parts(&mut parts, &()).await.unwrap();
        assert!(matches!(identity, Identity::Pending(id) if id.as_str() == "u1"));
    }
}
