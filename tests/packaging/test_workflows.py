"""What is built and tested elsewhere: by fixed versions of what others wrote, with no more rights than it takes."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text())["jobs"]
    return made


def runs(job: dict[str, Any]) -> str:
    """All that the job runs in a shell."""
    return "\n".join(step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_action_is_one_commit_and_says_which_version_that_is(file: Path) -> None:
    for line in re.findall(r"uses: (.+)", file.read_text()):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_workflow_may_only_read_and_only_the_release_may_write(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
    may_write = [name for name, job in jobs(file).items() if "permissions" in job]
    assert may_write == (["release"] if file.stem == "app" else [])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_a_workflow_makes_can_be_made(file: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {
        target for job in jobs(file).values() for target in re.findall(r"\bmake ([a-z-]+)$", runs(job), re.MULTILINE)
    }
    assert asked <= targets


def test_the_app_is_built_for_both_systems_and_tests_itself_from_its_image() -> None:
    build = jobs(ROOT / ".github" / "workflows" / "app.yml")["build"]
    pairs = [(each["runner"], each["macos"]) for each in build["strategy"]["matrix"]["include"]]
    assert pairs == [("macos-15", ""), ("macos-26", "26")]
    assert "make app" in runs(build)
    assert 'Foreword.app/Contents/MacOS/Foreword" --selftest' in runs(build)


def test_on_linux_it_is_the_same_script_as_everywhere() -> None:
    assert "bash .ci/run" in runs(jobs(ROOT / ".github" / "workflows" / "ci.yml")["linux"])


def test_a_secret_reaches_only_the_step_that_needs_it() -> None:
    for file in FILES:
        for job in jobs(file).values():
            assert "secrets." not in str({key: value for key, value in job.items() if key != "steps"})


def test_what_starts_the_window_on_linux_runs_where_qt_finds_its_libraries() -> None:
    """On a runner's own Ubuntu some of them are missing, and only root on Debian installs them."""
    for file in FILES:
        for job in jobs(file).values():
            if "make check-bundle" in runs(job) or ".ci/run" in runs(job):
                assert job["container"].startswith("debian:")
                assert "apt-get install" in job["steps"][0]["run"]


def test_a_tag_of_another_version_is_refused_before_anything_is_built() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    steps = jobs(ROOT / ".github" / "workflows" / "app.yml")["build"]["steps"]
    (step,) = (step for step in steps if "GITHUB_REF_NAME" in step.get("run", ""))
    for tag, code in {f"v{said}": 0, f"v{said}1": 1, "v9.9.9": 1}.items():
        environment = os.environ | {"GITHUB_REF_NAME": tag}
        assert subprocess.run(["bash", "-ec", step["run"]], cwd=ROOT, env=environment, check=False).returncode == code
