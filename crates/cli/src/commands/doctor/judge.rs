//! Decides what an answer means. Pure functions.

use std::fmt;

use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;
use url::{Host, Url};

use super::probe::{Answer, Beginning};

/// An origin that no deployment trusts.
pub(super) const STRANGER: &str = "https://stranger.invalid";
/// The maximum difference of clocks in seconds. Beyond it, one side refuses tokens that the other has just issued.
const MAX_SKEW: i64 = 30;

/// One line of the report.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Fine(String),
    Warning(String),
    Problem(String),
}

use Finding::{Fine, Problem, Warning};

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fine(text) => write!(f, "ok       {text}"),
            Warning(text) => write!(f, "warning  {text}"),
            Problem(text) => write!(f, "problem  {text}"),
        }
    }
}

/// Whether a Gatewright server answers, and whether its headers arrive.
pub(super) fn alive(answer: &Answer) -> Vec<Finding> {
    if answer.status != 200 || answer.body != b"ok\n" {
        return vec![Problem(format!(
            "/healthz answers {}; the address is not that of a Gatewright server, or a proxy does not pass the path on",
            answer.status
        ))];
    }
    let mut findings = vec![Fine(format!("/healthz answers in {} ms", answer.took.as_millis()))];
    let missing: Vec<&str> =
        ["x-content-type-options", "x-request-id"].into_iter().filter(|name| answer.header(name).is_none()).collect();
    if !missing.is_empty() {
        findings.push(Warning(format!("a proxy removes the headers {}; have it pass them on", missing.join(", "))));
    }
    findings
}

pub(super) fn encryption(base: &Url) -> Option<Finding> {
    if base.scheme() == "https" {
        return Some(Fine("the address is https".to_owned()));
    }
    (!is_loopback(base)).then(|| {
        Problem(
            "the address is plain http: passwords travel unencrypted, and browsers drop the session cookie".to_owned(),
        )
    })
}

/// Compares the server's clock with this computer's.
pub(super) fn clock(answer: &Answer, now: i64) -> Option<Finding> {
    let there = DateTimeParser::new().parse_timestamp(answer.header("date")?).ok()?;
    let skew = there.as_second().saturating_sub(now);
    Some(if skew.abs() > MAX_SKEW {
        Warning(format!("its clock is {skew} s from the one here; synchronise both, or codes and tokens are refused"))
    } else {
        Fine("its clock agrees with the one here".to_owned())
    })
}

