use super::*;
use serde_json::json;

fn flow() -> Flow<'static> {
    Flow {
        interface: "eth0",
        source: Some([10, 99, 0, 2].into()),
        destination: [10, 99, 0, 1].into(),
        source_port: 9001,
        destination_port: 9000,
    }
}

fn chain(family: &str, name: &str, hook: Option<&str>, policy: &str) -> Value {
    let mut chain = json!({"family": family, "table": "filter", "name": name, "handle": 1});
    if let Some(hook) = hook {
        chain["hook"] = hook.into();
        chain["prio"] = 0.into();
        chain["policy"] = policy.into();
    }
    json!({ "chain": chain })
}

fn rule(family: &str, chain: &str, expr: Value) -> Value {
    json!({"rule": {"family": family, "table": "filter", "chain": chain, "handle": 4, "expr": expr}})
}

fn udp(field: &str, right: impl Into<Value>) -> Value {
    json!({"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": field}}, "right": right.into()}})
}

fn drop() -> Value {
    json!({"drop": null})
}

fn found(objects: Vec<Value>) -> Option<String> {
    dropping(&json!({ "nftables": objects }), &flow())
}

#[test]
fn the_rule_that_drops_is_named() {
    let input = || chain("inet", "input", Some("input"), "accept");
    let one = |expr: Value| found(vec![input(), rule("inet", "input", expr)]);
    let named = one(json!([udp("dport", 9000), {"counter": {"packets": 1}}, drop()]));
    assert_eq!(named.as_deref(), Some("nft: table inet filter, chain input drops udp dport 9000"));
    let rejects = one(json!([udp("dport", json!({"range": [8000, 10000]})), {"reject": null}])).expect("within");
    assert!(rejects.starts_with("nft: table inet filter, chain input rejects udp dport"), "{rejects}");
    for (expr, drops) in [
        (json!([udp("dport", 9001), drop()]), false),
        (json!([udp("dport", json!({"set": [53, 9000]})), drop()]), true),
        (json!([udp("dport", json!({"set": [53, {"range": [1, 80]}]})), drop()]), false),
        (json!([{"match": {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "eth1"}}, drop()]), true),
        (json!([{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "et*"}}, drop()]), true),
        (
            json!([{"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}}, drop()]),
            false,
        ),
        (
            json!([{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 9000}}, drop()]),
            false,
        ),
        (
            json!([{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}},
                "right": {"prefix": {"addr": "10.99.0.0", "len": 24}}}}, drop()]),
            true,
        ),
        (json!([drop()]), true),
        (json!([udp("dport", 9000), {"accept": null}]), false),
    ] {
        assert_eq!(one(expr.clone()).is_some(), drops, "{expr}");
    }
}

#[test]
fn rules_of_the_other_family_drop_nothing() {
    let to = "2001:2::1".parse().expect("an address");
    let six = Flow { source: None, destination: to, ..flow() };
    let drops = |family: &str, expr: Value, flow: &Flow<'_>| {
        let objects = [chain(family, "input", Some("input"), "accept"), rule(family, "input", expr)];
        dropping(&json!({ "nftables": objects }), flow).is_some()
    };
    let to = |protocol: &str, right: Value| {
        let left = json!({"payload": {"protocol": protocol, "field": "daddr"}});
        json!([{"match": {"op": "==", "left": left, "right": right}}, drop()])
    };
    let prefix = |address: &str, len: u32| json!({"prefix": {"addr": address, "len": len}});
    for (family, expr, dropped) in [
        ("ip", json!([drop()]), [true, false]),
        ("ip6", json!([drop()]), [false, true]),
        ("inet", to("ip6", "2001:2::1".into()), [false, true]),
        ("inet", to("ip6", prefix("2001:2::", 48)), [false, true]),
        ("inet", to("ip6", prefix("2001:3::", 48)), [false, false]),
        ("inet", to("ip6", prefix("::", 0)), [false, true]),
        ("inet", to("ip", prefix("10.99.0.0", 24)), [true, false]),
    ] {
        assert_eq!([&flow(), &six].map(|flow| drops(family, expr.clone(), flow)), dropped, "{family} {expr}");
    }
}

