# SPDX-License-Identifier: Apache-2.0
"""A server in miniature. Prints what asyncio itself says of each task, as JSON, when all stand still: its name, the functions of
its coroutines from the outside to the inside, and the names of those that it waits for."""
import asyncio
import json
import os
import sys
import threading


async def innermost(event):
    await event.wait()


async def work(event):
    await innermost(event)


async def consume(queue):
    while True:
        await queue.get()


async def produce():
    while True:
        await asyncio.sleep(3600)
        yield 1


async def iterate():
    async for _ in produce():
        pass


class Client:
    def __init__(self, event):
        self.event = event

    def __await__(self):
        return innermost(self.event).__await__()

    async def request(self):
        await self


async def grouped(event):
    async with asyncio.TaskGroup() as group:
        group.create_task(work(event), name="in-group-1")
        group.create_task(work(event), name="in-group-2")


async def gathers(tasks):
    await asyncio.gather(*tasks)


async def waits(tasks):
    await asyncio.wait(tasks)


async def shields(task):
    await asyncio.shield(task)


async def awaits(task):
    await task


async def times_out(task):
    await asyncio.wait_for(asyncio.shield(task), 3600)


async def wants(future):
    await future


async def finished():
    pass


WAITS = {"gathers": ["worker-1", "worker-2"], "waits": ["worker-3", "consumer"], "shields": ["worker-1"], "awaits": ["gathers"],
         "grouped": ["in-group-1", "in-group-2"]}


async def main():
    event, queue = asyncio.Event(), asyncio.Queue()
    create = asyncio.create_task
    workers = [create(work(event), name=f"worker-{i}") for i in (1, 2, 3)]
    tasks = list(workers)
    tasks.append(create(consume(queue), name="consumer"))
    tasks.append(create(iterate(), name="iterates"))
    tasks.append(create(Client(event).request(), name="client"))
    tasks.append(create(grouped(event), name="grouped"))
    tasks.append(create(gathers(workers[:2]), name="gathers"))
    tasks.append(create(waits([workers[2], tasks[3]]), name="waits"))
    tasks.append(create(shields(workers[0]), name="shields"))
    tasks.append(create(awaits(tasks[-3]), name="awaits"))
    tasks.append(create(times_out(workers[1]), name="times out"))
    tasks.append(create(innermost(event)))
    result = asyncio.get_running_loop().create_future()
    tasks.append(create(wants(asyncio.futures._PyFuture(loop=asyncio.get_running_loop())), name="other future"))
    tasks.append(create(wants(result), name="has result"))
    done = create(finished(), name="finished")
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        tasks.append(create(work(event), name="many"))
    await asyncio.sleep(0.1)
    assert done.done()
    if sys.argv[1] == "busy":
        tasks.append(create(spin(), name="spins"))
        await asyncio.sleep(0)
    truth = [{"name": t.get_name(), "top": [f.f_code.co_name for f in t.get_stack(limit=1)], "waits": WAITS.get(t.get_name(), [])}
             for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    print("truth " + json.dumps(truth), flush=True)
    if sys.argv[1] == "blocked":
        result.set_result(1)  # the loop has not told the task yet
    if sys.argv[1] == "blocked":  # the error that servers make: the loop itself waits
        os.read(os.pipe()[0], 1)
    await event.wait()


async def spin():
    while True:
        for _ in range(10000):
            pass
        await asyncio.sleep(0)


def run():
    if sys.argv[1] == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())


if sys.argv[1] == "thread":
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
else:
    run()