pub(super) fn ready(answer: &Answer) -> Vec<Finding> {
    /// The word for servers that differ in their settings.
    const SETTINGS: &str = "settings";
    if answer.status != 200 {
        return vec![Problem(format!("/readyz answers {}: {}", answer.status, one_line(&answer.text())))];
    }
    let body = answer.json().unwrap_or_default();
    let lost = body["degraded"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (settings, lost): (Vec<&str>, Vec<&str>) =
        lost.iter().filter_map(Value::as_str).partition(|name| *name == SETTINGS);
    let mut findings = vec![if lost.is_empty() {
        Fine("/readyz: the database answers".to_owned())
    } else {
        let names: Vec<_> = lost.into_iter().map(one_line).collect();
        Warning(format!("/readyz: the database answers, and these services do not: {}", names.join(", ")))
    }];
    if !settings.is_empty() {
        findings.push(Problem(
            "/readyz: servers on the database differ in settings that must be equal; the log names them, and so does \
             `gatewright doctor URL --config FILE`"
                .to_owned(),
        ));
    }
    findings
}

/// Whether the server's public URL is the probed address, and which version it runs.
pub(super) fn document(document: Option<&Value>, base: &Url, version: &str) -> Vec<Finding> {
    let Some(document) = document else {
        return vec![Warning("/openapi.json cannot be read; a proxy may not pass it on".to_owned())];
    };
    let mut findings = Vec::new();
    let there = document["info"]["version"].as_str().unwrap_or("unknown");
    findings.push(if there == version {
        Fine(format!("it runs version {there}"))
    } else {
        Warning(format!("it runs version {}, and this program is version {version}", one_line(there)))
    });
    let public = document["servers"][0]["url"].as_str().and_then(|url| url.parse::<Url>().ok());
    if let Some(public) = public {
        findings.push(if public.origin() == base.origin() {
            Fine("`server.public_url` is the address".to_owned())
        } else {
            let public = public.origin().ascii_serialization();
            Warning(format!(
                "`server.public_url` is {public}, and the address is {}: links in mails and redirects lead to the former",
                base.origin().ascii_serialization()
            ))
        });
    }
    findings
}

/// In dev mode anybody can read the mails, and can so sign in as any user.
pub(super) fn dev_mode(answer: &Answer) -> Option<Finding> {
    match answer.status {
        200 => Some(Problem(
            "dev mode is on, and /dev/mail shows the mails to everybody; restart without --dev".to_owned(),
        )),
        403 => Some(Problem("dev mode is on; restart without --dev".to_owned())),
        _ => None,
    }
}

/// If the server sends no mail, its page for forgotten passwords has no form.
pub(super) fn mail(answer: &Answer) -> Option<Finding> {
    // A program may answer every path with its own page. That one does not count.
    let is_own = |policy: &str| policy.starts_with("default-src 'none'; style-src") && policy.contains("img-src data:");
    let is_page = answer.status == 200 && answer.header("content-security-policy").is_some_and(is_own);
    (is_page && !answer.text().contains("<form")).then(|| {
        Warning("the server sends no mail, and nobody can reset a forgotten password; set `[email]`".to_owned())
    })
}

pub(super) fn metrics(answer: &Answer, base: &Url) -> Finding {
    if answer.status == 200 && !is_loopback(base) {
        return Warning("/metrics is open to everybody; have the proxy refuse it".to_owned());
    }
    Fine(if answer.status == 200 { "/metrics answers on this computer" } else { "/metrics is not open" }.to_owned())
}

/// Whether pages of every origin may read answers, with or without the visitor's cookies.
pub(super) fn crossing(answer: &Answer) -> Finding {
    const HINT: &str = "remove the proxy's CORS headers, and list origins in `browser_backend.allowed_origins`";
    match answer.header("access-control-allow-origin") {
        Some(STRANGER) => return Problem(format!("pages of every origin may read answers; {HINT}")),
        // With `*`, browsers send no cookies, and the page can still read public answers.
        Some("*") => return Warning(format!("pages of every origin may read answers without cookies; {HINT}")),
        _ => {}
    }
    Fine("pages of other origins may not read answers".to_owned())
}

/// The path of an event stream, if there is one.
pub(super) fn a_stream(document: &Value) -> Option<&str> {
    // That of several entities asks for their names.
    let is_of_one =
        |path: &&str| path.ends_with("/_events") && document["paths"][*path]["get"]["operationId"] != "events";
    document["paths"].as_object()?.keys().map(String::as_str).find(is_of_one)
}

/// Whether events arrive without delay.
pub(super) fn stream(path: &str, beginning: &Beginning) -> Finding {
    match beginning {
        Beginning::Bytes(bytes) if !bytes.is_empty() => Fine(format!("{path} streams")),
        Beginning::Status(status @ (401 | 403 | 404)) => {
            Fine(format!("{path} answers {status}: event streams need credentials here, and were not tried"))
        }
        Beginning::Status(status) => Warning(format!("{path} answers {status}")),
        Beginning::Bytes(_) | Beginning::Silence => Problem(format!(
            "{path} stays silent: a proxy holds answers back. Switch its buffering off (nginx: `proxy_buffering off`)"
        )),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// Text from another machine, shortened and without control characters for a terminal.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::header::{HeaderMap, HeaderName};
    use serde_json::json;

    use super::*;

    /// A header of a sign-in page.
    const PAGE: &[(&str, &str)] =
        &[("content-security-policy", "default-src 'none'; style-src 'sha256-x'; img-src data:")];

    fn answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect();
        Answer { status, headers, body: body.as_bytes().to_vec(), took: Duration::from_millis(7) }
    }

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn each_mistake_of_a_deployment_is_found() {
        let public = url("https://example.com");
        let documented = json!({"info": {"version": "1.0.0"}, "servers": [{"url": "http://127.0.0.1:8080"}]});
        let judged = [
            alive(&answer(404, &[], "nginx")),
            alive(&answer(200, &[], "ok\n")),
            encryption(&url("http://example.com")).into_iter().collect(),
            clock(&answer(200, &[("date", "Tue, 02 Jan 2024 00:01:00 GMT")], ""), 1_704_153_600).into_iter().collect(),
            ready(&answer(503, &[], "the database\x1b[2Jdoes not answer")),
            document(None, &public, "1.0.0"),
            document(Some(&documented), &public, "1.1.0"),
            dev_mode(&answer(200, &[], "")).into_iter().collect(),
            dev_mode(&answer(403, &[], "")).into_iter().collect(),
            mail(&answer(200, PAGE, "<p>no mail</p>")).into_iter().collect(),
            vec![metrics(&answer(200, &[], "x 1"), &public)],
            vec![crossing(&answer(401, &[("access-control-allow-origin", STRANGER)], ""))],
            vec![crossing(&answer(401, &[("access-control-allow-origin", "*")], ""))],
            ready(&answer(200, &[], r#"{"status":"degraded","degraded":["carrier","limits"]}"#)),
            ready(&answer(200, &[], r#"{"status":"degraded","degraded":["settings"]}"#)),
            vec![stream("/posts/_events", &Beginning::Silence)],
            vec![stream("/posts/_events", &Beginning::Status(502))],
        ];
        let lines: Vec<String> = judged.iter().flatten().map(ToString::to_string).collect();
        for (kind, words) in [
            ("problem", "/healthz answers 404"),
            ("warning", "x-content-type-options, x-request-id"),
            ("problem", "plain http"),
            ("warning", "its clock is 60 s from the one here"),
            ("problem", "/readyz answers 503: the database [2Jdoes not answer"),
            ("warning", "/readyz: the database answers, and these services do not: carrier, limits"),
            ("problem", "/readyz: servers on the database differ in settings"),
            ("warning", "/openapi.json cannot be read"),
            ("warning", "it runs version 1.0.0, and this program is version 1.1.0"),
            ("warning", "`server.public_url` is http://127.0.0.1:8080, and the address is https://example.com"),
            ("problem", "dev mode is on, and /dev/mail shows"),
            ("problem", "dev mode is on; restart"),
            ("warning", "the server sends no mail"),
            ("warning", "/metrics is open to everybody"),
            ("problem", "pages of every origin"),
            ("warning", "without cookies"),
            ("problem", "/posts/_events stays silent"),
            ("warning", "/posts/_events answers 502"),
        ] {
            assert!(lines.iter().any(|line| line.starts_with(kind) && line.contains(words)), "{words}: {lines:#?}");
        }
    }

    #[test]
    fn a_sound_deployment_has_nothing_but_good_lines() {
        let public = url("https://example.com");
        let documented = json!({"info": {"version": "1.0.0"}, "servers": [{"url": "https://example.com"}]});
        let headers =
            [("x-content-type-options", "nosniff"), ("x-request-id", "1"), ("date", "Tue, 02 Jan 2024 00:00:00 GMT")];
        let judged = [
            alive(&answer(200, &headers, "ok\n")),
            encryption(&public).into_iter().collect(),
            clock(&answer(200, &headers, ""), 1_704_153_605).into_iter().collect(),
            ready(&answer(200, &[], "ok\n")),
            ready(&answer(200, &[], r#"{"status":"ready","degraded":[]}"#)),
            document(Some(&documented), &public, "1.0.0"),
            dev_mode(&answer(404, &[], "")).into_iter().collect(),
            mail(&answer(200, PAGE, "<form>")).into_iter().collect(),
            mail(&answer(404, PAGE, "")).into_iter().collect(),
            mail(&answer(200, &[("content-type", "text/html")], "<div id=app></div>")).into_iter().collect(),
            mail(&answer(200, &[("content-security-policy", "default-src 'none'; style-src 'self'")], ""))
                .into_iter()
                .collect(),
            vec![metrics(&answer(404, &[], ""), &public)],
            vec![crossing(&answer(401, &[], ""))],
            vec![stream("/posts/_events", &Beginning::Bytes(b"event: ready".to_vec()))],
            vec![stream("/posts/_events", &Beginning::Status(401))],
        ];
        for finding in judged.iter().flatten() {
            assert!(matches!(finding, Fine(_)), "{finding:?}");
        }
    }
}
