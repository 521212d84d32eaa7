//! Required fields of the profile after a sign-in by a code in a mail.

use gatewright_testing::TestApp;
use serde_json::json;

use super::profile::{ANN, form, required};

#[tokio::test]
async fn an_account_of_a_code_by_mail_is_asked_for_required_fields() {
    for app in TestApp::on_every_engine(&required()).await {
        let mut ann = app.anonymous();
        let sent = form(&ann, "/auth/email-code/send", &[("email", ANN), ("next", "/here")]).await.is(200);
        ann.keep_cookies(&sent);
        let mails = loop {
            let mails = ann.get("/dev/mail.json").await.is(200).json();
            if mails.as_array().is_some_and(|mails| !mails.is_empty()) {
                break mails;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(mails[0]["links"], json!([]));
        let text = mails[0]["text"].as_str().unwrap();
        let is_code = |line: &&str| line.len() == 6 && line.bytes().all(|byte| byte.is_ascii_digit());
        let code = text.lines().find(is_code).expect("the mail shows a code");
        let fields = [("email", ANN), ("code", code), ("next", "/here")];
        let done = form(&ann, "/auth/email-code/verify", &fields).await.is(303);
        assert_eq!(done.header("location"), Some("/complete-profile?next=%2Fhere"), "{}", app.engine());
    }
}
