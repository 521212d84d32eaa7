use std::time::{Duration, Instant};

use serde_json::json;

use super::with_functions;

const FILE: &str = r#"
    import { before, route } from "gatewright";
    const attacks: Record<string, () => unknown> = {
      loop: () => { for (;;) {} },
      promises: async () => { for (;;) await null; },
      memory: () => { const all = []; for (;;) all.push(new Array(10000).fill(1.5)); },
      recursion: () => { const down = (n: number): number => down(n + 1) + 1; return down(0); },
      expression: () => /^(a+)+$/.test("a".repeat(40) + "b"),
      lines: () => { for (let i = 0; i < 1_000_000; i++) console.log("line", i); throw new Error("done"); },
      never: () => new Promise(() => {}),
      output: () => new Response("x".repeat(9_000_000)),
    };
    export const write = before("notes", "create", async ({ values }) => {
      const attack = attacks[String(values.text)];
      if (attack) await attack();
    });
    export const call = route("GET", "/attack/{name}", async (_, { params }) => {
      await attacks[params.name]();
      return new Response("ok");
    });
    export const fine = route("GET", "/fine", async () => new Response("ok"));
"#;

const ATTACKS: [&str; 8] = ["loop", "promises", "memory", "recursion", "expression", "lines", "never", "output"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_function_that_exceeds_its_limits_ends_and_the_others_go_on() {
    let toml = concat!(
        "[functions]\nfolder = \"FOLDER\"\nwrite_timeout_ms = 100\ntimeout_ms = 300\n",
        entity!(owned "notes" "text")
    );
    let folder = super::folder(&[("all.ts", FILE)]);
    let toml = toml.replace("FOLDER", &folder.path().display().to_string());
    for app in gatewright_testing::TestApp::on_every_engine(&toml).await {
        let (ann, bob) = (app.with_jwt("ann@example.com").await, app.with_jwt("bob@example.com").await);
        let attacking = async {
            for attack in ATTACKS {
                if attack == "output" {
                    continue;
                }
                let failed = ann.post("/notes", json!({ "text": attack })).await;
                assert_eq!(failed.status(), 500, "{attack}: {}", failed.text());
            }
        };
        let calling = async {
            for attack in ATTACKS {
                let path = format!("/fn/attack/{attack}");
                let many = (0..20).map(|_| ann.get(&path));
                for answer in futures_util::future::join_all(many).await {
                    let is_ended = answer.status() == 500 || (attack == "output" && answer.status() == 200);
                    assert!(is_ended, "{attack}: {} {}", answer.status(), answer.text());
                }
            }
        };
        let others = async {
            let mut slowest = Duration::ZERO;
            for round in 0..40 {
                let begun = Instant::now();
                bob.post("/notes", json!({ "text": format!("note {round}") })).await.is(201);
                bob.get("/fn/fine").await.is(200);
                slowest = slowest.max(begun.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            slowest
        };
        let ((), (), slowest) = tokio::join!(attacking, calling, others);
        // Nobody waits for the end of the attacks, which take a minute one after the other.
        assert!(slowest < Duration::from_secs(20), "{slowest:?} on {}", app.engine());
        ann.post("/notes", json!({ "text": "fine" })).await.is(201);
    }
}

#[tokio::test]
async fn all_functions_of_a_transaction_share_their_time() {
    let file = r#"
        import { before } from "gatewright";
        export const slow = before("notes", "create", () => { const end = Date.now() + 60; while (Date.now() < end) {} });
    "#;
    let (apps, _folder) = with_functions(entity!(owned "notes" "text"), &[("all.ts", file)]).await;
    for app in apps {
        let ann = app.with_jwt("ann@example.com").await;
        ann.post("/notes", json!({ "text": "one" })).await.is(201);
        let items: Vec<_> = (0..20).map(|n| json!({ "text": n.to_string() })).collect();
        let failed = ann.post("/notes/_batch", json!({ "items": items })).await;
        assert_eq!(failed.status(), 500, "{}", failed.text());
        assert_eq!(ann.get("/notes").await.at("/total"), 1, "{}", app.engine());
    }
}
