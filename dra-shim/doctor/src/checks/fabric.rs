//! Checks that the node has a clique, so that claims can be prepared.
//!
//! | id | severity | when |
//! |---|---|---|
//! | codes of [`Fabric`] | error | the clique is not known: registration is in progress or failed, GPUs disagree, or NVML fails |
//! | the same | warning | there is a clique, but a GPU's health is degraded |
//! | the same | info | the node is permanently in no clique: claims are refused, everything else works |
//! | `fabric-health-unknown` | info | there is a clique, but NVML does not report the health of its GPUs |
//! | `fabric-not-read` | info | the host is examined through another root |
//! | `fabric-probe-failed` | error | the NVML probe did not start or never reported a result |

use nvml_clique::Fabric;

use crate::diagnosis::AreaReport;
use crate::facts::fabric::FabricFacts;
use crate::finding::{Finding, Severity};
use crate::text::counted;

/// `hanging`: a call of NVML on a GPU that does not return.
pub(super) fn check(facts: &FabricFacts, hanging: Option<String>) -> AreaReport {
    match facts {
        FabricFacts::NoLibrary => AreaReport::skipped("not queried: no NVML library"),
        FabricFacts::OtherRoot => AreaReport::new("not queried: --root is not /", vec![not_read()]),
        FabricFacts::NoAnswer => AreaReport::new("no answer", vec![probe_failed()]),
        FabricFacts::Read {
            fabric,
            gpus,
            health_unknown,
        } => {
            let mut summary = summary(fabric, *gpus);
            let mut findings: Vec<Finding> = fabric_finding(fabric, hanging).into_iter().collect();
            if *health_unknown > 0 {
                summary.push_str(", health not reported");
                findings.push(no_health(*health_unknown));
            }
            AreaReport::new(summary, findings)
        }
    }
}

/// An info: everything else of the host is still examined.
fn not_read() -> Finding {
    Finding::info(
        "fabric-not-read",
        "NVML",
        "doctor loads NVML only with --root /",
        "run cdi-gen doctor with --root / on the host or in a driver container",
    )
}

fn probe_failed() -> Finding {
    Finding::error(
        "fabric-probe-failed",
        "NVML",
        "the probe could not be started, or never reported a result",
        "check the host's limits on threads and memory (ulimit -u)",
    )
}

/// Health that a driver does not report is neither good nor bad.
fn no_health(gpus: usize) -> Finding {
    Finding::info(
        "fabric-health-unknown",
        "NVLink fabric",
        format!(
            "NVML does not report the health of {} in the clique: degraded bandwidth or routes would go unnoticed",
            counted(gpus, "GPU")
        ),
        "see `nvidia-smi -q` (Fabric, Health); a newer driver or fabric manager may report the health",
    )
}

fn fabric_finding(fabric: &Fabric, hanging: Option<String>) -> Option<Finding> {
    let severity = severity(fabric)?;
    let (id, fix) = (fabric.code(), fabric.hint());
    let hanging = hanging.filter(|_| matches!(fabric, Fabric::NoAnswer { .. }));
    let hanging = hanging.map_or_else(String::new, |hanging| format!("; {hanging}"));
    Some(Finding::new(
        severity,
        id,
        "NVLink fabric",
        format!("{fabric}{hanging}"),
        fix,
    ))
}

fn summary(fabric: &Fabric, gpus: Option<usize>) -> String {
    let fabric = short(fabric);
    match gpus {
        Some(gpus) => format!("{}: {fabric}", counted(gpus, "GPU")),
        None => fabric,
    }
}

/// In a few words; the finding has the reason.
fn short(fabric: &Fabric) -> String {
    match fabric {
        Fabric::Clique(clique) if clique.degraded.is_empty() => format!("clique {}", clique.id),
        Fabric::Clique(clique) => {
            format!("clique {}, {} degraded", clique.id, clique.degraded.len())
        }
        Fabric::NoClique(_) => "in no clique".to_owned(),
        Fabric::Pending(_) => "clique not known".to_owned(),
        Fabric::NoLibrary(_) => "no NVML library".to_owned(),
        Fabric::NvmlFailed(_) => "NVML fails".to_owned(),
        Fabric::NoAnswer { .. } => "no answer".to_owned(),
    }
}

/// In an error state no claim can be prepared, but it can be fixed. A host in no clique is
/// not broken: most GPU hosts are in none.
fn severity(fabric: &Fabric) -> Option<Severity> {
    match fabric {
        Fabric::Clique(clique) if clique.degraded.is_empty() => None,
        Fabric::Clique(_) => Some(Severity::Warning),
        Fabric::NoClique(_) => Some(Severity::Info),
        Fabric::Pending(_)
        | Fabric::NoLibrary(_)
        | Fabric::NvmlFailed(_)
        | Fabric::NoAnswer { .. } => Some(Severity::Error),
    }
}

