//! Walks the ruleset in JSON form in the order in which a packet passes it.

use super::Flow;
use serde_json::Value;
use std::net::IpAddr;

/// The hooks that a packet for this host passes, in order.
const HOOKS: [&str; 3] = ["ingress", "prerouting", "input"];
/// Deepest chain of jumps that is followed: the kernel's own limit (NFT_JUMP_STACK_SIZE).
const MOST_JUMPS: u32 = 16;

/// The fate of the packet at the end of a chain.
#[derive(Debug, PartialEq)]
enum Fate {
    /// It is certainly dropped, by this rule.
    Dropped(String),
    /// It is accepted: the rest of the base chain is skipped.
    Accepted,
    /// It goes on after the chain, as far as it has not been dropped or accepted.
    GoesOn,
    /// It does not go on after the chain: it is dropped, or an earlier rule with a condition that is not understood let
    /// it pass.
    Gone,
}

/// What a rule does with a packet.
enum Step {
    /// The next rule follows.
    Next,
    /// Like `Next`, but the packet may leave the chain here, under a condition that is not understood.
    MayLeave,
    /// The chain ends here.
    Ends(Fate),
}

/// The first rule that certainly drops the flow. If no rule does so: the first rule that may drop it, otherwise the
/// base chain whose policy drops it. `None` if nothing drops it. A rule or policy is certain only if no earlier rule may
/// let the flow pass.
pub(super) fn dropping(ruleset: &Value, flow: &Flow<'_>) -> Option<String> {
    let objects: Vec<&Value> = ruleset.get("nftables")?.as_array()?.iter().collect();
    let mut walk = Walk { objects: &objects, flow, maybe: None, accepted: None };
    let mut bases: Vec<(usize, i64, &Value)> = objects
        .iter()
        .filter_map(|object| {
            let chain = object.get("chain")?;
            let hook = HOOKS.iter().position(|hook| chain.get("hook").and_then(Value::as_str) == Some(hook))?;
            let is_family = [family(flow), "inet", "netdev"].contains(&chain.get("family")?.as_str()?);
            let device = chain.get("dev").is_none_or(|dev| names(dev).contains(&flow.interface));
            (is_family && device).then(|| (hook, chain.get("prio").and_then(Value::as_i64).unwrap_or(0), chain))
        })
        .collect();
    bases.sort_by_key(|(hook, priority, _)| (*hook, *priority));
    for (_, _, chain) in bases {
        // A rule that accepts the packet skips its own base chain only.
        walk.accepted = None;
        match walk.chain(chain, 0, None) {
            Fate::Dropped(by) => return Some(by),
            // If this base chain accepts the packet, the next base chain is evaluated.
            Fate::Accepted | Fate::Gone => {}
            Fate::GoesOn if chain.get("policy").and_then(Value::as_str) == Some("drop") => {
                let policy = format!("{} has the policy drop", place(chain));
                match walk.accepted.take() {
                    None => return walk.maybe.or(Some(policy)),
                    Some(doubt) => walk.may_drop(unless(&policy, &doubt)),
                }
            }
            Fate::GoesOn => {}
        }
    }
    walk.maybe
}

/// The family of the flow's packets in nft's words.
fn family(flow: &Flow<'_>) -> &'static str {
    if flow.destination.is_ipv6() { "ip6" } else { "ip" }
}

/// A description of what drops the packet, with the earlier rule that may let it pass.
fn unless(dropped_by: &str, doubt: &str) -> String {
    format!(
        "{dropped_by}, unless an earlier rule lets it pass, under a condition that is not understood here ({doubt})"
    )
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

/// The verdicts that a rule may have besides none.
const VERDICTS: [&str; 6] = ["drop", "reject", "accept", "return", "jump", "goto"];

struct Walk<'a> {
    objects: &'a [&'a Value],
    flow: &'a Flow<'a>,
    /// The first rule that may drop the packet.
    maybe: Option<String>,
    /// The first rule of this base chain that may accept the packet, under a condition that is not understood.
    accepted: Option<String>,
}

