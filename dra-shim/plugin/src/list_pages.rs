//! Lists of any length, which start again if their continue token expires.

use daemon_runtime::{Part, for_each_page};
use kube::Client;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

/// How often one list starts again because its continue token has expired: the API server
/// answers 410 to a page more than five minutes after the first one.
const RESTARTS: u32 = 2;

/// Passes the objects of a list to `go_on` while that returns true. `T` has only the needed
/// fields, so that other writers' content in the rest cannot fail the list. `go_on` gets
/// objects again if the list starts again.
///
/// # Errors
/// A page cannot be read, or the list started again too often.
pub async fn for_each_object<T: DeserializeOwned>(
    client: &Client,
    url_path: &str,
    part: Part,
    mut go_on: impl FnMut(T) -> bool,
) -> Result<(), kube::Error> {
    let mut restarts = 0;
    loop {
        let page = |objects: Vec<T>| objects.into_iter().all(&mut go_on);
        match for_each_page(client, url_path, part, ListParams::default(), page).await {
            Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                restarts += 1;
            }
            result => return result,
        }
    }
}
