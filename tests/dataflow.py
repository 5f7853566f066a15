"""A cluster in one process: tasks that host workers, blocks that travel as bytes, and prefixes that wait in files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from bigjoin.dataflow.heavy import HeavyItinerary, find_heavy
from bigjoin.dataflow.lookups import Dealing, tuples_answered
from bigjoin.dataflow.managed import Managed, Manager, begin
from bigjoin.dataflow.owned_seeds import WorkerSeeds
from bigjoin.dataflow.packing import pack, pack_arrays, unpack, unpack_arrays
from bigjoin.dataflow.routing import route
from bigjoin.dataflow.schedule import DealtSchedule, OwnedSchedule
from bigjoin.dataflow.waiting import WaitingFile, read_waiting
from bigjoin.joins.bind import bind
from bigjoin.joins.blocks import Spread, join
from bigjoin.joins.dataflow_primitive import DataflowPrimitive
from bigjoin.joins.itinerary import Itinerary


class Simulated:
    """Runs a plan under the partitioned strategy, and watches what DESIGN promises; with `spreading`, heavy keys are dealt out.

    `spreading` is True, or how many tuples of a key make it heavy.
    """

    def __init__(
        self, plan, index, folder, *, workers=7, tasks=3, batch_size=64, budget=512, counting=True, enough=0, spreading=None
    ):
        self.plan, self.folder = bind(plan, index), Path(folder)
        self.workers, self.tasks, self.batch_size = workers, min(tasks, workers), batch_size
        self.counting = counting
        self.matches = []
        self.waiting = []
        self.files = {}
        self.heavy = None
        if spreading is not None:
            how = {} if spreading is True else {"threshold": spreading, "least": max(1, spreading // 2)}
            self.heavy = find_heavy(self.plan, workers, **how)
        heavy = self.heavy
        self.itinerary = Itinerary(self.plan) if heavy is None else HeavyItinerary(self.plan, heavy, batch_size)
        options = {"counting": counting, "batch_size": batch_size, "worth_counting": enough}
        self.hosts = [DataflowPrimitive(self.plan, _Sink(self, task), self.itinerary, **options) for task in range(self.tasks)]
        dealt = None if self.heavy is None else self.heavy.marks[0]
        self.seeds = [WorkerSeeds(self.plan.seed, workers, self.tasks, task, dealt) for task in range(self.tasks)]
        self.loads = []
        self.schedule = OwnedSchedule(
            [len(s) for s in self.seeds], len(self.plan.steps), workers=workers, batch_size=batch_size, budget=budget
        )
        self.load = np.zeros(workers, np.int64)
        self.sent = self.rounds = self.exchanges = self.most_proposed = 0

    def run(self):
        while (now := self.schedule.next_round()) is not None:
            self.rounds += 1
            before = sum(self.added("candidates")[1:])
            self._round(now)
            proposed = sum(self.added("candidates")[1:]) - before
            self.most_proposed = max(self.most_proposed, proposed)
            self.schedule.add(closed(self.files), proposed)
        return self

    def most(self):
        """The paper's bound on tuples sent: each prefix is counted at every owner, each candidate proposed and intersected."""
        prefixes, candidates = (self.added(name) for name in ("prefixes", "candidates"))
        sent = 0
        for step, stops in enumerate(self.itinerary.stops):
            owners = sum(stop.at is not None for stop in stops)
            sent += owners * prefixes[step] + (1 + owners - 1) * candidates[step + 1]
        return sent

    def added(self, name):
        return [sum(counts) for counts in zip(*(getattr(host.tally, name) for host in self.hosts), strict=True)]

    def _round(self, now):
        travelling = []
        self._allow(now)
        for task, slices in enumerate(now.work):
            for part in slices:
                travelling += self._begin(task, now.step, part)
        exchanges = 0
        while travelling:
            exchanges += 1
            arriving = defaultdict(list)
            load = np.zeros(self.workers, np.int64)
            self._allow(now)
            for visit, block in travelling:
                assert block.tuples <= self.batch_size, "more tuples than B' in a block"
                at = self.itinerary.place(visit)
                for task, part in route(block, at, workers=self.workers, tasks=self.tasks, load=load):
                    self.sent += part.tuples
                    assert isinstance(block, Spread) or (part.prefixes[at] % self.workers % self.tasks == task).all()
                    arriving[task, self.itinerary.visits.index(visit)].append(pack(part))
            self.loads.append((int(load.max()), float(load.mean())))
            self.load += load
            travelling = []
            for (task, number), packed in sorted(arriving.items()):
                for data in packed:
                    block = join([unpack(data)])
                    travelling += self.hosts[task].visit(self.itinerary.visits[number], block)
        assert exchanges <= self.itinerary.exchanges(now.step)
        self.exchanges += exchanges

    def _allow(self, now):
        """What begins a stage is a new task, which may propose so much of each step at once."""
        for host in self.hosts:
            each, last = now.allowance // (self.itinerary.exchanges(now.step) + 1), self.itinerary.furthest(now.step)
            host.left = [each if step <= last else 0 for step in range(len(self.plan.steps))]

    def _begin(self, task, step, part):
        if step is None:
            for read, prefixes in self.seeds[task].read(part.first, part.last, self.batch_size):
                self.hosts[task].tally.candidates[0] += read
                yield from self.hosts[task].seed(prefixes)
            return
        for block in read_waiting(part.file, part.first, part.last):
            for batch in block.batches(self.batch_size):
                yield from self.hosts[task].propose(step, part.stop, batch)

    @property
    def count(self):
        return sum(host.tally.matches for host in self.hosts)

    def rows(self):
        columns = np.concatenate(self.matches, axis=1) if self.matches else np.empty((len(self.plan.plan.attributes), 0))
        return sorted(zip(*columns.tolist(), strict=True))


