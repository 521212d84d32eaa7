use super::{List, PagePlace, list};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::error::Error;
use crate::hooks::Object;

impl Table<'_> {
    /// One page of the records that the caller reaches. `query` is the list's parameters: `page`, `limit`, `sort`,
    /// `cursor`, `direction`, `fields`, `include`, `etag`, `q`, `filter`, `trashed`, `group`, `sum`, `min`, `max`, `avg`, and
    /// conditions on fields.
    pub async fn list(self, call: &Call, query: &[(String, String)]) -> Result<List, Error> {
        let Some(hooks) = self.entities.hooks_of(self.plan) else { return list(self, call, query).await };
        let mut query = query.to_vec();
        reach(self, call, Action::Read).await?;
        hooks.before_list(call, &mut query).await?;
        let mut list = list(self, call, &query).await?;
        if list.place == PagePlace::Groups {
            return Ok(list);
        }
        let mut records: Vec<Object> = serde_json::from_slice(&list.json).map_err(Error::hook)?;
        hooks.after_list(call, &mut records).await?;
        list.json = serde_json::to_vec(&records).map_err(Error::hook)?;
        Ok(list)
    }
}
