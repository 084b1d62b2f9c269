//! Reads one object by its name.

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::de::DeserializeOwned;

/// Reads the object `name`. `T` has only the needed fields, so that other writers' content in the
/// rest cannot fail the read. `url_path` is the path of its kind in its namespace.
///
/// # Errors
/// The error of the API server, including 404.
pub async fn get_object<T: DeserializeOwned>(
    client: &Client,
    url_path: String,
    name: &str,
) -> Result<T, kube::Error> {
    let request = Request::new(url_path).get(name, &GetParams::default());
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}
