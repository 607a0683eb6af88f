"""Which chip this is, from the strings that systems give."""

import platform

import pytest

from engine.device import (
    clean_name,
    core_counts,
    generation_of,
    is_apple,
    parse_cpuinfo,
    parse_low_power,
    parse_sysctl,
    parse_thermal,
    power_now,
    probe,
    variant_of,
)
from engine.types import Device, Power


@pytest.mark.parametrize(
    ("architecture", "generation"),
    [
        ("applegpu_g13g", 13),
        ("applegpu_g13s", 13),
        ("applegpu_g14s", 14),
        ("applegpu_g15d", 15),
        ("applegpu_g16s", 16),
        ("applegpu_g17g", 17),
        ("applegpu_g123s", 123),
        ("x86_64", None),
        ("sm_90", None),
        ("", None),
    ],
)
def test_the_architecture_string_names_the_gpu_generation(architecture: str, generation: int | None) -> None:
    assert generation_of(architecture) == generation


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("Apple M1", 13),
        ("Apple M1 Ultra", 13),
        ("Apple M2 Pro", 14),
        ("apple  m3 max", 15),
        ("Apple M4", 16),
        ("Apple M5 Max", 17),
        ("Apple M11 Pro", 23),
        ("Apple processor", None),
        ("Intel Core i9-9980HK", None),
        ("Pineapple M1", None),
        ("", None),
    ],
)
def test_without_it_the_chips_name_does(name: str, generation: int | None) -> None:
    assert generation_of("", clean_name(name)) == generation


def test_the_architecture_wins_over_the_name() -> None:
    assert generation_of("applegpu_g16s", "Apple M2 Pro") == 16


@pytest.mark.parametrize(
    ("chip", "name"),
    [
        ("Apple M2 Pro\n", "Apple M2 Pro"),
        ("  apple m3   MAX ", "Apple M3 Max"),
        ("Apple A18 Pro", "Apple A18 Pro"),
        ("Apple processor", "Apple processor"),  # what a virtual Mac says
        ("Intel(R) Core(TM) i7-8850H CPU @ 2.60GHz", "Intel Core i7-8850H"),
        ("Intel(R) Xeon(R) Processor", "Intel Xeon"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763 64-Core"),
        ("", "this computer"),
    ],
)
def test_a_chip_is_named_as_people_name_it(chip: str, name: str) -> None:
    assert clean_name(chip) == name


def test_the_name_on_linux_comes_from_cpuinfo() -> None:
    assert parse_cpuinfo("processor\t: 0\nmodel name\t: AMD Ryzen 9\nprocessor\t: 1\n") == "AMD Ryzen 9"
    assert parse_cpuinfo("processor\t: 0\nCPU part\t: 0xd0c\n") == ""


def test_a_virtual_mac_is_apple_of_no_known_generation() -> None:
    device = Device("Apple processor", None, 8 << 30, None, True, "Darwin")
    assert is_apple(device)


def test_this_machine_can_be_probed() -> None:
    device = probe("applegpu_g14s", working_set=11 << 30)
    assert device.name
    assert device.memory > 1 << 30
    assert (device.generation, device.gpu, device.working_set) == (14, True, 11 << 30)
    assert not probe("x86_64").gpu


def test_where_mlx_was_not_asked_it_computes_on_the_gpu_of_an_apple_chip_alone() -> None:
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    assert probe().gpu == apple
    assert not probe("").gpu


@pytest.mark.parametrize(
    ("architecture", "name", "variant"),
    [
        ("applegpu_g14s", "Apple M2 Pro", "Pro"),
        ("applegpu_g14s", "Apple M2 Max", "Max"),
        ("applegpu_g13d", "Apple M1 Ultra", "Ultra"),
        ("applegpu_g16g", "Apple M4", "base"),
        ("applegpu_g15d", "Apple processor", "Ultra"),
        ("applegpu_g13c", "", "Max"),
        ("applegpu_g17g", "", "base"),
        ("applegpu_g17s", "", ""),  # a Pro or a Max
        ("applegpu_g21z", "Apple M9 Giga", ""),
        ("x86_64", "Intel Core i9-9980HK", ""),
        ("", "", ""),
    ],
)
def test_the_variant_comes_from_the_name_else_from_the_architectures_last_letter(
    architecture: str, name: str, variant: str
) -> None:
    assert variant_of(architecture, name) == variant


M2_PRO_SYSCTL = """machdep.cpu.brand_string: Apple M2 Pro
hw.perflevel0.physicalcpu: 8
hw.perflevel1.physicalcpu: 4
"""


def test_cores_are_counted_by_performance_level() -> None:
    answers = parse_sysctl(M2_PRO_SYSCTL)
    assert answers["machdep.cpu.brand_string"] == "Apple M2 Pro"
    assert core_counts(answers) == (8, 4)
    assert core_counts(parse_sysctl("hw.perflevel0.physicalcpu: 12\n")) == (12, 0)
    assert core_counts(parse_sysctl("machdep.cpu.brand_string: Intel(R) Core(TM) i7-8850H CPU @ 2.60GHz\n")) == (
        None,
        None,
    )
    assert core_counts({"hw.perflevel0.physicalcpu": "many"}) == (None, None)


PMSET_LOW = """System-wide power settings:
Currently in use:
 standby              1
 lowpowermode         1
 displaysleep         10 (display sleep prevented by Terminal)
"""
PMSET_AUTOMATIC = """Currently in use:
 powermode            0
 hibernatemode        3
"""


@pytest.mark.parametrize(
    ("text", "low"),
    [
        (PMSET_LOW, True),
        (PMSET_LOW.replace("lowpowermode         1", "lowpowermode         0"), False),
        (PMSET_AUTOMATIC, False),
        (PMSET_AUTOMATIC.replace("powermode            0", "powermode            1"), True),
        (PMSET_AUTOMATIC.replace("powermode            0", "powermode            2"), False),  # high power
        ("Currently in use:\n sleep 1\n", None),
        ("", None),
    ],
)
def test_low_power_mode_is_read_from_the_settings_in_use(text: str, low: bool | None) -> None:
    assert parse_low_power(text) is low


COOL = """Note: No thermal warning level has been recorded
Note: No performance warning level has been recorded
Note: No CPU power status has been recorded
"""
HELD_BACK = """2026-11-29 12:00:00 +0100 CPU Power notify
\tCPU_Scheduler_Limit \t= 100
\tCPU_Available_CPUs \t= 8
\tCPU_Speed_Limit \t= 62
"""


@pytest.mark.parametrize(
    ("text", "hot"),
    [
        (COOL, False),
        (HELD_BACK, True),
        (HELD_BACK.replace("62", "100"), False),
        ("Thermal Warning Level = 2\nPerformance Warning Level = 0\n", True),
        ("Thermal Warning Level = 0\n", False),
        ("", None),
        ("pmset: unknown command\n", None),
    ],
)
def test_heat_is_what_the_system_warns_of_or_holds_the_processor_back_for(text: str, hot: bool | None) -> None:
    assert parse_thermal(text) is hot


def test_power_is_spared_in_heat_and_on_battery_in_low_power_mode() -> None:
    assert Power(hot=True).spare
    assert Power(on_battery=True, low_power_mode=True).spare
    assert not Power(on_battery=False, low_power_mode=True).spare
    assert not Power().spare


def test_what_this_system_does_not_tell_is_none() -> None:
    power = power_now()
    if platform.system() != "Darwin":
        assert (power.low_power_mode, power.hot) == (None, None)
