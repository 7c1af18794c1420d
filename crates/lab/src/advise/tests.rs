use netcliff_core::advice::{Candidate, CandidateStatus, Standing};
use netcliff_core::{EngineKind, Measure};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::fake::{Fake, Noted};
use super::*;

fn question(fake: &Fake, goal: &str, constraints: &[&str]) -> Question {
    Question {
        host: Host::preset("pentium4-2530mhz").unwrap(),
        traffic: Traffic::default(),
        load: Load::Pps(100e3),
        goal: goal.parse().unwrap(),
        constraints: constraints.iter().map(|text| text.parse().unwrap()).collect(),
        candidates: fake.truths.keys().map(|name| name.parse().unwrap()).collect(),
        settings: Settings::default(),
    }
}

fn ask(fake: &Fake, question: &Question) -> Result<Advice, AdviseError> {
    advise(question, fake, fake, &mut Noted::default())
}

fn of<'a>(advice: &'a Advice, name: &str) -> &'a Candidate {
    advice.candidate(&name.parse().unwrap()).unwrap()
}

fn texts(schemes: &[Scheme]) -> Vec<String> {
    schemes.iter().map(ToString::to_string).collect()
}

const WEIGHTS: [&str; 4] = [
    "napi:weight=4,budget=300,budget_time=2ms",
    "napi:weight=16,budget=300,budget_time=2ms",
    "napi:weight=64,budget=300,budget_time=2ms",
    "napi:weight=256,budget=300,budget_time=2ms",
];

/// Four settings: the first is fastest but leaves too little CPU, the second is the best of the rest, the third is
/// close to the second, and the last is far behind.
fn four() -> Fake {
    Fake::new(&[
        (WEIGHTS[0], 10e-6, 0.20, 0.0),
        (WEIGHTS[1], 20e-6, 0.40, 0.0),
        (WEIGHTS[2], 22e-6, 0.45, 0.0),
        (WEIGHTS[3], 90e-6, 0.60, 0.0),
    ])
}

#[test]
fn the_best_that_keeps_the_constraints_is_picked() {
    let advice = ask(&four(), &question(&four(), "minimise p99", &["available>=30%", "loss<=1e-4"])).unwrap();
    assert_eq!((advice.verdict, texts(&advice.advised)), (Verdict::Picked, vec![WEIGHTS[1].to_owned()]));
    let pick = advice.pick().unwrap();
    assert_eq!((pick.fate, pick.engine), (CandidateStatus::Picked, Some(EngineKind::Sim)));
    assert!(pick.constraints.iter().all(|judged| judged.standing == Standing::Met));
    assert!(pick.figure("latency_p99_s".parse::<Measure>().unwrap()).unwrap().covers(20e-6));
    assert_eq!(of(&advice, WEIGHTS[0]).fate, CandidateStatus::Infeasible);
    // The model drops two settings: 20 % CPU left is a third below 30 %, and 90 us is more than a quarter above 20 us.
    assert_eq!(of(&advice, WEIGHTS[0]).replications + of(&advice, WEIGHTS[3]).replications, 0);
    assert_eq!(
        (of(&advice, WEIGHTS[2]).fate, of(&advice, WEIGHTS[3]).fate),
        (CandidateStatus::Worse, CandidateStatus::Worse)
    );
    assert!(of(&advice, WEIGHTS[3]).front, "the most CPU left is on the front though screened");
    assert_eq!(advice.candidates[0].scheme, advice.advised[0]);
    assert!((advice.indifference.unwrap() / (0.02 * 20e-6) - 1.0).abs() < 0.1);
}

#[test]
fn what_has_no_formula_is_simulated() {
    let mut fake = four();
    fake.no_paper = WEIGHTS.iter().map(|name| (*name).to_owned()).collect();
    let advice = ask(&fake, &question(&fake, "maximise available", &["p99<=50us"])).unwrap();
    assert_eq!(texts(&advice.advised), [WEIGHTS[2]]);
    assert!(advice.candidates.iter().all(|candidate| candidate.replications >= 5));
    assert_eq!(of(&advice, WEIGHTS[3]).constraints[0].standing, Standing::Missed);
}

#[test]
fn a_margin_of_nothing_keeps_only_the_best_on_paper() {
    let fake = four();
    let mut question = question(&fake, "minimise p99", &[]);
    question.settings.margin = 0.0;
    let advice = ask(&fake, &question).unwrap();
    assert_eq!(advice.candidates.iter().filter(|candidate| candidate.replications > 0).count(), 1);
    question.settings.margin = 10.0;
    let advice = ask(&fake, &question).unwrap();
    assert_eq!(advice.candidates.iter().filter(|candidate| candidate.replications > 0).count(), 4);
    assert_eq!(texts(&advice.advised), [WEIGHTS[0]]);
}

#[test]
fn when_nothing_is_feasible_the_closest_is_named() {
    let fake = four();
    let advice = ask(&fake, &question(&fake, "minimise p99", &["available>=70%"])).unwrap();
    assert_eq!((advice.verdict, texts(&advice.advised)), (Verdict::NoneFeasible, vec![WEIGHTS[3].to_owned()]));
    assert!(advice.pick().is_none());
    let by_model = ask(&fake, &question(&fake, "minimise p99", &["p99<=1us"])).unwrap();
    assert_eq!((by_model.packets, texts(&by_model.advised)), (0, vec![WEIGHTS[0].to_owned()]));
}

