//! Reads a plan from a file: [`Plan::from_json`]. The author of the file may be another user than the one who applies
//! the plan.

use super::{Plan, Step};
use netcliff_core::quote::one_line;

impl Plan {
    /// Parses the output of `netcliff tune plan --json`. The setting alone defines a step: name and command are derived
    /// from it again, whatever the file contains; reasons and notes are taken from the file, each on one line.
    ///
    /// # Errors
    /// The text is no plan, or a step changes a setting that netcliff does not change. The error names the step and the
    /// reason.
    pub fn from_json(text: &str) -> Result<Plan, String> {
        let mut plan: Plan = serde_json::from_str(text)
            .map_err(|error| format!("{error}; expected what `netcliff tune plan --json` prints"))?;
        for (place, step) in plan.steps.iter_mut().enumerate() {
            let proposal = &step.proposal;
            for value in [&proposal.old, &proposal.new] {
                step.setting.check(value).map_err(|why| format!("step {}: {why}: it is not applied", place + 1))?;
            }
            let line = |text: &String| one_line(text).into_owned();
            let (reason, source) = (line(&proposal.reason), line(&proposal.source));
            let effect = proposal.effect.as_ref().map(line);
            *step = Step::new(step.setting.clone(), &proposal.old, &proposal.new, &reason, &source);
            step.proposal.effect = effect;
        }
        plan.notes.iter_mut().for_each(|note| *note = one_line(note).into_owned());
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        setting::Setting,
        tune::plan::{Machine, Objective},
    };

    fn plan(setting: Setting) -> Plan {
        let steps = vec![Step::new(setting, "300", "600", "a reason", "a source")];
        Plan { objective: Objective::Latency, machine: Machine::default(), steps, notes: Vec::new() }
    }

    #[test]
    fn a_plan_comes_back_as_it_was_written() {
        let plan = plan(Setting::sysctl("net.core.netdev_budget"));
        assert_eq!(Plan::from_json(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    }

    #[test]
    fn what_a_step_is_called_is_not_for_the_file_to_say() {
        let mut disguised = plan(Setting::sysctl("net.core.netdev_budget"));
        let proposal = &mut disguised.steps[0].proposal;
        proposal.name = "net.core.rmem_max".to_owned();
        proposal.command = "sysctl -w net.core.rmem_max=600".to_owned();
        proposal.reason = "x\nid > PWN".to_owned();
        let read = Plan::from_json(&serde_json::to_string(&disguised).unwrap()).unwrap();
        let proposal = &read.steps[0].proposal;
        assert_eq!(proposal.name, "net.core.netdev_budget");
        assert_eq!(proposal.command, "sysctl -w net.core.netdev_budget=600");
        assert_eq!(proposal.reason, "x\u{fffd}id > PWN");
    }

    #[test]
    fn a_plan_sets_what_netcliff_sets_and_nothing_else() {
        for setting in [Setting::sysctl("kernel.core_pattern"), Setting::file("/sys/power/state")] {
            let told = Plan::from_json(&serde_json::to_string(&plan(setting)).unwrap()).unwrap_err();
            assert!(told.contains("step 1: ") && told.contains("not applied"), "{told}");
        }
    }
}
