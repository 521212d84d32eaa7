//! Everything that works only once: of two clients that use it at the same moment, one succeeds.

use futures_util::future::join;
use reqwest::Method;
use serde_json::{Value, json};

use crate::accounts::authenticator_code;
use crate::connections::{CONFIGURATION, Program};
use crate::harness::{Answer, Client, Database, Launch, PASSWORD, Server, gatewright};

/// The rounds of each race. Both requests are sent at once, and the machine decides the order.
const ROUNDS: usize = 4;

/// Two clients that have the same link, code or token.
struct Race<'a> {
    server: &'a Server,
    database: &'a Database,
    round: usize,
    one: Client,
    other: Client,
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_clients_with_one_single_use_token_succeeds() {
    for database in Database::all().await {
        let limits = ["register", "magic_link", "password_reset", "two_factor"];
        let limits = limits.map(|limit| format!("[auth.limits.{limit}]\nmax_attempts = 1000\n")).concat();
        let configuration = format!("[server]\ndev_mode = true\n{limits}{CONFIGURATION}");
        let server = Launch::configured(&configuration).start(&database).await;
        for round in 0..ROUNDS {
            let (one, other) = (server.client(), server.client());
            let race = Race { server: &server, database: &database, round, one, other };
            race.magic_link().await;
            race.reset_link().await;
            race.change_of_address().await;
            race.invitation_to_register().await;
            race.invitation_to_accept().await;
            race.stream_ticket().await;
            race.authorization_code().await;
            race.refresh_token().await;
            // Without an authenticator, only this race is skipped.
            let _tried = race.second_factor().await;
        }
    }
}

