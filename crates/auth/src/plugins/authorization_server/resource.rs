use url::Url;

/// What a token of the authorization server is good for (RFC 8707). A token is accepted at one of the two alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Everything below the public address except the tool surface.
    Api,
    /// The tool surface, `/mcp`.
    Mcp,
}

/// The path of the tool surface.
const MCP: &str = "/mcp";

/// The two resources by their URLs.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    base: String,
}

impl Resource {
    /// The resource that a request for `path` asks.
    pub(crate) fn of_path(path: &str) -> Self {
        let is_mcp = path.strip_prefix(MCP).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if is_mcp { Self::Mcp } else { Self::Api }
    }
}

impl Resources {
    /// The resources of the service at `public_url`.
    pub(crate) fn new(public_url: &Url) -> Self {
        Self { base: public_url.as_str().trim_end_matches('/').to_owned() }
    }

    /// The public address without a slash at its end. It is the issuer, too (RFC 8414).
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The URL that stands for a resource in `resource` parameters and as the audience of tokens.
    pub(crate) fn url(&self, resource: Resource) -> String {
        match resource {
            Resource::Api => self.base.clone(),
            Resource::Mcp => format!("{}{MCP}", self.base),
        }
    }

    /// The resource that `text` names; a slash at the end makes no difference.
    pub(crate) fn parse(&self, text: &str) -> Option<Resource> {
        let url = Url::parse(text).ok()?;
        let found = url.as_str().trim_end_matches('/');
        [Resource::Api, Resource::Mcp].into_iter().find(|resource| self.url(*resource) == found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_one_resource() {
        for (path, resource) in [
            ("/mcp", Resource::Mcp),
            ("/mcp/", Resource::Mcp),
            ("/mcp/x", Resource::Mcp),
            ("/mcpx", Resource::Api),
            ("/MCP", Resource::Api),
            ("/posts", Resource::Api),
            ("/", Resource::Api),
            ("/api/mcp", Resource::Api),
        ] {
            assert_eq!(Resource::of_path(path), resource, "{path}");
        }
    }

    #[test]
    fn only_the_two_urls_name_a_resource() {
        let resources = Resources::new(&"https://api.example.com/".parse().unwrap());
        for (text, resource) in [
            ("https://api.example.com", Some(Resource::Api)),
            ("https://api.example.com/", Some(Resource::Api)),
            ("HTTPS://API.example.com/mcp", Some(Resource::Mcp)),
            ("https://api.example.com/mcp/", Some(Resource::Mcp)),
            ("https://api.example.com/mcp?x", None),
            ("https://api.example.com/mcp#x", None),
            ("https://api.example.com/posts", None),
            ("https://api.example.com.evil.example/mcp", None),
            ("https://user@api.example.com/mcp", None),
            ("http://api.example.com/mcp", None),
            ("https://api.example.com:444/mcp", None),
            ("mcp", None),
            ("", None),
        ] {
            assert_eq!(resources.parse(text), resource, "{text}");
        }
    }
}
