use url::Url;

/// The resource of a token of the authorization server (RFC 8707). A token is accepted at only one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Everything below the public address except the tool surface.
    Api,
    /// The tool surface (MCP).
    Mcp,
}

/// The resources by their URLs, made once.
#[derive(Debug, Clone)]
pub(crate) struct Resources {
    base: String,
    tools: Option<Tools>,
}

#[derive(Debug, Clone)]
struct Tools {
    path: String,
    url: String,
}

impl Resources {
    /// The resources of the service at `public_url`, with the tool interface at `tools_path` if it has one.
    pub(crate) fn new(public_url: &Url, tools_path: Option<&str>) -> Self {
        let base = public_url.as_str().trim_end_matches('/').to_owned();
        let tools = tools_path.map(|path| Tools { path: path.to_owned(), url: format!("{base}{path}") });
        Self { base, tools }
    }

    /// The resource that a request for `path` asks.
    pub(crate) fn of_path(&self, path: &str) -> Resource {
        let rest = self.tools.as_ref().and_then(|tools| path.strip_prefix(&*tools.path));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) { Resource::Mcp } else { Resource::Api }
    }

    /// The path of the tool interface, if there is one.
    #[cfg(feature = "authorization-server")]
    pub(crate) fn tools_path(&self) -> Option<&str> {
        self.tools.as_ref().map(|tools| &*tools.path)
    }

    /// The public address without a slash at its end. It is the issuer, too (RFC 8414).
    #[cfg(feature = "authorization-server")]
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The URL of a resource in `resource` parameters and as the audience of tokens.
    pub(crate) fn url(&self, resource: Resource) -> &str {
        match (resource, &self.tools) {
            (Resource::Mcp, Some(tools)) => &tools.url,
            (Resource::Api, _) | (Resource::Mcp, None) => &self.base,
        }
    }

    /// The resource that `text` names; a slash at the end makes no difference.
    #[cfg(feature = "authorization-server")]
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
        let url = "https://api.example.com".parse().unwrap();
        let (resources, without) = (Resources::new(&url, Some("/mcp")), Resources::new(&url, None));
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
            assert_eq!(resources.of_path(path), resource, "{path}");
            assert_eq!(without.of_path(path), Resource::Api, "{path}");
        }
    }

    #[cfg(feature = "authorization-server")]
    #[test]
    fn only_the_two_urls_name_a_resource() {
        let resources = Resources::new(&"https://api.example.com/".parse().unwrap(), Some("/mcp"));
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
