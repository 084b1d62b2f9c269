//! Whether the kubelet plugin is on a node: a process or a pod of it.

use crate::command_line::arguments;
use crate::files::HostFiles;
use crate::processes::processes;

/// The program, of this driver and of NVIDIA's.
const PROGRAM: &str = "compute-domain-kubelet-plugin";
/// The container in the pod, in both charts.
const CONTAINER: &str = "compute-domains";
/// Of a program's name, as much as the kernel keeps of it.
const COMM_LEN: usize = 15;

/// A pod that crashes again and again has no process, and kubelet keeps its directory.
pub(super) fn is_found(files: &HostFiles, kubelet_root: &str) -> bool {
    let pods = format!("{kubelet_root}/pods");
    let is_its_pod = |uid: &String| files.exists(&format!("{pods}/{uid}/containers/{CONTAINER}"));
    files.list(&pods).iter().any(is_its_pod) || is_running(files)
}

fn is_running(files: &HostFiles) -> bool {
    let found = processes(files);
    let mut found = found
        .iter()
        .filter(|process| PROGRAM.get(..COMM_LEN) == Some(&process.name));
    found.any(|process| {
        let arguments = arguments(files, process.pid).ok().flatten();
        let program = arguments.as_ref().and_then(|arguments| arguments.first());
        program.is_some_and(|program| program.ends_with(PROGRAM))
    })
}
