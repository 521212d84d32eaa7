use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gatewright_testing::TestApp;
use serde_json::json;

use super::{ALL, ORDERS, Program};
use crate::all::app::jobs::url::{secret, signature};

#[tokio::test]
async fn a_hook_completes_a_write_and_is_asked_with_a_signature() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", ALL, ""));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        program.answers([(200, json!({"values": {"price": 5, "margin": 2, "state": "new"}}))]);
        let made = ann.post("/orders", json!({"item": "tea", "note": "soon"})).await.is(201);
        assert_eq!(
            (made.at("/data/price"), made.at("/data/state")),
            (json!(5), json!("new")),
            "required, and kept from the caller"
        );
        let (headers, body) = program.0.lock().asked[0].clone();
        assert_eq!(headers["webhook-signature"], signature(&secret().1, &headers, &body));
        let asked = program.asked();
        let [question] = &asked[..] else { panic!("one question: {asked:?}") };
        assert_eq!(question["type"], "orders.before_create");
        assert_eq!(question["data"]["old"], json!(null));
        assert_eq!(
            (&question["data"]["values"]["item"], &question["data"]["values"]["note"]),
            (&json!("tea"), &json!("soon"))
        );
        assert_eq!(
            (&question["data"]["caller"]["kind"], &question["data"]["caller"]["roles"]),
            (&json!("user"), &json!(["user"]))
        );

        let id = made.at("/data/id").as_str().unwrap().to_owned();
        program.answers([(200, json!({"values": {"note": "by the hook"}}))]);
        let changed = ann.patch(&format!("/orders/{id}"), json!({"price": 6})).await.is(200);
        assert_eq!((changed.at("/data/price"), changed.at("/data/note")), (json!(6), json!("by the hook")));
        let asked = program.asked();
        assert_eq!(asked[0]["type"], "orders.before_update");
        assert_eq!((&asked[0]["data"]["values"], &asked[0]["data"]["old"]["price"]), (&json!({"price": 6}), &json!(5)));
        ann.delete(&format!("/orders/{id}")).await.is(204);
        let asked = program.asked();
        assert_eq!((&asked[0]["type"], &asked[0]["data"]["values"]), (&json!("orders.before_delete"), &json!(null)));
        assert_eq!(asked[0]["data"]["old"]["note"], "by the hook");
    }
}

#[tokio::test]
async fn a_problem_reaches_the_caller_and_nothing_is_written() {
    let program = Program::start().await;
    for more in ["", "on_error = \"ignore\""] {
        let toml = format!("{ORDERS}{}", program.hook("orders", ALL, more));
        for app in TestApp::on_every_engine(&toml).await {
            let ann = app.with_jwt("ann@example.com").await;
            let problem = json!({
                "type": "about:blank", "status": 409, "code": "out_of_stock", "detail": "no tea today",
                "errors": [{"field": "item", "code": "max", "message": "is gone"}],
            });
            program.answers([(409, problem)]);
            let refused = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(409);
            assert_eq!((refused.at("/code"), refused.at("/detail")), (json!("out_of_stock"), json!("no tea today")));
            assert_eq!(refused.at("/errors/0/field"), "item");
            assert_eq!(ann.get("/orders").await.at("/total"), 0);
        }
    }
}

#[tokio::test]
async fn what_a_hook_answers_is_checked_as_what_a_function_sets() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", ALL, ""));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let order = || json!({"item": "tea", "price": 5});
        for (values, status, code) in [
            (json!({"price": 5000}), 422, "validation_failed"),
            (json!({"price": null}), 422, "validation_failed"),
            (json!({"user_id": "00000000-0000-4000-8000-000000000000"}), 502, "hook_failed"),
            (json!({"userId": "00000000-0000-4000-8000-000000000000"}), 502, "hook_failed"),
            (json!({"nothing": 1}), 502, "hook_failed"),
            (json!({"id": "x"}), 502, "hook_failed"),
        ] {
            program.answers([(200, json!({"values": values}))]);
            let refused = ann.post("/orders", order()).await.is(status);
            assert_eq!(refused.at("/code"), code, "{values}");
        }
        assert_eq!(ann.get("/orders").await.at("/total"), 0);
    }
}

