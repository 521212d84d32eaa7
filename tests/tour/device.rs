//! The pages on which a user connects a device.

use reqwest::Method;

use super::Tour;
use crate::harness::Answer;

impl Tour<'_> {
    /// A device of a client asks, and Bob types a wrong and then its right code.
    pub(super) async fn device(&self, client: &str) {
        let form = [("client_id", client), ("scope", "notes:read")];
        let request = self.server.client().request(Method::POST, "/auth/oauth2/device_authorization").form(&form);
        let begun = Answer::read(request).await.is(200).json();
        self.open("/device").await;
        self.look("device").await;
        self.browser.fill_by_id("user_code", "BBBB-BBBB").await;
        self.browser.submit("form[action='/device']").await;
        self.look("device-wrong").await;
        self.open(&format!("/device?user_code={}", begun["user_code"].as_str().unwrap())).await;
        self.browser.submit("form[action='/device']").await;
        self.look("device-consent").await;
        self.open("/auth/oauth2/end_session").await;
        self.look("end-session").await;
    }
}
