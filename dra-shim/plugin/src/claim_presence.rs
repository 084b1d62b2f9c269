//! Decides from a claim object whether it is allocated to this node.

use dra_checkpoint::ClaimStatus;
use node_claims::Presence;
use serde::Deserialize;

/// The fields of a claim that are read.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Option<ClaimStatus>,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

/// Presence of the claim `uid` according to the claim object `json`. A malformed object
/// gives [`Presence::Unknown`].
// req: NODE-29
pub(crate) fn presence_in(json: &str, uid: &str, driver: &str, node: &str) -> Presence {
    match serde_json::from_str::<Object>(json) {
        Err(_) => Presence::Unknown,
        // Another claim has the name now.
        Ok(object) if object.metadata.uid != uid => Presence::Absent,
        Ok(object) => match object.status {
            Some(status) if is_allocated_to(&status, driver, node) => Presence::Present,
            _ => Presence::Absent,
        },
    }
}

/// Whether the claim has a device of `driver` for `node`. The pool's name is ignored:
/// any name may be published for any node.
pub(crate) fn is_allocated_to(status: &ClaimStatus, driver: &str, node: &str) -> bool {
    status.results_of(driver).next().is_some() && status.may_be_for_node(node)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DRIVER: &str = "driver.example.com";

    fn mk_claim() -> Value {
        json!({
            "metadata": {"uid": "u", "managedFields": [{"time": "9999-12-31T23:59:59Z"}]},
            "status": {"allocation": {
                "devices": {"results": [
                    {"request": "r", "driver": "gpu.nvidia.com", "pool": "p", "device": "gpu-0"},
                    {"request": "r", "driver": DRIVER, "pool": "any", "device": "channel-0"},
                ]},
            }},
        })
    }

    fn presence(claim: &Value) -> Presence {
        presence_in(&claim.to_string(), "u", DRIVER, "n1")
    }

    #[test]
    fn a_claim_without_allocation_or_without_our_device_is_absent() {
        let mut foreign = mk_claim();
        foreign["status"]["allocation"]["devices"]["results"][1]["driver"] = "other".into();
        for status in [
            Value::Null,
            json!({}),
            json!({"allocation": null}),
            json!({"allocation": {"devices": null}}),
            json!({"allocation": {"devices": {"results": null}}}),
            foreign["status"].clone(),
        ] {
            let claim = json!({"metadata": {"uid": "u"}, "status": status});
            assert_eq!(presence(&claim), Presence::Absent, "{status}");
        }
        assert_eq!(
            presence(&json!({"metadata": {"uid": "u"}})),
            Presence::Absent
        );
    }

    #[test]
    fn a_claim_with_another_uid_is_absent_and_a_malformed_one_unknown() {
        let mut claim = mk_claim();
        claim["metadata"]["uid"] = "other".into();
        assert_eq!(presence(&claim), Presence::Absent);
        for text in ["", "{}", r#"{"metadata": {"uid": "u"}, "status": 1}"#] {
            assert_eq!(
                presence_in(text, "u", DRIVER, "n1"),
                Presence::Unknown,
                "{text}"
            );
        }
    }
}
