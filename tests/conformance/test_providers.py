"""Both providers, each start method, keep every rule of the contract on both event loops."""

from __future__ import annotations

import pytest

from code_runtime.testing import Subject
from code_runtime.testing.pytest_suite import ProviderConformance

from . import subjects

pytestmark = pytest.mark.usefixtures("module_leaves_nothing")


class TestWorkerThread(ProviderConformance):
    @classmethod
    def subject(cls) -> Subject:
        return subjects.WORKER_THREAD


class TestPythonZygote(ProviderConformance):
    @classmethod
    def subject(cls) -> Subject:
        return subjects.PYTHON_ZYGOTE


class TestPythonSpawn(ProviderConformance):
    @classmethod
    def subject(cls) -> Subject:
        return subjects.PYTHON_SPAWN
