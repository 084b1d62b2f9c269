use super::*;

fn mk_round(seconds: u64) -> Round {
    let mut round = Round::default();
    round.create.wall = Duration::from_secs(seconds);
    round
}

fn mk_size(domains: usize, subject: &[u64], floor: &[u64]) -> Size {
    Size {
        domains,
        subject: subject.iter().copied().map(mk_round).collect(),
        floor: floor.iter().copied().map(mk_round).collect(),
    }
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

#[test]
fn a_round_is_compared_with_the_floors_before_and_after_it() {
    // 6 / 1.5, 6 / 2.5, 8 / 4
    let size = mk_size(60, &[6, 6, 8], &[1, 2, 3, 5]);
    assert_close(size.ratio(Change::Create), 2.4);
    assert_close(size.floor(|round| round.wall(Change::Create)), 2.5);
}

#[test]
fn ten_times_the_time_for_ten_times_the_domains_is_linear() {
    let wall = |size: &Size| size.subject(|round| round.wall(Change::Create));
    let (one, ten) = (mk_size(200, &[5], &[]), mk_size(2000, &[50], &[]));
    assert_close(ten.growth_since(&one, wall), 2.0);
    let four_times = mk_size(400, &[20], &[]);
    assert_close(four_times.growth_since(&one, wall), 4.0);
}
