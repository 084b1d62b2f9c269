use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A device in the answer to kubelet, as NVIDIA's drivers record it. The keys are Go's field names.
///
/// A [`Payload`](crate::Payload) that contains it can answer kubelet after a restart.
///
/// ```
/// use dra_checkpoint::KubeletDevice;
///
/// let device = KubeletDevice {
///     requests: Some(vec!["gpu".into()]),
///     pool_name: "node-a".into(),
///     device_name: "gpu-0".into(),
///     cdi_device_ids: Some(vec!["example.com/gpu=0".into()]),
///     share_id: None,
///     metadata: None,
/// };
/// assert_eq!(
///     serde_json::to_string(&device)?,
///     r#"{"Requests":["gpu"],"PoolName":"node-a","DeviceName":"gpu-0","CDIDeviceIDs":["example.com/gpu=0"]}"#
/// );
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct KubeletDevice {
    /// Base names of the claim's requests for it. Go writes `null` for `None`.
    pub requests: Option<Vec<String>>,
    /// Its pool: the node's name.
    pub pool_name: String,
    /// Its name in the slice, such as `channel-0`.
    pub device_name: String,
    /// Its CDI devices. Go writes `null` for `None`.
    #[serde(rename = "CDIDeviceIDs")]
    pub cdi_device_ids: Option<Vec<String>>,
    /// The share of the device; written by drivers that share devices.
    #[serde(rename = "ShareID", default, skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// The device's metadata; written by drivers that publish it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
}

#[cfg(test)]
mod tests {
    use super::KubeletDevice;
    use crate::from_go_json;

    #[test]
    fn devices_of_go_keep_their_bytes() {
        for text in [
            r#"{"Requests":null,"PoolName":"","DeviceName":"","CDIDeviceIDs":null}"#,
            r#"{"Requests":["a"],"PoolName":"p","DeviceName":"d","CDIDeviceIDs":[],"ShareID":"s","Metadata":{"b":1,"a":[]}}"#,
        ] {
            let device: KubeletDevice = from_go_json(text).unwrap();
            assert_eq!(serde_json::to_string(&device).unwrap(), text);
        }
    }
}
