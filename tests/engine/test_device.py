"""Which chip this is, from the strings that systems give."""

import platform

import pytest

from engine.device import clean_name, generation_of, is_apple, parse_cpuinfo, probe
from engine.types import Device


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
