use std::borrow::Cow;
use std::convert::Infallible;

use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Path};
use gatewright_base::canonical_id;
use http::request::Parts;

/// The longest identifier in a path, in bytes.
const LONGEST: usize = 256;

/// The one parameter of a route's path, decoded: the id of `/tokens/{id}`.
///
/// What cannot be an identifier becomes the empty text, which names nothing: invalid UTF-8, control characters (Postgres
/// stores no NUL), more than 256 bytes. So the handler answers as for any unknown name, after it has checked the
/// caller's permission. A UUID is read in any case ([`canonical_id`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment(pub String);

/// The parameters of a route's path, as [`Segment`] reads one: the ids of `/users/{id}/tokens/{token}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments<const N: usize>(pub [String; N]);

impl<S: Sync> FromRequestParts<S> for Segment {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let Segments([text]) = Segments::from_request_parts(parts, state).await?;
        Ok(Self(text))
    }
}

impl<S: Sync, const N: usize> FromRequestParts<S> for Segments<N> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let named = parts.extract::<Path<Vec<(String, String)>>>().await.map(|Path(named)| named).unwrap_or_default();
        let mut texts = named.into_iter().map(|(_, text)| identifier(text));
        Ok(Self(std::array::from_fn(|_| texts.next().unwrap_or_default())))
    }
}

fn identifier(text: String) -> String {
    if text.len() <= LONGEST && !text.contains(char::is_control) {
        match canonical_id(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(canonical) => canonical,
        }
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn what_cannot_be_an_identifier_names_nothing() {
        let app = Router::new()
            .route("/one/{id}", get(async |Segment(id): Segment| format!("[{id}]")))
            .route("/two/{id}/{other}", get(async |Segments([a, b]): Segments<2>| format!("[{a}][{b}]")));
        let long = "x".repeat(LONGEST + 1);
        for (path, expected) in [
            ("/one/a%20b".to_owned(), "[a b]".to_owned()),
            ("/one/%F0%9F%98%80".to_owned(), "[😀]".to_owned()),
            (format!("/one/{}", &long[1..]), format!("[{}]", &long[1..])),
            (
                "/one/0191D2B3-0000-7000-8000-00000000000A".to_owned(),
                "[0191d2b3-0000-7000-8000-00000000000a]".to_owned(),
            ),
            ("/one/GitHub".to_owned(), "[GitHub]".to_owned()),
            ("/one/%00".to_owned(), "[]".to_owned()),
            ("/one/a%00b".to_owned(), "[]".to_owned()),
            ("/one/a%0Ab".to_owned(), "[]".to_owned()),
            ("/one/%FF".to_owned(), "[]".to_owned()),
            (format!("/one/{long}"), "[]".to_owned()),
            ("/two/a/b".to_owned(), "[a][b]".to_owned()),
            ("/two/a/%00".to_owned(), "[a][]".to_owned()),
            ("/two/%FF/b".to_owned(), "[][]".to_owned()),
        ] {
            let answer = app.clone().oneshot(Request::get(&path).body(Body::empty()).unwrap()).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&body), expected, "{path}");
        }
    }
}
