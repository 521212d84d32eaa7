//! Texts without case.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

use super::limit;
use crate::dialect::fold_case;

/// `contains_folded(text, needle)`: whether a text has another one in it, which is folded. `gatewright_fold_case(text)`.
pub(super) fn create_functions(connection: &Connection, flags: FunctionFlags) -> rusqlite::Result<()> {
    connection.create_scalar_function("contains_folded", 2, flags, |arguments| {
        // A value that is not text contains no text.
        let Ok(text) = arguments.get_raw(0).as_str() else { return Ok(None) };
        let needle = arguments.get_raw(1).as_str()?;
        // One call may take as long as thousands of steps, between which the time is looked at.
        limit::search(text.len())?;
        Ok(Some(fold_case(text).contains(needle)))
    })?;
    connection.create_scalar_function("gatewright_fold_case", 1, flags, |arguments| {
        Ok(arguments.get_raw(0).as_str().ok().map(fold_case))
    })
}
