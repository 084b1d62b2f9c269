//! Specs as generators and people write them.

use imex_cdi::Spec;

/// As `nvidia-ctk cdi generate` lays it out.
const BLOCK: &str = r#"---
cdiVersion: 0.6.0
kind: nvidia.com/gpu
annotations:
  a.example/note: "yes" # a comment
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      fileMode: 438
      major: 195
      minor: 0
- name: "1:0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia1
      hostPath: /dev/nvidia1
      type: c
containerEdits:
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args:
    - nvidia-cdi-hook
    - chmod
    - --mode
    - "755"
    timeout: 5
  mounts:
  - hostPath: /usr/lib/libcuda.so.1
    containerPath: /usr/lib/libcuda.so.1
    options:
    - ro
    - nosuid
    - rbind
"#;

fn json(text: &str) -> serde_json::Value {
    let spec = Spec::parse(text.as_bytes()).unwrap();
    serde_json::from_slice(&spec.to_json()).unwrap()
}

// req: CDI-18
#[test]
fn one_spec_is_read_alike_in_every_style() {
    let read = json(BLOCK);
    assert_eq!(read["devices"][0]["name"], "0");
    assert_eq!(read["annotations"]["a.example/note"], "yes");
    let gpu = &read["devices"][0]["containerEdits"]["deviceNodes"][0];
    assert_eq!(gpu["fileMode"], 0o666);
    assert_eq!(
        read["containerEdits"]["hooks"][0]["args"][3].as_str(),
        Some("755")
    );

    let path = "path: /usr/bin/nvidia-cdi-hook";
    for (old, new) in [
        ("name: \"0\"", "name: 0"),
        ("name: \"1:0\"", "name: 1:0"),
        ("- \"755\"", "- 755"),
        ("fileMode: 438", "fileMode: 0666"),
        ("fileMode: 438", "fileMode: 0o666"),
        ("fileMode: 438", "fileMode: 0x1b6"),
        (
            "minor: 0",
            "minor: 0\n      hostPath: ~\n      permissions:",
        ),
        (path, "path: '/usr/bin/nvidia-cdi-hook'"),
        (path, "\"path\": \"/usr/bin/nvidia-cdi-hook\""),
        (path, "path: >-\n      /usr/bin/nvidia-cdi-hook"),
        (path, "path: |-\n      /usr/bin/nvidia-cdi-hook"),
        ("- --mode", "-   --mode\n# a line\n"),
        (
            "\n    options:\n    - ro\n    - nosuid\n    - rbind",
            "\n    options: [ro, nosuid, 'rbind']",
        ),
        ("---\n", ""),
        ("---\n", "# SPDX\n\n---\n"),
        (
            "    - rbind\n",
            "    - rbind\n---\nkind: of another document\n",
        ),
        ("    - rbind\n", "    - rbind\n...\n"),
        ("\n", "\r\n"),
    ] {
        let text = BLOCK.replacen(old, new, if old == "\n" { usize::MAX } else { 1 });
        assert_ne!(text, BLOCK);
        assert_eq!(json(&text), read, "{text}");
    }
    for style in [
        read.to_string(),
        format!("# flow\n{read}"),
        format!("\u{feff}{read}"),
        serde_json::to_string_pretty(&read).unwrap(),
        serde_json::to_string_pretty(&read)
            .unwrap()
            .replace("  ", "\t"),
    ] {
        assert_eq!(json(&style), read, "{style}");
    }
}

// req: CDI-18
#[test]
fn a_boolean_is_one_in_any_spelling_of_yaml_1_1() {
    let text = "{cdiVersion: 1.1.0, kind: a.com/b, devices: [{name: c, containerEdits: \
                {intelRdt: {closID: x, enableMonitoring: yes}}}]}";
    for word in ["yes", "true", "on", "True", "Y"] {
        let read = json(&text.replace("yes", word));
        let rdt = &read["devices"][0]["containerEdits"]["intelRdt"];
        assert_eq!(rdt["enableMonitoring"], true, "{word}");
    }
    for word in ["no", "off", "FALSE", "null"] {
        let read = json(&text.replace("yes", word));
        let rdt = &read["devices"][0]["containerEdits"]["intelRdt"];
        assert!(rdt.get("enableMonitoring").is_none(), "{word}");
    }
}

/// The Go driver's files of claims, as it wrote them.
#[test]
fn claims_of_the_go_driver_are_read_as_another_parser_reads_them() {
    for text in [
        include_str!(
            "../fixtures/k8s.compute-domain.nvidia.com-claim_11111111-aaaa-4bbb-8ccc-000000000001.yaml"
        ),
        include_str!(
            "../fixtures/k8s.compute-domain.nvidia.com-claim_22222222-aaaa-4bbb-8ccc-000000000002.yaml"
        ),
        include_str!("../fixtures/k8s.compute-domain.nvidia.com-device_base.yaml"),
    ] {
        let other: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(json(text), other);
    }
}
