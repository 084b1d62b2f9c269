//! The example drivers of `dra-kubelet` register with a real kubelet and give a pod an environment
//! variable.

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
    let _driver = ExampleDriver::start(
        &cluster,
        "echo",
        "--node-name node1 --kubeconfig \"$KUBECONFIG\"",
    )?;

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
    wait_until(&cluster, "the claim's CDI file is removed", || {
        let files = cluster.on_node(1, "ls /var/run/cdi")?;
        ensure!(!files.contains("echo.example.com"), "there are {files}");
        Ok(())
    })
}

/// The driver is killed while a pod has a lamp, and its file of records is removed. The next process still finds the
/// lamp's owner, from the API server, and later frees the lamp.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_claim_keeps_its_lamp_when_the_driver_is_killed_and_its_records_are_removed() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "lamps")?;
    let driver = ExampleDriver::start(&cluster, "lamps", "")?;
    let objects = OBJECTS.replace("echo.example.com", "lamps.example.com");
    let (objects, _) = objects.split_once("    config:").context("no config")?;
    let (_, pod) = OBJECTS
        .split_once("---\napiVersion: v1\n")
        .context("no pod")?;
    let objects = format!("{objects}---\napiVersion: v1\n{pod}");
    cluster.script(
        &["kubectl", "apply", "-n", &namespace.name, "-f", "-"],
        &objects,
    )?;
    fixtures::wait_until_running(&cluster, &namespace, "listener")?;
    let (_, lamp) = cluster.in_pod(&namespace.name, "listener", "echo $LAMP")?;
    ensure!(lamp.starts_with("lamp-"), "the pod printed {lamp:?}");

    cluster.on_node(1, "pkill -KILL -x lamps")?;
    drop(driver);
    let records = "/var/lib/kubelet/plugins/lamps.example.com/checkpoint.json";
    cluster.on_node(1, &format!("rm {records}"))?;
    let _driver = ExampleDriver::start(&cluster, "lamps", "")?;
    wait_until(&cluster, "the claim has its record again", || {
        let text = cluster.on_node(1, &format!("cat {records}"))?;
        ensure!(text.contains(lamp.trim()), "{text}");
        Ok(())
    })?;

    cluster.kubectl(&["delete", "pod", "listener", "-n", &namespace.name, "--wait"])?;
    wait_until(&cluster, "the claim has neither spec nor record", || {
        let files = cluster.on_node(1, "ls /var/run/cdi")?;
        ensure!(!files.contains("lamps.example.com"), "there are {files}");
        let text = cluster.on_node(1, &format!("cat {records}"))?;
        ensure!(!text.contains(lamp.trim()), "{text}");
        Ok(())
    })
}

/// An example driver of `dra-kubelet` as a process on node 1; it ends with the test.
struct ExampleDriver<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    process: Child,
}

impl<'a> ExampleDriver<'a> {
    fn start(cluster: &'a Cluster, name: &'static str, arguments: &str) -> Result<Self> {
        let program = program_path(&format!("examples/{name}"))?;
        let process = Command::new(cluster.script_path())
            .args(["exec", "--node", "1", "sh", "-c"])
            .arg(format!("NODE_NAME=node1 exec {program} {arguments}"))
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| {
                format!("{name} does not start; build it with cargo build -p dra-kubelet --example {name}")
            })?;
        Ok(Self {
            cluster,
            name,
            process,
        })
    }
}

impl Drop for ExampleDriver<'_> {
    fn drop(&mut self) {
        // SIGTERM, so that it removes its sockets; its wrapper ends with it.
        let end = format!("pkill -TERM -x {}", self.name);
        drop(self.cluster.on_node(1, &end));
        drop(self.process.wait());
    }
}
