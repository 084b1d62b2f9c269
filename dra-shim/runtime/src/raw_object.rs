use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::Value;

/// An object that other programs may write, for `Api<RawObject<K>>` and `watcher`. Read-only: it cannot
/// create objects.
///
/// An object that cannot be decoded fails its whole list, and its watch as long as the object exists. The
/// API server accepts such an object in two known cases, which are harmless here:
///
/// * Its spec or status does not match `K`, because it was stored under another schema. It becomes `Err`,
///   with its metadata.
/// * A time in `metadata.managedFields` is valid for Kubernetes but not for `K`, such as the end of the
///   year 9999. Any user who may update the object may write one. The time is dropped.
///
/// Metadata that cannot be decoded even without these times still fails the list. kube's own
/// [`DeserializeGuard`] helps in the first case only, since it has to decode the metadata.
///
/// ```
/// use daemon_runtime::RawObject;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::Resource as _;
///
/// let object = r#"{ "metadata": { "name": "a", "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] } }"#;
/// assert!(serde_json::from_str::<ConfigMap>(object).is_err());
/// let object: RawObject<ConfigMap> = serde_json::from_str(object)?;
/// assert_eq!(object.meta().name.as_deref(), Some("a"));
/// assert!(object.0.is_ok());
/// # Ok::<_, serde_json::Error>(())
/// ```
///
/// # Only metadata
/// To read only metadata, wrap `PartialObjectMeta`, in `Api` and `watcher`. The other nesting does not
/// help: `PartialObjectMeta<RawObject<K>>` decodes the metadata itself. kube's `metadata_watcher` uses that
/// nesting for an `Api<RawObject<K>>`.
///
/// ```
/// use daemon_runtime::RawObject;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::core::PartialObjectMeta;
///
/// let object = r#"{ "metadata": { "managedFields": [{ "time": "9999-12-31T23:59:59Z" }] } }"#;
/// assert!(serde_json::from_str::<RawObject<PartialObjectMeta<ConfigMap>>>(object).is_ok());
/// assert!(serde_json::from_str::<PartialObjectMeta<RawObject<ConfigMap>>>(object).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct RawObject<K>(pub Result<K, InvalidObject>);

// === impl RawObject ===

impl<'de, K: Resource + DeserializeOwned> Deserialize<'de> for RawObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        drop_unreadable_times(&mut object);
        let DeserializeGuard(object) =
            DeserializeGuard::deserialize(object).map_err(D::Error::custom)?;
        Ok(Self(object))
    }
}

impl<K: Resource> Resource for RawObject<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn metadata_api() -> bool {
        K::metadata_api()
    }

    fn meta(&self) -> &ObjectMeta {
        self.0
            .as_ref()
            .map_or_else(|invalid| &invalid.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(invalid) => &mut invalid.metadata,
        }
    }
}

/// Drops the times of `managedFields` that cannot be decoded. The API server itself writes the other times
/// in metadata, from its clock.
fn drop_unreadable_times(object: &mut Value) {
    let entries = object.pointer_mut("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array_mut).into_iter().flatten();
    for entry in entries.filter_map(Value::as_object_mut) {
        let unreadable = |time: &Value| Time::deserialize(time).is_err();
        if entry.get("time").is_some_and(unreadable) {
            entry.remove("time");
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::{ObjectList, PartialObjectMeta};
    use serde_json::json;

    use super::*;

    fn mk_list(objects: &[Value]) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": objects })
    }

    fn mk_object(name: &str, time: &str) -> Value {
        json!({
            "metadata": { "name": name, "managedFields": [
                { "manager": "a", "time": "2026-01-01T00:00:00Z" },
                { "manager": "b", "time": time },
            ] },
            "data": { "key": "value" },
        })
    }

    fn managers<K: Resource>(object: &K) -> Vec<(&str, bool)> {
        let entries = object.meta().managed_fields.iter().flatten();
        entries
            .map(|entry| (entry.manager.as_deref().unwrap(), entry.time.is_some()))
            .collect()
    }

    #[test]
    fn only_the_time_that_cannot_be_read_is_lost() {
        // The API server writes the first one with an offset of -01:00 as the second.
        for time in [
            "9999-12-31T23:59:59Z",
            "10000-01-01T00:59:59Z",
            "2026-01-01T00:00:00+99:99",
        ] {
            let list = mk_list(&[mk_object("a", "2026-01-01T00:00:00Z"), mk_object("b", time)]);
            assert!(serde_json::from_value::<ObjectList<ConfigMap>>(list.clone()).is_err());
            let list: ObjectList<RawObject<ConfigMap>> = serde_json::from_value(list).unwrap();
            assert_eq!(managers(&list.items[0]), [("a", true), ("b", true)]);
            assert_eq!(managers(&list.items[1]), [("a", true), ("b", false)]);
            let data = list.items[1].0.as_ref().unwrap().data.as_ref().unwrap();
            assert_eq!(data["key"], "value");
        }
    }

    #[test]
    fn the_wrapper_does_not_change_whether_only_metadata_is_requested() {
        assert!(RawObject::<PartialObjectMeta<ConfigMap>>::metadata_api());
        assert!(!RawObject::<ConfigMap>::metadata_api());
        let object = mk_object("a", "9999-12-31T23:59:59Z");
        let object: RawObject<PartialObjectMeta<ConfigMap>> =
            serde_json::from_value(object).unwrap();
        assert_eq!(managers(&object), [("a", true), ("b", false)]);
    }

    #[test]
    fn an_object_of_another_schema_has_its_metadata() {
        let mut object = mk_object("a", "9999-12-31T23:59:59Z");
        object["data"] = json!("no map");
        let mut object: RawObject<ConfigMap> = serde_json::from_value(object).unwrap();
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        object.meta_mut().name = None;
        let invalid = object.0.unwrap_err();
        assert!(invalid.error.contains("no map"), "{}", invalid.error);
        assert_eq!(invalid.metadata.name, None);
    }

    #[test]
    fn a_value_that_is_not_an_object_is_an_error() {
        for object in [json!([]), json!({ "metadata": { "managedFields": 1 } })] {
            let decoded = serde_json::from_value::<RawObject<ConfigMap>>(object);
            assert!(decoded.is_err());
        }
    }
}
