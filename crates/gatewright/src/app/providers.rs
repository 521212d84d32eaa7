//! Converts the configuration of providers into the types of `gatewright_auth`.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::AuthInitError;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::presets::{TokenAuth, Vouched};
use gatewright_auth::providers::oidc::{ClaimNames, MicrosoftTenant, Oidc, OidcConfig};
use gatewright_auth::providers::{
    AppleConfig, GitHub, GitHubConfig, Google, GoogleConfig, OAuth2, OAuth2Config, OAuthClient, PresetAccount,
    PresetConfig, Provider, ProviderHttp, UserClaims,
};
use gatewright_base::{Ambient, Secret};

use crate::config;

type Made = Result<Arc<dyn Provider>, AuthInitError>;

/// The plugin with the configured providers, in the order in which people see them.
pub(super) fn plugin(oauth: &config::OAuth) -> OAuthPlugin {
    let mut plugin =
        OAuthPlugin::new(oauth.state_secret.clone()).state_previous_secrets(oauth.state_previous_secrets.clone());
    if let Some(key) = &oauth.token_encryption_key {
        plugin = plugin.tokens(key.clone(), oauth.token_previous_encryption_keys.clone());
    }
    if let Some(provider) = oauth.google.clone() {
        plugin = plugin.provider_with(move |ambient| google(provider, ambient));
    }
    if let Some(provider) = oauth.github.clone() {
        plugin = plugin.provider_with(move |ambient| github(provider, ambient));
    }
    for provider in oauth.presets.iter().cloned() {
        plugin = plugin.provider_with(move |ambient| preset(provider, ambient));
    }
    for provider in oauth.oidc.iter().cloned() {
        plugin = plugin.provider_with(move |ambient| oidc(provider, ambient));
    }
    for provider in oauth.oauth2.iter().cloned() {
        plugin = plugin.provider_with(move |ambient| oauth2(provider, ambient));
    }
    plugin
}

/// The paths, below the auth base path, to which the pages of configured providers post their answers.
pub(super) fn posted_callbacks(oauth: &config::OAuth) -> impl Iterator<Item = String> {
    let posts = oauth.presets.iter().filter(|provider| provider.preset.posts());
    posts.map(|provider| format!("/oauth/{}/callback", provider.preset.name))
}

fn google(provider: config::OAuthProvider, ambient: &Ambient) -> Made {
    let config = GoogleConfig {
        redirect_url: provider.redirect_url,
        authorize_url: provider.authorize_url,
        token_url: provider.token_url,
        userinfo_url: provider.userinfo_url,
        send_pkce: provider.send_pkce,
        ..GoogleConfig::new(client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(Google::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn github(provider: config::OAuthProvider, ambient: &Ambient) -> Made {
    let config = GitHubConfig {
        redirect_url: provider.redirect_url,
        authorize_url: provider.authorize_url,
        token_url: provider.token_url,
        userinfo_url: provider.userinfo_url,
        emails_url: provider.emails_url,
        send_pkce: provider.send_pkce,
        ..GitHubConfig::new(client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(GitHub::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn oidc(provider: config::Oidc, ambient: &Ambient) -> Made {
    let config::Claims { subject, email, name, picture, email_verified } = provider.claims;
    let config = OidcConfig {
        label: provider.label,
        redirect_url: provider.redirect_url,
        scopes: provider.scopes,
        jwks_cache: provider.jwks_cache.max(Duration::from_secs(1)),
        claims: ClaimNames { subject, email, name, picture, email_verified },
        send_pkce: provider.send_pkce,
        send_nonce: provider.send_nonce,
        ..OidcConfig::new(provider.name, provider.issuer, client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(Oidc::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn preset(provider: config::PresetProvider, ambient: &Ambient) -> Made {
    let config::PresetProvider { preset, client_id, account, redirect_url, addresses, scopes, send_pkce, send_nonce } =
        provider;
    let wrong = |problem: &str| AuthInitError::Setting {
        setting: "auth.oauth",
        problem: format!("the provider \"{}\": {problem}", preset.name),
    };
    let account = match account {
        config::Account::Secret(secret) => PresetAccount::Secret(client(client_id, secret)),
        config::Account::Microsoft { client_secret, tenant } => {
            let tenant = MicrosoftTenant::parse(&tenant).ok_or_else(|| wrong("its tenant is unknown"))?;
            PresetAccount::Microsoft(client(client_id, client_secret), tenant)
        }
        config::Account::Apple { team_id, key_id, private_key } => {
            PresetAccount::Apple(AppleConfig { client_id, team_id, key_id, private_key })
        }
    };
    let config::Addresses { authorize_url, token_url, userinfo_url, issuer } = addresses;
    let config = PresetConfig {
        redirect_url,
        authorize_url,
        token_url,
        userinfo_url,
        issuer,
        scopes: Some(scopes),
        send_pkce,
        send_nonce,
        ..PresetConfig::new(preset, account)
    };
    config.provider(ProviderHttp::new()?, ambient.clone())
}

fn oauth2(provider: config::OAuth2, ambient: &Ambient) -> Made {
    let config::OAuth2Claims { subject, email, name, picture, email_verified } = provider.claims;
    let config = OAuth2Config {
        name: provider.name,
        label: provider.label,
        client: client(provider.client_id, provider.client_secret),
        redirect_url: provider.redirect_url,
        authorize_url: provider.authorize_url,
        token_url: provider.token_url,
        userinfo_url: provider.userinfo_url,
        scopes: provider.scopes,
        parameters: Vec::new(),
        token_auth: match provider.token_auth {
            config::TokenAuth::Basic => TokenAuth::Basic,
            config::TokenAuth::Post => TokenAuth::Post,
        },
        issuer: provider.issuer,
        claims: UserClaims {
            subject,
            email,
            email_verified: email_verified.map_or(Vouched::Never, Vouched::By),
            name: vec![name],
            picture,
        },
        send_pkce: provider.send_pkce,
    };
    Ok(Arc::new(OAuth2::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn client(id: String, secret: Secret) -> OAuthClient {
    OAuthClient { id, secret }
}