#[tokio::test]
async fn a_hook_that_does_not_answer_refuses_the_write_or_is_ignored() {
    let program = Program::start().await;
    let port = program.0.lock().port;
    for (more, status) in [("timeout_ms = 400", 502), ("timeout_ms = 400\non_error = \"ignore\"", 201)] {
        let toml = format!("{ORDERS}{}", program.hook("orders", ALL, more));
        for app in TestApp::on_every_engine(&toml).await {
            let ann = app.with_jwt("ann@example.com").await;
            let order = || json!({"item": "tea", "price": 5});
            let huge = json!({"values": {"note": "x".repeat(1 << 20)}}).to_string();
            for (answer, text) in
                [(500, "canary"), (200, "<html>canary"), (200, "{\"values\":[]}"), (404, "<html>canary"), (200, &huge)]
            {
                program.texts(answer, text);
                let answered = ann.post("/orders", order()).await.is(status);
                if status == 502 {
                    assert_eq!(answered.at("/code"), "hook_failed");
                    assert!(
                        !answered.text().contains("canary") && !answered.text().contains("127.0.0.1"),
                        "{}",
                        answered.text()
                    );
                }
            }
            // Redirects are not followed.
            program.asked();
            program.texts(307, &format!("http://127.0.0.1:{port}/elsewhere"));
            ann.post("/orders", order()).await.is(status);
            assert_eq!(program.asked().len(), 1);
            program.delays(Duration::from_secs(5));
            let began = Instant::now();
            ann.post("/orders", order()).await.is(status);
            assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
            program.delays(Duration::ZERO);
            program.asked();
        }
    }
}

#[tokio::test]
async fn all_hooks_of_a_request_share_their_time() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", ALL, "timeout_ms = 1000"));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        program.delays(Duration::from_millis(150));
        let items: Vec<_> = (0..80).map(|n| json!({"item": format!("{n}"), "price": 5})).collect();
        let began = Instant::now();
        let refused = ann.post("/orders/_batch", json!({"items": items})).await.is(502);
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert!(refused.text().contains("hook_failed"), "{}", refused.text());
        assert_eq!(ann.get("/orders").await.at("/total"), 0);
        program.delays(Duration::ZERO);
        program.asked();
    }
}

#[tokio::test]
async fn a_slow_hook_of_one_caller_delays_no_other_caller() {
    let program = Program::start().await;
    let toml = format!("{ORDERS}{}", program.hook("orders", "\"before_create\"", "timeout_ms = 1500"));
    for app in TestApp::on_every_engine(&toml).await {
        let ann = app.with_jwt("ann@example.com").await;
        let bob = app.with_jwt("bob@example.com").await;
        let made = bob.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
        let id = made.at("/data/id").as_str().unwrap().to_owned();
        program.delays(Duration::from_secs(1));
        let slow = join_all((0..24).map(|_| ann.post("/orders", json!({"item": "tea", "price": 5}))));
        let others = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let began = Instant::now();
            // Writes without a hook, reads, and a write with one.
            bob.patch(&format!("/orders/{id}"), json!({"note": "now"})).await.is(200);
            bob.get("/orders").await.is(200);
            let quick = began.elapsed();
            bob.post("/orders", json!({"item": "tea", "price": 5})).await.is(201);
            (quick, began.elapsed())
        };
        let (made, (quick, hooked)) = tokio::join!(slow, others);
        assert!(made.iter().all(|answer| answer.status() == 201));
        assert!(quick < Duration::from_millis(700), "{}: {quick:?}", app.engine());
        assert!(
            hooked < Duration::from_millis(2_200),
            "{}: {hooked:?}, and not the six seconds of ann's",
            app.engine()
        );
        program.delays(Duration::ZERO);
        program.asked();
    }
}

#[tokio::test]
async fn a_hook_at_a_private_address_is_called_only_if_that_is_allowed() {
    let program = Program::start().await;
    // The check of the configuration sees only what the URL says: a name is resolved when the hook is called.
    let port = program.0.lock().port;
    let named = format!("{ORDERS}{}", program.hook("orders", ALL, ""));
    let named = named.replace("127.0.0.1", "localhost.").replace("allow_private = true", "");
    for app in TestApp::on_every_engine(&named).await {
        let ann = app.with_jwt("ann@example.com").await;
        let refused = ann.post("/orders", json!({"item": "tea", "price": 5})).await.is(502);
        assert!(
            !refused.text().contains("localhost") && !refused.text().contains(&port.to_string()),
            "{}",
            refused.text()
        );
    }
    let spelled = format!("{ORDERS}{}", program.hook("orders", ALL, ""));
    for host in ["127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "localhost"] {
        let text = spelled.replace("127.0.0.1", host).replace("allow_private = true", "");
        let refused = gatewright::config::Loader::text("test.toml", text).dev_mode().load().unwrap_err().to_string();
        assert!(refused.contains("allow_private"), "{host}: {refused}");
    }
    assert!(program.asked().is_empty());
}