impl Race<'_> {
    async fn magic_link(&self) {
        let email = self.email("link");
        self.one.post("/auth/magic-link/send", &json!({ "email": email })).await.is(200);
        let body = json!({ "token": self.token(&email, "token=").await });
        self.both("magic link", "/auth/magic-link/verify", &body).await;
    }

    async fn reset_link(&self) {
        let (_, email) = self.person("reset").await;
        self.one.post("/auth/forgot-password", &json!({ "email": email })).await.is(200);
        let body = json!({ "token": self.token(&email, "token=").await, "password": "another horse battery" });
        self.both("reset", "/auth/reset-password", &body).await;
    }

    async fn change_of_address(&self) {
        let (person, email) = self.person("moves").await;
        let new = self.email("moved");
        let body = json!({ "email": new, "password": PASSWORD });
        person.post("/auth/change-email", &body).await.is(200);
        let body = json!({ "token": self.token(&new, "token=").await });
        // Only the account's holder confirms.
        for client in [&self.one, &self.other] {
            client.log_in(&email).await.is(200);
        }
        self.both("change of address", "/auth/change-email/confirm", &body).await;
        let body = json!({ "token": self.token(&email, "token=").await });
        self.both("undoing it", "/auth/change-email/undo", &body).await;
    }

    async fn invitation_to_register(&self) {
        let email = self.email("invited");
        let invite = self.invite(&email);
        let body = json!({ "email": email, "password": PASSWORD, "invite": invite });
        self.both("invitation, registering", "/auth/register", &body).await;
        let user = self.server.client().log_in(&email).await.is(200).json();
        assert!(user["user"]["roles"].as_array().unwrap().contains(&json!("editor")), "{user}");
    }

    async fn invitation_to_accept(&self) {
        let (person, email) = self.person("accepts").await;
        let invite = self.invite(&email);
        self.one.log_in(&email).await.is(200);
        self.other.log_in(&email).await.is(200);
        self.both("invitation, accepting", "/auth/invitations/accept", &json!({ "invite": invite })).await;
        let user = person.get("/auth/me").await.is(200).json();
        assert!(user["user"]["roles"].as_array().unwrap().contains(&json!("editor")), "{user}");
    }

    async fn stream_ticket(&self) {
        let (person, _) = self.person("listens").await;
        let ticket = person.post("/auth/stream-ticket", &json!({})).await.is(200).json();
        let path = format!("/notes/_events?ticket={}", ticket["ticket"].as_str().unwrap());
        let open = async |client: &Client| client.stream(&path).send().await.unwrap().status().as_u16();
        let answers = join(open(&self.one), open(&self.other)).await;
        self.one_of("stream ticket", answers.into());
    }

    async fn authorization_code(&self) {
        let (person, _) = self.person("connects").await;
        let (client, code) = Program::allowed(self.server, self.database, &person, "An agent", "notes:read").await;
        let redeem = async || Program::redeem(self.server, &client, &code).await.status.as_u16();
        self.one_of("authorization code", join(redeem(), redeem()).await.into());
    }

    async fn refresh_token(&self) {
        let (person, _) = self.person("stays").await;
        let program = Program::connect(self.server, self.database, &person, "An agent", "notes:read").await;
        let refresh = async || program.refresh(self.server).await.status.as_u16();
        self.one_of("refresh token", join(refresh(), refresh()).await.into());
    }

    /// `false` without an authenticator.
    async fn second_factor(&self) -> bool {
        let (person, email) = self.person("careful").await;
        let begun = person.post("/auth/2fa/enroll", &json!({})).await.is(200).json();
        let Some(code) = authenticator_code(begun["secret"].as_str().unwrap()) else { return false };
        let enrolled = person.post("/auth/2fa/verify", &json!({ "code": code })).await.is(200).json();
        let codes = enrolled["backup_codes"].as_array().or(enrolled["backupCodes"].as_array()).expect("backup codes");
        for client in [&self.one, &self.other] {
            client.log_in(&email).await.is(200);
        }
        self.both("backup code", "/auth/2fa/challenge", &json!({ "code": codes[0] })).await;
        true
    }

    /// Both send this body at once. One of them succeeds.
    async fn both(&self, what: &str, path: &str, body: &Value) {
        let send = async |client: &Client| Answer::read(client.request(Method::POST, path).json(body)).await;
        let (one, other) = join(send(&self.one), send(&self.other)).await;
        self.one_of(what, [one.status.as_u16(), other.status.as_u16()]);
        // Sign both out before the next race.
        for client in [&self.one, &self.other] {
            client.post("/auth/logout", &json!({})).await.is(204);
        }
    }

    fn one_of(&self, what: &str, answers: [u16; 2]) {
        let won = answers.iter().filter(|status| **status == 200).count();
        assert_eq!(won, 1, "{what}: {answers:?} in round {}", self.round);
        assert!(answers.iter().all(|status| *status == 200 || (400..500).contains(status)), "{what}: {answers:?}");
    }

    fn email(&self, who: &str) -> String {
        format!("{who}-{}@example.com", self.round)
    }

    /// A signed-in user.
    async fn person(&self, who: &str) -> (Client, String) {
        let (client, email) = (self.server.client(), self.email(who));
        client.register(&email).await.is(200);
        client.log_in(&email).await.is(200);
        (client, email)
    }

    /// The token of the latest mail to an address.
    async fn token(&self, to: &str, before: &str) -> String {
        let mails = self.server.client().get("/dev/mail.json").await.is(200).json();
        let mails: Vec<_> = mails.as_array().unwrap().iter().filter(|mail| mail["to"] == to).collect();
        let link = mails.iter().find_map(|mail| mail["links"].as_array()?.iter().find_map(Value::as_str));
        let link = link.unwrap_or_else(|| panic!("a link was mailed to {to}"));
        link.split_once(before).expect("the link has a token").1.to_owned()
    }

    /// The token of an invitation with a role.
    fn invite(&self, email: &str) -> String {
        let url = self.database.url();
        let words = ["user", "invite", email, "--roles", "editor", "--database", &url];
        let said = tokio::task::block_in_place(|| gatewright(self.server.folder(), &words, ""));
        assert_eq!(said.status, 0, "{said:?}");
        said.out.split_once("?invite=").expect("it prints the link").1.trim().to_owned()
    }
}
