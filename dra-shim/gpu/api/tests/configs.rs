//! The table of opaque configs, which a cluster test sends to the API server, too: the chart's policy has the same rules.

use std::collections::BTreeMap;

use gpu_api::{ConfigError, FeatureGates, OpaqueConfig};
use serde_json::value::RawValue;

/// Fields of a case: `config`; `error`, the code, if it is refused, and `about`, a word of every refusal's message; `gates`,
/// by default those of both strategies; `policy_accepts`, why the policy cannot refuse it.
const TABLE: &str = include_str!("configs.json");

const ALL_GATES: &str = "TimeSlicingSettings=true,MPSSupport=true";

fn check(config: &str, gates: &FeatureGates) -> Result<(), ConfigError> {
    OpaqueConfig::decode_strict(config)?.sharing(gates)?;
    Ok(())
}

// req: GPU-58
#[test]
fn each_config_has_the_verdict_of_the_table() {
    let cases: Vec<BTreeMap<&str, &RawValue>> = serde_json::from_str(TABLE).unwrap();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    for case in cases {
        let text = |field| {
            case.get(field)
                .map(|it| serde_json::from_str::<&str>(it.get()).unwrap())
        };
        let config = case["config"].get();
        let gates = text("gates").unwrap_or(ALL_GATES).parse().unwrap();
        let found = check(config, &gates).err();
        assert_eq!(
            found.as_ref().map(ConfigError::code),
            text("error"),
            "{config}"
        );
        if let Some(error) = found {
            let message = format!("{error}; {}", error.hint());
            assert!(
                message.contains(text("about").unwrap()),
                "{config}: {message}"
            );
        }
    }
}
