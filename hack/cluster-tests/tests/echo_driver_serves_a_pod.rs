//! The example driver of `dra-kubelet` registers with a real kubelet, and gives a pod an
//! environment variable.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::{Cluster, Namespace, fixtures, program_path, wait_until};

const OBJECTS: &str = r#"
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: echo.example.com}
spec:
  selectors: [{cel: {expression: "device.driver == 'echo.example.com'"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: echo}
spec:
  devices:
    requests: [{name: echo, exactly: {deviceClassName: echo.example.com}}]
    config:
    - requests: [echo]
      opaque: {driver: echo.example.com, parameters: {echo: "hello <kubelet> & world"}}
---
apiVersion: v1
kind: Pod
metadata: {name: listener}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: echo, resourceClaimName: echo}]
  containers:
  - name: main
    image: localhost/busybox:1
    imagePullPolicy: Never
    command: [sleep, "100000"]
    resources: {claims: [{name: echo}]}
"#;

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_gets_its_claims_text_as_an_environment_variable() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "echo")?;
    let _driver = EchoDriver::start(&cluster)?;

    cluster.script(
        &["kubectl", "apply", "-n", &namespace.name, "-f", "-"],
        OBJECTS,
    )?;
    fixtures::wait_until_running(&cluster, &namespace, "listener")?;
    let (_, text) = cluster.in_pod(&namespace.name, "listener", "echo $ECHO")?;
    ensure!(
        text.trim() == "hello <kubelet> & world",
        "the pod printed {text:?}"
    );

    cluster.kubectl(&["delete", "pod", "listener", "-n", &namespace.name, "--wait"])?;
    wait_until(&cluster, "the claim's CDI file is gone", || {
        let files = cluster.on_node(1, "ls /var/run/cdi")?;
        ensure!(!files.contains("echo.example.com"), "there are {files}");
        Ok(())
    })
}

/// The example of `dra-kubelet` as a process on node 1; it ends with the test.
struct EchoDriver<'a> {
    cluster: &'a Cluster,
    process: Child,
}

impl<'a> EchoDriver<'a> {
    fn start(cluster: &'a Cluster) -> Result<Self> {
        let program = program_path("examples/echo")?;
        let process = Command::new(cluster.script_path())
            .args(["exec", "--node", "1", "sh", "-c"])
            .arg(format!("exec {program} --node-name node1 --kubeconfig \"$KUBECONFIG\""))
            .stdin(Stdio::null())
            .spawn()
            .context("the echo driver does not start; build it with cargo build -p dra-kubelet --example echo")?;
        Ok(Self { cluster, process })
    }
}

impl Drop for EchoDriver<'_> {
    fn drop(&mut self) {
        // SIGTERM, so that it takes its sockets away; its wrapper ends with it.
        drop(self.cluster.on_node(1, "pkill -TERM -x echo"));
        drop(self.process.wait());
    }
}
