"""Shared by all tests: deterministic hypothesis, and where the real logs are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("deep", parent=settings.get_profile("ci"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

ROOT = Path(__file__).resolve().parent.parent


def logs_folder() -> Path:
    """The folder of real agent logs, beside the checkout; CTXLAB_TEST_LOGS names another one."""
    return Path(os.environ.get("CTXLAB_TEST_LOGS", ROOT.parent / "shared" / "data" / "logs"))


@pytest.fixture(scope="session")
def logs() -> Path:
    """The real agent logs; they are not part of the project, so a test that needs them says why it did not run."""
    folder = logs_folder()
    if not folder.is_dir():
        pytest.skip(f"no real logs at {folder}; set CTXLAB_TEST_LOGS to a folder that has them")
    return folder