#[test]
fn policies_jumps_and_what_is_not_understood() {
    let closed = || chain("ip", "input", Some("input"), "drop");
    assert_eq!(found(vec![closed()]).as_deref(), Some("nft: table ip filter, chain input has the policy drop"));
    let open = rule("ip", "input", json!([udp("dport", 9000), {"accept": null}]));
    assert_eq!(found(vec![closed(), open]), None);
    let jump = rule("ip", "input", json!([{"jump": {"target": "test"}}]));
    let test = chain("ip", "test", None, "");
    let deep =
        found(vec![closed(), jump.clone(), test.clone(), rule("ip", "test", json!([udp("sport", 9001), drop()]))]);
    assert_eq!(deep.as_deref(), Some("nft: table ip filter, chain test drops udp sport 9001"));
    let accepted = rule("ip", "test", json!([{"accept": null}]));
    assert_eq!(found(vec![closed(), jump, test, accepted]), None);
    // A condition with a named set or a limit: the rule may drop the flow.
    let open = || chain("ip", "input", Some("input"), "accept");
    let named = found(vec![open(), rule("ip", "input", json!([udp("dport", "@ports"), drop()]))]).expect("it may");
    assert!(
        named.contains("drops udp dport @ports, under a condition that is not understood here (handle 4)"),
        "{named}"
    );
    let jump = rule("ip", "input", json!([udp("dport", "@ports"), {"jump": {"target": "test"}}]));
    let test = || [chain("ip", "test", None, ""), rule("ip", "test", json!([drop()]))];
    let jumped = found([&[open(), jump][..], &test()[..]].concat()).expect("it may");
    assert!(jumped.contains("chain test drops everything, under a condition that is not understood"), "{jumped}");
    // Another family, another device.
    let six = found(vec![chain("ip6", "input", Some("input"), "drop")]);
    let mut other = chain("netdev", "in", Some("ingress"), "drop");
    other["chain"]["dev"] = "eth1".into();
    assert_eq!((six, found(vec![other.clone()])), (None, None));
    other["chain"]["dev"] = json!(["eth0", "eth1"]);
    assert!(found(vec![other]).is_some());
    assert_eq!(found(Vec::new()), None);
}

/// What drops the packet is certain only if no earlier rule may let it pass.
#[test]
fn a_rule_that_may_let_the_packet_pass_makes_later_ones_uncertain() {
    let base = |policy| chain("ip", "input", Some("input"), policy);
    let own = |expr: Value| rule("ip", "input", expr);
    let sub = |expr: Value| rule("ip", "test", expr);
    let to = |verdict: &str| json!({ verdict: {"target": "test"} });
    let (accept, back, maybe) = (json!({"accept": null}), json!({"return": null}), udp("dport", "@ports"));
    let test = chain("ip", "test", None, "");
    let vmap = |data: Value| json!({"vmap": {"key": {"ct": {"key": "state"}}, "data": data}});
    let set = |verdicts: &[(&str, &Value)]| {
        let pairs: Vec<Value> = verdicts.iter().map(|(state, verdict)| json!([state, verdict])).collect();
        json!({ "set": pairs })
    };
    let all = own(json!([drop()]));
    let policy = "chain input has the policy drop";
    let rule_drops = "chain input drops everything";
    for (objects, by, sure) in [
        // Accepting before a policy, and before a rule.
        (vec![base("drop"), own(json!([maybe, accept]))], policy, false),
        (vec![base("accept"), own(json!([maybe, accept])), all.clone()], rule_drops, false),
        (vec![base("drop"), own(json!([{"xt": {"type": "match", "name": "owner"}}, accept]))], policy, false),
        (vec![base("drop"), own(json!([maybe, to("jump")])), test.clone(), sub(json!([accept]))], policy, false),
        (vec![base("drop"), own(json!([to("jump")])), test.clone(), sub(json!([maybe, accept]))], policy, false),
        (vec![base("drop"), own(json!([maybe, to("goto")])), test.clone(), sub(json!([accept]))], policy, false),
        // A return from a chain skips the rest of this chain only: a return from the base chain leads to its policy.
        (vec![base("drop"), own(json!([maybe, back])), own(json!([accept]))], policy, false),
        (vec![base("accept"), own(json!([maybe, back])), all.clone()], rule_drops, false),
        (vec![base("accept"), own(json!([maybe, to("goto")])), all.clone(), test.clone()], rule_drops, false),
        (
            vec![base("accept"), own(json!([to("jump")])), all.clone(), test.clone(), sub(json!([maybe, back]))],
            rule_drops,
            true,
        ),
        (
            vec![
                base("accept"),
                own(json!([to("jump")])),
                test.clone(),
                sub(json!([maybe, back])),
                sub(json!([drop()])),
            ],
            "chain test drops everything",
            false,
        ),
        (
            vec![
                base("accept"),
                own(json!([maybe, back])),
                own(json!([to("jump")])),
                test.clone(),
                sub(json!([drop()])),
            ],
            "chain test drops everything",
            false,
        ),
        // Maps of verdicts: the packet is the first of its flow.
        (vec![base("drop"), own(json!([vmap(set(&[("established", &accept), ("invalid", &drop())]))]))], policy, true),
        (vec![base("drop"), own(json!([vmap(json!("@states"))]))], "chain input drops ct state vmap", false),
        (vec![base("accept"), own(json!([vmap(set(&[("new", &drop())]))]))], "chain input drops ct state vmap", true),
    ] {
        let named = found(objects.clone()).unwrap_or_else(|| panic!("nothing drops it: {objects:?}"));
        assert!(named.contains(by), "{by}: {named}: {objects:?}");
        assert_eq!(!named.contains("not understood here"), sure, "{named}: {objects:?}");
    }
    let accepted = own(json!([vmap(set(&[("established", &drop()), ("new", &accept)]))]));
    assert_eq!(found(vec![base("drop"), accepted]), None);
    // The next base chain drops the packet, whether this one accepts it or not.
    let mut later = chain("ip", "later", Some("input"), "drop");
    later["chain"]["prio"] = 10.into();
    let named = found(vec![base("accept"), own(json!([maybe, accept])), later]);
    assert_eq!(named.as_deref(), Some("nft: table ip filter, chain later has the policy drop"));
}