#[test]
fn packets_that_do_not_decide_name_those_in_contention() {
    let fake =
        Fake::new(&[(WEIGHTS[0], 20e-6, 0.2, 0.0), (WEIGHTS[1], 20.01e-6, 0.2, 0.0), (WEIGHTS[2], 24e-6, 0.2, 0.0)]);
    let mut question = question(&fake, "minimise p99", &[]);
    question.settings.indifference = Indifference::Absolute(1e-9);
    question.settings.packets_at_most = 30 * 3 * 50_000;
    let advice = ask(&fake, &question).unwrap();
    let mut between = texts(&advice.advised);
    between.sort();
    assert_eq!((advice.verdict, between), (Verdict::NotDecided, vec![WEIGHTS[1].to_owned(), WEIGHTS[0].to_owned()]));
    assert!(advice.packets <= question.settings.packets_at_most);
    question.settings.packets_at_most = 59 * 50_000;
    let error = ask(&fake, &question).unwrap_err().to_string();
    assert!(error.contains("2950000 packets") && error.contains("3000000"), "{error}");
}

#[test]
fn a_bound_within_the_noise_is_not_decided() {
    // Its CPU left is 30 % with a deviation of 5 % of that, so no permitted number of replications tells it from the
    // bound.
    let fake = Fake::new(&[(WEIGHTS[0], 20e-6, 0.3, 0.0), (WEIGHTS[1], 30e-6, 0.5, 0.0)]);
    let mut question = question(&fake, "minimise p99", &["available>=30%"]);
    question.settings.margin = 1.0;
    let advice = ask(&fake, &question).unwrap();
    assert_eq!((advice.verdict, texts(&advice.advised)), (Verdict::Picked, vec![WEIGHTS[1].to_owned()]));
    assert_eq!(of(&advice, WEIGHTS[0]).fate, CandidateStatus::Contends);
    assert!(
        advice.notes.iter().any(|note| note.contains(WEIGHTS[0]) && note.contains("not decided")),
        "{:?}",
        advice.notes
    );
    question.candidates.remove(0);
    question.candidates = vec![WEIGHTS[0].parse().unwrap()];
    let alone = ask(&fake, &question).unwrap();
    assert_eq!((alone.verdict, texts(&alone.advised)), (Verdict::NotDecided, vec![WEIGHTS[0].to_owned()]));
}

#[test]
fn settings_alike_are_named() {
    let fake =
        Fake::new(&[(WEIGHTS[0], 20e-6, 0.2, 0.0), (WEIGHTS[1], 20e-6, 0.2, 0.0), (WEIGHTS[2], 24e-6, 0.2, 0.0)]);
    let mut question = question(&fake, "minimise p99", &[]);
    question.settings.indifference = Indifference::Share(0.1);
    let advice = ask(&fake, &question).unwrap();
    let mut named = [texts(&advice.advised), texts(&advice.alike)].concat();
    named.sort();
    assert_eq!(named, [WEIGHTS[1], WEIGHTS[0]]);
}

#[test]
fn what_cannot_be_is_an_error_with_its_values() {
    let fake = four();
    let says = |constraints: &[&str], parts: &[&str]| {
        let error = ask(&fake, &question(&fake, "minimise p99", constraints)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    says(&["loss>=2%", "loss<=1%"], &["loss_fraction>=2%", "loss_fraction<=1%", "exclude"]);
    says(&["throughput>=200kpps"], &["throughput_pps>=200kpps", "100kpps"]);
    says(&["goodput>=1Gbit/s"], &["goodput_bps>=1Gbit/s", "100kpps"]);
    let mut none = question(&fake, "minimise p99", &[]);
    none.candidates.clear();
    assert!(matches!(ask(&fake, &none), Err(AdviseError::NoCandidate)));
    let mut fake = four();
    (fake.no_paper, fake.no_sim) = (fake.truths.keys().cloned().collect(), fake.truths.keys().cloned().collect());
    let error = ask(&fake, &question(&fake, "minimise p99", &[])).unwrap_err().to_string();
    assert!(error.contains("none of the 4") && error.contains("not built"), "{error}");
    fake.no_sim.pop();
    let advice = ask(&fake, &question(&fake, "minimise p99", &[])).unwrap();
    assert_eq!(advice.verdict, Verdict::Picked);
    assert_eq!(advice.candidates.iter().filter(|one| one.fate == CandidateStatus::Unanswered).count(), 3);
}

/// The whole procedure, with screening and constraint, is wrong at most as often as promised: the number of wrong picks
/// in 400 runs is below the limit that 5 % wrong picks exceed once in a thousand times. Seeds 0 to 399.
#[test]
fn the_whole_procedure_keeps_its_promise() {
    let mut wrong = 0;
    for seed in 0..400 {
        let mut fake = Fake::new(&[
            (WEIGHTS[0], 19e-6, 0.29, 0.0),
            (WEIGHTS[1], 20e-6, 0.40, 0.0),
            (WEIGHTS[2], 20.4e-6, 0.40, 0.0),
            (WEIGHTS[3], 20.4e-6, 0.40, 0.0),
        ]);
        fake.seed = seed;
        let mut question = question(&fake, "minimise p99", &["available>=30%"]);
        question.settings.indifference = Indifference::Absolute(0.4e-6);
        question.settings.first_stage = 10;
        let advice = ask(&fake, &question).unwrap();
        wrong += u64::from(texts(&advice.advised) != [WEIGHTS[1]]);
    }
    let bound = Binomial::new(0.05, 400).unwrap().inverse_cdf(0.999);
    assert!(wrong <= bound, "{wrong} of 400 wrong, more than {bound}");
}
