use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::schema::Type;

use crate::openapi::Draft;
use crate::openapi::names::Page;
use crate::openapi::words::{Described, json, typed};

pub(super) fn describe(draft: &Draft) -> Described {
    draft.admin(HttpMethod::Get, "/users/{id}/export", "adminExportUser", "Export the data of a user")
            .of_user()
            .fails(&[409, 503], Page::Never)
            .about("Needs a recent sign-in. The act is in the audit log.")
            .answers(
                200,
                json(
                    "A file: what the user can export, and in `naming` the records of others that name the user, by table and \
                     field.",
                    typed(Type::Object),
                    None,
                ),
            )
}
