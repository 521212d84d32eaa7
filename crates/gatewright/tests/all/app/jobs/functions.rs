use gatewright_testing::TestApp;
use serde_json::json;

use super::{a_day_later, declared};
use crate::all::app::functions::folder;

const NOTES: &str = entity!(owned "notes" "text");

const FILE: &str = r#"
    import { job } from "gatewright";

    export const nightly = job("0 3 * * *", async ({ db, due, log }) => {
      const found = await db.system.list("notes", {});
      await db.system.create("notes", { text: `${found.total} notes at ${due}` });
      try {
        await db.list("notes", {});
      } catch (error: any) {
        await db.system.create("notes", { text: error.message });
      }
      log.info("done");
    });
    export const broken = job("0 4 * * *", { timezone: "Europe/Berlin" }, async ({ secrets }) => {
      throw new Error(`the key is ${secrets.HOME}`);
    });
    export const endless = job("0 5 * * *", async () => { for (;;) {} });
    export const waiting = job("0 6 * * *", async () => { await new Promise((resolve) => setTimeout(resolve, 60_000)); });
    export const refusing = job("0 7 * * *", async () => { await Promise.reject(new TypeError("no")); });
"#;

#[tokio::test]
async fn a_function_runs_at_its_time_without_a_caller_and_its_errors_show_no_secret() {
    let files = folder(&[("jobs.ts", FILE)]);
    let toml = format!(
        "[functions]\nfolder = \"{}\"\njob_timeout_ms = 1500\nsecrets = [\"HOME\"]\n{NOTES}",
        files.path().display()
    );
    let home = std::env::var("HOME").unwrap();
    for app in TestApp::on_every_engine(&toml).await {
        declared(&app, "refusing").await;
        let runs = a_day_later(&app, "nightly", 1).await;
        assert_eq!((&runs[0]["outcome"], &runs[0]["cause"]), (&json!("succeeded"), &json!("schedule")), "{runs:?}");
        let texts = app.app().db().query("SELECT text FROM notes ORDER BY id", Vec::new()).await.unwrap();
        let texts: Vec<String> = texts.iter().map(|row| row.get("text").unwrap()).collect();
        assert!(texts[0].starts_with("0 notes at 20"), "{texts:?}");
        assert_eq!(texts[1], "db: nobody calls this function; use db.system");
        for (job, message) in [
            ("broken", "Error: the key is ***"),
            ("endless", "its time is used up"),
            ("waiting", "it was not done after"),
            ("refusing", "TypeError: no"),
        ] {
            let runs = super::ended(&app, job, 1).await;
            let error = runs[0]["error"].as_str().unwrap();
            assert_eq!(runs[0]["outcome"], "failed", "{job}: {error}");
            assert!(
                error.contains(message)
                    || (["endless", "waiting"].contains(&job) && error.contains("the job took longer than")),
                "{job}: {error}"
            );
            assert!(!error.contains(&home), "{error}");
        }
    }
}

#[tokio::test]
async fn a_schedule_that_is_none_is_refused_with_its_place() {
    let refused = |file: &str| {
        let files = folder(&[("jobs.ts", file)]);
        let toml = format!(
            "[functions]\nfolder = \"{}\"\n[[job]]\nname = \"taken\"\nschedule = \"0 3 * * *\"\nurl = \"https://example.com\"\n\
             secret = \"whsec_aGFuZGJvb2staGFuZGJvb2staGFuZGJvb2s=\"",
            files.path().display()
        );
        let config = gatewright::config::Loader::text("test.toml", toml).dev_mode().load().unwrap();
        gatewright::check_functions(&config).unwrap_err()
    };
    let head = "import { job } from \"gatewright\";\n\n";
    let wrong = refused(&format!("{head}export const nightly = job(\"0 25 * * *\", async () => {{}});\n"));
    assert!(wrong.starts_with("jobs.ts:3:14: nightly: the schedule \"0 25 * * *\" is wrong at 3: hour"), "{wrong}");
    let wrong = refused(&format!(
        "{head}  export const a = job(\"0 3 * * *\", {{ timezone: \"Berlin\" }}, async () => {{}});\n"
    ));
    assert!(wrong.starts_with("jobs.ts:3:16: a: \"Berlin\" is no time zone"), "{wrong}");
    let wrong = refused(&format!("{head}export const taken = job(\"0 3 * * *\", async () => {{}});\n"));
    assert!(wrong.contains("jobs.ts:3:14: taken: a [[job]] of the configuration has this name already"), "{wrong}");
    let wrong = refused(&format!("{head}export const none = job(3 as any, async () => {{}});\n"));
    assert!(wrong.starts_with("jobs.ts:3:14: none: schedule must be a text"), "{wrong}");
}
