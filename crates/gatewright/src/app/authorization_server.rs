//! Converts the configuration of the authorization server into the types of `gatewright_auth`.

use gatewright_auth::plugins::authorization_server::{
    AuthorizationServerPlugin, IdentityClaims, ScopeText, SupportedScopes,
};
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::Scope;
use gatewright_entities::Entity;

use crate::Config;

/// The plugin, with a scope to read and one to write for each entity that is served, and one to export where that needs a permission.
pub(super) fn plugin(config: &Config) -> AuthorizationServerPlugin {
    let server = &config.authorization_server;
    let plugin = AuthorizationServerPlugin::new(scopes(config))
        .dynamic_registration(server.dynamic_registration)
        .client_documents(server.client_documents)
        .access_ttl(server.access_token_ttl)
        .refresh_ttl(server.refresh_token_ttl);
    if server.openid { plugin.openid(claims(config)) } else { plugin }
}

/// The further claims about users. What `check` refuses is left out.
fn claims(config: &Config) -> IdentityClaims {
    config.authorization_server.claims.iter().fold(IdentityClaims::new(), |claims, (name, source)| {
        source.parse().and_then(|source| claims.clone().with(name, source)).unwrap_or(claims)
    })
}

/// The scopes that clients may request.
fn scopes(config: &Config) -> SupportedScopes {
    let declared = config.declared();
    let served = declared.iter().filter(|entity| entity.has_crud() || entity.has_tools());
    served.fold(SupportedScopes::new(), |all, entity| {
        let (table, name) = (entity.table_name(), entity.name().replace(['_', '-'], " "));
        let scope = |verb: &str| format!("{table}:{verb}").parse::<Scope>().ok();
        let add = if entity.is_multi_tenant() { SupportedScopes::with_tenant_data } else { SupportedScopes::with };
        let all = scope("read").into_iter().fold(all, |all, scope| add(all, scope, ScopeText::Read(name.clone())));
        let export = entity.has_export().then(|| scope("export")).flatten();
        let all = export.into_iter().fold(all, |all, scope| add(all, scope, ScopeText::Export(name.clone())));
        let write = if entity.is_read_only() { None } else { scope("write") };
        write.into_iter().fold(all, |all, scope| add(all, scope, ScopeText::Write(name.clone())))
    })
}

/// The scopes in the challenge of `/mcp`: those of a client that uses every tool.
pub(super) fn for_tools(config: &Config) -> String {
    let declared = config.declared();
    let tools = declared.iter().filter(|entity| entity.has_tools());
    let verbs = |entity: &Entity| if entity.is_read_only() { &["read"][..] } else { &["read", "write"] };
    let scopes = tools.flat_map(|entity| verbs(entity).iter().map(|verb| format!("{}:{verb}", entity.table_name())));
    scopes.take(TokenDraft::MAX_SCOPES).collect::<Vec<_>>().join(" ")
}
