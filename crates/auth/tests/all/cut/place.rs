//! A site with every plugin over a database, and what tests prepare there.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_auth::plugins::account_deletion::AccountDeletionPlugin;
use gatewright_auth::plugins::account_export::AccountExportPlugin;
use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::authorization_server::{
    AuthorizationServerPlugin, ClientPurpose, IdentityClaims, RelyingParty, SupportedScopes,
};
use gatewright_auth::plugins::email_change::EmailChangePlugin;
use gatewright_auth::plugins::email_code::EmailCodePlugin;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::guests::GuestsPlugin;
use gatewright_auth::plugins::invitations::InvitationsPlugin;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::plugins::passkeys::{Passkey, PasskeyStore, PasskeysPlugin, SqlPasskeyStore};
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::profile::ProfilePlugin;
use gatewright_auth::plugins::tenants::{SqlMemberships, TenantsPlugin};
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::users::{OAuthLinks, ProviderLink, SqlUserStore};
use gatewright_auth::{AuthConfig, Guests, Impersonation, Label, MailKind};
use gatewright_base::{Secret, Subject, TenantId, UserId};
use gatewright_db::testing::TestDb;
use gatewright_tenancy::{COMPONENT, STEPS};
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::capabilities::OneWord;
use crate::mailed::Post;
use crate::oauth::{Begun, Fake, STATE_SECRET, identity};
use crate::passkeys::Authenticator;
use crate::support::{Answer, Call, PASSWORD, Site, config, limit_by_address, unlimited};

/// Where the programs of [`Place::program`] get their codes.
const CALLBACK: &str = "https://reader.example/callback";
const VERIFIER: &str = "a-verifier-of-forty-three-characters-or-more";

/// A site with every plugin over a database.
pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) post: Arc<Post>,
    alpha: Fake,
    memberships: SqlMemberships,
    passkeys: SqlPasskeyStore,
    users: SqlUserStore,
}

