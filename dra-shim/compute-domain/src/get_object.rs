//! One object by its name.

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::de::DeserializeOwned;

/// `T` is the part of the object that is read: what others may write into the rest cannot fail
/// the request. `url_path` is that of its kind in its namespace.
///
/// # Errors
/// What the API server answers; 404 among it.
pub(crate) async fn get_object<T: DeserializeOwned>(
    client: &Client,
    url_path: String,
    name: &str,
) -> Result<T, kube::Error> {
    let request = Request::new(url_path).get(name, &GetParams::default());
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}
