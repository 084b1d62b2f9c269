use super::*;

#[test]
fn a_metric_is_the_sum_of_its_series_without_those_of_longer_names() {
    let metrics =
        "# TYPE depth gauge\ndepth{queue=\"a\"} 2\ndepth{queue=\"b\"} 3\ndepth_seconds 9\n";
    assert_eq!(metric(metrics, "depth"), Some(5.0));
    assert_eq!(metric(metrics, "depth_seconds"), Some(9.0));
    assert_eq!(metric(metrics, "leader"), None);
}