impl Place {
    pub(crate) async fn on(db: &TestDb) -> Self {
        gatewright_db::migrate(&db.db, COMPONENT, STEPS).await.unwrap();
        let (post, alpha) = (Arc::new(Post::default()), Fake::new("alpha"));
        let public_url = Some("https://app.example.com".parse().unwrap());
        let guests = Some(Guests { idle: Duration::from_hours(720) });
        let impersonation = Some(Impersonation { role: "operator".to_owned(), require_two_factor: false });
        let mut config = AuthConfig { public_url, impersonation, guests, ..config() };
        limit_by_address(&mut config.limits, unlimited());
        let site = Site::with_ambient(config, |builder, ambient| {
            let tenants = TenantsPlugin::new(Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone())));
            let oauth = OAuthPlugin::new(Secret::new(STATE_SECRET))
                .tokens(Secret::new("a token key of at least thirty-two bytes"), Vec::new())
                .provider(Arc::new(alpha.clone()));
            let scopes = SupportedScopes::new().with("notes:read".parse().unwrap(), "Read your notes.");
            let builder = builder.database(db.db.clone()).mailer(post.clone()).plugin(oauth);
            let builder = builder.plugin(EmailCodePlugin).plugin(GuestsPlugin);
            let builder = builder.plugin(MagicLinkPlugin::new()).plugin(AccountsPlugin).plugin(TokensPlugin::new());
            let builder = builder.plugin(PasswordResetPlugin::new()).plugin(EmailVerificationPlugin::new());
            let builder = builder.plugin(TwoFactorPlugin::new("Test")).plugin(PasskeysPlugin::new("Test"));
            let builder = builder.plugin(tenants).plugin(InvitationsPlugin::new()).plugin(EmailChangePlugin::new());
            let builder = builder.plugin(AccountDeletionPlugin).plugin(AccountExportPlugin);
            let builder = builder.plugin(ProfilePlugin::new(Arc::new(OneWord)));
            let server = AuthorizationServerPlugin::new(scopes).dynamic_registration(true);
            builder.plugin(server.openid(IdentityClaims::new()))
        })
        .await;
        let memberships = SqlMemberships::new(db.db.clone(), site.ambient.clone());
        let users = SqlUserStore::new(db.db.clone(), site.ambient.clone());
        let passkeys = SqlPasskeyStore::new(db.db.clone());
        Self { site: site.and_screens(), post, alpha, memberships, passkeys, users }
    }

    /// The kinds of all mails.
    pub(crate) async fn kinds(&self) -> Vec<MailKind> {
        self.site.auth.settle(Duration::from_mins(1)).await;
        self.post.mails.lock().iter().map(|mail| mail.kind).collect()
    }

    /// The token of the last mail.
    pub(crate) async fn mailed(&self) -> String {
        self.site.auth.settle(Duration::from_mins(1)).await;
        let link = self.post.mails.lock().last().unwrap().link.clone();
        let query = link.expose().split_once('?').unwrap().1;
        let token = query.split('&').find_map(|pair| pair.strip_prefix("token=").or(pair.strip_prefix("invite=")));
        token.unwrap().to_owned()
    }

    /// Requests a mail and returns its token.
    pub(crate) async fn asked(&self, path: &str, email: &str) -> String {
        Call::post(path).json(&json!({ "email": email })).send(&self.site).await.expect(200);
        self.mailed().await
    }

    /// Requests a code by mail, and returns its request and the code.
    pub(crate) async fn mailed_code(&self, email: &str) -> (String, String) {
        let send = Call::post("/auth/email-code/send").json(&json!({ "email": email }));
        let request = send.send(&self.site).await.expect(200).json()["request"].as_str().unwrap().to_owned();
        self.site.auth.settle(Duration::from_mins(1)).await;
        let code = self.post.mails.lock().last().unwrap().code.as_ref().unwrap().expose().to_owned();
        (request, code)
    }

    /// A user without a password, just signed in by a link.
    pub(crate) async fn passwordless(&self, email: &str) -> (Answer, UserId) {
        let token = self.asked("/auth/magic-link/send", email).await;
        self.site.advance(1);
        let redeem = Call::post("/auth/magic-link/verify").json(&json!({ "token": token }));
        let answer = redeem.send(&self.site).await.expect(200);
        let id = user(&answer);
        (answer, id)
    }

    /// A stored passkey, and its id.
    pub(crate) async fn passkey(&self, user: &UserId) -> String {
        let id = self.site.ambient.uuid().to_string();
        let passkey = Passkey {
            id: id.clone(),
            user: user.clone(),
            name: Label::parse("Phone").unwrap(),
            credential_id: id.clone().into_bytes(),
            public_key: vec![1],
            algorithm: -7,
            counter: 0,
            transports: "[]".to_owned(),
            backed_up: false,
            created_at: self.site.ambient.now(),
            last_used_at: None,
        };
        self.passkeys.add(&passkey, 20).await.unwrap();
        id
    }

    /// The request that adds the passkey of an authenticator.
    pub(crate) async fn adding(&self, by: &Answer, authenticator: &mut Authenticator, name: Option<&str>) -> Call {
        let options = Call::post("/auth/passkeys/register/options").json(&json!({ "password": PASSWORD }));
        let options = options.cookie_of(by).send(&self.site).await.expect(200);
        let cookies = format!("{}; {}", by.cookie().unwrap(), options.cookie().unwrap());
        let mut credential = authenticator.create(&options.json());
        if let Some(name) = name {
            credential["name"] = name.into();
        }
        Call::post("/auth/passkeys/register").cookie(&cookies).json(&credential)
    }

    /// A link to the provider `alpha`.
    pub(crate) async fn link(&self, user: &UserId) {
        let user = self.site.auth.accounts().find_by_id(user).await.unwrap();
        let link = ProviderLink {
            provider: "alpha".to_owned(),
            provider_id: user.id.as_str().to_owned(),
            email: None,
            name: None,
            avatar_url: None,
        };
        self.users.link(&user, &link).await.unwrap();
    }

    /// The return from the provider `alpha`, of a flow that began at `path`, with an identity of this address.
    pub(crate) async fn returning(&self, path: &str, by: Option<&Answer>, email: &str) -> Call {
        let session = by.map(|answer| answer.cookie().unwrap()).unwrap_or_default();
        let begun = Begun::of(&Call::get(path).cookie(&session).send(&self.site).await.expect(303));
        let code = self.alpha.code(&identity(email, Some(email), true));
        let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
        Call::get(&path).cookie(&format!("{}; {session}", begun.cookie))
    }

    /// A new tenant of this user.
    pub(crate) async fn tenant(&self, owner: &Answer) -> TenantId {
        let made = Call::post("/auth/tenants").json(&json!({ "name": "Acme" })).cookie_of(owner);
        TenantId::parse(made.send(&self.site).await.expect(201).json()["id"].as_str().unwrap()).unwrap()
    }

    /// A new tenant of a new owner, and another member of it.
    pub(super) async fn member(&self, email: &str) -> (Answer, String) {
        let owner = self.site.signed_in(&format!("owner-{email}")).await;
        let tenant = self.tenant(&owner).await;
        let member = self.member_of(&tenant, email).await;
        (owner, format!("/auth/tenants/{tenant}/members/{member}"))
    }

    /// A new account that belongs to this tenant.
    pub(crate) async fn member_of(&self, tenant: &TenantId, email: &str) -> UserId {
        let member = user(&self.site.register(email).await);
        self.memberships.add(tenant, &Subject::User(member.clone())).await.unwrap();
        member
    }

    /// The path and the answer of an invitation to a new tenant.
    pub(crate) async fn invited(&self, owner: &Answer, email: &str) -> (String, Answer) {
        let path = format!("/auth/tenants/{}", self.tenant(owner).await);
        let invite = Call::post(&format!("{path}/members")).json(&json!({ "email": email })).cookie_of(owner);
        (path, invite.send(&self.site).await.expect(201))
    }

    /// A program that the operator has registered.
    pub(crate) async fn program(&self) -> String {
        let redirect_uris = vec![CALLBACK.to_owned()];
        let purpose = ClientPurpose::Users {
            redirect_uris,
            scopes: None,
            confidential: false,
            relying_party: RelyingParty::default(),
        };
        self.site.auth.oauth2_clients().unwrap().create("Reader", purpose).await.unwrap().0.id
    }

    /// The path at which a program asks for a user's consent.
    pub(crate) fn authorize(program: &str) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let pairs = [
            ("response_type", "code"),
            ("client_id", program),
            ("redirect_uri", CALLBACK),
            ("scope", "openid notes:read"),
            ("code_challenge", &*challenge),
            ("code_challenge_method", "S256"),
        ];
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        format!("/auth/oauth2/authorize?{query}")
    }

    /// The form of the page that asks for consent, filled in with these fields.
    pub(crate) async fn consenting(&self, by: &Answer, program: &str, more: &[(&str, &str)]) -> Call {
        let page = Call::get(&Self::authorize(program)).cookie_of(by).send(&self.site).await.expect(200).body;
        let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
        let own = [("request", &*request), ("seal", &*seal), ("decision", "allow")];
        Call::post("/auth/oauth2/authorize").form(&[&own[..], more].concat()).cookie_of(by)
    }

    /// The request of a device for its codes.
    pub(super) fn device_request(program: &str) -> Call {
        let form = [("client_id", program), ("scope", "notes:read")];
        Call::post("/auth/oauth2/device_authorization").form(&form)
    }

    /// The form by which a user allows a device.
    pub(super) async fn allowing(&self, by: &Answer, program: &str) -> Call {
        let begun = Self::device_request(program).send(&self.site).await.expect(200).json();
        let typed = [("user_code", begun["user_code"].as_str().unwrap())];
        let page = Call::post("/device").form(&typed).cookie_of(by).send(&self.site).await.expect(200).body;
        let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
        let own = [("request", &*request), ("seal", &*seal), ("decision", "allow")];
        Call::post("/device").form(&own).cookie_of(by)
    }

    /// The exchange of a code that a user's consent gave a program.
    pub(super) async fn exchanging(&self, by: &Answer, program: &str) -> Call {
        let answer = self.consenting(by, program, &[]).await.send(&self.site).await.expect(303);
        let location = url::Url::parse(answer.location().unwrap()).unwrap();
        let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
        Call::post("/auth/oauth2/token").form(&[
            ("grant_type", "authorization_code"),
            ("client_id", program),
            ("code", &code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ])
    }

    /// A program with tokens of this user: its identifier and its refresh token.
    pub(super) async fn connected(&self, by: &Answer) -> (String, String) {
        let program = self.program().await;
        let tokens = self.exchanging(by, &program).await.send(&self.site).await.expect(200).json();
        (program, tokens["refresh_token"].as_str().unwrap().to_owned())
    }

    /// A program's request that signs this user out, with the token that says who was signed in.
    pub(super) async fn signing_out(&self, by: &Answer) -> Call {
        let program = self.program().await;
        let tokens = self.exchanging(by, &program).await.send(&self.site).await.expect(200).json();
        let hint = tokens["id_token"].as_str().unwrap();
        Call::get(&format!("/auth/oauth2/end_session?id_token_hint={hint}")).cookie_of(by)
    }

    /// The form of the page that asks whether to sign out.
    pub(super) async fn confirming(&self, by: &Answer) -> Call {
        let page = Call::get("/auth/oauth2/end_session?state=x").cookie_of(by).send(&self.site).await.expect(200).body;
        let (request, seal) = (hidden(&page, "request"), hidden(&page, "seal"));
        let form = [("request", &*request), ("seal", &*seal), ("decision", "sign_out")];
        Call::post("/auth/oauth2/end_session").form(&form).cookie_of(by)
    }

    /// A new link to another address, whose mail was just sent, of a new user.
    pub(crate) async fn changing(&self, email: &str) -> Answer {
        let ann = self.site.signed_in(email).await;
        Self::change_request(email).cookie_of(&ann).send(&self.site).await.expect(200);
        ann
    }

    /// The request of another address.
    pub(super) fn change_request(email: &str) -> Call {
        let body = json!({ "email": format!("new-{email}"), "password": PASSWORD });
        Call::post("/auth/change-email").json(&body)
    }

    /// The first identifier in a list of this user's own.
    pub(super) async fn listed(&self, by: &Answer, list: &str, choose: impl Fn(&Value) -> bool) -> String {
        let answer = Call::new(Method::GET, &format!("/auth/{list}")).cookie_of(by).send(&self.site).await.expect(200);
        let all = answer.json()[list].as_array().unwrap().clone();
        all.into_iter().find(choose).unwrap()["id"].as_str().unwrap().to_owned()
    }
}

/// The user of a sign-in or a registration.
pub(super) fn user(answer: &Answer) -> UserId {
    UserId::parse(answer.json()["user"]["id"].as_str().unwrap()).unwrap()
}

/// The value of a hidden field of a page.
fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("the page has {name}: {page}")).1;
    rest.split_once('"').unwrap().0.replace("&amp;", "&")
}
