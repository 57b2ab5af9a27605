"""Walks in the workers of a `DataLoader`, which are forked from a process whose threads they lose."""

import subprocess
import sys

SCRIPT = """
import multiprocessing, warnings
import torch, crawl
warnings.simplefilter("ignore")
graph = crawl.Graph.from_edge_index(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), undirected=True)
here = crawl.sample_walks(graph)
x = torch.ones(4, 1)
conv = crawl.CRaWlConv(1, 4).eval()
with torch.no_grad():
    expected = conv(x, here)

def work(queue):
    torch.set_num_threads(1)  # as DataLoader does: torch's own threads are lost as well
    there = crawl.sample_walks(graph)
    with torch.no_grad():
        queue.put((there.nodes.tolist(), torch.allclose(conv(x, there), expected, atol=1e-5)))

context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=work, args=(queue,))
process.start()
nodes, is_close = queue.get(timeout=60)
process.join()
assert nodes == here.nodes.tolist() and is_close
"""


def test_forked_process_draws_the_same_walks() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
