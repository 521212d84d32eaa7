use futures_util::future::join_all;
use gatewright_testing::TestApp;
use http::Method;
use serde_json::{Value, json};

use super::url::{endpoint, secret};
use super::{declared, ended};
use crate::all::app::admin::operator;

#[tokio::test]
async fn an_operator_sees_jobs_runs_one_and_reads_its_history() {
    let (port, received) = endpoint().await;
    let (secret, _) = secret();
    let toml = format!(
        "[[job]]\nname = \"digest\"\nschedule = \"0  7 29 feb *\"\ntimezone = \"Europe/Berlin\"\nurl = \"http://127.0.0.1:{port}/good\"\n\
         secret = \"{secret}\"\n[audit]\nentities = true\n"
    );
    for app in TestApp::on_every_engine(&toml).await {
        received.lock().clear();
        declared(&app, "digest").await;
        let operator = operator(&app).await;
        let before = ended(&app, "digest", 0).await.len();
        let listed = operator.get("/admin/api/jobs").await.is(200).json();
        let job = &listed["data"][0];
        assert_eq!(
            (&job["name"], &job["schedule"], &job["timezone"], &job["kind"]),
            (&json!("digest"), &json!("0 7 29 feb *"), &json!("Europe/Berlin"), &json!("url"))
        );
        assert!(job["nextAt"].is_string(), "{job}");
        // Twenty at once are one run, or at most one after another.
        let asked = join_all((0..20).map(|_| operator.post("/admin/api/jobs/digest/run", json!({})))).await;
        assert!(asked.iter().all(|answer| [202, 409].contains(&answer.status())), "{asked:?}");
        ended(&app, "digest", before + 1).await;
        let history = operator.get("/admin/api/jobs/digest/history").await.is(200).json();
        let run = &history["data"][0];
        assert_eq!(
            (&run["cause"], &run["outcome"], &run["attempt"]),
            (&json!("operator"), &json!("succeeded"), &json!(1))
        );
        assert!(run["durationMs"].is_number() && run["error"] == Value::Null);
        let calls = received.lock().len();
        assert!((1..20).contains(&calls), "{calls} calls for 20 requests at once");
        let limited = operator.get("/admin/api/jobs/digest/history?limit=1").await.is(200).json();
        assert_eq!(limited["data"].as_array().unwrap().len(), 1);
        operator.get("/admin/api/jobs/digest/history?since=1").await.is(400);
        operator.get("/admin/api/jobs/none/history").await.is(404);
        operator.post("/admin/api/jobs/none/run", json!({})).await.is(404);
        let events = operator.get("/admin/api/audit?kind=admin.acted").await.is(200).text().to_owned();
        assert!(events.contains("/admin/api/jobs/{name}/run") && events.contains("digest"), "{events}");
        // Nobody else.
        let ann = app.with_jwt("ann@example.com").await;
        ann.get("/admin/api/jobs").await.is(403);
        ann.json(Method::POST, "/admin/api/jobs/digest/run", &json!({})).await.is(403);
        app.anonymous().get("/admin/api/jobs").await.is(401);
        let metrics = app.anonymous().get("/metrics").await.is(200).text().to_owned();
        assert!(metrics.contains(r#"gatewright_job_runs_total{job="digest",outcome="succeeded"}"#), "{metrics}");
        assert!(metrics.contains(r#"gatewright_job_last_success_timestamp_seconds{job="digest"}"#), "{metrics}");
    }
}
