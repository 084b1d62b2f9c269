//! What a claim object says about this node: whether its allocation is here.

use compute_domain_api::names::{DRIVER_NAME, channel_device_name};
use compute_domain_node::Presence;
use serde::Deserialize;

/// The part of a claim that is read. Every other field may be anything.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    allocation: Option<Allocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Allocation {
    #[serde(default)]
    devices: Option<Devices>,
    #[serde(default)]
    node_selector: Option<NodeSelector>,
}

#[derive(Deserialize)]
struct Devices {
    #[serde(default)]
    results: Option<Vec<DeviceResult>>,
}

#[derive(Deserialize)]
struct DeviceResult {
    driver: String,
    #[serde(default)]
    device: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeSelector {
    #[serde(default)]
    node_selector_terms: Option<Vec<Term>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    #[serde(default)]
    match_fields: Option<Vec<Requirement>>,
}

#[derive(Deserialize)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Option<Vec<String>>,
}

/// What the claim object `json` says of the claim `uid`. An object that cannot be read
/// says nothing.
// req: NODE-29
pub(crate) fn presence_in(json: &str, uid: &str, node: &str) -> Presence {
    match serde_json::from_str::<Object>(json) {
        Err(_) => Presence::Unknown,
        // Another claim has the name now.
        Ok(object) if object.metadata.uid != uid => Presence::Absent,
        Ok(object) => match object.status {
            Some(status) if status.is_for(node) => Presence::Present,
            _ => Presence::Absent,
        },
    }
}

/// Whether the claim's status, as JSON, has a device of this driver for `node`. A
/// status that cannot be read has none.
pub(crate) fn is_allocated_to(status: &str, node: &str) -> bool {
    let status = serde_json::from_str::<Status>(status);
    status.is_ok_and(|status| status.is_for(node))
}

/// Whether the claim's status, as JSON, has the device that stands for `node`. A status that
/// cannot be read has none.
pub(crate) fn has_node_device(status: &str, node: &str) -> bool {
    let status = serde_json::from_str::<Status>(status);
    status.is_ok_and(|status| status.has(node, |device| *device == channel_device_name(0)))
}

// === impl Status ===

impl Status {
    fn is_for(&self, node: &str) -> bool {
        self.has(node, |_| true)
    }

    /// The pool's name decides nothing: any name may be published for any node.
    fn has(&self, node: &str, is_wanted: impl Fn(&str) -> bool) -> bool {
        let Some(allocation) = &self.allocation else {
            return false;
        };
        let results = allocation.devices.as_ref();
        let mut results = results
            .and_then(|devices| devices.results.as_ref())
            .into_iter()
            .flatten();
        let selects = |selector: &NodeSelector| selector.may_match(node);
        results.any(|result| result.driver == DRIVER_NAME && is_wanted(&result.device))
            && allocation.node_selector.as_ref().is_none_or(selects)
    }
}

// === impl NodeSelector ===

impl NodeSelector {
    /// Whether one of the terms may match. Only a requirement on the node's name can
    /// exclude the node: labels are not known here, and what is not known takes no
    /// device away.
    fn may_match(&self, node: &str) -> bool {
        let terms = self.node_selector_terms.as_deref().unwrap_or_default();
        terms.is_empty() || terms.iter().any(|term| !term.excludes(node))
    }
}

impl Term {
    fn excludes(&self, node: &str) -> bool {
        let fields = self.match_fields.as_deref().unwrap_or_default();
        fields.iter().any(|field| field.excludes(node))
    }
}

impl Requirement {
    fn excludes(&self, node: &str) -> bool {
        let values = self.values.as_deref().unwrap_or_default();
        let names_it = values.iter().any(|value| value == node);
        self.key == "metadata.name"
            && match self.operator.as_str() {
                "In" => !names_it,
                "NotIn" => names_it,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mk_claim(selector: &Value) -> Value {
        json!({
            "metadata": {"uid": "u", "managedFields": [{"time": "9999-12-31T23:59:59Z"}]},
            "status": {"allocation": {
                "devices": {"results": [
                    {"request": "r", "driver": "gpu.nvidia.com", "pool": "p", "device": "gpu-0"},
                    {"request": "r", "driver": DRIVER_NAME, "pool": "any", "device": "channel-0"},
                ]},
                "nodeSelector": selector,
            }},
        })
    }

    fn name_is(operator: &str, node: &str) -> Value {
        json!({"matchFields": [
            {"key": "metadata.name", "operator": operator, "values": [node]},
        ]})
    }

    fn presence(claim: &Value) -> Presence {
        presence_in(&claim.to_string(), "u", "n1")
    }

    #[test]
    fn a_claim_that_is_not_allocated_or_has_no_device_of_ours_is_absent() {
        let mut foreign = mk_claim(&Value::Null);
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
    fn only_a_selector_whose_every_term_names_other_nodes_takes_the_claim_away() {
        let label = json!({"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["elsewhere"]},
        ]});
        let other_field = json!({"matchFields": [
            {"key": "metadata.uid", "operator": "In", "values": ["x"]},
        ]});
        let terms = |terms: &[Value]| json!({ "nodeSelectorTerms": terms });
        let here = [
            Value::Null,
            json!({}),
            terms(&[]),
            terms(&[json!({})]),
            terms(&[name_is("In", "n1")]),
            terms(&[name_is("NotIn", "n2")]),
            terms(&[name_is("Likes", "n2")]),
            terms(std::slice::from_ref(&label)),
            terms(&[other_field]),
            terms(&[name_is("In", "n2"), name_is("In", "n1")]),
            terms(&[name_is("In", "n2"), label.clone()]),
        ];
        for selector in here {
            let found = presence(&mk_claim(&selector));
            assert_eq!(found, Presence::Present, "{selector}");
        }
        let mut both = label;
        both["matchFields"] = name_is("In", "n2")["matchFields"].clone();
        let elsewhere = [
            terms(&[name_is("In", "n2")]),
            terms(&[name_is("NotIn", "n1")]),
            terms(&[name_is("In", "n2"), name_is("In", "n3")]),
            terms(&[both]),
        ];
        for selector in elsewhere {
            let found = presence(&mk_claim(&selector));
            assert_eq!(found, Presence::Absent, "{selector}");
        }
    }

    #[test]
    fn only_the_device_that_stands_for_the_node_counts_as_it() {
        let mut claim = mk_claim(&json!({"nodeSelectorTerms": [name_is("In", "n1")]}));
        let has = |claim: &Value, node| has_node_device(&claim["status"].to_string(), node);
        assert!(has(&claim, "n1") && !has(&claim, "n2"));
        claim["status"]["allocation"]["devices"]["results"][1]["device"] = "channel-7".into();
        assert!(!has(&claim, "n1"));
        assert!(!has_node_device("", "n1") && !has_node_device("null", "n1"));
    }

    #[test]
    fn another_claim_of_the_name_is_absence_and_an_unreadable_one_says_nothing() {
        let mut claim = mk_claim(&Value::Null);
        claim["metadata"]["uid"] = "other".into();
        assert_eq!(presence(&claim), Presence::Absent);
        for text in ["", "{}", r#"{"metadata": {"uid": "u"}, "status": 1}"#] {
            assert_eq!(presence_in(text, "u", "n1"), Presence::Unknown, "{text}");
        }
    }
}
