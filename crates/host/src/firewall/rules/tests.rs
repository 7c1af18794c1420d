use super::*;
use serde_json::json;

fn flow() -> Flow<'static> {
    Flow {
        interface: "eth0",
        source: Some(Ipv4Addr::new(10, 99, 0, 2)),
        destination: Ipv4Addr::new(10, 99, 0, 1),
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
    // Another family, another device.
    let six = found(vec![chain("ip6", "input", Some("input"), "drop")]);
    let mut other = chain("netdev", "in", Some("ingress"), "drop");
    other["chain"]["dev"] = "eth1".into();
    assert_eq!((six, found(vec![other.clone()])), (None, None));
    other["chain"]["dev"] = json!(["eth0", "eth1"]);
    assert!(found(vec![other]).is_some());
    assert_eq!(found(Vec::new()), None);
}
