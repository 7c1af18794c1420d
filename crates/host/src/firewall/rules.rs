//! Walks the ruleset in JSON form in the order in which a packet passes it.

use super::Flow;
use serde_json::Value;
use std::net::Ipv4Addr;

/// The hooks that a packet for this host passes, in order.
const HOOKS: [&str; 3] = ["ingress", "prerouting", "input"];
/// Deepest chain of jumps that is followed: the kernel's own limit (NFT_JUMP_STACK_SIZE).
const MOST_JUMPS: u32 = 16;

/// The fate of the packet at the end of a chain.
#[derive(Debug, PartialEq)]
enum Fate {
    Dropped(String),
    Accepted,
    GoesOn,
}

/// The first rule that certainly drops the flow. If no rule does so: the first rule that may drop it, otherwise the
/// base chain whose policy drops it. `None` if nothing drops it.
pub(super) fn dropping(ruleset: &Value, flow: &Flow<'_>) -> Option<String> {
    let objects: Vec<&Value> = ruleset.get("nftables")?.as_array()?.iter().collect();
    let mut walk = Walk { objects: &objects, flow, maybe: None };
    let mut bases: Vec<(usize, i64, &Value)> = objects
        .iter()
        .filter_map(|object| {
            let chain = object.get("chain")?;
            let hook = HOOKS.iter().position(|hook| chain.get("hook").and_then(Value::as_str) == Some(hook))?;
            let is_family = ["ip", "inet", "netdev"].contains(&chain.get("family")?.as_str()?);
            let device = chain.get("dev").is_none_or(|dev| names(dev).contains(&flow.interface));
            (is_family && device).then(|| (hook, chain.get("prio").and_then(Value::as_i64).unwrap_or(0), chain))
        })
        .collect();
    bases.sort_by_key(|(hook, priority, _)| (*hook, *priority));
    for (_, _, chain) in bases {
        match walk.chain(chain, 0) {
            Fate::Dropped(by) => return Some(by),
            // This base chain accepts the packet; the next base chain is evaluated.
            Fate::Accepted => {}
            Fate::GoesOn if chain.get("policy").and_then(Value::as_str) == Some("drop") => {
                return walk.maybe.or_else(|| Some(format!("{} has the policy drop", place(chain))));
            }
            Fate::GoesOn => {}
        }
    }
    walk.maybe
}

/// The names in a JSON value that is one name or a list of names.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn place(chain: &Value) -> String {
    format!("nft: table {} {}, chain {}", text(chain, "family"), text(chain, "table"), text(chain, "name"))
}

struct Walk<'a> {
    objects: &'a [&'a Value],
    flow: &'a Flow<'a>,
    maybe: Option<String>,
}

impl Walk<'_> {
    fn chain(&mut self, chain: &Value, depth: u32) -> Fate {
        let own = |rule: &&Value| {
            ["family", "table"].iter().all(|key| rule.get(key) == chain.get(key))
                && rule.get("chain") == chain.get("name")
        };
        let objects = self.objects;
        let rules = objects.iter().filter_map(|object| object.get("rule")).filter(own);
        for rule in rules {
            let Some(parts) = rule.get("expr").and_then(Value::as_array) else { continue };
            let conditions: Vec<Option<bool>> = parts.iter().filter_map(|part| self.holds(part)).collect();
            if conditions.contains(&Some(false)) {
                continue;
            }
            let sure = !conditions.contains(&None);
            match self.verdict(chain, rule, parts, sure, depth) {
                Some(Fate::GoesOn) => return Fate::GoesOn,
                Some(fate) => return fate,
                None => {}
            }
        }
        Fate::GoesOn
    }

    /// The verdict of a rule whose conditions hold or may hold. `None` if the rule has no verdict, or does not
    /// certainly decide: the next rule follows.
    fn verdict(&mut self, chain: &Value, rule: &Value, parts: &[Value], sure: bool, depth: u32) -> Option<Fate> {
        let has = |name: &str| parts.iter().any(|part| part.get(name).is_some());
        let to = |name: &str| parts.iter().find_map(|part| part.get(name)?.get("target")?.as_str());
        if has("drop") || has("reject") {
            let what = if has("reject") { "rejects" } else { "drops" };
            let described = format!("{} {what} {}", place(chain), described(parts));
            if sure {
                return Some(Fate::Dropped(described));
            }
            let unknown =
                format!("{described}, under a condition that is not understood here (handle {})", rule["handle"]);
            self.maybe.get_or_insert(unknown);
            return None;
        }
        if has("accept") {
            return sure.then_some(Fate::Accepted);
        }
        if has("return") {
            return sure.then_some(Fate::GoesOn);
        }
        let (target, is_goto) = match (to("jump"), to("goto")) {
            (Some(target), _) => (target, false),
            (None, Some(target)) => (target, true),
            (None, None) => return None,
        };
        let called = self.objects.iter().filter_map(|object| object.get("chain")).find(|other| {
            ["family", "table"].iter().all(|key| other.get(key) == chain.get(key)) && text(other, "name") == target
        })?;
        let fate = if depth < MOST_JUMPS { self.chain(called, depth + 1) } else { Fate::GoesOn };
        match fate {
            Fate::GoesOn => (is_goto && sure).then_some(Fate::GoesOn),
            Fate::Dropped(by) if !sure => {
                self.maybe.get_or_insert(by);
                None
            }
            fate => sure.then_some(fate),
        }
    }

    /// Whether a condition of a rule holds: `None` if the part is not a condition, `Some(None)` if this is not known.
    fn holds(&self, part: &Value) -> Option<Option<bool>> {
        if part.get("xt").is_some() || part.get("limit").is_some() || part.get("vmap").is_some() {
            return Some(None);
        }
        let condition = part.get("match")?;
        let (left, right) = (condition.get("left")?, condition.get("right")?);
        let holds = self.value(left).and_then(|own| equal(&own, right));
        Some(match text(condition, "op") {
            "==" | "in" => holds,
            "!=" => holds.map(|holds| !holds),
            _ => None,
        })
    }

    /// The packet's value of the field on the left side of a condition; `None` if the field is not understood.
    fn value(&self, left: &Value) -> Option<Value> {
        let flow = self.flow;
        if let Some(payload) = left.get("payload") {
            return match (text(payload, "protocol"), text(payload, "field")) {
                ("udp" | "th", "dport") => Some(flow.destination_port.into()),
                ("udp" | "th", "sport") => Some(flow.source_port.into()),
                ("tcp" | "sctp" | "icmp" | "ip6" | "icmpv6", _) => Some(Value::Null),
                ("ip", "daddr") => Some(flow.destination.to_string().into()),
                ("ip", "saddr") => flow.source.map(|source| source.to_string().into()),
                ("ip", "protocol") => Some("udp".into()),
                _ => None,
            };
        }
        if let Some(meta) = left.get("meta") {
            return match text(meta, "key") {
                "iifname" | "iif" => Some(flow.interface.into()),
                "l4proto" => Some("udp".into()),
                "nfproto" => Some("ipv4".into()),
                "protocol" => Some("ip".into()),
                _ => None,
            };
        }
        // The flow gets no replies, so connection tracking sees each packet in state `new`.
        (text(left.get("ct")?, "key") == "state").then(|| "new".into())
    }
}

