"""``ctxlab release --to``: what another grader or platform needs, in a folder or a zip that is ready to use.

- ``github``: a template repository: the exercises, and a workflow that grades them and tells GitHub Classroom.
- ``gradescope``: an autograder zip: ``setup.sh`` and ``run_autograder`` in its root.
- ``nbgrader``: a course folder with the assignment's source notebook.
- ``otter``: the master notebook for ``otter assign``.

Nothing in them has a date, so that a second export of the same kit is the same bytes.
"""

from __future__ import annotations

import io
import shlex
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxlab import __version__
from ctxlab.errors import CtxlabError, unknown_name
from ctxlab.grading.assignment import NAME, nbgrader_notebook, otter_notebook
from ctxlab.grading.exercises import EXERCISES
from ctxlab.grading.rebuild import notebook_text
from ctxlab.kit import folder

TARGETS = ("github", "gradescope", "nbgrader", "otter")


class HandoutRefused(CtxlabError, ValueError):
    """An export that cannot be written where it was asked for. ``path``."""


@dataclass(frozen=True, slots=True)
class Handout:
    """What was written: the zip or the folder, the names of the files in it, and what to do with them."""

    target: str
    path: Path
    files: tuple[str, ...]
    next_step: str

    def to_json(self) -> dict[str, Any]:
        """For ``ctxlab release --to ... --format json``."""
        return {"target": self.target, "path": str(self.path), "files": list(self.files), "next_step": self.next_step}

    def __str__(self) -> str:
        return f"wrote {len(self.files)} files to {self.path}; next: {self.next_step}"


def hand_out(
    target: str, path: str | Path, *, source: str | Path | None = None, package: str | None = None, seed: int = 0
) -> Handout:
    """Write what ``target`` (one of `TARGETS`) needs to ``path``: a zip for gradescope, a folder for the others.

    ``package`` is what pip installs there: a requirement (this very version where it is None), or a wheel's path,
    which is put beside the scripts. A file of the folder that is there and differs is never written over. Raises
    `UnknownName`, `HandoutRefused` and `BadSolution`.
    """
    if target not in TARGETS:
        raise unknown_name("target", target, list(TARGETS))
    place, solutions = Path(path), folder("solutions") if source is None else Path(source)
    wheel, named = _package(package)
    files: dict[str, bytes] = dict(wheel)
    if target == "github":
        files |= {
            f"exercises/{one.file_stem}.ipynb": notebook_text(one, solutions).encode() for one in EXERCISES.values()
        }
        files[".github/workflows/grade.yml"] = _filled(WORKFLOW, named, seed)
        step = "push it to a repository, mark that as a template, and name it in the classroom's assignment"
    elif target == "gradescope":
        files |= {"setup.sh": _filled(SETUP, named, seed), "run_autograder": _filled(RUN, named, seed)}
        step = "upload it as the assignment's autograder"
    elif target == "nbgrader":
        files |= {f"source/{NAME}/{NAME}.ipynb": nbgrader_notebook(solutions).encode(), "nbgrader_config.py": NBGRADER}
        step = f"install ctxlab beside nbgrader, then: nbgrader generate_assignment {NAME} --create"
    else:
        files[f"{NAME}.ipynb"] = otter_notebook(solutions).encode()
        step = f"install ctxlab and ipykernel beside otter-grader, then: otter assign {NAME}.ipynb dist"
    write = _zip if target == "gradescope" else _folder
    try:
        write(place, files)
    except OSError as error:
        raise HandoutRefused(f"cannot write {place}: {error.strerror}", hint="name another place", path=place) from None
    return Handout(target, place, tuple(sorted(files)), step)


