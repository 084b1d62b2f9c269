use std::time::Duration;

use super::*;

fn key(name: &str) -> Key {
    name.into()
}

fn after(now: Instant, seconds: u64) -> Instant {
    now + Duration::from_secs(seconds)
}

fn add(queue: &mut Queue, tenant: &str, names: &[&str]) {
    for name in names {
        queue.add(&key(name), tenant);
    }
}

/// Runs all due keys, one after the other. Returns their order.
fn work(queue: &mut Queue, now: Instant) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(key) = queue.pop(now) {
        queue.done(&key, None);
        order.push(key.to_string());
    }
    order
}

#[track_caller]
fn assert_no_trace(queue: &Queue) {
    assert!(queue.ready.is_empty(), "{queue:?}");
    assert!(queue.turns.is_empty(), "{queue:?}");
    assert!(queue.delayed.is_empty(), "{queue:?}");
    assert!(queue.entries.is_empty(), "{queue:?}");
    assert_eq!(queue.depth(), 0);
}

#[tokio::test]
async fn keys_of_a_tenant_keep_their_order_and_come_once() {
    let now = Instant::now();
    let mut queue = Queue::default();
    add(&mut queue, "team", &["a", "b", "a"]);
    assert_eq!(queue.depth(), 2);
    assert_eq!(work(&mut queue, now), ["a", "b"]);
    assert_no_trace(&queue);
}

#[tokio::test]
async fn the_only_key_of_a_tenant_comes_next_even_if_another_has_thousands() {
    let now = Instant::now();
    let mut queue = Queue::default();
    for number in 0..5_000 {
        queue.add(&key(&number.to_string()), "greedy");
    }
    assert_eq!(queue.pop(now), Some(key("0")));
    add(&mut queue, "modest", &["a"]);
    assert_eq!(queue.pop(now), Some(key("1")), "its turn was before");
    assert_eq!(queue.pop(now), Some(key("a")));
    assert_eq!(queue.depth(), 4_998);
    // But it does not always come first.
    queue.done(&key("a"), None);
    add(&mut queue, "modest", &["a"]);
    assert_eq!(queue.pop(now), Some(key("2")));
    assert_eq!(queue.pop(now), Some(key("a")));
}

#[tokio::test]
async fn tenants_take_turns_and_each_keeps_its_own_order() {
    let now = Instant::now();
    let mut queue = Queue::default();
    add(&mut queue, "one", &["a1", "a2", "a3"]);
    add(&mut queue, "two", &["b1"]);
    add(&mut queue, "three", &["c1", "c2"]);
    let order = ["a1", "b1", "c1", "a2", "c2", "a3"];
    assert_eq!(work(&mut queue, now), order);
    assert_no_trace(&queue);
}

#[tokio::test]
async fn a_delayed_or_running_key_keeps_its_tenant() {
    let now = Instant::now();
    let mut queue = Queue::default();
    add(&mut queue, "own", &["late", "again"]);
    for name in ["late", "again"] {
        assert_eq!(queue.pop(now), Some(key(name)));
    }
    queue.done(&key("late"), Some(after(now, 60)));
    queue.add(&key("again"), "other");
    queue.done(&key("again"), None);
    // Both come in the turns of their own tenant.
    add(&mut queue, "other", &["x1", "x2"]);
    let order = work(&mut queue, after(now, 60));
    assert_eq!(order, ["again", "x1", "late", "x2"]);
    assert_no_trace(&queue);
}

#[tokio::test]
async fn a_delayed_key_comes_at_its_time_or_when_it_is_added() {
    let now = Instant::now();
    let mut queue = Queue::default();
    for name in ["late", "changed"] {
        queue.add(&key(name), "team");
        assert_eq!(queue.pop(now), Some(key(name)));
        queue.done(&key(name), Some(after(now, 60)));
    }
    assert_eq!(queue.pop(now), None);
    queue.add(&key("changed"), "team");
    assert_eq!(work(&mut queue, now), ["changed"]);
    assert_eq!(queue.pop(after(now, 59)), None);
    assert_eq!(work(&mut queue, after(now, 60)), ["late"]);
    assert_no_trace(&queue);
}

#[tokio::test]
async fn a_key_added_while_it_runs_is_queued_again() {
    let now = Instant::now();
    let mut queue = Queue::default();
    queue.add(&key("a"), "team");
    assert_eq!(queue.pop(now), Some(key("a")));
    queue.add(&key("a"), "team");
    assert_eq!(queue.pop(now), None, "not twice at the same time");
    queue.done(&key("a"), Some(after(now, 60)));
    assert_eq!(queue.pop(now), Some(key("a")));
    queue.done(&key("a"), None);
    assert_eq!(queue.pop(after(now, 60)), None);
    assert_no_trace(&queue);
}

/// Against a model of due and running keys.
#[tokio::test]
async fn no_key_is_lost_or_runs_twice_at_the_same_time() {
    let mut now = Instant::now();
    let mut queue = Queue::default();
    let mut due = BTreeSet::new();
    let mut running = Vec::new();
    for _ in 0..100_000 {
        let any = key(&fastrand::u8(..40).to_string());
        match fastrand::u8(..4) {
            0 => {
                queue.add(&any, ["one", "two", "three"][fastrand::usize(..3)]);
                due.insert(any);
            }
            1 => {
                if let Some(next) = queue.pop(now) {
                    assert!(!running.contains(&next), "{next} is running");
                    assert!(due.remove(&next), "{next} was not due");
                    running.push(next);
                }
            }
            2 if !running.is_empty() => {
                let done = running.swap_remove(fastrand::usize(..running.len()));
                let again = fastrand::bool().then(|| after(now, 1));
                if again.is_some() {
                    due.insert(done.clone());
                }
                queue.done(&done, again);
            }
            _ => now += Duration::from_millis(100),
        }
    }
    for done in running {
        queue.done(&done, None);
    }
    let rest: BTreeSet<Key> = work(&mut queue, after(now, 60))
        .iter()
        .map(|name| key(name))
        .collect();
    assert_eq!(rest, due);
    assert_no_trace(&queue);
}
