use std::net::SocketAddr;

use anyhow::Context;

use crate::load::{Connection, once, post};

/// An account, as the body of a registration and of a login.
pub(crate) const ACCOUNT: &str = r#"{"email":"bench@example.com","password":"correct horse battery"}"#;

/// What a client sends to be that account: lines of a request's head.
pub(crate) struct Credentials {
    pub(crate) jwt: String,
    pub(crate) session: String,
}

impl Credentials {
    /// Registers the account and signs in.
    pub(crate) async fn of_new_account(server: SocketAddr) -> anyhow::Result<Self> {
        Self::registered(server, ACCOUNT).await
    }

    /// Registers the account of a body and signs in.
    pub(crate) async fn registered(server: SocketAddr, account: &str) -> anyhow::Result<Self> {
        once(server, &post("/auth/register", account)).await?;
        let mut connection = Connection::open(server).await?;
        connection.exchange(&post("/auth/login", account)).await?;
        let answer: serde_json::Value = serde_json::from_slice(&connection.body())?;
        let token = answer["token"].as_str().context("a login returns a token")?;
        let head = connection.head();
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
        let cookie = cookie.context("a login sets a cookie")?;
        Ok(Self { jwt: format!("Authorization: Bearer {token}\r\n"), session: format!("Cookie: {cookie}\r\n") })
    }
}

/// The request with one more header.
pub(crate) fn with(request: &[u8], header: &str) -> Vec<u8> {
    let line = request.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    [&request[..line], header.as_bytes(), &request[line..]].concat()
}