def _package(package: str | None) -> tuple[dict[str, bytes], str]:
    """The wheel to put beside the scripts, if one was named, and what pip is to install."""
    if package is None:
        return {}, f"ctxlab=={__version__}"
    wheel = Path(package)
    if wheel.suffix != ".whl" or "://" in package:
        return {}, package
    if not wheel.is_file():
        raise HandoutRefused(f"{wheel}: no such wheel", hint="build one with: python -m build --wheel", path=wheel)
    return {wheel.name: wheel.read_bytes()}, f"./{wheel.name}"


def _filled(template: str, package: str, seed: int) -> bytes:
    return template.replace("@PACKAGE@", shlex.quote(package)).replace("@SEED@", str(seed)).encode()


def _folder(place: Path, files: Mapping[str, bytes]) -> None:
    differing = [
        name for name, data in files.items() if (place / name).exists() and (place / name).read_bytes() != data
    ]
    if differing:
        raise HandoutRefused(
            f"{place} holds other files of these names: {', '.join(sorted(differing))}",
            hint="name a new folder, or move them away",
            path=place,
        )
    for name, data in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)


def _zip(place: Path, files: Mapping[str, bytes]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)  # its date is 1980-01-01
            entry.external_attr = (0o644 if name.endswith(".whl") else 0o755) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(buffer.getvalue())


NBGRADER = b"""\
c = get_config()
c.CourseDirectory.root = "."
c.ClearSolutions.enforce_metadata = True
"""

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
apt-get update -qq
apt-get install -y -qq bubblewrap python3-venv
# The image's own Python may be older than ctxlab needs: uv brings one.
python3 -m venv /opt/uv
/opt/uv/bin/pip install --quiet uv
/opt/uv/bin/uv venv --quiet --python 3.12 /opt/ctxlab
cd "$here"
/opt/uv/bin/uv pip install --quiet --python /opt/ctxlab/bin/python @PACKAGE@
# Where the container allows no namespaces, a submission can read what its user can: leave no solution there.
/opt/ctxlab/bin/python -c 'import shutil; from ctxlab.kit import folder; shutil.rmtree(folder("solutions"))'
"""

RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission: it lies in /autograder/submission, results.json is read from results.
root="${AUTOGRADER_ROOT:-/autograder}"
python="${CTXLAB_PYTHON:-/opt/ctxlab/bin/python}"
mkdir -p "$root/results"
rm -f "$root/results/results.json"
"$python" -m ctxlab grade "$root/submission" --seed @SEED@ --format gradescope \\
    -o "$root/results/results.json" 2> "$root/results/stderr.txt"
if [ ! -s "$root/results/results.json" ]; then
    # Nothing to grade, or the grader failed: there is a result all the same, with the words that were said.
    "$python" - "$root/results" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
said = (folder / "stderr.txt").read_text("utf-8", "replace").strip() or "the grader did not answer"
said += "\\nHand in the exercises' notebooks, or .py files with the functions."
(folder / "results.json").write_text(json.dumps({"score": 0, "output": said, "output_format": "text", "tests": []}))
END
fi
cat "$root/results/stderr.txt" >&2
exit 0
"""

WORKFLOW = """\
# Grades the exercises on every push, and tells GitHub Classroom where there is one.
name: grade
on: [push, workflow_dispatch]
permissions:
  contents: read
  checks: write
jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install ctxlab, and what shuts a submission off
        run: |
          sudo apt-get update -qq && sudo apt-get install -y -qq bubblewrap
          sudo sysctl -q -w kernel.apparmor_restrict_unprivileged_userns=0 || true
          python -m pip install --quiet @PACKAGE@
      - name: Grade
        id: ctxlab
        env:
          # A number here is read by every learner; a secret (the organisation's, for a classroom) is not.
          SEED: ${{ secrets.CTXLAB_SEED || '@SEED@' }}
        run: ctxlab grade exercises --seed "$SEED" --format github
      - name: Tell the classroom
        if: ${{ !cancelled() && steps.ctxlab.outputs.result }}
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
          CTXLAB_RESULTS: ${{ steps.ctxlab.outputs.result }}
        with:
          runners: ctxlab
"""
