//! Creates objects from their JSON.

use std::fmt::Debug;

use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}
