use super::*;

fn note(driver: &[u64]) -> Compatibility {
    Compatibility {
        cuda: "12.9".to_owned(),
        driver: driver.to_vec(),
    }
}

fn step(driver: Option<&str>, cuda: Option<&str>) -> CompatStep {
    CompatStep {
        folder: "/usr/local/cuda/compat".into(),
        host_driver: driver.map(str::to_owned),
        host_cuda: cuda.map(str::to_owned),
    }
}

#[test]
fn the_note_decides_by_branch_and_version() {
    let note = note(&[535, 570, 575]);
    let compat = Version::parse("575.57.08");
    for (driver, expected) in [
        ("570.211.01", true),
        ("575.10.10", true),
        ("575.57.08", false),
        ("575.99", false),
        ("590.44.01", false),
        ("550.1", false),
    ] {
        let used = is_used(Some(&note), compat, &step(Some(driver), None));
        assert_eq!(used, expected, "{driver}");
    }
}

#[test]
fn without_a_drivers_version_the_note_decides_by_cuda() {
    let note = note(&[]);
    for (cuda, expected) in [
        ("12.8", true),
        ("12.9", false),
        ("12.10", false),
        ("x", false),
    ] {
        let used = is_used(Some(&note), None, &step(None, Some(cuda)));
        assert_eq!(used, expected, "{cuda}");
    }
}

#[test]
fn without_a_note_the_major_version_decides() {
    let compat = Version::parse("333.88.99");
    for (driver, expected) in [
        ("99.5", true),
        ("222.55.66", true),
        ("333.1", false),
        ("x", false),
    ] {
        let used = is_used(None, compat, &step(Some(driver), None));
        assert_eq!(used, expected, "{driver}");
        assert!(!is_used(None, compat, &step(Some(driver), Some("12.1"))));
    }
    assert!(!is_used(None, None, &step(Some("99"), None)));
}

#[test]
fn nvidias_note_is_json_with_a_nul() {
    let content = br#"{"format":1,"CUDA version":"12.9","driver":[535,550],"device":[1,2]}"#;
    let note = |name: &str, content: &[u8]| Note {
        name: name.to_owned(),
        kind: 0,
        content: [content, b"\0"].concat(),
    };
    let other = note("GNU", content);
    let broken = note(OWNER, b"{");
    let right = note(OWNER, content);
    assert_eq!(note_of(&[other.clone(), broken.clone()]), None);
    let found = note_of(&[other, broken, right]).unwrap();
    assert_eq!(
        (found.cuda.as_str(), found.driver),
        ("12.9", vec![535, 550])
    );
    let orin = note(OWNER, br#"{"format":1,"CUDA version":"13.2"}"#);
    assert_eq!(note_of(&[orin]).unwrap().driver, [0; 0]);
}