class _Sink:
    is_full = False

    def __init__(self, cluster, task):
        self.cluster, self.task = cluster, task

    def wait(self, step, stop, counted, keys):
        key = (self.task, step, stop)
        files = self.cluster.files
        if key not in files:
            files[key] = WaitingFile(self.cluster.folder, step, stop, self.task)
        files[key].put(counted, keys)

    def match(self, matches):
        self.cluster.matches.append(matches.copy())


class Balanced:
    """Runs a plan under the balanced strategy, and watches what theorem 3.4 promises."""

    def __init__(self, plan, index, folder, *, workers=7, tasks=3, batch_size=64, counting=True, salt=1):
        self.plan, self.folder = bind(plan, index), Path(folder)
        self.dealing = Dealing(workers, min(tasks, workers), salt)
        self.counting = counting
        self.schedule = DealtSchedule(self.plan.seed.positions, len(self.plan.steps), workers=workers, batch_size=batch_size)
        self.matches, self.files = [], {}
        self.tallies = []
        self.loads = []
        """Of each exchange: its kind, what was dealt to a worker at most, and the requests that each worker got."""
        self.answers = []
        """Of each exchange: what was dealt to a worker at most, and the answers that each got."""
        self.dealt = []
        self.sent = self.ranges = 0

    def run(self):
        while (batch := self.schedule.next_round()) is not None:
            dealt = [sum(part.last - part.first for part in slices) for slices in batch.work]
            assert max(dealt) - min(dealt) <= 1
            assert max(dealt) <= self.schedule.batch_size
            self.dealt.append(dealt)
            self._batch(batch, max(dealt))
            self.schedule.add(closed(self.files), 0)
        assert self.schedule.most_new <= 1 + 1 / self.schedule.batch_size  # what is cut in a deal waits twice
        assert self.schedule.most_waiting <= 2 + 1 / self.schedule.batch_size
        return self

    def _batch(self, batch, dealt):
        def fresh():
            return Manager(self.plan, batch.step, self.dealing, self, counting=self.counting)

        states, managers = {}, [fresh() for _ in range(self.dealing.workers)]
        for worker, slices in enumerate(batch.work):
            tuples, state = begin(managers[worker], slices)
            self.sent += tuples
            self.ranges += tuples
            if state is not None:
                states[worker] = state
        for exchange in range(len(managers[0].exchanges)):
            requests = sum(manager.load for manager in managers)
            answered = np.zeros(self.dealing.workers, np.int64)
            self.loads.append((type(managers[0].exchanges[exchange][0][0]).__name__, dealt, requests))
            self.answers.append((dealt, answered))
            self.sent += int(requests.sum())
            for manager in managers:
                manager.load[:] = 0
            arrived = {}
            for worker, state in states.items():
                answers = defaultdict(dict)
                for number, asked in state.asked.items():
                    for task, request in enumerate(asked.requests):
                        if not len(request[0]):
                            continue
                        request = unpack_arrays(pack_arrays(request))
                        said = self.answering(task, managers[worker]).answer(exchange, number, request, task)
                        if said:
                            answers[number][task] = unpack_arrays(pack_arrays(said))
                            answered[worker] += tuples_answered(said[0])
                if state.is_last:
                    continue
                arrived[worker] = Managed.of(unpack_arrays(pack_arrays(state.arrays()))), dict(answers)
            self.sent += int(answered.sum())
            after = {w: managers[w].advance(exchange, *arrived[w]) for w in arrived}
            states = {w: state for w, state in after.items() if state is not None}
        self.tallies += [manager.tally for manager in managers]

    def added(self, name):
        return [sum(counts) for counts in zip(*(getattr(tally, name) for tally in self.tallies), strict=True)]

    @property
    def count(self):
        return sum(tally.matches for tally in self.tallies)

    def rows(self):
        columns = np.concatenate(self.matches, axis=1) if self.matches else np.empty((len(self.plan.plan.attributes), 0))
        return sorted(zip(*columns.tolist(), strict=True))

    is_full = False

    def answering(self, task, manager):
        """Who answers at a task: the same as who asks, in one process."""
        return manager

    def wait(self, step, stop, counted, keys):
        assert (stop, keys) == (0, None)
        if step not in self.files:
            self.files[step] = WaitingFile(self.folder, step, 0, 0)
        self.files[step].put(counted)

    def match(self, matches):
        self.matches.append(matches.copy())


def closed(files):
    """Finish files of prefixes that wait, and say what is in them."""
    for file in files.values():
        file.close()
    found = [file.waiting for file in files.values()]
    files.clear()
    return found
