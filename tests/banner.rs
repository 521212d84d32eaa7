//! The output of `serve`: people paste from it, and scripts wait for it.

use std::process::Command;

use crate::harness::{Database, Launch};

#[tokio::test(flavor = "multi_thread")]
async fn the_curl_of_the_banner_registers_a_user_and_reads_a_list() {
    let table = "[[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n";
    let origins = "[browser_backend]\nallowed_origins = [\"https://app.example.com\"]\n";
    for database in Database::all().await {
        for launch in [
            Launch::dev(),
            Launch::configured(&format!("{origins}{table}")),
            Launch::configured(&format!("[csrf]\nenabled = true\n{table}")),
        ] {
            let server = launch.start(&database).await;
            let command = server.wait_for_output(pasteable);
            // Twice, because people paste twice: the command must also work if the address is taken.
            for round in 1..=2 {
                let output = Command::new("sh").args(["-c", &command]).output().unwrap();
                let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                assert!(output.status.success(), "round {round}: {command}\n{out}\n{err}");
                assert!(out.contains(r#""data":["#), "round {round}: {command}\n{out}\n{err}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn production_prints_the_public_addresses_and_no_registration_command() {
    let configuration = "[server]\npublic_url = \"https://app.example.com\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
                         [[entity]]\nname = \"notes\"\nowner_field = \"user_id\"\n";
    let server = Launch::production(configuration).start(&Database::Sqlite).await;
    let lines =
        server.wait_for_output(|lines| lines.iter().any(|line| line.starts_with("tools at")).then(|| lines.to_vec()));
    let expected = [
        &format!("listening on http://{}", server.address()),
        "sign in at   https://app.example.com/login",
        "account at   https://app.example.com/account",
        "API docs at  https://app.example.com/api/docs",
        "tools at     https://app.example.com/mcp",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_line_has_the_address_and_the_server_is_ready_by_then() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    server.client().get("/healthz").await.is(200);
    server.client().get("/readyz").await.is(200);
    let first = server.wait_for_output(|lines| lines.first().cloned());
    assert_eq!(first, format!("listening on http://{}", server.address()));
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_mode_says_how_many_connections_a_browser_opens() {
    let server = Launch::dev().start(&Database::Sqlite).await;
    let said = |lines: &[String]| lines.iter().find(|line| line.starts_with("event streams: ")).cloned();
    assert!(server.wait_for_output(said).contains("at most six connections"));
}

/// The `curl` command of the output, once it is complete.
fn pasteable(lines: &[String]) -> Option<String> {
    let start = lines.iter().position(|line| line.contains("curl "))?;
    let length = lines[start..].iter().position(|line| !line.trim_end().ends_with('\\'))?;
    Some(lines[start..=start + length].join("\n"))
}
