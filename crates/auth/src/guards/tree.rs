use std::sync::Arc;

use gatewright_base::Identity;
use gatewright_http::Problem;
use gatewright_http::layers::Wrapped;
use http::Method;
use tower::Layer;

use super::wrap::{Call, Guard, Guarded, out_of_scope};

/// Guards a whole tree of routes at once: the resource is the first segment of the path after a prefix; `GET` and `HEAD`
/// need its `read`, every other method its `write`.
///
/// It restricts only API tokens and grants. The routes themselves decide whether they accept sessions, JWTs or
/// anonymous callers, so an anonymous caller passes too. Tokens are refused at paths that are not under the prefix.
#[derive(Debug, Clone)]
pub struct ScopeTree {
    prefix: Arc<str>,
}

impl ScopeTree {
    /// The tree under `prefix`, as the caller sees it: `/api`, or empty for the root. Give the full path, even if the
    /// tree is nested.
    pub fn under(prefix: &str) -> Self {
        Self { prefix: prefix.trim_end_matches('/').into() }
    }

    /// The first segment after the prefix, not decoded: no scope contains a `%`.
    fn resource<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        rest.split('/').next().filter(|segment| !segment.is_empty())
    }
}

impl Guard for ScopeTree {
    fn check(&self, call: &Call<'_>) -> Result<(), Problem> {
        if matches!(call.identity, Identity::Anonymous) {
            return Ok(());
        }
        let principal = call.principal()?;
        if principal.credential.scopes().is_none() {
            return Ok(());
        }
        let verb = if matches!(*call.method, Method::GET | Method::HEAD) { "read" } else { "write" };
        let resource = self.resource(call.path).ok_or_else(|| Problem::forbidden("no scope covers this path"))?;
        if principal.in_scope(resource, verb) { Ok(()) } else { Err(out_of_scope(resource, verb)) }
    }
}

impl<S> Layer<S> for ScopeTree {
    type Service = Wrapped<S, Guarded<Self>>;

    fn layer(&self, inner: S) -> Self::Service {
        Wrapped::new(inner, Guarded(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_is_the_first_segment_after_the_prefix() {
        for (prefix, path, expected) in [
            ("/api", "/api/posts", Some("posts")),
            ("/api/", "/api/posts/7/comments", Some("posts")),
            ("", "/posts/7", Some("posts")),
            ("/", "/posts", Some("posts")),
            ("/api", "/api", None),
            ("/api", "/api/", None),
            ("/api", "/api//posts", None),
            ("/api", "/apiposts", None),
            ("/api", "/API/posts", None),
            ("/api", "/other/posts", None),
            ("/api", "/api/p%6Fsts", Some("p%6Fsts")),
        ] {
            assert_eq!(ScopeTree::under(prefix).resource(path), expected, "{prefix} {path}");
        }
    }
}
