"""Hosts, schemes, traffic: reading, refusing, pickles, reprs."""

from __future__ import annotations

import pickle
import subprocess

import netcliff
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netcliff import Host, Scheme, Traffic, UsageError

VALUES = [
    Host(),
    Host(application="2us", ring=64, service="lognormal:cv=0.5"),
    Scheme("napi:weight=32"),
    Scheme("polling", period="20us", quota=3),
    Traffic("120kpps"),
    Traffic("40%", size="imix", arrivals="constant", link="10Gbit/s"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_survives_pickle_and_its_repr(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert eval(repr(value), {"netcliff": netcliff}) == value
    assert hash(pickle.loads(pickle.dumps(value))) == hash(value)


@given(st.floats(min_value=1e-9, max_value=1e-3))
@settings(max_examples=200, deadline=None)
def test_a_number_and_its_text_are_the_same_host(seconds: float) -> None:
    host = Host(application_s=seconds)
    assert host.get("application") == seconds
    assert eval(repr(host), {"netcliff": netcliff}) == host
    assert pickle.loads(pickle.dumps(host)).get("application") == seconds


# Below the link's 1.488 Mpps of 64 bytes, past which a load is refused.
@given(st.floats(min_value=1.0, max_value=1.4e6))
@settings(max_examples=200, deadline=None)
def test_a_load_is_kept_to_the_last_digit(pps: float) -> None:
    assert Traffic(rate_pps=pps).rate_pps == pps
    assert pickle.loads(pickle.dumps(Traffic(rate_pps=pps))).rate_pps == pps


@given(st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused_with_what_is_accepted(text: str) -> None:
    for make in (Scheme, Traffic, lambda given: Host(application=given)):
        try:
            make(text)
        except UsageError as error:
            assert str(error)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Host(application=2e-6), "application_s"),
        (lambda: Host(ring=True), "expected"),
        (lambda: Traffic(), "rate_pps"),
        (lambda: Traffic("1kpps", rate_pps=1e3), "both given"),
        (lambda: Traffic(rate_pps=float("nan")), "expected"),
        (lambda: Traffic(rate_pps=-1.0), "expected"),
        (lambda: netcliff.predict("napi", rate=100_000), "rate_pps=100000"),  # type: ignore[arg-type]
        (lambda: Scheme("napi:wait=3"), "weight"),
        (lambda: netcliff.predict("napi", rate_pps=[1e3, 2e3], rate="1kpps"), "given twice"),
        (lambda: netcliff.predict("napi", rate_pps=[1e3, 2e3], size_bytes=[64, 64, 64]), "do not broadcast"),
        (lambda: netcliff.simulate("napi", rate="100kpps", packets=3), "packets"),
        (lambda: netcliff.advise(rate="1kpps", objective="speed"), "latency"),
    ],
)
def test_what_is_wrong_says_what_is_accepted(make: object, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        make()  # type: ignore[operator]


def test_sentences_are_the_command_lines(binary: str) -> None:
    said = subprocess.run([binary, "predict", "--host", "pentium4-2530mhz", "--set", "application=1kg", "--rate", "1kpps"], capture_output=True, text=True)
    with pytest.raises(UsageError) as refused:
        Host(application="1kg")
    # A keyword argument is no option.
    assert said.returncode == 2 and str(refused.value) in said.stderr and "--" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: Host(applicaton="2us"), ("'applicaton'", "application")),
        (lambda: Host().replace(rings=3), ("'rings'", "ring")),
        (lambda: netcliff.predict("napi", rate="100kpps", aplication="1us"), ("'aplication'", "did you mean 'application'?")),
        (lambda: netcliff.simulate("napi", rat="100kpps"), ("'rat'", "did you mean 'rate'?")),
        (lambda: netcliff.cliff("napi", aplication_s=1e-6), ("'aplication_s'", "did you mean 'application_s'?")),
    ],
)
def test_an_unknown_keyword_is_answered_as_python_does(make: object, parts: tuple[str, str]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument") as refused:
        make()  # type: ignore[operator]
    assert all(part in str(refused.value) for part in parts) and "--" not in str(refused.value)


def test_tab_completion_shows_what_there_is_and_nothing_else() -> None:
    offered = dir(netcliff)
    assert {"sweep", "dask", "predict", "Store"} <= set(offered)
    assert not {"Any", "TYPE_CHECKING", "annotations", "importlib"} & set(offered)
    assert all(getattr(netcliff, name) is not None for name in offered)
