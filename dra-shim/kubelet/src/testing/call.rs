//! kubelet's Prepare and Unprepare calls, with its checks of the answers.

use super::answers::{Answers, CallError};
use super::event::{Event, ServiceVersion};
use super::http2::Transport;
use super::invalid_devices::problems;
use super::process::Process;
use crate::driver::PreparedDevice;
use crate::observer::Method;
use dra_claim::ClaimRef;

/// Makes one call with all of these claims to the driver's current plugin.
pub(super) async fn call(
    process: &Process,
    driver: &str,
    method: Method,
    claims: &[ClaimRef],
) -> Result<Answers, CallError> {
    let time = process.node.options.times.call;
    let calling = async {
        let (endpoint, service, channel) = process.plugin(driver)?;
        let transport = channel.transport().await;
        drop(channel);
        let transport = transport.map_err(|reason| CallError::Unavailable { reason })?;
        process.node.log.push(Event::Called {
            driver: driver.to_owned(),
            endpoint,
            method,
            claims: claims.iter().map(|claim| claim.uid.clone()).collect(),
        });
        let sent = match service {
            ServiceVersion::V1 => v1::send(transport, method, claims, time).await,
            ServiceVersion::V1beta1 => v1beta1::send(transport, method, claims, time).await,
        };
        sent.map_err(|status| CallError::Status {
            code: format!("{:?}", status.code()),
            message: status.message().to_owned(),
        })
    };
    // Past the deadline the future is dropped, which resets the stream.
    let answers = tokio::time::timeout(time, calling).await;
    let answers = complete(claims, answers.map_err(|_| CallError::Deadline)??)?;
    for (uid, devices) in &answers {
        for reason in problems(devices.as_deref().unwrap_or_default()) {
            process.node.log.push(Event::InvalidDevice {
                driver: driver.to_owned(),
                claim: uid.clone(),
                reason,
            });
        }
    }
    Ok(answers)
}

/// Checks that each claim has an answer. Facts: an entry for an unknown claim is an error. A
/// missing entry is an error too, also for a claim without devices and for Unprepare.
fn complete(claims: &[ClaimRef], answers: Answers) -> Result<Answers, CallError> {
    let is_known = |uid: &&String| claims.iter().any(|claim| claim.uid == **uid);
    if let Some(uid) = answers.keys().find(|uid| !is_known(uid)) {
        return Err(CallError::UnknownClaim { uid: uid.clone() });
    }
    match claims.len().saturating_sub(answers.len()) {
        0 => Ok(answers),
        count => Err(CallError::Skipped { count }),
    }
}

macro_rules! version {
    ($version:ident, $share_id:expr) => {
        mod $version {
            use std::time::Duration;

            use super::{Answers, ClaimRef, Method, PreparedDevice, Transport};
            use crate::proto::$version as proto;
            use crate::proto::$version::dra_plugin_client::DraPluginClient;

            pub(super) async fn send(
                transport: Transport,
                method: Method,
                claims: &[ClaimRef],
                time: Duration,
            ) -> Result<Answers, tonic::Status> {
                let origin = transport.origin.clone();
                let mut client = DraPluginClient::with_origin(transport, origin);
                let claims = claims.iter().map(claim).collect();
                match method {
                    Method::Prepare => {
                        let message = proto::NodePrepareResourcesRequest { claims };
                        let mut request = tonic::Request::new(message);
                        request.set_timeout(time);
                        let answer = client.node_prepare_resources(request).await?;
                        let claims = answer.into_inner().claims.into_iter();
                        // Fact: devices beside an error are ignored.
                        Ok(claims
                            .map(|(uid, it)| (uid, result(it.error, it.devices)))
                            .collect())
                    }
                    Method::Unprepare => {
                        let message = proto::NodeUnprepareResourcesRequest { claims };
                        let mut request = tonic::Request::new(message);
                        request.set_timeout(time);
                        let answer = client.node_unprepare_resources(request).await?;
                        let claims = answer.into_inner().claims.into_iter();
                        Ok(claims
                            .map(|(uid, it)| (uid, result(it.error, Vec::new())))
                            .collect())
                    }
                }
            }

            fn claim(claim: &ClaimRef) -> proto::Claim {
                proto::Claim {
                    namespace: claim.namespace.clone(),
                    uid: claim.uid.clone(),
                    name: claim.name.clone(),
                }
            }

            fn result(
                error: String,
                devices: Vec<proto::Device>,
            ) -> Result<Vec<PreparedDevice>, String> {
                if !error.is_empty() {
                    return Err(error);
                }
                let share_id: fn(&proto::Device) -> Option<String> = $share_id;
                let device = |it: proto::Device| PreparedDevice {
                    share_id: share_id(&it),
                    requests: it.request_names,
                    pool: it.pool_name,
                    device: it.device_name,
                    cdi_ids: it.cdi_device_ids,
                };
                Ok(devices.into_iter().map(device).collect())
            }
        }
    };
}

version!(v1, |device| device.share_id.clone());
// v1beta1 has no share id.
version!(v1beta1, |_| None);

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_claim(uid: &str) -> ClaimRef {
        ClaimRef {
            namespace: "ns".into(),
            name: uid.into(),
            uid: uid.into(),
        }
    }

    #[test]
    fn an_answer_has_exactly_the_claims_of_the_call() {
        let claims = [mk_claim("a"), mk_claim("b")];
        let answers = |uids: &[&str]| -> Answers {
            let entry = |uid: &&str| ((*uid).to_owned(), Ok(Vec::new()));
            uids.iter().map(entry).collect()
        };
        assert!(complete(&claims, answers(&["a", "b"])).is_ok());
        let skipped = complete(&claims, answers(&["b"])).unwrap_err();
        assert_eq!(skipped, CallError::Skipped { count: 1 });
        let unknown = complete(&claims, answers(&["a", "b", "c"])).unwrap_err();
        assert_eq!(unknown, CallError::UnknownClaim { uid: "c".into() });
    }
}