#[cfg(test)]
mod tests {
    use nvml_clique::{ClusterUuid, Gpu, GpuFabricState, GpuRef, Health};

    use super::*;

    const COMPLETE: GpuFabricState = GpuFabricState::Completed {
        cluster: ClusterUuid([1; 16]),
        clique_id: 0,
    };

    fn check_alone(facts: &FabricFacts) -> AreaReport {
        check(facts, None)
    }

    fn checked(states: &[GpuFabricState]) -> AreaReport {
        let gpus: Vec<Gpu> = (0..)
            .zip(states)
            .map(|(index, fabric)| Gpu {
                id: GpuRef { index, uuid: None },
                name: None,
                fabric: fabric.clone(),
                health: Some(Health {
                    mask: u32::from(index % 2 == 1),
                    summary: None,
                }),
            })
            .collect();
        check_alone(&FabricFacts::Read {
            fabric: Fabric::from_gpus(&gpus),
            gpus: Some(states.len()),
            health_unknown: 0,
        })
    }

    #[test]
    fn a_fabric_is_an_error_only_if_no_claim_can_be_prepared() {
        assert_eq!(checked(&[COMPLETE]).worst(), None);
        let none = checked(&[GpuFabricState::NotSupported]);
        assert_eq!(none.worst(), Some(Severity::Info));
        let coming = checked(&[COMPLETE, GpuFabricState::InProgress]);
        assert_eq!(coming.worst(), Some(Severity::Error));
        let evidence = &coming.findings[0].evidence;
        assert!(
            evidence.contains("gpu 1: fabric registration in progress"),
            "{evidence}"
        );
        assert_eq!(checked(&[]).worst(), Some(Severity::Error));
    }

    #[test]
    fn each_problem_is_reported_once_for_any_number_of_gpus() {
        for gpus in [8, 16, 72] {
            let coming = checked(&vec![GpuFabricState::InProgress; gpus]);
            assert_eq!(coming.summary, format!("{gpus} GPUs: clique not known"));
            let evidence = &coming.findings[0].evidence;
            assert_eq!(evidence.matches("in progress").count(), 1, "{evidence}");
            assert!(evidence.len() < 100, "{evidence}");

            let degraded = checked(&vec![COMPLETE; gpus]);
            let end = format!(".0, {} degraded", gpus / 2);
            assert!(degraded.summary.ends_with(&end), "{}", degraded.summary);
            let evidence = &degraded.findings[0].evidence;
            assert_eq!(evidence.matches("bandwidth").count(), 1, "{evidence}");
            assert!(evidence.len() < 200, "{evidence}");
        }
    }

    #[test]
    fn skipped_display_adapters_are_reported() {
        let skipped = checked(&[GpuFabricState::DisplayAdapter]);
        let evidence = &skipped.findings[0].evidence;
        assert!(
            evidence.contains("NVML sees only 1 display adapter"),
            "{evidence}"
        );
        let beside = checked(&[COMPLETE, GpuFabricState::DisplayAdapter]);
        assert_eq!(beside.worst(), None);
    }

    #[test]
    fn health_that_nvml_does_not_report_is_unknown() {
        let report = check_alone(&FabricFacts::Read {
            fabric: Fabric::from_gpus(&[Gpu {
                id: GpuRef {
                    index: 0,
                    uuid: None,
                },
                name: None,
                fabric: COMPLETE,
                health: None,
            }]),
            gpus: Some(1),
            health_unknown: 1,
        });
        let summary = &report.summary;
        assert!(summary.ends_with(".0, health not reported"), "{summary}");
        assert_eq!(report.findings[0].id, "fabric-health-unknown");
        assert_eq!(report.worst(), Some(Severity::Info));
    }

    #[test]
    fn nvml_that_was_not_queried_is_not_an_error() {
        assert!(check_alone(&FabricFacts::NoLibrary).skipped);
        let other = check_alone(&FabricFacts::OtherRoot);
        assert_eq!(other.worst(), Some(Severity::Info));
        let unreported = check_alone(&FabricFacts::NoAnswer);
        assert_eq!(unreported.worst(), Some(Severity::Error));
    }

    #[test]
    fn a_gpu_that_hangs_is_named_only_if_nvml_does_not_answer() {
        let evidence = |fabric| {
            let facts = FabricFacts::Read {
                fabric,
                gpus: None,
                health_unknown: 0,
            };
            let found = check(&facts, Some("GPU 1: f did not return".to_owned())).findings;
            found[0].evidence.clone()
        };
        let waits = Fabric::NoAnswer {
            waited: std::time::Duration::from_secs(10),
            call: Some("f"),
        };
        assert_eq!(
            evidence(waits),
            "NVML has not responded for 10 s (in f); GPU 1: f did not return"
        );
        let answers = evidence(Fabric::from_gpus(&[]));
        assert_eq!(answers, "NVML sees no GPU on this node");
    }
}
