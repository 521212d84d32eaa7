//! The mail queue.

use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use super::super::Draft;
use super::super::names::Page;
use super::super::words::{Described, Part, in_path, instant, integer, named, or_null, query, string};
use super::spelled;

pub(super) fn describe(draft: &mut Draft) -> Vec<Described> {
    let words = ["pending", "sending", "failed", "expired"];
    let mail: [(&str, Part); 9] = [
        ("id", string().into()),
        ("kind", string().description(Some("Its kind, such as `magic_link`.")).into()),
        ("recipient", string().into()),
        ("status", string().enum_values(Some(words)).into()),
        ("attempts", integer().into()),
        ("last_error", or_null(Type::String).into()),
        ("created_at", instant().into()),
        ("next_attempt_at", or_null(Type::String).description(Some("Null unless it is pending.")).into()),
        ("expires_at", instant().description(Some("When its link expires.")).into()),
    ];
    draft.components.schemas.insert("QueuedMail".to_owned(), spelled(draft.case, mail).into());
    let id = || in_path("id", "The mail's id.", string().min_length(Some(1)));
    vec![
        draft
            .admin(HttpMethod::Get, "/mails", "adminListMails", "Mails that wait or could not be sent")
            .parameter(query("status", "Only those with this status.", string().enum_values(Some(words))))
            .parameter(query("recipient", "Those to this address.", string()))
            .fails(&[404], Page::Never)
            .pages("The newest first, without their links and codes.", named("QueuedMail")),
        draft
            .admin(HttpMethod::Post, "/mails/{id}/retry", "adminRetryMail", "Send a mail now")
            .parameter(id())
            .fails(&[404, 409], Page::Never)
            .done("It is due, and its attempts count from the start."),
        draft
            .admin(HttpMethod::Delete, "/mails/{id}", "adminDiscardMail", "Discard a mail")
            .parameter(id())
            .fails(&[404], Page::Never)
            .done("It is removed with its link, and not sent."),
    ]
}
