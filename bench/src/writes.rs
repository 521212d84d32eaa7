use std::net::SocketAddr;
use std::time::Duration;

use crate::child::Server;
use crate::credentials::{Credentials, with};
use crate::engines::on_both;
use crate::load::{self, get, post};

/// The number of parts of a comparison. Both sides take turns, so that other load on the machine affects both.
const ROUNDS: u32 = 7;
/// Connections that send batches, and those of the caller who is measured.
const SENDERS: usize = 4;
const OTHERS: usize = 4;
/// Operations of a batch.
const OPERATIONS: usize = 100;

/// Compares creates in an entity with a sequence and a key of two fields with those in a plain one; and the latencies of one caller
/// beside another one's batches with those without. Prints the ratios. The targets are 1.3 and 2.
pub(crate) async fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let seconds: u64 = arguments.first().map_or(Ok(28), |text| text.parse())?;
    on_both(async |url, engine| measure(url, engine, Duration::from_secs(seconds)).await).await
}

async fn measure(url: &str, engine: &str, time: Duration) -> anyhow::Result<Vec<String>> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("gatewright.toml");
    std::fs::write(&config, CONFIGURATION)?;
    let server = Server::gatewright(&config, url)?;
    let (sender, other) = (sign_in(server.address, "sender").await?, sign_in(server.address, "other").await?);
    let mut report = Vec::new();
    for connections in [1, 64] {
        report.push(creates(&server, engine, connections, &other, time).await?);
    }
    for (what, request) in
        [("create", post("/plain", r#"{"desk":"d","title":"A title"}"#)), ("list", get("/plain?limit=25&cursor="))]
    {
        let request = with(&request, &other);
        report.push(beside_batches(&server, engine, (what, &request), &sender, time).await?);
    }
    Ok(report)
}

/// Creates with and without a number, each connection in a scope of its own.
async fn creates(
    server: &Server,
    engine: &str,
    connections: usize,
    header: &str,
    time: Duration,
) -> anyhow::Result<String> {
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let mut rates = [0.0; 2];
        for (path, rate) in ["/plain", "/numbered"].into_iter().zip(&mut rates) {
            let header = header.to_owned();
            let measured = load::run(server.address, connections, time / ROUNDS / 2, move |number, _| {
                with(&post(path, &format!(r#"{{"desk":"desk {number}","title":"A title"}}"#)), &header)
            });
            *rate = measured.await?.rate;
        }
        ratios.push(rates[0] / rates[1]);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(format!(
        "{engine}, creates over {connections} connections: one with a sequence and a key takes {:.2} times one without ({:.2} to {:.2})",
        ratios[ratios.len() / 2],
        ratios[0],
        ratios[ratios.len() - 1]
    ))
}

/// The latencies of a caller, alone and beside another one who sends batches without a pause.
async fn beside_batches(
    server: &Server,
    engine: &str,
    (what, request): (&str, &[u8]),
    sender: &str,
    time: Duration,
) -> anyhow::Result<String> {
    let operation = r#"{"op":"create","entity":"numbered","data":{"desk":"batch","title":"A title"}}"#;
    let batch = format!(r#"{{"operations":[{}]}}"#, vec![operation; OPERATIONS].join(","));
    let batch = with(&post("/_batch", &batch), sender);
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let asked = |request: &[u8]| {
            let request = request.to_vec();
            load::run(server.address, OTHERS, time / ROUNDS / 2, move |_, _| request.clone())
        };
        let alone = asked(request).await?;
        let sent = batch.clone();
        let sending =
            load::run(server.address, SENDERS, time / ROUNDS / 2 + Duration::from_secs(1), move |_, _| sent.clone());
        let sending = tokio::spawn(sending);
        tokio::time::sleep(Duration::from_millis(200)).await;
        let beside = asked(request).await?;
        let batches = sending.await??;
        let ratio = |beside: Duration, alone: Duration| beside.as_secs_f64() / alone.as_secs_f64();
        ratios.push((
            ratio(beside.p99, alone.p99),
            ratio(beside.median, alone.median),
            alone.p99,
            beside.p99,
            batches.rate,
        ));
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (p99, median, alone, beside, rate) = ratios[ratios.len() / 2];
    Ok(format!(
        "{engine}, {what} beside another caller's batches of {OPERATIONS} ({rate:.0}/s): p99 {p99:.2} times that without ({beside:?}, {alone:?}), \
         the median {median:.2} times"
    ))
}

async fn sign_in(server: SocketAddr, name: &str) -> anyhow::Result<String> {
    let account = format!(r#"{{"email":"{name}@example.com","password":"correct horse battery"}}"#);
    Ok(Credentials::registered(server, &account).await?.jwt)
}

const CONFIGURATION: &str = r#"
[auth]
jwt_secret = "a benchmark needs no secrecy, only bytes"
[[entity]]
name = "plain"
[[entity.field]]
name = "desk"
type = "string"
[[entity.field]]
name = "title"
type = "string"
[[entity]]
name = "numbered"
unique = [["desk", "number"]]
[[entity.field]]
name = "desk"
type = "string"
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "number"
type = "int"
sequence = ["desk"]
"#;
