//! Lists of any length that begin again if the API server forgets their place.

use daemon_runtime::{Part, for_each_page};
use kube::Client;
use kube::api::ListParams;
use serde::de::DeserializeOwned;

/// How often one search begins again because the server has forgotten its place: a
/// page that comes more than five minutes after the first one is refused with 410.
const RESTARTS: u32 = 2;

/// Hands the objects of a list to `go_on`, for as long as it returns true. `T` is the
/// part of an object that is read: what others may write into the rest cannot fail
/// the list. `go_on` gets objects again if the list has to begin again.
///
/// # Errors
/// A page cannot be read, or the list began again too often.
pub(crate) async fn for_each_object<T: DeserializeOwned>(
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
