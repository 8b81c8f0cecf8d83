"""Grade a class, release the exercises, check the kit: ``grade``, ``release``, ``dev check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ctxlab.commands import FORMAT, json_text, note, put, put_json, write

if TYPE_CHECKING:
    from ctxlab.grading import Report


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option("--exercise", metavar="NAME", help="Grade exactly this one; default: those that a submission is for.")
@click.option("--seed", type=int, default=0, show_default=True, help="The checks' values are drawn from it.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Workers at once.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "junit", "gradescope", "github"]), default="text",
    show_default=True, help="For people, for machines, or for a platform.",
)  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write the report here and not to stdout.")
@click.option("--results", type=click.Path(path_type=Path), help="Write each result here as it comes (JSON lines).")
@click.option("--resume", is_flag=True, help="Go on with --results: what is there and still holds is not graded again.")
@click.option("--feedback", type=click.Path(path_type=Path), help="Write a page of HTML a learner into this folder.")
@click.option("--csv", "grades", type=click.Path(path_type=Path), help="Write the grades here, a row a submission.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="Write a report on the class here (HTML).")
@click.option(
    "--require-isolation", "level", metavar="LEVEL",
    help="Grade nothing where workers are less shut off: limits, landlock, namespaces, bubblewrap.",
)  # fmt: skip
@click.option("--scheduler", metavar="ADDRESS", help="Grade on a Dask cluster: local, or tcp://host:8786.")
@click.option("--learner", metavar="REGEX", help="Its first group, in a submission's path, names the learner.")
@click.pass_context
def grade(
    ctx: click.Context,
    paths: tuple[Path, ...],
    exercise: str | None,
    seed: int,
    jobs: int,
    form: str,
    output: Path | None,
    results: Path | None,
    resume: bool,
    feedback: Path | None,
    grades: Path | None,
    page: Path | None,
    level: str | None,
    scheduler: str | None,
    learner: str | None,
) -> None:
    """Grade a class's submissions.

    A submission is a notebook, a .py file, or a folder of them. A learner's code runs in a process of its own; what it
    answers is compared outside of it. Exit status: 0 every required check passed, 1 not so, 2 nothing that was given
    could be read.

    The learner's name is the submission's, without a second copy's mark: "ada (1).ipynb" is ada's. Of several
    submissions of one learner the one with the most points counts, of equals the last by name; all are listed.

    Example: ctxlab grade submissions --jobs 2 --results results.jsonl --csv grades.csv --report class.html
    """
    from ctxlab.grading import gradebook
    from ctxlab.grading.batch import grade_class
    from ctxlab.grading.learners import compiled, learners
    from ctxlab.grading.results import Results
    from ctxlab.grading.submissions import find
    from ctxlab.grading.watch import progress_bar

    if level is not None:
        from ctxlab.sandbox import require_isolation

        require_isolation(level)
    if resume and results is None:
        raise click.UsageError("--resume goes on with a file of results: name it with --results")
    compiled(learner)  # a class is not graded for nothing
    with Results(results, resume=resume) as kept:
        for problem in kept.problems:
            note(problem)
        with progress_bar() as told:
            report = grade_class(paths, kept, exercise, seed, jobs, told=told, scheduler=scheduler)
        found = learners(report, learner)
        if grades is not None:
            gradebook.write_grades(report, found, grades)
        if feedback is not None:
            gradebook.write_feedback(report, found, feedback)
        if page is not None:
            gradebook.write_class_report(report, found, find(paths), page)
        _show_grades(report, form, output, brief=any((results, feedback, grades, page)))
        ctx.exit(report.exit_code)


def _show_grades(report: Report, form: str, output: Path | None, *, brief: bool) -> None:
    """The report in one form, to stdout or to a file. ``brief``: the details stand in other files already."""
    if form == "text" and output is None:
        if brief:
            for line in report.overview():
                put(line)
        else:
            from ctxlab import terminal

            terminal.console().print(report)
        return
    from ctxlab.grading import platforms

    texts = {
        "json": lambda: json_text(report.to_json()) + "\n",
        "junit": report.to_junit,
        "gradescope": lambda: json_text(platforms.to_gradescope(report)) + "\n",
        "github": lambda: platforms.tell_github(report),
        "text": lambda: report.to_text(passed=True) + "\n",
    }
    text = texts[form]()
    if output is None:
        put(text, end="")
        return
    write(output, text)


@click.command()
@click.option("--target", type=click.Path(path_type=Path), help="Folder of the notebooks; default: the kit's own.")
@click.option("--source", type=click.Path(path_type=Path), help="Folder of the solutions; default: the kit's own.")
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 where a rebuild would change something.")
@click.option(
    "--to", type=click.Choice(["github", "gradescope", "nbgrader", "otter"]),
    help="Export them for another grader or platform, to --output.",
)  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), help="With --to: the folder, or Gradescope's zip.")
@click.option("--package", metavar="SPEC", help="With --to: what pip installs there, a requirement or a wheel's path.")
@click.option("--seed", type=int, default=0, show_default=True, help="With --to: the seed to grade with.")
@FORMAT
@click.pass_context
def release(
    ctx: click.Context,
    target: Path | None,
    source: Path | None,
    check: bool,
    to: str | None,
    output: Path | None,
    package: str | None,
    seed: int,
    form: str,
) -> None:
    """Generate the exercises from the solutions.

    A notebook for each. A rebuild of what is up to date changes nothing. With --to, export them: a template repository
    with a workflow (github), an autograder zip (gradescope), or an assignment (nbgrader, otter).

    Example: ctxlab release --to gradescope -o autograder.zip
    """
    from ctxlab.grading import release as rebuild

    if to is not None:
        from ctxlab.grading.handout import hand_out

        if output is None or target is not None or check:
            raise click.UsageError("--to writes to --output, and goes neither with --target nor with --check")
        made = hand_out(to, output, source=source, package=package, seed=seed)
        put_json(made.to_json()) if form == "json" else put(str(made))
        return
    if output is not None:
        raise click.UsageError("--output goes with --to; --target is the folder of the notebooks")
    done = rebuild(target, source, write=not check)
    if form == "json":
        put_json(done.to_json())
    else:
        put(str(done))
    ctx.exit(1 if check and not done.up_to_date else 0)


@click.group()
def dev() -> None:
    """For those who change the kit.

    Example: ctxlab dev check --jobs 2
    """


@dev.command("check")
@click.option("--root", type=click.Path(path_type=Path), help="A checkout; default: the one that ctxlab runs from.")
@click.option("--seed", type=int, default=0, show_default=True, help="The checks' values are drawn from it.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Workers at once.")
@FORMAT
@click.pass_context
def dev_check(ctx: click.Context, root: Path | None, seed: int, jobs: int, form: str) -> None:
    """Check the kit itself.

    Untouched exercises fail, solutions pass, mistakes are caught by their checks, other right ways are not refused,
    hints and lessons are there, the exercises are what the solutions give, and nothing is stray. Exit status 1: not so.

    Example: ctxlab dev check --jobs 2
    """
    from ctxlab.grading.devcheck import check_kit
    from ctxlab.grading.watch import progress_bar
    from ctxlab.kit import folder

    with progress_bar() as told:
        found = check_kit(root or folder("solutions").parent, seed=seed, jobs=jobs, told=told)
    put_json(found.to_json()) if form == "json" else put(str(found))
    ctx.exit(0 if found.ok else 1)


COMMANDS = (grade, release, dev)
