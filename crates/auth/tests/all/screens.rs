use crate::support::{ANN, Call, PASSWORD, Site, WRONG, databases, query};

#[tokio::test]
async fn the_screens_are_mounted_only_on_request() {
    for db in databases().await {
        let site = Site::on(&db).await;
        Call::get("/login").send(&site).await.expect(404);
        let site = site.and_screens();
        for (path, action) in [("/login", "/auth/login"), ("/register", "/auth/register")] {
            let page = Call::get(path).send(&site).await.expect(200);
            assert!(page.body.contains(&format!("action=\"{action}\"")), "{}", page.body);
            assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
            assert_eq!(page.headers["cache-control"], "no-store");
            let policy = page.headers["content-security-policy"].to_str().unwrap();
            assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
            assert!(!policy.contains("unsafe") && !page.markup().contains("<script"));
            for label in ["<label for=\"email\">", "<label for=\"password\">", "lang=\"en\"", "<h1>"] {
                assert!(page.body.contains(label), "{label}");
            }
        }
    }
}

#[tokio::test]
async fn a_person_registers_signs_out_and_in_without_scripts() {
    for db in databases().await {
        let site = Site::on(&db).await.and_screens();
        let page = Call::get("/register?next=/posts").send(&site).await.expect(200);
        assert!(page.body.contains("name=\"next\" value=\"/posts\""));
        assert!(page.body.contains("href=\"/login?next=%2Fposts\""));
        let fields = [("email", ANN), ("password", PASSWORD), ("next", "/posts")];
        let registered = Call::post("/auth/register").form(&fields).send(&site).await.expect(303);
        assert_eq!(registered.location(), Some("/posts"));
        let known = Call::get("/login?next=/posts").cookie_of(&registered).send(&site).await.expect(303);
        assert_eq!(known.location(), Some("/posts"), "who is signed in need not sign in");
        let out = Call::post("/auth/logout").form(&[("next", "/login")]).cookie_of(&registered).send(&site).await;
        assert_eq!(out.expect(303).location(), Some("/login"));
        Call::get("/login").cookie_of(&registered).send(&site).await.expect(200);
        Call::post("/auth/login").form(&fields).send(&site).await.expect(303);
    }
}

#[tokio::test]
async fn a_failed_form_is_shown_again_with_status_message_and_address() {
    for db in databases().await {
        let site = Site::on(&db).await.and_screens();
        site.register_ann().await;
        let fields = [("email", ANN), ("password", WRONG), ("next", "/posts")];
        let page = Call::post("/auth/login").form(&fields).send(&site).await.expect(401);
        assert!(page.body.contains("role=\"alert\">Email or password is wrong."));
        assert!(page.body.contains("value=\"ann@example.com\"") && page.body.contains("value=\"/posts\""));
        assert!(!page.body.contains(WRONG));
        assert!(!page.headers.contains_key("www-authenticate"));
        let taken = Call::post("/auth/register").form(&fields).send(&site).await.expect(409);
        assert!(
            taken.body.contains("There is an account with this email address already.")
                && taken.body.contains("action=\"/auth/register\"")
        );
        let weak = Call::post("/auth/register")
            .multipart(&[("email", "bob@example.com"), ("password", "x")])
            .send(&site)
            .await;
        assert!(weak.expect(422).body.contains("at least 8 characters"));
    }
}

#[tokio::test]
async fn visitor_input_is_never_rendered_as_markup() {
    for db in databases().await {
        let site = Site::on(&db).await.and_screens();
        let attack = "\"><script>alert(1)</script>@example.com";
        let page =
            Call::post("/auth/login").form(&[("email", attack), ("password", WRONG)]).send(&site).await.expect(401);
        let markup = page.markup();
        assert!(!markup.contains("<script") && !markup.contains("alert(1)</"), "{markup}");
        for next in ["//evil.example", "/\"><script>", "javascript:alert(1)", "https://evil.example"] {
            let query = query("next", next);
            let page = Call::get(&format!("/login?{query}")).send(&site).await.expect(200);
            let markup = page.markup();
            assert!(["evil.example", "<script", "javascript:"].iter().all(|word| !markup.contains(word)), "{markup}");
        }
        let page = Call::get("/login?next=/a&next=/b").send(&site).await;
        assert!(page.status == 200 || page.status == 400);
    }
}