/// A rule whose conditions hold or may hold.
struct Rule<'a> {
    chain: &'a Value,
    handle: &'a Value,
    parts: &'a [Value],
    /// Whether its conditions certainly hold.
    sure: bool,
}

impl Rule<'_> {
    /// A description of what drops the packet if the rule's conditions hold.
    fn uncertain(&self, described: &str) -> String {
        format!("{described}, under a condition that is not understood here (handle {})", self.handle)
    }

    /// Names the rule in a doubt.
    fn doubt(&self) -> String {
        format!("chain {}, handle {}", text(self.chain, "name"), self.handle)
    }
}

impl Walk<'_> {
    fn may_drop(&mut self, described: String) {
        self.maybe.get_or_insert(described);
    }

    /// Evaluates a chain. `doubt`: an earlier rule of a calling chain by which the packet may not get here.
    fn chain(&mut self, chain: &Value, depth: u32, doubt: Option<&str>) -> Fate {
        let own = |rule: &&Value| {
            ["family", "table"].iter().all(|key| rule.get(key) == chain.get(key))
                && rule.get("chain") == chain.get("name")
        };
        let objects = self.objects;
        let rules = objects.iter().filter_map(|object| object.get("rule")).filter(own);
        // The first rule by which the packet may have left this chain.
        let mut left: Option<String> = None;
        for rule in rules {
            let Some(parts) = rule.get("expr").and_then(Value::as_array) else { continue };
            let conditions: Vec<Option<bool>> = parts.iter().filter_map(|part| self.holds(part)).collect();
            if conditions.contains(&Some(false)) {
                continue;
            }
            for (verdict, sure) in self.verdicts(parts, !conditions.contains(&None)) {
                let doubt = left.clone().or_else(|| doubt.map(str::to_owned)).or_else(|| self.accepted.clone());
                let rule = Rule { chain, handle: &rule["handle"], parts, sure };
                match self.verdict(&rule, &verdict, depth, doubt.as_deref()) {
                    Step::Next => {}
                    Step::MayLeave => {
                        left.get_or_insert_with(|| rule.doubt());
                    }
                    Step::Ends(fate) => {
                        let Some(left) = left else { return fate };
                        if fate == Fate::Accepted {
                            self.accepted.get_or_insert(left);
                        }
                        return Fate::GoesOn;
                    }
                }
            }
        }
        Fate::GoesOn
    }

    /// The verdicts of a rule whose conditions hold or may hold, each with whether it certainly applies.
    fn verdicts(&self, parts: &[Value], sure: bool) -> Vec<(Value, bool)> {
        let mut found = Vec::new();
        for part in parts {
            let Some(map) = part.get("vmap") else {
                if VERDICTS.iter().any(|verdict| part.get(verdict).is_some()) {
                    found.push((part.clone(), sure));
                }
                continue;
            };
            let own = map.get("key").and_then(|key| self.value(key));
            let Some(pairs) = map.get("data").and_then(|data| data.get("set")?.as_array()) else {
                // A named map: its elements are not looked up.
                found.extend(["drop", "accept"].map(|verdict| (serde_json::json!({ verdict: null }), false)));
                continue;
            };
            for pair in pairs.iter().filter_map(Value::as_array) {
                let [element, verdict] = pair.as_slice() else { continue };
                match own.as_ref().and_then(|own| equal(own, element)) {
                    Some(false) => {}
                    Some(true) => {
                        found.push((verdict.clone(), sure));
                        break;
                    }
                    None => found.push((verdict.clone(), false)),
                }
            }
        }
        found
    }

    /// What a verdict of a rule does. `doubt`: an earlier rule by which the packet may not get here.
    fn verdict(&mut self, rule: &Rule<'_>, verdict: &Value, depth: u32, doubt: Option<&str>) -> Step {
        let has = |name: &str| verdict.get(name).is_some();
        let to = |name: &str| verdict.get(name)?.get("target")?.as_str();
        if has("drop") || has("reject") {
            let what = if has("reject") { "rejects" } else { "drops" };
            let described = format!("{} {what} {}", place(rule.chain), described(rule.parts));
            return match doubt {
                _ if !rule.sure => {
                    self.may_drop(rule.uncertain(&described));
                    Step::Next
                }
                Some(doubt) => {
                    self.may_drop(unless(&described, doubt));
                    Step::Ends(Fate::Gone)
                }
                None => Step::Ends(Fate::Dropped(described)),
            };
        }
        if has("accept") {
            return self.called(rule, Fate::Accepted, false);
        }
        if has("return") {
            return if rule.sure { Step::Ends(Fate::GoesOn) } else { Step::MayLeave };
        }
        let (target, is_goto) = match (to("jump"), to("goto")) {
            (Some(target), _) => (target, false),
            (None, Some(target)) => (target, true),
            (None, None) => return Step::Next,
        };
        let objects = self.objects;
        let called = objects.iter().filter_map(|object| object.get("chain")).find(|other| {
            ["family", "table"].iter().all(|key| other.get(key) == rule.chain.get(key)) && text(other, "name") == target
        });
        let Some(called) = called else { return Step::Next };
        let fate = if depth < MOST_JUMPS { self.chain(called, depth + 1, doubt) } else { Fate::GoesOn };
        self.called(rule, fate, is_goto)
    }

    /// What a rule does whose chain ended with this fate.
    fn called(&mut self, rule: &Rule<'_>, fate: Fate, is_goto: bool) -> Step {
        match fate {
            Fate::GoesOn if !is_goto => Step::Next,
            fate if rule.sure => Step::Ends(fate),
            Fate::GoesOn => Step::MayLeave,
            Fate::Dropped(by) => {
                self.may_drop(rule.uncertain(&by));
                Step::Next
            }
            Fate::Accepted => {
                self.accepted.get_or_insert_with(|| rule.doubt());
                Step::Next
            }
            Fate::Gone => Step::Next,
        }
    }

    /// Whether a condition of a rule holds: `None` if the part is not a condition, `Some(None)` if this is not known.
    fn holds(&self, part: &Value) -> Option<Option<bool>> {
        if part.get("xt").is_some() || part.get("limit").is_some() {
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
                ("tcp" | "sctp" | "icmp" | "icmpv6", _) => Some(Value::Null),
                (other @ ("ip" | "ip6"), _) if other != family(flow) => Some(Value::Null),
                ("ip" | "ip6", "daddr") => Some(flow.destination.to_string().into()),
                ("ip" | "ip6", "saddr") => flow.source.map(|source| source.to_string().into()),
                ("ip", "protocol") | ("ip6", "nexthdr") => Some("udp".into()),
                _ => None,
            };
        }
        if let Some(meta) = left.get("meta") {
            return match text(meta, "key") {
                "iifname" | "iif" => Some(flow.interface.into()),
                "l4proto" => Some("udp".into()),
                "nfproto" => Some(if flow.destination.is_ipv6() { "ipv6" } else { "ipv4" }.into()),
                "protocol" => Some(family(flow).into()),
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
            let width = if own.as_str().is_some_and(|own| own.contains(':')) { 128 } else { 32 };
            let bits = u32::try_from(prefix.get("len")?.as_u64()?).ok().filter(|bits| *bits <= width)?;
            let mask = u128::MAX.checked_shl(width - bits).unwrap_or(0);
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
fn ordinal(value: &Value) -> Option<u128> {
    match value {
        Value::String(text) => match text.parse().ok()? {
            IpAddr::V4(address) => Some(address.to_bits().into()),
            IpAddr::V6(address) => Some(address.to_bits()),
        },
        value => value.as_u64().map(u128::from),
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
            if let Some(map) = part.get("vmap") {
                return Some(format!("{} vmap", side(map.get("key")?)));
            }
            let condition = part.get("match")?;
            let not = if text(condition, "op") == "!=" { "!= " } else { "" };
            Some(format!("{} {not}{}", side(condition.get("left")?), side(condition.get("right")?)))
        })
        .collect();
    if conditions.is_empty() { "everything".to_owned() } else { conditions.join(" ") }
}

#[cfg(test)]
mod tests;
