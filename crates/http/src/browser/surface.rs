use axum::extract::OriginalUri;
use http::request::Parts;
use percent_encoding::percent_decode_str;

/// The paths that the posture guards: everything at and below the API prefix and the auth base path.
#[derive(Debug, Clone)]
pub(super) struct Surface {
    pub(super) api_prefix: String,
    pub(super) auth_base: String,
    /// Further paths.
    pub(super) others: Vec<String>,
}

impl Surface {
    /// Whether the request is for a path of the surface: the path that this layer sees or, below a nested router, the
    /// client's original path.
    pub(super) fn covers(&self, parts: &Parts) -> bool {
        let original = parts.extensions.get::<OriginalUri>().map(|OriginalUri(uri)| uri.path());
        [Some(parts.uri.path()), original].into_iter().flatten().any(|path| self.covers_path(path))
    }

    /// A path is on the surface if any reading of it is: unchanged, or decoded with its dots and empty segments
    /// resolved, because a later hop may read it that way. Guarding too many paths does no harm.
    fn covers_path(&self, path: &str) -> bool {
        let resolved = resolve(path);
        let decoded = percent_decode_str(path).decode_utf8_lossy().replace('\\', "/");
        let decoded = resolve(&decoded);
        [&self.api_prefix, &self.auth_base].into_iter().chain(&self.others).any(|prefix| {
            let prefix = resolve(prefix);
            below(path, &prefix) || resolved.starts_with(&prefix) || decoded.starts_with(&prefix)
        })
    }
}

/// Whether the unchanged path begins with all segments of `prefix`.
fn below(path: &str, prefix: &[&str]) -> bool {
    let mut segments = path.trim_start_matches('/').split('/');
    prefix.iter().all(|expected| segments.next() == Some(expected))
}

fn resolve(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn surface(api_prefix: &str) -> Surface {
        Surface { api_prefix: api_prefix.to_owned(), auth_base: "/auth".to_owned(), others: Vec::new() }
    }

    #[test]
    fn a_path_is_covered_in_every_spelling() {
        let cases = [
            ("/api", true),
            ("/api/", true),
            ("/api/posts", true),
            ("/auth/login", true),
            ("//api/posts", true),
            ("/./api/posts", true),
            ("/x/../api/posts", true),
            ("/%61pi/posts", true),
            ("/api%2fposts", true),
            ("/x/%2e%2e/api", true),
            ("/x%5C..%5Capi", true),
            // A server that resolves nothing takes these for the API.
            ("/api/../x", true),
            ("/api/%2e%2e/x", true),
            ("/", false),
            ("/apis", false),
            ("/ap", false),
            ("/API/posts", false),
            ("/v1/api", false),
            ("/authors", false),
            ("/mcp", false),
            ("/%ff", false),
        ];
        for (path, expected) in cases {
            assert_eq!(surface("/api").covers_path(path), expected, "{path}");
        }
    }

    #[test]
    fn an_empty_prefix_covers_everything_and_a_long_one_all_its_segments() {
        for path in ["/", "/posts", "/x/../y"] {
            assert!(surface("").covers_path(path) && surface("/").covers_path(path), "{path}");
        }
        let deep = surface("/v1/api");
        assert!(deep.covers_path("/v1/api/posts") && !deep.covers_path("/v1/apis") && !deep.covers_path("/v1"));
    }

    #[test]
    fn below_a_nested_router_the_whole_path_counts_too() {
        let (mut parts, ()) = Request::get("/posts").body(()).unwrap().into_parts();
        assert!(!surface("/api").covers(&parts));
        parts.extensions.insert(OriginalUri("/api/posts".parse().unwrap()));
        assert!(surface("/api").covers(&parts));
    }
}