/// Whether the packet's value matches the right side of a condition; `None` if the right side is not understood.
fn equal(own: &Value, right: &Value) -> Option<bool> {
    if own.is_null() {
        return Some(false);
    }
    let any = |all: &Vec<Value>| {
        let each: Vec<Option<bool>> = all.iter().map(|one| equal(own, one)).collect();
        if each.contains(&Some(true)) {
            Some(true)
        } else if each.contains(&None) {
            None
        } else {
            Some(false)
        }
    };
    match right {
        Value::Array(all) => any(all),
        Value::Object(_) => {
            if let Some(all) = right.get("set").and_then(Value::as_array) {
                return any(all);
            }
            if let Some([from, to]) = right.get("range").and_then(Value::as_array).map(Vec::as_slice) {
                return Some(ordinal(own)? >= ordinal(from)? && ordinal(own)? <= ordinal(to)?);
            }
            let prefix = right.get("prefix")?;
            let bits = u32::try_from(prefix.get("len")?.as_u64()?).ok().filter(|bits| *bits <= 32)?;
            let mask = u64::from(u32::MAX.checked_shl(32 - bits).unwrap_or(0));
            Some(ordinal(own)? & mask == ordinal(prefix.get("addr")?)? & mask)
        }
        // A named set: its elements are not looked up.
        Value::String(name) if name.starts_with('@') => None,
        Value::String(name) => match (own.as_str()?, name.strip_suffix('*')) {
            (own, Some(start)) => Some(own.starts_with(start)),
            (own, None) => Some(own == name),
        },
        right => Some(own == right),
    }
}

/// A JSON number or an address, as an integer for comparison of ranges.
fn ordinal(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse::<Ipv4Addr>().ok().map(|address| u64::from(u32::from(address))),
        value => value.as_u64(),
    }
}

/// The conditions of a rule in roughly nft's syntax.
fn described(parts: &[Value]) -> String {
    let side = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Object(_) => {
            let named = [("payload", "protocol", "field"), ("meta", "", "key"), ("ct", "", "key")];
            let known = named.iter().find_map(|(kind, first, second)| {
                let value = value.get(kind)?;
                let first = value.get(first).and_then(Value::as_str).unwrap_or(if *kind == "ct" { "ct" } else { "" });
                Some(format!("{first} {}", text(value, second)).trim().to_owned())
            });
            known.unwrap_or_else(|| value.to_string())
        }
        value => value.to_string(),
    };
    let conditions: Vec<String> = parts
        .iter()
        .filter_map(|part| {
            let condition = part.get("match")?;
            let not = if text(condition, "op") == "!=" { "!= " } else { "" };
            Some(format!("{} {not}{}", side(condition.get("left")?), side(condition.get("right")?)))
        })
        .collect();
    if conditions.is_empty() { "everything".to_owned() } else { conditions.join(" ") }
}

#[cfg(test)]
mod tests;
